//! Values that describe themselves, so that a value found anywhere says whose it is and whether it is whole.
//!
//! A value of at least [`FULL_BYTES_MIN`] bytes (little-endian):
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 4 | magic |
//! | 4 | 4 | writer (the client) |
//! | 8 | 8 | write number, unique within a run |
//! | 16 | 8 | xxh3-64 of the key |
//! | 24 | 8 | length of the whole value |
//! | 32 | n | filler, generated from key hash and number |
//! | last 8 | 8 | xxh3-64 of all bytes before |
//!
//! A shorter one has no room for that: it is the first bytes of a stream seeded with the same facts. Such a value can be compared with
//! what was written, by its content, but cannot tell on its own where it comes from ([`Reading::TooShort`]).
//!
//! The oracle compares values by their [`content_hash`] and reads their description only when that differs, so a check
//! costs one pass of xxh3 over the bytes.

use std::fmt;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// From this length on a value carries its whole description.
pub const FULL_BYTES_MIN: usize = HEADER_BYTES + CHECKSUM_BYTES;

const MAGIC: u32 = 0x7631_764b; // "Kv1v"
const HEADER_BYTES: usize = 32;
const CHECKSUM_BYTES: usize = 8;
/// Compressible filler repeats within blocks of this size, so that any common compressor sees it.
const FILLER_BLOCK_BYTES: usize = 256;

/// Who wrote a value, where and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// [`key_hash`] of the key it was written to.
    pub key_hash: u64,
    /// The client that wrote it.
    pub writer: u32,
    /// The number of the write, unique within a run.
    pub number: u64,
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "value {} of client {}", self.number, self.writer)
    }
}

/// What the bytes of a value say of themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Whole and undamaged.
    Whole(Stamp),
    /// Carries a description, but is shorter or longer than that says.
    Resized {
        /// What the description says.
        stamp: Stamp,
        /// The length it was written with.
        written_bytes: u64,
        /// The length it has.
        found_bytes: u64,
    },
    /// Has the right length but not the right bytes; the description is what is left of it and may itself be damaged.
    Damaged(Stamp),
    /// Long enough for a description, but begins with none.
    Foreign,
    /// Too short to carry a description.
    TooShort,
}

/// A value held against the one that was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is the expected one.
    Right,
    /// A whole value, written to another key.
    OtherKey(Stamp),
    /// A whole value, written to this key by another write.
    OtherWrite(Stamp),
    /// The expected value or another, cut short.
    Truncated(Stamp),
    /// The expected value or another, with something behind its end.
    Extended(Stamp),
    /// Bytes that no one wrote.
    Damaged,
}

/// The hash by which a value names its key.
#[must_use]
pub fn key_hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// The hash by which the oracle tells contents apart.
#[must_use]
pub fn content_hash(value: &[u8]) -> u64 {
    xxh3_64(value)
}

/// A value of `len_bytes` bytes of which `compressible_percent` of 100 compress away.
#[must_use]
pub fn generate(stamp: Stamp, len_bytes: usize, compressible_percent: u8) -> Vec<u8> {
    let mut value = Vec::with_capacity(len_bytes);
    if len_bytes < FULL_BYTES_MIN {
        extend_filler(&mut value, len_bytes, short_seed(stamp, len_bytes), 0);
        return value;
    }
    value.extend_from_slice(&MAGIC.to_le_bytes());
    value.extend_from_slice(&stamp.writer.to_le_bytes());
    value.extend_from_slice(&stamp.number.to_le_bytes());
    value.extend_from_slice(&stamp.key_hash.to_le_bytes());
    value.extend_from_slice(&(len_bytes as u64).to_le_bytes());
    let seed = stamp.key_hash ^ stamp.number.rotate_left(32);
    extend_filler(
        &mut value,
        len_bytes - CHECKSUM_BYTES,
        seed,
        compressible_percent.min(100),
    );
    let checksum = xxh3_64(&value);
    value.extend_from_slice(&checksum.to_le_bytes());
    value
}

/// What `value` says of itself.
#[must_use]
pub fn read(value: &[u8]) -> Reading {
    if value.len() < HEADER_BYTES {
        return Reading::TooShort;
    }
    if u32_at(value, 0) != MAGIC {
        return if value.len() < FULL_BYTES_MIN {
            Reading::TooShort
        } else {
            Reading::Foreign
        };
    }
    let stamp = Stamp {
        key_hash: u64_at(value, 16),
        writer: u32_at(value, 4),
        number: u64_at(value, 8),
    };
    let written_bytes = u64_at(value, 24);
    let found_bytes = value.len() as u64;
    if written_bytes != found_bytes {
        return Reading::Resized {
            stamp,
            written_bytes,
            found_bytes,
        };
    }
    let body = value.len() - CHECKSUM_BYTES;
    if xxh3_64(&value[..body]) != u64_at(value, body) {
        return Reading::Damaged(stamp);
    }
    Reading::Whole(stamp)
}

/// Holds `value` against what the write `expected` of `expected_bytes` bytes wrote.
#[must_use]
pub fn judge(
    value: &[u8],
    expected: Stamp,
    expected_bytes: usize,
    compressible_percent: u8,
) -> Verdict {
    if expected_bytes < FULL_BYTES_MIN
        && value == generate(expected, expected_bytes, compressible_percent)
    {
        return Verdict::Right;
    }
    match read(value) {
        Reading::Whole(stamp) if stamp == expected && value.len() == expected_bytes => {
            Verdict::Right
        }
        Reading::Whole(stamp) if stamp.key_hash != expected.key_hash => Verdict::OtherKey(stamp),
        Reading::Whole(stamp) => Verdict::OtherWrite(stamp),
        Reading::Resized {
            stamp,
            written_bytes,
            found_bytes,
        } if found_bytes < written_bytes => Verdict::Truncated(stamp),
        Reading::Resized { stamp, .. } => Verdict::Extended(stamp),
        Reading::Damaged(_) | Reading::Foreign | Reading::TooShort => Verdict::Damaged,
    }
}

