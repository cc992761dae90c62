//! The ordered index: for every key its newest version, and older ones as long as a snapshot needs them.
//!
//! The index is kept in memory and written by checkpoints, which ask it for what has changed (`writing.rs`). All other code uses it through get, set, relocate
//! and ranges both ways.
//!
//! Invariants:
//! - whatever changes the newest version of a key is noted as a change, and stays noted until a checkpoint that began later is published;
//! - a key that is removed while a checkpoint is being written is noted for that checkpoint too. Else the checkpoint would leave its older entry as it is,
//!   which may lead to a segment that is used for something else;
//! - a version is kept iff it is the newest (and no lone tombstone), or some snapshot lies in `[its sequence, the next
//!   version's sequence)`;
//! - every key that has an entry in the hash table has one in the order, and no other;
//! - whatever stops being kept is reported to the caller, who accounts for its bytes.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::api::port::Direction;
use crate::index::changes::Changes;
use crate::index::entry::pages_of;
use crate::index::key::Key;
use crate::index::order::Order;
use crate::index::place::{Place, Version};
use crate::index::resident::{Hand, memory_of, memory_of_place};
use crate::index::table::{Slot, Table};
use crate::index::weight::Weight;
use crate::index::writing::Writing;
use crate::mutant::{Mutant, mutant};

/// What became of an entry whose newest version was set.
#[derive(Debug)]
pub(crate) struct Set {
    /// Its number; `None` if there is none any more.
    pub(crate) slot: Option<Slot>,
    /// The version before, if that is not kept any more.
    pub(crate) old: Option<Version>,
}

/// A version that has got another place.
#[derive(Debug)]
pub(crate) struct Moved {
    /// The number of its entry, if it is the newest of its key.
    pub(crate) slot: Option<Slot>,
    /// Where it was before.
    pub(crate) from: Place,
}

// A version and its key are to fit in one cache line: see `table`.
const _: () = assert!(size_of::<Version>() + size_of::<Key>() <= 64);

#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(super) newest: Table<Version>,
    /// The same entries in the order of their keys.
    pub(super) order: Order,
    /// Older versions, oldest first. Almost no key has any, so they do not lie in the way of looking up.
    pub(super) history: BTreeMap<Key, Vec<Version>>,
    /// Sequences that some snapshot reads at, with how many do.
    snapshots: BTreeMap<u64, u32>,
    /// Live keys, those that were forgotten included.
    pub(super) counted: Weight,
    /// Writes have left counted what they replaced, so that is an upper bound (`counting.rs`): by about so many keys.
    pub(super) surplus: Option<u64>,
    /// What was put since the last checkpoint began, each time anew.
    pub(super) put: Weight,
    /// What the entries in memory take.
    pub(super) memory_bytes: u64,
    pub(super) hand: Hand,
    /// What has changed since the last checkpoint began.
    pub(super) changes: Changes,
    /// What the checkpoint under way has to write.
    pub(super) writing: Option<Writing>,
}

impl Index {
    /// Live keys; no fewer where there is a surplus.
    pub(crate) fn len(&self) -> u64 {
        self.counted.keys
    }

    /// Bytes of a checkpoint's pages at most.
    pub(crate) fn pages_bytes(&self) -> u64 {
        self.counted.pages_bytes
    }

    pub(crate) fn newest(&self, key: &[u8]) -> Option<&Version> {
        self.newest.get(key)
    }

    /// Whether the key's newest version is the one with this sequence.
    pub(crate) fn is_newest(&self, key: &[u8], sequence: u64) -> bool {
        let newest = self.newest(key);
        newest.is_some_and(|newest| newest.sequence == sequence)
    }

    /// The newest version, if it is of `since` or later and no snapshot reads it. Whoever changes its place accounts for it.
    pub(crate) fn newest_unheld(&mut self, key: &[u8], since: u64) -> Option<&mut Version> {
        let slot = self.newest.find(key)?;
        let version = self.newest.value_mut(slot);
        let held = is_held(&self.snapshots, version) && !mutant(Mutant::AbsorbedUnderSnapshot);
        (version.sequence >= since && !held).then(|| {
            self.changes.note(slot);
            version
        })
    }

