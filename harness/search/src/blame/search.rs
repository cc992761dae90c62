//! Tries one thing after the other, the least first.

use std::collections::{BTreeMap, BTreeSet};

use kvsim_sim::api::RequestId;
use kvsim_sim::{Effort, Intervention, Place, Trace, TraceMode, TracedCall};
use kvsim_simdisk::{OpId, Sectors};

use super::timeline::Timeline;
use super::{conditions, faults};
use crate::explore::cost::{event_limit, work};
use crate::explore::level::Wanted;
use crate::explore::open::{Setting, WorkBudget};
use kvsim_drive::case::{Course, Stop, drive_on, drive_with_interventions};
use kvsim_findings::blame::{Blame, Fix, Missing};
use kvsim_oracle::{Class, Property};
use kvsim_scenario::Scenario;
use kvsim_scenario::case::Case;

/// Operations after an answer whose end it is held back for, one after the other, at most.
const AWAITED_MAX: usize = 12;

/// What a cut may lose at each point of a process run: the event of the point, and the numbers of what is pending.
pub(super) type Pending = Vec<(u64, Vec<u64>)>;

/// A case under suspicion.
pub(super) struct Suspect<'a> {
    pub(super) setting: Setting<'a>,
    pub(super) case: &'a Case,
    pub(super) class: Class,
    /// What is lost was promised. Else the answer to a relaxed write is not to blame: it may be lost.
    was_promised: bool,
    pub(super) timeline: Timeline,
    /// The same with the last cut left out: what the guest would have done.
    uncut: Timeline,
    /// The events of that.
    pub(super) whole: Trace,
    /// The process run that ends with the last cut.
    pub(super) last: usize,
    pub(super) budget: WorkBudget,
    pub(super) tried: u64,
    /// From which process run on, and whether operations wait too: whether all that can be done of the kind helps.
    all_help: BTreeMap<(usize, bool), bool>,
    /// Of an engine on files, by process run: what a cut may lose at each of its points, with nothing done for the guest.
    pub(super) pending: BTreeMap<usize, Option<Pending>>,
    /// Of an engine on files, by process run and class: whether it fails so with nothing done for it.
    pub(super) fails_anyway: BTreeMap<(usize, Class), bool>,
    /// What could be saved is missed only where it is torn.
    pub(super) only_torn: bool,
}

/// What is tried before what: the next only if nothing helps before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tier {
    /// Something is made durable that is not.
    Durable,
    /// Somebody is told later.
    Told,
    /// Space is used again later.
    Reused,
    /// A write is held back.
    Ordered,
}

