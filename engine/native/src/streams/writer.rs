//! Writing a stream.

use std::io::{self, Write};

use kvsim_engine::{Durability, Status};
use xxhash_rust::xxh3::Xxh3Default;

use super::handle::{StreamInfo, Streams};
use super::layout::Header;
use crate::api::error::Failure;
use crate::database::batch::WriteBatch;

/// Writes one stream, from its first byte to its last. Made by [`Streams::writer`].
///
/// Each full piece goes to the database, as a relaxed write that returns when it is accepted, while the disk is still busy with those before it. So in memory there are one
/// piece, and what the database has accepted and not written: the option `write_buffer_bytes`, 8 MiB unless it is said.
///
/// The stream is there once [`StreamWriter::finish`] returns. A writer that is dropped before has written nothing: its pieces are removed. Of several that write
/// one key at once the last one that finishes counts.
///
/// A write that fails can be tried again, for instance after something else was deleted to make space.
pub struct StreamWriter {
    streams: Streams,
    /// Where the header will lie.
    header: Vec<u8>,
    id: u64,
    /// The piece that is being filled. It is written when more comes, so that a stream of one piece is one batch.
    piece: Vec<u8>,
    /// Pieces that were written.
    pieces: u64,
    hash: Xxh3Default,
    state: State,
}

/// What there is of a stream in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Nothing,
    /// Perhaps pieces, and the entry that says to remove them.
    Pieces,
    /// The header, or nobody knows before the next opening. What is there is not this writer's to remove.
    Finished,
}

impl std::fmt::Debug for StreamWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamWriter")
            .field("id", &self.id)
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

impl StreamWriter {
    pub(super) fn new(streams: &Streams, header: Vec<u8>, id: u64) -> StreamWriter {
        StreamWriter {
            streams: streams.clone(),
            header,
            id,
            piece: Vec::new(),
            pieces: 0,
            hash: Xxh3Default::new(),
            state: State::Nothing,
        }
    }

    /// Bytes that it was given so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pieces * u64::from(self.streams.piece_bytes) + self.piece.len() as u64
    }

    /// Makes the stream the one of its key, whole. It survives a power cut then if it is to be durable; if it is relaxed, then together with other relaxed writes, and it is
    /// whole or not there.
    ///
    /// # Errors
    /// As for [`Database::put`](crate::Database::put) and [`Streams::metadata`]. Nothing was written then, and what had the key before stays, unless the status is
    /// [`Status::IoError`]: then the next opening shows which of the two is there.
    pub fn finish(self, durability: Durability) -> Result<StreamInfo, Failure> {
        self.finish_with(&WriteBatch::new(), durability)
    }

    /// The same together with other writes, which come before it in one batch: all of that takes effect, or nothing.
    ///
    /// # Errors
    /// As for [`StreamWriter::finish`], and [`Status::Invalid`] if the batch does not fit into one frame.
    ///
    /// ```
    /// # use kvsim_native::{Database, Durability, OpenOptions, WriteBatch};
    /// # use std::io::Write;
    /// # let directory = tempfile::tempdir()?;
    /// # let database = Database::open(&directory.path().join("database"), &OpenOptions::default())?;
    /// let mut writer = database.streams(b"files/")?.writer(b"7")?;
    /// writer.write_all(b"text")?;
    /// let mut batch = WriteBatch::new();
    /// batch.put(b"name/greeting", b"7");
    /// writer.finish_with(&batch, Durability::Durable)?;
    /// assert!(database.contains(b"name/greeting")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn finish_with(
        mut self,
        batch: &WriteBatch,
        durability: Durability,
    ) -> Result<StreamInfo, Failure> {
        let bytes = self.bytes();
        if self.state == State::Pieces && !self.piece.is_empty() {
            self.put_piece()?;
        }
        let mut hash = self.hash.clone();
        hash.update(&self.piece);
        let header = Header {
            piece_bytes: self.streams.piece_bytes,
            id: self.id,
            bytes,
            hash: hash.digest(),
        };
        loop {
            let old = self.streams.header(&self.header)?;
            let layout = &self.streams.layout;
            let mut all = batch.clone();
            if !self.piece.is_empty() {
                all.put(&layout.piece(self.id, 0), &self.piece);
            }
            if self.state == State::Pieces {
                all.delete(&layout.removal(self.id));
            }
            all.put(&self.header, &header.encode());
            let written = self
                .streams
                .supersede(&self.header, old, all, durability)
                .map_err(|failure| match batch.is_empty() {
                    true => self.advise(failure),
                    false => failure,
                });
            match written {
                Ok(true) => break,
                Ok(false) => {}
                Err(failure) => {
                    if failure.status == Status::IoError {
                        self.state = State::Finished;
                    }
                    return Err(failure);
                }
            }
        }
        self.state = State::Finished;
        Ok(header.into())
    }

    /// Writes the piece that is being filled; with the first one, the entry that says to remove it.
    fn put_piece(&mut self) -> Result<(), Failure> {
        let layout = &self.streams.layout;
        let mut batch = Vec::with_capacity(2);
        let removal = layout.removal(self.id);
        if self.pieces == 0 {
            batch.push(kvsim_engine::Mutation::Put {
                key: &removal,
                value: &[],
            });
        }
        let key = layout.piece(self.id, self.pieces);
        batch.push(kvsim_engine::Mutation::Put {
            key: &key,
            value: &self.piece,
        });
        // Also if it fails: nobody may know whether it has.
        self.state = State::Pieces;
        let written = self.streams.database.write(&batch, Durability::Relaxed);
        written.map_err(|failure| self.advise(failure))?;
        self.hash.update(&self.piece);
        self.pieces += 1;
        self.piece.clear();
        Ok(())
    }

    /// Says what to do about a piece that the database takes from nobody.
    fn advise(&self, mut failure: Failure) -> Failure {
        if failure.status == Status::Invalid {
            let bytes = self.streams.piece_bytes;
            failure.message = format!(
                "{}; the pieces of this stream have {bytes} bytes: `Streams::with_piece_bytes` makes them smaller",
                failure.message
            );
        }
        failure
    }
}

impl Write for StreamWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let full = self.streams.piece_bytes as usize;
        if self.piece.len() == full && !bytes.is_empty() {
            self.put_piece()?;
        }
        let taken = bytes.len().min(full - self.piece.len());
        self.piece.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    /// Does nothing: [`StreamWriter::finish`] makes the stream durable, and nothing before does.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for StreamWriter {
    fn drop(&mut self) {
        if self.state == State::Pieces {
            self.streams.live.make_due(self.id);
            self.streams.remove_due_if_possible();
        }
    }
}
