//! What a checkpoint writes of the index: the entries that have changed, in the order of their keys.
//!
//! Where few entries have changed, they are sorted, a few at a time, before the first is written. Where many have, the checkpoint walks all keys, which costs
//! less than to sort. So a checkpoint costs what has changed, whatever the number of keys.
//!
//! Invariant: what was sorted and is not there any more is among the removed keys. So each entry is looked at again when it is written.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::iter::Peekable;
use std::ops::Bound;

use crate::index::changes::Changes;
use crate::index::key::Key;
use crate::index::memory::Index;
use crate::index::place::{Place, Version};
use crate::index::table::Slot;
use crate::index::weight::Weight;
use crate::mutant::{Mutant, mutant};

/// Where one entry in so many has changed, all keys are walked: to sort an entry costs some ten times as much as to look at one.
const WALKED_SHARE: u64 = 16;

/// What the checkpoint under way has to write.
#[derive(Debug)]
pub(crate) struct Writing {
    pub(super) changes: Changes,
    /// The entries that have changed, by their keys; `None`: all keys are walked.
    sorted: Option<BTreeMap<Key, Slot>>,
    /// Entries of lower numbers are sorted.
    sorted_to: Slot,
}

/// What is to be written of a key: its entry, or that it was removed, and when.
type Chosen<'a> = Result<Slot, (&'a Key, u64)>;

impl Index {
    /// Entries and removed keys that have changed since the last checkpoint began, at most.
    pub(crate) fn changes_count(&self) -> u64 {
        self.changes.count()
    }

    /// What is there is what the last checkpoint has.
    #[cfg(test)]
    pub(crate) fn forget_changes(&mut self) {
        self.changes = Changes::default();
        self.look_again();
    }

    /// A checkpoint begins: it writes what has changed until now.
    pub(crate) fn begin_writing(&mut self) {
        assert!(self.writing.is_none(), "one checkpoint at a time");
        self.put = Weight::default();
        let changes = std::mem::take(&mut self.changes);
        let few = changes.entries() * WALKED_SHARE < self.order.len() as u64;
        self.writing = Some(Writing {
            changes,
            sorted: few.then(BTreeMap::new),
            sorted_to: 0,
        });
    }

    /// Sorts the next few of what has changed, at most so many. False if there are no more, or if all keys will be walked.
    pub(crate) fn sort_changes(&mut self, limit: usize) -> bool {
        let writing = self.writing.as_mut().expect("a checkpoint has begun");
        let Some(sorted) = &mut writing.sorted else {
            return false;
        };
        for _ in 0..limit {
            let Some(slot) = writing.changes.next(writing.sorted_to) else {
                return false;
            };
            writing.sorted_to = slot + 1;
            if let Some((key, _)) = self.newest.entry(slot) {
                sorted.insert(key.clone(), slot);
            }
        }
        true
    }

    /// Whether the checkpoint under way writes what was sorted.
    pub(crate) fn has_sorted(&self) -> bool {
        let writing = self.writing.as_ref();
        writing.is_some_and(|writing| writing.sorted.is_some())
    }

    /// The checkpoint was published, or it was not: then the next one has to write all that.
    pub(crate) fn end_writing(&mut self, published: bool) {
        let written = self.writing.take();
        if published && mutant(Mutant::ChangesMeanwhileForgotten) {
            self.changes = Changes::default();
        }
        match written {
            Some(written) if !published => self.changes.add_older(written.changes),
            _ => self.look_again(),
        }
    }

    /// Whether the checkpoint under way has to write what there is of a key that memory knows of.
    pub(crate) fn has_to_be_written(&self, key: &Key) -> bool {
        let changes = self.writing.as_ref().map(|it| &it.changes);
        changes.is_some_and(|changes| {
            let slot = self.newest.find(key.bytes());
            slot.is_some_and(|slot| changes.has(slot)) || changes.removed.contains_key(key)
        })
    }

