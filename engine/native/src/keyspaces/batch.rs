//! Batches of writes to several keyspaces.

use kvsim_engine::{Durability, Mutation};

use super::Keyspaces;
use super::keyspace::Keyspace;
use super::named::Named;
use crate::api::error::Failure;
use crate::database::batch::WriteBatch;

/// Writes to one or several keyspaces that take effect together or not at all, in their order. Keys and values are copied into one piece of memory.
///
/// It has to fit into one frame of the log, as a [`WriteBatch`] has to; each key takes 1 to 4 bytes more. It holds handles of
/// the keyspaces that it names, and so keeps their database open.
///
/// ```
/// # use kvsim_native::{Durability, KeyspaceBatch, OpenOptions};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("database");
/// # let keyspaces = OpenOptions::new().size_bytes(16 << 20).open_keyspaces(&path)?;
/// let (users, by_name) = (keyspaces.create("users")?, keyspaces.create("by name")?);
/// let mut batch = KeyspaceBatch::new();
/// batch.put(&users, b"1", b"Ada").put(&by_name, b"Ada", b"1").delete(&by_name, b"Augusta");
/// keyspaces.apply(&batch, Durability::Durable)?;
/// assert!(by_name.contains(b"Ada")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct KeyspaceBatch {
    raw: WriteBatch,
    named: Named,
}

impl KeyspaceBatch {
    /// A batch without writes.
    #[must_use]
    pub fn new() -> KeyspaceBatch {
        KeyspaceBatch::default()
    }

    /// Adds a write that sets a key of a keyspace.
    pub fn put(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8]) -> &mut KeyspaceBatch {
        let prefix = self.named.add_write(keyspace, key);
        self.raw.put_within(prefix, key, value);
        self
    }

    /// Adds a write that removes a key of a keyspace.
    pub fn delete(&mut self, keyspace: &Keyspace, key: &[u8]) -> &mut KeyspaceBatch {
        let prefix = self.named.add_write(keyspace, key);
        self.raw.delete_within(prefix, key);
        self
    }

    /// Removes all writes and keeps their memory.
    pub fn clear(&mut self) {
        self.raw.clear();
        self.named = Named::default();
    }

    /// How many writes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// Whether there are no writes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// Bytes of all keys and values as they are in the file, so with the 1 to 4 bytes before each key.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.raw.bytes()
    }

    pub(super) fn raw(&self) -> &WriteBatch {
        &self.raw
    }

    pub(super) fn named(&self) -> &Named {
        &self.named
    }
}

impl Keyspaces {
    /// Writes all of a batch or nothing, in all keyspaces that it names. The batch can be used again.
    ///
    /// # Errors
    /// As for [`Keyspace::put`]; [`Status::Invalid`](crate::Status::Invalid) too if the batch does not fit into one frame, or names a keyspace of another database or one that was
    /// dropped.
    pub fn apply(&self, batch: &KeyspaceBatch, durability: Durability) -> Result<(), Failure> {
        let writes: Vec<Mutation<'_>> = batch.raw.iter().collect();
        let _held = self.0.hold();
        batch.named.check(&self.0)?;
        self.0.database.write(&writes, durability)
    }
}