pub(super) fn search(setting: Setting<'_>, case: &Case, work_max: u64) -> Result<Blame, String> {
    let seed = setting.scenario.run.seeds.start;
    let run = |scenario: &Scenario, case: &Case| {
        let trace = TraceMode::Full;
        drive_with_interventions(scenario, case, setting.program, seed, trace, &[])
            .map_err(|stop| format!("it cannot be run: {stop:?}"))
    };
    let driven = run(setting.scenario, case)?;
    let Err(Stop::Violation(violation)) = &driven.end else {
        return Err("the case does not fail, so there is nothing to blame".to_owned());
    };
    let Some(last) = case
        .process_runs
        .iter()
        .rposition(|process_run| process_run.crash.is_some())
    else {
        // Without a cut nothing is lost that a flush could save.
        return Ok(Blame::default());
    };
    let class = violation.class();
    if let Some(fault) = faults::needed(setting, case, class, &driven) {
        return Ok(Blame {
            fault: Some(fault),
            tried: 1,
            ..Blame::default()
        });
    }
    // What the cut left is legal then, whatever was missing before it.
    if class == Class::Reading && driven.last_is_recovered {
        return Ok(Blame {
            working: true,
            tried: 1,
            ..Blame::default()
        });
    }
    let mut scenario = setting.scenario.clone();
    scenario.run.events_max = event_limit(&scenario, &driven.world);
    let setting = Setting {
        scenario: &scenario,
        ..setting
    };
    let mut whole = case.clone();
    whole.process_runs.truncate(last + 1);
    whole.process_runs[last].crash = None;
    let whole = run(&scenario, &whole)?;
    let reads = conditions::reads(driven.world.trace());
    let mut suspect = Suspect {
        setting,
        case,
        class,
        was_promised: violation.property == Property::AcknowledgedDurable,
        timeline: Timeline::new(driven.world.trace(), driven.sent),
        uncut: Timeline::new(whole.world.trace(), whole.sent),
        whole: whole.world.trace().clone(),
        last,
        budget: WorkBudget { left: work_max },
        tried: 0,
        all_help: BTreeMap::new(),
        pending: BTreeMap::new(),
        fails_anyway: BTreeMap::new(),
        only_torn: false,
    };
    if setting.scenario.files.is_some() {
        let cuts = &driven.world.trace().notes().cuts;
        return Ok(super::files::search(&mut suspect, cuts));
    }
    let mut blame = Blame::default();
    for tier in [Tier::Durable, Tier::Told, Tier::Ordered, Tier::Reused] {
        blame.fixes = suspect.fixes(tier);
        if blame.fixes.is_empty() {
            blame.fixes = suspect.fixes_together(tier);
            blame.together = blame.fixes.len() > 1;
        }
        if !blame.fixes.is_empty() {
            break;
        }
    }
    if blame.fixes.is_empty() || blame.is_of_recovery() {
        blame.conditions = conditions::all(&mut suspect, &reads);
    }
    blame.only_torn = blame.fixes.is_empty() && suspect.only_torn;
    blame.tried = suspect.tried;
    blame.exhausted = suspect.is_over();
    Ok(blame)
}

impl<'a> Suspect<'a> {
    pub(super) fn is_over(&self) -> bool {
        self.budget.left == 0 || self.setting.control.stopped().is_some()
    }

    fn fixes(&mut self, tier: Tier) -> Vec<Fix> {
        match tier {
            Tier::Durable => {
                let mut fixes = Vec::new();
                for process_run in self.hopeful(false) {
                    fixes.extend(self.write_throughs(process_run));
                }
                for process_run in self.hopeful(false) {
                    fixes.extend(self.flushes(process_run));
                }
                fixes
            }
            Tier::Told => {
                let mut fixes = Vec::new();
                for process_run in self.hopeful(false) {
                    fixes.extend(self.barriers(process_run, Missing::LaterAnswer));
                }
                if fixes.is_empty() {
                    for process_run in 0..=self.last {
                        fixes.extend(self.later_answers(process_run));
                    }
                }
                fixes
            }
            Tier::Reused => self.reuses(),
            Tier::Ordered => {
                let process_runs = self.hopeful(true).into_iter();
                process_runs
                    .flat_map(|process_run| self.barriers(process_run, Missing::Barrier))
                    .collect()
            }
        }
    }

    /// Whether the failure is gone from the last process run if, from this process run on, all writes are durable when they complete and answers wait for what was
    /// submitted before them; if `ordered`, operations wait for that too. What is possible then is possible with any single intervention of that kind: so if
    /// that is not well, none of them can be.
    fn would_all_help(&mut self, from: usize, ordered: bool) -> bool {
        if let Some(known) = self.all_help.get(&(from, ordered)) {
            return *known;
        }
        let mut interventions = Vec::new();
        for (process_run, places) in (1..).zip(&self.uncut.process_runs).skip(from) {
            let mut intervention = |place, effort| {
                interventions.push(Intervention {
                    process_run,
                    place,
                    effort,
                });
            };
            for place in places {
                match *place {
                    Place::Submitting(op) => {
                        intervention(Place::Submitted(op), Effort::WriteThrough);
                        if ordered {
                            intervention(*place, Effort::Barrier);
                        }
                    }
                    Place::Replying(id) if self.is_a_promise(id) => {
                        intervention(*place, Effort::Barrier);
                    }
                    Place::Replying(_)
                    | Place::Submitted(_)
                    | Place::Completed(_)
                    | Place::Called(_) => {}
                }
            }
        }
        self.tried += 1;
        let wanted = Wanted::Only(self.class.into());
        // A case that does not lead there any more says nothing.
        let cut = self.case.process_runs[self.last].crash.as_ref();
        let event = cut.map_or(u64::MAX, |crash| crash.after_event);
        let helps = self.around(self.last, &interventions).is_none_or(|around| {
            let first = around.first(around.neighbours(event), wanted, &mut self.budget);
            first.is_none()
        });
        self.all_help.insert((from, ordered), helps);
        helps
    }