    /// Whether a snapshot reads this newest version, so that it stays when it is replaced.
    pub(crate) fn is_held(&self, newest: &Version) -> bool {
        is_held(&self.snapshots, newest)
    }

    /// The version visible at a sequence, if it is no tombstone.
    pub(crate) fn get(&self, key: &[u8], at: u64) -> Option<&Version> {
        self.visible(key, self.newest.get(key)?, at)
    }

    pub(super) fn visible<'a>(
        &'a self,
        key: &[u8],
        newest: &'a Version,
        at: u64,
    ) -> Option<&'a Version> {
        let version = if newest.sequence <= at {
            newest
        } else {
            let older = self.history.get(&Key::new(key))?.iter().rev();
            older.into_iter().find(|version| version.sequence <= at)?
        };
        (version.place != Place::Tombstone).then_some(version)
    }

    /// Makes a version the newest of its key.
    pub(crate) fn set(&mut self, key: &[u8], version: Version) -> Set {
        let deleted = version.place == Place::Tombstone;
        let weight = Weight::of(key, &version);
        self.counted += weight;
        self.put += weight;
        let Some(slot) = self.newest.find(key) else {
            let slot = (!deleted).then(|| {
                self.memory_bytes += memory_of(key, &version);
                let slot = self.newest.insert(Key::new(key), version);
                self.order.insert(&self.newest, slot);
                self.changes.note(slot);
                slot
            });
            return Set { slot, old: None };
        };
        self.changes.note(slot);
        let newest = self.newest.value_mut(slot);
        self.memory_bytes += memory_of_place(&version.place);
        self.memory_bytes -= memory_of_place(&newest.place);
        let less = Weight::of(key, newest);
        let sequence = version.sequence;
        let old = std::mem::replace(newest, version);
        self.uncount(less);
        let mut held = self.snapshots.range(old.sequence..sequence);
        if held.next().is_some() {
            let history = self.history.entry(Key::new(key));
            history.or_default().push(old);
            return Set {
                slot: Some(slot),
                old: None,
            };
        }
        let has_history = !self.history.is_empty() && self.history.contains_key(&Key::new(key));
        if deleted && !has_history {
            self.memory_bytes -= memory_of(key, self.newest.value(slot));
            self.order.remove(&self.newest, slot);
            let (key, _) = self.newest.remove(slot);
            note_removed(&mut self.changes, &mut self.writing, key, sequence);
            return Set {
                slot: None,
                old: Some(old),
            };
        }
        Set {
            slot: Some(slot),
            old: Some(old),
        }
    }

    /// Gives the version of `key` with this sequence another place, if there is such a version.
    pub(crate) fn relocate(&mut self, key: &[u8], sequence: u64, place: Place) -> Option<Moved> {
        let slot = self.newest.find(key)?;
        let newest = self.newest.value(slot);
        if newest.sequence == sequence && newest.place != Place::Tombstone {
            return Some(self.relocate_newest(slot, key, place));
        }
        let mut older = self.history.get_mut(&Key::new(key))?.iter_mut();
        let version = older.find(|version| version.sequence == sequence)?;
        (version.place != Place::Tombstone).then(|| {
            let from = std::mem::replace(&mut version.place, place);
            Moved { slot: None, from }
        })
    }

    /// The same for the newest version of the entry of this number and key, without a look-up.
    pub(crate) fn relocate_newest(&mut self, slot: Slot, key: &[u8], place: Place) -> Moved {
        if !mutant(Mutant::MovesLeftOutOfCheckpoint) {
            self.changes.note(slot);
        }
        let newest = self.newest.value_mut(slot);
        self.memory_bytes += memory_of_place(&place);
        self.memory_bytes -= memory_of_place(&newest.place);
        let before = pages_of(key, newest);
        let from = std::mem::replace(&mut newest.place, place);
        let now = pages_of(key, newest);
        let pages = |pages_bytes| Weight {
            keys: 0,
            pages_bytes,
        };
        self.uncount(pages(before));
        self.count(pages(now));
        self.put.pages_bytes += now.saturating_sub(before);
        let slot = Some(slot);
        Moved { slot, from }
    }

    /// The entry of this number, if there is one: its key and the newest version.
    pub(crate) fn entry(&self, slot: Slot) -> Option<(&Key, &Version)> {
        self.newest.entry(slot)
    }

    /// All entries with their numbers.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Slot, &Version)> {
        let slots = self.order.slots();
        slots.map(|slot| (slot, self.newest.value(slot)))
    }

    /// The version of `key` with this sequence, newest or kept for a snapshot.
    pub(crate) fn version(&self, key: &[u8], sequence: u64) -> Option<&Version> {
        let newest = self.newest.get(key)?;
        if newest.sequence == sequence {
            return Some(newest);
        }
        let mut older = self.history.get(&Key::new(key))?.iter();
        older.find(|version| version.sequence == sequence)
    }

    /// All kept versions of a key.
    pub(crate) fn versions(&self, key: &[u8]) -> impl Iterator<Item = &Version> {
        let older = self.history.get(&Key::new(key)).into_iter().flatten();
        older.chain(self.newest.get(key))
    }

    /// All kept versions of all keys.
    pub(crate) fn everything(&self) -> impl Iterator<Item = (&[u8], &Version)> {
        let older = self.history.iter();
        let older = older.flat_map(|(key, all)| all.iter().map(|version| (key.bytes(), version)));
        let newest = self.order.slots();
        older.chain(newest.map(|slot| (self.newest.key(slot).bytes(), self.newest.value(slot))))
    }

    /// The entries between two bounds, by their keys.
    pub(super) fn in_order(
        &self,
        (start, end): &(Bound<Key>, Bound<Key>),
    ) -> impl DoubleEndedIterator<Item = (&Key, Slot)> + use<'_> {
        let bounds = (start.as_ref(), end.as_ref());
        let slots = self.order.range(&self.newest, bounds);
        slots.map(|slot| (self.newest.key(slot), slot))
    }

    /// Whether versions are kept for any.
    pub(crate) fn has_snapshots(&self) -> bool {
        !self.snapshots.is_empty()
    }

    /// From now on versions visible at `sequence` are kept.
    pub(crate) fn hold(&mut self, sequence: u64) {
        *self.snapshots.entry(sequence).or_insert(0) += 1;
    }

    /// Undoes one `hold`; versions no longer kept go to `dropped`.
    pub(crate) fn let_go(&mut self, sequence: u64, dropped: &mut Vec<(Box<[u8]>, Version)>) {
        let count = self
            .snapshots
            .get_mut(&sequence)
            .expect("what is let go was held");
        *count -= 1;
        if *count > 0 {
            return;
        }
        self.snapshots.remove(&sequence);
        let (snapshots, newest, order) = (&self.snapshots, &mut self.newest, &mut self.order);
        let (changes, writing) = (&mut self.changes, &mut self.writing);
        let memory_bytes = &mut self.memory_bytes;
        self.history.retain(|key, history| {
            let slot = newest.find(key.bytes());
            let slot = slot.expect("what has a history has a newest");
            let now = newest.value(slot);
            let (deleted, sequence) = (now.place == Place::Tombstone, now.sequence);
            let mut until = now.sequence;
            for at in (0..history.len()).rev() {
                let from = history[at].sequence;
                if snapshots.range(from..until).next().is_none() {
                    dropped.push((key.bytes().into(), history.remove(at)));
                }
                until = from;
            }
            if history.is_empty() && deleted {
                *memory_bytes -= memory_of(key.bytes(), now);
                order.remove(newest, slot);
                newest.remove(slot);
                note_removed(changes, writing, key.clone(), sequence);
            }
            !history.is_empty()
        });
    }

    /// Live entries of a range at a sequence, in a direction, one by one.
    pub(crate) fn range<'a>(
        &'a self,
        start: Option<&'a [u8]>,
        end: Option<&'a [u8]>,
        direction: Direction,
        at: u64,
    ) -> Box<dyn Iterator<Item = (&'a [u8], &'a Version)> + 'a> {
        if let (Some(start), Some(end)) = (start, end)
            && start >= end
        {
            return Box::new(std::iter::empty());
        }
        let bound = |key: Option<&[u8]>, of: fn(Key) -> Bound<Key>| {
            key.map_or(Bound::Unbounded, |key| of(Key::new(key)))
        };
        let bounds = (bound(start, Bound::Included), bound(end, Bound::Excluded));
        let visible = move |(key, slot): (&'a Key, Slot)| {
            let version = self.visible(key.bytes(), self.newest.value(slot), at);
            version.map(|version| (key.bytes(), version))
        };
        let range = self.in_order(&bounds);
        match direction {
            Direction::Forward => Box::new(range.filter_map(visible)),
            Direction::Reverse => Box::new(range.rev().filter_map(visible)),
        }
    }
}

