//! Work that goes on after a recovery before anything is read back. Reading first would hide bugs that need writes on top of a recovered
//! state that nobody has looked at.
//!
//! Until it is read back nobody knows which legal state the recovery has found, so nothing is judged: requests and answers are kept. Then the
//! reading back says of each key that was not written meanwhile what the recovery has found, the oracle adopts that, and all that was kept is
//! judged in its order; keys that were written meanwhile stay open until their first write. At last the reading back is held against the
//! state at its end.

use crate::oracle::Oracle;
use crate::recoveries::observation::{Observation, Seen};
use crate::recoveries::recovery::Recovery;
use crate::state::deferred::{Deferred, Event};
use crate::state::views::{Provisional, ReadVerdict};
use crate::truth::DeviceTruth;
use crate::violation::Violation;
use kvsim_simdisk::Nanos;

impl Oracle {
    /// From now on clients work on a guest that was opened and not read back.
    pub fn defer(&mut self, now: Nanos) {
        self.deferred = Some(Deferred {
            began_ns: now,
            events: Vec::new(),
            handed_in: 0,
            replied: 0,
        });
    }

    /// Whether clients work on a guest that was not read back.
    #[must_use]
    pub fn is_deferring(&self) -> bool {
        self.deferred.is_some()
    }

    /// An oracle that knows all keys and values that were handed in meanwhile, for the reading back and for nothing else.
    #[must_use]
    pub fn for_late_reading(&self) -> Oracle {
        let mut reader = self.clone();
        let Some(deferred) = reader.deferred.take() else {
            return reader;
        };
        reader.name_written(&deferred);
        for event in deferred.events {
            match event {
                Event::HandedIn {
                    now,
                    client,
                    id,
                    request,
                } => drop(reader.handed_in(now, client, id, &request)),
                Event::Replied { now, reply, truth } => reader.take_write(now, &reply, &truth),
            }
        }
        reader
    }

    /// Judges what was read back when all that was handed in meanwhile was answered, and all of that; then goes on from there.
    ///
    /// # Errors
    /// The violation that one of them is.
    pub fn judge_late(
        &mut self,
        seen: &Observation,
        truth: &DeviceTruth,
    ) -> Result<Recovery, Box<Violation>> {
        let deferred = self
            .deferred
            .take()
            .expect("only what was deferred is judged late");
        let written = deferred.written();
        let mut found = seen.clone();
        found.table.truncate(self.history.key_count());
        for id in written
            .iter()
            .filter_map(|name| self.history.keys.get(name))
        {
            if let Some(entry) = found.table.get_mut(id as usize) {
                *entry = Seen::Unasked;
            }
        }
        let mut recovery = self.judge(&found, truth)?;
        if !written.is_empty() && self.may_excuse(truth) {
            // The keys that could be judged need no excuse. The others are still open, and may need one.
            let lowest = self.must_survive_despite_lies(truth);
            recovery.lowest = recovery.lowest.min(lowest);
        }
        self.adopt(deferred.began_ns, &recovery, &found, truth);
        let written: Vec<Vec<u8>> = written.into_iter().map(<[u8]>::to_vec).collect();
        self.name_written(&deferred);
        for event in deferred.events {
            match event {
                Event::HandedIn {
                    now,
                    client,
                    id,
                    request,
                } => drop(self.handed_in(now, client, id, &request)),
                Event::Replied { now, reply, truth } => self.replied(now, &reply, &truth)?,
            }
        }
        for key in written
            .iter()
            .filter_map(|name| self.history.keys.get(name))
        {
            let Some(content) = seen.content(key) else {
                continue;
            };
            let read = Provisional {
                op: self.ops,
                key,
                place: self.place_now(self.ops + 1),
                content,
            };
            if let ReadVerdict::Wrong = self.read_verdict(&read) {
                return Err(self.wrong_read(&read, "the reading back after the answer"));
            }
        }
        Ok(recovery)
    }

    /// Numbers the keys that were to be written. Whoever reads back does so too, and it knows less of the answers: which key was named first would differ.
    fn name_written(&mut self, deferred: &Deferred) {
        for name in deferred.named() {
            self.history.intern(name);
        }
    }
}
