//! The log's format. A record is a header and a body, and fills whole blocks:
//!
//! | offset | size | what |
//! | --- | --- | --- |
//! | 0 | 4 | magic |
//! | 4 | 4 | kind |
//! | 8 | 8 | generation of the log |
//! | 16 | 8 | sequence number within the log, from 0 |
//! | 24 | 4 | length of the body |
//! | 28 | 4 | number of mutations |
//! | 32 | 8 | checksum of the body |
//! | 40 | 8 | checksum of the above, begun with the record's place on the device |
//! | 48 | … | the body: for each mutation kind (0 put, 1 delete), length of key and of value, key, value |

use super::request::{Mutation, Mutations};

pub(crate) const HEADER_BYTES: usize = 48;
const MAGIC: u32 = u32::from_le_bytes(*b"NAIV");

/// What a record is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Part of the state with which a log begins. Counts only if a switch follows.
    Image,
    /// From here on this log counts, and the one before it no more.
    Switch,
    /// A commit.
    Commit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) generation: u64,
    pub(crate) sequence: u64,
    pub(crate) body_len: usize,
    pub(crate) count: usize,
    body_checksum: u64,
}

/// FNV-1a.
fn checksum(start: u64, bytes: &[u8]) -> u64 {
    let begin = 0xcbf2_9ce4_8422_2325 ^ start;
    bytes.iter().fold(begin, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Header {
    /// The header at `offset` of the device, if there is one.
    pub(crate) fn parse(offset: u64, bytes: &[u8]) -> Option<Header> {
        let u32_at = |at: usize| {
            bytes
                .get(at..at + 4)
                .map(|part| u32::from_le_bytes(part.try_into().unwrap()))
        };
        let u64_at = |at: usize| {
            bytes
                .get(at..at + 8)
                .map(|part| u64::from_le_bytes(part.try_into().unwrap()))
        };
        if u32_at(0)? != MAGIC || u64_at(40)? != checksum(offset, &bytes[..40]) {
            return None;
        }
        Some(Header {
            kind: match u32_at(4)? {
                0 => Kind::Image,
                1 => Kind::Switch,
                2 => Kind::Commit,
                _ => return None,
            },
            generation: u64_at(8)?,
            sequence: u64_at(16)?,
            body_len: u32_at(24)? as usize,
            count: u32_at(28)? as usize,
            body_checksum: u64_at(32)?,
        })
    }

    pub(crate) fn is_whole(&self, body: &[u8]) -> bool {
        checksum(0, body) == self.body_checksum
    }
}

/// The bytes of a whole record, which is to stand at `offset`.
pub(crate) fn encode(
    offset: u64,
    kind: Kind,
    generation: u64,
    sequence: u64,
    body: &Body,
    block_bytes: u64,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(padded(body.bytes.len(), block_bytes) as usize);
    bytes.extend_from_slice(&MAGIC.to_le_bytes());
    bytes.extend_from_slice(&(kind as u32).to_le_bytes());
    bytes.extend_from_slice(&generation.to_le_bytes());
    bytes.extend_from_slice(&sequence.to_le_bytes());
    bytes.extend_from_slice(&len(body.bytes.len()));
    bytes.extend_from_slice(&len(body.count));
    bytes.extend_from_slice(&checksum(0, &body.bytes).to_le_bytes());
    bytes.extend_from_slice(&checksum(offset, &bytes).to_le_bytes());
    bytes.extend_from_slice(&body.bytes);
    bytes.resize(padded(body.bytes.len(), block_bytes) as usize, 0);
    bytes
}

/// What a record with a body of this length takes up.
pub(crate) fn padded(body_len: usize, block_bytes: u64) -> u64 {
    ((HEADER_BYTES + body_len) as u64).next_multiple_of(block_bytes)
}

fn len(len: usize) -> [u8; 4] {
    u32::try_from(len)
        .expect("a request is shorter than 4 GiB")
        .to_le_bytes()
}

/// The mutations of a record.
#[derive(Debug, Default)]
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    count: usize,
}

impl Body {
    pub(crate) fn of(mutations: &[Mutation]) -> Body {
        let mut body = Body::default();
        for mutation in mutations {
            body.push(&mutation.key, mutation.value.as_deref());
        }
        body
    }

    pub(crate) fn push(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.bytes.push(u8::from(value.is_none()));
        self.bytes.extend_from_slice(&len(key.len()));
        self.bytes
            .extend_from_slice(&len(value.map_or(0, <[u8]>::len)));
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.count += 1;
    }

    /// The mutations in a body that was read, if it is well formed. It has the form of a batch's payload.
    pub(crate) fn parse(bytes: &[u8], count: usize) -> Option<Vec<Mutation>> {
        Mutations::parse(bytes, count)
    }
}

/// What an entry takes up in a body.
pub(crate) fn entry_bytes(key: &[u8], value: &[u8]) -> u64 {
    (9 + key.len() + value.len()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Vec<Mutation>, Vec<u8>) {
        let put = Mutation {
            key: b"key".to_vec(),
            value: Some(vec![7; 600].into()),
        };
        let delete = Mutation {
            key: b"gone".to_vec(),
            value: None,
        };
        let mutations = vec![put, delete];
        let bytes = encode(8192, Kind::Commit, 3, 9, &Body::of(&mutations), 512);
        (mutations, bytes)
    }

    /// Goal: what is written is read. Method: one record of both kinds of mutations, over two blocks.
    #[test]
    fn a_record_reads_back() {
        let (mutations, bytes) = sample();
        assert_eq!(bytes.len(), 1024);
        let header = Header::parse(8192, &bytes).unwrap();
        assert_eq!(
            (header.kind, header.generation, header.sequence),
            (Kind::Commit, 3, 9)
        );
        let body = &bytes[HEADER_BYTES..HEADER_BYTES + header.body_len];
        assert!(header.is_whole(body));
        assert_eq!(Body::parse(body, header.count), Some(mutations));
    }

    /// Goal: a damaged, displaced or missing record is none. Method: every byte changed in turn, another place, zeros.
    #[test]
    fn damage_and_displacement_are_seen() {
        let (_, bytes) = sample();
        let used = HEADER_BYTES + Header::parse(8192, &bytes).unwrap().body_len;
        for at in 0..used {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            let whole = Header::parse(8192, &bad)
                .is_some_and(|header| header.is_whole(&bad[HEADER_BYTES..used]));
            assert!(!whole, "byte {at}");
        }
        assert_eq!(Header::parse(4096, &bytes), None);
        assert_eq!(Header::parse(0, &[0; 512]), None);
        assert_eq!(Header::parse(8192, &bytes[..30]), None);
    }
}
