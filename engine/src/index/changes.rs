//! Which entries of the index have changed since a moment: what a checkpoint that writes only changes has to write.
//!
//! Invariants: an entry that has changed since that moment is noted by its number, or its key as removed. More may be noted than has changed.

use std::collections::BTreeMap;

use crate::index::key::Key;
use crate::index::table::Slot;

/// A set of entries, and of removed keys.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// A bit for each number.
    words: Vec<u64>,
    entries: u64,
    /// Keys that have lost their entries, and the sequence number of each deletion.
    pub(crate) removed: BTreeMap<Key, u64>,
}

impl Changes {
    /// Notes an entry by its number.
    pub(crate) fn note(&mut self, slot: Slot) {
        let (word, bit) = place(slot);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let word = &mut self.words[word];
        self.entries += u64::from(*word & bit == 0);
        *word |= bit;
    }

    pub(crate) fn note_removed(&mut self, key: Key, sequence: u64) {
        self.removed.insert(key, sequence);
    }

    /// Whether the entry of this number is noted.
    pub(crate) fn has(&self, slot: Slot) -> bool {
        let (word, bit) = place(slot);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// The first noted entry of this number or a higher one.
    pub(crate) fn next(&self, slot: Slot) -> Option<Slot> {
        let (first, bit) = place(slot);
        let words = self.words.get(first..)?.iter().enumerate();
        let mut noted = words.map(|(at, word)| match at {
            // Those before it do not count.
            0 => (first, word & !(bit - 1)),
            _ => (first + at, *word),
        });
        let (word, bits) = noted.find(|(_, bits)| *bits != 0)?;
        Some(crate::format::len32(word * 64) + bits.trailing_zeros())
    }

    /// How many entries are noted.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// How many there are at most.
    pub(crate) fn count(&self) -> u64 {
        self.entries + self.removed.len() as u64
    }

    /// Adds what changed before.
    pub(crate) fn add_older(&mut self, older: Changes) {
        let words = self.words.len().max(older.words.len());
        self.words.resize(words, 0);
        for (word, before) in self.words.iter_mut().zip(older.words) {
            *word |= before;
        }
        let count = self.words.iter().map(|word| u64::from(word.count_ones()));
        self.entries = count.sum();
        for (key, sequence) in older.removed {
            self.removed.entry(key).or_insert(sequence);
        }
    }
}

/// The word of an entry, and its bit there.
fn place(slot: Slot) -> (usize, u64) {
    let slot = slot as usize;
    (slot / 64, 1 << (slot % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what is noted is there, nothing else is, and older changes are added to newer ones. Method: two sets, some entries in both.
    #[test]
    fn notes_are_kept_and_added() {
        let (mut older, mut newer) = (Changes::default(), Changes::default());
        for slot in [0, 63, 64, 1000] {
            older.note(slot);
        }
        for slot in [64, 65, 64] {
            newer.note(slot);
        }
        older.note_removed(Key::new(b"a"), 1);
        older.note_removed(Key::new(b"b"), 2);
        newer.note_removed(Key::new(b"b"), 5);
        assert_eq!((older.count(), newer.count()), (6, 3));
        newer.add_older(older);
        assert_eq!(newer.count(), 7);
        let noted = (0..2000).filter(|slot| newer.has(*slot));
        assert_eq!(noted.collect::<Vec<_>>(), [0, 63, 64, 65, 1000]);
        let each = std::iter::successors(newer.next(0), |slot| newer.next(slot + 1));
        assert_eq!(each.collect::<Vec<_>>(), [0, 63, 64, 65, 1000]);
        assert_eq!((newer.next(66), newer.next(100_000)), (Some(1000), None));
        let removed = newer.removed.iter().map(|(key, at)| (key.bytes(), *at));
        assert_eq!(
            removed.collect::<Vec<_>>(),
            [(&b"a"[..], 1), (&b"b"[..], 5)]
        );
    }
}
