//! Blind writes: a write of a key whose entry was forgotten does not wait for that entry. What it replaces is looked up behind it, and subtracted from what is counted.
//!
//! Until then live bytes, the number of keys and the room that the index takes are upper bounds. So a segment stays a little longer, and a write that would be refused
//! waits until the count is exact.
//!
//! A write waits for the entry all the same where somebody has to see what it replaces: a snapshot, or a get that is waiting for the key. Also as long as a checkpoint is
//! about to replace the runs, and where too many keys are still to be looked up.
//!
//! Invariants:
//! - what the runs have of such a key is what was counted when it was written: memory knows of the key from then on, so nothing else replaces or moves that entry, and the runs stay these until it
//!   is subtracted;
//! - so a segment that it refers to has live bytes, and is not freed;
//! - it is subtracted once: by the key's lookup, or by whatever else meets it first in the runs.

use std::collections::{BTreeSet, VecDeque};

use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::api::port::{Level, Nanos};
use crate::core::Core;
use crate::format::damage::Mismatch;
use crate::index::key::Key;
use crate::index::place::Version;
use crate::mutant::{Mutant, mutant};

/// Keys of one write, and keys beyond those that are gathered, that may still be to be looked up. A checkpoint waits for them before it replaces the runs.
const KEYS_MAX: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Blind {
    /// Keys that were written blindly, and whose entries in the runs still count.
    keys: BTreeSet<Key>,
    /// Those of them whose lookup has not begun, in the order of the writes.
    to_read: VecDeque<Key>,
    /// Those of them that are gathered, to be looked up together. Some may be subtracted by now.
    gathered: Vec<Key>,
    /// When the first of these was written.
    since: Nanos,
    /// Somebody waits until everything is counted exactly.
    awaited: bool,
    /// What was gathered is being subtracted.
    subtracting: bool,
    /// A checkpoint is about to replace the runs.
    stopped: bool,
}

impl Blind {
    pub(super) fn has(&self, key: &Key) -> bool {
        !self.keys.is_empty() && self.keys.contains(key)
    }

    /// Whether so many keys may be written blindly at all, now or when there is room.
    pub(super) fn takes(&self, keys: usize) -> bool {
        !self.stopped && keys <= KEYS_MAX
    }

    /// Whether there is room for so many more where so many are gathered.
    pub(super) fn has_room(&self, keys: usize, gathered: usize) -> bool {
        self.keys.len() + keys <= KEYS_MAX + 2 * gathered
    }

    /// Keys that wait to be looked up together.
    pub(super) fn gathered(&self) -> usize {
        self.gathered.len()
    }

    pub(super) fn since(&self) -> Nanos {
        self.since
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.awaited || self.stopped
    }

    /// Somebody waits until everything is counted exactly.
    pub(super) fn hurry(&mut self) {
        self.awaited = true;
    }

    pub(super) fn is_subtracting(&self) -> bool {
        self.subtracting
    }

    pub(super) fn begin_subtracting(&mut self) {
        self.subtracting = true;
    }

    pub(super) fn end_subtracting(&mut self) {
        self.subtracting = false;
    }

    /// The gathered keys that still count, ascending.
    pub(super) fn take_gathered(&mut self) -> Vec<Key> {
        self.awaited = false;
        let mut gathered = std::mem::take(&mut self.gathered);
        gathered.retain(|key| self.keys.contains(key));
        gathered.sort_unstable();
        gathered.dedup();
        gathered
    }

    /// Those that are gathered are looked up one by one.
    pub(super) fn look_up_gathered(&mut self) {
        let gathered = self.take_gathered();
        self.to_read.extend(gathered);
    }

    /// A key that still counts is looked up for itself.
    pub(super) fn look_up_later(&mut self, key: &Key) {
        if self.keys.contains(key) {
            self.to_read.push_back(key.clone());
        }
    }

    /// Whether everything is counted exactly.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The next key to look up.
    pub(super) fn next(&mut self) -> Option<Key> {
        self.to_read.pop_front()
    }
}

impl Core {
    /// These keys, which memory does not know of, are about to be written.
    pub(crate) fn note_blind(&mut self, keys: Vec<Key>) {
        if keys.is_empty() {
            return;
        }
        self.reached(CoveragePoint::WrittenBlindly);
        let now = self.now;
        let blind = &mut self.lookups.blind;
        for key in keys {
            if !blind.keys.insert(key.clone()) {
                continue;
            }
            if blind.is_awaited() {
                blind.to_read.push_back(key);
                continue;
            }
            if blind.gathered.is_empty() {
                blind.since = now;
            }
            blind.gathered.push(key);
        }
    }

    /// Whether the key was written blindly, and what that replaced still counts.
    pub(crate) fn is_blind(&self, key: &[u8]) -> bool {
        !self.lookups.blind.is_empty() && self.lookups.blind.has(&Key::new(key))
    }

    /// Subtracts what a blind write replaced. False if the key was not written blindly.
    pub(super) fn subtract_replaced(
        &mut self,
        key: &Key,
        version: &Version,
    ) -> Result<bool, Mismatch> {
        if !self.lookups.blind.has(key) {
            return Ok(false);
        }
        self.check_learnt(&version.place)?;
        self.lookups.blind.keys.remove(key);
        if !mutant(Mutant::ReplacedStaysCounted) {
            self.index.subtract(key, version);
            self.remove_live(key.bytes(), &version.place);
        }
        self.activity += 1;
        Ok(true)
    }

    /// No run has the key any more: there is nothing to subtract.
    pub(super) fn nothing_replaced(&mut self, key: &Key) {
        self.lookups.blind.keys.remove(key);
    }

    /// What a blind write replaced cannot be read. It counts until the next opening, which counts anew.
    pub(super) fn leave_replaced(&mut self, key: &Key, error: &Error) {
        if self.lookups.blind.keys.remove(key) {
            self.log_line(
                Level::Error,
                format!(
                    "the space of an overwritten value is lost until the next opening: {error}"
                ),
            );
        }
    }

    /// From here on writes wait for the entries that they replace. `None` as long as some are still to be subtracted.
    pub(crate) fn stop_blind_writes(&mut self) -> Option<()> {
        let blind = &mut self.lookups.blind;
        if mutant(Mutant::RunsReplacedUnderBlindWrites) || blind.keys.is_empty() {
            blind.stopped = true;
            return Some(());
        }
        if !std::mem::replace(&mut blind.stopped, true) {
            self.reached(CoveragePoint::CheckpointAwaitedBlindWrites);
        }
        None
    }

    /// The runs were replaced, or stay as they are.
    pub(crate) fn go_on_blindly(&mut self) {
        self.lookups.blind.stopped = false;
        self.activity += 1;
    }
}
