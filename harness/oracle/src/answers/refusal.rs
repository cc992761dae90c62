//! Property 10: a request is refused only for a reason that the oracle knows, and an ill-formed one always is.
//!
//! A reason belongs to a process run, an operation and a place: an error of the device excuses what it can explain, in the process run that met it;
//! damage does so while it is on the medium; a full device while it is full; a close for what comes after it.

use super::limits::Shape;
use super::space::{Room, record_bytes};
use crate::history::{Origin, Pos};
use crate::keys::Content;
use crate::oracle::Oracle;
use crate::property::Property;
use crate::state::outstanding::{Asked, Outstanding};
use crate::truth::DeviceTruth;
use crate::violation::{Facts, Symptom, Violation};
use crate::words::{answer, message};
use kvsim_sim::FullTakes;
use kvsim_sim::api::{Durability, Mutation, Reply, Request, Status};
use std::sync::Arc;

const NO_WRITE_FAILED: &str = "no write and no flush of the device has failed since the guest was started, and no read since it was handed in";
const NOTHING_FAILED: &str = "nothing of the device has failed since the guest was started";

impl Oracle {
    /// Whether a request that is handed in now is well formed.
    pub(crate) fn shape_of(&self, request: &Request) -> Shape {
        // A snapshot whose making or release is not answered is there or not, and a client that knows its number cannot tell.
        let open = || {
            let mut asked = self.outstanding.values().map(|request| request.asked);
            asked.any(|asked| matches!(asked, Asked::Snapshot | Asked::Release))
        };
        self.config.limits.shape(request, |id| match id {
            0 => Shape::WellFormed,
            _ if open() => Shape::Open,
            id if self.snapshots.contains_key(&id) => Shape::WellFormed,
            _ => Shape::IllFormed("there is no such snapshot"),
        })
    }

    /// An ill-formed request is handed in: none of its writes may ever be seen.
    pub(crate) fn push_ill_formed(&mut self, origin: Origin, request: &Request) {
        let mut refused: Vec<(&[u8], Content)> = Vec::new();
        match request {
            Request::Put { key, value, .. } => refused.push((key, Content::of(value))),
            Request::Batch { mutations, .. } => {
                refused.extend(mutations.iter().map(|mutation| match mutation {
                    Mutation::Put { key, value } => (&key[..], Content::of(value)),
                    Mutation::Delete { key } => (&key[..], Content::ABSENT),
                }));
            }
            _ => return,
        }
        // A key that no guest takes is asked for by nobody.
        let limits = self.config.limits;
        let sound = |key: &[u8]| limits.mutation(key, 0) == Shape::WellFormed;
        let refused = refused.into_iter().filter(|(key, _)| sound(key));
        let now = origin.handed_in_ns;
        let pos = self.history.push(origin, Durability::Durable, refused);
        self.history
            .resolve(pos, now, Status::Invalid, None, self.ops);
    }

    /// A write was handed in: it takes space. Gives what it needs room for.
    pub(crate) fn note_space(&mut self, pos: Pos, request: &Request) -> Room {
        let limits = self.config.limits;
        let is_batch = matches!(request, Request::Batch { .. });
        // What a snapshot holds is not given back.
        let mut room = match self.snapshots.is_empty() && self.coming_snapshots().next().is_none() {
            true => Room::None,
            false => Room::More,
        };
        let space = Arc::make_mut(&mut self.space);
        let mut wrote = |key: &[u8], value: Option<&[u8]>| {
            let Some(id) = self.history.keys.get(key) else {
                return;
            };
            let content = value.map_or(Content::ABSENT, Content::of);
            let bytes = record_bytes(&limits, key.len(), value.map_or(0, <[u8]>::len));
            room = room.max(match value {
                None => Room::None,
                // A guest may put a value of a batch elsewhere than one that is put alone.
                Some(_) if is_batch => Room::More,
                Some(value) => space.room(id, value.len(), bytes),
            });
            space.wrote(pos, id, content, bytes);
        };
        match request {
            Request::Put { key, value, .. } => wrote(key, Some(value)),
            Request::Delete { key, .. } => wrote(key, None),
            Request::Batch { mutations, .. } if mutations.is_empty() => return Room::More,
            Request::Batch { mutations, .. } => {
                for mutation in mutations {
                    match mutation {
                        Mutation::Put { key, value } => wrote(key, Some(value)),
                        Mutation::Delete { key } => wrote(key, None),
                    }
                }
            }
            _ => return Room::More,
        }
        room
    }

