//! Entries by key, found by hash: looking up a key takes three cache lines, where walking down a tree takes one or more per level.
//!
//! Invariants:
//! - an entry keeps its number from its insertion to its removal, so that whatever orders entries can refer to them by number;
//! - a chunk without entries takes no memory. Entries leave mostly in the order of their numbers, so that chunks become empty;
//! - entries do not move in memory: however many there are, none is copied when more come;
//! - nothing that decides depends on the order in which they lie in the hash table.

use crate::index::key::{Key, is_same};
use crate::index::references::{Hash, References};
use crate::index::vacant::Vacant;

/// Number of an entry.
pub(crate) type Slot = u32;

/// Entries of a chunk.
const CHUNK: usize = 256;

/// A key and its value, in one cache line if the value has room beside the key.
#[derive(Debug)]
#[repr(align(64))]
struct Filed<V> {
    key: Key,
    value: V,
}

/// Values by key.
#[derive(Debug)]
pub(crate) struct Table<V> {
    references: References,
    /// By number, in chunks that are filled one after the other.
    chunks: Vec<Chunk<V>>,
    numbers: Slot,
    vacant: Vacant,
    /// Chunks that take no memory.
    released: usize,
}

/// Its places, or none as long as it takes no memory.
#[derive(Debug)]
struct Chunk<V> {
    places: Box<[Option<Filed<V>>]>,
    entries: usize,
}

impl<V> Chunk<V> {
    fn new() -> Chunk<V> {
        Chunk {
            places: (0..CHUNK).map(|_| None).collect(),
            entries: 0,
        }
    }
}

impl<V> Default for Table<V> {
    fn default() -> Self {
        Table {
            references: References::default(),
            chunks: Vec::new(),
            numbers: 0,
            vacant: Vacant::default(),
            released: 0,
        }
    }
}

impl<V> Table<V> {
    /// The number of a key's entry.
    pub(crate) fn find(&self, key: &[u8]) -> Option<Slot> {
        let is_it = |slot| is_same(self.key(slot).bytes(), key);
        self.references.find(Hash::of(key), is_it)
    }

    /// Adds an entry of a key that has none.
    pub(crate) fn insert(&mut self, key: Key, value: V) -> Slot {
        let hash = Hash::of(key.bytes());
        let slot = self.vacant.take().unwrap_or_else(|| {
            self.numbers += 1;
            self.numbers - 1
        });
        self.file(slot, Filed { key, value });
        self.references.insert(hash, slot);
        slot
    }

    /// These entries will be removed: what refers to them is looked at now, so that the memory of all comes at the same time.
    pub(crate) fn bring_closer(&self, slots: impl Iterator<Item = Slot>) {
        let found = slots.filter(|slot| {
            let hash = Hash::of(self.key(*slot).bytes());
            self.references.find(hash, |it| it == *slot).is_some()
        });
        std::hint::black_box(found.count());
    }

    /// Removes an entry, and hands it out.
    pub(crate) fn remove(&mut self, slot: Slot) -> (Key, V) {
        let chunk = &mut self.chunks[slot as usize / CHUNK];
        let filed = chunk.places[slot as usize % CHUNK].take();
        chunk.entries -= 1;
        if chunk.entries == 0 {
            chunk.places = Box::default();
            self.released += 1;
        }
        let Filed { key, value } = filed.expect("the entry is there");
        self.references.remove(Hash::of(key.bytes()), slot);
        self.vacant.add(slot);
        (key, value)
    }

    /// Puts an entry into its place. The chunk takes memory from now on.
    fn file(&mut self, slot: Slot, filed: Filed<V>) {
        let number = slot as usize / CHUNK;
        if number == self.chunks.len() {
            self.chunks.push(Chunk::new());
        }
        let chunk = &mut self.chunks[number];
        if chunk.places.is_empty() {
            *chunk = Chunk::new();
            self.released -= 1;
        }
        chunk.places[slot as usize % CHUNK] = Some(filed);
        chunk.entries += 1;
    }

