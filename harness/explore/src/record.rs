//! The run that is recorded: from a blank device, through all requests of the clients, until all is quiet.

use std::sync::Arc;

use kvsim_fs::{CallKind, FileSystem};
use kvsim_sim::{Program, Storage, StorageFault, TraceMode, World};
use kvsim_simdisk::{FaultKind, OpId, OpNote};

use super::cost;
use super::found::Found;
use super::judge::Failed;
use super::point::{Point, Recorder, SeenRun};
use kvsim_api::coverage::CoverageCounts;
use kvsim_drive::case::{ProcessRun, Source, Stop};
use kvsim_oracle::{Observation, Oracle};
use kvsim_scenario::Scenario;
use kvsim_scenario::setup;
use kvsim_workload::Workload;

/// A run and all its crash points.
pub struct Recording {
    /// The process run that was recorded.
    pub process_run: Arc<SeenRun>,
    /// Its crash points, in order.
    pub points: Vec<Point>,
    /// World events.
    pub events: u64,
    /// Writes that were acknowledged.
    pub acknowledged: u64,
    /// The guest's coverage points.
    pub coverage_points: CoverageCounts,
    /// The reads, writes and flushes of the guest's work, opening aside.
    pub ops: Vec<OpNote>,
}

/// Why there is nothing to explore.
pub enum Stopped {
    /// The guest breaks a property without any crash.
    Found(Box<Found>),
    /// The guest reports damage, or a device error.
    Reported(String),
    /// It cannot be run.
    Failed(Failed),
}

/// Records the run of the scenario's clients.
pub fn record(
    scenario: &Scenario,
    program: &Arc<dyn Program>,
    seed: u64,
) -> Result<Recording, Stopped> {
    let lies = setup::lies(scenario, &[]);
    let known = setup::oracle_config(scenario, program.as_ref(), lies)
        .limits
        .known();
    let clients = clients(scenario, program.as_ref(), seed)?.knowing(known);
    let source = Source::drawn(clients, scenario.explore.operations);
    record_from(scenario, program, seed, source, &mut 0)
}

/// The same run on a device that these faults affect.
pub fn record_failing(
    scenario: &Scenario,
    program: &Arc<dyn Program>,
    seed: u64,
    script: &[StorageFault],
) -> Result<Recording, Stopped> {
    let mut failing = scenario.clone();
    let mut all = failing.script();
    all.extend(script.iter().cloned());
    failing.set_script(&all);
    let mut recording = record(&failing, program, seed);
    match &mut recording {
        Ok(recording) => {
            let process_run =
                Arc::get_mut(&mut recording.process_run).expect("nobody else has it yet");
            process_run.faults = script.to_vec();
        }
        Err(Stopped::Found(found)) => found.case.faults = script.to_vec(),
        Err(_) => {}
    }
    recording
}

fn invalid(what: String) -> Stopped {
    Stopped::Failed(Failed::Invalid(what))
}

fn clients(scenario: &Scenario, program: &dyn Program, seed: u64) -> Result<Workload, Stopped> {
    setup::workload(scenario, program, seed).map_err(|error| invalid(error.to_string()))
}

/// Clients whose preload is done.
pub fn loaded(scenario: &Scenario, program: &dyn Program, seed: u64) -> Result<Workload, Stopped> {
    let mut clients = clients(scenario, program, seed)?;
    if scenario.explore.depth > 1 || scenario.explore.again_every > 0 {
        while clients.preload().is_some() {}
    }
    Ok(clients)
}

/// Clients that write nothing which the scenario's clients may have written in a recording: the numbers of their values are beyond.
pub fn later_clients(
    scenario: &Scenario,
    program: &dyn Program,
    seed: u64,
) -> Result<Workload, Stopped> {
    let mut clients = loaded(scenario, program, seed)?;
    for request in 0..4 * scenario.explore.operations {
        let client = request % u64::from(clients.clients().max(1));
        clients.next(u32::try_from(client).unwrap_or(0));
    }
    Ok(clients)
}

