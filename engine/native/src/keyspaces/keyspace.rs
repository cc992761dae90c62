//! One keyspace: reads and writes of its keys.

use std::sync::Arc;

use kvsim_engine::{Durability, ScanRange};

use super::divided::{Divided, State};
use super::error::{check_key, other};
use crate::api::error::Failure;
use crate::api::key_prefix::KeyPrefix;
use crate::api::key_range::{Bounds, KeyRange};
use crate::cache::borrowed::Value;
use crate::cache::entries::Entries;
use crate::database::Database;
use crate::database::conditional::Checked;
use crate::database::cursor::Cursor;
use crate::database::range::Range;
use crate::lock::lock;

/// A handle of a keyspace, got from [`Keyspaces`](crate::Keyspaces). Clones are handles of the same one, and cost little. A handle keeps the database open.
///
/// Its keys are 1 to [`KEYSPACE_KEY_BYTES_MAX`](crate::KEYSPACE_KEY_BYTES_MAX) bytes, and come in the order of their bytes. Values are as large as in a [`Database`].
///
/// When the keyspace was dropped, everything that is done with the handle fails with [`Status::Invalid`](crate::Status::Invalid), and [`Keyspace::is_dropped`] says so.
///
/// ```
/// # use kvsim_native::{Durability, OpenOptions};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("database");
/// # let keyspaces = OpenOptions::new().size_bytes(16 << 20).open_keyspaces(&path)?;
/// let (users, visits) = (keyspaces.create("users")?, keyspaces.create("visits")?);
/// users.put(b"1", b"Ada", Durability::Durable)?;
/// assert!(visits.get(b"1")?.is_none());
/// assert_eq!(&*users.range("1"..)?.next().unwrap()?.key, b"1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Keyspace {
    divided: Arc<Divided>,
    state: Arc<State>,
}

impl std::fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyspace")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

/// Handles of the same keyspace are equal.
impl PartialEq for Keyspace {
    fn eq(&self, other: &Keyspace) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }
}

impl Eq for Keyspace {}

impl Keyspace {
    pub(super) fn new(divided: &Arc<Divided>, state: &Arc<State>) -> Keyspace {
        Keyspace {
            divided: Arc::clone(divided),
            state: Arc::clone(state),
        }
    }

    pub(super) fn divided(&self) -> &Arc<Divided> {
        &self.divided
    }

    pub(super) fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// The database that this is a part of.
    pub(crate) fn database(&self) -> &Database {
        &self.divided.database
    }

    /// What stands before each key in the database.
    pub(crate) fn prefix(&self) -> KeyPrefix {
        self.state.prefix
    }

    /// Refuses a keyspace of another database.
    pub(super) fn check_of(&self, divided: &Arc<Divided>) -> Result<(), Failure> {
        match Arc::ptr_eq(&self.divided, divided) {
            true => Ok(()),
            false => Err(other()),
        }
    }

    /// What was read, if the keyspace was still there when it had been.
    fn read<T>(&self, read: T) -> Result<T, Failure> {
        self.state.check().map(|()| read)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        lock(&self.state.name).clone()
    }

    /// Whether it was dropped.
    #[must_use]
    pub fn is_dropped(&self) -> bool {
        self.state.is_dropped()
    }

    /// Sets a key.
    ///
    /// # Errors
    /// [`Failure`]; its status says whether the write may have an effect.
    pub fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> Result<(), Failure> {
        check_key(key)?;
        let _held = self.divided.hold();
        self.state.check()?;
        let put = |key: &[u8]| self.database().put(key, value, durability);
        self.prefix().with(key, put)
    }

    /// Removes a key; removing what is not there is no error.
    ///
    /// # Errors
    /// As for [`Keyspace::put`].
    pub fn delete(&self, key: &[u8], durability: Durability) -> Result<(), Failure> {
        check_key(key)?;
        // It adds no key, so it need not keep off a drop.
        self.state.check()?;
        let delete = |key: &[u8]| self.database().delete(key, durability);
        self.prefix().with(key, delete)
    }

    /// Sets a key, or removes it, if it has the value that it should have, or is not there: see [`Database::replace`].
    ///
    /// # Errors
    /// As for [`Keyspace::put`] and [`Keyspace::get`].
    pub fn replace(
        &self,
        key: &[u8],
        old: Option<&[u8]>,
        new: Option<&[u8]>,
        durability: Durability,
    ) -> Result<Checked, Failure> {
        check_key(key)?;
        let _held = self.divided.hold();
        self.state.check()?;
        let replace = |key: &[u8]| self.database().replace(key, old, new, durability);
        Ok(match self.prefix().with(key, replace)? {
            Checked::Written => Checked::Written,
            Checked::Changed { key } => Checked::Changed {
                key: self.prefix().strip(key),
            },
        })
    }

