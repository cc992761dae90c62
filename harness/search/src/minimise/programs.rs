//! Small programs: a few requests of the kinds that a case is made of, drawn anew, on a blank device. Most bugs need no more than that, and of few requests
//! every crash point can be searched (bounded testing: J. Mohan, A. Martinez, S. Ponnapalli, P. Raju, V. Chidambaram, OSDI 2018).
//!
//! What leads to a failure in a long case is often nothing that is left in any few of its requests as they stand: a value as long as a segment, a client that closes while
//! another writes, a checkpoint. So requests, clients, lengths and pauses are drawn, on the setup as it is and on smaller ones, and where faults affected the device,
//! with these faults and without any.
//!
//! Invariant: what is drawn depends on the case and on how often programs were drawn for it before.

use std::collections::BTreeSet;

use kvsim_sim::api::{Durability, Mutation, Request};
use kvsim_simdisk::ScriptedFault;
use kvsim_simdisk::rng::{Purpose, Rng};

use super::Shrinking;
use super::attempts::Attempt;
use super::condense::{filling, one_run};
use super::request::{Draws, Kind, kind, pick};
use super::reshape::written_anew;
use super::site::Site;
use crate::explore::open::{Extent, Reach};
use kvsim_api::value::FULL_BYTES_MIN;
use kvsim_oracle::Class;
use kvsim_scenario::Scenario;
use kvsim_scenario::case::{Case, CaseRequest, CaseRun};
use kvsim_workload::ClientId;
use xxhash_rust::xxh3::xxh3_128;

/// Requests of a program at most.
pub(super) const PROGRAM_REQUESTS_MAX: usize = 5;
/// Programs that are drawn at once.
const DRAWN_AT_ONCE: usize = 16;
/// Work of searching all states of one program at most; of two crashes more.
const QUOTA: u64 = 150_000_000;
const DEEPER_QUOTA: u64 = 300_000_000;
/// Every state of two crashes is looked at of programs of so many requests.
const DEEPER_REQUESTS_MAX: usize = 3;
/// Operations of one program that a fault is moved to, at most.
const PLACES_MAX: usize = 48;
/// Requests of a program that has faults at most: there are many places for each.
const FAULTY_REQUESTS_MAX: usize = 4;
/// There are no others where so many draws have brought nothing new.
const STALE_MAX: u32 = 20;
/// Kinds of requests of most programs.
const KINDS_AT_ONCE: u64 = 4;
/// Keys that a program writes.
const KEYS: usize = 3;
/// Values are at most so long, and batches of many keys have so many bytes.
const VALUE_MAX: usize = 60_000;

/// What programs are drawn from.
#[derive(Debug)]
struct Parts {
    kinds: Vec<Kind>,
    durabilities: Vec<Durability>,
    keys: Vec<Vec<u8>>,
    /// Lengths of values.
    lengths: Vec<usize>,
    /// Pauses between an answer and the next request.
    thinks: Vec<u64>,
    /// More than one client asks in the case.
    several_clients: bool,
}

/// A setup, and batches that the guest takes there.
struct Setup {
    scenario: Scenario,
    /// In each list so many batches as may come first.
    fillings: Vec<Vec<CaseRequest>>,
}

/// A program that was drawn.
struct Program {
    requests: Vec<CaseRequest>,
    /// Its first so many requests fill the device.
    filling: usize,
}

