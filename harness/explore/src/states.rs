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

mod needs;
mod set;
mod subsets;

use kvsim_simdisk::rng::{Purpose, Rng};
use kvsim_simdisk::{CrashState, CrashStates, Effect, Effects, Persisted, Sectors};

use self::needs::Needs;
use self::set::Set;
use self::subsets::{Subsets, choose};
use super::tears::{Tearing, tearing};
use super::torn::{TornTogether, ways};
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
    /// Those that can be torn, within the bounds or beyond.
    tearable: Set,
    any_overlap: bool,
    needs: Needs,
}

/// What persists whole: a subset, in an order.
struct Whole<'a> {
    subset: &'a Set,
    /// Another than that of submission may be among these; nothing where no order makes a difference.
    order: Option<Vec<usize>>,
}

impl Whole<'_> {
    fn order(&self) -> Vec<usize> {
        self.order
            .clone()
            .unwrap_or_else(|| self.subset.places().collect())
    }
}

impl<'a> Cuts<'a> {
    fn new(effects: Effects, bounds: &'a ExploreConfig, seed: u64) -> Self {
        let list = &effects.list;
        let tearing: Vec<Tearing> = list
            .iter()
            .map(|effect| tearing(effect.tears, bounds))
            .collect();
        let mut tearable = Set::none(list.len());
        for (at, tearing) in tearing.iter().enumerate() {
            if tearing.count() > 0 || !tearing.is_all() {
                tearable.add(at);
            }
        }
        let laid = list.iter().filter(|effect| effect.lies_over.is_some());
        let laid: Vec<&Effect> = laid.collect();
        let any_overlap = laid
            .iter()
            .enumerate()
            .any(|(at, effect)| laid[..at].iter().any(|other| effect.overlaps(other)));
        Cuts {
            needs: Needs::of(&effects),
            effects,
            bounds,
            seed,
            tearing,
            tearable,
            any_overlap,
        }
    }

    fn list(&self, states: &mut States) {
        let subsets = Subsets {
            effects: &self.effects,
            needs: &self.needs,
            bounds: self.bounds,
            seed: self.seed,
        };
        let (subsets, all_listed) = subsets.list(&mut states.left_out);
        let limit = self.bounds.states_per_point;
        let mut whole: Vec<Whole<'_>> = Vec::with_capacity(subsets.len());
        for subset in &subsets {
            whole.extend(self.orders(subset, &mut states.left_out));
        }
        let room = limit.saturating_sub(whole.len() as u64);
        // Where there is no room for torn states, how many there are is all that is asked of them.
        let mut together: Vec<TornTogether<'_>> = Vec::new();
        // How many states have one write torn, two, and so on.
        let mut torn = vec![0_u64; self.bounds.torn_writes as usize];
        for one in &whole {
            let tearings = self.tearings(one, &mut states.left_out);
            for (sum, count) in torn
                .iter_mut()
                .zip(&ways(&tearings, self.torn_writes())[1..])
            {
                *sum = sum.saturating_add(*count);
            }
            if room > 0 {
                together.push(TornTogether::new(tearings, self.torn_writes()));
            }
        }
        states.possible = torn
            .iter()
            .fold(whole.len() as u64, |sum, count| sum.saturating_add(*count));
        let all_taken = states.possible <= limit;
        if !all_listed {
            // How many closed sets there are nobody counts.
            if !self.needs.is_ordered() {
                states.possible = states.possible.max(self.count());
            }
            states.left_out.sampled = true;
        }
        states.left_out.sampled |= !all_taken;
        if room == 0 || self.bounds.torn_writes == 0 {
            let taken = spread(whole, limit, self.seed);
            let taken = taken.iter().map(|one| self.state(&one.order(), &[]));
            states.taken.extend(taken);
            return;
        }
        let orders = whole.iter().map(Whole::order);
        let whole: Vec<(Vec<usize>, TornTogether<'_>)> = orders.zip(together).collect();
        let mut room = room;
        for (at, total) in torn.into_iter().enumerate() {
            let taken = total.min(room);
            room -= taken;
            let wanted = (taken < total).then(|| sample(total, taken, self.seed));
            self.take(&whole, at + 1, wanted, &mut states.taken);
        }
    }

    fn torn_writes(&self) -> usize {
        self.bounds.torn_writes as usize
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

    /// The persisted writes that can be torn, and how: those that none of the others needs. Where order is kept it is the last one alone.
    fn tearings(&self, whole: &Whole<'_>, left_out: &mut LeftOut) -> Vec<(usize, &Tearing)> {
        let subset = whole.subset;
        let keeps_order = !self.effects.reorder;
        let last = keeps_order.then(|| subset.places().last()).flatten();
        let is_torn =
            |at: &usize| (!keeps_order || Some(*at) == last) && !self.needs.is_needed(*at, subset);
        let places: Vec<usize> = match &whole.order {
            Some(order) => {
                let tearable = order.iter().copied().filter(|at| self.tearable.has(*at));
                tearable.filter(is_torn).collect()
            }
            None => subset.places_in(&self.tearable).filter(is_torn).collect(),
        };
        left_out.tears |= places.iter().any(|at| !self.tearing[*at].is_all());
        let tearings = places.into_iter().map(|at| (at, &self.tearing[at]));
        let tearings: Vec<_> = tearings.filter(|(_, it)| it.count() > 0).collect();
        left_out.several_torn |= tearings.len() > self.torn_writes();
        tearings
    }

    /// Whether each comes after what it needs.
    fn is_in_order(&self, order: &[usize]) -> bool {
        let mut pairs = order
            .iter()
            .enumerate()
            .flat_map(|(place, at)| order[place + 1..].iter().map(move |later| (*at, *later)));
        !self.needs.is_ordered() || !pairs.any(|(at, later)| self.needs.follows(at, later))
    }

    /// How many states there are within the bounds if each subset is taken in one order only.
    fn count(&self) -> u64 {
        let count = self.effects.list.len() as u64;
        let all: Vec<(usize, &Tearing)> = self.tearing.iter().enumerate().collect();
        let tears = ways(&all, self.torn_writes());
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
    fn orders<'s>(&self, subset: &'s Set, left_out: &mut LeftOut) -> Vec<Whole<'s>> {
        if !self.any_overlap || !self.effects.reorder {
            return vec![Whole {
                subset,
                order: None,
            }];
        }
        let members: Vec<usize> = subset.places().collect();
        let mut orders = vec![members.clone()];
        let subset_of = |order| Whole {
            subset,
            order: Some(order),
        };
        for places in self.groups(&members) {
            let subset = &members;
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
        orders.into_iter().map(subset_of).collect()
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
mod plainly;
#[cfg(test)]
mod tests;
