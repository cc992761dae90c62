//! Batches of writes that own their keys and values.

use kvsim_engine::{Durability, Mutation};

use super::Database;
use crate::api::error::Failure;
use crate::api::key_prefix::KeyPrefix;

/// Writes that take effect together or not at all, in their order. Keys and values are copied into one piece of memory.
///
/// A batch has to fit into one frame of the log: with the options of this crate that is nearly 1 MiB of keys and values, of which values that are larger than 4 KiB
/// need not be a part.
///
/// ```
/// # use kvsim_native::{Database, Durability, OpenOptions, WriteBatch};
/// # let directory = tempfile::tempdir()?;
/// # let database = Database::open(&directory.path().join("database"), &OpenOptions::default())?;
/// let mut batch = WriteBatch::new();
/// batch.put(b"from", b"90").put(b"to", b"110").delete(b"pending");
/// database.apply(&batch, Durability::Durable)?;
/// assert_eq!(database.get(b"to")?.as_deref(), Some(&b"110"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    writes: Vec<Write>,
}

/// Where a write lies in the bytes: its key, and behind it its value.
#[derive(Debug, Clone, Copy)]
struct Write {
    key_end: usize,
    /// `None`: a delete.
    value_end: Option<usize>,
}

impl Write {
    fn end(&self) -> usize {
        self.value_end.unwrap_or(self.key_end)
    }
}

impl WriteBatch {
    /// A batch without writes.
    #[must_use]
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// Adds a write that sets a key.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> &mut WriteBatch {
        self.put_within(KeyPrefix::default(), key, value)
    }

    /// The same of a key that gets this prefix.
    pub(crate) fn put_within(
        &mut self,
        prefix: KeyPrefix,
        key: &[u8],
        value: &[u8],
    ) -> &mut WriteBatch {
        self.bytes.extend_from_slice(prefix.bytes());
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        let value_end = Some(self.bytes.len());
        self.writes.push(Write { key_end, value_end });
        self
    }

    /// Adds a write that removes a key.
    pub fn delete(&mut self, key: &[u8]) -> &mut WriteBatch {
        self.delete_within(KeyPrefix::default(), key)
    }

    /// The same of a key that gets this prefix.
    pub(crate) fn delete_within(&mut self, prefix: KeyPrefix, key: &[u8]) -> &mut WriteBatch {
        self.bytes.extend_from_slice(prefix.bytes());
        self.bytes.extend_from_slice(key);
        self.writes.push(Write {
            key_end: self.bytes.len(),
            value_end: None,
        });
        self
    }

    /// Removes all writes and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.writes.clear();
    }

    /// How many writes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether there are no writes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Bytes of all keys and values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The writes in their order.
    pub fn iter(&self) -> impl Iterator<Item = Mutation<'_>> {
        let starts = std::iter::once(0).chain(self.writes.iter().map(Write::end));
        starts.zip(&self.writes).map(|(start, write)| {
            let key = &self.bytes[start..write.key_end];
            match write.value_end {
                Some(end) => Mutation::Put {
                    key,
                    value: &self.bytes[write.key_end..end],
                },
                None => Mutation::Delete { key },
            }
        })
    }
}

/// Adds each write.
impl<'a> Extend<Mutation<'a>> for WriteBatch {
    fn extend<I: IntoIterator<Item = Mutation<'a>>>(&mut self, writes: I) {
        for write in writes {
            match write {
                Mutation::Put { key, value } => self.put(key, value),
                Mutation::Delete { key } => self.delete(key),
            };
        }
    }
}

impl<'a> FromIterator<Mutation<'a>> for WriteBatch {
    fn from_iter<I: IntoIterator<Item = Mutation<'a>>>(writes: I) -> WriteBatch {
        let mut batch = WriteBatch::new();
        batch.extend(writes);
        batch
    }
}

impl Database {
    /// Writes all of a batch or nothing. The batch can be used again.
    ///
    /// # Errors
    /// As for [`Database::put`]; [`Status::Invalid`](crate::Status::Invalid) too if the batch does not fit into one frame.
    pub fn apply(&self, batch: &WriteBatch, durability: Durability) -> Result<(), Failure> {
        let writes: Vec<Mutation<'_>> = batch.iter().collect();
        self.write(&writes, durability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a batch gives back what was put into it. Method: puts and deletes, empty values and keys among them, and the same after clearing.
    #[test]
    fn a_batch_gives_back_its_writes() {
        let mut batch = WriteBatch::new();
        for _ in 0..2 {
            assert!(batch.is_empty());
            batch
                .put(b"a", b"1")
                .delete(b"bc")
                .put(b"", b"")
                .put(b"d", b"");
            assert_eq!((batch.len(), batch.bytes()), (4, 5));
            let copy: WriteBatch = batch.iter().collect();
            let text = |batch: &WriteBatch| format!("{:?}", batch.iter().collect::<Vec<_>>());
            assert_eq!(text(&copy), text(&batch));
            let keys: Vec<&[u8]> = batch.iter().map(|write| write.key()).collect();
            assert_eq!(keys, [&b"a"[..], b"bc", b"", b"d"]);
            let values: Vec<_> = batch.iter().map(|write| write.value_bytes()).collect();
            assert_eq!(values, [1, 0, 0, 0]);
            assert!(matches!(batch.iter().nth(1), Some(Mutation::Delete { .. })));
            batch.clear();
        }
    }
}
