//! The cache of newest values: by key, which most reads never get past, and in order, which most scans never get past.
//!
//! By key the cache is sharded, and a shard's lock is held for a lookup only. So a read waits neither for a flush nor
//! for a writer in the engine. In order it is one tree (see `ranges`), whose lock a scan holds until it has its
//! references to the leaves. Both refer to the same rows.
//!
//! Invariants:
//! - a row here is what the engine would answer, or will answer with all accepted writes. Writes change their rows in
//!   the order in which the engine gets them (see `intake`). A value that was read is put here only if no write came to
//!   its shard since the read began;
//! - a thread that has seen a write in one of the two sees it in the other: where there are ranges, both change with
//!   the ranges' lock held;
//! - a key whose write waits for room in the engine is fenced: it is not here until that write is answered;
//! - keys and values together never exceed the bound and what is spare beside it: a row that both hold is counted once, and what ranges take the shards give. Where less becomes spare,
//!   a shard gives that back with the next row that it gets.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};

use kvsim_engine::{CachedValues, Key, Mutation, ScanRange};
use xxhash_rust::xxh3::xxh3_64;

use crate::cache::borrowed::{KEY_LEN_BYTES, Value, row_of, split};
use crate::cache::draft::{Draft, DraftRow, DraftRows, draw_up};
use crate::cache::entries::Entries;
use crate::cache::leaf::{Leaf, ROW_OVERHEAD_BYTES};
use crate::cache::ranges::{Put, Ranges};
use crate::cache::shard::{OVERHEAD_BYTES, Shard};
use crate::lock::lock;

const SHARDS: usize = 256;
/// A row may take this share of a shard.
const SHARE_MAX: usize = 8;
/// A key and a value that the index may have in it take no more than this.
const SMALL_BYTES: usize = 2048;
/// What is spare is used in steps of so many bytes.
const SPARE_STEP_BYTES: usize = 64 << 10;
/// Ranges may take so many of this many parts of the bound.
const RANGES_PARTS: usize = 48;
const PARTS: usize = 64;
/// One scan may bring this share of the ranges' part.
const SCAN_SHARE_MAX: usize = 4;

/// How many writes a shard had seen when a read began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    ranges: RwLock<Ranges>,
    /// There may be ranges. Changes with the engine's lock held.
    ordered: AtomicBool,
    /// Grows before any row changes.
    changes: AtomicU64,
    bytes_max: usize,
    /// Of the bound, what the shards leave to the ranges. Changes with their lock held.
    reserved_bytes: AtomicUsize,
    /// What the shards may have beside the bound, for now. Changes with the engine's lock held.
    spare_bytes: AtomicUsize,
    /// As much of it as gets have brought values for. While data is loaded, memory is spare only for a while.
    used_spare_bytes: AtomicUsize,
}

impl Rows {
    pub(crate) fn new(bound_bytes: u64) -> Rows {
        Rows {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            ranges: RwLock::default(),
            ordered: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            bytes_max: usize::try_from(bound_bytes).unwrap_or(usize::MAX),
            reserved_bytes: AtomicUsize::new(0),
            spare_bytes: AtomicUsize::new(0),
            used_spare_bytes: AtomicUsize::new(0),
        }
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        // The table takes the low and the top bits.
        let shard = usize::try_from((hash >> 40) % SHARDS as u64).expect("a few shards");
        lock(&self.shards[shard])
    }

    fn shard_bytes_max(&self) -> usize {
        let own = self.bytes_max - self.reserved_bytes.load(Ordering::Relaxed);
        let spare = self.used_spare_bytes.load(Ordering::Relaxed);
        own.saturating_add(spare) / SHARDS
    }

    fn ranges_mut(&self) -> RwLockWriteGuard<'_, Ranges> {
        self.ranges.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest value, if it is here; else the stamp for `fill`.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Value, Stamp> {
        self.get_row(key)
            .map(|row| Value::of_row(row, KEY_LEN_BYTES + key.len()))
    }

    /// The same as the row that it lies in.
    pub(crate) fn get_row(&self, key: &[u8]) -> Result<Arc<[u8]>, Stamp> {
        let hash = xxh3_64(key);
        let mut shard = self.shard(hash);
        let found = shard.find(hash, key);
        found.ok_or(Stamp(shard.writes))
    }

