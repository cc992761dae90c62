//! The states of a moment by their plain definition: every subset is a list, all of them are made with all their tears, and then some are chosen.
//! Slow, and short enough to be read. What is quick is compared with it.

use std::collections::BTreeSet;

use super::*;

/// What may survive, and of each effect all that it needs, with what that needs.
struct Plain<'a> {
    cuts: Cuts<'a>,
    needs: Vec<BTreeSet<usize>>,
}

impl<'a> Plain<'a> {
    fn new(cuts: Cuts<'a>) -> Plain<'a> {
        let mut needs: Vec<BTreeSet<usize>> = Vec::new();
        for effect in &cuts.effects.list {
            let further = effect.needs.iter().flat_map(|need| needs[*need].clone());
            needs.push(effect.needs.iter().copied().chain(further).collect());
        }
        Plain { cuts, needs }
    }
}

impl<'a> std::ops::Deref for Plain<'a> {
    type Target = Cuts<'a>;

    fn deref(&self) -> &Cuts<'a> {
        &self.cuts
    }
}

/// What a power cut can leave, and what the bounds leave out.
pub(super) fn states(storage: &impl CrashStates, bounds: &ExploreConfig, seed: u64) -> States {
    let cuts = Plain::new(Cuts::new(storage.effects(), bounds, seed));
    let mut states = States::default();
    let (subsets, all_listed) = subsets(&cuts, &mut states.left_out);
    let mut whole = Vec::new();
    for subset in &subsets {
        let set = Set::of(subset, cuts.effects.list.len());
        for order in cuts.orders(&set, &mut states.left_out) {
            let order = order.order();
            let torn = TornTogether::new(tearings(&cuts, &order), bounds.torn_writes as usize);
            whole.push((order, torn));
        }
    }
    for (order, _) in &whole {
        let free = free(&cuts, order);
        let torn = tearings(&cuts, order);
        states.left_out.tears |= free.iter().any(|at| !cuts.tearing[*at].is_all());
        states.left_out.several_torn |= torn.len() > bounds.torn_writes as usize;
    }
    let torn_in = |writes: usize| {
        let counts = whole.iter().map(|(_, torn)| torn.count(writes));
        counts.fold(0, u64::saturating_add)
    };
    let most = bounds.torn_writes as usize;
    let totals: Vec<u64> = (1..=most).map(torn_in).collect();
    states.possible = totals
        .iter()
        .fold(whole.len() as u64, |sum, it| sum.saturating_add(*it));
    states.left_out.sampled = !all_listed || states.possible > bounds.states_per_point;
    if !all_listed && !cuts.cuts.needs.is_ordered() {
        states.possible = states.possible.max(cuts.count());
    }
    let limit = bounds.states_per_point;
    let mut room = limit.saturating_sub(whole.len() as u64);
    if room == 0 {
        whole = spread(whole, limit, seed);
    }
    let mut make = |writes: usize, chosen: &BTreeSet<u64>, with_whole: bool| {
        let mut number = 0;
        for (order, torn) in &whole {
            let ways = if chosen.is_empty() {
                0
            } else {
                torn.count(writes)
            };
            for way in 0..ways {
                if chosen.contains(&number) {
                    let state = cuts.state(order, &torn.make(writes, way));
                    states.taken.push(state);
                }
                number += 1;
            }
            if with_whole {
                states.taken.push(cuts.state(order, &[]));
            }
        }
    };
    for (writes, total) in (1..).zip(totals) {
        let taken = total.min(room);
        room -= taken;
        let chosen = match taken {
            0 => BTreeSet::new(),
            _ => sample(total, taken, seed).into_iter().collect(),
        };
        make(writes, &chosen, writes == 1);
    }
    if most == 0 {
        make(1, &BTreeSet::new(), true);
    }
    states
}

/// Those of an order that none of the others needs; of a storage that keeps order the last one alone.
fn free(cuts: &Plain<'_>, order: &[usize]) -> Vec<usize> {
    let needed: BTreeSet<usize> = order
        .iter()
        .flat_map(|at| cuts.needs[*at].clone())
        .collect();
    let first = if cuts.effects.reorder {
        0
    } else {
        order.len().saturating_sub(1)
    };
    let free = order[first..].iter().filter(|at| !needed.contains(at));
    free.copied().collect()
}