    /// Where the snapshots lie that are asked for.
    fn coming_snapshots(&self) -> impl Iterator<Item = Pos> {
        let outstanding = self.outstanding.values();
        outstanding.filter_map(Outstanding::snapshot_at)
    }

    /// Everything up to there is durable: what these writes replaced takes no space, but for snapshots.
    pub(crate) fn note_durable(&mut self, upto: Pos) {
        let held = self.snapshots.values().map(|snapshot| snapshot.place.pos);
        let upto = held
            .chain(self.coming_snapshots())
            .min()
            .map_or(upto, |at| at.min(upto));
        if self.space.replaced_upto(upto) {
            Arc::make_mut(&mut self.space).not_needed(upto);
        }
    }

    /// Judges the answer to an ill-formed request, a refusal aside.
    pub(crate) fn ill_formed_replied(
        &mut self,
        op: u64,
        asked: Asked,
        shape: Shape,
        reply: &Reply,
    ) -> Result<(), Box<Violation>> {
        self.counts.ill_formed_refused += 1;
        match (shape, reply.status) {
            (Shape::IllFormed(why), Status::Ok | Status::NotFound) => {
                Err(self.taken_although_ill_formed(reply, op, asked, why))
            }
            _ => Ok(()),
        }
    }

    /// Judges an answer that is no success.
    pub(crate) fn judge_refusal(
        &mut self,
        reply: &Reply,
        outstanding: &Outstanding,
        truth: &DeviceTruth,
    ) -> Result<(), Box<Violation>> {
        let Outstanding { op, asked, .. } = *outstanding;
        if reply.status == Status::NotFound && !matches!(asked, Asked::Read { .. }) {
            return Err(self.wrong_reply(reply, &format!("op {op}, a {},", asked.name())));
        }
        if let Err(although) = self.excuse(reply.status, outstanding, truth) {
            return Err(self.false_refusal(reply, op, asked, &although, truth));
        }
        let is_report = matches!(reply.status, Status::Corruption | Status::IoError);
        self.counts.reports_accepted += u64::from(is_report);
        Ok(())
    }

    /// Whether there is a reason to answer so; if not, why not.
    fn excuse(
        &self,
        status: Status,
        outstanding: &Outstanding,
        truth: &DeviceTruth,
    ) -> Result<(), String> {
        let Outstanding {
            op, asked, shape, ..
        } = *outstanding;
        let run = &truth.this_run;
        let write_failed = run.write_failures + run.flush_failures + run.no_space > 0;
        let read_failed = run.read_failures > 0;
        let met = outstanding.faults_before;
        let read_failed_since = run.read_failures > met.read_failures;
        let excused = |excused: bool, although: &str| match excused {
            true => Ok(()),
            false => Err(format!("although {although}")),
        };
        match status {
            Status::Ok | Status::NotFound => Ok(()),
            Status::Invalid => {
                // That a snapshot is gone has a name of its own.
                let of_snapshot = asked == Asked::Read { of_snapshot: true };
                excused(
                    shape != Shape::WellFormed || of_snapshot,
                    "it is well formed",
                )
            }
            Status::Corruption => excused(truth.has_shown_damage(), truth.no_damage()),
            // Whoever has an index on the device reads it to write.
            Status::IoError if asked.writes() => excused(
                write_failed || read_failed_since || (asked == Asked::Close && read_failed),
                NO_WRITE_FAILED,
            ),
            Status::IoError => excused(
                read_failed_since,
                "no read of the device has failed since it was handed in",
            ),
            // A guest that cannot read a part of its index may take no more writes.
            Status::ReadOnly => excused(
                asked.writes() && (write_failed || read_failed || truth.has_shown_damage()),
                NOTHING_FAILED,
            ),
            Status::NoSpace if asked.writes() && run.no_space > met.no_space => Ok(()),
            Status::NoSpace if self.takes_when_full(outstanding.room) && truth.is_unharmed() => {
                let why = match outstanding.room {
                    Room::None => "it only deletes",
                    _ => "its value replaces one of the same length",
                };
                Err(format!(
                    "although {why}, and the policy `full_takes` says that the guest takes that however full the device is"
                ))
            }
            Status::NoSpace if asked.writes() => self.no_space(truth),
            Status::NoSpace => excused(false, "it takes no space"),
            Status::Closed => excused(
                self.closing.is_some_and(|close| close < op),
                "no close was handed in before it",
            ),
        }
    }