    /// What a scan returns, if all of it is here in order.
    pub(crate) fn scan(&self, range: &ScanRange<'_>) -> Option<Entries> {
        let ranges = self.ranges.read().unwrap_or_else(PoisonError::into_inner);
        ranges.scan(range)
    }

    /// Whether anything is kept at all.
    pub(crate) fn keep(&self) -> bool {
        self.bytes_max > 0
    }

    /// Two equal counts with the intake held at the first: no row has changed in between.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// What these writes will make of the rows, without any lock but for a look whether they are there.
    pub(crate) fn draft<'a>(&self, batch: &'a [Mutation<'a>]) -> Draft<'a> {
        let rows = batch.iter().map(|mutation| {
            let hash = xxh3_64(mutation.key());
            self.shard(hash).holds(hash, mutation.key());
            let row = match mutation {
                Mutation::Put { key, value } if self.takes(key, value.len()) => {
                    Some(draw_up(key, value))
                }
                _ => None,
            };
            DraftRow { hash, row }
        });
        Draft::new(batch, rows.collect())
    }

    /// Writes were accepted or have taken effect in the engine; the intake is held.
    pub(crate) fn apply(&self, draft: &Draft<'_>) {
        // Whoever sees a row changed has taken the shard's lock after this.
        self.changes.fetch_add(1, Ordering::Relaxed);
        let mut rows = draft.rows();
        let DraftRows { rows, dead } = &mut *rows;
        let writes = draft.batch().iter().zip(rows);
        if !self.ordered.load(Ordering::Relaxed) {
            return writes.for_each(|(mutation, row)| self.write(mutation.key(), row, dead));
        }
        let mut left = Vec::new();
        let mut ranges = self.ranges_mut();
        for (mutation, draft) in writes {
            let key = mutation.key();
            match (mutation, draft.row.take()) {
                (_, Some(row)) => match ranges.put(key, &row, &mut left) {
                    Put::Here { old } => {
                        dead.extend(old);
                        self.set(draft.hash, key, row, true, dead);
                    }
                    Put::Nowhere => self.set(draft.hash, key, row, false, dead),
                },
                (Mutation::Put { .. }, None) => {
                    left.extend(ranges.forget(key));
                    self.write(key, draft, dead);
                }
                (Mutation::Delete { .. }, None) => {
                    dead.extend(ranges.remove(key, &mut left));
                    self.write(key, draft, dead);
                }
            }
        }
        self.make_room(&mut ranges, 0, &mut left);
        drop(ranges);
        self.unshare(&left);
    }

    /// A write to a key that is in no range.
    fn write(&self, key: &[u8], draft: &mut DraftRow, dead: &mut Vec<Arc<[u8]>>) {
        match draft.row.take() {
            Some(row) => self.set(draft.hash, key, row, false, dead),
            None => {
                let mut shard = self.shard(draft.hash);
                shard.writes += 1;
                dead.extend(shard.remove(draft.hash, key));
            }
        }
    }

    /// Sets a row. What leaves is given back by the caller, without a lock.
    fn set(&self, hash: u64, key: &[u8], row: Arc<[u8]>, shared: bool, dead: &mut Vec<Arc<[u8]>>) {
        let mut shard = self.shard(hash);
        shard.writes += 1;
        dead.extend(shard.put(hash, key, row, shared));
        dead.extend(shard.evict(self.shard_bytes_max()));
    }

    /// A write to this key will take effect at some time from now on: until `unfence`, nothing is put into its shard or the ranges.
    pub(crate) fn fence(&self, key: &[u8]) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        let mut ranges = self.ranges_mut();
        let left = ranges.fence(key);
        let hash = xxh3_64(key);
        let mut shard = self.shard(hash);
        shard.fences += 1;
        shard.writes += 1;
        let removed = shard.remove(hash, key);
        drop(shard);
        drop(ranges);
        drop(removed);
        self.unshare(left.as_slice());
    }

