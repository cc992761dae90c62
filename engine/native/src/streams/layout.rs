//! How streams lie in a database: their keys and their headers.
//!
//! Behind the prefix, one byte says what an entry is:
//!
//! | key behind the prefix | value |
//! | --- | --- |
//! | 0, then the key of the stream | its header |
//! | 1, then an id and the number of a piece, 8 bytes each | the piece |
//! | 2, then an id | nothing: the pieces of this id are to be removed |
//! | 3 | 8 bytes: every id that was ever used is below this number |
//!
//! Numbers in keys are big-endian, so that the pieces of a stream lie side by side and in order. A header has 40 bytes, with numbers that are little-endian:
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 3 | `kvs` |
//! | 3 | 1 | version: 1 |
//! | 4 | 4 | bytes of a piece; the last one has what is left |
//! | 8 | 8 | id |
//! | 16 | 8 | bytes of the stream |
//! | 24 | 8 | XXH3 of the stream |
//! | 32 | 8 | XXH3 of the 32 bytes before |

use std::ops::Range;

use kvsim_engine::Status;
use xxhash_rust::xxh3::xxh3_64;

use crate::api::error::Failure;
use crate::api::key_range::KeyRange;

/// What a key of the engine has at most.
const ENGINE_KEY_BYTES_MAX: usize = 1024;
/// The keys of pieces have room behind the longest prefix, and so have keys of streams.
pub(super) const PREFIX_BYTES_MAX: usize = 512;
/// Bytes of a piece, least and most: powers of two.
pub(super) const PIECE_BYTES_MIN: u32 = 4 << 10;
pub(super) const PIECE_BYTES_MAX: u32 = 4 << 20;

const HEADER: u8 = 0;
const PIECE: u8 = 1;
const REMOVAL: u8 = 2;
const ID_BOUND: u8 = 3;

const MAGIC: &[u8; 3] = b"kvs";
const VERSION: u8 = 1;
const CHECKED_BYTES: usize = 32;
const HEADER_BYTES: usize = 40;

/// What the medium or somebody else has made of an entry.
pub(super) fn damaged(message: String) -> Failure {
    Failure {
        status: Status::Corruption,
        message,
    }
}

pub(super) fn invalid(message: String) -> Failure {
    Failure {
        status: Status::Invalid,
        message,
    }
}

/// A key in a message.
pub(super) fn shown(key: &[u8]) -> String {
    format!("`{}`", key.escape_ascii())
}

/// Where the streams of one prefix lie.
#[derive(Debug)]
pub(super) struct Layout {
    prefix: Box<[u8]>,
}

impl Layout {
    pub(super) fn new(prefix: &[u8]) -> Result<Layout, Failure> {
        match prefix.len() {
            0..=PREFIX_BYTES_MAX => Ok(Layout {
                prefix: prefix.into(),
            }),
            bytes => Err(invalid(format!(
                "a prefix of {bytes} bytes: the prefix of streams has at most {PREFIX_BYTES_MAX} bytes"
            ))),
        }
    }

    pub(super) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    fn key(&self, kind: u8, rest: &[u8]) -> Vec<u8> {
        [&*self.prefix, &[kind], rest].concat()
    }

    /// Where the header of a stream lies, if it can have this key.
    pub(super) fn header(&self, key: &[u8]) -> Result<Vec<u8>, Failure> {
        let max = ENGINE_KEY_BYTES_MAX - self.prefix.len() - 1;
        match key.len() {
            bytes if (1..=max).contains(&bytes) => Ok(self.key(HEADER, key)),
            bytes => Err(invalid(format!(
                "a key of {bytes} bytes: the keys of streams with this prefix are 1..={max} bytes"
            ))),
        }
    }

    /// Where the headers of these streams lie.
    pub(super) fn headers(&self, range: &impl KeyRange) -> Range<Vec<u8>> {
        let start = self.key(HEADER, &range.start().unwrap_or_default());
        let end = range.end().map(|end| self.key(HEADER, &end));
        start..end.unwrap_or_else(|| self.key(PIECE, &[]))
    }

