//! Runs a case: each process run up to its cut, and the cut leaves what the case says.

use std::collections::BTreeSet;
use std::sync::Arc;

use kvsim_sim::api::RequestId;
use kvsim_sim::{Intervention, Program, Storage, TraceMode, World};
use kvsim_simdisk::{CrashError, CrashKind, CrashState, CrashStates as _, OpId, Persisted};

use crate::case::process_run::{ProcessRun, blame_the_crash};
use crate::case::source::Source;
use crate::stop::Stop;
use kvsim_oracle::{Ending, Observation, Oracle};
use kvsim_scenario::Scenario;
use kvsim_scenario::case::{Case, CaseCrash, CaseRequest, CaseRun};
use kvsim_scenario::setup;

/// What a case came to.
pub struct Driven {
    /// How it ended; nothing is wrong with `Ok`.
    pub end: Result<(), Stop>,
    /// The world at its end.
    pub world: World,
    /// The oracle at its end.
    pub oracle: Arc<Oracle>,
    /// Crashes by kind: power, process.
    pub crashes: [u64; 2],
    /// Recoveries that were read back to the end.
    pub recoveries: u64,
    /// The last process run's is among them.
    pub last_is_recovered: bool,
    /// What clients sent, in order, and by what number the guest knew it.
    pub sent: Vec<(RequestId, CaseRequest)>,
    /// What is to be known of each process run that was cut, to find the same cut again in a changed case.
    pub landmarks: Vec<Landmark>,
    /// The case as it went: the cuts fell and left what it says.
    pub case: Case,
}

/// Where a process run was cut.
#[derive(Debug, Clone, Default)]
pub struct Landmark {
    /// Events until its recovery was judged; nothing if it was cut before.
    recovered_after: Option<u64>,
    /// What was pending.
    pending: Vec<OpId>,
}

/// How a case is run, if not as it stands.
#[derive(Clone, Copy, Default)]
pub struct Course<'a> {
    /// What is done for the guest. Of what a cut is to keep, that which is durable already is let go.
    pub interventions: &'a [Intervention],
    /// The landmarks of the case from which this one was made: each cut falls as long after its recovery as it did there, and keeps the
    /// operations that have the same places among what is pending, as far as there are such.
    pub landmarks: Option<&'a [Landmark]>,
    /// Calls of the file system of which it is noted where in the engine's own code they are made ([`World::traced_calls`]).
    pub traced_calls: Option<&'a BTreeSet<u64>>,
    /// Of what a cut is to keep, that which is durable already is let go, as with interventions: the case is of a world in which less was durable.
    pub lets_go: bool,
}

/// Runs a case from a blank device on.
///
/// # Errors
/// If the scenario's device is impossible.
pub fn drive(
    scenario: &Scenario,
    case: &Case,
    program: &Arc<dyn Program>,
    seed: u64,
    trace: TraceMode,
) -> Result<Driven, Stop> {
    drive_on(scenario, case, program, seed, trace, Course::default())
}

/// Runs a case in a world that does something for the guest.
///
/// # Errors
/// If the scenario's device is impossible.
pub fn drive_with_interventions(
    scenario: &Scenario,
    case: &Case,
    program: &Arc<dyn Program>,
    seed: u64,
    trace: TraceMode,
    interventions: &[Intervention],
) -> Result<Driven, Stop> {
    let course = Course {
        interventions,
        ..Course::default()
    };
    drive_on(scenario, case, program, seed, trace, course)
}

