//! Conditions on ranges of keys: no entry may have come, gone or changed, not even a key that nobody could name.
//!
//! What was read of a range may be known to be of a moment, told by the count of changed rows. While that count stands, nothing has changed. After that the
//! range is looked at again: its keys with the lock held, its values in the cache, and on the disk without the lock.

use std::cmp::Ordering;

use kvsim_engine::{Direction, Reply, Request, ScanRange};

use crate::api::error::Failure;
use crate::api::key_range::Bounds;
use crate::database::range::OwnedEntry;
use crate::database::snapshot::Snapshot;
use crate::database::{Database, done, failed};
use crate::scan::Keys;
use crate::sync::leader::{Beside, CaughtUp};

/// What a range has to hold.
#[derive(Debug, Clone)]
pub(in crate::database) struct RangeCondition {
    bounds: Bounds,
    /// In the order of their keys.
    entries: Vec<OwnedEntry>,
    /// How often rows had changed when it held just that.
    held_at: Option<u64>,
}

/// The key at which a range is not what it has to be.
type Differs = Box<[u8]>;

impl RangeCondition {
    pub(in crate::database) fn new(
        bounds: Bounds,
        entries: Vec<OwnedEntry>,
        held_at: Option<u64>,
    ) -> RangeCondition {
        RangeCondition {
            bounds,
            entries,
            held_at,
        }
    }

    /// Its keys, and one more in case another has come.
    fn keys(&self) -> ScanRange<'_> {
        let limit = u32::try_from(self.entries.len() + 1).unwrap_or(u32::MAX);
        self.bounds.scan(0, Direction::Forward, limit, u32::MAX)
    }

    /// How often rows had changed when it is known to have held.
    pub(super) fn held_at(&self) -> Option<u64> {
        self.held_at
    }
}

impl Database {
    /// A snapshot, and how often rows have changed until then.
    pub(in crate::database) fn snapshot_and_changes(&self) -> Result<(Snapshot, u64), Failure> {
        let caught_up = self.0.shared.lock_caught_up();
        let changes = self.0.shared.rows.changes();
        match caught_up.call(Request::Snapshot, &Beside::default()) {
            Reply::Snapshot(number) => Ok((Snapshot::new(self, number), changes)),
            other => Err(failed(other)),
        }
    }

    /// Looks the range up, on the disk if need be. If it holds what it has to, says how often rows had changed then.
    pub(super) fn look_up_range(
        &self,
        condition: &RangeCondition,
    ) -> Result<Result<u64, Differs>, Failure> {
        let (snapshot, changes) = self.snapshot_and_changes()?;
        let mut expected = condition.entries.iter();
        for found in snapshot.within(condition.bounds.clone()) {
            let found = found?;
            let differs = match expected.next() {
                None => found.key,
                Some(entry) => match entry.key.cmp(&found.key) {
                    Ordering::Less => entry.key.clone(),
                    Ordering::Greater => found.key,
                    Ordering::Equal if *entry.value == *found.value => continue,
                    Ordering::Equal => found.key,
                },
            };
            return Ok(Err(differs));
        }
        Ok(match expected.next() {
            Some(entry) => Err(entry.key.clone()),
            None => Ok(changes),
        })
    }

    /// Has the range's keys in memory, so that they are known when somebody looks again.
    pub(super) fn know_range(&self, condition: &RangeCondition) -> Result<(), Failure> {
        done(self.call(Request::Know(condition.keys())))
    }

    /// Looks again with the lock held, and reads nothing. Says whether it is known to hold; if not, values have to be read.
    pub(super) fn look_again_at_range(
        &self,
        caught_up: &CaughtUp<'_>,
        condition: &RangeCondition,
        held_at: Option<u64>,
    ) -> Result<bool, Differs> {
        if held_at == Some(self.0.shared.rows.changes()) {
            return Ok(true);
        }
        let range = condition.keys();
        let mut keys = Keys::default();
        if caught_up.scan_keys(&range, |key| keys.push(key)).is_none() {
            return Ok(false);
        }
        let mut expected = condition.entries.iter();
        for key in keys.iter() {
            match expected.next() {
                None => return Err(key.into()),
                Some(entry) if *entry.key != *key => return Err(key.min(&entry.key).into()),
                Some(_) => {}
            }
        }
        if let Some(entry) = expected.next() {
            return Err(entry.key.clone());
        }
        for entry in &condition.entries {
            match self.0.shared.rows.get(&entry.key) {
                Ok(value) if *value == *entry.value => {}
                Ok(_) => return Err(entry.key.clone()),
                Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }
}