    /// The key of the stream whose header lies there.
    pub(super) fn stream_of<'a>(&self, header: &'a [u8]) -> &'a [u8] {
        &header[self.prefix.len() + 1..]
    }

    /// What the keys of all pieces of an id begin with.
    pub(super) fn pieces(&self, id: u64) -> Vec<u8> {
        self.key(PIECE, &id.to_be_bytes())
    }

    pub(super) fn piece(&self, id: u64, number: u64) -> Vec<u8> {
        [self.pieces(id), number.to_be_bytes().to_vec()].concat()
    }

    /// What the keys of all removals begin with.
    pub(super) fn removals(&self) -> Vec<u8> {
        self.key(REMOVAL, &[])
    }

    pub(super) fn removal(&self, id: u64) -> Vec<u8> {
        self.key(REMOVAL, &id.to_be_bytes())
    }

    /// The id whose pieces are to be removed by the entry of this key.
    pub(super) fn id_of_removal(&self, key: &[u8]) -> Result<u64, Failure> {
        let rest = key[self.prefix.len() + 1..].try_into();
        rest.map(u64::from_be_bytes).map_err(|_| {
            let key = shown(key);
            damaged(format!("the entry {key} is none of these streams: has another program written keys with their prefix?"))
        })
    }

    pub(super) fn id_bound(&self) -> Vec<u8> {
        self.key(ID_BOUND, &[])
    }
}

/// What nobody reaches who uses each id once.
const ID_BOUND_MAX: u64 = 1 << 62;

/// The number below which every id that was ever used is, as it is stored.
pub(super) fn parse_id_bound(key: &[u8], value: &[u8]) -> Result<u64, Failure> {
    let bound = value.try_into().map(u64::from_le_bytes);
    bound.ok().filter(|it| *it <= ID_BOUND_MAX).ok_or_else(|| {
        let (key, value) = (shown(key), shown(value));
        damaged(format!("the entry {key} holds {value}, which is no bound of ids: has another program written keys with the prefix of streams?"))
    })
}

/// What is known of a stream without its pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) piece_bytes: u32,
    pub(super) id: u64,
    pub(super) bytes: u64,
    pub(super) hash: u64,
}

pub(super) fn is_piece_bytes(bytes: u32) -> bool {
    bytes.is_power_of_two() && (PIECE_BYTES_MIN..=PIECE_BYTES_MAX).contains(&bytes)
}