/// A key has lost its entry: for the next checkpoint, and for the one under way.
pub(super) fn note_removed(
    changes: &mut Changes,
    writing: &mut Option<Writing>,
    key: Key,
    sequence: u64,
) {
    if let Some(writing) = writing {
        writing.changes.note_removed(key.clone(), sequence);
    }
    changes.note_removed(key, sequence);
}

fn is_held(snapshots: &BTreeMap<u64, u32>, newest: &Version) -> bool {
    snapshots.range(newest.sequence..).next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives the sequence of the version that is not kept any more.
    fn put(index: &mut Index, key: &[u8], sequence: u64) -> Option<u64> {
        let place = Place::Inline(sequence.to_le_bytes().into());
        let dropped = index.set(key, Version { sequence, place }).old;
        dropped.map(|version| version.sequence)
    }

    fn delete(index: &mut Index, key: &[u8], sequence: u64) -> Option<u64> {
        let place = Place::Tombstone;
        let dropped = index.set(key, Version { sequence, place }).old;
        dropped.map(|version| version.sequence)
    }

    /// Goal: exactly the versions that snapshots need stay. Method: interleave writes and snapshots, look at what is dropped.
    #[test]
    fn a_version_is_kept_as_long_as_a_snapshot_needs_it() {
        let mut index = Index::default();
        assert_eq!(put(&mut index, b"k", 1), None);
        index.hold(1);
        assert_eq!(put(&mut index, b"k", 2), None, "1 is held");
        assert_eq!(put(&mut index, b"k", 3), Some(2), "nothing reads at 2");
        index.hold(3);
        assert_eq!(delete(&mut index, b"k", 4), None, "3 is held");
        assert!(index.get(b"k", 4).is_none());
        assert_eq!(index.get(b"k", 3).unwrap().sequence, 3);
        assert_eq!(index.get(b"k", 1).unwrap().sequence, 1);
        let mut dropped = Vec::new();
        index.let_go(1, &mut dropped);
        assert_eq!(
            dropped.iter().map(|(_, v)| v.sequence).collect::<Vec<_>>(),
            [1]
        );
        dropped.clear();
        index.let_go(3, &mut dropped);
        assert_eq!(
            dropped.iter().map(|(_, v)| v.sequence).collect::<Vec<_>>(),
            [3]
        );
        assert_eq!(
            index.everything().count(),
            0,
            "the tombstone went with what it hid"
        );
        assert_eq!((index.len(), index.pages_bytes()), (0, 0));
    }

    /// Goal: ranges honour bounds, direction and sequence. Method: a few keys and every bound.
    #[test]
    fn ranges_walk_both_ways_between_their_bounds() {
        let mut index = Index::default();
        for (sequence, key) in [b"a", b"b", b"c", b"d"].into_iter().enumerate() {
            put(&mut index, key, sequence as u64 + 1);
        }
        let keys = |start: Option<&[u8]>, end: Option<&[u8]>, direction, at| -> Vec<u8> {
            index
                .range(start, end, direction, at)
                .map(|(key, _)| key[0])
                .collect()
        };
        assert_eq!(keys(None, None, Direction::Forward, 9), b"abcd");
        assert_eq!(keys(Some(b"b"), Some(b"d"), Direction::Reverse, 9), b"cb");
        assert_eq!(keys(Some(b"b"), None, Direction::Forward, 3), b"bc");
        assert_eq!(keys(Some(b"d"), Some(b"b"), Direction::Forward, 9), b"");
    }
}
