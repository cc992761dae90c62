//! Shrinks a failing case: fewer requests, crashes, clients and faults, smaller values, an earlier cut, fewer decisions about what persists.
//! What is kept is the *class* of the failure ([`Classes`]): what is lost may show as lost, as a hole, as an older value. The final symptom is reported.
//! Whoever asks for it keeps a part of the sentence too ([`Likeness`]).
//!
//! A failure of a run that drew its crashes from a seed is first written down step by step: what clients asked, where each process run was cut,
//! what persisted, which faults affected the device. From there on all failures are alike.
//!
//! A request that is left out moves everything behind it: the numbers of device operations, the event of the cut. So a smaller case is not replayed
//! but explored. A candidate is a fixed prefix of process runs and one *open* process run ([`OpenRun`]). The cuts of the prefix are found again by their
//! meaning ([`Meaning`]), and the crash points of the open process run are searched for a failure, those first that are most like the cut of the larger case.
//!
//! A case of few requests is shrunk as it stands first. What stays long is replaced by a short one that fails in the same class: the last process runs or the last
//! requests on a blank device ([`suffix`]), or else few requests of the same kinds that are drawn anew ([`programs`]).
//!
//! Few requests are not only those that are left when others are left out: several become one batch, all come from one client, smaller
//! options of the guest bring about with two requests what took twenty, and a fault that is placed anew needs no history that leads up to it.
//!
//! Invariants: each accepted step fails in the same class when run as a case; no step takes more requests; the order of the search depends on the case alone. It is bounded
//! by the work of guests and worlds ([`Budget`]) and ended by its [`Control`]; whatever ends it, the smallest case so far is the result.

mod aim;
mod attempts;
mod condense;
mod edits;
mod few;
mod find;
mod noted;
mod programs;
mod request;
mod reshape;
mod setup;
mod site;
mod steps;
mod suffix;

pub use noted::with_steps;

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kvsim_sim::{Program, TraceMode};
use xxhash_rust::xxh3::xxh3_128;

use crate::blame::blame;
use crate::explore::cost::{event_limit, work};
use crate::explore::meaning::Meaning;
use crate::explore::open::FEW_REQUESTS;
use kvsim_drive::case::{Driven, Landmark, Stop, drive};
use kvsim_drive::control::Control;
use kvsim_drive::run::{SeedResult, Tracing, run_seed};
use kvsim_findings::blame::Blame;
use kvsim_findings::failure;
use kvsim_findings::summary::FailureReport;
use kvsim_oracle::{Likeness, Violation};
use kvsim_scenario::Scenario;
use kvsim_scenario::case::Case;

/// How much a minimisation may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Work of guests and worlds: about one for each instruction of a guest. A core does some 2,500,000,000 in a second.
    pub work: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            work: 300_000_000_000,
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

/// The work of one exploration at most.
const EXPLORATION_WORK: u64 = 1_200_000_000;
/// And where there are many requests: there are many such explorations.
const LONG_EXPLORATION_WORK: u64 = 700_000_000;
/// The work of leaving out faults at most, before a short case is looked for.
const FAULTS_WORK: u64 = 5_000_000_000;
/// The work of drawing few requests anew at most, before those that there are are changed.
const DRAWN_WORK: u64 = 15_000_000_000;
/// The work of changing requests at most, each time.
const EDITS_WORK: u64 = 15_000_000_000;
/// A case of so many requests is shrunk as it stands before they are replaced, with so much work at most. One with fewer was before.
const RATHER_FEW_REQUESTS: RangeInclusive<usize> = FEW_REQUESTS + 1..=48;
const STEPS_WORK: u64 = 15_000_000_000;
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
    /// The budget or the time ended before the ideas did.
    pub exhausted: bool,
    /// It was the time, or a person.
    pub interrupted: bool,
}

/// What is known of a minimisation under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is tried.
    pub step: &'static str,
    /// Requests of the smallest case so far.
    pub requests: usize,
    /// Its crashes.
    pub crashes: u64,
    /// What was spent.
    pub spent: Spent,
}

/// Whoever looks on.
pub type Watch<'a> = &'a (dyn Fn(Progress) + Sync);

/// How far the steps go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effort {
    /// Those that leave something out.
    Little,
    /// Those that put other requests in the place of what there is, too.
    Full,
}

/// A case under way to a smaller one.
struct Shrinking<'a> {
    scenario: Scenario,
    program: &'a Arc<dyn Program>,
    control: &'a Control,
    jobs: NonZeroUsize,
    watch: Watch<'a>,
    step: &'static str,
    /// Requests and crashes of the smallest case so far.
    size: (usize, u64),
    likeness: Likeness,
    left: u64,
    spent: Spent,
    /// What was tried before, and whether it failed in the same way.
    tried: BTreeMap<u128, bool>,
    /// What was explored before and came to nothing, and with how much work.
    barren: BTreeMap<u128, u64>,
    /// The landmarks of the case that was asked for last.
    landmarks: Option<(Case, Vec<Landmark>)>,
    /// The meanings of the cuts of the case that was asked for last.
    like: Option<(Case, Vec<Option<Meaning>>)>,
    /// How often small programs were drawn.
    drawn: u64,
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
    minimise_watched(scenario, program, None, budget, jobs, control, &|_| {})
}