impl Shrinking<'_> {
    /// A small program that fails in the same way, of so many requests at most, found with so much work.
    pub(super) fn small_program(
        &mut self,
        case: &Case,
        requests_max: usize,
        work: u64,
    ) -> Option<Case> {
        let parts = Parts::of(case, self.scenario.device.sector_bytes)?;
        let setups = self.program_setups(case);
        let until = self.spent.work.saturating_add(work);
        let wanted = Wanted::of(case, self.likeness.classes.own);
        let mut seen = BTreeSet::new();
        let mut stale = 0;
        while stale < STALE_MAX && self.spent.work < until && !self.is_over() {
            let mut rng = self.next_draw();
            let attempts: Vec<Attempt> = (0..DRAWN_AT_ONCE)
                .filter_map(|at| {
                    let setup = &setups[at % setups.len()];
                    let program = parts.draw(&mut rng, setup, requests_max);
                    attempt(&mut rng, setup, program?, wanted)
                })
                .filter(|attempt| {
                    let what = (&attempt.scenario, &attempt.wanted, attempt.site);
                    seen.insert(xxh3_128(format!("{what:?}").as_bytes()))
                })
                .collect();
            stale = if attempts.is_empty() { stale + 1 } else { 0 };
            if let Some(found) = self.first_of(&attempts) {
                return Some(found);
            }
        }
        None
    }

    /// The same without any fault of the device.
    pub(super) fn faultless_program(&mut self, case: &Case, work: u64) -> Option<Case> {
        let mut without = case.clone();
        without.faults.clear();
        self.with(
            |scenario| scenario.faults = scenario.faults.scripted(Vec::new()),
            |this| this.small_program(&without, PROGRAM_REQUESTS_MAX, work),
        )
    }

    /// The same with what affected one operation affecting another.
    pub(super) fn faulty_program(
        &mut self,
        case: &Case,
        requests_max: usize,
        work: u64,
    ) -> Option<Case> {
        let parts = Parts::of(case, self.scenario.device.sector_bytes)?;
        let shapes = self.shapes(case);
        let script = std::mem::take(&mut self.scenario.faults.script);
        let setups = self.program_setups(case);
        self.scenario.faults.script = script;
        let until = self.spent.work.saturating_add(work);
        let requests_max = requests_max.min(FAULTY_REQUESTS_MAX);
        let mut drawn = 0;
        while self.spent.work < until && !self.is_over() {
            let mut rng = self.next_draw();
            let setup = &setups[drawn % setups.len()];
            drawn += 1;
            let program = parts.draw(&mut rng, setup, requests_max)?;
            let operations = self.operations_on(&setup.scenario, &program.requests);
            let scripts = shapes
                .iter()
                .flat_map(|shape| Self::scripts(&operations, shape));
            let mut scripts: Vec<Vec<ScriptedFault>> = scripts.collect();
            while scripts.len() > PLACES_MAX {
                let at = rng.below(scripts.len() as u64);
                scripts.swap_remove(usize::try_from(at).unwrap_or(0));
            }
            let reach = if rng.chance(0.25) {
                Reach::Again
            } else {
                Reach::Recovery
            };
            let attempts = scripts.into_iter().map(|script| {
                let mut scenario = setup.scenario.clone();
                scenario.faults.script = script;
                Attempt {
                    scenario,
                    wanted: one_run(program.requests.clone()),
                    site: Site::new(0, reach),
                    extent: Extent::Work,
                    quota: QUOTA,
                    may_be_uncut: true,
                    like: Vec::new(),
                }
            });
            let attempts: Vec<Attempt> = attempts.collect();
            if let Some(found) = self.first_of(&attempts) {
                return Some(found);
            }
        }
        None
    }

    /// Numbers for the next draw.
    pub(super) fn next_draw(&mut self) -> Rng {
        self.drawn += 1;
        Rng::new(self.drawn, Purpose::Explore)
    }

    /// The setup as it is, smaller ones, and the smallest options on the device as it is.
    fn program_setups(&mut self, case: &Case) -> Vec<Setup> {
        let all: Vec<CaseRequest> = case.all_requests().cloned().collect();
        let mut scenarios = self.setups(&all);
        let mut options = self.scenario.clone();
        self.smallest_options(&mut options, &all);
        if !scenarios.contains(&options) {
            scenarios.push(options);
        }
        let mut setups = Vec::new();
        for scenario in scenarios {
            let before = std::mem::replace(&mut self.scenario, scenario.clone());
            let sizes = self.sizes(&all);
            self.scenario = before;
            let fillings = sizes
                .iter()
                .filter_map(|bytes| filling(&all, PROGRAM_REQUESTS_MAX, *bytes));
            setups.push(Setup {
                scenario,
                fillings: fillings.collect(),
            });
        }
        setups
    }
}

/// How a case fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// It has no crash.
    Uncut,
    /// While the guest works, after crashes.
    Working,
    /// In what a crash leaves.
    Cut,
}