fn tearings<'a>(cuts: &'a Plain<'_>, order: &[usize]) -> Vec<(usize, &'a Tearing)> {
    let free = free(cuts, order).into_iter();
    let all = free.map(|at| (at, &cuts.tearing[at]));
    all.filter(|(_, it)| it.count() > 0).collect()
}

/// A subset and all that it needs.
fn with_needs(cuts: &Plain<'_>, subset: &[usize]) -> Vec<usize> {
    let mut all: BTreeSet<usize> = subset.iter().copied().collect();
    all.extend(subset.iter().flat_map(|at| cuts.needs[*at].clone()));
    all.into_iter().collect()
}

/// Of a subset what lacks nothing.
fn without_lacking(cuts: &Plain<'_>, subset: &[usize]) -> Vec<usize> {
    let has_all = |at: &usize| cuts.needs[*at].iter().all(|need| subset.contains(need));
    subset.iter().copied().filter(has_all).collect()
}

fn subsets(cuts: &Plain<'_>, left_out: &mut LeftOut) -> (Vec<Vec<usize>>, bool) {
    let count = cuts.effects.list.len();
    if !cuts.effects.loss {
        return (vec![(0..count).collect()], true);
    }
    if !cuts.effects.reorder {
        return ((0..=count).map(|end| (0..end).collect()).collect(), true);
    }
    let bound = cuts.bounds.subset_writes as usize;
    left_out.subsets = count > 2 * bound + 1 && chains(cuts) > bound;
    let sizes: Vec<usize> = (0..=count)
        .filter(|size| *size <= bound || count - size <= bound)
        .collect();
    let total: u64 = sizes
        .iter()
        .map(|size| choose(count as u64, *size as u64))
        .sum();
    let limit = cuts.bounds.states_per_point;
    if total > (limit * 256).min(1 << 18).max(limit) {
        return (some(cuts, &sizes), false);
    }
    let mut all: Vec<Vec<usize>> = Vec::new();
    for size in sizes {
        for subset in of_size(0, count, size) {
            if size <= bound {
                all.push(with_needs(cuts, &subset));
            }
            if count - size <= bound {
                all.push(without_lacking(cuts, &subset));
            }
        }
    }
    let mut seen = BTreeSet::new();
    all.retain(|subset| seen.insert(subset.clone()));
    all.sort_by_key(Vec::len);
    (all, true)
}

fn chains(cuts: &Plain<'_>) -> usize {
    let mut ends: Vec<usize> = Vec::new();
    for at in 0..cuts.effects.list.len() {
        match ends.iter_mut().find(|end| cuts.needs[at].contains(end)) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    ends.len()
}

/// All subsets of `first..count` of one size, in the order of their lists.
fn of_size(first: usize, count: usize, size: usize) -> Vec<Vec<usize>> {
    if size == 0 {
        return vec![Vec::new()];
    }
    let with = |at: usize| {
        let others = of_size(at + 1, count, size - 1).into_iter();
        others.map(move |others| [vec![at], others].concat())
    };
    (first..=count - size).flat_map(with).collect()
}

/// Nothing, everything, each alone, everything but one, each prefix; and then drawn ones.
fn some(cuts: &Plain<'_>, sizes: &[usize]) -> Vec<Vec<usize>> {
    let count = cuts.effects.list.len();
    let mut all: Vec<Vec<usize>> = vec![Vec::new(), (0..count).collect()];
    for at in 0..count {
        let others: Vec<usize> = (0..count).filter(|other| *other != at).collect();
        all.push(with_needs(cuts, &[at]));
        all.push(without_lacking(cuts, &others));
        all.push((0..at).collect());
    }
    let mut rng = Rng::new(cuts.seed, Purpose::Explore);
    let mut below = |most: usize| usize::try_from(rng.below(most as u64)).unwrap();
    while (all.len() as u64) < cuts.bounds.states_per_point {
        let size = sizes[below(sizes.len())];
        let mut subset: Vec<usize> = (0..count).collect();
        for at in 0..size {
            let other = at + below(count - at);
            subset.swap(at, other);
        }
        subset.truncate(size);
        subset.sort_unstable();
        let is_small = size <= count / 2;
        all.push(if is_small {
            with_needs(cuts, &subset)
        } else {
            without_lacking(cuts, &subset)
        });
    }
    all.sort();
    all.dedup();
    all.sort_by_key(Vec::len);
    all
}