    /// Process runs in which an intervention of this kind may help.
    pub(super) fn hopeful(&mut self, ordered: bool) -> Vec<usize> {
        let process_runs = 0..=self.last;
        // Each takes a run of all that comes before it, so whoever is out of time asks no more.
        process_runs
            .filter(|process_run| !self.is_over() && self.would_all_help(*process_run, ordered))
            .collect()
    }

    /// Where in the engine's own code these calls of the file system are made. Nothing of an engine that cannot tell.
    pub(super) fn places_of(&self, calls: &BTreeSet<u64>) -> BTreeMap<u64, TracedCall> {
        if calls.is_empty() {
            return BTreeMap::new();
        }
        let scenario = self.setting.scenario;
        let course = Course {
            traced_calls: Some(calls),
            ..Course::default()
        };
        let seed = scenario.run.seeds.start;
        let trace = TraceMode::Off;
        let driven = drive_on(
            scenario,
            self.case,
            self.setting.program,
            seed,
            trace,
            course,
        );
        driven.map_or_else(
            |_| BTreeMap::new(),
            |driven| driven.world.traced_calls().clone(),
        )
    }

    pub(super) fn fix(&self, missing: Missing, process_run: usize, sentence: &str) -> Fix {
        let when = if self.last == 0 {
            String::new()
        } else {
            format!(" (in process run {})", process_run + 1)
        };
        Fix {
            missing,
            process_run: process_run as u64 + 1,
            sentence: format!("{sentence}{when}"),
            after_call: None,
            file: None,
        }
    }

    pub(super) fn places(&self, process_run: usize) -> Vec<Place> {
        self.timeline
            .process_runs
            .get(process_run)
            .cloned()
            .unwrap_or_default()
    }

    fn write_throughs(&mut self, process_run: usize) -> Vec<Fix> {
        let mut fixes = Vec::new();
        for place in self.places(process_run) {
            let Place::Submitting(op) = place else {
                continue;
            };
            // What takes one run comes before what takes many.
            if self.timeline.is_cached_write(op)
                && self.fails_lost(process_run, &[op])
                && self.helps(process_run, Place::Submitted(op), Effort::WriteThrough)
            {
                let write = self.timeline.operation(op);
                let sentence = format!("{write} written through");
                fixes.push(self.fix(Missing::WriteThrough, process_run, &sentence));
            }
        }
        fixes
    }

    /// Flushes, stretches of places at which one helps taken together.
    fn flushes(&mut self, process_run: usize) -> Vec<Fix> {
        let places = self.places(process_run);
        // A flush before the first write has nothing to do.
        let first = places
            .iter()
            .position(|place| matches!(place, Place::Completed(_)));
        let helps: Vec<bool> = (0..places.len())
            .map(|at| {
                first.is_some_and(|first| at >= first)
                    && self.fails_lost(process_run, &completed(&places[..=at]))
                    && self.helps(process_run, places[at], Effort::Flush)
            })
            .collect();
        let mut fixes = Vec::new();
        let mut at = 0;
        for stretch in helps.chunk_by(|one, other| one == other) {
            let (begin, end) = (at, at + stretch.len());
            at = end;
            if stretch[0] {
                let sentence = self.between(&places, begin, end - 1);
                fixes.push(self.fix(Missing::Flush, process_run, &sentence));
            }
        }
        fixes
    }

