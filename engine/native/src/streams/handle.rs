//! The handle of streams, and what writing and deleting share.

use std::sync::Arc;

use kvsim_engine::Durability;

use super::layout::{Header, Layout};
use super::live::Live;
use crate::api::error::Failure;
use crate::cache::borrowed::Value;
use crate::database::Database;
use crate::database::batch::WriteBatch;
use crate::database::conditional::{Checked, Conditions};

/// Large values of a database by key, which are written and read by stream. Made by [`Database::streams`].
///
/// Clones share everything, and any number of threads use them. A call blocks its thread while the disk has to be waited for.
///
/// ```
/// # use kvsim_native::{Database, Durability, OpenOptions};
/// use std::io::{Read, Seek, SeekFrom, Write};
///
/// # let directory = tempfile::tempdir()?;
/// # let database = Database::open(&directory.path().join("database"), &OpenOptions::default())?;
/// let streams = database.streams(b"files/")?;
/// let mut writer = streams.writer(b"greeting")?;
/// writer.write_all(b"Hello, ")?;
/// writer.write_all(b"world")?;
/// assert!(!streams.contains(b"greeting")?, "it is not finished");
/// writer.finish(Durability::Durable)?;
///
/// let mut reader = streams.reader(b"greeting")?.expect("it is there");
/// reader.seek(SeekFrom::Start(7))?;
/// let mut text = String::new();
/// reader.read_to_string(&mut text)?;
/// assert_eq!(text, "world");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Streams {
    pub(super) database: Database,
    pub(super) layout: Arc<Layout>,
    pub(super) live: Arc<Live>,
    pub(super) piece_bytes: u32,
}

/// What is known of a stream without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamInfo {
    /// Its length.
    pub bytes: u64,
    /// Its XXH3 hash of 64 bits, without a seed.
    pub hash: u64,
    /// Bytes of each of its pieces but the last.
    pub piece_bytes: u32,
}

impl From<Header> for StreamInfo {
    fn from(header: Header) -> StreamInfo {
        StreamInfo {
            bytes: header.bytes,
            hash: header.hash,
            piece_bytes: header.piece_bytes,
        }
    }
}

impl Streams {
    /// The header that lies there now.
    pub(super) fn header(&self, key: &[u8]) -> Result<Option<(Header, Value)>, Failure> {
        let Some(value) = self.database.get(key)? else {
            return Ok(None);
        };
        let header = Header::parse(self.layout.stream_of(key), &value)?;
        Ok(Some((header, value)))
    }

    /// Writes a batch that takes the place of a header, unless another one has come meanwhile, and removes the pieces of that header.
    pub(super) fn supersede(
        &self,
        key: &[u8],
        old: Option<(Header, Value)>,
        mut batch: WriteBatch,
        durability: Durability,
    ) -> Result<bool, Failure> {
        let (old, value) = old.unzip();
        let mut conditions = Conditions::new();
        conditions.is_unchanged(key, value.as_ref());
        if let Some(old) = old {
            batch.put(&self.layout.removal(old.id), &[]);
        }
        if self.database.apply_if(&conditions, &batch, durability)? != Checked::Written {
            return Ok(false);
        }
        if let Some(old) = old {
            self.live.make_due(old.id);
            self.remove_due_if_possible();
        }
        Ok(true)
    }
}