fn short_seed(stamp: Stamp, len_bytes: usize) -> u64 {
    let mut facts = [0u8; 28];
    facts[..8].copy_from_slice(&stamp.key_hash.to_le_bytes());
    facts[8..12].copy_from_slice(&stamp.writer.to_le_bytes());
    facts[12..20].copy_from_slice(&stamp.number.to_le_bytes());
    facts[20..].copy_from_slice(&(len_bytes as u64).to_le_bytes());
    xxh3_64_with_seed(&facts, u64::from(MAGIC))
}

/// Fills `value` up to `end` with the output of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): eight bytes a step.
/// Steps are independent of each other, so the processor overlaps them.
fn extend_filler(value: &mut Vec<u8>, end: usize, seed: u64, compressible_percent: u8) {
    let mut counter = seed;
    while value.len() < end {
        let block = FILLER_BLOCK_BYTES.min(end - value.len());
        let plain = block * usize::from(compressible_percent) / 100;
        value.resize(value.len() + plain, b'.');
        let random = block - plain;
        for _ in 0..random / 8 {
            value.extend_from_slice(&split_mix(&mut counter).to_le_bytes());
        }
        let rest = random % 8;
        if rest > 0 {
            value.extend_from_slice(&split_mix(&mut counter).to_le_bytes()[..rest]);
        }
    }
}

fn split_mix(counter: &mut u64) -> u64 {
    *counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *counter;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::{FULL_BYTES_MIN, Reading, Stamp, Verdict, generate, judge, key_hash, read};

    fn stamp(number: u64) -> Stamp {
        Stamp {
            key_hash: key_hash(b"seven"),
            writer: 3,
            number,
        }
    }

    /// Goal: every length that a workload may ask for gives exactly that length and reads back right.
    /// Method: all lengths around the limits, and the largest.
    #[test]
    fn a_value_of_any_length_is_right() {
        let lengths = (0..300).chain([1_024, 65_536, 2_932 << 10]);
        for len in lengths {
            let value = generate(stamp(9), len, 0);
            assert_eq!(value.len(), len);
            assert_eq!(
                judge(&value, stamp(9), len, 0),
                Verdict::Right,
                "{len} bytes"
            );
            let expected = if len < FULL_BYTES_MIN {
                Reading::TooShort
            } else {
                Reading::Whole(stamp(9))
            };
            assert_eq!(read(&value), expected, "{len} bytes");
        }
    }

    /// Goal: each way to go wrong is told from the others. Method: one value per way.
    #[test]
    fn each_kind_of_mix_up_is_told() {
        let elsewhere = Stamp {
            key_hash: key_hash(b"eight"),
            ..stamp(9)
        };
        assert_eq!(
            judge(&generate(elsewhere, 100, 0), stamp(9), 100, 0),
            Verdict::OtherKey(elsewhere)
        );
        assert_eq!(
            judge(&generate(stamp(8), 100, 0), stamp(9), 100, 0),
            Verdict::OtherWrite(stamp(8))
        );
        let value = generate(stamp(9), 100, 0);
        assert_eq!(
            judge(&value[..99], stamp(9), 100, 0),
            Verdict::Truncated(stamp(9))
        );
        assert_eq!(
            judge(&value[..35], stamp(9), 100, 0),
            Verdict::Truncated(stamp(9))
        );
        let longer = [&value[..], &[0]].concat();
        assert_eq!(
            judge(&longer, stamp(9), 100, 0),
            Verdict::Extended(stamp(9))
        );
        for at in 0..100 {
            let mut damaged = value.clone();
            damaged[at] ^= 4;
            assert_ne!(
                judge(&damaged, stamp(9), 100, 0),
                Verdict::Right,
                "bit at byte {at}"
            );
            assert!(
                !matches!(read(&damaged), Reading::Whole(_)),
                "bit at byte {at}"
            );
        }
        assert_eq!(judge(&[0; 100], stamp(9), 100, 0), Verdict::Damaged);
        assert_eq!(
            judge(&generate(stamp(8), 10, 0), stamp(9), 10, 0),
            Verdict::Damaged
        );
    }

    /// Goal: values do not compress unless asked to, and then by as much as asked. Method: the share of the commonest byte.
    #[test]
    fn filler_is_as_compressible_as_asked() {
        let share = |value: &[u8]| {
            let mut counts = [0usize; 256];
            value
                .iter()
                .for_each(|&byte| counts[usize::from(byte)] += 1);
            counts.into_iter().max().unwrap() * 1_000 / value.len()
        };
        assert!(share(&generate(stamp(1), 100_000, 0)) < 8);
        assert!((480..=530).contains(&share(&generate(stamp(1), 100_000, 50))));
    }

    /// Goal: two writes never write the same bytes where that can be avoided. Method: a thousand 8-byte values.
    #[test]
    fn short_values_differ_too() {
        let mut values: Vec<_> = (0..1_000)
            .map(|number| generate(stamp(number), 8, 0))
            .collect();
        values.sort();
        values.dedup();
        assert_eq!(values.len(), 1_000);
    }
}