    /// From what to what a flush may come that helps at these places.
    fn between(&self, places: &[Place], begin: usize, end: usize) -> String {
        let what = |at: usize| self.timeline.what(places[at]);
        let from = match places[begin] {
            Place::Completed(_) => Some(begin),
            _ => begin.checked_sub(1),
        };
        let to = match places[end] {
            Place::Completed(_) => Some(end + 1).filter(|next| *next < places.len()),
            _ => Some(end),
        };
        match (from, to) {
            (Some(from), Some(to)) => format!("a flush between {} and {}", what(from), what(to)),
            (Some(from), None) => format!("a flush after {}", what(from)),
            (None, Some(to)) => format!("a flush before {}", what(to)),
            (None, None) => "a flush".to_owned(),
        }
    }

    /// Writes of the process run that is cut last of which it was too early to overwrite what was durable there: with that in place it passes,
    /// and with zeroes there it fails in the same way. So what was there is missed, and the new bytes are not to blame. A torn
    /// write has to fail when it is whole too. If only the torn version fails, the bug is in torn-write handling, not in early reuse.
    fn reuses(&mut self) -> Vec<Fix> {
        let process_run = self.last;
        let places = self.places(process_run).into_iter();
        let writes: Vec<OpId> = places
            .filter_map(|place| match place {
                Place::Submitting(op) if self.timeline.changes(op) => Some(op),
                _ => None,
            })
            .collect();
        let mut fixes = Vec::new();
        for op in writes {
            if self.is_over() {
                break;
            }
            let with = |effort| {
                [Intervention {
                    process_run: process_run as u64 + 1,
                    place: Place::Submitted(op),
                    effort,
                }]
            };
            self.tried += 2;
            let is_missed = matches!(self.end(&with(Effort::Aside)), Some(Ok(())))
                && matches!(
                    self.end(&with(Effort::Erased)),
                    Some(Err(Stop::Violation(violation)))
                        if violation.class() == self.class
                );
            if !is_missed || !self.fails_whole(op) {
                continue;
            }
            let sentence = format!(
                "{} not yet, for what it overwrites is still needed",
                self.timeline.operation(op)
            );
            fixes.push(self.fix(Missing::LaterReuse, process_run, &sentence));
        }
        fixes
    }

    /// Whether what the last cut keeps of a write in part, if it does, ends in a failure of whatever kind if it is kept whole.
    fn fails_whole(&mut self, op: OpId) -> bool {
        let mut case = self.case.clone();
        let crash = case.process_runs[self.last].crash.as_mut();
        let persisted = crash.into_iter().flat_map(|crash| &mut crash.persisted);
        let mut torn = persisted.filter(|own| own.id == op && own.sectors != Sectors::All);
        let Some(torn) = torn.next() else {
            return true;
        };
        torn.sectors = Sectors::All;
        self.fails(&case)
    }

    /// Whether the failure stays, of whatever kind, if all writes among these operations of this process run that a cut
    /// tears are lost altogether. What survives a kill of the process may be torn by the cut of a later one. A flush is
    /// reported only if losing the data it protects causes the failure. If the guest copes with the loss, and only the
    /// torn version fails, the bug is in torn-write handling.
    pub(super) fn fails_lost(&mut self, process_run: usize, ops: &[OpId]) -> bool {
        let mut case = self.case.clone();
        let mut torn = 0;
        for crash in case.process_runs[process_run..]
            .iter_mut()
            .filter_map(|run| run.crash.as_mut())
        {
            let kept = crash.persisted.len();
            crash
                .persisted
                .retain(|own| own.sectors == Sectors::All || !ops.contains(&own.id));
            torn += kept - crash.persisted.len();
        }
        torn == 0 || self.fails(&case)
    }

    pub(super) fn fails(&mut self, case: &Case) -> bool {
        self.tried += 1;
        matches!(self.end_of(case, &[]), Some(Err(Stop::Violation(_))))
    }

