//! Writes to several keyspaces that take effect only if keys of them have not changed.

use kvsim_engine::Durability;

use super::Keyspaces;
use super::batch::KeyspaceBatch;
use super::keyspace::Keyspace;
use super::named::Named;
use crate::api::error::Failure;
use crate::api::key_range::KeyRange;
use crate::cache::borrowed::Value;
use crate::database::conditional::{Checked, Conditions};
use crate::database::range::OwnedEntry;

/// What keys of keyspaces have to hold for a write to take effect.
///
/// ```
/// # use kvsim_native::{Durability, KeyspaceBatch, KeyspaceChecked, KeyspaceConditions, OpenOptions};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("database");
/// # let keyspaces = OpenOptions::new().size_bytes(16 << 20).open_keyspaces(&path)?;
/// let (accounts, log) = (keyspaces.create("accounts")?, keyspaces.create("log")?);
/// accounts.put(b"Ada", b"100", Durability::Relaxed)?;
/// let mut conditions = KeyspaceConditions::new();
/// conditions.is(&accounts, b"Ada", b"100").is_absent(&log, b"7");
/// let mut batch = KeyspaceBatch::new();
/// batch.put(&accounts, b"Ada", b"70").put(&log, b"7", b"30");
/// let checked = keyspaces.apply_if(&conditions, &batch, Durability::Durable)?;
/// assert_eq!(checked, KeyspaceChecked::Written);
/// let checked = keyspaces.apply_if(&conditions, &batch, Durability::Durable)?;
/// let key = b"Ada".as_slice().into();
/// assert_eq!(checked, KeyspaceChecked::Changed { keyspace: accounts, key });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct KeyspaceConditions {
    raw: Conditions,
    named: Named,
}

/// What came of a write with conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the write may not have been made"]
pub enum KeyspaceChecked {
    /// All conditions held, and it was written.
    Written,
    /// A key did not hold what it had to; nothing was written.
    Changed {
        /// Where the key is.
        keyspace: Keyspace,
        /// The first such key, in the order in which the conditions were stated, those on ranges last.
        key: Box<[u8]>,
    },
}

impl KeyspaceConditions {
    /// No conditions: everything is written.
    #[must_use]
    pub fn new() -> KeyspaceConditions {
        KeyspaceConditions::default()
    }

    /// The key has to have this value.
    pub fn is(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8]) -> &mut KeyspaceConditions {
        let prefix = self.named.add(keyspace);
        prefix.with(key, |key| _ = self.raw.is(key, value));
        self
    }

    /// There has to be no such key.
    pub fn is_absent(&mut self, keyspace: &Keyspace, key: &[u8]) -> &mut KeyspaceConditions {
        let prefix = self.named.add(keyspace);
        prefix.with(key, |key| _ = self.raw.is_absent(key));
        self
    }

    /// The key has to be as it was read: with this value, or not there. The value is not copied.
    pub fn is_unchanged(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        read: Option<&Value>,
    ) -> &mut KeyspaceConditions {
        let prefix = self.named.add(keyspace);
        prefix.with(key, |key| _ = self.raw.is_unchanged(key, read));
        self
    }

    /// The range of a keyspace has to hold these entries, as they were read, and no other: see [`Conditions::range_is_unchanged`].
    pub fn range_is_unchanged(
        &mut self,
        keyspace: &Keyspace,
        range: impl KeyRange,
        read: impl IntoIterator<Item = OwnedEntry>,
    ) -> &mut KeyspaceConditions {
        let prefix = self.named.add(keyspace);
        self.raw.range_within_is_unchanged(prefix, &range, read);
        self
    }
}

impl KeyspaceChecked {
    /// That of a write to these keyspaces, whose keys come as they are in the file.
    pub(super) fn of(checked: Checked, named: &Named) -> KeyspaceChecked {
        match checked {
            Checked::Written => KeyspaceChecked::Written,
            Checked::Changed { key } => {
                let (keyspace, key) = named.split(&key);
                KeyspaceChecked::Changed { keyspace, key }
            }
        }
    }
}

impl Keyspaces {
    /// Writes all of a batch if all conditions hold at that moment, and nothing otherwise. No other write comes between the check and the write, in any keyspace. Values are
    /// compared, not versions.
    ///
    /// # Errors
    /// As for [`Keyspaces::apply`], and as for [`Keyspace::get`] if a value that a condition is about cannot be read. A condition that does not hold is none.
    pub fn apply_if(
        &self,
        conditions: &KeyspaceConditions,
        batch: &KeyspaceBatch,
        durability: Durability,
    ) -> Result<KeyspaceChecked, Failure> {
        let _held = self.0.hold();
        conditions.named.check(&self.0)?;
        batch.named().check(&self.0)?;
        let database = &self.0.database;
        let checked = database.apply_if(&conditions.raw, batch.raw(), durability)?;
        Ok(KeyspaceChecked::of(checked, &conditions.named))
    }
}
