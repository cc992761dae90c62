//! One crash state: pull the plug, recover in a fresh instance, read back, judge; then, if it is to go deeper, work and see every
//! moment of that.

use std::sync::Arc;

use kvsim_simdisk::{CrashKind, CrashState};

use super::point::{Lived, Point, Recorder, Trail, crash};
use super::states::least;
use crate::case::{Case, CaseCrash, Incarnation, Source, Stop, blame_the_crash};
use crate::oracle::{DeviceTruth, Ending, Observation, Oracle, Violation};
use crate::scenario::Scenario;

/// A state to be judged.
pub(super) struct Task<'a> {
    pub(super) life: &'a Arc<Lived>,
    pub(super) point: &'a Point,
    pub(super) kind: CrashKind,
    pub(super) state: &'a CrashState,
    pub(super) then: Then,
}

/// What follows on a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Nothing.
    Nothing,
    /// Work, one more cut that keeps the least, and one more recovery.
    Again,
    /// Work, and each of its moments is a crash point.
    Deeper,
}

/// What a state came to.
pub(super) enum Judged {
    /// All properties hold.
    Legal {
        /// The life that followed and its points, if it was to go deeper.
        deeper: Option<(Arc<Lived>, Vec<Point>)>,
        /// Recoveries that it took.
        recoveries: u64,
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
pub(super) enum Failed {
    Rejected(String),
    Invalid(String),
    OutOfEvents,
}

/// Judges a state.
pub(super) fn judge(scenario: &Scenario, task: &Task<'_>) -> Judged {
    let Task {
        life,
        point,
        kind,
        state,
        then,
    } = *task;
    let world = match point.moment.crashed(kind, state) {
        Ok(world) => world,
        Err(error) => return Judged::Failed(Failed::Invalid(error.to_string())),
    };
    let settled = world.device().pending().is_empty();
    let mut clients = life.clients.clone();
    clients.crashed();
    let source = Source::drawn(clients, scenario.explore.work);
    let recorder = (then == Then::Deeper).then(Recorder::default);
    let crashes = life.crashes + 1;
    let oracle = Arc::clone(&point.oracle);
    let mut next = Incarnation::new(world, oracle, source, &scenario.check, crashes, recorder);
    let result = live(&mut next, point.twin(life, kind), then);
    let trail = || {
        Arc::new(Trail {
            life: Arc::clone(life),
            crash: crash(point, kind, state),
            sent: point.sent,
        })
    };
    let log = std::mem::take(&mut next.log);
    let lived = |shown: Option<Arc<Observation>>, clients| Lived {
        trail: Some(trail()),
        log: log.clone(),
        clients,
        shown,
        settled,
        crashes,
    };
    let shown = match result {
        Ok(shown) => shown,
        Err(stop) => {
            let case = || Box::new(lived(None, life.clients.clone()).case(log.len(), None));
            return ended(stop, case);
        }
    };
    match then {
        Then::Nothing => Judged::Legal {
            deeper: None,
            recoveries: 1,
        },
        Then::Deeper => {
            let Source::Drawn { workload, .. } = &next.source else {
                unreachable!("clients draw their requests")
            };
            let lived = Arc::new(lived(Some(Arc::new(shown)), (**workload).clone()));
            let (_, _, recorder) = next.end();
            Judged::Legal {
                deeper: Some((lived, recorder.unwrap_or_default().points)),
                recoveries: 1,
            }
        }
        Then::Again => {
            let crash = CaseCrash {
                after_event: next.events(),
                kind: CrashKind::Power,
                survivors: least(next.world.device()).survivors,
            };
            let (world, oracle, _) = next.end();
            match once_more(scenario, world, &oracle, &crash, crashes) {
                Ok(()) => Judged::Legal {
                    deeper: None,
                    recoveries: 2,
                },
                Err(stop) => ended(stop, || {
                    let mut case = lived(None, life.clients.clone()).case(log.len(), Some(crash));
                    case.lives.push(crate::case::CaseLife::default());
                    Box::new(case)
                }),
            }
        }
    }
}

/// Recovers and judges; and works if it is to go on.
fn live(
    next: &mut Incarnation<'_, Option<Recorder>>,
    twin: Option<&Observation>,
    then: Then,
) -> Result<Observation, Stop> {
    let mut recovered = next.recover();
    if let Err(Stop::Violation(violation)) = &mut recovered {
        blame_the_crash(violation, twin.is_some());
    }
    let shown = recovered?;
    if then == Then::Nothing {
        next.judge(&shown, twin)?;
        return Ok(shown);
    }
    next.adopt(&shown, twin)?;
    next.work()?;
    Ok(shown)
}

/// One more cut, and one more recovery.
fn once_more(
    scenario: &Scenario,
    mut world: kvsim_sim::World,
    oracle: &Arc<Oracle>,
    crash: &CaseCrash,
    crashes: u64,
) -> Result<(), Stop> {
    let now = world.now();
    world
        .crash_with(crash.kind, &crash.state())
        .map_err(|error| Stop::Invalid(error.to_string()))?;
    let mut oracle = Arc::clone(oracle);
    let truth = DeviceTruth::of(world.device());
    Arc::make_mut(&mut oracle).stopped(now, Ending::Crash, &truth);
    let source = Source::listed(&[]);
    let mut last = Incarnation::new(world, oracle, source, &scenario.check, crashes + 1, ());
    let shown = last.recover()?;
    last.judge(&shown, None).map(drop)
}

fn ended(stop: Stop, case: impl FnOnce() -> Box<Case>) -> Judged {
    match stop {
        Stop::Violation(violation) => Judged::Violation(violation, case()),
        Stop::Damaged(_) | Stop::DeviceError(_) => Judged::Reported,
        Stop::Rejected(message) => Judged::Failed(Failed::Rejected(message)),
        Stop::Invalid(what) => Judged::Failed(Failed::Invalid(what)),
        Stop::OutOfEvents => Judged::Failed(Failed::OutOfEvents),
        Stop::Cut => unreachable!("nobody cuts it"),
    }
}
