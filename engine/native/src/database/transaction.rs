//! Optimistic transactions: what was read is checked when the writes are made.

mod range;

use std::collections::BTreeMap;

use kvsim_engine::Durability;

pub use self::range::TransactionRange;
use super::Database;
use super::batch::WriteBatch;
use super::conditional::{Checked, Conditions, RangeCondition};
use super::snapshot::Snapshot;
use crate::api::error::Failure;
use crate::cache::borrowed::Value;

/// Reads and writes that take effect together at one moment, if by then nobody has changed what was read.
///
/// Writes are kept in memory until [`Transaction::commit`], and the transaction sees them. It locks nothing, and dropped it has done nothing. All transactions that commit
/// are as if they had been made one after the other: also those that read ranges, into which no key may have come.
///
/// A transaction of a database reads the newest values. Before it commits, what it reads later may not fit to what it has read before; then it cannot commit. One of a
/// [`Snapshot`] reads one moment.
///
/// ```
/// # use kvsim_native::{Checked, Database, Durability, OpenOptions};
/// # let directory = tempfile::tempdir()?;
/// # let database = Database::open(&directory.path().join("database"), &OpenOptions::default())?;
/// database.put(b"from", &[9], Durability::Relaxed)?;
/// database.put(b"to", &[1], Durability::Relaxed)?;
/// let mut transaction = database.transaction();
/// let from = transaction.get(b"from")?.expect("there is one")[0];
/// let to = transaction.get(b"to")?.expect("there is one")[0];
/// transaction.put(b"from", &[from - 3]).put(b"to", &[to + 3]);
/// assert_eq!(transaction.commit(Durability::Durable)?, Checked::Written);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Transaction {
    database: Database,
    /// Where it reads; otherwise the newest values.
    snapshot: Option<Snapshot>,
    read: BTreeMap<Box<[u8]>, Option<Value>>,
    read_ranges: Vec<RangeCondition>,
    /// `None`: a delete.
    written: BTreeMap<Box<[u8]>, Option<Value>>,
}

impl Database {
    /// Begins a transaction that reads the newest values.
    #[must_use]
    pub fn transaction(&self) -> Transaction {
        Transaction {
            database: self.clone(),
            snapshot: None,
            read: BTreeMap::new(),
            read_ranges: Vec::new(),
            written: BTreeMap::new(),
        }
    }

    /// Does `work` in a transaction, and anew whenever somebody has changed what it read, until it commits. Gives what `work` came to.
    ///
    /// # Errors
    /// As for [`Transaction::commit`], or what `work` ends with: then nothing was written.
    ///
    /// ```
    /// # use kvsim_native::{Database, Durability, OpenOptions};
    /// # let directory = tempfile::tempdir()?;
    /// # let database = Database::open(&directory.path().join("database"), &OpenOptions::default())?;
    /// let count = database.transact(Durability::Durable, |transaction| {
    ///     let count = transaction.get(b"count")?.map_or(0, |count| count[0]) + 1;
    ///     transaction.put(b"count", &[count]);
    ///     Ok(count)
    /// })?;
    /// assert_eq!(count, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn transact<T>(
        &self,
        durability: Durability,
        mut work: impl FnMut(&mut Transaction) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        loop {
            let mut transaction = self.transaction();
            let result = work(&mut transaction)?;
            if transaction.commit(durability)? == Checked::Written {
                return Ok(result);
            }
        }
    }
}

impl Snapshot {
    /// Begins a transaction that reads this moment, and commits only if what it read is still the same.
    #[must_use]
    pub fn transaction(&self) -> Transaction {
        Transaction {
            snapshot: Some(self.clone()),
            ..self.database().transaction()
        }
    }
}

impl Transaction {
    /// Reads a key: what this transaction has written there, or what it has read there before, or what there is.
    ///
    /// # Errors
    /// As for [`Database::get`].
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Value>, Failure> {
        if let Some(written) = self.written.get(key) {
            return Ok(written.clone());
        }
        if let Some(read) = self.read.get(key) {
            return Ok(read.clone());
        }
        let value = match &self.snapshot {
            Some(snapshot) => snapshot.get(key),
            None => self.database.get(key),
        }?;
        self.read.insert(key.into(), value.clone());
        Ok(value)
    }

    /// Sets a key when the transaction commits.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> &mut Transaction {
        self.written.insert(key.into(), Some(Value::copy(value)));
        self
    }

    /// Removes a key when the transaction commits.
    pub fn delete(&mut self, key: &[u8]) -> &mut Transaction {
        self.written.insert(key.into(), None);
        self
    }

    /// Makes all writes at one moment, if all that was read is the same then, and nothing otherwise. The writes have to fit into one batch: see [`WriteBatch`].
    ///
    /// A transaction without writes is checked too.
    ///
    /// # Errors
    /// As for [`Database::apply_if`].
    pub fn commit(self, durability: Durability) -> Result<Checked, Failure> {
        let mut conditions = Conditions::new();
        for (key, value) in &self.read {
            conditions.is_unchanged(key, value.as_ref());
        }
        for range in self.read_ranges {
            conditions.add_range(range);
        }
        let mut batch = WriteBatch::new();
        for (key, value) in &self.written {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            };
        }
        self.database.apply_if(&conditions, &batch, durability)
    }
}
