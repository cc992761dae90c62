//! quickcheck with a seed of our own: printed, so that a failure comes again, and pinned where `KVSIM_QUICKCHECK_SEED` is set.

use std::time::SystemTime;

use quickcheck::{Gen, QuickCheck, Testable};

/// The environment variable that holds the seed.
const SEED: &str = "KVSIM_QUICKCHECK_SEED";

/// Checks a property on `cases` generated cases of a size up to `size`; a failure is shrunk, and printed with the seed.
///
/// # Panics
/// If the property does not hold.
pub fn check(name: &str, cases: u64, size: usize, property: impl Testable) {
    let seed = seed();
    say(&format!(
        "{name}: to see these cases again: {SEED}={seed} cargo test -p kvsim-tests {name}"
    ));
    let generator = Gen::from_size_and_seed(size, seed);
    QuickCheck::new()
        .rng(generator)
        .tests(cases)
        .max_tests(cases)
        .quickcheck(property);
}

/// A fresh seed where none is given has to come from outside.
fn seed() -> u64 {
    if let Ok(text) = std::env::var(SEED) {
        return text
            .trim()
            .parse()
            .unwrap_or_else(|_| panic!("{SEED} is `{text}`, which is no number"));
    }
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    since.as_secs() * 1_000_003 + u64::from(since.subsec_nanos())
}

#[expect(
    clippy::print_stdout,
    reason = "the test harness shows it when the property fails"
)]
fn say(text: &str) {
    println!("{text}");
}
