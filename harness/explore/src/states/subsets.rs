//! Which sets of the pending effects may survive: all within the bounds, or some of them where they are too many.

use hashbrown::HashSet;
use kvsim_simdisk::Effects;
use kvsim_simdisk::rng::{Purpose, Rng};
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

use super::LeftOut;
use super::needs::Needs;
use super::set::Set;
use kvsim_scenario::ExploreConfig;

/// Subsets are listed one by one up to so many, and up to so many for each state that is taken; of more, some are drawn.
const SUBSETS_LISTED_MAX: u64 = 1 << 18;
const SUBSETS_LISTED_FOR_EACH: u64 = 1 << 8;

/// What subsets are made of.
pub(super) struct Subsets<'a> {
    pub(super) effects: &'a Effects,
    pub(super) needs: &'a Needs,
    pub(super) bounds: &'a ExploreConfig,
    pub(super) seed: u64,
}

impl Subsets<'_> {
    /// The subsets that may survive, the smallest first; and whether these are all.
    pub(super) fn list(&self, left_out: &mut LeftOut) -> (Vec<Set>, bool) {
        let count = self.needs.count();
        if !self.effects.loss {
            return (vec![Set::before(count, count)], true);
        }
        if !self.effects.reorder {
            let prefixes = (0..=count).map(|end| Set::before(end, count));
            return (prefixes.collect(), true);
        }
        let bound = self.bounds.subset_writes as usize;
        // A closed set is made up by those of its effects that no other one of it needs. Along a chain there is one of these.
        left_out.subsets |= count > 2 * bound + 1 && self.needs.has_more_chains(bound);
        let sizes = (0..=count).filter(|size| *size <= bound || count - size <= bound);
        let total: u64 = sizes
            .clone()
            .map(|size| choose(count as u64, size as u64))
            .fold(0, u64::saturating_add);
        let limit = self.bounds.states_per_point;
        let listed_max = SUBSETS_LISTED_MAX.min(limit.saturating_mul(SUBSETS_LISTED_FOR_EACH));
        if total > listed_max.max(limit) {
            let sizes: Vec<usize> = sizes.collect();
            return (self.some(&sizes), false);
        }
        let mut subsets = Vec::new();
        for size in sizes {
            combinations(count, size, |places| subsets.push(Set::of(places, count)));
        }
        if self.needs.is_ordered() {
            subsets = self.closed(&subsets, bound);
        }
        (subsets, true)
    }

    /// Makes sets closed: small ones by what is needed, large ones by leaving out what lacks something. Each once, in the order of the list.
    fn closed(&self, subsets: &[Set], bound: usize) -> Vec<Set> {
        let count = self.needs.count();
        let mut seen: HashSet<Set, Xxh3DefaultBuilder> = HashSet::default();
        let mut all = Vec::new();
        let mut take = |set: Set| {
            if !seen.contains(&set) {
                seen.insert(set.clone());
                all.push(set);
            }
        };
        for subset in subsets {
            let len = subset.len();
            if len <= bound {
                take(self.needs.with_needs(subset.places()));
            }
            if count - len <= bound {
                take(self.without_lacking(subset));
            }
        }
        all.sort_by_cached_key(Set::len);
        all
    }

    /// Of these those that lack nothing.
    fn without_lacking(&self, subset: &Set) -> Set {
        let mut missing = Set::before(self.needs.count(), self.needs.count());
        missing.remove_all(subset);
        self.needs.without(missing.places())
    }

    /// Nothing, everything, each alone, everything but one, each prefix; and then drawn ones.
    fn some(&self, sizes: &[usize]) -> Vec<Set> {
        let count = self.needs.count();
        let mut subsets = vec![Set::none(count), Set::before(count, count)];
        for at in 0..count {
            subsets.push(self.needs.with_needs(std::iter::once(at)));
            subsets.push(self.needs.without(std::iter::once(at)));
            subsets.push(Set::before(at, count));
        }
        let mut rng = Rng::new(self.seed, Purpose::Explore);
        let wanted = usize::try_from(self.bounds.states_per_point).unwrap_or(usize::MAX);
        while subsets.len() < wanted {
            let size = sizes[index(&mut rng, sizes.len())];
            let mut places: Vec<usize> = (0..count).collect();
            for at in 0..size {
                let other = at + index(&mut rng, count - at);
                places.swap(at, other);
            }
            let (kept, missing) = places.split_at(size);
            subsets.push(if size <= count / 2 {
                self.needs.with_needs(kept.iter().copied())
            } else {
                self.needs.without(missing.iter().copied())
            });
        }
        subsets.sort_unstable();
        subsets.dedup();
        subsets.sort_by_cached_key(Set::len);
        subsets
    }
}

fn index(rng: &mut Rng, below: usize) -> usize {
    usize::try_from(rng.below(below as u64)).expect("below a length")
}

pub(super) fn choose(n: u64, k: u64) -> u64 {
    let k = k.min(n - k);
    let mut result: u128 = 1;
    for step in 0..k {
        result = result * u128::from(n - step) / u128::from(step + 1);
        if result > u128::from(u64::MAX) {
            return u64::MAX;
        }
    }
    u64::try_from(result).unwrap_or(u64::MAX)
}

/// All subsets of `0..count` of this size, in order.
fn combinations(count: usize, size: usize, mut take: impl FnMut(&[usize])) {
    let mut current: Vec<usize> = (0..size).collect();
    loop {
        take(&current);
        let Some(at) = (0..size).rev().find(|&at| current[at] < count - size + at) else {
            return;
        };
        current[at] += 1;
        for later in at + 1..size {
            current[later] = current[later - 1] + 1;
        }
    }
}
