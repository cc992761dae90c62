//! Drops: a keyspace goes at one moment, and its keys are removed after that.
//!
//! Between the two the catalogue has it as dropped, so that whoever opens the file next goes on. What a crash leaves is a prefix of the order of writes: where a piece of the
//! removal is, the drop is too; and where the catalogue has forgotten the keyspace, no key of it is left.

use std::sync::Arc;

use kvsim_engine::Durability;

use super::error::{KeyspaceError, missing};
use super::{Keyspaces, catalogue, identifier};
use crate::api::error::Failure;
use crate::api::key_range::Prefix;
use crate::lock::lock;

impl Keyspaces {
    /// Drops a keyspace with all its keys. It is gone at one moment, and durably so; then its keys are removed, a thousand or so at a time, and this returns when all are. Its
    /// name can be used again as soon as it is gone. Handles of it get an error from then on; snapshots, iterators and cursors that were there before show it still.
    ///
    /// It waits for writes that are being made, and later ones wait for it, in all keyspaces: for as long as one wait for the disk may take. The removal delays nobody.
    ///
    /// If this process ends while keys are being removed, the next opening removes the rest.
    ///
    /// # Errors
    /// [`KeyspaceError::Missing`]: there is none. [`KeyspaceError::Failed`]: the database failed. If [`Keyspaces::list`] does not have it any more, it is gone all the same, and
    /// [`Keyspaces::remove_dropped`] removes what is left.
    ///
    /// ```
    /// # use kvsim_native::{Durability, OpenOptions};
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("database");
    /// # let keyspaces = OpenOptions::new().size_bytes(16 << 20).open_keyspaces(&path)?;
    /// let users = keyspaces.create("users")?;
    /// users.put(b"1", b"Ada", Durability::Relaxed)?;
    /// keyspaces.drop_keyspace("users")?;
    /// assert!(users.is_dropped() && users.get(b"1").is_err());
    /// assert!(!keyspaces.create("users")?.contains(b"1")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drop_keyspace(&self, name: &str) -> Result<(), KeyspaceError> {
        let mut list = lock(&self.0.list);
        let state = list.named.get(name).ok_or_else(|| missing(name))?;
        let state = Arc::clone(state);
        let batch = catalogue::dropped(name, state.identifier);
        // Writes wait only until it is accepted.
        self.0.drop_by(&state, || {
            self.0.database.apply(&batch, Durability::Relaxed)
        })?;
        list.named.remove(name);
        list.dropped.insert(state.identifier);
        drop(list);
        self.0.database.sync()?;
        self.remove(state.identifier)?;
        Ok(())
    }

    /// Removes what is left of dropped keyspaces, and says how many keys that were. An opening does this, and so does a drop: there is something left if one of them failed, or while
    /// another thread drops one.
    ///
    /// # Errors
    /// As for [`Database::delete_range_in_pieces`](crate::Database::delete_range_in_pieces).
    pub fn remove_dropped(&self) -> Result<u64, Failure> {
        let dropped = lock(&self.0.list).dropped.clone();
        dropped.into_iter().map(|one| self.remove(one)).sum()
    }

    /// Removes all keys of a dropped keyspace. Nobody adds any.
    fn remove(&self, dropped: u32) -> Result<u64, Failure> {
        let database = &self.0.database;
        let prefix = identifier::prefix(dropped);
        let keys = Prefix(prefix.bytes());
        let removed = database.delete_range_in_pieces(keys, Durability::Relaxed)?;
        database.apply(&catalogue::removed(dropped), Durability::Relaxed)?;
        lock(&self.0.list).dropped.remove(&dropped);
        Ok(removed)
    }
}
