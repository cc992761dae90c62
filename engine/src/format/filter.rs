//! The filter of a run: one piece of a segment, checked by the reference to it in the list of partitions. It says of most keys that the run does not have them
//! (`checkpoint/leaves.rs`), and what the entries of the run weigh.
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 4 | magic `KVFL` |
//! | 4 | 2 | format version |
//! | 6 | 2 | zero |
//! | 8 | 16 | database id |
//! | 24 | 8 | device offset of this filter |
//! | 32 | 8 | entries of the run |
//! | 40 | 8 | keys among them that are not deleted |
//! | 48 | 8 | bytes of pages that these take at most, see `pages_of` in `index/entry.rs` |
//! | 56 | | words of 8 bytes, as many as the filter of so many entries has; then zeroes up to whole blocks |

use super::page::PageRef;
use super::{VERSION, get_u16, get_u32, get_u64, len32, put_u16, put_u32, put_u64, to_usize};
use crate::format::checksum::{Identity, Kind};
use crate::format::damage::Mismatch;

const MAGIC: usize = 0;
const FORMAT_VERSION: usize = MAGIC + 4;
const ZERO: usize = FORMAT_VERSION + 2;
const DB_ID: usize = ZERO + 2;
const OFFSET: usize = DB_ID + 16;
const ENTRIES: usize = OFFSET + 8;
const KEYS: usize = ENTRIES + 8;
const PAGES_BYTES: usize = KEYS + 8;
const HEADER_BYTES: usize = PAGES_BYTES + 8;
const WORD_BYTES: usize = 8;

const MAGIC_VALUE: u32 = u32::from_le_bytes(*b"KVFL");
/// No run weighs more.
const PAGES_BYTES_MAX: u64 = 1 << 60;
/// No entry of a leaf takes less.
const ENTRY_BYTES_MIN: u64 = 3;

/// A key is noted in one block of so many words, which is one cache line.
pub(crate) const BLOCK_WORDS: usize = 8;
/// Bits for every two keys: one key in 400 passes that is not there.
const BITS_PER_TWO_KEYS: u64 = 25;

/// How many words the filter of so many keys has.
pub(crate) fn words_of(keys: u64) -> u64 {
    let bits = keys * BITS_PER_TWO_KEYS / 2;
    let words = BLOCK_WORDS as u64;
    bits.div_ceil(words * 64).max(1) * words
}

/// What a filter says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Filter<W> {
    /// How many entries the run has.
    pub(crate) entries: u64,
    /// How many of them are not deletions.
    pub(crate) keys: u64,
    pub(crate) pages_bytes: u64,
    pub(crate) words: W,
}

/// How many bytes the filter of so many entries takes.
pub(crate) fn bytes_of(entries: u64, block_bytes: u64) -> u64 {
    super::round_up(
        HEADER_BYTES as u64 + words_of(entries) * WORD_BYTES as u64,
        block_bytes,
    )
}

impl Filter<&[u64]> {
    /// The bytes of a filter for its place, and the reference to it.
    pub(crate) fn encode(
        &self,
        id: &Identity,
        offset: u64,
        block_bytes: u64,
    ) -> (Vec<u8>, PageRef) {
        let mut bytes = vec![0; to_usize(bytes_of(self.entries, block_bytes))];
        put_u32(&mut bytes, MAGIC, MAGIC_VALUE);
        put_u16(&mut bytes, FORMAT_VERSION, VERSION);
        put_u16(&mut bytes, ZERO, 0);
        bytes[DB_ID..DB_ID + 16].copy_from_slice(&id.db_id);
        put_u64(&mut bytes, OFFSET, offset);
        put_u64(&mut bytes, ENTRIES, self.entries);
        put_u64(&mut bytes, KEYS, self.keys);
        put_u64(&mut bytes, PAGES_BYTES, self.pages_bytes);
        let places = bytes[HEADER_BYTES..].chunks_exact_mut(WORD_BYTES);
        for (word, place) in self.words.iter().zip(places) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let reference = PageRef {
            offset,
            len: len32(bytes.len()),
            checksum: id.checksum(Kind::Page, 0, offset, &bytes),
        };
        (bytes, reference)
    }
}