    /// Whether the guest has to take a write that needs room for this, however full the device is.
    fn takes_when_full(&self, room: Room) -> bool {
        match self.config.policies.full_takes {
            FullTakes::Nothing => false,
            FullTakes::Deletes => room == Room::None,
            FullTakes::Overwrites => room <= Room::Same,
        }
    }

    fn false_refusal(
        &self,
        reply: &Reply,
        op: u64,
        asked: Asked,
        although: &str,
        truth: &DeviceTruth,
    ) -> Box<Violation> {
        let (property, symptom) = match reply.status {
            Status::Corruption => (Property::AcknowledgedDurable, Symptom::FalseAlarm),
            Status::IoError => (Property::NoFalseRefusal, Symptom::FalseAlarm),
            // All that was ever written would fit: then it is no matter of giving space back.
            Status::NoSpace if self.space.written_bytes() > self.usable_bytes(truth) => {
                (Property::SpaceReturns, Symptom::SpaceKept)
            }
            _ => (Property::NoFalseRefusal, Symptom::FalseRefusal),
        };
        let facts = Facts {
            op: Some(op),
            found: message(reply),
            ..self.facts()
        };
        let name = asked.name();
        let sentence = format!(
            "op {op}, a {name}, was answered {}, {although}",
            answer(reply)
        );
        Violation::new(property, symptom, sentence, facts)
    }

    /// Whether the guest may say that there is no space, although no fault has said so; if not, why not.
    ///
    /// What was damaged may not be given back, and a guest that met an error may not clean. Then all that was ever written may take space.
    pub(crate) fn no_space(&self, truth: &DeviceTruth) -> Result<(), String> {
        if truth.capacity_bytes == 0 {
            return Ok(());
        }
        let usable_bytes = self.usable_bytes(truth);
        let capacity_bytes = truth.capacity_bytes;
        let can_clean = truth.is_unharmed();
        let bytes = match can_clean {
            true => self.space.bytes(),
            false => self.space.written_bytes(),
        };
        if bytes > usable_bytes {
            return Ok(());
        }
        Err(match can_clean {
            true => format!(
                "although it has to hold {bytes} bytes at most, and can hold {usable_bytes} on this device of {capacity_bytes} bytes"
            ),
            false => format!(
                "although only {bytes} bytes were ever written, and it can hold {usable_bytes} on this device of {capacity_bytes} bytes, \
                 whatever has failed"
            ),
        })
    }

    /// Bytes that the guest has to be able to hold on this device.
    pub(crate) fn usable_bytes(&self, truth: &DeviceTruth) -> u64 {
        let limits = &self.config.limits;
        truth.capacity_bytes / 10_000 * (limits.data_percent * limits.usable_percent)
    }

    /// An ill-formed request was answered as if it were well formed.
    pub(crate) fn taken_although_ill_formed(
        &self,
        reply: &Reply,
        op: u64,
        asked: Asked,
        why: &str,
    ) -> Box<Violation> {
        let facts = Facts {
            op: Some(op),
            ..self.facts()
        };
        let sentence = format!(
            "op {op}, a {}, was answered {}, although `Invalid` is due: {why}",
            asked.name(),
            answer(reply)
        );
        Violation::new(
            Property::NoFalseRefusal,
            Symptom::IllFormedTaken,
            sentence,
            facts,
        )
    }
}