    /// The sequence number of the deletion of a key that was removed since the last checkpoint.
    pub(crate) fn removed_at(&self, key: &Key) -> Option<u64> {
        let writing = self.writing.as_ref().map(|it| &it.changes);
        let all = writing.into_iter().chain([&self.changes]);
        all.filter_map(|changes| changes.removed.get(key).copied())
            .max()
    }

    /// Gives `take` what the checkpoint under way has to write of the keys from `start` on and before `end`: with `all` every live entry, else each that
    /// has changed, and a deletion for each key that was removed. Looks at `limit` keys at most. Returns the last of these if there may be more.
    pub(crate) fn to_write(
        &self,
        start: Bound<&[u8]>,
        end: Option<&[u8]>,
        all: bool,
        limit: usize,
        mut take: impl FnMut(&[u8], &Version),
    ) -> Option<Box<[u8]>> {
        let bounds = (
            start.map(Key::new),
            end.map_or(Bound::Unbounded, |end| Bound::Excluded(Key::new(end))),
        );
        let writing = self.writing.as_ref().filter(|_| !all);
        let sorted = writing.and_then(|it| it.sorted.as_ref());
        let removed = writing.map(|it| it.changes.removed.range(bounds.clone()));
        let order: Box<dyn Iterator<Item = Looked<'_>>> = match sorted {
            Some(sorted) => {
                let some = sorted.range(bounds);
                Box::new(some.map(|(key, slot)| Looked::Sorted(key, *slot)))
            }
            None => {
                let bounds = (bounds.0.as_ref(), bounds.1.as_ref());
                Box::new(self.order.range(&self.newest, bounds).map(Looked::Entry))
            }
        };
        let mut keys = Keys {
            index: self,
            order: order.peekable(),
            removed: removed.map(Iterator::peekable),
        };
        let changes = writing.map(|it| &it.changes);
        let mut chosen = Vec::new();
        let mut last = None;
        for _ in 0..limit {
            last = keys.next();
            let Some(looked) = &last else {
                break;
            };
            chosen.extend(self.choose(changes, looked));
        }
        // Entries lie anywhere in memory: to look at them first has what each waits for come at the same time.
        let slots = chosen.iter().filter_map(|slot| slot.ok());
        let deleted = slots.filter(|slot| self.newest.value(*slot).place == Place::Tombstone);
        std::hint::black_box(deleted.count());
        for one in chosen {
            match one {
                Ok(slot) => {
                    let version = self.newest.value(slot);
                    if !all || version.place != Place::Tombstone {
                        take(self.newest.key(slot).bytes(), version);
                    }
                }
                Err(_) if mutant(Mutant::DeletesLeftOutOfCheckpoint) => {}
                Err((key, sequence)) => take(
                    key.bytes(),
                    &Version {
                        sequence,
                        place: Place::Tombstone,
                    },
                ),
            }
        }
        last.map(|looked| looked.key(self).bytes().into())
    }

    /// What is to be written of a key, if anything is; with no changes, what is there.
    fn choose<'a>(&self, changes: Option<&Changes>, looked: &Looked<'a>) -> Option<Chosen<'a>> {
        match *looked {
            Looked::Entry(slot) => changes
                .is_none_or(|changes| changes.has(slot))
                .then_some(Ok(slot)),
            Looked::Sorted(key, slot) => {
                let entry = self.newest.entry(slot);
                entry.is_some_and(|(now, _)| now == key).then_some(Ok(slot))
            }
            // It may have come back: then what is there now counts.
            Looked::Removed(key, sequence) => {
                let is_missed = mutant(Mutant::ReturnedKeysTakenForDeleted);
                let there = self.newest.find(key.bytes()).filter(|_| !is_missed);
                Some(there.ok_or((key, sequence)))
            }
        }
    }
}

