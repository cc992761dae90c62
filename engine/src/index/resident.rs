//! Which entries of the index are in memory. Where there is a bound, an entry that is as it is in a run may be *forgotten*; whoever asks for it reads it from the run,
//! and it is *learnt* again.
//!
//! Invariants:
//! - an entry that has changed since the last checkpoint began, or whose key has older versions, stays. So do removed keys, until a checkpoint has written that;
//! - forgetting and learning change neither what is counted nor what a checkpoint writes.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

use crate::api::port::Direction;
use crate::index::key::Key;
use crate::index::memory::{Index, note_removed};
use crate::index::place::{Place, Version};
use crate::index::table::Slot;
use crate::index::weight::Weight;
use crate::mutant::{Mutant, mutant};

/// What an entry takes in the hash table and in the order, with the unused parts of both.
pub(crate) const ENTRY_BYTES: u64 = 96;
/// What of it is not given back when the entry goes, but kept for another.
const PLACE_BYTES: u64 = 76;
/// The same where no entry is near it.
const LONE_PLACE_BYTES: u64 = 12;
/// Keys up to this length lie in place.
const SHORT_KEY_BYTES: usize = 16;

/// A round is in vain if no more than one entry for so many numbers was forgotten or learnt in it.
const IN_VAIN_SHARE: Slot = 32;
/// After a round in vain entries have to take so much of the bound more.
const PAUSE_SHARE: u64 = 16;
/// What refers to entries is looked at so many numbers ahead of the hand.
const LOOKED_AHEAD: Slot = 16;

/// The hand that goes round all numbers to find entries that can be forgotten. Where most of them cannot, since they have changed, it pauses: else each call would look at
/// all of them.
#[derive(Debug, Default)]
pub(super) struct Hand {
    /// The number that is looked at next.
    next: Slot,
    /// Numbers that were looked at in this round.
    looked: Slot,
    /// Entries that were forgotten or learnt in this round.
    changed: Slot,
    /// It pauses until entries take more than this.
    pauses_to_bytes: u64,
}

/// What an entry takes of memory.
pub(crate) fn memory_of(key: &[u8], version: &Version) -> u64 {
    let key_bytes = match key.len() {
        0..=SHORT_KEY_BYTES => 0,
        longer => longer as u64,
    };
    ENTRY_BYTES + key_bytes + memory_of_place(&version.place)
}

/// What of it depends on the place.
pub(super) fn memory_of_place(place: &Place) -> u64 {
    let bytes = match place {
        Place::Tombstone | Place::Log { .. } => 0,
        Place::Inline(value) => value.len(),
        Place::Extent(pointer) => pointer.encoded_bytes(),
    };
    bytes as u64
}

/// What so many entries take of memory, with short keys and nothing in them.
pub(crate) fn memory_of_entries(entries: u64) -> u64 {
    entries * ENTRY_BYTES
}

impl Index {
    /// What the entries in memory take, in bytes, as far as can be told.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// The same with the places that are kept for others.
    pub(crate) fn held_bytes(&self) -> u64 {
        let (vacant, without_memory) = self.newest.vacant();
        self.memory_bytes + vacant as u64 * PLACE_BYTES + without_memory as u64 * LONE_PLACE_BYTES
    }

    /// What those entries take that cannot be forgotten before a checkpoint has written them, if they take as much as others on average.
    pub(crate) fn changed_bytes(&self) -> u64 {
        let writing = self.writing.as_ref();
        let writing = writing.map_or(0, |writing| writing.changes.count());
        let average = self.memory_bytes / (self.order.len() as u64).max(1);
        (self.changes_count() + writing) * average.max(ENTRY_BYTES)
    }

    /// Whether memory says what there is of a key: it has an entry, or it was removed since the last checkpoint.
    pub(crate) fn is_known(&self, key: &[u8]) -> bool {
        self.newest.find(key).is_some() || self.is_removed(key)
    }