impl Wanted {
    fn of(case: &Case, class: Class) -> Wanted {
        let last = case.process_runs.last();
        let works =
            last.is_some_and(|last| !last.requests.is_empty() || last.close_after_event.is_some());
        match (case.crashes(), works) {
            (0, _) => Wanted::Uncut,
            (_, true) if class != Class::Loss => Wanted::Working,
            _ => Wanted::Cut,
        }
    }
}

/// How a program is searched.
fn attempt(rng: &mut Rng, setup: &Setup, program: Program, wanted: Wanted) -> Option<Attempt> {
    let count = program.requests.len() - program.filling;
    let is_short = program.requests.len() <= DEEPER_REQUESTS_MAX;
    let way = rng.below(16);
    let attempt = |wanted_case: Case, site: Site, quota| Attempt {
        scenario: setup.scenario.clone(),
        wanted: wanted_case,
        site,
        extent: Extent::Work,
        quota,
        may_be_uncut: wanted != Wanted::Cut,
        like: Vec::new(),
    };
    let uncut = match wanted {
        Wanted::Uncut => true,
        Wanted::Working => way < 10,
        Wanted::Cut => false,
    };
    if uncut {
        let case = one_run(program.requests);
        return Some(attempt(case, Site::new(0, Reach::Uncut), 0));
    }
    let is_split = count > 1 && (6..15).contains(&way);
    if !is_split {
        let (reach, quota) = match way == 15 && is_short {
            true => (Reach::Deeper, DEEPER_QUOTA),
            false => (Reach::Recovery, QUOTA),
        };
        return Some(attempt(
            one_run(program.requests),
            Site::new(0, reach),
            quota,
        ));
    }
    // Some of them after the crash.
    let first = 1 + usize::try_from(rng.below(count as u64 - 1)).ok()? + program.filling;
    let run = |requests: &[CaseRequest]| CaseRun {
        requests: requests.to_vec(),
        ..CaseRun::default()
    };
    let (before, after) = program.requests.split_at(first);
    let case = Case {
        process_runs: vec![run(before), run(after), CaseRun::default()],
        faults: Vec::new(),
    };
    let again = Site {
        asks_again: true,
        ..Site::new(0, Reach::Again)
    };
    Some(match is_short && way >= 12 {
        true => attempt(case, Site::deeper_again(0), DEEPER_QUOTA),
        false => attempt(case, again, QUOTA),
    })
}

impl Parts {
    /// What this case is made of; nothing if nothing is written in it.
    fn of(case: &Case, sector_bytes: u32) -> Option<Parts> {
        let mut kinds = BTreeSet::new();
        let mut relaxed = [false; 2];
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let mut lengths = Vec::new();
        let mut thinks = BTreeSet::from([0]);
        for request in case.all_requests() {
            thinks.insert(request.think_ns);
            kinds.insert(kind(&request.request));
            match &request.request {
                Request::Put {
                    key,
                    value,
                    durability,
                } => {
                    relaxed[usize::from(*durability == Durability::Relaxed)] = true;
                    lengths.push(value.len());
                    if !key.is_empty() && keys.len() < KEYS && !keys.contains(key) {
                        keys.push(key.clone());
                    }
                }
                Request::Delete { durability, .. } => {
                    relaxed[usize::from(*durability == Durability::Relaxed)] = true;
                }
                Request::Batch {
                    mutations,
                    durability,
                } => {
                    relaxed[usize::from(*durability == Durability::Relaxed)] = true;
                    for mutation in mutations {
                        if let Mutation::Put { key, value } = mutation {
                            lengths.push(value.len());
                            if !key.is_empty() && keys.len() < KEYS && !keys.contains(key) {
                                keys.push(key.clone());
                            }
                        }
                    }
                }
                _ => {}
            }
        }
        if keys.is_empty() {
            return None;
        }
        // A guest that one client asks at a time need not be one that several may ask.
        let first_client = case.all_requests().next().map_or(0, |first| first.client);
        if kinds.contains(&Kind::Snapshot) {
            kinds.insert(Kind::Release);
        }
        if case.is_closed() {
            kinds.insert(Kind::Close);
        }
        // What is written is worth a read where there are any, and is drawn more often.
        let mut kinds: Vec<Kind> = kinds.into_iter().collect();
        let takes_batches = kinds.contains(&Kind::Batch);
        kinds.extend([Kind::Put, Kind::Put]);
        if takes_batches {
            kinds.extend([Kind::Batch, Kind::Fill]);
        }
        lengths.sort_unstable();
        let length = |at: usize| lengths[at].clamp(FULL_BYTES_MIN, VALUE_MAX);
        let lengths = BTreeSet::from([
            FULL_BYTES_MIN,
            length(lengths.len() / 2),
            length(lengths.len() - 1),
            // So that a write of it can be torn.
            usize::try_from(sector_bytes)
                .unwrap_or(VALUE_MAX)
                .max(FULL_BYTES_MIN),
        ]);
        let longest = thinks.last().copied().unwrap_or(0);
        let durabilities = [Durability::Durable, Durability::Relaxed];
        let durabilities = durabilities
            .into_iter()
            .zip(relaxed)
            .filter_map(|(durability, is_used)| is_used.then_some(durability));
        Some(Parts {
            kinds,
            durabilities: durabilities.collect(),
            keys,
            lengths: lengths.into_iter().collect(),
            thinks: vec![0, longest],
            several_clients: case
                .all_requests()
                .any(|request| request.client != first_client),
        })
    }