    /// Places of entries that are gone, and that others will have: with memory, and without.
    pub(crate) fn vacant(&self) -> (usize, usize) {
        let without = self.released * CHUNK;
        (self.vacant.len().saturating_sub(without), without)
    }

    fn filed(&self, slot: Slot) -> &Filed<V> {
        self.chunks[slot as usize / CHUNK].places[slot as usize % CHUNK]
            .as_ref()
            .expect("the entry is there")
    }

    /// All numbers are below this.
    pub(crate) fn numbers(&self) -> Slot {
        self.numbers
    }

    /// The entry of this number, if there is one.
    pub(crate) fn entry(&self, slot: Slot) -> Option<(&Key, &V)> {
        let chunk = self.chunks.get(slot as usize / CHUNK)?;
        let filed = chunk.places.get(slot as usize % CHUNK)?.as_ref()?;
        Some((&filed.key, &filed.value))
    }

    pub(crate) fn key(&self, slot: Slot) -> &Key {
        &self.filed(slot).key
    }

    pub(crate) fn value(&self, slot: Slot) -> &V {
        &self.filed(slot).value
    }

    pub(crate) fn value_mut(&mut self, slot: Slot) -> &mut V {
        let chunk = &mut self.chunks[slot as usize / CHUNK];
        let filed = chunk.places[slot as usize % CHUNK].as_mut();
        &mut filed.expect("the entry is there").value
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&V> {
        self.find(key).map(|slot| self.value(slot))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Goal: it holds what an ordered map holds. Method: the same insertions, changes and removals to both, numbers used anew.
    #[test]
    fn it_holds_what_an_ordered_map_holds() {
        let mut table = Table::default();
        let mut model = BTreeMap::new();
        for step in 0..20_000_u32 {
            let n = step.wrapping_mul(2_654_435_761) >> 20;
            let mut key = vec![b'k'; 4 + n as usize % 30];
            key[..4].copy_from_slice(&n.to_be_bytes());
            match (table.find(&key), step % 3) {
                (Some(slot), 0) => {
                    table.remove(slot);
                    model.remove(&key);
                }
                (Some(slot), _) => {
                    *table.value_mut(slot) = step;
                    model.insert(key.clone(), step);
                }
                (None, _) => {
                    table.insert(Key::new(&key), step);
                    model.insert(key.clone(), step);
                }
            }
            assert_eq!(table.get(&key), model.get(&key));
        }
        assert!(table.vacant.len() > 0 && !model.is_empty());
        for (key, value) in &model {
            assert_eq!(table.get(key), Some(value));
        }
        assert_eq!(table.references.len(), model.len());
        assert!(table.numbers() <= 1 << 12, "numbers are used anew");
    }

    /// Goal: what is empty takes no memory, and is used anew. Method: entries go in the order of their numbers, but for a few, and others come.
    #[test]
    fn chunks_without_entries_take_no_memory() {
        const KEYS: u32 = 20 * 256 + 10;
        let key = |n: u32| Key::new(&n.to_be_bytes());
        let mut table = Table::default();
        let memory =
            |table: &Table<u32>| -> usize { table.chunks.iter().map(|it| it.places.len()).sum() };
        (0..KEYS).for_each(|n| assert_eq!(table.insert(key(n), n), n));
        let all = memory(&table);
        let stays = |n: u32| n == 7 || n == KEYS - 1;
        let gone = (0..KEYS).filter(|n| !stays(*n));
        gone.clone().for_each(|slot| {
            table.remove(slot);
        });
        assert_eq!((memory(&table), table.numbers()), (2 * CHUNK, KEYS));
        let (with, without) = table.vacant();
        assert_eq!((with, without), (CHUNK - 1 + 9, 19 * CHUNK));
        assert!(table.entry(8).is_none() && table.entry(KEYS / 2).is_none());
        gone.for_each(|n| assert!(table.insert(key(n), n) < KEYS));
        assert_eq!((memory(&table), table.vacant()), (all, (0, 0)));
        for n in 0..KEYS {
            assert_eq!(table.get(&n.to_be_bytes()), Some(&n));
        }
    }
}
