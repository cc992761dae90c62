//! A way out where no request can be left out by itself: a few of them, taken from anywhere, and other latencies.

use std::collections::BTreeSet;

use kvsim_simdisk::rng::{Purpose, Rng};

use super::steps::explorable;
use super::{SMALL_REQUESTS, Shrinking};
use crate::case::{Case, CaseRequest};
use crate::scenario::SeedRange;

/// Selections of each size that are tried.
const SELECTIONS: usize = 24;
/// Seeds of the latencies that are tried.
const SEEDS: u64 = 4;

impl Shrinking<'_> {
    /// Looks for the same failure with very few of the requests, then with one less under other latencies.
    pub(super) fn few_of_them(&mut self, mut best: Case) -> Case {
        let Some(reach) = explorable(&best) else {
            return best;
        };
        let all = best.lives[0].requests.clone();
        if all.len() <= SMALL_REQUESTS {
            return best;
        }
        for size in 1..=SMALL_REQUESTS {
            for chosen in selections(all.len(), size) {
                let asked: Vec<CaseRequest> = chosen.iter().map(|&at| all[at].clone()).collect();
                if let Some(found) = self.find(&asked, reach) {
                    return found;
                }
            }
        }
        let seed = self.scenario.run.seeds.start;
        for other in 1..=SEEDS {
            let less = |this: &mut Self| {
                (0..all.len()).find_map(|at| {
                    let mut asked = all.clone();
                    asked.remove(at);
                    this.find(&asked, reach)
                })
            };
            let seeds = SeedRange::one(seed.wrapping_add(other));
            if let Some(found) = self.with(|scenario| scenario.run.seeds = seeds, less) {
                best = found;
                break;
            }
        }
        best
    }
}

/// Different selections of so many places among `of`, each in order; all of them if they are few.
fn selections(of: usize, size: usize) -> BTreeSet<Vec<usize>> {
    let mut rng = Rng::new(size as u64, Purpose::Explore);
    let mut all = BTreeSet::new();
    // Chance repeats itself where there are few.
    for _ in 0..4 * SELECTIONS {
        let mut chosen = BTreeSet::new();
        while chosen.len() < size.min(of) {
            let at = rng.below(of as u64);
            chosen.insert(usize::try_from(at).unwrap_or(0));
        }
        all.insert(chosen.into_iter().collect());
        if all.len() == SELECTIONS {
            break;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: selections are in order, of the size asked for, and all of them where there are few. Method: small numbers.
    #[test]
    fn selections_are_different_and_in_order() {
        assert_eq!(selections(5, 1).len(), 5);
        assert_eq!(selections(20, 3).len(), SELECTIONS);
        for chosen in selections(20, 3) {
            assert!(chosen.len() == 3 && chosen.is_sorted(), "{chosen:?}");
        }
    }
}
