//! Scans from the cache of newest values: the engine says which keys, the rows have the values.
//!
//! Invariant: what is returned was the newest of all keys at one moment. The keys are taken with the engine's lock held; if no row
//! has changed by the time all values are there, they are of that moment too. If one has, it is done over with the lock held.

use kvsim_engine::ScanRange;

use crate::database::Entries;
use crate::leader::Shared;
use crate::lent::Entry;
use crate::rows::Missing;

/// Keys in one piece of memory.
#[derive(Default)]
struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, end)| &self.bytes[start..*end])
    }
}

impl Shared {
    /// The scan's entries, if all of them are in the cache; else the keys that are not.
    pub(crate) fn scan_rows(&self, range: &ScanRange<'_>) -> Result<Entries, Missing> {
        let mut keys = Keys::default();
        for last in [false, true] {
            keys.clear();
            let inside = self.lock();
            let more = inside.scan_keys(range, |key| keys.push(key));
            let Some(more) = more else {
                return Err(Missing::default());
            };
            let before = self.rows.changes();
            let held = last.then_some(inside);
            let entries = self.entries(&keys)?;
            if held.is_some() || self.rows.changes() == before {
                return Ok(Entries { entries, more });
            }
        }
        unreachable!("the last round holds the lock")
    }

    fn entries(&self, keys: &Keys) -> Result<Vec<Entry>, Missing> {
        let mut entries = Vec::with_capacity(keys.ends.len());
        let mut missing = Missing::default();
        for key in keys.iter() {
            match self.rows.get(key) {
                Ok(value) => entries.extend(value.into_entry()),
                Err(stamp) => missing.note(key, stamp),
            }
        }
        if missing.is_empty() {
            Ok(entries)
        } else {
            Err(missing)
        }
    }
}
