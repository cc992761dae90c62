//! Keys by number: `k`, then the number in decimal, padded with zeros to the scenario's length, so that their order is that of
//! their numbers and a person can read them.

use super::config::{Popularity, WorkloadConfig};
use crate::zipf::{ScrambledZipfian, Zipfian};
use kvsim_simdisk::rng::Rng;

const PREFIX: u8 = b'k';
/// Digits kept for keys that are inserted while the workload runs.
const INSERTED_DIGITS: u32 = 10;

/// The shortest keys that the workload can do with.
pub(crate) fn key_bytes_min(config: &WorkloadConfig) -> u32 {
    let digits = config.keys.saturating_sub(1).checked_ilog10().unwrap_or(0) + 1;
    1 + if config.operations.insert > 0 {
        digits.max(INSERTED_DIGITS)
    } else {
        digits
    }
}

/// Draws keys and makes new ones.
#[derive(Debug, Clone)]
pub(crate) struct KeySpace {
    key_bytes: usize,
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
            keys: config.keys,
            choice,
            next_insert: config.keys,
            known: config.keys,
        }
    }

    /// The key of this number.
    pub(crate) fn key(&self, number: u64) -> Vec<u8> {
        let mut key = vec![b'0'; self.key_bytes];
        key[0] = PREFIX;
        let mut rest = number;
        for digit in key[1..].iter_mut().rev() {
            *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
        }
        debug_assert_eq!(rest, 0, "the key is too short for its number");
        key
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
