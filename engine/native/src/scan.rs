//! Scans that find their values in memory. They use the ordered cache, or else the engine's keys and the cache by key;
//! after that, the ordered cache has the range too.
//!
//! Invariant: what is returned was the newest value of all keys at one moment. In the ordered cache, its lock gives one
//! moment. Otherwise the keys are taken with the engine's lock held and all accepted writes handed in. If no row has
//! changed by the time all values are there, the values are of that moment too. If one has, the scan is done again with
//! the lock held.

use std::sync::Arc;

use kvsim_engine::{Direction, Key, ScanRange};

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

/// One entry more than the scan asks for: whether there are more is then seen in the caches too.
pub(crate) fn widened<'a>(range: &ScanRange<'a>) -> ScanRange<'a> {
    ScanRange {
        limit: range.limit.max(1).saturating_add(1),
        ..*range
    }
}

impl Shared {
    /// The scan's entries, if all of them are in the caches; else the keys that are not.
    pub(crate) fn scan_rows(&self, range: &ScanRange<'_>) -> Result<Entries, Missing> {
        if range.snapshot != 0 || !self.rows.keep() {
            return Err(Missing::default());
        }
        match self.rows.scan(range) {
            Some(entries) => Ok(entries),
            None => self.scan_keys(range),
        }
    }

    /// As the engine has the keys, and the cache the values.
    fn scan_keys(&self, range: &ScanRange<'_>) -> Result<Entries, Missing> {
        let wide = widened(range);
        let mut keys = Keys::default();
        for last in [false, true] {
            keys.clear();
            let caught_up = self.lock_caught_up();
            let more = caught_up.scan_keys(&wide, |key| keys.push(key));
            let Some(more) = more else {
                return Err(Missing::default());
            };
            let before = self.rows.changes();
            let held = last.then_some(caught_up);
            let mut rows = self.look_up(&keys)?;
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
                let until = last.as_ref().or(end.as_ref());
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
