//! Dumps: all keys and values as text, for people and for other programs.
//!
//! The first line is `kvsim dump 1`. Then each entry is a line: the key, a tab, the value. In both, a byte that is no printable ASCII character, and `\` too, is `\` and two
//! hexadecimal digits. The last line is `end`, a tab, the number of entries, a tab, and the XXH3 hash (64 bits, as 16 hexadecimal digits) of all bytes before it.

use std::io::{self, BufRead, Write};

use kvsim_engine::Durability;
use xxhash_rust::xxh3::Xxh3;

use super::Database;
use super::backup::{Progress, Puts};
use super::snapshot::Snapshot;
use crate::api::error::Failure;
use crate::api::key_range::KeyRange;

const FIRST: &str = "kvsim dump 1\n";

/// Why a dump was not written or not loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DumpError {
    /// The database cannot be read or written.
    #[error(transparent)]
    Database(#[from] Failure),
    /// The dump cannot be read or written.
    #[error("the dump: {0}")]
    Io(#[from] io::Error),
    /// It is no dump, or none of this version, or not whole.
    #[error("line {line} of the dump: {what}")]
    Malformed {
        /// Which line, from 1.
        line: u64,
        /// What is wrong with it.
        what: &'static str,
    },
}

impl Database {
    /// Writes all keys of a range and their values as text, as they are now. Says how much that was. The format is stable: the book has it.
    ///
    /// # Errors
    /// [`DumpError`].
    ///
    /// ```
    /// # use kvsim_native::{Database, Durability, OpenOptions};
    /// # let directory = tempfile::tempdir()?;
    /// # let database = OpenOptions::new().size_bytes(16 << 20).open(directory.path().join("a"))?;
    /// # let other = OpenOptions::new().size_bytes(16 << 20).open(directory.path().join("b"))?;
    /// database.put(b"key\n", b"a value", Durability::Relaxed)?;
    /// let mut text = Vec::new();
    /// database.dump(.., &mut text)?;
    /// assert!(text.starts_with(b"kvsim dump 1\nkey\\0a\ta value\nend\t1\t"));
    /// assert_eq!(other.load(&text[..])?.entries, 1);
    /// assert!(other.contains(b"key\n")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dump(&self, range: impl KeyRange, out: impl Write) -> Result<Progress, DumpError> {
        self.snapshot()?.dump(range, out)
    }

    /// Puts all entries of a dump, above what is there, and returns once they are durable. Says how much that was.
    ///
    /// # Errors
    /// [`DumpError`]. What came before the error may be there: that a dump is whole is seen at its end.
    pub fn load(&self, mut dump: impl BufRead) -> Result<Progress, DumpError> {
        let mut puts = Puts::new(self);
        let mut hash = Xxh3::new();
        let (mut line, mut number) = (Vec::new(), 0);
        loop {
            line.clear();
            number += 1;
            dump.read_until(b'\n', &mut line)?;
            let malformed = |what| DumpError::Malformed { line: number, what };
            let Some(text) = line.strip_suffix(b"\n") else {
                return Err(malformed("the dump ends before its end"));
            };
            if number == 1 {
                if line != FIRST.as_bytes() {
                    return Err(malformed("this is no dump of a version that is known"));
                }
            } else if let Some(end) = text.strip_prefix(b"end\t") {
                let expected = format!("{}\t{:016x}", puts.added.entries, hash.digest());
                // A key may be called `end`; a value with a tab in it is not written so.
                if end.contains(&b'\t') {
                    if end != expected.as_bytes() {
                        return Err(malformed("the dump is not what was written"));
                    }
                    break;
                }
            }
            hash.update(&line);
            if number == 1 {
                continue;
            }
            let mut parts = text.split(|byte| *byte == b'\t');
            let (key, value) = (
                parts.next().and_then(bytes_of),
                parts.next().and_then(bytes_of),
            );
            let (Some(key), Some(value), None) = (key, value, parts.next()) else {
                return Err(malformed("this is no entry"));
            };
            puts.add(&key, &value)?;
        }
        let loaded = puts.end()?;
        self.write(&[], Durability::Durable)?;
        Ok(loaded)
    }
}

impl Snapshot {
    /// Writes all keys of a range and their values as text, as they were: see [`Database::dump`].
    ///
    /// # Errors
    /// [`DumpError`].
    pub fn dump(&self, range: impl KeyRange, mut out: impl Write) -> Result<Progress, DumpError> {
        let mut dumped = Progress::default();
        let mut hash = Xxh3::new();
        let mut line = FIRST.as_bytes().to_vec();
        for entry in self.range(range) {
            hash.update(&line);
            out.write_all(&line)?;
            line.clear();
            let entry = entry?;
            text_of(&entry.key, &mut line);
            line.push(b'\t');
            text_of(&entry.value, &mut line);
            line.push(b'\n');
            dumped.add(&entry.key, &entry.value);
        }
        hash.update(&line);
        out.write_all(&line)?;
        writeln!(out, "end\t{}\t{:016x}", dumped.entries, hash.digest())?;
        out.flush()?;
        Ok(dumped)
    }
}

fn text_of(bytes: &[u8], text: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        match byte {
            b' '..=b'~' if *byte != b'\\' => text.push(*byte),
            _ => {
                let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
                text.extend([b'\\', DIGITS[high], DIGITS[low]]);
            }
        }
    }
}

/// The bytes of such a text, if it is one.
fn bytes_of(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: Option<&u8>| match byte? {
        byte @ b'0'..=b'9' => Some(byte - b'0'),
        byte @ b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut text = text.iter();
    while let Some(byte) = text.next() {
        bytes.push(match byte {
            b'\\' => digit(text.next())? << 4 | digit(text.next())?,
            b' '..=b'~' => *byte,
            _ => return None,
        });
    }
    Some(bytes)
}
