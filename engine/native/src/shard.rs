//! One of the parts of the cache of values by key: a hash table with a bound, and the CLOCK policy.
//!
//! Invariant: `bytes` is what all slots cost. The row of a slot that is shared with the ordered cache is counted there, not here.

use std::sync::Arc;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use xxhash_rust::xxh3::xxh3_64;

use crate::lent::{KEY_LEN_BYTES, split};

/// What a row costs beside its key and value.
pub(crate) const OVERHEAD_BYTES: usize = 64;

/// One row of a shard.
#[derive(Debug)]
struct Slot {
    row: Arc<[u8]>,
    referenced: bool,
    /// The ordered cache holds the same row.
    shared: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Shard {
    table: HashTable<Slot>,
    bytes: usize,
    /// The bucket at which eviction goes on.
    hand: usize,
    /// Writes so far.
    pub(crate) writes: u64,
    /// Writes to keys of this shard that wait for room in the engine.
    pub(crate) fences: u32,
}

impl Slot {
    fn key(&self) -> &[u8] {
        split(&self.row).0
    }

    fn is(&self, key: &[u8]) -> bool {
        self.key() == key
    }

    fn cost(&self) -> usize {
        OVERHEAD_BYTES + if self.shared { 0 } else { self.row.len() }
    }
}

impl Shard {
    /// The row of a key, which counts as used.
    pub(crate) fn find(&mut self, hash: u64, key: &[u8]) -> Option<Arc<[u8]>> {
        let slot = self.table.find_mut(hash, |slot| slot.is(key))?;
        slot.referenced = true;
        Some(Arc::clone(&slot.row))
    }

    pub(crate) fn holds(&self, hash: u64, key: &[u8]) -> bool {
        self.table.find(hash, |slot| slot.is(key)).is_some()
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    #[cfg(test)]
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Arc<[u8]>> {
        self.table.iter().map(|slot| &slot.row)
    }

    /// Changes a row in place, if it has the same size and is lent to nobody.
    pub(crate) fn overwrite(&mut self, hash: u64, key: &[u8], value: &[u8]) -> bool {
        let Some(slot) = self.table.find_mut(hash, |slot| slot.is(key)) else {
            return false;
        };
        slot.referenced = true;
        match Arc::get_mut(&mut slot.row) {
            Some(row) if row.len() == KEY_LEN_BYTES + key.len() + value.len() => {
                row[KEY_LEN_BYTES + key.len()..].copy_from_slice(value);
                true
            }
            _ => false,
        }
    }

    /// Sets a row; returns the one that was there.
    pub(crate) fn put(
        &mut self,
        hash: u64,
        key: &[u8],
        row: Arc<[u8]>,
        shared: bool,
    ) -> Option<Arc<[u8]>> {
        let mut slot = Slot {
            row,
            referenced: false,
            shared,
        };
        self.bytes += slot.cost();
        let rehash = |slot: &Slot| xxh3_64(slot.key());
        match self.table.entry(hash, |slot| slot.is(key), rehash) {
            Entry::Occupied(mut entry) => {
                slot.referenced = true;
                let old = std::mem::replace(entry.get_mut(), slot);
                self.bytes -= old.cost();
                Some(old.row)
            }
            Entry::Vacant(entry) => {
                entry.insert(slot);
                None
            }
        }
    }

    pub(crate) fn remove(&mut self, hash: u64, key: &[u8]) -> Option<Arc<[u8]>> {
        let entry = self.table.find_entry(hash, |slot| slot.is(key)).ok()?;
        let (slot, _) = entry.remove();
        self.bytes -= slot.cost();
        Some(slot.row)
    }

    /// From now on the ordered cache holds this very row too, or no longer does.
    pub(crate) fn share(&mut self, hash: u64, row: &Arc<[u8]>, shared: bool) {
        if let Some(slot) = self
            .table
            .find_mut(hash, |slot| Arc::ptr_eq(&slot.row, row))
        {
            self.bytes -= slot.cost();
            slot.shared = shared;
            self.bytes += slot.cost();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.table.clear();
        self.bytes = 0;
        self.writes += 1;
    }

    pub(crate) fn evict(&mut self, bytes_max: usize) -> Vec<Arc<[u8]>> {
        let mut evicted = Vec::new();
        while self.bytes > bytes_max {
            if self.hand >= self.table.num_buckets() {
                self.hand = 0;
            }
            match self.table.get_bucket_mut(self.hand) {
                Some(slot) if slot.referenced => slot.referenced = false,
                Some(_) => {
                    let entry = self.table.get_bucket_entry(self.hand);
                    let (slot, _) = entry.expect("it is occupied").remove();
                    self.bytes -= slot.cost();
                    evicted.push(slot.row);
                }
                None => {}
            }
            self.hand += 1;
        }
        evicted
    }
}
