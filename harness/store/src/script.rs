//! What clients do, drawn before the clock runs: lists of operations, the form of keys, the bytes of values.
//!
//! Who draws is the harness; who plays is its own load or a process that holds another engine. A script is handed to such a
//! process whole ([`Script::encode`]), so that there is one generator and not two that agree.

use std::io::{self, Read};

/// What is done to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Action {
    /// Sets it.
    Put,
    /// Sets a key that was never set before.
    Insert,
    /// Removes it.
    Delete,
    /// Reads it.
    Get,
    /// Reads from it upwards.
    Scan,
    /// Reads it, then sets it.
    ReadModifyWrite,
}

impl Action {
    /// All of them, in the order of their numbers.
    pub const ALL: [Action; 6] = [
        Action::Put,
        Action::Insert,
        Action::Delete,
        Action::Get,
        Action::Scan,
        Action::ReadModifyWrite,
    ];

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Action::Put => "put",
            Action::Insert => "insert",
            Action::Delete => "delete",
            Action::Get => "get",
            Action::Scan => "scan",
            Action::ReadModifyWrite => "read modify write",
        }
    }
}

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// What is done.
    pub action: Action,
    /// The number of the key; for `latest`, how far behind the newest.
    pub key: u32,
    /// Entries of a scan.
    pub entries: u16,
}

/// Keys of a fixed length, made without allocation.
#[derive(Debug, Clone)]
pub struct Key {
    bytes: Vec<u8>,
}

impl Key {
    /// Keys of so many bytes: `k` and a number, padded with zeroes.
    #[must_use]
    pub fn new(key_bytes: u32) -> Key {
        let mut bytes = vec![b'0'; key_bytes as usize];
        bytes[0] = b'k';
        Key { bytes }
    }

    /// The key of this number.
    #[must_use]
    pub fn of(&mut self, mut number: u64) -> &[u8] {
        for digit in self.bytes[1..].iter_mut().rev() {
            *digit = b'0' + u8::try_from(number % 10).expect("a digit");
            number /= 10;
        }
        &self.bytes
    }
}

/// Values: pieces of a pool of bytes, each from another place, their lengths in turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values {
    pool: Vec<u8>,
    lengths: Vec<u32>,
}

impl Values {
    /// Values cut from `pool`, which is longer than the longest of `lengths`.
    ///
    /// # Panics
    /// If there is no length, or the pool is too short.
    #[must_use]
    pub fn cut(pool: Vec<u8>, lengths: Vec<u32>) -> Values {
        let longest = lengths.iter().max().copied().expect("at least one length");
        assert!(
            pool.len() > longest as usize,
            "a pool shorter than its values"
        );
        Values { pool, lengths }
    }

    /// The `n`th value.
    #[must_use]
    pub fn nth(&self, n: u64) -> &[u8] {
        let n = usize::try_from(n % (1 << 32)).expect("below 2^32");
        let len = self.lengths[n % self.lengths.len()] as usize;
        let start = n.wrapping_mul(1_048_583) % (self.pool.len() - len);
        &self.pool[start..start + len]
    }

    /// The mean length.
    #[must_use]
    pub fn mean_bytes(&self) -> u64 {
        let sum: u64 = self.lengths.iter().map(|len| u64::from(*len)).sum();
        sum / self.lengths.len() as u64
    }
}

/// What the clients of a benchmark do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Length of a key.
    pub key_bytes: u32,
    /// Records that are there before the clients begin: keys 0 to `preload` − 1, the `n`th with the `n`th value.
    pub preload: u64,
    /// The first key that is nobody's yet: inserts begin here.
    pub next_key: u64,
    /// Keys are counted backwards from the newest.
    pub from_latest: bool,
    /// A list for each client, gone through over and over.
    pub lists: Vec<Vec<Operation>>,
    /// What is written.
    pub values: Values,
}

impl Script {
    /// The value of a client's `nth` write.
    #[must_use]
    pub fn value(&self, client: u64, nth: u64) -> &[u8] {
        self.values.nth(nth * 7919 + client)
    }