    /// Reads a key. What is in memory is borrowed, not copied.
    ///
    /// # Errors
    /// [`Failure`]: the value is there, but cannot be read or is damaged; or the keyspace was dropped.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>, Failure> {
        let found = self.prefix().with(key, |key| self.database().get(key));
        self.read(found)?
    }

    /// Whether there is such a key. The value is not read.
    ///
    /// # Errors
    /// [`Failure`]: the database is closed, or the keyspace was dropped.
    pub fn contains(&self, key: &[u8]) -> Result<bool, Failure> {
        let contains = |key: &[u8]| self.database().contains(key);
        let found = self.prefix().with(key, contains);
        self.read(found)?
    }

    /// Reads several keys at the same time, in the order in which they are given: see [`Database::multi_get`].
    pub fn multi_get(&self, keys: &[impl AsRef<[u8]>]) -> Vec<Result<Option<Value>, Failure>> {
        let found = self.database().multi_get_within(self.prefix(), keys);
        match self.state.check() {
            Ok(()) => found,
            Err(dropped) => vec![Err(dropped); keys.len()],
        }
    }

    /// Reads a range; the snapshot that the range names does not count. What is in memory is borrowed: see [`Database::scan`].
    ///
    /// # Errors
    /// As for [`Keyspace::get`].
    pub fn scan(&self, range: &ScanRange<'_>) -> Result<Entries, Failure> {
        let bounds = self.scan_bounds(range);
        let range = bounds.scan(0, range.direction, range.limit, range.max_bytes);
        let found = self.database().scan(&range);
        Ok(self.read(found)??.without(self.prefix().len()))
    }

    pub(super) fn scan_bounds(&self, range: &ScanRange<'_>) -> Bounds {
        self.prefix().within(Bounds {
            start: range.start.map(<[u8]>::to_vec),
            end: range.end.map(<[u8]>::to_vec),
        })
    }

    /// Goes through a range of keys as they are now. Writes that come later are not seen, nor is a drop.
    ///
    /// # Errors
    /// [`Failure`]: the database is closed, or the keyspace was dropped.
    pub fn range(&self, range: impl KeyRange) -> Result<Range, Failure> {
        let snapshot = self.read(self.database().snapshot())??;
        Ok(snapshot.range_within(self.prefix(), &range))
    }

    /// Goes through all keys as they are now: `range(..)`.
    ///
    /// # Errors
    /// As for [`Keyspace::range`].
    pub fn iter(&self) -> Result<Range, Failure> {
        self.range(..)
    }

    /// A cursor over a range of keys as they are now. Writes that come later are not seen, nor is a drop.
    ///
    /// # Errors
    /// As for [`Keyspace::range`].
    pub fn cursor(&self, range: impl KeyRange) -> Result<Cursor, Failure> {
        let snapshot = self.read(self.database().snapshot())??;
        Ok(snapshot.cursor_within(self.prefix(), &range))
    }

    /// Removes all keys of a range, together or not at all, and says how many there were: see [`Database::delete_range`].
    ///
    /// # Errors
    /// As for [`Keyspace::put`]; [`Status::Invalid`](crate::Status::Invalid) too if there are too many keys for one frame of the log. Then nothing was removed.
    pub fn delete_range(
        &self,
        range: impl KeyRange,
        durability: Durability,
    ) -> Result<u64, Failure> {
        self.state.check()?;
        let bounds = self.prefix().bounds(&range);
        let deleted = self.database().delete_range(bounds, durability);
        self.read(deleted)?
    }

    /// Removes all keys of a range, a thousand or so at a time, and says how many there were: see [`Database::delete_range_in_pieces`].
    ///
    /// # Errors
    /// As for [`Keyspace::put`]; what was removed stays removed.
    pub fn delete_range_in_pieces(
        &self,
        range: impl KeyRange,
        durability: Durability,
    ) -> Result<u64, Failure> {
        self.state.check()?;
        let bounds = self.prefix().bounds(&range);
        let deleted = self.database().delete_range_in_pieces(bounds, durability);
        self.read(deleted)?
    }

    /// How many keys there are in a range, without reading a value: see [`Database::approximate_count`].
    ///
    /// # Errors
    /// As for [`Keyspace::range`].
    pub fn approximate_count(&self, range: impl KeyRange) -> Result<u64, Failure> {
        let bounds = self.prefix().bounds(&range);
        let count = self.database().approximate_count(bounds);
        self.read(count)?
    }
}
