//! One of the parts of the cache of values by key: a hash table with a bound, and the CLOCK policy.
//!
//! Invariant: `bytes` is what all rows cost; the table comes on top. The row of a slot that is shared with the ordered cache is counted there, not here.

use std::sync::Arc;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::cache::borrowed::split;

/// What a row costs beside its key, its value and its slot: two counts, and what the allocator adds.
pub(crate) const OVERHEAD_BYTES: usize = 32;

/// A new table has room for so much of its rows more.
const ROOM_SHARE: usize = 8;

/// It is made smaller where it would then have room for so much of its rows more. So it does not grow again at once.
const SPARE_SHARE: usize = 4;

/// One row of a shard.
#[derive(Debug)]
struct Slot {
    row: Arc<[u8]>,
    /// Part of the key's hash, so that neither growth nor, most times, another key touches the row.
    hash: u32,
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

/// The part of a hash that a slot holds. Which shard it is, other bits say.
fn part(hash: u64) -> u32 {
    let [a, b, c, d, ..] = hash.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// The table takes the lowest and the highest bits.
fn spread(part: u32) -> u64 {
    u64::from(part) << 32 | u64::from(part)
}

impl Slot {
    fn key(&self) -> &[u8] {
        split(&self.row).0
    }

    fn is(&self, hash: u32, key: &[u8]) -> bool {
        self.hash == hash && self.key() == key
    }

    fn cost(&self) -> usize {
        OVERHEAD_BYTES + if self.shared { 0 } else { self.row.len() }
    }
}

impl Shard {
    /// The row of a key, which counts as used.
    pub(crate) fn find(&mut self, hash: u64, key: &[u8]) -> Option<Arc<[u8]>> {
        let hash = part(hash);
        let slot = self
            .table
            .find_mut(spread(hash), |slot| slot.is(hash, key))?;
        slot.referenced = true;
        Some(Arc::clone(&slot.row))
    }

    /// The row of a key, which does not count as used.
    pub(crate) fn look(&self, hash: u64, key: &[u8]) -> Option<&[u8]> {
        let hash = part(hash);
        let slot = self.table.find(spread(hash), |slot| slot.is(hash, key))?;
        Some(&slot.row)
    }

    /// Whether there is a row of this key. Whoever asks also brings the memory that `put` and `remove` look at closer to all processors.
    pub(crate) fn holds(&self, hash: u64, key: &[u8]) -> bool {
        let hash = part(hash);
        let found = self.table.find(spread(hash), |slot| slot.is(hash, key));
        found.is_some()
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    #[cfg(test)]
    pub(crate) fn table_bytes(&self) -> usize {
        self.table.allocation_size()
    }

    #[cfg(test)]
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Arc<[u8]>> {
        self.table.iter().map(|slot| &slot.row)
    }

    /// Sets a row; returns the one that was there.
    pub(crate) fn put(
        &mut self,
        hash: u64,
        key: &[u8],
        row: Arc<[u8]>,
        shared: bool,
    ) -> Option<Arc<[u8]>> {
        let hash = part(hash);
        let mut slot = Slot {
            row,
            hash,
            referenced: false,
            shared,
        };
        self.bytes += slot.cost();
        self.make_room_in_table();
        let is_it = |slot: &Slot| slot.is(hash, key);
        let entry = self
            .table
            .entry(spread(hash), is_it, |slot| spread(slot.hash));
        match entry {
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

    /// Where the table is full of rows that have left, it is made anew. By itself it would take twice the memory.
    fn make_room_in_table(&mut self) {
        let rows = self.table.len();
        if self.table.capacity() == rows {
            self.make_table_anew(rows + rows / ROOM_SHARE + 1);
        }
    }

    /// The same where half the table would do, for more rows than there are.
    fn give_room_back(&mut self) {
        let rows = self.table.len() + self.table.len() / SPARE_SHARE;
        // A table is full when seven of eight buckets are.
        if rows < self.table.num_buckets() / 16 * 7 {
            self.make_table_anew(rows);
        }
    }

    fn make_table_anew(&mut self, rows: usize) {
        let mut table = HashTable::with_capacity(rows);
        for slot in self.table.drain() {
            table.insert_unique(spread(slot.hash), slot, |slot| spread(slot.hash));
        }
        self.table = table;
    }

    pub(crate) fn remove(&mut self, hash: u64, key: &[u8]) -> Option<Arc<[u8]>> {
        let hash = part(hash);
        let entry = self
            .table
            .find_entry(spread(hash), |slot| slot.is(hash, key));
        let (slot, _) = entry.ok()?.remove();
        self.bytes -= slot.cost();
        Some(slot.row)
    }

    /// From now on the ordered cache holds this very row too, or no longer does.
    pub(crate) fn share(&mut self, hash: u64, row: &Arc<[u8]>, shared: bool) {
        if let Some(slot) = self
            .table
            .find_mut(spread(part(hash)), |slot| Arc::ptr_eq(&slot.row, row))
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
        let rows_max = bytes_max.saturating_sub(self.table.allocation_size());
        if self.bytes <= rows_max {
            return evicted;
        }
        while self.bytes > rows_max {
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
        self.give_room_back();
        evicted
    }
}