    /// That write was answered.
    pub(crate) fn unfence(&self, key: &[u8]) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        self.ranges_mut().unfence();
        let mut shard = self.shard(xxh3_64(key));
        shard.fences -= 1;
        shard.writes += 1;
    }

    /// The database closes: from now on scans ask the engine, which refuses them, as it does all that could bring more rows. So no
    /// shard has to learn whose its rows are now.
    pub(crate) fn forget_ranges(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        let left = self.ranges_mut().clear();
        self.ordered.store(false, Ordering::Relaxed);
        drop(left);
    }

    /// There is no engine any more: nothing is here.
    pub(crate) fn forget(&self) {
        self.forget_ranges();
        for shard in &self.shards {
            lock(shard).clear();
        }
    }

    /// A value was read that was the newest when `stamp` was taken.
    pub(crate) fn fill(&self, key: &[u8], value: &[u8], stamp: Stamp) {
        if self.takes(key, value.len()) {
            self.fill_row(key, row_of(key, value), stamp);
        }
    }

    /// The same, and hands the value out.
    pub(crate) fn fill_and_get(&self, key: &[u8], value: &[u8], stamp: Stamp) -> Value {
        let row = row_of(key, value);
        if self.takes(key, value.len()) {
            self.fill_row(key, Arc::clone(&row), stamp);
        }
        Value::of_row(row, KEY_LEN_BYTES + key.len())
    }

    fn fill_row(&self, key: &[u8], row: Arc<[u8]>, stamp: Stamp) {
        let hash = xxh3_64(key);
        let mut shard = self.shard(hash);
        let untouched = shard.writes == stamp.0 && shard.fences == 0;
        if untouched && !shard.holds(hash, key) {
            self.use_spare(row.len() + OVERHEAD_BYTES);
            shard.put(hash, key, row, false);
            let evicted = shard.evict(self.shard_bytes_max());
            drop(shard);
            drop(evicted);
        }
    }

    /// Of these entries, which were read since, keeps those that were missing; both are in the same order.
    pub(crate) fn fill_all(&self, missing: &Missing, read: &[kvsim_engine::Entry]) {
        let mut missing = missing.0.iter().peekable();
        for entry in read {
            if let Some((key, stamp)) = missing.next_if(|(key, _)| **key == *entry.key) {
                self.fill(key, &entry.value, *stamp);
            }
        }
    }

    /// These are all rows between two bounds, or were when there had been `changes`. The intake is held.
    pub(crate) fn fill_range(
        &self,
        changes: u64,
        from: Key,
        until: Option<&Key>,
        rows: &[Arc<[u8]>],
    ) {
        let bytes: usize = rows.iter().map(|row| row.len() + ROW_OVERHEAD_BYTES).sum();
        if self.changes() != changes || bytes > self.ranges_bytes_max() / SCAN_SHARE_MAX {
            return;
        }
        let mut left = Vec::new();
        let mut ranges = self.ranges_mut();
        if ranges.is_fenced() {
            return;
        }
        self.make_room(&mut ranges, bytes, &mut left);
        let taken = ranges.fill(from, until, rows);
        self.make_room(&mut ranges, 0, &mut left);
        self.ordered.store(true, Ordering::Relaxed);
        drop(ranges);
        for row in &taken {
            let hash = xxh3_64(split(row).0);
            self.shard(hash).share(hash, row, true);
        }
        // Some of what was taken may have left again.
        self.unshare(&left);
    }

    fn ranges_bytes_max(&self) -> usize {
        self.bytes_max / PARTS * RANGES_PARTS
    }

    /// Before ranges take so many bytes more: what is too much leaves, and the shards give what is needed.
    fn make_room(&self, ranges: &mut Ranges, bytes: usize, left: &mut Vec<Arc<Leaf>>) {
        while ranges.bytes() + bytes > self.ranges_bytes_max() {
            let Some(leaf) = ranges.evict() else {
                break;
            };
            left.push(leaf);
        }
        let part = self.bytes_max / PARTS;
        let reserved = self.reserved_bytes.load(Ordering::Relaxed);
        // One part more than is needed, so that a row or two always fit.
        let needed = ((ranges.bytes() + bytes) / part.max(1) + 2) * part;
        let needed = needed.min(self.bytes_max);
        if needed > reserved {
            self.reserved_bytes.store(needed, Ordering::Relaxed);
            let bytes_max = self.shard_bytes_max();
            for shard in &self.shards {
                let mut shard = lock(shard);
                let evicted = shard.evict(bytes_max);
                drop(shard);
                drop(evicted);
            }
        } else if needed + part < reserved {
            self.reserved_bytes.store(needed, Ordering::Relaxed);
        }
    }

    /// These leaves are no longer in the ranges: the rows that the shards still hold are theirs alone.
    fn unshare(&self, left: &[Arc<Leaf>]) {
        for row in left.iter().flat_map(|leaf| leaf.rows()) {
            let hash = xxh3_64(split(row).0);
            let mut shard = self.shard(hash);
            shard.share(hash, row, false);
            let evicted = shard.evict(self.shard_bytes_max());
            drop(shard);
            drop(evicted);
        }
    }

    fn takes(&self, key: &[u8], value_bytes: usize) -> bool {
        (key.len() + value_bytes + OVERHEAD_BYTES) * SHARE_MAX <= self.bytes_max / SHARDS
    }

    /// Whether all values are kept that may lie in the index.
    pub(crate) fn keeps_small(&self) -> bool {
        self.takes(&[], SMALL_BYTES)
    }

    /// So much memory more may be used, until something else is said.
    pub(crate) fn set_spare(&self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // Mostly it stays the same so, and all threads read it.
        let bytes = bytes / SPARE_STEP_BYTES * SPARE_STEP_BYTES;
        if self.spare_bytes.load(Ordering::Relaxed) != bytes {
            self.spare_bytes.store(bytes, Ordering::Relaxed);
            self.used_spare_bytes.fetch_min(bytes, Ordering::Relaxed);
        }
    }

    /// A get has brought so many bytes.
    fn use_spare(&self, bytes: usize) {
        let (spare, used) = (&self.spare_bytes, &self.used_spare_bytes);
        let spare = spare.load(Ordering::Relaxed);
        if used.load(Ordering::Relaxed) < spare {
            used.fetch_add(bytes, Ordering::Relaxed);
            used.fetch_min(spare, Ordering::Relaxed);
        }
    }
}

