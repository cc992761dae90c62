//! One crash state: pull the plug, recover in a fresh instance, read back, judge; then, if it is to go deeper, work and see every
//! moment of that.

use std::sync::Arc;

use kvsim_sim::World;
use kvsim_simdisk::{CrashKind, CrashState};

use super::cost::{Cost, work};
use super::errors;
use super::known::{Before, Number, Recoveries};
use super::point::{Point, Recorder, SeenRun, Trail, crash};
use super::states::least;
use kvsim_drive::case::{ProcessRun, Source, Stop, Transcript, blame_the_crash};
use kvsim_findings::explore::ErrorCounts;
use kvsim_oracle::{Ending, Observation, Oracle, Violation};
use kvsim_scenario::Scenario;
use kvsim_scenario::case::{Case, CaseCrash, CaseRun};

/// A state to be judged.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    pub(crate) process_run: &'a Arc<SeenRun>,
    pub(crate) point: &'a Point,
    pub(crate) kind: CrashKind,
    pub(crate) state: &'a CrashState,
    pub(crate) then: Then,
}

/// What follows on a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// Nothing.
    Nothing,
    /// Work, one more cut that keeps the least, and one more recovery.
    Again,
    /// Work, and each of its moments is a crash point.
    Deeper,
}

/// What a state came to.
pub(crate) enum Judged {
    /// All properties hold.
    Legal {
        /// The process run that followed and its points, if it was to go deeper.
        deeper: Option<(Arc<SeenRun>, Vec<Point>)>,
        /// Recoveries that it took; 0 if the one of another state did.
        recoveries: u64,
        /// Recoveries in which the device failed.
        errors: ErrorCounts,
    },
    /// The guest reports damage or a device error, as it may.
    Reported,
    /// One does not.
    Violation(Box<Violation>, Box<Case>),
    /// It cannot be judged.
    Failed(Failed),
}

/// Why a state cannot be judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failed {
    /// The explorer asked for what cannot be: why.
    Rejected(String),
    /// The run is invalid by the host's doing: why.
    Invalid(String),
    /// It has reached the bound on events.
    OutOfEvents,
}