    /// Whether it was removed since the last checkpoint.
    pub(crate) fn is_removed(&self, key: &[u8]) -> bool {
        let writing = self.writing.iter().map(|writing| &writing.changes.removed);
        let mut some = writing
            .chain([&self.changes.removed])
            .filter(|removed| !removed.is_empty())
            .peekable();
        some.peek().is_some() && !mutant(Mutant::RemovedKeysLookedUp) && {
            let key = Key::new(key);
            some.any(|removed| removed.contains_key(&key))
        }
    }

    /// The keys of all entries behind this one, ascending.
    pub(crate) fn behind(&self, key: &Key) -> impl Iterator<Item = &Key> {
        let bounds = (Bound::Excluded(key), Bound::Unbounded);
        let behind = self.order.range(&self.newest, bounds);
        behind.map(|slot| self.newest.key(slot))
    }

    /// All keys that memory knows of, from `start` on and before `end`, ascending: the newest version of each, or `None` if it was removed.
    pub(crate) fn known(
        &self,
        start: Bound<Key>,
        end: Option<&Key>,
    ) -> impl Iterator<Item = (&Key, Option<&Version>)> {
        let end = end.map_or(Bound::Unbounded, |end| Bound::Excluded(end.clone()));
        let bounds = (start, end);
        let removed = self.removed_sets();
        let there = self.in_order(&bounds);
        let removed = removed.map(move |removed| removed.range(bounds.clone()));
        self.joined(there, removed, Key::cmp)
    }

