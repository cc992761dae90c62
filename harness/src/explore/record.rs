//! The run that is recorded: from a blank device, through all requests of the clients, until all is quiet.

use std::sync::Arc;

use kvsim_sim::{Program, TraceMode, World};

use super::judge::Failed;
use super::point::{Lived, Point, Recorder};
use super::report::Found;
use crate::case::{Incarnation, Source, Stop};
use crate::oracle::{Observation, Oracle, OracleConfig};
use crate::scenario::Scenario;
use crate::setup;
use crate::workload::Workload;

/// A run and all its crash points.
pub(super) struct Recording {
    pub(super) life: Arc<Lived>,
    pub(super) points: Vec<Point>,
    /// World events.
    pub(super) events: u64,
}

/// Why there is nothing to explore.
pub(super) enum Stopped {
    /// The guest breaks a property without any crash.
    Found(Box<Found>),
    /// The guest reports damage, or a device error.
    Reported(String),
    /// It cannot be run.
    Failed(Failed),
}

/// Records a run.
pub(super) fn record(
    scenario: &Scenario,
    program: &Arc<dyn Program>,
    seed: u64,
) -> Result<Recording, Stopped> {
    let invalid = |what: String| Stopped::Failed(Failed::Invalid(what));
    let config = setup::world_config(scenario, seed, TraceMode::Off);
    let world =
        World::new(Arc::clone(program), config).map_err(|error| invalid(error.to_string()))?;
    let lies = setup::lies(&scenario.faults);
    let oracle = Arc::new(Oracle::new(OracleConfig::new(&scenario.check, lies)));
    let clients =
        Workload::new(&scenario.workload, seed).map_err(|error| invalid(error.to_string()))?;
    let source = Source::drawn(clients.clone(), scenario.explore.operations);
    let recorder = Some(Recorder::default());
    let mut life = Incarnation::new(world, oracle, source, &scenario.check, 0, recorder);
    let end = run(&mut life);
    let log = std::mem::take(&mut life.log);
    let events = life.events();
    let clients = match &life.source {
        Source::Drawn { workload, .. } => (**workload).clone(),
        Source::Listed { .. } => clients,
    };
    let (_, _, recorder) = life.end();
    let lived = |shown| Lived {
        trail: None,
        log,
        clients,
        shown,
        settled: true,
        crashes: 0,
    };
    match end {
        Ok(shown) => Ok(Recording {
            life: Arc::new(lived(Some(Arc::new(shown)))),
            points: recorder.unwrap_or_default().points,
            events,
        }),
        Err(Stop::Violation(violation)) => {
            let life = lived(None);
            Err(Stopped::Found(Box::new(Found {
                violation,
                case: Box::new(life.case(life.log.len(), None)),
                depth: 0,
            })))
        }
        Err(Stop::Damaged(what) | Stop::DeviceError(what)) => Err(Stopped::Reported(what)),
        Err(Stop::Rejected(message)) => Err(Stopped::Failed(Failed::Rejected(message))),
        Err(Stop::Invalid(what)) => Err(invalid(what)),
        Err(Stop::OutOfEvents | Stop::Cut) => Err(Stopped::Failed(Failed::OutOfEvents)),
    }
}

fn run(life: &mut Incarnation<'_, Option<Recorder>>) -> Result<Observation, Stop> {
    let shown = life.recover()?;
    life.adopt(&shown, None)?;
    life.work()?;
    Ok(shown)
}