/// The same, watched. Where there is `says`, the sentence of each smaller case has that text too.
///
/// # Errors
/// As [`minimise`]; and if the sentence of the case does not have that text.
pub fn minimise_watched(
    scenario: &Scenario,
    program: &Arc<dyn Program>,
    says: Option<&str>,
    budget: Budget,
    jobs: NonZeroUsize,
    control: &Control,
    watch: Watch<'_>,
) -> Result<Minimised, String> {
    let (noted, violation) = noted::with_steps(scenario, program)?;
    let likeness = Likeness {
        says: says.map(Arc::from),
        ..violation.classes().into()
    };
    if let Some(says) = says
        && !likeness.has(&violation)
    {
        let sentence = &violation.sentence;
        return Err(format!(
            "`{says}` is no part of what the case shows: {sentence}"
        ));
    }
    let case = noted.case.clone().unwrap_or_default();
    let mut shrinking = Shrinking {
        scenario: noted,
        program,
        control,
        jobs,
        watch,
        step: "write down the steps",
        size: (case.requests(), case.crashes()),
        likeness,
        left: budget.work,
        spent: Spent::default(),
        tried: BTreeMap::new(),
        barren: BTreeMap::new(),
        landmarks: None,
        like: None,
        drawn: 0,
    };
    shrinking.scenario.failure = None;
    let events_max = shrinking.scenario.run.events_max;
    if let Some(driven) = shrinking.drive(&case, TraceMode::Off) {
        shrinking.scenario.run.events_max = event_limit(&shrinking.scenario, &driven.world);
    }
    let limits = shrinking.shorten_hangs(&case);
    let best = shrinking.shrink(case);
    shrinking.lengthen_hangs(limits, &best);
    let exhausted = shrinking.is_over();
    let interrupted = control.stopped().is_some();
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
        interrupted,
    })
}

/// Shrinks, as [`minimise_watched`] does, and then blames, both within `limit` of real time if that is given. A quarter of it is kept for blame. Whatever ends the search, the smallest case so far
/// is the result.
///
/// # Errors
/// As [`minimise`].
pub fn minimise_and_blame(
    scenario: &Scenario,
    program: &Arc<dyn Program>,
    says: Option<&str>,
    jobs: NonZeroUsize,
    control: &Control,
    limit: Option<Duration>,
    watch: Watch<'_>,
) -> Result<(Minimised, Blame), String> {
    let began = control.elapsed();
    if let Some(limit) = limit {
        control.end_after(limit / 4 * 3);
    }
    let small = minimise_watched(
        scenario,
        program,
        says,
        Budget::default(),
        jobs,
        control,
        watch,
    );
    if let Some(limit) = limit {
        control.end_after(limit.saturating_sub(control.elapsed().saturating_sub(began)));
    }
    let both = small.and_then(|small| {
        let blame = small.blame(program, jobs, control)?;
        Ok((small, blame))
    });
    if limit.is_some() {
        control.never_end();
    }
    both
}

/// The real time that shrinking and blaming a failure may take, unless another is asked for.
pub const LIMIT: Duration = Duration::from_secs(60);

