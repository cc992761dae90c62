//! Cursors: a place in a range of keys that moves both ways and is set to any key.
//!
//! Invariants:
//! - all that a cursor shows is of one moment, that of its snapshot;
//! - the entries in its window are neighbours: nothing of the range lies between two of them;
//! - a move that fails leaves the cursor where it was.

use kvsim_engine::Direction;

use super::Database;
use super::range::OwnedEntry;
use super::snapshot::Snapshot;
use crate::api::error::Failure;
use crate::api::key_prefix::KeyPrefix;
use crate::api::key_range::{Bounds, KeyRange, successor};
use crate::cache::entries::Entry;

/// Entries that are read at first, and at most.
const ENTRIES_MIN: u32 = 4;
const ENTRIES_MAX: u32 = 256;

/// Where a cursor stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before the first entry.
    Before,
    /// At an entry of the window.
    At(usize),
    /// Behind the last entry.
    Behind,
}

/// A place in a range of keys as they were at one moment. Made by [`Database::cursor`], [`Snapshot::cursor`] and
/// [`Keyspace::cursor`](crate::Keyspace::cursor).
///
/// It begins before the first entry. Each move returns the entry that the cursor is at then, or nothing if it has left the range; from there it moves back in. It reads
/// ahead, up to 256 entries or 1 MiB.
///
/// ```
/// # use kvsim_native::{Database, Durability, OpenOptions};
/// # let directory = tempfile::tempdir()?;
/// # let database = Database::open(&directory.path().join("database"), &OpenOptions::default())?;
/// for key in ["a", "c", "e"] {
///     database.put(key.as_bytes(), b"", Durability::Relaxed)?;
/// }
/// let mut cursor = database.cursor(..)?;
/// assert_eq!(cursor.seek(b"b")?.unwrap().key, b"c");
/// assert_eq!(cursor.next()?.unwrap().key, b"e");
/// assert!(cursor.next()?.is_none());
/// assert_eq!(cursor.previous()?.unwrap().key, b"e");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Cursor {
    snapshot: Snapshot,
    /// What its keys come out without.
    prefix: KeyPrefix,
    bounds: Bounds,
    /// In the order of their keys, which have the prefix.
    window: Vec<OwnedEntry>,
    place: Place,
    limit: u32,
}

impl Database {
    /// A cursor over a range of keys as they are now. Writes that come later are not seen.
    ///
    /// # Errors
    /// As for [`Database::snapshot`].
    pub fn cursor(&self, range: impl KeyRange) -> Result<Cursor, Failure> {
        Ok(self.snapshot()?.cursor(range))
    }
}

impl Snapshot {
    /// A cursor over a range of keys as they were.
    #[must_use]
    pub fn cursor(&self, range: impl KeyRange) -> Cursor {
        self.cursor_within(KeyPrefix::default(), &range)
    }

    /// A cursor over a range of the keys that have this prefix. It takes and shows keys without it.
    pub(crate) fn cursor_within(&self, prefix: KeyPrefix, range: &impl KeyRange) -> Cursor {
        Cursor {
            snapshot: self.clone(),
            prefix,
            bounds: prefix.bounds(range),
            window: Vec::new(),
            place: Place::Before,
            limit: ENTRIES_MIN,
        }
    }
}

impl Cursor {
    /// The entry that the cursor is at.
    #[must_use]
    pub fn entry(&self) -> Option<Entry<'_>> {
        let Place::At(at) = self.place else {
            return None;
        };
        let OwnedEntry { key, value } = &self.window[at];
        let key = &key[self.prefix.len()..];
        Some(Entry { key, value })
    }

    /// Moves to the first entry of the range.
    ///
    /// # Errors
    /// As for [`Database::get`]; the cursor stays where it was.
    pub fn first(&mut self) -> Result<Option<Entry<'_>>, Failure> {
        self.limit = ENTRIES_MIN;
        self.read_from(self.bounds.start.clone())
    }

    /// Moves to the last entry of the range.
    ///
    /// # Errors
    /// As for [`Cursor::first`].
    pub fn last(&mut self) -> Result<Option<Entry<'_>>, Failure> {
        self.limit = ENTRIES_MIN;
        self.read_to(self.bounds.end.clone())
    }

    /// Moves to the first entry of the range whose key is this one or larger.
    ///
    /// # Errors
    /// As for [`Cursor::first`].
    pub fn seek(&mut self, key: &[u8]) -> Result<Option<Entry<'_>>, Failure> {
        self.limit = ENTRIES_MIN;
        let mut from = self.prefix.joined(key);
        if let Some(bound) = &self.bounds.start {
            from = from.max(bound.clone());
        }
        self.read_from(Some(from))
    }

    /// Moves to the last entry of the range whose key is this one or smaller.
    ///
    /// # Errors
    /// As for [`Cursor::first`].
    pub fn seek_back(&mut self, key: &[u8]) -> Result<Option<Entry<'_>>, Failure> {
        self.limit = ENTRIES_MIN;
        let mut end = successor(&self.prefix.joined(key));
        if let Some(bound) = &self.bounds.end {
            end = end.min(bound.clone());
        }
        self.read_to(Some(end))
    }

    /// Moves to the next entry; before the first, to the first.
    ///
    /// # Errors
    /// As for [`Cursor::first`].
    #[expect(
        clippy::should_implement_trait,
        reason = "it returns what the cursor keeps"
    )]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, Failure> {
        match self.place {
            Place::Before => self.first(),
            Place::At(at) if at + 1 < self.window.len() => {
                self.place = Place::At(at + 1);
                Ok(self.entry())
            }
            Place::At(at) => {
                self.limit = (self.limit * 2).min(ENTRIES_MAX);
                self.read_from(Some(successor(&self.window[at].key)))
            }
            Place::Behind => Ok(None),
        }
    }

    /// Moves to the entry before; behind the last, to the last.
    ///
    /// # Errors
    /// As for [`Cursor::first`].
    pub fn previous(&mut self) -> Result<Option<Entry<'_>>, Failure> {
        match self.place {
            Place::Before => Ok(None),
            Place::At(at) if at > 0 => {
                self.place = Place::At(at - 1);
                Ok(self.entry())
            }
            Place::At(at) => {
                self.limit = (self.limit * 2).min(ENTRIES_MAX);
                self.read_to(Some(self.window[at].key.to_vec()))
            }
            Place::Behind => self.last(),
        }
    }

    /// Reads a window that begins with the first key from there on, and moves to that key.
    fn read_from(&mut self, start: Option<Vec<u8>>) -> Result<Option<Entry<'_>>, Failure> {
        let end = self.bounds.end.clone();
        let bounds = Bounds { start, end };
        let (entries, _) = self
            .snapshot
            .read(&bounds, Direction::Forward, self.limit)?;
        self.window = entries.into_iter().map(OwnedEntry::from).collect();
        self.place = match self.window.is_empty() {
            true => Place::Behind,
            false => Place::At(0),
        };
        Ok(self.entry())
    }

    /// Reads a window that ends with the last key before there, and moves to that key.
    fn read_to(&mut self, end: Option<Vec<u8>>) -> Result<Option<Entry<'_>>, Failure> {
        let start = self.bounds.start.clone();
        let bounds = Bounds { start, end };
        let (entries, _) = self
            .snapshot
            .read(&bounds, Direction::Reverse, self.limit)?;
        self.window = entries.into_iter().rev().map(OwnedEntry::from).collect();
        self.place = match self.window.len() {
            0 => Place::Before,
            len => Place::At(len - 1),
        };
        Ok(self.entry())
    }
}
