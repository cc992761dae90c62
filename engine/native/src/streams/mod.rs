//! Large values in and out by stream: any length, a piece at a time, whole or not at all.
//!
//! A value of the engine is in memory as a whole, and the pointer to it has room for some four hundred chunks of 256 KiB. So a stream is not one value. It is a header and
//! pieces, each an entry of the database under a prefix that the caller names: `layout` says how they lie. The engine and its file know nothing of streams, so snapshots,
//! backups, dumps and checks hold for them as for all entries.
//!
//! - `handle`: what all calls share; `layout`: keys and headers;
//! - `live`: what a process knows beside what is stored: ids, readers, what is to be removed;
//! - `removal`: removes the pieces of streams that are gone, now or after a crash;
//! - `writer`, `reader`, `list`: what callers see.
//!
//! Invariants:
//! - **A stream is there whole or not at all.** Its header is written last, in one batch with whatever makes it the newest. What a crash leaves is a prefix of the order of
//!   writes, relaxed ones too, so where there is a header, all its pieces are there. A durable header makes all pieces before it durable.
//! - **Pieces without a header are known.** The entry that says to remove the pieces of an id is written in one batch with the first of them, and goes in one batch with the
//!   header. A batch that takes a header away writes such an entry. The entry goes after all the pieces have. So after a crash nothing is forgotten. A stream that fits into one
//!   piece needs no entry: all of it is one batch.
//! - **Pieces never change.** An id is used once. So whoever has read a header reads the pieces of one moment, as long as they stay; and they stay while somebody
//!   reads them. That is a note in memory and not a snapshot, which would keep all that is overwritten in the whole database. It is enough: a database has one
//!   process that writes, and while it has one, no process that reads.
//! - **No wrong byte is given out.** The engine verifies each piece, and a reader verifies its length. Whoever reads a stream from its first byte to its last gets the last piece
//!   only if the hash of the whole is right.

pub(crate) mod handle;
mod layout;
pub(crate) mod list;
pub(crate) mod live;
pub(crate) mod reader;
mod removal;
pub(crate) mod writer;

use std::io::{self, Read};
use std::sync::Arc;

use kvsim_engine::Durability;

use crate::api::error::Failure;
use crate::api::key_range::KeyRange;
use crate::database::Database;
use crate::database::batch::WriteBatch;
use handle::{StreamInfo, Streams};
use layout::{Layout, PIECE_BYTES_MAX, PIECE_BYTES_MIN};
use list::StreamList;
use reader::StreamReader;
use writer::StreamWriter;

/// Bytes of a piece unless it is said. With smaller ones an entry's own cost counts, with larger ones memory: see `book/src/decisions.md`.
const PIECE_BYTES: u32 = 1 << 20;

impl Database {
    /// The streams whose entries begin with this prefix of at most 512 bytes.
    ///
    /// All keys that begin with it are theirs: write none of them, and let no prefix of other streams begin with it. Pieces that an earlier process run left
    /// without a stream are removed before this returns, unless the database is read only. So ask for each prefix that is used once after an opening. A [`Database::load`] of
    /// streams comes before that.
    ///
    /// # Errors
    /// [`Status::Invalid`](crate::Status::Invalid): the prefix is too long. [`Status::Corruption`](crate::Status::Corruption): there are entries that are none of streams. Else
    /// as for [`Database::get`] and [`Database::delete`].
    ///
    /// ```
    /// # use kvsim_native::{Database, Durability, OpenOptions};
    /// # let directory = tempfile::tempdir()?;
    /// # let database = Database::open(&directory.path().join("database"), &OpenOptions::default())?;
    /// let streams = database.streams(b"files/")?;
    /// let info = streams.put_from(b"zeroes", std::io::repeat(0).take(3 << 20), Durability::Durable)?;
    /// assert_eq!(info.bytes, 3 << 20);
    /// # use std::io::Read;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn streams(&self, prefix: impl AsRef<[u8]>) -> Result<Streams, Failure> {
        let layout = Layout::new(prefix.as_ref())?;
        let key = layout.id_bound();
        let bound = match self.get(&key)? {
            Some(bound) => layout::parse_id_bound(&key, &bound)?,
            None => 0,
        };
        let streams = Streams {
            database: self.clone(),
            live: self.registry().of(layout.prefix(), bound),
            layout: Arc::new(layout),
            piece_bytes: PIECE_BYTES,
        };
        if self.read_only().is_none() {
            streams.remove_what_was_left()?;
        }
        Ok(streams)
    }
}

