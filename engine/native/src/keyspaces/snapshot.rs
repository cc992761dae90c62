//! One moment of all keyspaces.

use std::path::Path;
use std::sync::Arc;

use super::Keyspaces;
use super::divided::Divided;
use super::keyspace::Keyspace;
use crate::api::error::Failure;
use crate::api::key_range::KeyRange;
use crate::api::options::OpenOptions;
use crate::cache::borrowed::Value;
use crate::database::backup::{BackupError, Progress};
use crate::database::cursor::Cursor;
use crate::database::range::Range;
use crate::database::snapshot::Snapshot;

/// One moment of all keyspaces, which later writes and drops do not change.
///
/// A keyspace that was dropped later can be read here still; one that had been dropped cannot, and one that was created later is empty. Like a [`Snapshot`], it is released
/// when its last clone, iterator and cursor goes.
///
/// ```
/// # use kvsim_native::{Durability, OpenOptions};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("database");
/// # let keyspaces = OpenOptions::new().size_bytes(16 << 20).open_keyspaces(&path)?;
/// let (users, visits) = (keyspaces.create("users")?, keyspaces.create("visits")?);
/// users.put(b"1", b"Ada", Durability::Relaxed)?;
/// let snapshot = keyspaces.snapshot()?;
/// visits.put(b"1", b"home", Durability::Relaxed)?;
/// keyspaces.drop_keyspace("users")?;
/// assert_eq!(snapshot.get(&users, b"1")?.as_deref(), Some(&b"Ada"[..]));
/// assert_eq!(snapshot.range(&visits, ..)?.count(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct KeyspacesSnapshot {
    divided: Arc<Divided>,
    raw: Snapshot,
    /// How many had been dropped.
    drops: u64,
}

impl std::fmt::Debug for KeyspacesSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyspacesSnapshot")
            .field("snapshot", &self.raw)
            .finish_non_exhaustive()
    }
}

impl Keyspaces {
    /// Takes a snapshot of everything accepted so far, in all keyspaces. It costs space until it goes.
    ///
    /// # Errors
    /// [`Failure`]: the database is closed.
    pub fn snapshot(&self) -> Result<KeyspacesSnapshot, Failure> {
        let held = self.0.hold();
        let raw = self.0.database.snapshot()?;
        Ok(KeyspacesSnapshot::new(&self.0, raw, self.0.drops(&held)))
    }
}

impl KeyspacesSnapshot {
    pub(super) fn new(divided: &Arc<Divided>, raw: Snapshot, drops: u64) -> KeyspacesSnapshot {
        KeyspacesSnapshot {
            divided: Arc::clone(divided),
            raw,
            drops,
        }
    }

    pub(super) fn divided(&self) -> &Arc<Divided> {
        &self.divided
    }

    pub(super) fn raw(&self) -> &Snapshot {
        &self.raw
    }

    /// Refuses a keyspace that this is no moment of.
    pub(super) fn check(&self, keyspace: &Keyspace) -> Result<(), Failure> {
        keyspace.check_of(&self.divided)?;
        keyspace.state().check_at(self.drops)
    }

    /// Reads a key of a keyspace as it was.
    ///
    /// # Errors
    /// As for [`Keyspace::get`]; the keyspace had been dropped, or is of another database.
    pub fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Value>, Failure> {
        self.check(keyspace)?;
        keyspace.prefix().with(key, |key| self.raw.get(key))
    }

    /// Whether there was such a key. Its value is read.
    ///
    /// # Errors
    /// As for [`KeyspacesSnapshot::get`].
    pub fn contains(&self, keyspace: &Keyspace, key: &[u8]) -> Result<bool, Failure> {
        Ok(self.get(keyspace, key)?.is_some())
    }

    /// Reads several keys of a keyspace as they were, in the order in which they are given, at the same time. A value that cannot be read affects no other.
    pub fn multi_get(
        &self,
        keyspace: &Keyspace,
        keys: &[impl AsRef<[u8]>],
    ) -> Vec<Result<Option<Value>, Failure>> {
        match self.check(keyspace) {
            Ok(()) => self.raw.multi_get_within(keyspace.prefix(), keys),
            Err(failure) => vec![Err(failure); keys.len()],
        }
    }

    /// Goes through a range of the keys of a keyspace as they were.
    ///
    /// # Errors
    /// [`Failure`]: the keyspace had been dropped, or is of another database.
    pub fn range(&self, keyspace: &Keyspace, range: impl KeyRange) -> Result<Range, Failure> {
        self.check(keyspace)?;
        Ok(self.raw.range_within(keyspace.prefix(), &range))
    }

    /// A cursor over a range of the keys of a keyspace as they were.
    ///
    /// # Errors
    /// As for [`KeyspacesSnapshot::range`].
    pub fn cursor(&self, keyspace: &Keyspace, range: impl KeyRange) -> Result<Cursor, Failure> {
        self.check(keyspace)?;
        Ok(self.raw.cursor_within(keyspace.prefix(), &range))
    }

    /// Makes a copy of all keyspaces as they were: see [`Snapshot::backup`].
    ///
    /// # Errors
    /// As for [`Keyspaces::backup`].
    pub fn backup(
        &self,
        path: impl AsRef<Path>,
        options: &OpenOptions,
        progress: impl FnMut(Progress),
    ) -> Result<Progress, BackupError> {
        self.raw.backup(path, options, progress)
    }
}
