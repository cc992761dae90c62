//! Keys by number: `k`, then the number in decimal, padded with zeros to the scenario's length. So keys sort by their
//! numbers, and a person can read them. Or keys of all shapes, where the scenario says so.
//!
//! Invariant: no two numbers have the same key.

use super::config::{KeyShape, Popularity, WorkloadConfig};
use crate::zipf::{ScrambledZipfian, Zipfian};
use kvsim_simdisk::rng::Rng;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const PREFIX: u8 = b'k';
/// Digits kept for keys that are inserted while the workload runs.
const INSERTED_DIGITS: u32 = 10;

/// Lengths of mixed keys: short ones, and those about which an encoding of lengths changes.
const MIXED_BYTES: [usize; 20] = [
    9, 10, 12, 15, 16, 20, 24, 32, 40, 64, 100, 126, 127, 128, 129, 255, 256, 511, 1_023, 1_024,
];
/// The shortest of them.
const MIXED_BYTES_MIN: u32 = 9;
/// Mixed keys that are long enough end with their number in so many bytes.
const NUMBER_BYTES: usize = 8;

/// The lowest eight bits.
fn low_byte(number: u64) -> u8 {
    number.to_le_bytes()[0]
}

/// The shortest keys that the workload can do with.
pub(crate) fn key_bytes_min(config: &WorkloadConfig) -> u32 {
    let digits = config.keys.saturating_sub(1).checked_ilog10().unwrap_or(0) + 1;
    let numbered = 1 + if config.operations.insert > 0 {
        digits.max(INSERTED_DIGITS)
    } else {
        digits
    };
    match config.key_shape {
        KeyShape::Numbered => numbered,
        KeyShape::Mixed => numbered.max(MIXED_BYTES_MIN),
    }
}

/// Draws keys and makes new ones.
#[derive(Debug, Clone)]
pub(crate) struct KeySpace {
    key_bytes: usize,
    shape: KeyShape,
    /// Of a mixed key that is a number.
    numbered_bytes: usize,
    keys: u64,
    choice: Choice,
    /// The number of the next key to be inserted.
    next_insert: u64,
    /// One past the largest number whose insertion was acknowledged.
    known: u64,
}

#[derive(Debug, Clone)]
enum Choice {
    Uniform,
    Scrambled(ScrambledZipfian),
    Latest(Zipfian),
}

impl KeySpace {
    pub(crate) fn new(config: &WorkloadConfig) -> Self {
        let choice = match config.popularity {
            Popularity::Uniform => Choice::Uniform,
            Popularity::Zipfian => {
                Choice::Scrambled(ScrambledZipfian::new(config.keys, config.zipf_theta))
            }
            Popularity::Latest => Choice::Latest(Zipfian::new(config.keys, config.zipf_theta)),
        };
        KeySpace {
            key_bytes: config.key_bytes as usize,
            shape: config.key_shape,
            numbered_bytes: key_bytes_min(config) as usize,
            keys: config.keys,
            choice,
            next_insert: config.keys,
            known: config.keys,
        }
    }

    /// The key of this number.
    pub(crate) fn key(&self, number: u64) -> Vec<u8> {
        match self.shape {
            KeyShape::Numbered => numbered(number, self.key_bytes),
            KeyShape::Mixed => self.mixed(number),
        }
    }

    fn mixed(&self, number: u64) -> Vec<u8> {
        let drawn = xxh3_64_with_seed(&number.to_le_bytes(), 0);
        let (form, nth) = (number % 8, number / 8);
        match form {
            // Each byte is a key.
            0 if nth < 256 => vec![low_byte(nth).reverse_bits()],
            // Each is a prefix of the next.
            1 if nth + 2 <= self.key_bytes as u64 => {
                vec![0xff; usize::try_from(nth + 2).unwrap_or(self.key_bytes)]
            }
            2 => numbered(number, self.numbered_bytes),
            // Long ones are rarer, since they cost more.
            _ => {
                let fit = MIXED_BYTES.iter().filter(|bytes| **bytes <= self.key_bytes);
                let fit = fit.count() as u64;
                let few = if drawn.is_multiple_of(4) {
                    fit
                } else {
                    fit.min(10)
                };
                let bytes = MIXED_BYTES[((drawn >> 8) % few) as usize];
                let mut key = vec![0; bytes - NUMBER_BYTES];
                if form % 2 == 1 {
                    for (at, byte) in (0_u32..).zip(key.iter_mut()) {
                        *byte = low_byte(drawn.rotate_left(at * 5) >> 24);
                    }
                }
                key.extend_from_slice(&number.to_be_bytes());
                key
            }
        }
    }

    /// An existing key's number, as popular as it should be.
    pub(crate) fn draw(&self, rng: &mut Rng) -> u64 {
        match &self.choice {
            Choice::Uniform => rng.below(self.known),
            Choice::Scrambled(zipfian) => zipfian.draw(rng),
            Choice::Latest(zipfian) => self.known - 1 - zipfian.draw(rng),
        }
    }

    /// The number of a key that was never written.
    pub(crate) fn insert(&mut self) -> u64 {
        self.next_insert += 1;
        self.next_insert - 1
    }

    /// The insertion of this number was acknowledged.
    pub(crate) fn inserted(&mut self, number: u64) {
        self.known = self.known.max(number + 1);
        if let Choice::Latest(zipfian) = &mut self.choice {
            zipfian.resize(self.known);
        }
    }

    /// How many keys there were to begin with.
    pub(crate) fn keys(&self) -> u64 {
        self.keys
    }
}

/// `k`, and the number in decimal.
fn numbered(number: u64, bytes: usize) -> Vec<u8> {
    let mut key = vec![b'0'; bytes];
    key[0] = PREFIX;
    let mut rest = number;
    for digit in key[1..].iter_mut().rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    debug_assert_eq!(rest, 0, "the key is too short for its number");
    key
}