impl Streams {
    /// The same streams, of which those written from now on by this handle have pieces of so many bytes: a power of two from 4 KiB to 4 MiB; 1 MiB unless it is said. They must
    /// be no more than the option `max_value_bytes` allows.
    ///
    /// # Errors
    /// [`Status::Invalid`](crate::Status::Invalid): it is another number.
    pub fn with_piece_bytes(self, bytes: u32) -> Result<Streams, Failure> {
        if !layout::is_piece_bytes(bytes) {
            return Err(layout::invalid(format!(
                "pieces of {bytes} bytes: they have a power of two of bytes, from {PIECE_BYTES_MIN} to {PIECE_BYTES_MAX}"
            )));
        }
        Ok(Streams {
            piece_bytes: bytes,
            ..self
        })
    }

    /// The database that they lie in.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Begins to write a stream. Nobody sees it, and what had its key before stays, until [`StreamWriter::finish`].
    ///
    /// # Errors
    /// [`Status::Invalid`](crate::Status::Invalid): the key is empty, or with the prefix longer than 1,023 bytes. Else as for [`Database::put`].
    pub fn writer(&self, key: &[u8]) -> Result<StreamWriter, Failure> {
        self.database.refuse_if_read_only()?;
        let header = self.layout.header(key)?;
        let id = self.live.new_id(|bound| {
            let key = self.layout.id_bound();
            self.database
                .put(&key, &bound.to_le_bytes(), Durability::Relaxed)
        })?;
        Ok(StreamWriter::new(self, header, id))
    }

    /// Writes a stream: all that there is to read.
    ///
    /// # Errors
    /// What the source fails with, or what the database does: then a [`Failure`] is inside the error. Nothing was written, unless its status says that it may have been.
    pub fn put_from(
        &self,
        key: &[u8],
        mut source: impl Read,
        durability: Durability,
    ) -> io::Result<StreamInfo> {
        let mut writer = self.writer(key)?;
        io::copy(&mut source, &mut writer)?;
        Ok(writer.finish(durability)?)
    }

    /// Reads a stream as it is now, whatever becomes of its key: see [`StreamReader`].
    ///
    /// # Errors
    /// As for [`Streams::metadata`].
    pub fn reader(&self, key: &[u8]) -> Result<Option<StreamReader>, Failure> {
        StreamReader::new(self, key)
    }

    /// What is known of a stream without reading it; `None` if there is none of this key.
    ///
    /// # Errors
    /// As for [`Database::get`]; [`Status::Invalid`](crate::Status::Invalid) if the key cannot be one, or a later version of this library has written the stream.
    pub fn metadata(&self, key: &[u8]) -> Result<Option<StreamInfo>, Failure> {
        let header = self.header(&self.layout.header(key)?)?;
        Ok(header.map(|(header, _)| header.into()))
    }

    /// Whether there is a stream of this key.
    ///
    /// # Errors
    /// As for [`Database::contains`]; [`Status::Invalid`](crate::Status::Invalid) if the key cannot be one.
    pub fn contains(&self, key: &[u8]) -> Result<bool, Failure> {
        self.database.contains(&self.layout.header(key)?)
    }

    /// The streams of a range of keys as they are now, from both ends.
    ///
    /// # Errors
    /// As for [`Database::range`].
    ///
    /// ```
    /// # use kvsim_native::{Database, Durability, OpenOptions, Prefix};
    /// # let directory = tempfile::tempdir()?;
    /// # let database = Database::open(&directory.path().join("database"), &OpenOptions::default())?;
    /// let streams = database.streams(b"files/")?;
    /// streams.put_from(b"a/1", &b"one"[..], Durability::Relaxed)?;
    /// streams.put_from(b"b/1", &b"three"[..], Durability::Relaxed)?;
    /// let lengths = streams.list(Prefix("b/"))?.map(|entry| Ok(entry?.info.bytes));
    /// assert_eq!(lengths.collect::<Result<Vec<u64>, kvsim_native::Failure>>()?, [5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn list(&self, range: impl KeyRange) -> Result<StreamList, Failure> {
        StreamList::new(self, &range)
    }

    /// Removes a stream; says whether there was one. Who reads it reads on, and its space comes back once nobody does.
    ///
    /// # Errors
    /// As for [`Database::delete`] and [`Streams::metadata`].
    pub fn delete(&self, key: &[u8], durability: Durability) -> Result<bool, Failure> {
        let key = self.layout.header(key)?;
        self.database.refuse_if_read_only()?;
        loop {
            let Some((header, value)) = self.header(&key)? else {
                return Ok(false);
            };
            let mut batch = WriteBatch::new();
            batch.delete(&key);
            if self.supersede(&key, Some((header, value)), batch, durability)? {
                return Ok(true);
            }
        }
    }
}
