//! Scans that find their values in memory. They use the ordered cache, or else the engine's keys and the cache by key;
//! after that, the ordered cache has the range too.
//!
//! Invariant: what is returned was the newest value of all keys at one moment. In the ordered cache, its lock gives one
//! moment. Otherwise the keys are taken with the engine's lock held and all accepted writes handed in. If no row has
//! changed by the time all values are there, the values are of that moment too. If one has, the scan is done again with
//! the lock held.

use std::sync::Arc;

use kvsim_engine::{Direction, Key, ScanRange};

use crate::api::key_range::successor;
use crate::cache::borrowed::split;
use crate::cache::entries::Entries;
use crate::cache::rows::Missing;
use crate::sync::leader::{CaughtUp, Shared};

/// Keys in one piece of memory.
#[derive(Default)]
pub(crate) struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(crate) fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, end)| &self.bytes[start..*end])
    }
}

/// Why the engine has to be asked for a scan.
pub(crate) enum Unanswered<'a> {
    /// The caches keep nothing of it.
    NotKept,
    /// These values are not in the cache.
    Values(Missing),
    /// Not all of its keys are in memory. The lock that showed it can make the request too.
    Keys(CaughtUp<'a>),
}

/// One entry more than the scan asks for: whether there are more is then seen in the caches too.
pub(crate) fn widened<'a>(range: &ScanRange<'a>) -> ScanRange<'a> {
    ScanRange {
        limit: range.limit.max(1).saturating_add(1),
        ..*range
    }
}

impl Shared {
    /// The scan's entries, if all of them are in the caches.
    pub(crate) fn scan_rows(&self, range: &ScanRange<'_>) -> Result<Entries, Unanswered<'_>> {
        if range.snapshot != 0 || !self.rows.keep() {
            return Err(Unanswered::NotKept);
        }
        match self.rows.scan(range) {
            Some(entries) => Ok(entries),
            None => self.scan_keys(range),
        }
    }

    /// As the engine has the keys, and the cache the values.
    fn scan_keys(&self, range: &ScanRange<'_>) -> Result<Entries, Unanswered<'_>> {
        let wide = widened(range);
        let mut keys = Keys::default();
        for last in [false, true] {
            keys.clear();
            let caught_up = self.lock_caught_up();
            let more = caught_up.scan_keys(&wide, |key| keys.push(key));
            let Some(more) = more else {
                return Err(Unanswered::Keys(caught_up));
            };
            let before = self.rows.changes();
            let held = last.then_some(caught_up);
            let mut rows = self.look_up(&keys).map_err(Unanswered::Values)?;
            if held.is_some() || self.rows.changes() == before {
                let caught_up = held.unwrap_or_else(|| self.lock_caught_up());
                self.keep(&caught_up, before, range, more, &mut rows);
                drop(caught_up);
                let limit = range.limit.max(1) as usize;
                let beyond = rows.len() > limit;
                let asked = match range.direction {
                    Direction::Forward => &rows[..rows.len().min(limit)],
                    Direction::Reverse => &rows[usize::from(beyond)..],
                };
                return Ok(Entries::of_rows(asked, more || beyond, range.direction));
            }
        }
        unreachable!("the last round holds the lock")
    }

    fn look_up(&self, keys: &Keys) -> Result<Vec<Arc<[u8]>>, Missing> {
        let mut rows = Vec::with_capacity(keys.len());
        let mut missing = Missing::default();
        for key in keys.iter() {
            match self.rows.get_row(key) {
                Ok(row) => rows.push(row),
                Err(stamp) => missing.note(key, stamp),
            }
        }
        if missing.is_empty() {
            Ok(rows)
        } else {
            Err(missing)
        }
    }

    /// Gives the ordered cache the rows that a scan found when there had been so many changes, and sorts them by key.
    fn keep(
        &self,
        _caught_up: &CaughtUp<'_>,
        changes: u64,
        range: &ScanRange<'_>,
        more: bool,
        rows: &mut [Arc<[u8]>],
    ) {
        let key_of = |row: Option<&Arc<[u8]>>| row.map(|row| Key::new(split(row).0));
        let start = Key::new(range.start.unwrap_or_default());
        let end = range.end.map(Key::new);
        // Between what was found last and the bound there is nothing, or nobody looked.
        let last = if more { key_of(rows.last()) } else { None };
        match range.direction {
            Direction::Forward => {
                // With the last one, the same scan finds here that there is more.
                let behind = last.map(|last| Key::new(&successor(last.bytes())));
                let until = behind.as_ref().or(end.as_ref());
                self.rows.fill_range(changes, start, until, rows);
            }
            Direction::Reverse => {
                rows.reverse();
                let from = last.unwrap_or(start);
                self.rows.fill_range(changes, from, end.as_ref(), rows);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Database, Durability, OpenOptions};

    /// Goal: a scan that a bound cuts short is answered by the ordered cache the second time. Method: the same scans both ways, of which the first finds its keys in the engine.
    #[test]
    fn a_scan_that_is_repeated_is_in_the_cache() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        let path = directory.path().join("database");
        let options = OpenOptions {
            size_bytes: 64 << 20,
            ..OpenOptions::default()
        };
        let database = Database::open(&path, &options).expect("it opens");
        for n in 0..200_u8 {
            let put = database.put(&[n], &[n; 50], Durability::Relaxed);
            put.expect("there is room");
        }
        for direction in [Direction::Forward, Direction::Reverse] {
            let range = ScanRange {
                snapshot: 0,
                direction,
                start: Some(&[20]),
                end: Some(&[150]),
                limit: 10,
                max_bytes: 1 << 20,
            };
            let rows = &database.shared().rows;
            assert!(rows.scan(&range).is_none(), "nobody has scanned it yet");
            let first = database.scan(&range).expect("a scan");
            let second = rows.scan(&range).expect("it is in the cache");
            for found in [first, second] {
                assert!(found.more());
                let keys = found.iter().map(|entry| entry.key[0]);
                match direction {
                    Direction::Forward => assert!(keys.eq(20..30)),
                    Direction::Reverse => assert!(keys.eq((140..150).rev())),
                }
            }
        }
    }
}
