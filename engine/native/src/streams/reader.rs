//! Reading a stream.
//!
//! Invariants:
//! - the pieces of a stream stay while somebody reads it: the reader notes that it does, and then looks whether the header is still there. Whoever takes the header away
//!   looks for that note after;
//! - the first time that a piece is read right after the one before it, it counts for the hash of the whole. When the last one does, the hash is right, or the piece is not
//!   given out.

use std::io::{self, BufRead, Read, Seek, SeekFrom};

use xxhash_rust::xxh3::Xxh3Default;

use super::handle::{StreamInfo, Streams};
use super::layout::{Header, damaged, shown};
use crate::api::error::Failure;
use crate::cache::borrowed::Value;

/// Reads one stream, from any place in it. Made by [`Streams::reader`].
///
/// It reads the stream that had the key when it was made, also when that is replaced or deleted meanwhile. Until it is dropped, that stream keeps its space; nothing else does. It
/// keeps the database open too, unless somebody calls [`Database::close`](crate::Database::close): then every read fails.
///
/// Of the disk it reads the pieces that it is asked for, and one of them is in memory. Each is verified. Where all pieces are read in their order, the last one is given out
/// only if the hash of the whole stream is right.
///
/// An error is one of [`io::Error`] with a [`Failure`] inside: the kind `InvalidData` means damage, and the message names the stream and the piece.
pub struct StreamReader {
    noted: Noted,
    header: Header,
    /// For messages.
    key: Box<[u8]>,
    /// The next byte; it may lie behind the last.
    position: u64,
    /// The piece that was read last, and its number.
    piece: Option<(u64, Value)>,
    /// Of the first so many pieces.
    hash: (Xxh3Default, u64),
}

/// The note that a stream is read.
struct Noted {
    streams: Streams,
    id: u64,
}

impl Noted {
    fn new(streams: &Streams, id: u64) -> Noted {
        streams.live.begin_reading(id);
        let streams = streams.clone();
        Noted { streams, id }
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.streams.live.end_reading(self.id);
        self.streams.remove_due_if_possible();
    }
}

impl std::fmt::Debug for StreamReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamReader")
            .field("key", &shown(&self.key))
            .field("position", &self.position)
            .field("bytes", &self.header.bytes)
            .finish_non_exhaustive()
    }
}

impl StreamReader {
    pub(super) fn new(streams: &Streams, key: &[u8]) -> Result<Option<StreamReader>, Failure> {
        StreamReader::new_with(streams, key, || ())
    }

    /// The same; `looked` is called after a look at the header, before the note.
    fn new_with(
        streams: &Streams,
        key: &[u8],
        mut looked: impl FnMut(),
    ) -> Result<Option<StreamReader>, Failure> {
        let place = streams.layout.header(key)?;
        loop {
            let Some((header, _)) = streams.header(&place)? else {
                return Ok(None);
            };
            looked();
            let noted = Noted::new(streams, header.id);
            let still = streams.header(&place)?;
            if still.is_some_and(|(still, _)| still == header) {
                return Ok(Some(StreamReader {
                    noted,
                    header,
                    key: key.into(),
                    position: 0,
                    piece: None,
                    hash: (Xxh3Default::new(), 0),
                }));
            }
        }
    }