/// Judges states that have the same bytes but different writes that must survive. One recovery serves for all of them
/// if all pass; a known recovery serves too where that is allowed. Beside each result: what its recoveries cost.
pub(crate) fn judge_alike(
    scenario: &Scenario,
    tasks: &[Task<'_>],
    known: &mut Recoveries,
) -> Vec<(Judged, Cost)> {
    let Some((first, others)) = tasks.split_first() else {
        return Vec::new();
    };
    let mut cost = Cost::default();
    let (judged, recovery) = judge(scenario, first, known, &mut cost);
    let judged = failing(scenario, first, judged, &mut cost);
    let mut all = vec![(judged, cost)];
    for task in others {
        let now = task.point.moment.now();
        let is_known = recovery.is_some_and(|number| {
            known.is_of_time(number, now) && is_legal(scenario, task, known.transcript(number))
        });
        let mut cost = Cost::default();
        let judged = if is_known {
            legal(None, 0)
        } else {
            judge(scenario, task, known, &mut cost).0
        };
        let judged = failing(scenario, task, judged, &mut cost);
        all.push((judged, cost));
    }
    all
}

/// A state that is legal as long as the device does what it is told, judged with a device that fails in the recovery.
fn failing(scenario: &Scenario, task: &Task<'_>, judged: Judged, cost: &mut Cost) -> Judged {
    match judged {
        Judged::Legal {
            deeper, recoveries, ..
        } if !scenario.explore.recovery_errors.is_empty() => {
            match errors::judge_failing(scenario, task, cost) {
                Ok(errors) => Judged::Legal {
                    deeper,
                    recoveries,
                    errors,
                },
                Err((stop, case)) => ended(stop, || *case),
            }
        }
        judged => judged,
    }
}

/// Whether what a recovery of the same bytes showed is legal here too. If not, or if it cannot be told, the state is judged by itself.
fn is_legal(scenario: &Scenario, task: &Task<'_>, transcript: &Transcript) -> bool {
    let oracle = task.point.oracle_after(task.kind);
    let Some(seen) = transcript.read_by(oracle, &scenario.check) else {
        return false;
    };
    let truth = transcript.truth();
    let same = task
        .point
        .reference(task.process_run, task.kind)
        .is_none_or(|reference| oracle.same_recovery(reference, &seen, truth).is_ok());
    let judged = oracle.judge(&seen, truth);
    same && judged.is_ok_and(|recovery| !recovery.is_undecided())
}

/// Judges a state; and by which recovery, if it was a mere recovery and all was well.
fn judge(
    scenario: &Scenario,
    task: &Task<'_>,
    known: &mut Recoveries,
    cost: &mut Cost,
) -> (Judged, Option<Number>) {
    let Task {
        process_run,
        point,
        kind,
        state,
        then,
    } = *task;
    let mut world = match point.moment.crashed(kind, state) {
        Ok(world) => world,
        Err(error) => return (failed(Failed::Invalid(error.to_string())), None),
    };
    // A device that kept its power may still be at work, so its contents do not say all.
    let is_mere = then == Then::Nothing && kind == CrashKind::Power;
    let bytes = is_mere
        .then(|| Before::of(world.storage(), world.now()))
        .flatten();
    if let Some(bytes) = &bytes {
        if let Some(number) = known.find(bytes)
            && is_legal(scenario, task, known.transcript(number))
        {
            return (legal(None, 0), Some(number));
        }
        world.note_reads();
    }
    if then == Then::Nothing {
        // Nobody cuts it, so its steps are of no use.
        world.without_steps();
    }
    let (nothing_pending, before) = (world.storage().nothing_pending(), work(&world));
    let source = match (&process_run.after, then) {
        (_, Then::Nothing) => Source::listed(&[]),
        (Some(requests), _) => Source::listed(requests),
        (None, _) => {
            let mut clients = process_run.clients.clone();
            clients.crashed();
            Source::drawn(clients, scenario.explore.work)
        }
    };
    let recorder = (then == Then::Deeper).then(Recorder::default);
    let crashes = process_run.crashes + 1;
    let oracle = Arc::clone(point.oracle_after(kind));
    let mut next = ProcessRun::new(world, oracle, source, scenario, crashes, recorder);
    if then == Then::Nothing {
        next.keep_transcript();
    }
    let shown = live(&mut next, point.reference(process_run, kind), then);
    if shown.is_err() || then != Then::Again {
        cost.add(next.world(), before);
    }
    cost.undecided += next.undecided;
    let log = std::mem::take(&mut next.log);
    let seen_run = |log, clients, shown| SeenRun {
        trail: Some(Arc::new(Trail {
            process_run: Arc::clone(process_run),
            crash: crash(point, kind, state),
            sent: point.sent,
        })),
        log,
        clients,
        after: None,
        shown,
        nothing_pending,
        crashes,
        faults: Vec::new(),
    };
    let case = |log: Vec<_>, crash| {
        let sent = log.len();
        seen_run(log, process_run.clients.clone(), None).case(sent, crash)
    };
    let shown = match shown {
        Ok(shown) => shown,
        Err(stop) => return (ended(stop, || case(log, None)), None),
    };
    match then {
        Then::Nothing => {
            let transcript = next.take_transcript();
            let world = next.world();
            let kept = transcript.map(|transcript| known.keep(bytes, world, transcript));
            (legal(None, 1), kept)
        }
        Then::Deeper => {
            let clients = match &next.source {
                Source::Drawn { workload, .. } => (**workload).clone(),
                Source::Listed { .. } => process_run.clients.clone(),
            };
            let seen_run = Arc::new(seen_run(log, clients, Some(Arc::new(shown))));
            let (_, _, recorder) = next.end();
            let points = recorder.unwrap_or_default().points;
            (legal(Some((seen_run, points)), 1), None)
        }
        Then::Again => {
            let crash = CaseCrash {
                after_event: next.events(),
                kind: CrashKind::Power,
                persisted: least(next.world().storage()).persisted,
            };
            let (world, oracle, _) = next.end();
            let judged = match once_more(scenario, (world, oracle, before), &crash, crashes, cost) {
                Ok(()) => legal(None, 2),
                Err(stop) => ended(stop, || {
                    let mut case = case(log, Some(crash));
                    case.process_runs.push(CaseRun::default());
                    case
                }),
            };
            (judged, None)
        }
    }
}

/// Recovers and judges; and works if it is to go on.
fn live(
    next: &mut ProcessRun<'_, Option<Recorder>>,
    reference: Option<&Observation>,
    then: Then,
) -> Result<Observation, Stop> {
    let mut recovered = next.recover();
    if let Err(Stop::Violation(violation)) = &mut recovered {
        blame_the_crash(violation, reference.is_some());
    }
    let shown = recovered?;
    if then == Then::Nothing {
        next.judge(&shown, reference)?;
        return Ok(shown);
    }
    next.adopt(&shown, reference)?;
    next.work()?;
    Ok(shown)
}

/// One more cut, and one more recovery.
fn once_more(
    scenario: &Scenario,
    (mut world, mut oracle, before): (World, Arc<Oracle>, u64),
    crash: &CaseCrash,
    crashes: u64,
    cost: &mut Cost,
) -> Result<(), Stop> {
    let now = world.now();
    world
        .crash_with(crash.kind, &crash.state())
        .map_err(|error| Stop::Invalid(error.to_string()))?;
    Arc::make_mut(&mut oracle).stopped(now, Ending::Crash);
    let source = Source::listed(&[]);
    let mut last = ProcessRun::new(world, oracle, source, scenario, crashes + 1, ());
    let shown = last.recover();
    cost.add(last.world(), before);
    last.judge(&shown?, None)?;
    cost.undecided += last.undecided;
    Ok(())
}

fn legal(deeper: Option<(Arc<SeenRun>, Vec<Point>)>, recoveries: u64) -> Judged {
    Judged::Legal {
        deeper,
        recoveries,
        errors: ErrorCounts::default(),
    }
}

fn failed(why: Failed) -> Judged {
    Judged::Failed(why)
}

fn ended(stop: Stop, case: impl FnOnce() -> Case) -> Judged {
    match stop {
        Stop::Violation(violation) => Judged::Violation(violation, Box::new(case())),
        Stop::Damaged(_) | Stop::DeviceError(_) => Judged::Reported,
        Stop::Rejected(message) => failed(Failed::Rejected(message)),
        Stop::Invalid(what) => failed(Failed::Invalid(what)),
        Stop::OutOfEvents => failed(Failed::OutOfEvents),
        Stop::Cut => unreachable!("nobody cuts it"),
    }
}