    /// In some programs a snapshot is taken at one place and used at a later one, with writes around: the two places, and how it is used.
    fn held(&self, rng: &mut Rng, from: usize, count: usize) -> Option<(usize, usize, Kind)> {
        let uses = [Kind::Release, Kind::Get, Kind::Scan];
        let uses = uses.into_iter().filter(|kind| self.kinds.contains(kind));
        let uses: Vec<Kind> = uses.collect();
        let has_room = count >= from + 2;
        if !self.kinds.contains(&Kind::Snapshot) || !has_room || rng.chance(0.6) {
            return None;
        }
        let taken = from + usize::try_from(rng.below((count - from - 1) as u64)).ok()?;
        let later = count - taken - 1;
        let used = taken + 1 + usize::try_from(rng.below(later as u64)).ok()?;
        Some((taken, used, *pick(rng, &uses)))
    }

    /// A program of so many requests at most; nothing if that is none.
    fn draw(&self, rng: &mut Rng, setup: &Setup, requests_max: usize) -> Option<Program> {
        let most = requests_max.min(PROGRAM_REQUESTS_MAX);
        let count = 1 + usize::try_from(rng.below(most as u64)).ok()?;
        let mut requests: Vec<CaseRequest> = Vec::new();
        if !setup.fillings.is_empty() && rng.chance(0.35) {
            let batches = pick(rng, &setup.fillings);
            let first = 1 + usize::try_from(rng.below(count as u64)).ok()?;
            requests.extend(batches.iter().take(first).cloned());
        }
        let filling = requests.len();
        if filling > 0 && rng.chance(0.5) {
            // What fills the device is asked as anything else, and may be relaxed.
            let durability = *pick(rng, &self.durabilities);
            for request in &mut requests {
                request.client = 0;
                if let Request::Batch {
                    durability: own, ..
                } = &mut request.request
                {
                    *own = durability;
                }
            }
        }
        let clients = [1, 1, 2, count as u64];
        let clients = if self.several_clients {
            *pick(rng, &clients)
        } else {
            1
        };
        let keys = 1 + usize::try_from(rng.below(self.keys.len() as u64)).ok()?;
        // Few kinds at a time: what takes three of one kind is not drawn by chance among ten.
        let some: Vec<Kind> = (0..1 + rng.below(KINDS_AT_ONCE))
            .map(|_| *pick(rng, &self.kinds))
            .collect();
        let draws = Draws {
            fillings: &setup.fillings,
            kinds: match rng.chance(0.75) {
                true => &some,
                false => &self.kinds,
            },
            keys: &self.keys[..keys],
            durabilities: match rng.chance(0.5) {
                true => std::slice::from_ref(pick(rng, &self.durabilities)),
                false => &self.durabilities,
            },
            lengths: match rng.chance(0.5) {
                true => std::slice::from_ref(pick(rng, &self.lengths)),
                false => &self.lengths,
            },
            thinks: match rng.chance(0.75) {
                true => &self.thinks[..1],
                false => &self.thinks,
            },
        };
        let held = self.held(rng, filling, count);
        while requests.len() < count {
            let client = if clients == count as u64 {
                requests.len() as u64
            } else {
                rng.below(clients)
            };
            let kind = match held {
                Some((taken, _, _)) if requests.len() == taken => Kind::Snapshot,
                Some((_, used, kind)) if requests.len() == used => kind,
                Some(_) => *pick(rng, &WRITES),
                None => *pick(rng, draws.kinds),
            };
            requests.push(CaseRequest {
                client: ClientId::try_from(client).ok()?,
                think_ns: *pick(rng, draws.thinks),
                request: draws.request(rng, kind),
            });
        }
        written_anew(&mut requests);
        Some(Program { requests, filling })
    }
}

