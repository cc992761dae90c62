//! Recordings with one call left out, which have to be caught: a judge that never found anything is not known to look.
//!
//! A seed draws the call by way of an acknowledgement. For a durable write that was acknowledged, its bytes are looked
//! for in what was written between its hand-in and its acknowledgement. If a write-through brought them, and nothing
//! else made them durable in that time, the acknowledgement depends on that write-through. If a plain write brought
//! them, it depends on the one flush that covered them.

use std::collections::BTreeMap;

use kvsim_native::Durability;
use kvsim_native::record::{Asked, Call, CallId, Event, What};
use kvsim_simdisk::rng::Rng;

use super::judge::Found;
use super::session::Session;
use kvsim_api::value::FULL_BYTES_MIN;

/// Acknowledgements that are drawn before none is said to rest on one call alone.
const DRAWS: u64 = 500;

/// What a call was, had it not been left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A flush.
    Flush,
    /// A write that was durable when it ended.
    WriteThrough,
}

/// A recording with one call left out.
#[derive(Debug, Clone)]
pub struct TakenOut {
    /// Which session, from 1.
    pub session: u64,
    /// The event of it that is the acknowledgement.
    pub event: usize,
    /// What it was.
    pub kind: Kind,
    /// How it was noticed, if it was.
    pub found: Option<Found>,
}

/// A call that may be left out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) call: CallId,
    pub(crate) kind: Kind,
    /// The acknowledgement that depends on it.
    pub(crate) acknowledged: usize,
}

/// A durable write from its hand-in to its acknowledgement, by the numbers of these events.
struct Acknowledged<'a> {
    handed_in: usize,
    answered: usize,
    /// The beginning of its value, which says whose it is: no other write has the same.
    bytes: &'a [u8],
}

/// Draws a call on which an acknowledgement depends, if there is one.
pub(crate) fn draw(session: &Session, rng: &mut Rng) -> Option<Candidate> {
    let all = acknowledged(&session.events);
    if all.is_empty() {
        return None;
    }
    (0..DRAWS).find_map(|_| {
        let drawn = rng.below(all.len() as u64);
        relied_on(&session.events, &all[usize::try_from(drawn).ok()?])
    })
}

fn acknowledged(events: &[Event]) -> Vec<Acknowledged<'_>> {
    let mut open = BTreeMap::new();
    let mut all = Vec::new();
    for (at, event) in events.iter().enumerate() {
        match &event.what {
            What::HandedIn(id, asked) => {
                open.remove(id);
                if let Asked::Write {
                    changes,
                    durability: Durability::Durable,
                } = asked
                {
                    let value = changes.iter().find_map(|change| change.value.as_deref());
                    if let Some(bytes) = value.and_then(|value| value.get(..FULL_BYTES_MIN)) {
                        open.insert(*id, (at, bytes));
                    }
                }
            }
            What::Answered(id, Ok(())) => {
                if let Some((handed_in, bytes)) = open.remove(id) {
                    all.push(Acknowledged {
                        handed_in,
                        answered: at,
                        bytes,
                    });
                }
            }
            _ => {}
        }
    }
    all
}

/// The one call that made it durable, if it was one.
fn relied_on(events: &[Event], write: &Acknowledged<'_>) -> Option<Candidate> {
    // Calls that brought it, and whether they were write-throughs; flushes that began after one of them had ended.
    let mut bringing: BTreeMap<CallId, bool> = BTreeMap::new();
    let mut brought = false;
    let mut flushing: Vec<CallId> = Vec::new();
    let mut made_durable: Vec<(CallId, Kind)> = Vec::new();
    for event in &events[write.handed_in..write.answered] {
        match &event.what {
            What::Begun(id, Call::Write { data, through, .. }) if holds(data, write.bytes) => {
                bringing.insert(*id, *through);
            }
            What::Begun(id, Call::Flush) if brought => flushing.push(*id),
            What::Ended(id, Ok(_)) => {
                if let Some(through) = bringing.get(id) {
                    brought = true;
                    made_durable.extend(through.then_some((*id, Kind::WriteThrough)));
                } else if flushing.contains(id) {
                    made_durable.push((*id, Kind::Flush));
                }
            }
            _ => {}
        }
    }
    match made_durable[..] {
        [(call, kind)] => Some(Candidate {
            call,
            kind,
            acknowledged: write.answered,
        }),
        _ => None,
    }
}

fn holds(data: &[u8], bytes: &[u8]) -> bool {
    data.windows(bytes.len()).any(|window| window == bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvsim_native::record::Change;

    const VALUE: [u8; FULL_BYTES_MIN] = [7; FULL_BYTES_MIN];

    fn write(call: CallId, through: bool) -> What {
        let mut data = vec![0; 512];
        data[100..100 + VALUE.len()].copy_from_slice(&VALUE);
        let data = data.into();
        What::Begun(
            call,
            Call::Write {
                offset: 0,
                data,
                through,
            },
        )
    }

    fn flush(call: CallId) -> What {
        What::Begun(call, Call::Flush)
    }

    fn ended(call: CallId) -> What {
        What::Ended(call, Ok(512))
    }

    /// The call on which the acknowledgement of one durable put depends, if these things happen in between.
    fn depends_on(between: Vec<What>) -> Option<(CallId, Kind)> {
        let changes = vec![Change {
            key: (*b"key").into(),
            value: Some(VALUE.into()),
        }];
        let asked = Asked::Write {
            changes,
            durability: Durability::Durable,
        };
        let mut all = vec![What::HandedIn(3, asked)];
        all.extend(between);
        all.push(What::Answered(3, Ok(())));
        let events: Vec<Event> = all
            .into_iter()
            .map(|what| Event { at_ns: 0, what })
            .collect();
        let acknowledged = acknowledged(&events);
        assert_eq!(acknowledged.len(), 1);
        let found = relied_on(&events, &acknowledged[0]);
        found.map(|candidate| (candidate.call, candidate.kind))
    }

    /// Goal: what is left out is what the acknowledgement depends on, and on nothing else. Method: a write-through, a write and its
    /// flush; then a flush that began too early, two that would each do, and no durable write at all.
    #[test]
    fn the_one_call_is_found() {
        let through = vec![write(1, true), ended(1)];
        assert_eq!(depends_on(through), Some((1, Kind::WriteThrough)));
        let flushed = vec![write(1, false), ended(1), flush(2), ended(2)];
        assert_eq!(depends_on(flushed), Some((2, Kind::Flush)));
        let early = vec![write(1, false), flush(2), ended(1), ended(2)];
        assert_eq!(depends_on(early), None);
        let both = vec![write(1, true), ended(1), flush(2), ended(2)];
        assert_eq!(depends_on(both), None);
        let elsewhere = vec![flush(2), ended(2)];
        assert_eq!(depends_on(elsewhere), None);
    }
}
