//! Every state that a cut at one moment can leave, within the bounds of `[explore]`.
//!
//! A state is made in three steps: which of the pending effects persist, in which order, and which sectors of some of them.
//! What needs others persists only with them: a set is listed if at most so many effects, with all that they need, make it up, or if at most so
//! many, with all that need them, are missing in it. The order is that of submission, except that effects which overlap are also taken in every
//! other order (a few) or backwards (many): where nothing overlaps the order makes no difference to the bytes.
//!
//! Invariants: each state is legal and no state is named twice; the list depends on what is pending, bounds and seed alone; a sample takes subsets,
//! whole, before it takes torn ones, and those with few torn writes before those with more. Of more subsets than it can take, it takes the smallest,
//! the largest, and some of all sizes between.

use hashbrown::HashSet;
use kvsim_simdisk::rng::{Purpose, Rng};
use kvsim_simdisk::{CrashState, CrashStates, Effects, Persisted, Sectors};
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

use super::tears::{Tearing, tearing};
use super::torn::TornTogether;
use kvsim_findings::explore::LeftOutCounts;
use kvsim_scenario::ExploreConfig;

/// What the bounds leave out, of what the device could do at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// Subsets of the pending operations.
    pub(crate) subsets: bool,
    /// Orders of persisted writes that overlap.
    pub(crate) orders: bool,
    /// Tears of a long write.
    pub(crate) tears: bool,
    /// More writes torn at once.
    pub(crate) several_torn: bool,
    /// States beyond the number that is taken of one moment.
    pub(crate) sampled: bool,
}

impl From<LeftOut> for LeftOutCounts {
    fn from(left_out: LeftOut) -> LeftOutCounts {
        LeftOutCounts {
            subsets: left_out.subsets.into(),
            orders: left_out.orders.into(),
            tears: left_out.tears.into(),
            several_torn: left_out.several_torn.into(),
            sampled: left_out.sampled.into(),
        }
    }
}

/// States of one moment.
#[derive(Debug, Default)]
pub(crate) struct States {
    /// Those that are taken.
    pub(crate) taken: Vec<CrashState>,
    /// How many there are within the bounds, the sampling aside.
    pub(crate) possible: u64,
    /// What the bounds leave out.
    pub(crate) left_out: LeftOut,
}

impl States {
    /// Where nothing is taken.
    pub(crate) const NONE: States = States {
        taken: Vec::new(),
        possible: 0,
        left_out: LeftOut {
            subsets: false,
            orders: false,
            tears: false,
            several_torn: false,
            sampled: false,
        },
    };
}

/// Subsets are listed one by one up to so many, and up to so many for each state that is taken; of more, some are drawn.
const SUBSETS_LISTED_MAX: u64 = 1 << 18;
const SUBSETS_LISTED_FOR_EACH: u64 = 1 << 8;
/// As many persisted writes at most are taken in every order if they overlap.
const ORDERS_OF: usize = 4;

/// What a power cut now can leave of this storage.
pub(crate) fn states(storage: &impl CrashStates, bounds: &ExploreConfig, seed: u64) -> States {
    let mut states = States::default();
    Cuts::new(storage.effects(), bounds, seed).list(&mut states);
    states
}

/// The cut that keeps the least.
pub(crate) fn least(storage: &impl CrashStates) -> CrashState {
    let effects = storage.effects();
    let persisted = effects
        .list
        .iter()
        .map(|effect| Persisted::whole(effect.id));
    CrashState {
        persisted: if effects.loss {
            Vec::new()
        } else {
            persisted.collect()
        },
    }
}

/// What may survive a power cut.
struct Cuts<'a> {
    effects: Effects,
    bounds: &'a ExploreConfig,
    seed: u64,
    tearing: Vec<Tearing>,
    any_overlap: bool,
    /// All that each needs, and what these need; empty where nothing needs anything.
    needs: Vec<Vec<usize>>,
    /// All that need each, and what needs these; empty where nothing needs anything.
    needed_by: Vec<Vec<usize>>,
}

