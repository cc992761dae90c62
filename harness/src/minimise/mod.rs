//! Shrinks a failing case: fewer crashes, requests, clients and faults, smaller values, an earlier cut, fewer decisions about what survives.
//! What is kept is the *kind* of the failure: which property does not hold, and in what shape; whatever is back that should be gone is of one shape.
//!
//! A failure of a run that drew its crashes from a seed is first written down step by step: what clients asked, where each life was cut,
//! what survived, which faults befell the device. From there on all failures are alike.
//!
//! A request that is left out moves everything behind it: the numbers of device operations, the event of the cut. So where it can be,
//! the cut is not carried over but found anew: the smaller list of requests is explored, and its first failure of that kind is
//! the smaller case. Where it cannot (many crashes, faults), each cut falls as long after its recovery as before, and keeps the operations
//! that have the same places among what is pending.
//!
//! Few requests are not only those that are left when others are left out: several become one batch, all come from one client, smaller
//! options of the guest bring about with two requests what took twenty, and a fault that is placed anew needs no history that leads up to it.
//!
//! Invariants: each accepted step fails in the same way when run as a case; no step takes more requests; the work is bounded by what
//! it is for the guest and the world ([`Budget`]), not by a clock, so the same case shrinks to the same case everywhere.

mod aim;
mod few;
mod halves;
mod lives;
mod noted;
mod reshape;
mod setup;
mod steps;

pub use halves::fewer;
pub use noted::with_steps;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use kvsim_sim::{Program, TraceMode};
use xxhash_rust::xxh3::xxh3_128;

use self::steps::explorable;
use crate::blame::{self, Blame};
use crate::case::{Case, CaseRequest, Driven, Landmark, Stop, drive};
use crate::control::Control;
use crate::explore::{FEW_REQUESTS, Reach, Setting, first_violation, patience, work};
use crate::failure;
use crate::oracle::{Property, Symptom, Violation};
use crate::run::{SeedEnd, SeedResult, Tracing, run_seed};
use crate::scenario::Scenario;
use crate::summary::FailureReport;

/// How much a minimisation may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Work of guests and worlds: about one for each instruction of a guest. A core does some 2,500,000,000 in a second.
    pub work: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            work: 40_000_000_000,
        }
    }
}

/// What a minimisation did cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Work, as the budget counts it.
    pub work: u64,
    /// Cases that were run.
    pub runs: u64,
    /// Lists of requests that were explored.
    pub explorations: u64,
}

/// An exploration may take so much of the budget at most.
const EXPLORATION_SHARE: u64 = 32;
/// One of many requests is searched from its end, where what there is to find is found soon; and there are many of them.
const LONG_EXPLORATION_SHARE: u64 = 128;
/// A case of at most so many requests is small: what costs much and gains little is left alone then.
const SMALL_REQUESTS: usize = 4;

/// What came of it.
#[derive(Debug)]
pub struct Minimised {
    /// The scenario with the smallest case that was found.
    pub scenario: Scenario,
    /// What it ends with.
    pub result: SeedResult,
    /// What was spent.
    pub spent: Spent,
    /// The budget ended before the ideas did.
    pub exhausted: bool,
}

/// A case under way to a smaller one.
struct Shrinking<'a> {
    scenario: Scenario,
    program: &'a Arc<dyn Program>,
    control: &'a Control,
    jobs: NonZeroUsize,
    kind: (Property, Symptom),
    left: u64,
    /// What all explorations together may still take, so that runs are left for the rest.
    granted: u64,
    spent: Spent,
    /// What was tried before, and whether it failed in the same way.
    tried: BTreeMap<u128, bool>,
    /// What was explored before and came to nothing.
    barren: BTreeSet<u128>,
    /// The landmarks of the case that was asked for last.
    marks: Option<(Case, Vec<Landmark>)>,
}