    /// All keys that memory knows of, from `start` on and before `end`, in a direction: what is visible of each at a sequence, if anything is.
    pub(crate) fn known_at<'a>(
        &'a self,
        start: &Key,
        end: Option<&Key>,
        direction: Direction,
        at: u64,
    ) -> Box<dyn Iterator<Item = (&'a Key, Option<&'a Version>)> + 'a> {
        let end = end.map_or(Bound::Unbounded, |end| Bound::Excluded(end.clone()));
        let bounds = (Bound::Included(start.clone()), end);
        let there = self.in_order(&bounds);
        let removed = self.removed_sets();
        let removed = removed.map(move |removed| removed.range(bounds.clone()));
        let visible = move |(key, newest): (&'a Key, Option<&'a Version>)| {
            let version = newest.and_then(|newest| self.visible(key.bytes(), newest, at));
            (key, version)
        };
        match direction {
            Direction::Forward => Box::new(self.joined(there, removed, Key::cmp).map(visible)),
            Direction::Reverse => {
                let removed = removed.map(Iterator::rev);
                let known = self.joined(there.rev(), removed, |one, other| other.cmp(one));
                Box::new(known.map(visible))
            }
        }
    }

    /// Keys that were removed since the last checkpoint.
    fn removed_sets(&self) -> impl Iterator<Item = &BTreeMap<Key, u64>> {
        let writing = self.writing.iter().map(|it| &it.changes.removed);
        let all = writing.chain([&self.changes.removed]);
        all.filter(|_| !mutant(Mutant::RemovedKeysMerged))
    }

    /// The keys of the order and removed ones, all in one order: the newest version of each, or `None` if it was removed.
    fn joined<'a>(
        &'a self,
        there: impl Iterator<Item = (&'a Key, Slot)>,
        removed: impl Iterator<Item = impl Iterator<Item = (&'a Key, &'a u64)>>,
        order: impl Fn(&Key, &Key) -> Ordering,
    ) -> impl Iterator<Item = (&'a Key, Option<&'a Version>)> {
        let mut there = there.peekable();
        let mut removed: Vec<_> = removed.map(Iterator::peekable).collect();
        std::iter::from_fn(move || {
            let gone = removed.iter_mut().filter_map(|it| it.peek());
            let gone = gone.map(|(key, _)| *key);
            let next = there.peek().map(|(key, _)| *key).into_iter();
            let next = next.chain(gone).min_by(|one, other| order(one, other))?;
            for removed in &mut removed {
                removed.next_if(|(key, _)| *key == next);
            }
            let slot = there.next_if(|(key, _)| *key == next);
            Some((next, slot.map(|(_, slot)| self.newest.value(slot))))
        })
    }

    /// So much more counts.
    pub(crate) fn count(&mut self, more: Weight) {
        self.counted += more;
    }

    /// A key that has no entry in memory was deleted; its entry in a run still counts.
    pub(crate) fn note_deleted(&mut self, key: &[u8], sequence: u64) {
        let (changes, writing) = (&mut self.changes, &mut self.writing);
        note_removed(changes, writing, Key::new(key), sequence);
    }

    /// A version of the key that was counted, and is not in memory, does not count any more.
    pub(crate) fn subtract(&mut self, key: &Key, version: &Version) {
        self.uncount(Weight::of(key.bytes(), version));
    }

    /// Takes an entry into memory that was counted before, and returns its number. The key is not known.
    pub(crate) fn learn(&mut self, key: &Key, version: Version) -> Slot {
        self.memory_bytes += memory_of(key.bytes(), &version);
        self.hand.changed += 1;
        let slot = self.newest.insert(key.clone(), version);
        self.order.insert(&self.newest, slot);
        slot
    }

    /// Whether entries take more than this many bytes, and it is worth to look for some that can be forgotten.
    pub(crate) fn has_to_forget(&self, bound: u64) -> bool {
        self.memory_bytes > bound.max(self.hand.pauses_to_bytes)
    }

    /// Looks at the next number. The entry, if it is there and may be forgotten. After a round in vain the hand pauses until entries take a sixteenth of `bound` more.
    pub(crate) fn next_to_forget(&mut self, bound: u64) -> Option<Slot> {
        if self.hand.next >= self.newest.numbers() {
            self.hand.next = 0;
        }
        let slot = self.hand.next;
        if slot.is_multiple_of(LOOKED_AHEAD) {
            let ahead = slot + LOOKED_AHEAD..slot + 2 * LOOKED_AHEAD;
            self.newest
                .bring_closer(ahead.filter(|slot| self.may_forget(*slot)));
        }
        self.hand.next += 1;
        self.hand.looked += 1;
        if self.hand.looked >= self.newest.numbers() {
            if self.hand.changed <= self.hand.looked / IN_VAIN_SHARE {
                self.hand.pauses_to_bytes = self.memory_bytes + bound / PAUSE_SHARE;
            }
            self.hand.looked = 0;
            self.hand.changed = 0;
        }
        self.may_forget(slot).then_some(slot)
    }

    /// More entries may be forgotten than before, or enough were: the hand begins a new round.
    pub(crate) fn look_again(&mut self) {
        self.hand.looked = 0;
        self.hand.changed = 0;
        self.hand.pauses_to_bytes = 0;
    }

    /// Whether there is an entry of this number that may be forgotten.
    fn may_forget(&self, slot: Slot) -> bool {
        let Some((key, version)) = self.newest.entry(slot) else {
            return false;
        };
        let writing = self.writing.as_ref();
        let changed = self.changes.has(slot) || writing.is_some_and(|it| it.changes.has(slot));
        let is_read = !self.history.is_empty() && self.history.contains_key(key);
        let changed = changed && !mutant(Mutant::ChangedEntriesForgotten);
        !changed && !is_read && version.place != Place::Tombstone
    }

    /// Forgets an entry, and hands it out.
    pub(crate) fn forget(&mut self, slot: Slot) -> (Key, Version) {
        self.order.remove(&self.newest, slot);
        let (key, version) = self.newest.remove(slot);
        self.memory_bytes -= memory_of(key.bytes(), &version);
        self.hand.changed += 1;
        (key, version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(index: &mut Index, key: u8, sequence: u64) {
        let place = Place::Inline([1; 10].into());
        index.set(&[key], Version { sequence, place });
    }

    fn forget_all(index: &mut Index) {
        for _ in 0..1000 {
            if let Some(slot) = index.next_to_forget(0) {
                index.forget(slot);
            }
        }
    }

    /// Goal: what has changed, or was removed, or is read by a snapshot stays; all else may go and come back, and nothing that is counted changes. Method: an entry of each
    /// kind, before, during and after a checkpoint.
    #[test]
    fn what_no_run_has_stays() {
        let mut index = Index::default();
        (1..=8).for_each(|key| put(&mut index, key, key.into()));
        index.forget_changes();
        let before = (index.len(), index.pages_bytes(), index.memory_bytes());
        put(&mut index, 2, 12);
        index.hold(12);
        put(&mut index, 3, 13);
        let place = Place::Tombstone;
        let sequence = 14;
        index.let_go(12, &mut Vec::new());
        index.set(&[4], Version { sequence, place });
        index.begin_writing();
        put(&mut index, 5, 15);
        forget_all(&mut index);
        let known = |index: &Index| {
            (1..=8)
                .filter(|key| index.is_known(&[*key]))
                .collect::<Vec<u8>>()
        };
        assert_eq!(known(&index), [2, 3, 4, 5]);
        assert_eq!(index.len(), before.0 - 1);
        index.end_writing(false);
        forget_all(&mut index);
        assert_eq!(known(&index), [2, 3, 4, 5]);
        index.begin_writing();
        put(&mut index, 5, 16);
        index.end_writing(true);
        forget_all(&mut index);
        assert_eq!(known(&index), [5]);
        for key in [1, 2, 3, 6, 7, 8] {
            let place = Place::Inline([1; 10].into());
            index.learn(&Key::new(&[key]), Version { sequence: 9, place });
        }
        put(&mut index, 4, 17);
        assert_eq!(
            (index.len(), index.pages_bytes(), index.memory_bytes()),
            before
        );
    }

    /// Goal: memory tells what it knows of each key: what is there, and what was removed before and during a checkpoint. Method: an entry of each kind, all bounds.
    #[test]
    fn what_memory_knows_comes_in_order() {
        let mut index = Index::default();
        (1..=7).for_each(|key| put(&mut index, key, key.into()));
        index.forget_changes();
        let remove = |index: &mut Index, key: u8| {
            let place = Place::Tombstone;
            index.set(&[key], Version { sequence: 9, place });
        };
        remove(&mut index, 2);
        remove(&mut index, 3);
        index.begin_writing();
        remove(&mut index, 3);
        remove(&mut index, 5);
        put(&mut index, 2, 10);
        let slot = index.newest.find(&[6]).expect("it was put");
        index.forget(slot);
        let known = |start, end: Option<u8>| {
            let end = end.map(|end| Key::new(&[end]));
            let all = index.known(start, end.as_ref());
            let all = all.map(|(key, version)| (key.bytes()[0], version.map(|it| it.sequence)));
            all.collect::<Vec<_>>()
        };
        let all = [
            (1, Some(1)),
            (2, Some(10)),
            (3, None),
            (4, Some(4)),
            (5, None),
            (7, Some(7)),
        ];
        assert_eq!(known(Bound::Unbounded, None), all);
        let behind = Bound::Excluded(Key::new(&[2]));
        assert_eq!(known(behind, Some(5)), all[2..4]);
        let from = Bound::Included(Key::new(&[5]));
        assert_eq!(known(from, Some(7)), all[4..5]);
    }

    /// Goal: where nothing can be forgotten, it is not looked for in each call; and what can be is found once there is more, or once a checkpoint has written it. Method: a
    /// hundred entries that have all changed, then more, then a checkpoint.
    #[test]
    fn the_hand_pauses_after_a_round_in_vain() {
        const BOUND: u64 = 1600;
        let mut index = Index::default();
        let looks = |index: &mut Index| {
            let mut looks = 0;
            while index.has_to_forget(BOUND) {
                looks += 1;
                if let Some(slot) = index.next_to_forget(BOUND) {
                    index.forget(slot);
                }
            }
            looks
        };
        (0..100).for_each(|key| put(&mut index, key, 1));
        assert_eq!(looks(&mut index), 100);
        assert_eq!(looks(&mut index), 0);
        put(&mut index, 100, 1);
        assert_eq!(looks(&mut index), 101);
        index.begin_writing();
        assert_eq!(looks(&mut index), 0);
        index.end_writing(false);
        assert_eq!(looks(&mut index), 0);
        index.begin_writing();
        index.end_writing(true);
        assert!(looks(&mut index) > 80);
        assert!(index.memory_bytes() <= BOUND);
    }
}