impl<'a> Cuts<'a> {
    fn new(effects: Effects, bounds: &'a ExploreConfig, seed: u64) -> Self {
        let list = &effects.list;
        let tearing = list
            .iter()
            .map(|effect| tearing(effect.tears, bounds))
            .collect();
        let any_overlap = list
            .iter()
            .enumerate()
            .any(|(at, effect)| list[..at].iter().any(|other| effect.overlaps(other)));
        let (mut needs, mut needed_by) = (Vec::new(), Vec::new());
        if list.iter().any(|effect| !effect.needs.is_empty()) {
            needs = all_needs(&effects);
            needed_by = reversed(&needs);
        }
        Cuts {
            effects,
            bounds,
            seed,
            tearing,
            any_overlap,
            needs,
            needed_by,
        }
    }

    fn len(&self) -> usize {
        self.effects.list.len()
    }

    /// Whether any needs another.
    fn is_ordered(&self) -> bool {
        !self.needs.is_empty()
    }

    fn list(&self, states: &mut States) {
        let (subsets, all_listed) = self.subsets(&mut states.left_out);
        let limit = self.bounds.states_per_point;
        let mut whole: Vec<(Vec<usize>, TornTogether<'_>)> = Vec::new();
        // How many states have one write torn, two, and so on.
        let mut torn = vec![0_u64; self.bounds.torn_writes as usize];
        for subset in &subsets {
            for order in self.orders(subset, &mut states.left_out) {
                let together = self.torn_together(&order, &mut states.left_out);
                for (sum, count) in torn.iter_mut().zip(together.counts()) {
                    *sum = sum.saturating_add(count);
                }
                whole.push((order, together));
            }
        }
        states.possible = torn
            .iter()
            .fold(whole.len() as u64, |sum, count| sum.saturating_add(*count));
        let all_taken = states.possible <= limit;
        if !all_listed {
            // How many closed sets there are nobody counts.
            if !self.is_ordered() {
                states.possible = states.possible.max(self.count());
            }
            states.left_out.sampled = true;
        }
        states.left_out.sampled |= !all_taken;
        let mut room = limit.saturating_sub(whole.len() as u64);
        if room == 0 {
            whole = spread(whole, limit, self.seed);
        }
        for (at, total) in torn.into_iter().enumerate() {
            let taken = total.min(room);
            room -= taken;
            let wanted = (taken < total).then(|| sample(total, taken, self.seed));
            self.take(&whole, at + 1, wanted, &mut states.taken);
        }
        if self.bounds.torn_writes == 0 {
            states
                .taken
                .extend(whole.iter().map(|(order, _)| self.state(order, &[])));
        }
    }

    /// Takes the states with so many torn writes that are wanted, all if nothing is said; with one torn write, each order whole as well.
    fn take(
        &self,
        whole: &[(Vec<usize>, TornTogether<'_>)],
        writes: usize,
        wanted: Option<Vec<u64>>,
        taken: &mut Vec<CrashState>,
    ) {
        let mut before = 0;
        let mut next = wanted.map(|wanted| wanted.into_iter().peekable());
        for (order, together) in whole {
            let count = together.count(writes);
            let end = before + count;
            match &mut next {
                None => {
                    let all = (0..count).map(|number| together.make(writes, number));
                    taken.extend(all.map(|torn| self.state(order, &torn)));
                }
                Some(next) => {
                    while let Some(number) = next.next_if(|number| *number < end) {
                        let torn = together.make(writes, number - before);
                        taken.push(self.state(order, &torn));
                    }
                }
            }
            before = end;
            if writes == 1 {
                taken.push(self.state(order, &[]));
            }
        }
    }

    fn state(&self, order: &[usize], torn: &[(usize, Sectors)]) -> CrashState {
        let persisted_write = |&at: &usize| {
            let sectors = torn.iter().find(|(other, _)| *other == at);
            Persisted {
                id: self.effects.list[at].id,
                sectors: sectors.map_or(Sectors::All, |(_, sectors)| sectors.clone()),
            }
        };
        CrashState {
            persisted: order.iter().map(persisted_write).collect(),
        }
    }

    /// Where order is kept only the last persisted write can be torn.
    fn first_tearable(&self, order: &[usize]) -> usize {
        if self.effects.reorder {
            0
        } else {
            order.len().saturating_sub(1)
        }
    }

    /// In how many ways persisted writes can be torn.
    fn torn_together(&self, order: &[usize], left_out: &mut LeftOut) -> TornTogether<'_> {
        let mut is_in = vec![false; self.len()];
        order.iter().for_each(|at| is_in[*at] = true);
        // None of the others needs it.
        let is_free = |at: &&usize| {
            let needed_by = self.needed_by.get(**at);
            !needed_by.is_some_and(|others| others.iter().any(|other| is_in[*other]))
        };
        let persisted = order.iter().skip(self.first_tearable(order));
        let tearable: Vec<&usize> = persisted.filter(is_free).collect();
        left_out.tears |= tearable.iter().any(|at| !self.tearing[**at].is_all());
        let tearable = tearable
            .into_iter()
            .filter(|at| self.tearing[**at].count() > 0);
        let tearings: Vec<(usize, &Tearing)> =
            tearable.map(|at| (*at, &self.tearing[*at])).collect();
        let most = self.bounds.torn_writes as usize;
        left_out.several_torn |= tearings.len() > most;
        TornTogether::new(tearings, most)
    }

    /// The subsets that may survive, each in the order of submission, the smallest first; and whether these are all.
    fn subsets(&self, left_out: &mut LeftOut) -> (Vec<Vec<usize>>, bool) {
        let count = self.len();
        if !self.effects.loss {
            return (vec![(0..count).collect()], true);
        }
        if !self.effects.reorder {
            return ((0..=count).map(|end| (0..end).collect()).collect(), true);
        }
        let bound = self.bounds.subset_writes as usize;
        // A closed set is made up by those of its effects that no other one of it needs. Along a chain there is one of these.
        left_out.subsets |= count > 2 * bound + 1 && self.chains() > bound;
        let sizes = (0..=count).filter(|size| *size <= bound || count - size <= bound);
        let total: u64 = sizes
            .clone()
            .map(|size| choose(count as u64, size as u64))
            .fold(0, u64::saturating_add);
        let limit = self.bounds.states_per_point;
        let listed_max = SUBSETS_LISTED_MAX.min(limit.saturating_mul(SUBSETS_LISTED_FOR_EACH));
        if total > listed_max.max(limit) {
            let sizes: Vec<usize> = sizes.collect();
            return (self.some_subsets(&sizes), false);
        }
        let mut subsets = Vec::new();
        for size in sizes {
            combinations(count, size, &mut subsets);
        }
        if self.is_ordered() {
            subsets = self.closed(subsets, bound);
        }
        (subsets, true)
    }

    /// Makes sets closed: small ones by what is needed, large ones by leaving out what lacks something. Each once, in the order of the list.
    fn closed(&self, subsets: Vec<Vec<usize>>, bound: usize) -> Vec<Vec<usize>> {
        let mut seen: HashSet<Vec<usize>, Xxh3DefaultBuilder> = HashSet::default();
        let mut all = Vec::new();
        for subset in subsets {
            let mut ways = Vec::with_capacity(2);
            if subset.len() <= bound {
                ways.push(self.with_needs(&subset));
            }
            if self.len() - subset.len() <= bound {
                ways.push(self.without_lacking(&subset));
            }
            for way in ways {
                if seen.insert(way.clone()) {
                    all.push(way);
                }
            }
        }
        all.sort_by_key(Vec::len);
        all
    }

    /// These and all that they need.
    fn with_needs(&self, subset: &[usize]) -> Vec<usize> {
        self.joined(subset, &self.needs, true)
    }

    /// Of these those that lack nothing.
    fn without_lacking(&self, subset: &[usize]) -> Vec<usize> {
        let missing: Vec<usize> = (0..self.len())
            .filter(|at| subset.binary_search(at).is_err())
            .collect();
        self.joined(&missing, &self.needed_by, false)
    }

    /// These and what the relation has for them, or all but that.
    fn joined(&self, subset: &[usize], relation: &[Vec<usize>], within: bool) -> Vec<usize> {
        let mut is_in = vec![!within; self.len()];
        for &at in subset {
            is_in[at] = within;
            for &other in &relation[at] {
                is_in[other] = within;
            }
        }
        (0..self.len()).filter(|at| is_in[*at]).collect()
    }

    /// So many chains, in each of which every effect needs the one before, hold all of them: not always the fewest.
    fn chains(&self) -> usize {
        if !self.is_ordered() {
            return self.len();
        }
        let mut ends: Vec<usize> = Vec::new();
        for at in 0..self.len() {
            match ends.iter_mut().find(|end| self.follows(at, **end)) {
                Some(end) => *end = at,
                None => ends.push(at),
            }
        }
        ends.len()
    }

    /// Nothing, everything, each alone, everything but one, each prefix; and then drawn ones.
    fn some_subsets(&self, sizes: &[usize]) -> Vec<Vec<usize>> {
        let count = self.len();
        let mut subsets = vec![Vec::new(), (0..count).collect()];
        for at in 0..count {
            let others: Vec<usize> = (0..count).filter(|other| *other != at).collect();
            if self.is_ordered() {
                subsets.push(self.with_needs(&[at]));
                subsets.push(self.without_lacking(&others));
            } else {
                subsets.push(vec![at]);
                subsets.push(others);
            }
            subsets.push((0..at).collect());
        }
        let mut rng = Rng::new(self.seed, Purpose::Explore);
        let wanted = usize::try_from(self.bounds.states_per_point).unwrap_or(usize::MAX);
        while subsets.len() < wanted {
            let size = sizes[index(&mut rng, sizes.len())];
            let mut subset: Vec<usize> = (0..count).collect();
            for at in 0..size {
                let other = at + index(&mut rng, count - at);
                subset.swap(at, other);
            }
            subset.truncate(size);
            subset.sort_unstable();
            if self.is_ordered() {
                subset = if size <= count / 2 {
                    self.with_needs(&subset)
                } else {
                    self.without_lacking(&subset)
                };
            }
            subsets.push(subset);
        }
        subsets.sort_unstable();
        subsets.dedup();
        subsets.sort_by_key(Vec::len);
        subsets
    }

    fn follows(&self, at: usize, other: usize) -> bool {
        self.is_ordered() && self.needs[at].binary_search(&other).is_ok()
    }

    /// Whether each comes after what it needs.
    fn is_in_order(&self, order: &[usize]) -> bool {
        let mut pairs = order
            .iter()
            .enumerate()
            .flat_map(|(place, at)| order[place + 1..].iter().map(move |later| (*at, *later)));
        !self.is_ordered() || !pairs.any(|(at, later)| self.follows(at, later))
    }

    /// How many states there are within the bounds if each subset is taken in one order only.
    fn count(&self) -> u64 {
        let count = self.len() as u64;
        let all = self.tearing.iter().enumerate().collect();
        let together = TornTogether::new(all, self.bounds.torn_writes as usize);
        let tears: Vec<u64> = std::iter::once(1).chain(together.counts()).collect();
        let bound = u64::from(self.bounds.subset_writes);
        let sizes = (0..=count).filter(|size| *size <= bound || count - size <= bound);
        let states = sizes.flat_map(|size| {
            (0..=size)
                .zip(&tears)
                .map(move |(torn, tears)| tears.saturating_mul(choose(count - torn, size - torn)))
        });
        states.fold(0, u64::saturating_add)
    }

    /// The orders in which these persisted writes may have reached the medium, as far as that makes a difference: every order of those that overlap
    /// each other. Groups that do not touch leave the same bytes whichever comes first.
    fn orders(&self, subset: &[usize], left_out: &mut LeftOut) -> Vec<Vec<usize>> {
        let mut orders = vec![subset.to_vec()];
        if !self.any_overlap || !self.effects.reorder {
            return orders;
        }
        for places in self.groups(subset) {
            let members: Vec<usize> = places.iter().map(|&place| subset[place]).collect();
            let mut arranged = Vec::new();
            if members.len() > ORDERS_OF {
                left_out.orders = true;
                arranged.push(members.clone());
                arranged.push(members.iter().rev().copied().collect());
            } else {
                permutations(&mut Vec::new(), &members, &mut arranged);
            }
            let before = std::mem::take(&mut orders);
            for (order, arranged) in before
                .iter()
                .flat_map(|order| arranged.iter().map(move |it| (order, it)))
            {
                let mut order = order.clone();
                for (&place, &at) in places.iter().zip(arranged) {
                    order[place] = at;
                }
                orders.push(order);
            }
        }
        orders.retain(|order| self.is_in_order(order));
        orders
    }

    /// The places in `subset` of persisted writes that overlap, one with the next, in groups.
    fn groups(&self, subset: &[usize]) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (place, &at) in subset.iter().enumerate() {
            let touches = |group: &Vec<usize>| {
                let mut others = group.iter().map(|&other| subset[other]);
                others.any(|other| self.effects.list[at].overlaps(&self.effects.list[other]))
            };
            let (touched, apart): (Vec<_>, Vec<_>) = groups.into_iter().partition(touches);
            groups = apart;
            let mut group: Vec<usize> = touched.into_iter().flatten().collect();
            group.push(place);
            group.sort_unstable();
            groups.push(group);
        }
        groups.retain(|group| group.len() > 1);
        groups
    }
}

/// Of each effect all that it needs, and what these need, ascending.
fn all_needs(effects: &Effects) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = Vec::with_capacity(effects.list.len());
    for effect in &effects.list {
        let mut needs = effect.needs.clone();
        for &need in &effect.needs {
            needs.extend_from_slice(&all[need]);
        }
        needs.sort_unstable();
        needs.dedup();
        all.push(needs);
    }
    all
}