/// What surrounds a snapshot and its use.
const WRITES: [Kind; 5] = [Kind::Put, Kind::Put, Kind::Batch, Kind::Fill, Kind::Delete];

#[cfg(test)]
mod tests {
    use super::*;
    use kvsim_workload::PRELOAD_WRITER;

    fn case() -> Case {
        let lines = [
            "3+500 put aa 1:900",
            "1 delete aa relaxed",
            "2 batch put bb 2:40, put cc 3:40",
            "2 snapshot",
            "1 sync",
        ];
        let requests = lines.iter().map(|line| line.parse().expect("a request"));
        let mut case = one_run(requests.collect());
        case.process_runs[0].close_after_event = Some(9);
        case
    }

    /// Goal: a program is made of what the case has and of nothing else. Method: a case without gets, scans and empty batches, many programs.
    #[test]
    fn programs_have_the_kinds_of_the_case() {
        let case = case();
        let parts = Parts::of(&case, 512).expect("it writes");
        let all: Vec<CaseRequest> = case.all_requests().cloned().collect();
        let setup = Setup {
            scenario: Scenario::default(),
            fillings: vec![filling(&all, 3, 400).expect("it writes")],
        };
        let (mut kinds, mut filled, mut loaded, mut thought) = (BTreeSet::new(), 0, 0, 0);
        for seed in 0..400 {
            let mut rng = Rng::new(seed, Purpose::Explore);
            let program = parts.draw(&mut rng, &setup, 4).expect("one");
            assert!((1..=4).contains(&program.requests.len()));
            assert!(program.filling <= program.requests.len());
            let (first, rest) = program.requests.split_at(program.filling);
            loaded += usize::from(first.iter().any(|it| it.client == PRELOAD_WRITER));
            kinds.extend(rest.iter().map(|it| kind(&it.request)));
            filled += usize::from(program.filling > 0);
            thought += usize::from(rest.iter().any(|it| it.think_ns == 500));
            let again = parts.draw(&mut Rng::new(seed, Purpose::Explore), &setup, 4);
            assert_eq!(again.expect("the same").requests, program.requests);
        }
        use Kind::{Batch, Close, Delete, Put, Release, Snapshot, Sync};
        let expected = BTreeSet::from([Put, Delete, Batch, Snapshot, Release, Sync, Close]);
        assert_eq!(kinds, expected);
        assert!((30..filled - 30).contains(&loaded), "{loaded} of {filled}");
        assert!(thought > 20, "{thought}");
    }

    /// Goal: what fails without any cut is looked for without one, and what a cut leaves with one. Method: the same requests cut and not.
    #[test]
    fn a_case_says_how_it_fails() {
        let mut case = case();
        assert_eq!(Wanted::of(&case, Class::Loss), Wanted::Uncut);
        case.process_runs[0].crash = Some(kvsim_scenario::case::CaseCrash {
            after_event: 1,
            kind: kvsim_simdisk::CrashKind::Power,
            persisted: Vec::new(),
        });
        case.process_runs.push(CaseRun::default());
        assert_eq!(Wanted::of(&case, Class::Reading), Wanted::Cut);
        case.process_runs[1]
            .requests
            .push("1 get aa".parse().expect("it"));
        assert_eq!(Wanted::of(&case, Class::Reading), Wanted::Working);
        assert_eq!(Wanted::of(&case, Class::Loss), Wanted::Cut);
    }
}