/// Runs a case on a course of its own. With another guest than the one that it was saved with, a cut leaves what it can of what the case says.
///
/// # Errors
/// If the scenario's device is impossible.
pub fn drive_on(
    scenario: &Scenario,
    case: &Case,
    program: &Arc<dyn Program>,
    seed: u64,
    trace: TraceMode,
    course: Course<'_>,
) -> Result<Driven, Stop> {
    let saved = scenario.failure.as_ref();
    let is_of_another_guest = saved.is_some_and(|it| !it.is_of(&**program));
    let mut config = setup::world_config(scenario, &**program, seed, trace);
    setup::add_script(&mut config, &case.faults);
    let lies = setup::lies(scenario, &case.faults);
    let oracle = setup::oracle_config(scenario, &**program, lies);
    let mut world = World::new(Arc::clone(program), config)
        .map_err(|error| Stop::Invalid(error.to_string()))?;
    world.intervene(course.interventions);
    if let Some(calls) = course.traced_calls {
        world.trace_calls(calls.clone());
    }
    let mut driven = Driven {
        end: Ok(()),
        world,
        oracle: Arc::new(Oracle::new(oracle)),
        crashes: [0; 2],
        recoveries: 0,
        last_is_recovered: false,
        sent: Vec::new(),
        landmarks: Vec::new(),
        case: case.clone(),
    };
    let mut reference = None;
    for (at, planned) in case.process_runs.iter().enumerate() {
        let (first, rest) = planned.before_and_after_reading();
        let source = Source::listed(if first.is_empty() { rest } else { first });
        let crashes = driven.crashes.iter().sum();
        // The same device recovered undisturbed, to hold a recovery against that follows on one cut short.
        let before = planned.crash.is_some().then(|| {
            let nothing_pending = driven.world.storage().nothing_pending();
            (
                driven.world.fork(),
                Arc::clone(&driven.oracle),
                nothing_pending,
            )
        });
        let landmark = course.landmarks.and_then(|landmarks| landmarks.get(at));
        let world = driven.world;
        let oracle = driven.oracle;
        let mut process_run = ProcessRun::new(world, oracle, source, scenario, crashes, ());
        cut(&mut process_run, planned, landmark);
        // It is held against the very next recovery or, if clients work before that is read back, against none.
        let beside = reference.take();
        let mut end = if first.is_empty() {
            live(&mut process_run, beside)
        } else {
            process_run.live_unread(rest)
        };
        let is_closed = planned.close_after_event.is_some()
            && process_run.is_recovered()
            && matches!(end, Ok(()) | Err(Stop::Cut));
        if is_closed {
            if landmark.is_some() {
                driven.case.process_runs[at].close_after_event = Some(process_run.events());
            }
            end = process_run.close();
        }
        let recovered = process_run.is_recovered();
        driven.recoveries += u64::from(recovered);
        driven.last_is_recovered = recovered;
        let (events, recovered_after) = (process_run.events(), process_run.recovered_after());
        driven.sent.append(&mut process_run.sent_requests());
        (driven.world, driven.oracle, ()) = process_run.end();
        let Some(crash) = &planned.crash else {
            driven.end = end;
            return Ok(driven);
        };
        // A guest that met a device error when it opened is started once more.
        let is_refused = matches!(end, Err(Stop::DeviceError(_)));
        if !is_refused && !matches!(end, Ok(()) | Err(Stop::Cut)) {
            driven.end = end;
            return Ok(driven);
        }
        let now = driven.world.now();
        let storage = driven.world.storage();
        let pending = storage.pending_ids();
        driven.landmarks.push(Landmark {
            recovered_after,
            pending,
        });
        let mut state = crash.state();
        if let Some(landmark) = landmark {
            state = found_again(&state, landmark, storage);
            driven.case.process_runs[at].crash = Some(CaseCrash {
                after_event: events,
                kind: crash.kind,
                persisted: state.persisted.clone(),
            });
        } else if is_of_another_guest && storage.check_crash(&state).is_err() {
            state = what_fits(&state, storage);
        } else if course.lets_go || !course.interventions.is_empty() {
            let_go(&mut state, storage);
        }
        if let Err(error) = driven.world.crash_with(crash.kind, &state) {
            driven.end = Err(impossible(&error));
            return Ok(driven);
        }
        let ending = if is_closed || is_refused {
            Ending::Close
        } else {
            driven.crashes[usize::from(crash.kind == CrashKind::Process)] += 1;
            Ending::of(crash.kind)
        };
        Arc::make_mut(&mut driven.oracle).stopped(now, ending);
        if let (false, Some((world, oracle, nothing_pending))) = (recovered, before)
            && crashes > 0
            && (nothing_pending || crash.kind == CrashKind::Process)
        {
            let source = Source::listed(&[]);
            let mut undisturbed = ProcessRun::new(world, oracle, source, scenario, crashes, ());
            reference = undisturbed.recover_reference().ok().flatten();
        }
    }
    Ok(driven)
}

/// Says when a process run is to be cut, or to be closed.
fn cut(process_run: &mut ProcessRun<'_, ()>, planned: &CaseRun, landmark: Option<&Landmark>) {
    let crash = planned.crash.as_ref().map(|crash| crash.after_event);
    let Some(event) = planned.close_after_event.or(crash) else {
        return;
    };
    match landmark.map(|landmark| landmark.recovered_after) {
        Some(Some(recovered)) => process_run.cut_after_work(event.saturating_sub(recovered)),
        _ => process_run.cut_after(event),
    }
}

/// One process run up to its cut or its end.
fn live(process_run: &mut ProcessRun<'_, ()>, reference: Option<Observation>) -> Result<(), Stop> {
    let mut recovered = process_run.recover();
    if let Err(Stop::Violation(violation)) = &mut recovered {
        blame_the_crash(violation, reference.is_some());
    }
    process_run.adopt(&recovered?, reference.as_ref())?;
    process_run.work()
}

/// Takes out of a state what is not pending.
fn let_go(state: &mut CrashState, storage: &Storage) {
    let pending = storage.pending_ids();
    let is_pending = |id| pending.contains(&id);
    state
        .persisted
        .retain(|persisted_write| is_pending(persisted_write.id));
}

/// What a cut can leave of a state that was one of another guest, which has other operations.
fn what_fits(state: &CrashState, storage: &Storage) -> CrashState {
    let mut fitting = CrashState::default();
    for persisted_write in &state.persisted {
        storage.keep(&mut fitting, persisted_write);
    }
    fitting
}

/// The state that keeps what has the same places among what is pending, counted from the latest: as much of it as can be.
fn found_again(state: &CrashState, landmark: &Landmark, storage: &Storage) -> CrashState {
    let mut found = CrashState::default();
    let pending = storage.pending_ids();
    for persisted_write in &state.persisted {
        let place = landmark
            .pending
            .iter()
            .rev()
            .position(|id| *id == persisted_write.id);
        let id = place.and_then(|place| pending.iter().rev().nth(place));
        let Some(&id) = id else { continue };
        let sectors = persisted_write.sectors.clone();
        storage.keep(&mut found, &Persisted { id, sectors });
    }
    found
}

fn impossible(error: &CrashError) -> Stop {
    Stop::Invalid(format!("the case asks for a cut that cannot be: {error}"))
}