/// Shrinks the case of a scenario.
///
/// # Errors
/// A sentence, if the scenario has no case or that does not fail.
pub fn minimise(
    scenario: &Scenario,
    program: &Arc<dyn Program>,
    budget: Budget,
    jobs: NonZeroUsize,
    control: &Control,
) -> Result<Minimised, String> {
    let noted = noted::with_steps(scenario, program, control)?;
    let seed = noted.run.seeds.start;
    let case = noted.case.clone().unwrap_or_default();
    let first = run_seed(&noted, program, seed, control, Tracing::HashOnly);
    let SeedEnd::Violation(violation) = &first.end else {
        return Err("the case does not fail, so there is nothing to shrink".to_owned());
    };
    let mut shrinking = Shrinking {
        scenario: noted,
        program,
        control,
        jobs,
        kind: violation.kind(),
        left: budget.work,
        granted: budget.work,
        spent: Spent::default(),
        tried: BTreeMap::new(),
        barren: BTreeSet::new(),
        marks: None,
    };
    shrinking.scenario.failure = None;
    let events_max = shrinking.scenario.run.events_max;
    if let Some(driven) = shrinking.drive(&case, TraceMode::Off) {
        shrinking.scenario.run.events_max = patience(&shrinking.scenario, &driven.world);
    }
    let limits = shrinking.shorten_hangs(&case);
    let case = shrinking.fewer_faults(case);
    let mut best = shrinking.found_from_scratch(case);
    best = shrinking.less_work(best);
    loop {
        let before = best.clone();
        best = shrinking.fewer_lives(best);
        if best.requests() > FEW_REQUESTS && explorable(&best) != Some(Reach::Uncut) {
            // A few steps that may take many requests out at once, before many that take out few.
            best = shrinking.smaller_setup(best);
            best = shrinking.one_client(best);
            best = shrinking.merged(best);
        }
        best = shrinking.fewer_requests(best);
        if best.requests() > SMALL_REQUESTS {
            best = shrinking.smaller_setup(best);
            best = shrinking.one_client(best);
            best = shrinking.merged(best);
        }
        best = shrinking.fewer_faults(best);
        best = shrinking.fewer_mutations(best);
        best = shrinking.smaller_requests(best);
        best = shrinking.fewer_decisions(best);
        best = shrinking.earlier_cuts(best);
        if best == before {
            best = shrinking.few_of_them(best);
        }
        if best == before || shrinking.is_over() {
            break;
        }
    }
    shrinking.lengthen_hangs(limits, &best);
    let exhausted = shrinking.is_over();
    let spent = shrinking.spent;
    let mut smallest = shrinking.scenario;
    smallest.case = Some(best);
    smallest.run.events_max = events_max;
    let seed = smallest.run.seeds.start;
    let result = run_seed(
        &smallest,
        program,
        seed,
        &Control::default(),
        Tracing::Record,
    );
    if !result.end.is_violation() {
        return Err("internal error: the small case does not fail as it did before".to_owned());
    }
    Ok(Minimised {
        scenario: smallest,
        result,
        spent,
        exhausted,
    })
}

