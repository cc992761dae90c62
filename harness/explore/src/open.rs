//! An open process run: one that follows on a fixed prefix of process runs, and of which every crash point is known.
//!
//! A minimiser looks here for a failure, first around a cut that is known to fail; blame looks whether any is left. The process runs of the prefix are cut
//! as its case says; the open one goes on to its end, so that what comes after a cut is in its neighbourhood as well.
//!
//! Invariant: the order of the search depends on the case alone. Time and budget end it and move nothing.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

use kvsim_sim::{Intervention, Program, TraceMode};

use super::cost::work;
use super::level::{Ended, Walk, Wanted};
use super::meaning::Meaning;
use super::point::{Point, Recorder, SeenRun, crash};
use super::record::{later_clients, loaded};
use kvsim_drive::case::{Driven, Phase, ProcessRun, Source, Stop, drive_with_interventions};
use kvsim_drive::control::Control;
use kvsim_oracle::{Likeness, Violation};
use kvsim_scenario::case::{Case, CaseCrash, CaseRequest};
use kvsim_scenario::{ExploreConfig, Scenario};

/// States of one crash point when a small case is looked for: the simple ones come first.
const FEW_STATES: u64 = 500;
/// Crash points on either side of a cut that blame takes for its neighbourhood.
const NEIGHBOURS: usize = 96;
/// Crash points on either side of one that is most like a known cut.
const NEAR: usize = 6;
/// Crash points that are most like a known cut, far from each other.
const PEAKS: usize = 3;
/// Crash points at once that are searched from the end.
const POINTS_FROM_THE_END: usize = 16;
/// So many requests are searched from their first crash point on, for the earliest is the smallest. Where there are more, the last of them are what the
/// failure was waiting for, so the end is searched first.
pub const FEW_REQUESTS: usize = 12;

/// What follows on each state of the open process run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// No cut at all: what a guest does wrong while it runs.
    Uncut,
    /// One recovery after each state.
    Recovery,
    /// And work after it, one more cut and one more recovery.
    Again,
    /// And every state of that recovery.
    Deeper,
    /// One recovery after each state, and others in which the device fails.
    Errors,
}

impl Reach {
    /// Sets the bounds of an exploration to it.
    fn bound(self, explore: &mut ExploreConfig) {
        explore.depth = if self == Reach::Deeper { 2 } else { 1 };
        if self == Reach::Deeper {
            explore.work = 0;
            explore.deeper_every = 1;
        }
        explore.again_every = (self == Reach::Again).into();
        if self != Reach::Errors {
            explore.recovery_errors.clear();
        }
        explore.states_per_point = explore.states_per_point.min(FEW_STATES);
    }
}

/// What a case is run with.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// The scenario of the case.
    pub scenario: &'a Scenario,
    /// The guest.
    pub program: &'a Arc<dyn Program>,
    /// How many threads judge.
    pub jobs: NonZeroUsize,
    /// Who may end the search early.
    pub control: &'a Control,
}

/// What a process run is to do.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    /// The process runs before it, each of them cut.
    pub before: &'a Case,
    /// What its clients ask.
    pub requests: &'a [CaseRequest],
    /// What clients ask after each state, if something follows; drawn as the scenario says if this is absent.
    pub after: Option<&'a [CaseRequest]>,
    /// How far the states of its cuts are followed.
    pub reach: Reach,
}

/// An open process run and its crash points.
pub struct OpenRun<'a> {
    scenario: Scenario,
    control: &'a Control,
    jobs: NonZeroUsize,
    before: Case,
    process_run: Arc<SeenRun>,
    points: Vec<Point>,
    reach: Reach,
    /// A violation without any cut of it.
    uncut: Option<Box<Violation>>,
    /// What it took to come here.
    pub work: u64,
}

/// What judging points may take, and took.
#[derive(Debug, Clone, Copy)]
pub struct WorkBudget {
    /// Work that is left; where there is none, what was not seen yet was not looked at.
    pub left: u64,
}

impl WorkBudget {
    /// Takes so much out of it.
    pub fn charge(&mut self, work: u64) {
        self.left = self.left.saturating_sub(work);
    }
}

