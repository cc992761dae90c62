//! Runs a case: each life up to its cut, and the cut leaves what the case says.

use std::sync::Arc;

use kvsim_sim::{Program, TraceMode, World};
use kvsim_simdisk::{CrashError, CrashKind};

use super::{Case, Incarnation, Source, Stop, blame_the_crash};
use crate::oracle::{DeviceTruth, Ending, Observation, Oracle, OracleConfig};
use crate::scenario::Scenario;
use crate::setup;

/// What a case came to.
pub(crate) struct Driven {
    /// How it ended; nothing is wrong with `Ok`.
    pub(crate) end: Result<(), Stop>,
    /// The world at its end.
    pub(crate) world: World,
    /// The oracle at its end.
    pub(crate) oracle: Arc<Oracle>,
    /// Crashes by kind: power, process.
    pub(crate) crashes: [u64; 2],
    /// Recoveries that were read back to the end.
    pub(crate) recoveries: u64,
}

/// Runs a case from a blank device on.
///
/// # Errors
/// If the scenario's device is impossible.
pub(crate) fn drive(
    scenario: &Scenario,
    case: &Case,
    program: &Arc<dyn Program>,
    seed: u64,
    trace: TraceMode,
) -> Result<Driven, Stop> {
    let config = setup::world_config(scenario, seed, trace);
    let world = World::new(Arc::clone(program), config)
        .map_err(|error| Stop::Invalid(error.to_string()))?;
    let lies = setup::lies(&scenario.faults);
    let mut driven = Driven {
        end: Ok(()),
        world,
        oracle: Arc::new(Oracle::new(OracleConfig::new(&scenario.check, lies))),
        crashes: [0; 2],
        recoveries: 0,
    };
    let mut twin = None;
    for life in &case.lives {
        let source = Source::listed(&life.requests);
        let crashes = driven.crashes.iter().sum();
        // The same device recovered undisturbed, to hold a recovery against that follows on one cut short.
        let before = life.crash.is_some().then(|| {
            let settled = driven.world.device().pending().is_empty();
            (driven.world.fork(), Arc::clone(&driven.oracle), settled)
        });
        let world = driven.world;
        let oracle = driven.oracle;
        let mut incarnation = Incarnation::new(world, oracle, source, &scenario.check, crashes, ());
        if let Some(crash) = &life.crash {
            incarnation.cut_after(crash.after_event);
        }
        let end = live(&mut incarnation, twin.take());
        let recovered = incarnation.is_recovered();
        driven.recoveries += u64::from(recovered);
        (driven.world, driven.oracle, ()) = incarnation.end();
        let Some(crash) = &life.crash else {
            driven.end = end;
            return Ok(driven);
        };
        if !matches!(end, Ok(()) | Err(Stop::Cut)) {
            driven.end = end;
            return Ok(driven);
        }
        let now = driven.world.now();
        if let Err(error) = driven.world.crash_with(crash.kind, &crash.state()) {
            driven.end = Err(impossible(&error));
            return Ok(driven);
        }
        driven.crashes[usize::from(crash.kind == CrashKind::Process)] += 1;
        let truth = DeviceTruth::of(driven.world.device());
        Arc::make_mut(&mut driven.oracle).stopped(now, Ending::Crash, &truth);
        if let (false, Some((world, oracle, settled))) = (recovered, before)
            && crashes > 0
            && (settled || crash.kind == CrashKind::Process)
        {
            let source = Source::listed(&[]);
            let mut undisturbed =
                Incarnation::new(world, oracle, source, &scenario.check, crashes, ());
            twin = undisturbed.recover().ok();
        }
    }
    Ok(driven)
}

/// One life up to its cut or its end.
fn live(incarnation: &mut Incarnation<'_, ()>, twin: Option<Observation>) -> Result<(), Stop> {
    let mut recovered = incarnation.recover();
    if let Err(Stop::Violation(violation)) = &mut recovered {
        blame_the_crash(violation, twin.is_some());
    }
    incarnation.adopt(&recovered?, twin.as_ref())?;
    incarnation.work()
}

fn impossible(error: &CrashError) -> Stop {
    Stop::Invalid(format!("the case asks for a cut that cannot be: {error}"))
}