    /// Answers, or else operations, that have to wait for all that was submitted before them.
    fn barriers(&mut self, process_run: usize, missing: Missing) -> Vec<Fix> {
        let mut fixes = Vec::new();
        for place in self.places(process_run) {
            let fits = match place {
                Place::Replying(id) => missing == Missing::LaterAnswer && self.is_a_promise(id),
                Place::Submitting(_) => missing == Missing::Barrier,
                Place::Submitted(_) | Place::Completed(_) | Place::Called(_) => false,
            };
            if fits && self.helps(process_run, place, Effort::Barrier) {
                let what = self.timeline.what(place);
                let sentence =
                    format!("{what} held back until all that was submitted before it is durable");
                fixes.push(self.fix(missing, process_run, &sentence));
            }
        }
        fixes
    }

    /// Whether an answer may be given too early.
    pub(super) fn is_a_promise(&self, id: RequestId) -> bool {
        self.was_promised || !self.timeline.is_relaxed(id)
    }

    /// Answers that are given before anything is written for them, and have to wait for an operation that ends only afterwards: the first
    /// one whose end is late enough; or for good, if what they promise is never written.
    fn later_answers(&mut self, process_run: usize) -> Vec<Fix> {
        let ends = self
            .uncut
            .ends
            .get(process_run)
            .cloned()
            .unwrap_or_default();
        let mut fixes = Vec::new();
        for place in self.places(process_run) {
            let Place::Replying(id) = place else {
                continue;
            };
            if !self.is_a_promise(id) || !self.timeline.is_rash(process_run, id) {
                continue;
            }
            let after = ends.iter().skip_while(|end| **end != place);
            let awaited = after.filter_map(|end| match end {
                Place::Completed(op) => Some(*op),
                _ => None,
            });
            let awaited: Vec<OpId> = awaited.take(AWAITED_MAX).chain([OpId::MAX]).collect();
            let helps = |op: &&OpId| self.helps(process_run, place, Effort::Later(**op));
            if let Some(&op) = awaited.iter().find(helps) {
                let what = self.timeline.what(place);
                let sentence = match op {
                    OpId::MAX => format!("{what} not given, since nothing is written for it"),
                    op => format!(
                        "{what} held back until {} has completed",
                        self.uncut.operation(op)
                    ),
                };
                fixes.push(self.fix(Missing::LaterAnswer, process_run, &sentence));
            }
        }
        fixes
    }

    /// Whether this, done for the guest, ends the failure: in the case, and in the states around it.
    fn helps(&mut self, process_run: usize, place: Place, effort: Effort) -> bool {
        self.all_help_together(&[Intervention {
            process_run: process_run as u64 + 1,
            place,
            effort,
        }])
    }

    /// The same for several things that are done at once.
    pub(super) fn all_help_together(&mut self, interventions: &[Intervention]) -> bool {
        let Some(first) = interventions
            .iter()
            .map(|intervention| intervention.process_run)
            .min()
        else {
            return false;
        };
        if self.is_over() {
            return false;
        }
        self.tried += 1;
        let first = usize::try_from(first - 1).unwrap_or(usize::MAX);
        let passes = self.case_passes(interventions);
        let helps = passes && (first..=self.last).all(|at| self.is_well(at, interventions));
        tracing::debug!(?interventions, passes, helps, "tried");
        // What ended on the way found nothing for want of looking.
        helps && !self.is_over()
    }

    fn case_passes(&mut self, interventions: &[Intervention]) -> bool {
        matches!(self.end(interventions), Some(Ok(())))
    }

    /// How the case ends; what cannot be run says nothing.
    fn end(&mut self, interventions: &[Intervention]) -> Option<Result<(), Stop>> {
        self.end_of(self.case, interventions)
    }

    fn end_of(&mut self, case: &Case, interventions: &[Intervention]) -> Option<Result<(), Stop>> {
        let Setting {
            scenario, program, ..
        } = self.setting;
        let seed = scenario.run.seeds.start;
        let driven =
            drive_with_interventions(scenario, case, program, seed, TraceMode::Off, interventions);
        let driven = driven.ok()?;
        self.budget.charge(work(&driven.world));
        Some(driven.end)
    }
}

/// The operations that have completed at these places.
fn completed(places: &[Place]) -> Vec<OpId> {
    let ends = places.iter().filter_map(|place| match place {
        Place::Completed(op) => Some(*op),
        _ => None,
    });
    ends.collect()
}