impl Shrinking<'_> {
    fn is_over(&self) -> bool {
        self.left == 0 || self.control.stopped().is_some()
    }

    fn pay(&mut self, work: u64) {
        self.left = self.left.saturating_sub(work);
        self.spent.work += work;
    }

    /// What tells an attempt apart from others.
    fn key(&self, what: &dyn fmt::Debug) -> u128 {
        let Scenario {
            faults,
            guest,
            device,
            run,
            ..
        } = &self.scenario;
        let work = self.scenario.explore.work;
        let setup = (
            &faults.script,
            guest,
            device.capacity_bytes,
            run.seeds,
            work,
        );
        xxh3_128(format!("{what:?}{setup:?}").as_bytes())
    }

    fn is_same(&self, violation: &Violation) -> bool {
        violation.kind() == self.kind
    }

    /// Whether this case fails in the same way.
    fn fails(&mut self, case: &Case) -> bool {
        let key = self.key(case);
        if let Some(known) = self.tried.get(&key) {
            return *known;
        }
        if self.is_over() {
            return false;
        }
        self.spent.runs += 1;
        let driven = self.drive(case, TraceMode::Off);
        let same = match driven.map(|driven| driven.end) {
            Some(Err(Stop::Violation(violation))) => self.is_same(&violation),
            _ => false,
        };
        self.tried.insert(key, same);
        same
    }

    /// Runs a case as it stands.
    fn drive(&mut self, case: &Case, trace: TraceMode) -> Option<Driven> {
        let seed = self.scenario.run.seeds.start;
        let driven = drive(&self.scenario, case, self.program, seed, trace).ok()?;
        self.pay(work(&driven.world));
        Some(driven)
    }

    /// A case of these requests that fails in the same way, cut anywhere.
    fn find(&mut self, requests: &[CaseRequest], reach: Reach) -> Option<Case> {
        let key = self.key(&(requests, reach));
        if self.is_over() || self.granted == 0 || self.barren.contains(&key) {
            return None;
        }
        self.spent.explorations += 1;
        let share = if requests.len() > FEW_REQUESTS {
            self.left / LONG_EXPLORATION_SHARE
        } else {
            self.left / EXPLORATION_SHARE
        };
        let share = share.max(1).min(self.granted);
        let setting = Setting {
            scenario: &self.scenario,
            program: self.program,
            jobs: self.jobs,
            control: self.control,
        };
        let (found, work) = first_violation(setting, requests, self.kind, reach, share);
        self.pay(work);
        self.granted = self.granted.saturating_sub(work);
        let found = found.filter(|found| self.fails(found));
        if found.is_none() {
            self.barren.insert(key);
        }
        found
    }

    /// Changes the scenario if a case is found then that fails in the same way; else it stays as it is.
    fn with(
        &mut self,
        change: impl FnOnce(&mut Scenario),
        attempt: impl FnOnce(&mut Self) -> Option<Case>,
    ) -> Option<Case> {
        let before = self.scenario.clone();
        change(&mut self.scenario);
        self.marks = None;
        let found = attempt(self);
        if found.is_none() {
            self.scenario = before;
            self.marks = None;
        }
        found
    }
}

impl Minimised {
    /// Finds what is to blame for it.
    ///
    /// # Errors
    /// A sentence, if it cannot be run.
    pub fn blame(
        &self,
        program: &Arc<dyn Program>,
        jobs: NonZeroUsize,
        control: &Control,
    ) -> Result<Blame, String> {
        blame::blame(&self.scenario, program, jobs, control)
    }

    /// Saves the case under `directory`, with what is to blame, and reports it.
    #[must_use]
    pub fn report(
        &self,
        program: &dyn Program,
        directory: Option<&Path>,
        blame: Option<Blame>,
    ) -> FailureReport {
        let mut scenario = self.scenario.clone();
        if !scenario.name.ends_with(SMALL) {
            scenario.name.push_str(SMALL);
        }
        failure::report_blamed(&scenario, program, &self.result, directory, blame).0
    }

    /// What the case has come down to, and what that cost, on one line.
    #[must_use]
    pub fn size(&self) -> String {
        let case = self.scenario.case.clone().unwrap_or_default();
        let requests = case.requests();
        let crashes = case.lives.iter().filter_map(|life| life.crash.as_ref());
        let survivors: usize = crashes.map(|crash| crash.survivors.len()).sum();
        format!(
            "{} requests, {} crashes, {survivors} survivors; after {} runs and {} explorations{}",
            requests,
            case.crashes(),
            self.spent.runs,
            self.spent.explorations,
            if self.exhausted {
                ", which is all that was granted"
            } else {
                ""
            }
        )
    }
}

/// What the name of a small case ends with.
const SMALL: &str = "-small";