impl Header {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.extend_from_slice(MAGIC);
        out.push(VERSION);
        out.extend_from_slice(&self.piece_bytes.to_le_bytes());
        for number in [self.id, self.bytes, self.hash] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&xxh3_64(&out).to_le_bytes());
        out
    }

    /// The header of the stream of this key.
    pub(super) fn parse(key: &[u8], header: &[u8]) -> Result<Header, Failure> {
        let is_ours = header.starts_with(MAGIC);
        if is_ours && header.get(MAGIC.len()).is_some_and(|it| *it != VERSION) {
            let (key, version) = (shown(key), header[MAGIC.len()]);
            return Err(invalid(format!(
                "the stream {key} has a header of version {version}, and this library reads version {VERSION}: read it with the library that wrote it"
            )));
        }
        let number = |at: usize| {
            let bytes = header.get(at..at + 8)?.try_into();
            bytes.map(u64::from_le_bytes).ok()
        };
        let is_whole = is_ours
            && header.len() == HEADER_BYTES
            && number(CHECKED_BYTES) == Some(xxh3_64(&header[..CHECKED_BYTES]));
        let parsed = || {
            let piece_bytes = header.get(4..8)?.try_into().map(u32::from_le_bytes).ok()?;
            let parsed = Header {
                piece_bytes,
                id: number(8)?,
                bytes: number(16)?,
                hash: number(24)?,
            };
            let is_empty_right = parsed.bytes > 0 || parsed.hash == xxh3_64(&[]);
            (is_piece_bytes(piece_bytes) && is_empty_right).then_some(parsed)
        };
        is_whole.then(parsed).flatten().ok_or_else(|| {
            let key = shown(key);
            damaged(format!(
                "the header of the stream {key} is damaged: delete its entry with `Database::delete`, and write the stream again"
            ))
        })
    }

    pub(super) fn pieces(&self) -> u64 {
        self.bytes.div_ceil(self.piece_bytes.into())
    }

    /// Which piece has the byte at this offset, and where in it.
    pub(super) fn locate(&self, offset: u64) -> (u64, usize) {
        let bytes = u64::from(self.piece_bytes);
        let within = usize::try_from(offset % bytes).expect("a piece is below 4 GiB");
        (offset / bytes, within)
    }

    /// Bytes of a piece.
    pub(super) fn bytes_of(&self, piece: u64) -> usize {
        let piece_bytes = u64::from(self.piece_bytes);
        let left = self.bytes - piece * piece_bytes;
        usize::try_from(left.min(piece_bytes)).expect("a piece is below 4 GiB")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a header comes back as it was, and no other bytes are taken for one. Method: headers at the bounds, then each byte changed, missing or one too many.
    #[test]
    fn a_header_comes_back_or_is_refused() {
        let hash = xxh3_64(&[]);
        for bytes in [0, 1, 4096, u64::MAX] {
            for piece_bytes in [PIECE_BYTES_MIN, PIECE_BYTES_MAX] {
                let id = u64::MAX - bytes;
                let header = Header {
                    piece_bytes,
                    id,
                    bytes,
                    hash,
                };
                let mut encoded = header.encode();
                assert_eq!(encoded.len(), HEADER_BYTES);
                assert_eq!(Header::parse(b"key", &encoded), Ok(header));
                let refused = |header: &[u8]| Header::parse(b"key", header).expect_err("refused");
                for at in 0..HEADER_BYTES {
                    encoded[at] ^= 1;
                    let failure = refused(&encoded);
                    let expected = match at {
                        3 => Status::Invalid,
                        _ => Status::Corruption,
                    };
                    assert_eq!(failure.status, expected, "{at}: {failure}");
                    assert!(failure.message.contains("`key`"), "{failure}");
                    encoded[at] ^= 1;
                    assert_eq!(refused(&encoded[..at]).status, Status::Corruption);
                }
                encoded.push(0);
                assert_eq!(refused(&encoded).status, Status::Corruption);
            }
        }
        for (piece_bytes, bytes, hash) in [(12_288, 9, hash), (2_048, 9, hash), (4_096, 0, 7)] {
            let id = 1;
            let header = Header {
                piece_bytes,
                id,
                bytes,
                hash,
            };
            assert!(Header::parse(b"key", &header.encode()).is_err());
        }
    }

    /// Goal: entries of one kind lie together, pieces in order, and a range of streams is a range of headers. Method: keys around bytes that carry.
    #[test]
    fn keys_lie_in_order() {
        let layout = Layout::new(b"p").expect("short");
        let header = |key: &[u8]| layout.header(key).expect("it can be one");
        let numbers = [0, 1, 255, 256, u64::MAX];
        let pieces: Vec<_> = numbers
            .iter()
            .flat_map(|id| numbers.map(|number| layout.piece(*id, number)))
            .collect();
        assert!(pieces.is_sorted());
        assert!(
            numbers
                .iter()
                .all(|id| layout.id_of_removal(&layout.removal(*id)) == Ok(*id))
        );
        assert!(layout.id_of_removal(b"p\x02abc").is_err());
        let all = layout.headers(&..);
        for key in [&[0][..], b"a", &[255; 1022]] {
            assert!(all.contains(&header(key)));
            assert_eq!(layout.stream_of(&header(key)), key);
        }
        assert!(!pieces.iter().any(|key| all.contains(key)));
        let some = layout.headers(&("b".."d"));
        assert!(some.contains(&header(b"b")) && !some.contains(&header(b"d")));
        assert!(layout.header(&[1; 1023]).is_err() && layout.header(&[]).is_err());
        assert!(Layout::new(&[1; PREFIX_BYTES_MAX + 1]).is_err());
    }
}