    /// The script as bytes, for a process that plays it. All little-endian.
    ///
    /// | offset | bytes | what |
    /// | --- | --- | --- |
    /// | 0 | 8 | `kvscript` |
    /// | 8 | 4 | version, 1 |
    /// | 12 | 4 | length of a key |
    /// | 16 | 8 | `preload` |
    /// | 24 | 8 | `next_key` |
    /// | 32 | 4 | 1: keys are counted from the newest |
    /// | 36 | 4 | clients, `c` |
    /// | 40 | 4 | operations of each client, `o` |
    /// | 44 | 4 | lengths of values, `l` |
    /// | 48 | 8 | length of the pool, `p` |
    /// | 56 | 8 × c × o | operations: key (4), entries (2), number of the action (1), 0 (1) |
    /// | … | 4 × l | lengths |
    /// | … | p | the pool |
    ///
    /// # Panics
    /// If the lists are not of one length.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let operations = self.lists.first().map_or(0, Vec::len);
        let alike = self.lists.iter().all(|list| list.len() == operations);
        assert!(alike, "lists of different lengths");
        let body = 8 * operations * self.lists.len() + 4 * self.values.lengths.len();
        let mut bytes = Vec::with_capacity(56 + body + self.values.pool.len());
        let short = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
        bytes.extend(b"kvscript");
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend(self.key_bytes.to_le_bytes());
        bytes.extend(self.preload.to_le_bytes());
        bytes.extend(self.next_key.to_le_bytes());
        bytes.extend(u32::from(self.from_latest).to_le_bytes());
        bytes.extend(short(self.lists.len()));
        bytes.extend(short(operations));
        bytes.extend(short(self.values.lengths.len()));
        bytes.extend((self.values.pool.len() as u64).to_le_bytes());
        for operation in self.lists.iter().flatten() {
            bytes.extend(operation.key.to_le_bytes());
            bytes.extend(operation.entries.to_le_bytes());
            bytes.extend([operation.action as u8, 0]);
        }
        for length in &self.values.lengths {
            bytes.extend(length.to_le_bytes());
        }
        bytes.extend(&self.values.pool);
        bytes
    }

    /// Reads what [`Script::encode`] made.
    ///
    /// # Errors
    /// The input ends, or it is no script of this version.
    pub fn decode(from: &mut dyn Read) -> io::Result<Script> {
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let mut header = [0; 56];
        from.read_exact(&mut header)?;
        let short = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes"));
        let long = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("8 bytes"));
        let size =
            |number: u64| usize::try_from(number).map_err(|_| wrong("a script that is too large"));
        if &header[..8] != b"kvscript" || short(8) != 1 {
            return Err(wrong("this is no script of version 1"));
        }
        let mut bytes = |len: u64| -> io::Result<Vec<u8>> {
            // What is stated is not believed before it has come.
            let mut bytes = Vec::new();
            from.take(len).read_to_end(&mut bytes)?;
            if bytes.len() == size(len)? {
                Ok(bytes)
            } else {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
        };
        let mut lists = Vec::new();
        for _ in 0..short(36) {
            let list = bytes(8 * u64::from(short(40)))?;
            let operations = list.chunks_exact(8).map(operation);
            let operations: Option<Vec<Operation>> = operations.collect();
            lists.push(operations.ok_or_else(|| wrong("a script with an unknown action"))?);
        }
        let lengths = bytes(4 * u64::from(short(44)))?;
        let lengths = lengths.chunks_exact(4);
        let lengths: Vec<u32> = lengths
            .map(|one| u32::from_le_bytes(one.try_into().expect("4 bytes")))
            .collect();
        let pool = bytes(long(48))?;
        let longest = lengths.iter().max();
        if short(12) == 0 || longest.is_none_or(|longest| pool.len() <= *longest as usize) {
            return Err(wrong("a script without keys or values"));
        }
        Ok(Script {
            key_bytes: short(12),
            preload: long(16),
            next_key: long(24),
            from_latest: short(32) == 1,
            lists,
            values: Values::cut(pool, lengths),
        })
    }
}

fn operation(bytes: &[u8]) -> Option<Operation> {
    let action = Action::ALL.into_iter().find(|it| *it as u8 == bytes[6])?;
    Some(Operation {
        action,
        key: u32::from_le_bytes(bytes[..4].try_into().ok()?),
        entries: u16::from_le_bytes(bytes[4..6].try_into().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: who plays a script has the one that was drawn. Method: there and back; cut short anywhere, and with an action that is none, it is refused.
    #[test]
    fn a_script_is_read_as_it_was_written() {
        let operation = |n: u32| Operation {
            action: Action::ALL[n as usize % 6],
            key: n * 1_000_003,
            entries: 7,
        };
        let script = Script {
            key_bytes: 20,
            preload: 1 << 40,
            next_key: 3,
            from_latest: true,
            lists: vec![
                (0..6).map(operation).collect(),
                (6..12).map(operation).collect(),
            ],
            values: Values::cut((0..=99).collect(), vec![3, 99, 0]),
        };
        let bytes = script.encode();
        let read = |mut bytes: &[u8]| Script::decode(&mut bytes);
        assert_eq!(read(&bytes).expect("a script"), script);
        for len in 0..bytes.len() {
            assert!(read(&bytes[..len]).is_err(), "{len}");
        }
        let mut wrong = bytes.clone();
        wrong[56 + 6] = 6;
        assert!(read(&wrong).is_err());
        wrong.clone_from(&bytes);
        wrong[48] = 99;
        assert!(read(&wrong).is_err(), "a pool as short as a value");
    }
}
