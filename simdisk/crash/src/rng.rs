//! Random numbers: one counter-based stream per purpose, all from one seed.
//!
//! Invariant: a draw for one purpose never moves the draws of another. [`Rng`] is ChaCha8 with the purpose as the number of
//! the stream; [`draw`] is stateless, a function of seed, purpose and position, for decisions that belong to one operation.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng as _};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What a stream of random numbers decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u64)]
pub enum Purpose {
    /// What the clients do.
    Workload = 1,
    /// How long operations take.
    Latency = 2,
    /// When the plug is pulled and what survives.
    Crash = 3,
    /// Which operations fail.
    Faults = 4,
    /// Which operations lie.
    Lies = 5,
    /// Samples of an exploration.
    Explore = 6,
    /// Random numbers that a guest asks for.
    Guest = 8,
    /// Anything a test needs.
    Test = 7,
}

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Rng(ChaCha8Rng);

impl Rng {
    /// The stream of `purpose` under `seed`.
    #[must_use]
    pub fn new(seed: u64, purpose: Purpose) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(purpose as u64);
        Rng(generator)
    }

    /// A number from the whole range.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number in `0..n`, uniform to within 2⁻⁶⁴.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        scale(self.next_u64(), n)
    }

    /// A number in `low..=high`.
    ///
    /// # Panics
    /// If the range is empty.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "an empty range has no number");
        match (high - low).checked_add(1) {
            Some(width) => low + self.below(width),
            None => self.next_u64(),
        }
    }

    /// Whether an event of this probability (clamped to 0..=1) happens.
    pub fn chance(&mut self, probability: f64) -> bool {
        happens(self.next_u64(), probability)
    }

    /// Fills a buffer.
    pub fn fill_bytes(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}

/// The `index`-th number that `purpose` and `label` have for position `position`. Stateless.
#[must_use]
pub fn draw(seed: u64, purpose: Purpose, label: u64, position: u64, index: u64) -> u64 {
    let mut bytes = [0; 32];
    for (slot, number) in bytes
        .chunks_exact_mut(8)
        .zip([purpose as u64, label, position, index])
    {
        slot.copy_from_slice(&number.to_le_bytes());
    }
    xxh3_64_with_seed(&bytes, seed)
}

/// Maps a number of the whole range onto `0..n`.
#[must_use]
pub fn scale(number: u64, n: u64) -> u64 {
    assert!(n > 0, "there is no number below 0");
    let product = u128::from(number) * u128::from(n);
    u64::try_from(product >> 64).expect("the upper half of 128 bits")
}

/// Whether a number of the whole range falls under `probability`.
#[must_use]
pub fn happens(number: u64, probability: f64) -> bool {
    if probability >= 1.0 {
        return true;
    }
    if probability <= 0.0 {
        return false;
    }
    // Both sides are exact: 53 bits of the number against a product that IEEE 754 rounds alike everywhere.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit an f64")]
    let uniform = (number >> 11) as f64;
    uniform < probability * 9_007_199_254_740_992.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_one_seed_are_independent_and_repeatable() {
        let take = |purpose| {
            let mut rng = Rng::new(7, purpose);
            (0..4).map(|_| rng.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(take(Purpose::Crash), take(Purpose::Crash));
        assert_ne!(take(Purpose::Crash), take(Purpose::Faults));
        assert_ne!(
            draw(7, Purpose::Lies, 0, 1, 0),
            draw(7, Purpose::Lies, 0, 2, 0)
        );
    }

    #[test]
    fn probabilities_are_kept() {
        let mut rng = Rng::new(1, Purpose::Test);
        let hits = (0..100_000).filter(|_| rng.chance(0.25)).count();
        assert!((24_000..26_000).contains(&hits), "{hits}");
        assert!(!rng.chance(0.0) && rng.chance(1.0));
        assert!((0..1000).all(|_| rng.range(3, 5) >= 3 && rng.range(3, 5) <= 5));
    }
}