impl Filter<Box<[u64]>> {
    /// The filter of a run of so many bytes. Takes any bytes.
    pub(crate) fn decode(
        id: &Identity,
        reference: &PageRef,
        run_bytes: u64,
        bytes: &[u8],
    ) -> Result<Filter<Box<[u64]>>, Mismatch> {
        Mismatch::check(
            "filter length",
            u64::from(reference.len),
            bytes.len() as u64,
        )?;
        let found = id.checksum(Kind::Page, 0, reference.offset, bytes);
        Mismatch::check("filter checksum", reference.checksum, found)?;
        let body = bytes.get(HEADER_BYTES..).ok_or(Mismatch {
            what: "filter length",
            expected: HEADER_BYTES as u64,
            found: bytes.len() as u64,
        })?;
        let number = |at| u64::from(get_u32(bytes, at));
        Mismatch::check("filter magic", MAGIC_VALUE.into(), number(MAGIC))?;
        let version = get_u16(bytes, FORMAT_VERSION).into();
        Mismatch::check("filter version", VERSION.into(), version)?;
        for half in [0, 8] {
            let expected = get_u64(&id.db_id, half);
            Mismatch::check("filter database", expected, get_u64(bytes, DB_ID + half))?;
        }
        Mismatch::check("filter position", reference.offset, get_u64(bytes, OFFSET))?;
        let filter = Filter {
            entries: get_u64(bytes, ENTRIES),
            keys: get_u64(bytes, KEYS),
            pages_bytes: get_u64(bytes, PAGES_BYTES),
            words: Box::default(),
        };
        let entries_max = run_bytes / ENTRY_BYTES_MIN;
        let is_right = (1..=entries_max).contains(&filter.entries)
            && filter.keys <= filter.entries
            && filter.pages_bytes <= PAGES_BYTES_MAX;
        if !is_right {
            return Err(Mismatch {
                what: "entries of a filter's run",
                expected: entries_max,
                found: filter.entries,
            });
        }
        let words = words_of(filter.entries);
        let (all, _) = body.as_chunks::<WORD_BYTES>();
        let all = usize::try_from(words)
            .ok()
            .and_then(|words| all.get(..words));
        let all = all.ok_or(Mismatch {
            what: "words of a filter",
            expected: words,
            found: (body.len() / WORD_BYTES) as u64,
        })?;
        Ok(Filter {
            words: all.iter().map(|word| u64::from_le_bytes(*word)).collect(),
            ..filter
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: [u8; 16] = [7; 16];

    fn encoded(entries: u64) -> (Vec<u64>, Vec<u8>, PageRef) {
        let words: Vec<u64> = (0..words_of(entries)).map(|n| n * n).collect();
        let filter = Filter {
            entries,
            keys: entries - 1,
            pages_bytes: 100 * entries,
            words: &words[..],
        };
        let (bytes, reference) = filter.encode(&Identity::new(ID), 1 << 20, 512);
        assert_eq!(bytes.len() as u64, bytes_of(entries, 512));
        (words, bytes, reference)
    }

    fn decode(reference: &PageRef, run: u64, bytes: &[u8]) -> Result<Filter<Box<[u64]>>, Mismatch> {
        Filter::decode(&Identity::new(ID), reference, run, bytes)
    }

    /// Goal: a filter comes back as it was. Method: filters of one key, of as many as fill a block, and of many.
    #[test]
    fn a_filter_comes_back() {
        for entries in [1, 2, 40, 41, 5_000, 100_000] {
            let (words, bytes, reference) = encoded(entries);
            let filter = decode(&reference, entries * 3, &bytes).expect("is right");
            assert_eq!((filter.entries, filter.keys), (entries, entries - 1));
            assert_eq!(filter.pages_bytes, 100 * entries);
            assert_eq!(&filter.words[..], words);
        }
    }

    /// Goal: nothing else is taken, whether its checksum is right or not. Method: every byte of a small one changed, other lengths, and numbers that no run has under a right checksum.
    #[test]
    fn anything_else_is_refused() {
        let (_, bytes, reference) = encoded(100);
        assert!(decode(&reference, 300, &bytes).is_ok());
        assert!(decode(&reference, 299, &bytes).is_err(), "too many entries");
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert!(decode(&reference, 300, &other).is_err(), "byte {at}");
        }
        let sealed = |bytes: &[u8]| PageRef {
            len: len32(bytes.len()),
            checksum: Identity::new(ID).checksum(Kind::Page, 0, reference.offset, bytes),
            ..reference
        };
        for len in [0, 1, 55, 56, 64, 160] {
            let short = &bytes[..len];
            assert!(decode(&reference, 300, short).is_err());
            assert!(decode(&sealed(short), 300, short).is_err(), "{len} bytes");
        }
        let numbers = [
            (MAGIC, 1),
            (DB_ID, 1),
            (DB_ID + 8, 1),
            (OFFSET, 1),
            (ENTRIES, 0),
            (ENTRIES, 5_000),
            (ENTRIES, u64::MAX),
            (KEYS, 101),
            (PAGES_BYTES, u64::MAX),
        ];
        for (field, number) in numbers {
            let mut other = bytes.clone();
            put_u64(&mut other, field, number);
            assert!(
                decode(&sealed(&other), u64::MAX, &other).is_err(),
                "{number} at {field}"
            );
        }
    }
}
