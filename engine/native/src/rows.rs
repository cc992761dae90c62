//! The cache of newest values by key, which most reads never get past.
//!
//! It is sharded, and a shard's lock is held for a lookup and no longer; so a read neither waits for a flush nor for a writer at
//! work in the engine. Eviction is CLOCK within each shard.
//!
//! Invariants:
//! - what is here is what the engine would answer: a write changes its row while the engine's lock is still held, and a value that
//!   was read is put here only if no write came to its shard since the read began;
//! - a key whose write waits for room in the engine is fenced: it is not here until that write is answered;
//! - keys and values together never exceed the bound.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use xxhash_rust::xxh3::xxh3_64;

use crate::lent::{KEY_LEN_BYTES, Value, row_of, split};

const SHARDS: usize = 256;
/// What a row costs beside its key and value.
const OVERHEAD_BYTES: usize = 64;
/// A row may take this share of a shard.
const SHARE_MAX: usize = 8;

/// One row of a shard.
#[derive(Debug)]
struct Slot {
    row: Arc<[u8]>,
    referenced: bool,
}

#[derive(Default)]
struct Shard {
    table: HashTable<Slot>,
    bytes: usize,
    /// The bucket at which eviction goes on.
    hand: usize,
    /// Writes so far.
    writes: u64,
    /// Writes to keys of this shard that wait for room in the engine.
    fences: u32,
}

/// How many writes a shard had seen when a read began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp(u64);

/// Keys that were looked for and not found, in the order of a scan.
#[derive(Debug, Default)]
pub(crate) struct Missing(Vec<(Box<[u8]>, Stamp)>);