impl Shrinking<'_> {
    /// A short case first, and then one step after the other.
    fn shrink(&mut self, case: Case) -> Case {
        let case = self.without_faults(case);
        // A fault is placed anew more easily where there are few.
        let case = self.within(FAULTS_WORK, |this| {
            this.in_step("leave out faults", case, Self::fewer_faults)
        });
        // What takes moments comes first: an exploration finds what is short already, and often the last process runs are all that it takes.
        let case = self.as_it_stands(case, 0..=FEW_REQUESTS);
        let small = if case.requests() <= SMALL_REQUESTS || self.is_over() {
            Some(case.clone())
        } else {
            self.small_from_the_end(&case)
        };
        let short = small.unwrap_or_else(|| {
            let case = self.as_it_stands(case, RATHER_FEW_REQUESTS);
            self.in_step("look for a short case", case, Self::short_case)
        });
        self.step_by_step(short, Effort::Full)
    }

    /// The case after the steps that take moments, if it has so many requests.
    fn as_it_stands(&mut self, case: Case, requests: RangeInclusive<usize>) -> Case {
        if !requests.contains(&case.requests()) {
            return case;
        }
        self.within(STEPS_WORK, |this| this.step_by_step(case, Effort::Little))
    }

    /// Does this with so much work at most.
    fn within<T>(&mut self, work: u64, does: impl FnOnce(&mut Self) -> T) -> T {
        let kept = self.left.saturating_sub(work);
        self.left -= kept;
        let done = does(self);
        self.left += kept;
        done
    }

    /// The last process runs, if the steps that take moments make them small.
    fn small_from_the_end(&mut self, case: &Case) -> Option<Case> {
        self.with(
            |_| {},
            |this| {
                let found = this.short_from_the_end(case);
                let found = found.filter(|found| found.requests() <= FEW_REQUESTS)?;
                let small = this.step_by_step(found, Effort::Little);
                (small.requests() <= SMALL_REQUESTS || this.is_over()).then_some(small)
            },
        )
    }

    /// One step after the other, until none makes the case smaller.
    fn step_by_step(&mut self, mut best: Case, effort: Effort) -> Case {
        let mut is_drawn = false;
        loop {
            let before = best.clone();
            best = self.in_step("let flushes save", best, Self::plain_flush);
            best = self.in_step("leave out process runs", best, Self::fewer_process_runs);
            if best.requests() > FEW_REQUESTS {
                // A few steps that may take many requests out at once, before many that take out few.
                best = self.in_step("merge requests", best, Self::reshaped);
            }
            best = self.in_step("leave out requests", best, Self::fewer_requests);
            if best.requests() > SMALL_REQUESTS {
                best = self.in_step("merge requests", best, Self::reshaped);
            }
            best = self.in_step("leave out faults", best, Self::fewer_faults);
            best = self.in_step("leave out mutations", best, Self::fewer_mutations);
            best = self.in_step("shorten values", best, Self::smaller_requests);
            best = self.in_step("let less persist", best, Self::fewer_decisions);
            best = self.in_step("cut earlier", best, Self::earlier_cuts);
            if best == before && effort == Effort::Little {
                return best;
            }
            if best == before && best.requests() > SMALL_REQUESTS && !is_drawn {
                is_drawn = true;
                best = self.in_step("draw requests anew", best, |this, best| {
                    this.drawn_anew(&best, DRAWN_WORK).unwrap_or(best)
                });
            }
            if best == before && best.requests() > SMALL_REQUESTS {
                best = self.in_step("change requests", best, |this, best| {
                    this.edited(best, EDITS_WORK)
                });
            }
            if best == before {
                best = self.in_step("try a few of the requests", best, Self::few_of_them);
            }
            if best == before || self.is_over() {
                return best;
            }
        }
    }

    /// A smaller setup, one client, batches.
    fn reshaped(&mut self, mut best: Case) -> Case {
        best = self.smaller_setup(best);
        best = self.one_client(best);
        self.merged(best)
    }

    fn in_step(
        &mut self,
        step: &'static str,
        best: Case,
        shrink: impl FnOnce(&mut Self, Case) -> Case,
    ) -> Case {
        if self.is_over() {
            return best;
        }
        self.step = step;
        self.size = (best.requests(), best.crashes());
        self.show();
        let best = shrink(self, best);
        tracing::debug!(
            step,
            requests = best.requests(),
            crashes = best.crashes(),
            runs = self.spent.runs,
            explorations = self.spent.explorations,
            work = self.spent.work,
            "shrunk"
        );
        best
    }

    fn show(&self) {
        (self.watch)(Progress {
            step: self.step,
            requests: self.size.0,
            crashes: self.size.1,
            spent: self.spent,
        });
    }

    fn is_over(&self) -> bool {
        self.left == 0 || self.control.stopped().is_some()
    }

    fn charge(&mut self, work: u64) {
        self.left = self.left.saturating_sub(work);
        self.spent.work += work;
    }

    /// What tells an attempt apart from others.
    fn key(&self, what: &dyn fmt::Debug) -> u128 {
        let Scenario {
            files,
            faults,
            guest,
            device,
            run,
            ..
        } = &self.scenario;
        let work = self.scenario.explore.work;
        let setup = (
            &faults.script,
            files,
            guest,
            (
                device.capacity_bytes,
                device.max_capacity_bytes,
                device.flush,
                device.timing.flush,
            ),
            run.seeds,
            work,
        );
        xxh3_128(format!("{what:?}{setup:?}").as_bytes())
    }

    /// Whether faults affect the device in this case.
    fn is_faulty(&self, case: &Case) -> bool {
        !self.scenario.script().is_empty() || !case.faults.is_empty()
    }

    fn is_same(&self, violation: &Violation) -> bool {
        self.likeness.has(violation)
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
        self.charge(work(&driven.world));
        Some(driven)
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
        blame(&self.scenario, program, jobs, control)
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
        let crashes = case
            .process_runs
            .iter()
            .filter_map(|process_run| process_run.crash.as_ref());
        let persisted: usize = crashes.map(|crash| crash.persisted.len()).sum();
        format!(
            "{requests} requests, {} crashes, {persisted} persisted writes; after {} runs and {} explorations{}",
            case.crashes(),
            self.spent.runs,
            self.spent.explorations,
            if self.exhausted {
                ", stopped before it was done"
            } else {
                ""
            }
        )
    }
}

/// What the name of a small case ends with.
const SMALL: &str = "-small";