/// A key that may have to be written.
enum Looked<'a> {
    /// That of an entry, which is not touched to say so.
    Entry(Slot),
    /// One that was sorted. Its number may be another key's by now.
    Sorted(&'a Key, Slot),
    /// One that was removed, and when.
    Removed(&'a Key, u64),
}

impl<'a> Looked<'a> {
    fn key(&self, index: &'a Index) -> &'a Key {
        match self {
            Looked::Entry(slot) => index.newest.key(*slot),
            Looked::Sorted(key, _) | Looked::Removed(key, _) => key,
        }
    }
}

/// Keys that may have to be written, ascending, each once.
struct Keys<'a> {
    index: &'a Index,
    order: Peekable<Box<dyn Iterator<Item = Looked<'a>> + 'a>>,
    removed: Option<Peekable<Range<'a, Key, u64>>>,
}

impl<'a> Iterator for Keys<'a> {
    type Item = Looked<'a>;

    fn next(&mut self) -> Option<Looked<'a>> {
        let index = self.index;
        let removed = self.removed.as_mut().and_then(|it| {
            it.next_if(|(gone, _)| {
                let there = self.order.peek();
                there.is_none_or(|there| *gone <= there.key(index))
            })
        });
        let Some((gone, sequence)) = removed else {
            return self.order.next();
        };
        self.order.next_if(|there| there.key(index) == gone);
        Some(Looked::Removed(gone, *sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(index: &mut Index, key: &[u8], sequence: u64) {
        let place = Place::Inline([].into());
        index.set(key, Version { sequence, place });
    }

    fn delete(index: &mut Index, key: &[u8], sequence: u64) {
        let place = Place::Tombstone;
        index.set(key, Version { sequence, place });
    }

    /// Keys and sequence numbers that a checkpoint under way writes, deleted ones with `true`.
    fn written(index: &Index) -> Vec<(u8, u64, bool)> {
        let mut all = Vec::new();
        let mut start = Bound::Included(vec![0]);
        loop {
            let bound = start.as_ref().map(|key| &key[..]);
            let last = index.to_write(bound, None, false, 3, |key, version| {
                let deleted = version.place == Place::Tombstone;
                all.push((key[0], version.sequence, deleted));
            });
            match last {
                Some(last) => start = Bound::Excluded(last.into()),
                None => return all,
            }
        }
    }

    /// Goal: a checkpoint writes what has changed until it began and what was removed since, whether it sorts that or walks all keys. Method: changes of many keys,
    /// and changes of the same kinds while they are being sorted: a key removed, one removed whose number another key takes, and one that comes back.
    #[test]
    fn what_has_changed_is_written_in_order() {
        for many in [false, true] {
            let mut index = Index::default();
            for key in 0..200 {
                put(&mut index, &[key], 1);
            }
            index.forget_changes();
            for key in [70, 9, 30, 50, 51, 60] {
                put(&mut index, &[key], 2);
            }
            delete(&mut index, &[5], 3);
            delete(&mut index, &[6], 4);
            put(&mut index, &[6], 5);
            if many {
                (71..150).for_each(|key| put(&mut index, &[key], 6));
            }
            index.begin_writing();
            assert!(many || index.sort_changes(4));
            delete(&mut index, &[30], 7);
            // It takes the number of the one before.
            put(&mut index, &[200], 8);
            delete(&mut index, &[50], 9);
            put(&mut index, &[50], 10);
            while index.sort_changes(4) {}
            assert_eq!(index.has_sorted(), !many);
            delete(&mut index, &[51], 11);
            let mut expected = vec![
                (5, 3, true),
                (6, 5, false),
                (9, 2, false),
                (30, 7, true),
                (50, 10, false),
                (51, 11, true),
                (60, 2, false),
                (70, 2, false),
            ];
            if many {
                expected.extend((71..150).map(|key| (key, 6, false)));
            }
            let mut found = written(&index);
            // More may be written than has changed.
            found.retain(|(key, _, _)| *key != 200);
            assert_eq!(found, expected);
            index.end_writing(true);
            index.begin_writing();
            while index.sort_changes(4) {}
            let mut next = written(&index);
            next.retain(|(key, _, _)| *key != 30);
            assert_eq!(next, [(50, 10, false), (51, 11, true), (200, 8, false)]);
        }
    }
}