/// Records a run of these requests; says how much work it was.
pub fn record_from(
    scenario: &Scenario,
    program: &Arc<dyn Program>,
    seed: u64,
    source: Source,
    work: &mut u64,
) -> Result<Recording, Stopped> {
    let config = setup::world_config(scenario, &**program, seed, TraceMode::Off);
    let mut world =
        World::new(Arc::clone(program), config).map_err(|error| invalid(error.to_string()))?;
    if !scenario.explore.work_errors.is_empty() {
        world.note_ops();
    }
    let lies = setup::lies(scenario, &[]);
    let oracle = Arc::new(Oracle::new(setup::oracle_config(
        scenario, &**program, lies,
    )));
    let recorder = Some(Recorder::default());
    let mut process_run = ProcessRun::new(world, oracle, source, scenario, 0, recorder);
    let mut first_of_work = 0;
    let end = run(&mut process_run, &mut first_of_work);
    let log = std::mem::take(&mut process_run.log);
    let events = process_run.events();
    *work += cost::work(process_run.world());
    let clients = match &process_run.source {
        Source::Drawn { workload, .. } => (**workload).clone(),
        // After a cut they ask nothing then, and load nothing either.
        Source::Listed { .. } if scenario.explore.again_every == 0 => {
            loaded(scenario, program.as_ref(), seed)?
        }
        Source::Listed { .. } => later_clients(scenario, program.as_ref(), seed)?,
    };
    let mut coverage_points = CoverageCounts::default();
    coverage_points.add(process_run.world().coverage_points());
    let ops = match process_run.world().storage() {
        Storage::Device(device) => {
            let ops = device.noted_ops().iter();
            ops.filter(|op| op.id >= first_of_work).cloned().collect()
        }
        Storage::Files(files) => file_ops(files, first_of_work),
    };
    let counts = process_run.oracle().counts();
    let acknowledged = counts.acknowledged_durable + counts.acknowledged_relaxed;
    let (_, _, recorder) = process_run.end();
    let seen_run = |shown| SeenRun {
        trail: None,
        log,
        clients,
        after: None,
        shown,
        nothing_pending: true,
        crashes: 0,
        faults: Vec::new(),
    };
    match end {
        Ok(shown) => Ok(Recording {
            process_run: Arc::new(seen_run(Some(Arc::new(shown)))),
            points: recorder.unwrap_or_default().points,
            events,
            acknowledged,
            coverage_points,
            ops,
        }),
        Err(Stop::Violation(violation)) => {
            let process_run = seen_run(None);
            Err(Stopped::Found(Box::new(Found {
                violation,
                case: Box::new(process_run.case(process_run.log.len(), None)),
                depth: 0,
                origin: 0,
            })))
        }
        Err(Stop::Damaged(what) | Stop::DeviceError(what)) => Err(Stopped::Reported(what)),
        Err(Stop::Rejected(message)) => Err(Stopped::Failed(Failed::Rejected(message))),
        Err(Stop::Invalid(what)) => Err(invalid(what)),
        Err(Stop::OutOfEvents | Stop::Cut) => Err(Stopped::Failed(Failed::OutOfEvents)),
    }
}

/// The calls that can fail: reads, writes and syncs.
fn file_ops(files: &FileSystem, first: OpId) -> Vec<OpNote> {
    let noted = files.noted_ops().iter().filter(|note| note.op >= first);
    let op = |note: &kvsim_fs::OpNote| {
        let fault = match note.kind {
            CallKind::Read => FaultKind::ReadError,
            CallKind::Write => FaultKind::WriteError,
            CallKind::Sync => FaultKind::FlushError,
            _ => return None,
        };
        Some(OpNote {
            id: note.op,
            fault,
            sectors: 0,
            covered: Vec::new(),
        })
    };
    noted.filter_map(op).collect()
}

fn run(
    process_run: &mut ProcessRun<'_, Option<Recorder>>,
    first_of_work: &mut OpId,
) -> Result<Observation, Stop> {
    let shown = process_run.recover()?;
    process_run.adopt(&shown, None)?;
    *first_of_work = process_run.world().storage().next_op();
    process_run.work()?;
    Ok(shown)
}
