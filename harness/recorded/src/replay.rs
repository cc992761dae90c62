//! A recording, step by step: calls go to the simulated device, requests and answers to the oracle.
//!
//! How a call maps to the device. A write is pending from its begin, and complete when it has ended; a write-through is
//! durable then. A flush that has ended covers what had ended before the flush began. A write beyond the end makes the
//! file longer, and that is pending as well. A short transfer is complete as far as it went. A failed call stays
//! pending for ever: any part of it may be on the medium.
//!
//! Invariant: the replay stops between any two events that change the device, with everything answered that was answered by then.

use std::collections::{BTreeMap, BTreeSet};

use kvsim_native::record::{Asked, Call, CallId, Event, What};
use kvsim_sim::api::{self, Mutation, Reply, Request, RequestId};
use kvsim_simdisk::{Cache, Device, DeviceConfig, FaultConfig, Image, Op, OpId};

use super::recover::status_in_api;
use super::session::Session;
use kvsim_oracle::{DeviceTruth, Oracle, Violation};

/// A device has at least this much; a file of this size stands for one that has nothing yet, which no other file of ours is.
pub(crate) const NOTHING_BYTES: u64 = 4096;

/// Where a replay stands.
pub(crate) struct Replay<'a> {
    session: &'a Session,
    /// A flush that is left out, or a write whose write-through is.
    left_out: Option<CallId>,
    device: Device,
    oracle: Oracle,
    /// The next event.
    at: usize,
    /// Calls under way.
    calls: BTreeMap<CallId, OpId>,
    /// Transfers that were cut short, and where.
    short: BTreeMap<CallId, u64>,
    asked: BTreeSet<RequestId>,
    /// The opening was answered.
    opened: bool,
    name: Name,
}

/// The file's name in its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    None,
    /// Given, and lost by a cut or not.
    Volatile,
    /// The directory's flush is under way.
    Flushing(CallId),
    Durable,
}

/// Why a replay cannot go on.
#[derive(Debug)]
pub(crate) enum Stuck {
    /// An answer was wrong by itself.
    Violation(Box<Violation>),
    /// The recording makes no sense.
    Unsound(String),
}