/// How far a search goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Extent {
    /// Around the points that are most like the known cut.
    Near,
    /// All points, these first.
    All,
    /// All points, the last ones first.
    Last,
    /// All points from where clients begin: an opening of a blank device is the same whatever they ask, and is known.
    Work,
}

impl<'a> OpenRun<'a> {
    /// Runs the prefix and then the open process run, with this done for the guest; nothing if the prefix does not lead there.
    pub fn new(
        setting: Setting<'a>,
        plan: Plan<'_>,
        interventions: &[Intervention],
    ) -> Option<OpenRun<'a>> {
        let mut scenario = setting.scenario.clone();
        scenario.case = None;
        plan.reach.bound(&mut scenario.explore);
        let seed = scenario.run.seeds.start;
        let (program, trace) = (setting.program, TraceMode::Off);
        let driven =
            drive_with_interventions(&scenario, plan.before, program, seed, trace, interventions)
                .ok()?;
        let Driven {
            end: Ok(()),
            world,
            oracle,
            crashes,
            ..
        } = driven
        else {
            return None;
        };
        let nothing_pending = world.storage().nothing_pending();
        let crashes = crashes.iter().sum();
        let source = Source::listed(plan.requests);
        let recorder = Some(Recorder::default());
        let mut seen_run = ProcessRun::new(world, oracle, source, &scenario, crashes, recorder);
        let (shown, ended) = match seen_run.recover() {
            Ok(shown) => {
                let adopted = seen_run.adopt(&shown, None);
                let ended = adopted.and_then(|()| seen_run.work());
                (Some(shown), ended)
            }
            Err(stop) => (None, Err(stop)),
        };
        // If it goes wrong on the way, the points up to there are what there is.
        let uncut = match ended {
            Err(Stop::Violation(violation)) => Some(violation),
            _ => None,
        };
        let log = std::mem::take(&mut seen_run.log);
        let (world, _, recorder) = seen_run.end();
        let clients = match plan.reach {
            Reach::Again if plan.after.is_none() => {
                later_clients(&scenario, program.as_ref(), seed).ok()?
            }
            _ => loaded(&scenario, program.as_ref(), seed).ok()?,
        };
        let process_run = Arc::new(SeenRun {
            trail: None,
            log,
            clients,
            after: plan.after.map(Arc::from),
            shown: shown.map(Arc::new),
            nothing_pending,
            crashes,
            faults: plan.before.faults.clone(),
        });
        Some(OpenRun {
            scenario,
            control: setting.control,
            jobs: setting.jobs,
            before: plan.before.clone(),
            process_run,
            points: recorder.unwrap_or_default().points,
            reach: plan.reach,
            uncut,
            work: work(&world),
        })
    }

    /// The first point at which clients work.
    fn first_of_work(&self) -> usize {
        let mut points = self.points.iter();
        let first = points.position(|point| point.phase == Phase::Working);
        first.unwrap_or(self.points.len())
    }

    /// A case that fails alike: at a cut near one that is known first.
    pub fn search(
        &self,
        likeness: &Likeness,
        near: Option<&Meaning>,
        extent: Extent,
        budget: &mut WorkBudget,
    ) -> Option<Case> {
        if let Some(violation) = &self.uncut
            && likeness.has(violation)
        {
            let process_run = self.process_run.case(self.process_run.log.len(), None);
            return Some(self.whole(process_run));
        }
        if self.reach == Reach::Uncut {
            return None;
        }
        let mut scenario = self.scenario.clone();
        scenario.explore.violations_max = 1;
        let mut walk = Walk {
            wanted: Wanted::Only(likeness.clone()),
            work_max: budget.left,
            ..Walk::new(&scenario, self.control, self.jobs, scenario.run.seeds.start)
        };
        let is_short = self.process_run.log.len() <= FEW_REQUESTS;
        let mut stretches = near.map_or_else(Vec::new, |near| self.windows(near));
        let first = match extent {
            Extent::Work => self.first_of_work(),
            _ => 0,
        };
        if matches!(extent, Extent::All | Extent::Work) && is_short {
            stretches = std::iter::once(first..self.points.len()).collect();
        } else if extent != Extent::Near {
            let mut end = self.points.len();
            while end > first {
                let start = end.saturating_sub(POINTS_FROM_THE_END).max(first);
                stretches.push(start..end);
                end = start;
            }
        }
        for stretch in stretches {
            // What was found before it ended counts. A state that cannot be judged says nothing of the others.
            match walk.points(&self.process_run, &self.points[stretch]) {
                Ok(_) | Err((_, Ended::Failed(_))) => {}
                Err(_) => break,
            }
        }
        budget.charge(walk.work);
        let found = walk.found.into_iter().next();
        found.map(|found| self.whole(*found.case))
    }

    /// The cut that is most like a known one.
    pub fn cut_like(&self, near: &Meaning) -> Option<CaseCrash> {
        let point = &self.points[*self.ranked(near).first()?];
        let state = near.state(point.moment.storage());
        Some(crash(point, near.kind(), &state))
    }

    /// The case that begins with the prefix.
    fn whole(&self, mut case: Case) -> Case {
        let mut whole = self.before.clone();
        whole.process_runs.append(&mut case.process_runs);
        whole.faults.append(&mut case.faults);
        whole
    }

    /// Stretches of points around those that are most like a known cut, the most alike first.
    fn windows(&self, near: &Meaning) -> Vec<Range<usize>> {
        let ranked = self.ranked(near);
        let mut peaks: Vec<usize> = Vec::new();
        for at in ranked {
            if peaks.iter().all(|peak| peak.abs_diff(at) > NEAR) {
                peaks.push(at);
            }
            if peaks.len() == PEAKS {
                break;
            }
        }
        let window = |at: &usize| at.saturating_sub(NEAR)..self.points.len().min(at + NEAR + 1);
        peaks.iter().map(window).collect()
    }

    /// The points, those first that are most like a known cut; of equals the latest.
    fn ranked(&self, near: &Meaning) -> Vec<usize> {
        let all = self.process_run.log.len();
        let mut ranked: Vec<(i64, usize)> = (0..)
            .zip(&self.points)
            .map(|(at, point)| (near.likeness(point, all - point.sent.min(all)), at))
            .collect();
        ranked.sort_unstable_by(|one, other| other.cmp(one));
        ranked.into_iter().map(|(_, at)| at).collect()
    }

    /// What a cut may lose at each point: its event, and the numbers of what is pending.
    pub fn pending(&self) -> Vec<(u64, Vec<u64>)> {
        let points = self.points.iter();
        points
            .map(|point| (point.event, point.moment.storage().pending_ids()))
            .collect()
    }

    /// Those of these points at which something else is pending than `before` says, which is of the same process run without what is done for the
    /// guest. That moves no event, but where nothing changes there is no point.
    pub fn changed(&self, points: Range<usize>, before: &[(u64, Vec<u64>)]) -> Vec<usize> {
        let differs = |at: &usize| {
            let point = &self.points[*at];
            let until = before.partition_point(|(event, _)| *event <= point.event);
            let pending = until.checked_sub(1).map(|last| &before[last].1);
            pending != Some(&point.moment.storage().pending_ids())
        };
        points.filter(differs).collect()
    }

    /// The first violation at these points that counts, as far as the budget reaches.
    pub fn first(
        &self,
        points: impl IntoIterator<Item = usize>,
        wanted: Wanted,
        budget: &mut WorkBudget,
    ) -> Option<Box<Violation>> {
        let points = points.into_iter().map(|at| self.points[at].clone());
        let points: Vec<Point> = points.collect();
        let mut scenario = self.scenario.clone();
        scenario.explore.violations_max = 1;
        let mut walk = Walk {
            wanted,
            work_max: budget.left,
            ..Walk::new(&scenario, self.control, self.jobs, scenario.run.seeds.start)
        };
        // Whether it ends early makes no difference: what was found before that counts.
        let _ = walk.points(&self.process_run, &points);
        budget.charge(walk.work);
        let found = walk.found.into_iter().next();
        found.map(|found| found.violation)
    }

    /// The points around the one of this event; all of them where they are few.
    pub fn neighbours(&self, event: u64) -> Range<usize> {
        let here = self.points.iter().rposition(|point| point.event <= event);
        let here = here.unwrap_or(0);
        here.saturating_sub(NEIGHBOURS)..self.points.len().min(here + NEIGHBOURS + 1)
    }
}
