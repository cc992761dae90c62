//! Numbers of entries by the hash of their keys.
//!
//! They lie in parts, each of which grows and shrinks by itself: so no more than a part is copied at once, and of what is gone no more memory stays than a part may leave.
//! Nothing that decides depends on the order in which they lie there.

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use crate::index::table::Slot;

/// Parts. A hash says which by its highest bits.
const PARTS: usize = 64;
const PART_SHIFT: u32 = u32::BITS - PARTS.ilog2();
/// A part that has room for more than so many halves of what is in it is made smaller, unless it is small. It has room for twice as many when it has just grown.
const ROOM_HALVES: usize = 5;
const SMALL: usize = 64;

/// The hash of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hash(u32);

impl Hash {
    pub(super) fn of(key: &[u8]) -> Hash {
        let [a, b, c, d, ..] = xxh3_64(key).to_le_bytes();
        Hash(u32::from_le_bytes([a, b, c, d]))
    }

    fn part(self) -> usize {
        (self.0 >> PART_SHIFT) as usize
    }

    /// A hash table takes the lowest and the highest bits. The latter are the same in all of a part, so they are mixed with the others.
    fn in_part(self) -> u64 {
        u64::from(self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// The number of an entry. The hash lies beside it, so that neither a wrong candidate nor growth touches an entry.
#[derive(Debug, Clone, Copy)]
struct Reference {
    hash: Hash,
    slot: Slot,
}

#[derive(Debug)]
pub(super) struct References {
    parts: Box<[HashTable<Reference>]>,
}

impl Default for References {
    fn default() -> Self {
        References {
            parts: (0..PARTS).map(|_| HashTable::new()).collect(),
        }
    }
}

impl References {
    /// The number of this hash that `is_it`.
    pub(super) fn find(&self, hash: Hash, is_it: impl Fn(Slot) -> bool) -> Option<Slot> {
        let part = &self.parts[hash.part()];
        let found = part.find(hash.in_part(), |it| it.hash == hash && is_it(it.slot));
        found.map(|it| it.slot)
    }

    pub(super) fn insert(&mut self, hash: Hash, slot: Slot) {
        let part = &mut self.parts[hash.part()];
        part.insert_unique(hash.in_part(), Reference { hash, slot }, |it| {
            it.hash.in_part()
        });
    }

    /// Removes a number that is there.
    pub(super) fn remove(&mut self, hash: Hash, slot: Slot) {
        let part = &mut self.parts[hash.part()];
        let found = part.find_entry(hash.in_part(), |it| it.slot == slot);
        found.expect("every entry is referred to").remove();
        let room = ROOM_HALVES * part.len() / 2;
        if part.capacity() > room.max(SMALL) {
            part.shrink_to(room / 2, |it| it.hash.in_part());
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(HashTable::len).sum()
    }

    #[cfg(test)]
    fn capacity(&self) -> usize {
        self.parts.iter().map(HashTable::capacity).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(slot: Slot) -> Hash {
        Hash::of(&slot.to_le_bytes())
    }

    /// Goal: what is gone leaves its memory, and what stays is found. Method: many are added, most removed, and added again.
    #[test]
    fn they_take_memory_for_what_is_there() {
        const MANY: Slot = 100_000;
        const FEW: Slot = 2_000;
        let mut references = References::default();
        (0..MANY).for_each(|slot| references.insert(hash(slot), slot));
        let all = references.capacity();
        (FEW..MANY).for_each(|slot| references.remove(hash(slot), slot));
        assert_eq!(references.len(), FEW as usize);
        assert!(all >= MANY as usize);
        let few = PARTS * SMALL + ROOM_HALVES * FEW as usize / 2;
        assert!(references.capacity() <= few, "{}", references.capacity());
        for slot in 0..2 * FEW {
            let found = references.find(hash(slot), |it| it == slot);
            assert_eq!(found, (slot < FEW).then_some(slot));
        }
        (FEW..MANY).for_each(|slot| references.insert(hash(slot), slot));
        assert_eq!(references.len(), MANY as usize);
        assert!((0..MANY).all(|slot| references.find(hash(slot), |it| it == slot).is_some()));
    }

    /// Goal: keys lie in all parts alike, and in a part they do not lie in each other's way. Method: many hashes, counted by part and by the bits that a hash table takes.
    #[test]
    fn hashes_are_spread() {
        const MANY: Slot = 64_000;
        let mut parts = [0_u32; PARTS];
        let mut highest = [0_u32; 128];
        let mut lowest = [0_u32; 128];
        for slot in 0..MANY {
            let hash = hash(slot);
            parts[hash.part()] += 1;
            if hash.part() == 5 {
                highest[(hash.in_part() >> 57) as usize] += 1;
                lowest[(hash.in_part() & 127) as usize] += 1;
            }
        }
        assert!(parts.iter().all(|count| (800..1200).contains(count)));
        assert!(highest.iter().chain(&lowest).all(|count| *count < 30));
    }
}