/// The same relation from the other side.
fn reversed(needs: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut reversed = vec![Vec::new(); needs.len()];
    for (at, needs) in needs.iter().enumerate() {
        for &need in needs {
            reversed[need].push(at);
        }
    }
    reversed
}

fn index(rng: &mut Rng, below: usize) -> usize {
    usize::try_from(rng.below(below as u64)).expect("below a length")
}

fn choose(n: u64, k: u64) -> u64 {
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
fn combinations(count: usize, size: usize, all: &mut Vec<Vec<usize>>) {
    let mut current: Vec<usize> = (0..size).collect();
    loop {
        all.push(current.clone());
        let Some(at) = (0..size).rev().find(|&at| current[at] < count - size + at) else {
            return;
        };
        current[at] += 1;
        for later in at + 1..size {
            current[later] = current[later - 1] + 1;
        }
    }
}

fn permutations(begun: &mut Vec<usize>, rest: &[usize], all: &mut Vec<Vec<usize>>) {
    if rest.is_empty() {
        all.push(begun.clone());
    }
    for (place, &next) in rest.iter().enumerate() {
        begun.push(next);
        let others: Vec<usize> = [&rest[..place], &rest[place + 1..]].concat();
        permutations(begun, &others, all);
        begun.pop();
    }
}

/// So many different numbers below `total`, ascending: one of each of equally long stretches.
fn sample(total: u64, wanted: u64, seed: u64) -> Vec<u64> {
    if wanted >= total {
        return (0..total).collect();
    }
    let mut rng = Rng::new(seed ^ total, Purpose::Explore);
    let bound = |number: u64| {
        let product = u128::from(number) * u128::from(total) / u128::from(wanted);
        u64::try_from(product).expect("below the total")
    };
    (0..wanted)
        .map(|number| rng.range(bound(number), bound(number + 1) - 1))
        .collect()
}

/// So many of these: the first, the last, and some between, in their order; all if there are no more.
fn spread<T>(all: Vec<T>, wanted: u64, seed: u64) -> Vec<T> {
    let total = all.len() as u64;
    let mut chosen = sample(total, wanted, seed);
    if let [first, .., last] = chosen.as_mut_slice() {
        (*first, *last) = (0, total - 1);
    }
    let mut chosen = chosen.into_iter().peekable();
    let numbered = (0..).zip(all);
    numbered
        .filter(|(number, _)| chosen.next_if_eq(number).is_some())
        .map(|(_, one)| one)
        .collect()
}

#[cfg(test)]
mod tests;