    /// Bytes of the stream.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.header.bytes
    }

    /// Whether the stream has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.header.bytes == 0
    }

    /// What is known of the stream without reading it.
    #[must_use]
    pub fn metadata(&self) -> StreamInfo {
        self.header.into()
    }

    /// Reads a piece, unless it is the one that is in memory.
    fn read_piece(&mut self, number: u64) -> Result<&Value, Failure> {
        if self.piece.as_ref().is_none_or(|(read, _)| *read != number) {
            self.piece = None;
            let value = self.fetch(number)?;
            if self.hash.1 == number {
                self.count_for_hash(number, &value)?;
            }
            self.piece = Some((number, value));
        }
        let (_, value) = self.piece.as_ref().expect("it was just read");
        Ok(value)
    }

    fn fetch(&self, number: u64) -> Result<Value, Failure> {
        let Streams {
            database, layout, ..
        } = &self.noted.streams;
        let named = |what: &str| {
            let (key, pieces) = (shown(&self.key), self.header.pieces());
            format!("piece {number} of {pieces} of the stream {key} {what}")
        };
        let found = database.get(&layout.piece(self.header.id, number));
        let value = found.map_err(|failure| Failure {
            status: failure.status,
            message: named(&format!("cannot be read: {failure}")),
        })?;
        let value = value.ok_or_else(|| damaged(named("is not there")))?;
        let expected = self.header.bytes_of(number);
        if value.len() != expected {
            let found = value.len();
            let what = format!("has {found} bytes and not {expected}");
            return Err(damaged(named(&what)));
        }
        Ok(value)
    }

    fn count_for_hash(&mut self, number: u64, value: &[u8]) -> Result<(), Failure> {
        let (hash, counted) = &mut self.hash;
        let is_last = number + 1 == self.header.pieces();
        if is_last {
            let mut whole = hash.clone();
            whole.update(value);
            let (found, expected) = (whole.digest(), self.header.hash);
            if found != expected {
                let key = shown(&self.key);
                return Err(damaged(format!(
                    "the stream {key} has the hash {found:016x} and not {expected:016x}, though each of its pieces is whole"
                )));
            }
        } else {
            hash.update(value);
        }
        *counted += 1;
        Ok(())
    }
}

impl BufRead for StreamReader {
    /// What is left of the piece that the next byte lies in, without a copy; nothing at the end.
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.position >= self.header.bytes {
            return Ok(&[]);
        }
        let (number, within) = self.header.locate(self.position);
        let piece = self.read_piece(number)?;
        Ok(&piece[within..])
    }

    fn consume(&mut self, bytes: usize) {
        self.position += bytes as u64;
    }
}

impl Read for StreamReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let taken = self.fill_buf()?.read(buffer)?;
        self.consume(taken);
        Ok(taken)
    }
}

impl Seek for StreamReader {
    /// Goes to a place, which may lie behind the end: there is nothing to be read there.
    ///
    /// # Errors
    /// The kind `InvalidInput` if the place lies before the first byte; it stays where it was.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let place = match to {
            SeekFrom::Start(place) => Some(place),
            SeekFrom::End(by) => self.header.bytes.checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = place.ok_or_else(|| {
            let what = "a place before the first byte of a stream, or beyond 2^64";
            io::Error::new(io::ErrorKind::InvalidInput, what)
        })?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Database, Durability, OpenOptions};

    /// Goal: a stream that is replaced or deleted while its reader is being made is not read without its pieces. Method: it is, right before the reader says that it reads it.
    #[test]
    fn a_stream_that_goes_meanwhile_is_not_read() {
        let directory = tempfile::tempdir().expect("a directory");
        let options = OpenOptions::new().size_bytes(16 << 20);
        let database = Database::open(&directory.path().join("database"), &options);
        let streams = database.expect("it opens").streams("").expect("streams");
        let put = |byte: u8| {
            let source = io::repeat(byte).take(3 << 20);
            let stored = streams.put_from(b"key", source, Durability::Relaxed);
            stored.expect("a put");
        };
        put(0);
        let mut replaced = 0;
        let reader = StreamReader::new_with(&streams, b"key", || {
            if replaced < 3 {
                replaced += 1;
                put(replaced);
            }
        });
        let mut value = Vec::new();
        let mut reader = reader.expect("a reader").expect("it is there");
        reader.read_to_end(&mut value).expect("it is whole");
        assert!(value == vec![3; 3 << 20]);
        drop(reader);
        let reader = StreamReader::new_with(&streams, b"key", || {
            let deleted = streams.delete(b"key", Durability::Relaxed);
            assert_eq!(deleted, Ok(true));
        });
        assert!(reader.expect("no error").is_none());
    }
}
