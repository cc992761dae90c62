//! Optimistic transactions over several keyspaces.

use std::sync::Arc;

use kvsim_engine::Durability;

use super::Keyspaces;
use super::conditional::KeyspaceChecked;
use super::divided::Divided;
use super::keyspace::Keyspace;
use super::named::Named;
use super::snapshot::KeyspacesSnapshot;
use crate::api::error::Failure;
use crate::api::key_range::KeyRange;
use crate::cache::borrowed::Value;
use crate::database::transaction::{Transaction, TransactionRange};

/// Reads and writes of several keyspaces that take effect together at one moment, if by then nobody has changed what was read: a [`Transaction`] across keyspaces.
///
/// ```
/// # use kvsim_native::{Durability, KeyspaceChecked, OpenOptions};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("database");
/// # let keyspaces = OpenOptions::new().size_bytes(16 << 20).open_keyspaces(&path)?;
/// let (todo, done) = (keyspaces.create("todo")?, keyspaces.create("done")?);
/// todo.put(b"1", b"write", Durability::Relaxed)?;
/// let mut transaction = keyspaces.transaction();
/// let task = transaction.get(&todo, b"1")?.expect("there is one");
/// transaction.delete(&todo, b"1").put(&done, b"1", &task);
/// assert_eq!(transaction.commit(Durability::Durable)?, KeyspaceChecked::Written);
/// assert!(done.contains(b"1")? && !todo.contains(b"1")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct KeyspaceTransaction {
    divided: Arc<Divided>,
    /// Where it reads; otherwise the newest values.
    snapshot: Option<KeyspacesSnapshot>,
    raw: Transaction,
    named: Named,
}

impl std::fmt::Debug for KeyspaceTransaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyspaceTransaction")
            .field("snapshot", &self.snapshot)
            .field("keyspaces", &self.named)
            .finish_non_exhaustive()
    }
}

impl Keyspaces {
    /// Begins a transaction that reads the newest values.
    #[must_use]
    pub fn transaction(&self) -> KeyspaceTransaction {
        KeyspaceTransaction {
            divided: Arc::clone(&self.0),
            snapshot: None,
            raw: self.0.database.transaction(),
            named: Named::default(),
        }
    }

    /// Does `work` in a transaction, and anew whenever somebody has changed what it read, until it commits. Gives what `work` came to.
    ///
    /// # Errors
    /// As for [`KeyspaceTransaction::commit`], or what `work` ends with: then nothing was written.
    pub fn transact<T>(
        &self,
        durability: Durability,
        mut work: impl FnMut(&mut KeyspaceTransaction) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        loop {
            let mut transaction = self.transaction();
            let result = work(&mut transaction)?;
            if transaction.commit(durability)? == KeyspaceChecked::Written {
                return Ok(result);
            }
        }
    }
}

impl KeyspacesSnapshot {
    /// Begins a transaction that reads this moment, and commits only if what it read is still the same, in keyspaces that are still there.
    #[must_use]
    pub fn transaction(&self) -> KeyspaceTransaction {
        KeyspaceTransaction {
            divided: Arc::clone(self.divided()),
            snapshot: Some(self.clone()),
            raw: self.raw().transaction(),
            named: Named::default(),
        }
    }
}

impl KeyspaceTransaction {
    /// Reads a key: what this transaction has written there, or what it has read there before, or what there is.
    ///
    /// # Errors
    /// As for [`Keyspace::get`], or [`KeyspacesSnapshot::get`].
    pub fn get(&mut self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Value>, Failure> {
        keyspace.check_of(&self.divided)?;
        let prefix = self.named.add(keyspace);
        let found = prefix.with(key, |key| self.raw.get(key));
        match &self.snapshot {
            Some(snapshot) => snapshot.check(keyspace)?,
            None => keyspace.state().check()?,
        }
        found
    }

    /// Goes through a range of a keyspace, with what this transaction has written in it. It commits only if what was passed is the same then: see [`Transaction::range`].
    ///
    /// # Errors
    /// As for [`Keyspace::range`].
    ///
    /// ```
    /// # use kvsim_native::{Durability, KeyspaceChecked, OpenOptions};
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("database");
    /// # let keyspaces = OpenOptions::new().size_bytes(16 << 20).open_keyspaces(&path)?;
    /// let (guests, counts) = (keyspaces.create("guests")?, keyspaces.create("counts")?);
    /// let mut transaction = keyspaces.transaction();
    /// let count = transaction.range(&guests, ..)?.count();
    /// transaction.put(&counts, b"guests", &[count as u8]);
    /// guests.put(b"Ada", b"", Durability::Relaxed)?;
    /// let checked = transaction.commit(Durability::Durable)?;
    /// let key = b"Ada".as_slice().into();
    /// assert_eq!(checked, KeyspaceChecked::Changed { keyspace: guests, key });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn range(
        &mut self,
        keyspace: &Keyspace,
        range: impl KeyRange,
    ) -> Result<TransactionRange<'_>, Failure> {
        keyspace.check_of(&self.divided)?;
        let prefix = self.named.add(keyspace);
        let found = self.raw.range_within(prefix, &range);
        // What is still there now was there when the range was begun.
        match &self.snapshot {
            Some(snapshot) => snapshot.check(keyspace)?,
            None => keyspace.state().check()?,
        }
        found
    }

    /// Sets a key of a keyspace when the transaction commits.
    pub fn put(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        value: &[u8],
    ) -> &mut KeyspaceTransaction {
        let prefix = self.named.add_write(keyspace, key);
        prefix.with(key, |key| _ = self.raw.put(key, value));
        self
    }

    /// Removes a key of a keyspace when the transaction commits.
    pub fn delete(&mut self, keyspace: &Keyspace, key: &[u8]) -> &mut KeyspaceTransaction {
        let prefix = self.named.add_write(keyspace, key);
        prefix.with(key, |key| _ = self.raw.delete(key));
        self
    }

    /// Makes all writes at one moment, if all that was read is the same then, and nothing otherwise. The writes have to fit into one batch: see
    /// [`KeyspaceBatch`](crate::KeyspaceBatch).
    ///
    /// A transaction without writes is checked too.
    ///
    /// # Errors
    /// As for [`Keyspaces::apply_if`]; also if a keyspace that was only read was dropped.
    pub fn commit(self, durability: Durability) -> Result<KeyspaceChecked, Failure> {
        let _held = self.divided.hold();
        self.named.check(&self.divided)?;
        let checked = self.raw.commit(durability)?;
        Ok(KeyspaceChecked::of(checked, &self.named))
    }
}
