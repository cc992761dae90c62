//! Blind writes: a write of a key whose entry was forgotten does not wait for that entry. What it replaces is looked up behind it, and subtracted from what is counted.
//!
//! Until then live bytes, the number of keys and the room that the index takes are upper bounds. So a segment stays a little longer, and a write that would be refused
//! waits until the count is exact.
//!
//! Where no value lies outside the index, there are no live bytes that keep a segment. Then nothing is looked up either: what such a write replaces stays counted, and checkpoints bound
//! that (`index/counting.rs`). A write that would be refused then waits for a checkpoint that writes all keys anew.
//!
//! A write waits for the entry all the same where somebody has to see what it replaces: a snapshot, or a get that is waiting for the key. Also where too many keys are still to
//! be looked up.
//!
//! Where a checkpoint replaces the runs before everything is subtracted, what is left is read from the runs of before, whose segments are held until then.
//!
//! Invariants:
//! - what the runs of its write have of such a key is what was counted then: nothing else replaces or moves that entry;
//! - so a segment that it refers to has live bytes, and is not freed;
//! - it is subtracted once: by the key's lookup, or by whatever else meets it first in the runs.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::api::port::{Level, Nanos};
use crate::checkpoint::runs::{Partition, segments_of};
use crate::core::Core;
use crate::format::damage::Mismatch;
use crate::index::key::Key;
use crate::index::place::Version;
use crate::mutant::{Mutant, mutant};

/// Keys of one write, and keys beyond those that are gathered, that may still be to be looked up.
const KEYS_MAX: usize = 1024;
/// What a key takes of memory here: in the set, and where it is gathered.
const KEY_BYTES: u64 = 80;

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
    /// What was still to be subtracted when the runs were replaced, the oldest first.
    left: VecDeque<Left>,
}

/// What a write that does not wait replaces without knowing it.
#[derive(Debug, Default)]
pub(crate) struct Unseen {
    /// What these keys have is looked up behind the write.
    pub(super) keys: Vec<Key>,
    /// What so many keys have stays counted.
    pub(super) left_counted: usize,
}

/// Keys that were written blindly, and whose entries in these runs, which were replaced since, still count.
#[derive(Debug)]
struct Left {
    keys: BTreeSet<Key>,
    partitions: Arc<Vec<Partition>>,
    /// The segments that these runs lie in, held. What their entries refer to still counts, so it stays anyway.
    segments: Vec<u32>,
}

impl Blind {
    pub(super) fn has(&self, key: &Key) -> bool {
        !self.keys.is_empty() && self.keys.contains(key)
    }

    /// Whether what a write of the key replaced still counts, in the runs of now or of before.
    pub(super) fn counts(&self, key: &Key) -> bool {
        self.has(key) || self.left.iter().any(|left| left.keys.contains(key))
    }

    /// Whether so many keys may be written blindly at all, now or when there is room.
    pub(super) fn takes(keys: usize) -> bool {
        keys <= KEYS_MAX
    }

    /// Whether there is room for so many more where so many are gathered.
    pub(super) fn has_room(&self, keys: usize, gathered: usize) -> bool {
        self.count() + keys <= KEYS_MAX + 2 * gathered
    }

    /// Keys that are still to be subtracted.
    fn count(&self) -> usize {
        let left = self.left.iter().map(|left| left.keys.len());
        self.keys.len() + left.sum::<usize>()
    }

    /// What these keys take of memory, about.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.count() as u64 * KEY_BYTES
    }

    /// Keys that wait to be looked up together.
    pub(super) fn gathered(&self) -> usize {
        self.gathered.len()
    }

    pub(super) fn since(&self) -> Nanos {
        self.since
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.awaited
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

    /// Nobody waits any more.
    pub(super) fn hurry_no_longer(&mut self) {
        self.awaited = false;
    }

    /// The gathered keys that still count, ascending.
    pub(super) fn take_gathered(&mut self) -> Vec<Key> {
        self.hurry_no_longer();
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

    /// Whether everything is counted exactly.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.left.is_empty()
    }

    /// Whether something is left to be read from runs that were replaced.
    pub(super) fn has_left(&self) -> bool {
        !self.left.is_empty()
    }

    /// The keys of the oldest runs that something is left of, ascending, and these runs.
    pub(super) fn first_left(&self) -> Option<(Vec<Key>, Arc<Vec<Partition>>)> {
        let left = self.left.front()?;
        let keys = left.keys.iter().cloned().collect();
        Some((keys, left.partitions.clone()))
    }

    /// Whether what these runs have of a key still counts.
    pub(super) fn counts_of(&self, key: &Key, of: Of) -> bool {
        match of {
            Of::Left => self.left.front().is_some_and(|it| it.keys.contains(key)),
            Of::Now => self.keys.contains(key),
        }
    }

    /// A key does not count any more, in the runs of now, or in the oldest that something is left of. Whether it did.
    pub(super) fn take(&mut self, key: &Key, of: Of) -> bool {
        match (of, self.left.front_mut()) {
            (Of::Left, Some(left)) => left.keys.remove(key),
            (Of::Left, None) => false,
            (Of::Now, _) => self.keys.remove(key),
        }
    }

    /// The next key to look up.
    pub(super) fn next(&mut self) -> Option<Key> {
        self.to_read.pop_front()
    }
}