impl Missing {
    pub(crate) fn note(&mut self, key: &[u8], stamp: Stamp) {
        self.0.push((key.into(), stamp));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

pub(crate) struct Rows {
    shards: Box<[Mutex<Shard>]>,
    /// Grows before any row changes.
    changes: AtomicU64,
    shard_bytes_max: usize,
}

impl Rows {
    pub(crate) fn new(bound_bytes: u64) -> Rows {
        let bound = usize::try_from(bound_bytes).unwrap_or(usize::MAX);
        Rows {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            changes: AtomicU64::new(0),
            shard_bytes_max: bound / SHARDS,
        }
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        // The table takes the low and the top bits.
        let shard = usize::try_from((hash >> 40) % SHARDS as u64).expect("a few shards");
        self.shards[shard]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest value, if it is here; else the stamp for `fill`.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Value, Stamp> {
        let hash = xxh3_64(key);
        let mut shard = self.shard(hash);
        match shard.table.find_mut(hash, |slot| slot.is(key)) {
            Some(slot) => {
                slot.referenced = true;
                let row = Arc::clone(&slot.row);
                drop(shard);
                Ok(Value::of_row(row, KEY_LEN_BYTES + key.len()))
            }
            None => Err(Stamp(shard.writes)),
        }
    }

    /// Two equal counts with the engine's lock held at the first: no row has changed in between.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// A write has taken effect in the engine.
    pub(crate) fn write(&self, key: &[u8], value: Option<&[u8]>) {
        // Whoever sees the row changed has taken the shard's lock after this.
        self.changes.fetch_add(1, Ordering::Relaxed);
        let hash = xxh3_64(key);
        let value = value.filter(|value| self.takes(key, value));
        let mut shard = self.shard(hash);
        shard.writes += 1;
        if value.is_some_and(|value| shard.overwrite(hash, key, value)) {
            return;
        }
        let old = match value {
            Some(value) => shard.put(hash, key, row_of(key, value)),
            None => shard.remove(hash, key),
        };
        let evicted = shard.evict(self.shard_bytes_max);
        drop(shard);
        // Memory is given back without the lock.
        drop((old, evicted));
    }

    /// A write to this key will take effect at some time from now on: until `unfence`, nothing is put into its shard.
    pub(crate) fn fence(&self, key: &[u8]) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        let hash = xxh3_64(key);
        let mut shard = self.shard(hash);
        shard.fences += 1;
        shard.writes += 1;
        let removed = shard.remove(hash, key);
        drop(shard);
        drop(removed);
    }

    /// That write was answered.
    pub(crate) fn unfence(&self, key: &[u8]) {
        let mut shard = self.shard(xxh3_64(key));
        shard.fences -= 1;
        shard.writes += 1;
    }

    /// A value was read that was the newest when `stamp` was taken.
    pub(crate) fn fill(&self, key: &[u8], value: &[u8], stamp: Stamp) {
        if !self.takes(key, value) {
            return;
        }
        let hash = xxh3_64(key);
        let row = row_of(key, value);
        let mut shard = self.shard(hash);
        let untouched = shard.writes == stamp.0 && shard.fences == 0;
        if untouched && shard.table.find(hash, |slot| slot.is(key)).is_none() {
            shard.put(hash, key, row);
            let evicted = shard.evict(self.shard_bytes_max);
            drop(shard);
            drop(evicted);
        }
    }

    /// Of these entries, which were read since, keeps those that were missing; both are in the same order.
    pub(crate) fn fill_all(&self, missing: &Missing, read: &[kvsim_engine::Entry]) {
        let mut missing = missing.0.iter().peekable();
        for entry in read {
            if let Some((key, stamp)) = missing.next_if(|(key, _)| *key == entry.key) {
                self.fill(key, &entry.value, *stamp);
            }
        }
    }

    fn takes(&self, key: &[u8], value: &[u8]) -> bool {
        (key.len() + value.len() + OVERHEAD_BYTES) * SHARE_MAX <= self.shard_bytes_max
    }
}

impl Slot {
    fn key(&self) -> &[u8] {
        split(&self.row).0
    }

    fn is(&self, key: &[u8]) -> bool {
        self.key() == key
    }
}

impl Shard {
    /// Changes a row in place, if it has the same size and is lent to nobody.
    fn overwrite(&mut self, hash: u64, key: &[u8], value: &[u8]) -> bool {
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
    fn put(&mut self, hash: u64, key: &[u8], row: Arc<[u8]>) -> Option<Arc<[u8]>> {
        self.bytes += row.len();
        let rehash = |slot: &Slot| xxh3_64(slot.key());
        match self.table.entry(hash, |slot| slot.is(key), rehash) {
            Entry::Occupied(mut entry) => {
                let slot = entry.get_mut();
                slot.referenced = true;
                let old = std::mem::replace(&mut slot.row, row);
                self.bytes -= old.len();
                Some(old)
            }
            Entry::Vacant(entry) => {
                self.bytes += OVERHEAD_BYTES;
                entry.insert(Slot {
                    row,
                    referenced: false,
                });
                None
            }
        }
    }

    fn remove(&mut self, hash: u64, key: &[u8]) -> Option<Arc<[u8]>> {
        let entry = self.table.find_entry(hash, |slot| slot.is(key)).ok()?;
        let (slot, _) = entry.remove();
        self.bytes -= slot.row.len() + OVERHEAD_BYTES;
        Some(slot.row)
    }

    fn evict(&mut self, bytes_max: usize) -> Vec<Arc<[u8]>> {
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
                    self.bytes -= slot.row.len() + OVERHEAD_BYTES;
                    evicted.push(slot.row);
                }
                None => {}
            }
            self.hand += 1;
        }
        evicted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the cache answers what was written last. Method: writes, overwrites and deletes of many keys, against a map.
    #[test]
    fn the_newest_value_is_found() {
        let rows = Rows::new(64 << 20);
        let mut model = std::collections::BTreeMap::new();
        for n in 0_u32..20_000 {
            let key = (n * 7919 % 1500).to_le_bytes();
            if n % 5 == 0 {
                rows.write(&key, None);
                model.remove(&key);
            } else {
                rows.write(&key, Some(&n.to_le_bytes()));
                model.insert(key, n.to_le_bytes());
            }
        }
        for key in (0_u32..1500).map(u32::to_le_bytes) {
            let found = rows.get(&key).ok();
            assert_eq!(found.as_deref(), model.get(&key).map(|value| &value[..]));
        }
    }

    /// Goal: a value that was read before a write does not come back over it. Method: a stamp, a delete, a fill.
    #[test]
    fn a_read_that_a_write_overtook_is_not_kept() {
        let rows = Rows::new(64 << 20);
        let stamp = rows.get(b"key").expect_err("it is empty");
        rows.write(b"key", Some(b"new"));
        rows.write(b"key", None);
        rows.fill(b"key", b"old", stamp);
        let stamp = rows.get(b"key").expect_err("it was deleted");
        rows.fill(b"key", b"read", stamp);
        assert_eq!(
            &rows.get(b"key").expect("nothing came between")[..],
            b"read"
        );
    }

    /// Goal: while a write waits, nothing read before it took effect is kept. Method: a fence, reads begun and ended within it.
    #[test]
    fn a_fenced_key_is_not_here() {
        let rows = Rows::new(64 << 20);
        rows.write(b"key", Some(b"old"));
        rows.fence(b"key");
        let stamp = rows.get(b"key").expect_err("it is fenced");
        rows.fill(b"key", b"old", stamp);
        let stamp = rows.get(b"key").expect_err("it is fenced still");
        rows.unfence(b"key");
        rows.fill(b"key", b"old", stamp);
        assert!(
            rows.get(b"key").is_err(),
            "the write took effect in between"
        );
    }

    /// Goal: the bound holds. Method: far more than fits, looked up in between.
    #[test]
    fn the_bound_holds() {
        let rows = Rows::new(4 << 20);
        for n in 0_u32..50_000 {
            rows.write(&n.to_le_bytes(), Some(&[7; 500]));
            let held: usize = rows
                .get(&(n / 2).to_le_bytes())
                .map_or(0, |value| value.len());
            assert!(held == 0 || held == 500);
        }
        let bytes: usize = rows
            .shards
            .iter()
            .map(|shard| shard.lock().expect("whole").bytes)
            .sum();
        assert!(bytes <= 4 << 20, "{bytes}");
        assert!(bytes > 3 << 20, "{bytes}");
    }
}
