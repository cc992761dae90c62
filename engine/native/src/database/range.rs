//! Iterators over a range of keys, from both ends.
//!
//! Invariants:
//! - all that an iterator returns is of one moment, that of its snapshot;
//! - each entry of the range comes once, from the one end or the other, and the two ends never pass each other;
//! - after an error there is nothing more.

use std::collections::VecDeque;

use kvsim_engine::Direction;

use super::Database;
use super::snapshot::Snapshot;
use crate::api::error::Failure;
use crate::api::key_prefix::KeyPrefix;
use crate::api::key_range::{Bounds, KeyRange, successor};
use crate::cache::borrowed::Value;

/// Entries that are read at first, and at most.
const ENTRIES_MIN: u32 = 16;
const ENTRIES_MAX: u32 = 512;

/// A key and its value.
#[derive(Debug, Clone)]
pub struct OwnedEntry {
    /// The key.
    pub key: Box<[u8]>,
    /// The value.
    pub value: Value,
}

impl From<kvsim_engine::Entry> for OwnedEntry {
    fn from(entry: kvsim_engine::Entry) -> OwnedEntry {
        OwnedEntry {
            key: (*entry.key).into(),
            value: entry.value.detached().into(),
        }
    }
}

/// Goes through the entries of a range as they were at one moment, from both ends. Made by [`Database::range`], [`Snapshot::range`]
/// and [`Keyspace::range`](crate::Keyspace::range).
///
/// It reads ahead, up to 512 entries or 1 MiB at each end. After an error there is nothing more.
///
/// ```
/// # use kvsim_native::{Database, Durability, OpenOptions};
/// # let directory = tempfile::tempdir()?;
/// # let database = Database::open(&directory.path().join("database"), &OpenOptions::default())?;
/// for key in ["a", "b", "c", "d"] {
///     database.put(key.as_bytes(), b"", Durability::Relaxed)?;
/// }
/// let mut keys = database.range("b"..)?.map(|entry| entry.map(|it| it.key));
/// assert_eq!(&*keys.next().unwrap()?, b"b");
/// assert_eq!(&*keys.next_back().unwrap()?, b"d");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Range {
    snapshot: Snapshot,
    /// What its keys come out without.
    prefix: KeyPrefix,
    /// What was not read from either end.
    unread: Option<Bounds>,
    front: VecDeque<OwnedEntry>,
    back: VecDeque<OwnedEntry>,
    limit: u32,
}

impl Database {
    /// Goes through a range of keys as they are now. Writes that come later are not seen.
    ///
    /// # Errors
    /// As for [`Database::snapshot`].
    pub fn range(&self, range: impl KeyRange) -> Result<Range, Failure> {
        Ok(self.snapshot()?.range(range))
    }

    /// Goes through all keys as they are now: `range(..)`.
    ///
    /// # Errors
    /// As for [`Database::snapshot`].
    pub fn iter(&self) -> Result<Range, Failure> {
        self.range(..)
    }
}

impl Snapshot {
    /// Goes through a range of keys as they were.
    #[must_use]
    pub fn range(&self, range: impl KeyRange) -> Range {
        self.range_within(KeyPrefix::default(), &range)
    }

    /// Goes through a range of the keys that have this prefix, and leaves the prefix out.
    pub(crate) fn range_within(&self, prefix: KeyPrefix, range: &impl KeyRange) -> Range {
        Range {
            prefix,
            ..self.within(prefix.bounds(range))
        }
    }

    /// Goes through the keys between bounds as they were.
    pub(super) fn within(&self, bounds: Bounds) -> Range {
        Range {
            snapshot: self.clone(),
            prefix: KeyPrefix::default(),
            unread: Some(bounds),
            front: VecDeque::new(),
            back: VecDeque::new(),
            limit: ENTRIES_MIN,
        }
    }

    /// Goes through all keys as they were: `range(..)`.
    #[must_use]
    pub fn iter(&self) -> Range {
        self.range(..)
    }
}

impl Range {
    /// Reads more at one end, if there may be more.
    fn read(&mut self, direction: Direction) -> Result<(), Failure> {
        let Some(bounds) = self.unread.take() else {
            return Ok(());
        };
        let (entries, more) = self.snapshot.read(&bounds, direction, self.limit)?;
        self.limit = (self.limit * 2).min(ENTRIES_MAX);
        if more && let Some(last) = entries.last() {
            self.unread = Some(match direction {
                Direction::Forward => Bounds {
                    start: Some(successor(&last.key)),
                    ..bounds
                },
                Direction::Reverse => Bounds {
                    end: Some(last.key.to_vec()),
                    ..bounds
                },
            });
        }
        let prefix = self.prefix;
        let entries = entries.into_iter().map(|entry| OwnedEntry {
            key: entry.key[prefix.len()..].into(),
            value: entry.value.detached().into(),
        });
        match direction {
            Direction::Forward => self.front.extend(entries),
            // Of the back, what comes first lies last.
            Direction::Reverse => entries.for_each(|entry| self.back.push_front(entry)),
        }
        Ok(())
    }
}

impl Iterator for Range {
    type Item = Result<OwnedEntry, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.front.is_empty()
            && let Err(failure) = self.read(Direction::Forward)
        {
            self.back.clear();
            return Some(Err(failure));
        }
        // What is left lies at the other end, if all was read from there.
        let entry = self.front.pop_front().or_else(|| self.back.pop_front());
        entry.map(Ok)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.back.is_empty()
            && let Err(failure) = self.read(Direction::Reverse)
        {
            self.front.clear();
            return Some(Err(failure));
        }
        let entry = self.back.pop_back().or_else(|| self.front.pop_back());
        entry.map(Ok)
    }
}

impl std::iter::FusedIterator for Range {}