/// Which runs have what still counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// Those that were replaced, the oldest first.
    Left,
    Now,
}

impl Core {
    /// A write of keys that memory does not know of is about to be made.
    pub(crate) fn note_blind(&mut self, unseen: Unseen) {
        if unseen.left_counted > 0 {
            self.index.note_surplus(unseen.left_counted);
            self.reached(CoveragePoint::ReplacedLeftCounted);
        }
        if unseen.keys.is_empty() {
            return;
        }
        self.reached(CoveragePoint::WrittenBlindly);
        let now = self.now;
        let blind = &mut self.lookups.blind;
        for key in unseen.keys {
            if !blind.keys.insert(key.clone()) {
                continue;
            }
            if blind.gathered.is_empty() {
                blind.since = now;
            }
            blind.gathered.push(key);
        }
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
        self.subtract_of(key, version, Of::Now)?;
        Ok(true)
    }

    /// The same of a key that was.
    pub(super) fn subtract_of(
        &mut self,
        key: &Key,
        version: &Version,
        of: Of,
    ) -> Result<(), Mismatch> {
        self.check_learnt(key, version)?;
        self.lookups.blind.take(key, of);
        if !mutant(Mutant::ReplacedStaysCounted) {
            self.index.subtract(key, version);
            self.remove_live(key.bytes(), &version.place);
        }
        self.activity += 1;
        Ok(())
    }

    /// No run has the key any more: there is nothing to subtract.
    pub(super) fn nothing_replaced(&mut self, key: &Key) {
        self.lookups.blind.keys.remove(key);
    }

    /// What a blind write replaced cannot be read. It counts until the next opening, which counts anew.
    pub(super) fn leave_replaced(&mut self, key: &Key, error: &Error, of: Of) {
        if self.lookups.blind.take(key, of) {
            self.log_line(
                Level::Error,
                format!(
                    "the space of an overwritten value is lost until the next opening: {error}"
                ),
            );
        }
    }

    /// The runs are about to be replaced, and before anything of them is freed: what still counts in them is read from them later.
    pub(crate) fn leave_blind_writes(&mut self) {
        let blind = &mut self.lookups.blind;
        if blind.keys.is_empty() || mutant(Mutant::RunsReplacedUnderBlindWrites) {
            return;
        }
        let keys = std::mem::take(&mut blind.keys);
        blind.to_read.clear();
        blind.gathered.clear();
        let under_way = keys
            .iter()
            .filter(|key| self.lookups.under_way.contains_key(key));
        for key in under_way.cloned().collect::<Vec<_>>() {
            self.answer_lookup(&key);
        }
        let partitions = self.runs.partitions.clone();
        let segments: Vec<u32> = match mutant(Mutant::ReplacedRunsNotHeld) {
            true => Vec::new(),
            false => segments_of(partitions.iter()).into_keys().collect(),
        };
        segments.iter().for_each(|it| self.segments.add_reader(*it));
        self.lookups.blind.left.push_back(Left {
            keys,
            partitions,
            segments,
        });
        self.reached(CoveragePoint::BlindWritesOutlivedRuns);
    }

    /// Nothing is left of the oldest runs that something was left of.
    pub(super) fn end_left(&mut self) {
        if let Some(left) = self.lookups.blind.left.pop_front() {
            let segments = left.segments.into_iter();
            segments.for_each(|it| self.segments.remove_reader(it));
            self.activity += 1;
        }
    }
}