impl<'a> Replay<'a> {
    pub(crate) fn new(
        session: &'a Session,
        faults: &FaultConfig,
        seed: u64,
        left_out: Option<CallId>,
    ) -> Result<Replay<'a>, String> {
        let info = &session.opening.config.device;
        let image = match &session.before {
            Some(image) => image.clone(),
            None => Image::new(NOTHING_BYTES),
        };
        let config = DeviceConfig {
            sector_bytes: info.sector_bytes,
            physical_block_bytes: info.physical_block_bytes,
            capacity_bytes: image.len_bytes(),
            max_capacity_bytes: info.max_capacity_bytes.max(image.len_bytes()),
            cache: if info.volatile_cache {
                Cache::Volatile
            } else {
                Cache::PowerLossProtected
            },
            fua: true,
            discard: false,
            ..DeviceConfig::default()
        };
        let device = Device::with_image(&config, faults, seed, image)
            .map_err(|error| format!("{}: {}", error.field, error.message))?;
        Ok(Replay {
            session,
            left_out,
            device,
            oracle: session.oracle_before.clone(),
            at: 0,
            calls: BTreeMap::new(),
            short: short_transfers(&session.events),
            asked: BTreeSet::new(),
            opened: false,
            name: match &session.before {
                Some(_) => Name::Durable,
                None => Name::None,
            },
        })
    }

    pub(crate) fn device(&mut self) -> &mut Device {
        &mut self.device
    }

    /// How many events have happened.
    pub(crate) fn events(&self) -> usize {
        self.at
    }

    /// When the last of them did.
    pub(crate) fn at_ns(&self) -> u64 {
        let last = self.at.checked_sub(1).map(|at| &self.session.events[at]);
        last.map_or(0, |event| event.at_ns)
    }

    /// An oracle for a power cut here.
    pub(crate) fn oracle_after_cut(&self) -> Oracle {
        let mut oracle = self.oracle.clone();
        oracle.stopped(self.at_ns(), kvsim_oracle::Ending::Crash);
        oracle
    }

    /// An honest device.
    fn truth(&self) -> DeviceTruth {
        DeviceTruth {
            last_flush_completed_ns: self.device.made_durable_at(),
            ..DeviceTruth::default()
        }
    }

    /// Goes on to the next place where a cut makes a difference; false at the end.
    pub(crate) fn next(&mut self) -> Result<bool, Stuck> {
        let mut moved = false;
        while let Some(event) = self.session.events.get(self.at) {
            let moves = self.moves_the_device(&event.what);
            if moved && moves {
                return Ok(true);
            }
            self.at += 1;
            moved |= moves;
            self.happen(event)?;
        }
        Ok(moved)
    }

    /// Whether a cut before and one after it differ.
    fn moves_the_device(&self, what: &What) -> bool {
        match what {
            What::Begun(_, call) => {
                matches!(call, Call::Write { .. } | Call::Grow { .. } | Call::Rename)
            }
            What::Ended(id, _) => self.calls.contains_key(id),
            What::Opening(_) | What::HandedIn(..) | What::Answered(..) => false,
        }
    }

    /// Whether a cut may leave no file of this name, and whether it may leave one.
    pub(crate) fn may_be_nameless(&self) -> (bool, bool) {
        (self.name != Name::Durable, self.name != Name::None)
    }

    fn happen(&mut self, event: &Event) -> Result<(), Stuck> {
        let now = event.at_ns;
        match &event.what {
            What::Begun(id, call) => self.begin(now, *id, call),
            What::Ended(id, result) => {
                if self.name == Name::Flushing(*id) && result.is_ok() {
                    self.name = Name::Durable;
                }
                if let (Some(op), Ok(_)) = (self.calls.remove(id), result) {
                    self.device.complete(now, op);
                }
                Ok(())
            }
            What::Opening(_) => Ok(()),
            What::HandedIn(id, asked) => {
                if let Some(request) = in_api(asked) {
                    self.asked.insert(*id);
                    self.oracle.handed_in(now, writer(&request), *id, &request);
                }
                Ok(())
            }
            What::Answered(0, Ok(())) if !self.opened => {
                self.opened = true;
                self.oracle = self.session.oracle_opened.clone();
                Ok(())
            }
            What::Answered(id, outcome) => {
                if !self.asked.remove(id) {
                    return Ok(());
                }
                let reply = Reply {
                    id: *id,
                    status: outcome.err().map_or(api::Status::Ok, status_in_api),
                    body: api::Body::Empty,
                };
                let truth = self.truth();
                let judged = self.oracle.replied(now, &reply, &truth);
                judged.map_err(Stuck::Violation)
            }
        }
    }

    fn begin(&mut self, now: u64, id: CallId, call: &Call) -> Result<(), Stuck> {
        let left_out = self.left_out == Some(id);
        let op = match call {
            Call::Read { .. } => return Ok(()),
            Call::Rename => {
                self.name = Name::Volatile;
                return Ok(());
            }
            Call::FlushDirectory => {
                self.name = Name::Flushing(id);
                return Ok(());
            }
            Call::Flush if left_out => return Ok(()),
            Call::Flush => self.submit(now, Op::Flush)?,
            Call::Grow { new_bytes } => self.submit(
                now,
                Op::Grow {
                    new_bytes: *new_bytes,
                },
            )?,
            Call::Write {
                offset,
                data,
                through,
            } => {
                let end = offset + data.len() as u64;
                if end > self.device.image().len_bytes() {
                    let growth = self.submit(now, Op::Grow { new_bytes: end })?;
                    self.device.complete(now, growth);
                }
                let through = *through && !left_out;
                let write = |offset, data: &[u8]| Op::Write {
                    offset,
                    data: data.into(),
                    through,
                };
                match self.short.get(&id).copied() {
                    // Nothing of it ended, so that it never will.
                    Some(0) => return self.submit(now, write(*offset, data)).map(|_| ()),
                    Some(done) => {
                        let at = usize::try_from(done).expect("within the write");
                        let (first, rest) = data.split_at(at);
                        let first = self.submit(now, write(*offset, first))?;
                        self.submit(now, write(offset + done, rest))?;
                        first
                    }
                    None => self.submit(
                        now,
                        Op::Write {
                            offset: *offset,
                            data: data.clone(),
                            through,
                        },
                    )?,
                }
            }
        };
        self.calls.insert(id, op);
        Ok(())
    }

    fn submit(&mut self, now: u64, op: Op) -> Result<OpId, Stuck> {
        let submitted = self.device.submit(now, 0, op);
        submitted.map_err(|error| Stuck::Unsound(format!("a call that no device takes: {error}")))
    }
}

fn short_transfers(events: &[Event]) -> BTreeMap<CallId, u64> {
    let mut wanted = BTreeMap::new();
    let mut short = BTreeMap::new();
    for event in events {
        match &event.what {
            What::Begun(id, Call::Write { data, .. }) => {
                wanted.insert(*id, data.len() as u64);
            }
            What::Ended(id, Ok(done)) if wanted.get(id).is_some_and(|wanted| done < wanted) => {
                short.insert(*id, *done);
            }
            _ => {}
        }
    }
    short
}

/// A request as the oracle knows it; nothing for one that changes nothing.
fn in_api(asked: &Asked) -> Option<Request> {
    Some(match asked {
        Asked::Read => return None,
        Asked::Sync => Request::Sync,
        Asked::Close => Request::Close,
        Asked::Write {
            changes,
            durability,
        } => Request::Batch {
            mutations: changes
                .iter()
                .map(|change| match &change.value {
                    Some(value) => Mutation::Put {
                        key: change.key.to_vec(),
                        value: value.to_vec(),
                    },
                    None => Mutation::Delete {
                        key: change.key.to_vec(),
                    },
                })
                .collect(),
            durability: match durability {
                kvsim_native::Durability::Durable => api::Durability::Durable,
                kvsim_native::Durability::Relaxed => api::Durability::Relaxed,
            },
        },
    })
}

/// Who wrote it, as its value says.
fn writer(request: &Request) -> u32 {
    let Request::Batch { mutations, .. } = request else {
        return 0;
    };
    let stamp = mutations.iter().find_map(|mutation| match mutation {
        Mutation::Put { value, .. } => match kvsim_api::value::read(value) {
            kvsim_api::value::Reading::Whole(stamp) => Some(stamp),
            _ => None,
        },
        Mutation::Delete { .. } => None,
    });
    stamp.map_or(0, |stamp| stamp.writer)
}
