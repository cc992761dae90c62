//! Entries by key, found by hash: looking up a key takes three cache lines, where walking down a tree takes one or more per level.
//!
//! Invariants:
//! - an entry keeps its number from its insertion to its removal, so that whatever orders entries can refer to them by number;
//! - entries do not move in memory: however many there are, none is copied when more come;
//! - nothing that decides depends on the order in which they lie in the hash table.

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use crate::index::key::{Key, is_same};

/// Number of an entry.
pub(crate) type Slot = u32;

/// Entries of a chunk.
const CHUNK: usize = 256;

/// What the hash table holds. The hash lies beside the number, so that neither a wrong candidate nor growth touches an entry.
#[derive(Debug, Clone, Copy)]
struct Reference {
    hash: u32,
    slot: Slot,
}

impl Reference {
    /// The table takes the lowest and the highest bits.
    fn spread(hash: u32) -> u64 {
        u64::from(hash) << 32 | u64::from(hash)
    }
}

fn hash(key: &[u8]) -> u32 {
    let [a, b, c, d, ..] = xxh3_64(key).to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

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
    references: HashTable<Reference>,
    /// By number, in chunks that are filled one after the other.
    chunks: Vec<Vec<Option<Filed<V>>>>,
    vacant: Vec<Slot>,
}

impl<V> Default for Table<V> {
    fn default() -> Self {
        Table {
            references: HashTable::new(),
            chunks: Vec::new(),
            vacant: Vec::new(),
        }
    }
}

impl<V> Table<V> {
    /// The number of a key's entry.
    pub(crate) fn find(&self, key: &[u8]) -> Option<Slot> {
        let hash = hash(key);
        let is_it = |it: &Reference| it.hash == hash && is_same(self.key(it.slot).bytes(), key);
        let reference = self.references.find(Reference::spread(hash), is_it)?;
        Some(reference.slot)
    }

    /// Adds an entry of a key that has none.
    pub(crate) fn insert(&mut self, key: Key, value: V) -> Slot {
        let hash = hash(key.bytes());
        let filed = Some(Filed { key, value });
        let slot = match self.vacant.pop() {
            Some(slot) => {
                *self.place(slot) = filed;
                slot
            }
            None => self.file(filed),
        };
        self.references.insert_unique(
            Reference::spread(hash),
            Reference { hash, slot },
            |reference| Reference::spread(reference.hash),
        );
        slot
    }

    /// Removes an entry, and hands it out.
    pub(crate) fn remove(&mut self, slot: Slot) -> (Key, V) {
        let filed = self.place(slot).take();
        let Filed { key, value } = filed.expect("the entry is there");
        let hash = hash(key.bytes());
        let found = self
            .references
            .find_entry(Reference::spread(hash), |it| it.slot == slot);
        found.expect("every entry is referred to").remove();
        self.vacant.push(slot);
        (key, value)
    }

    /// Adds an entry behind all others.
    fn file(&mut self, filed: Option<Filed<V>>) -> Slot {
        if self.chunks.last().is_none_or(|last| last.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let full = self.chunks.len() - 1;
        let last = self.chunks.last_mut().expect("there is one");
        let slot = full * CHUNK + last.len();
        last.push(filed);
        crate::format::len32(slot)
    }

    /// Places of entries that are gone, and that others will have.
    pub(crate) fn vacant(&self) -> usize {
        self.vacant.len()
    }

    fn place(&mut self, slot: Slot) -> &mut Option<Filed<V>> {
        &mut self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    fn filed(&self, slot: Slot) -> &Filed<V> {
        self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
            .as_ref()
            .expect("the entry is there")
    }

    /// All numbers are below this.
    pub(crate) fn numbers(&self) -> Slot {
        let last = self.chunks.last().map_or(0, Vec::len);
        let full = self.chunks.len().saturating_sub(1);
        crate::format::len32(full * CHUNK + last)
    }

    /// The entry of this number, if there is one.
    pub(crate) fn entry(&self, slot: Slot) -> Option<(&Key, &V)> {
        let chunk = self.chunks.get(slot as usize / CHUNK)?;
        let filed = chunk.get(slot as usize % CHUNK)?.as_ref()?;
        Some((&filed.key, &filed.value))
    }

    pub(crate) fn key(&self, slot: Slot) -> &Key {
        &self.filed(slot).key
    }

    pub(crate) fn value(&self, slot: Slot) -> &V {
        &self.filed(slot).value
    }

    pub(crate) fn value_mut(&mut self, slot: Slot) -> &mut V {
        let filed = self.place(slot).as_mut();
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
        assert!(!table.vacant.is_empty() && !model.is_empty());
        for (key, value) in &model {
            assert_eq!(table.get(key), Some(value));
        }
        assert_eq!(table.references.len(), model.len());
        let filed: usize = table.chunks.iter().map(Vec::len).sum();
        assert!(filed <= 1 << 12, "numbers are used anew");
    }
}