impl CachedValues for Rows {
    fn with_value(&self, key: &[u8], take: &mut dyn FnMut(&[u8])) {
        let hash = xxh3_64(key);
        if let Some(row) = self.shard(hash).look(hash, key) {
            take(&row[split(row).1..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(rows: &Rows, key: &[u8], value: &[u8]) {
        rows.apply(&rows.draft(&[Mutation::Put { key, value }]));
    }

    fn delete(rows: &Rows, key: &[u8]) {
        rows.apply(&rows.draft(&[Mutation::Delete { key }]));
    }

    /// Goal: the cache answers what was written last. Method: writes, overwrites and deletes of many keys, against a map.
    #[test]
    fn the_newest_value_is_found() {
        let rows = Rows::new(64 << 20);
        let mut model = std::collections::BTreeMap::new();
        for n in 0_u32..20_000 {
            let key = (n * 7919 % 1500).to_le_bytes();
            if n % 5 == 0 {
                delete(&rows, &key);
                model.remove(&key);
            } else {
                put(&rows, &key, &n.to_le_bytes());
                model.insert(key, n.to_le_bytes());
            }
        }
        for key in (0_u32..1500).map(u32::to_le_bytes) {
            let found = rows.get(&key).ok();
            assert_eq!(found.as_deref(), model.get(&key).map(|value| &value[..]));
            let mut borrowed = None;
            rows.with_value(&key, &mut |value| borrowed = Some(value.to_vec()));
            assert_eq!(borrowed.as_deref(), found.as_deref());
        }
    }

    /// Goal: a value that was read before a write does not come back over it. Method: a stamp, a delete, a fill.
    #[test]
    fn a_read_that_a_write_overtook_is_not_kept() {
        let rows = Rows::new(64 << 20);
        let stamp = rows.get(b"key").expect_err("it is empty");
        put(&rows, b"key", b"new");
        delete(&rows, b"key");
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
        put(&rows, b"key", b"old");
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
            put(&rows, &n.to_le_bytes(), &[7; 500]);
            let held: usize = rows
                .get(&(n / 2).to_le_bytes())
                .map_or(0, |value| value.len());
            assert!(held == 0 || held == 500);
        }
        let bytes: usize = rows
            .shards
            .iter()
            .map(|shard| shard.lock().expect("whole").bytes())
            .sum();
        assert!(bytes <= 4 << 20, "{bytes}");
        assert!(bytes > 3 << 20, "{bytes}");
    }

    /// Goal: where rows come and go, the memory is taken by rows and not by tables of rows that have left; spare memory is used for what gets bring, and given back. Method: far more
    /// rows than fit, four times over, before, while and after as much as the bound is spare.
    #[test]
    fn tables_stay_small_and_spare_memory_is_used() {
        const BOUND: u64 = 8 << 20;
        let rows = Rows::new(BOUND);
        let mut counts = [0; 4];
        let rounds = [(0, false), (BOUND, false), (BOUND, true), (0, false)];
        for (round, (spare, gets)) in rounds.into_iter().enumerate() {
            rows.set_spare(spare);
            for n in 0..300_000_u32 {
                match rows.get(&n.to_le_bytes()) {
                    Err(stamp) if gets => rows.fill(&n.to_le_bytes(), &[7; 100], stamp),
                    _ => put(&rows, &n.to_le_bytes(), &[7; 100]),
                }
            }
            let used = if gets { spare } else { 0 };
            let shards = || rows.shards.iter().map(|shard| lock(shard));
            let held: usize = shards()
                .map(|shard| shard.bytes() + shard.table_bytes())
                .sum();
            assert!(held as u64 <= BOUND + used, "{held} bytes in round {round}");
            counts[round] = shards().map(|shard| shard.rows().count()).sum();
            let row_bytes = row_of(&[0; 4], &[7; 100]).len() + OVERHEAD_BYTES;
            let in_rows = counts[round] * row_bytes;
            assert!(in_rows as u64 * 4 > (BOUND + used) * 3, "{in_rows} bytes");
        }
        assert!(counts[1] < counts[0] * 11 / 10 && counts[3] < counts[0] * 11 / 10);
        assert!(counts[2] > counts[0] * 9 / 5);
    }

    /// Goal: the bound holds for both caches together, and a row that both hold counts once. Method: writes, reads and ranges that go
    /// beyond it; every row that is in memory is counted, whoever holds it.
    #[test]
    fn the_bound_holds_for_rows_and_ranges_together() {
        const BOUND: usize = 4 << 20;
        const KEYS: u32 = 20_000;
        let rows = Rows::new(BOUND as u64);
        for round in 0..3_u8 {
            for n in (0..KEYS).step_by(50) {
                let all: Vec<_> = (n..n + 50).map(u32::to_be_bytes).collect();
                all.iter().for_each(|key| put(&rows, key, &[round; 400]));
                let held: Vec<_> = all
                    .iter()
                    .filter_map(|key| rows.get_row(key).ok())
                    .collect();
                let changes = rows.changes();
                if held.len() == all.len() {
                    let until = Key::new(&(n + 50).to_be_bytes());
                    rows.fill_range(changes, Key::new(&all[0]), Some(&until), &held);
                }
                drop(held);
                if n % 1000 > 0 {
                    continue;
                }
                let mut in_memory = std::collections::BTreeMap::new();
                let mut note =
                    |row: &Arc<[u8]>| in_memory.insert(Arc::as_ptr(row).addr(), row.len());
                let counted = {
                    let ranges = rows.ranges.read().expect("whole");
                    ranges.leaves().flat_map(Leaf::rows).for_each(|row| {
                        note(row);
                    });
                    ranges.bytes()
                };
                let shards = rows.shards.iter().map(|shard| {
                    let shard = shard.lock().expect("whole");
                    shard.rows().for_each(|row| {
                        note(row);
                    });
                    shard.bytes()
                });
                let counted = counted + shards.sum::<usize>();
                let held: usize = in_memory.values().sum();
                assert!(held <= counted, "{held} of {counted} bytes");
                assert!(counted <= BOUND, "{counted} bytes after {n}");
            }
            assert!(rows.ranges.read().expect("whole").bytes() > BOUND / 2);
        }
    }
}
