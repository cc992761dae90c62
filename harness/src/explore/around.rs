//! The neighbourhood of a cut: a life of a case once more, uncut, with all its crash points.
//!
//! Whether something mends a failure cannot be told from the one state in which it was seen: a change that moves the cut out of the way
//! by luck would pass. So the states around it are judged too.
//!
//! Invariant: lives before the one in question are cut as the case says; this one goes on to its end, so that what comes after the cut is
//! in its neighbourhood as well.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

use kvsim_sim::{Mend, Program, TraceMode};

use super::FEW_STATES;
use super::level::Walk;
use super::point::{Lived, Point, Recorder};
use super::record::later_clients;
use super::report::Found;
use super::toll::work;
use crate::case::{Case, Driven, Incarnation, Source, drive_mended};
use crate::control::Control;
use crate::oracle::{Property, Symptom, Violation};
use crate::scenario::{ExploreConfig, Scenario};

/// Failing states that are listed of one life at most.
const FAILURES_LISTED_MAX: u64 = 1_000;

/// How far a neighbourhood goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
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
    pub(super) fn bound(self, explore: &mut ExploreConfig) {
        explore.depth = 1;
        if self == Reach::Deeper {
            (explore.depth, explore.work) = (2, 0);
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
pub(crate) struct Setting<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) program: &'a Arc<dyn Program>,
    pub(crate) jobs: NonZeroUsize,
    pub(crate) control: &'a Control,
}

/// A life and its crash points.
pub(crate) struct Around<'a> {
    scenario: Scenario,
    control: &'a Control,
    jobs: NonZeroUsize,
    life: Arc<Lived>,
    points: Vec<Point>,
    /// What it took to come here.
    pub(crate) work: u64,
}

/// What judging points may take, and took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Purse {
    /// Work that is left; where there is none, what was not seen yet was not looked at.
    pub(crate) left: u64,
}

impl Purse {
    /// Takes so much out of it.
    pub(crate) fn pay(&mut self, work: u64) {
        self.left = self.left.saturating_sub(work);
    }
}

impl<'a> Around<'a> {
    /// The life number `life` of a case, with this done for the guest; nothing if the case does not lead there any more.
    pub(crate) fn new(
        setting: Setting<'a>,
        case: &Case,
        life: usize,
        reach: Reach,
        mends: &[Mend],
    ) -> Option<Around<'a>> {
        let Setting {
            program,
            jobs,
            control,
            ..
        } = setting;
        let mut scenario = setting.scenario.clone();
        scenario.case = None;
        let explore = &mut scenario.explore;
        explore.depth = if reach == Reach::Deeper { 2 } else { 1 };
        explore.again_every = (reach == Reach::Again).into();
        explore.states_per_point = explore.states_per_point.min(FEW_STATES);
        let before = Case {
            lives: case.lives.get(..life)?.to_vec(),
            faults: case.faults.clone(),
        };
        let seed = scenario.run.seeds.start;
        let driven = drive_mended(&scenario, &before, program, seed, TraceMode::Off, mends).ok()?;
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
        let settled = world.device().pending().is_empty();
        let crashes = crashes.iter().sum();
        let source = Source::listed(&case.lives.get(life)?.requests);
        let recorder = Some(Recorder::default());
        let mut lived = Incarnation::new(world, oracle, source, &scenario, crashes, recorder);
        let shown = lived.recover().ok();
        if let Some(shown) = &shown
            && lived.adopt(shown, None).is_ok()
        {
            // If it goes wrong on the way, the points up to there are what there is.
            let _ = lived.work();
        }
        let log = std::mem::take(&mut lived.log);
        let (world, _, recorder) = lived.end();
        let clients = later_clients(&scenario, seed).ok()?;
        let life = Arc::new(Lived {
            trail: None,
            log,
            clients,
            shown: shown.map(Arc::new),
            settled,
            crashes,
            faults: case.faults.clone(),
        });
        Some(Around {
            scenario,
            control,
            jobs,
            life,
            points: recorder.unwrap_or_default().points,
            work: work(&world),
        })
    }

    /// All its points.
    pub(crate) fn all(&self) -> Range<usize> {
        0..self.points.len()
    }

    /// The first violation at these points, of this kind if one is given, as far as the purse reaches.
    pub(crate) fn first(
        &self,
        points: Range<usize>,
        kind: Option<(Property, Symptom)>,
        purse: &mut Purse,
    ) -> Option<Box<Violation>> {
        let found = self.walk(points, kind, 1, true, purse);
        found.into_iter().next().map(|found| found.violation)
    }

    /// The stretch of points around the one of this event at each of which a failure of this kind is possible.
    pub(crate) fn stretch(
        &self,
        event: u64,
        kind: (Property, Symptom),
        purse: &mut Purse,
    ) -> Option<Range<usize>> {
        let found = self.walk(self.all(), Some(kind), FAILURES_LISTED_MAX, false, purse);
        let fails = |at: usize| found.iter().any(|found| found.origin == at as u64);
        let here = self.points.iter().rposition(|point| point.event <= event)?;
        if !fails(here) {
            return None;
        }
        let first = (0..here).rev().take_while(|at| fails(*at)).last();
        let last = (here..self.points.len()).take_while(|at| fails(*at)).last();
        Some(first.unwrap_or(here)..last.unwrap_or(here) + 1)
    }

    fn walk(
        &self,
        points: Range<usize>,
        wanted: Option<(Property, Symptom)>,
        violations_max: u64,
        skip_seen: bool,
        purse: &mut Purse,
    ) -> Vec<Found> {
        let mut scenario = self.scenario.clone();
        scenario.explore.violations_max = violations_max;
        let mut walk = Walk {
            skip_seen,
            wanted,
            work_max: purse.left,
            ..Walk::new(&scenario, self.control, self.jobs, scenario.run.seeds.start)
        };
        // Whether it ends early makes no difference: what was found before that counts.
        let _ = walk.points(&self.life, &self.points[points]);
        purse.pay(walk.work);
        walk.found
    }
}
