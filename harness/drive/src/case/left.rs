//! The files as the last crash of a case left them, and what the guest answers that is started on them.
//!
//! For whoever asks the same of the same engine elsewhere: natively, on a real directory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kvsim_fs::FileSystem;
use kvsim_sim::api::{Direction, Mutation, Reply, Request, Scan, Status};
use kvsim_sim::{Program, Step, TraceMode, World, WorldError};
use kvsim_simdisk::CrashKind;

use crate::case::drive::drive;
use crate::pump::OPENING;
use crate::stop::Stop;
use kvsim_scenario::Scenario;
use kvsim_scenario::case::{Case, CaseRequest, CaseRun};
use kvsim_scenario::setup;

/// What a scan of all entries may bring: as many entries, and as many bytes.
const SCAN_ENTRIES_MAX: u32 = 100_000;
const SCAN_BYTES_MAX: u32 = 64 << 20;

/// Files, and what a guest answers that is started on them.
#[derive(Debug, Clone)]
pub struct Left {
    /// The files, before the guest is started.
    pub files: FileSystem,
    /// The process run that the crash ended, from 1.
    pub process_run: u64,
    /// Power or process.
    pub kind: CrashKind,
    /// After so many world events of that process run.
    pub after_event: u64,
    /// What the opening is told.
    pub options: BTreeMap<String, String>,
    /// What was asked, in order; the opening first. Nothing more is asked once the guest has failed.
    pub questions: Vec<Question>,
}

/// A question and its answer.
#[derive(Debug, Clone)]
pub struct Question {
    /// What was asked; nothing stands for the opening.
    pub request: Option<Request>,
    /// What came.
    pub answer: Answer,
}

/// What a guest does when it is asked.
#[derive(Debug, Clone)]
pub enum Answer {
    /// It answers.
    Reply(Reply),
    /// It panics, traps, hangs or breaks the ABI: what it did, in words.
    Failed(String),
}

/// Drives a case to the last crash that it comes to, keeps the files, and asks a guest that is started on them: to open; what it holds, by a scan
/// and by a get of each key of the case; the requests of the process run after that crash; and, if there are any, what it holds then.
///
/// # Errors
/// A sentence: the guest uses a device, the case has no crash, or does not come to one.
pub fn left_by_last_crash(
    scenario: &Scenario,
    case: &Case,
    program: &Arc<dyn Program>,
    seed: u64,
) -> Result<Left, String> {
    let crashes: Vec<usize> = (0..case.process_runs.len())
        .filter(|at| case.process_runs[*at].crash.is_some())
        .collect();
    if crashes.is_empty() {
        return Err("it has no crash, so no crash has left files".to_owned());
    }
    let mut why = String::new();
    for at in crashes.into_iter().rev() {
        let before = Case {
            process_runs: case.process_runs[..=at].to_vec(),
            faults: case.faults.clone(),
        };
        let driven = drive(scenario, &before, program, seed, TraceMode::Off).map_err(words)?;
        match driven.end {
            Ok(()) => {
                let next = case.process_runs.get(at + 1);
                return ask(scenario, case, program, seed, driven.world, at, next);
            }
            Err(stop) => why = words(stop),
        }
    }
    Err(format!("it does not come to a crash: {why}"))
}

fn ask(
    scenario: &Scenario,
    case: &Case,
    program: &Arc<dyn Program>,
    seed: u64,
    mut world: World,
    at: usize,
    next: Option<&CaseRun>,
) -> Result<Left, String> {
    let files = world.storage().files().cloned();
    let files = files.ok_or("its guest uses a device and no files")?;
    let config = setup::world_config(scenario, &**program, seed, TraceMode::Off);
    let crash = case.process_runs[at].crash.as_ref();
    let crash = crash.ok_or("its process run is not cut")?;
    let mut left = Left {
        files,
        process_run: at as u64 + 1,
        kind: crash.kind,
        after_event: crash.after_event,
        options: config.options_of(world.process_run() + 1),
        questions: Vec::new(),
    };
    match world.open() {
        Err(WorldError::Guest(error)) => {
            left.add(None, Answer::Failed(error.to_string()));
            return Ok(left);
        }
        other => other.map_err(|error| error.to_string())?,
    }
    let opening = answer_to(&mut world, OPENING);
    let opened = matches!(&opening, Answer::Reply(reply) if reply.status == Status::Ok);
    left.add(None, opening);
    if !opened {
        return Ok(left);
    }
    let reading = reading(case, &**program);
    let (unread, rest) = next.map_or((&[][..], &[][..]), CaseRun::before_and_after_reading);
    let requests = |of: &[CaseRequest]| -> Vec<Request> {
        let all = of.iter().map(|it| it.request.clone());
        all.filter(stands_alone).collect()
    };
    let (unread, rest) = (requests(unread), requests(rest));
    let mut all = [unread, reading.clone(), rest].concat();
    if all.len() > reading.len() {
        all.extend(reading);
    }
    for request in all {
        let id = world.submit(world.now(), request.clone());
        let answer = answer_to(&mut world, id);
        let failed = matches!(answer, Answer::Failed(_));
        left.add(Some(request), answer);
        if failed {
            break;
        }
    }
    Ok(left)
}

impl Left {
    fn add(&mut self, request: Option<Request>, answer: Answer) {
        self.questions.push(Question { request, answer });
    }
}

/// What a guest is asked to say what it holds.
fn reading(case: &Case, program: &dyn Program) -> Vec<Request> {
    let mut requests = Vec::new();
    if program.offers().scan {
        requests.push(Request::Scan(Scan {
            snapshot: 0,
            direction: Direction::Forward,
            start: None,
            end: None,
            limit: SCAN_ENTRIES_MAX,
            max_bytes: SCAN_BYTES_MAX,
        }));
    }
    let mut keys = BTreeSet::new();
    for asked in case.all_requests() {
        match &asked.request {
            Request::Put { key, .. } | Request::Delete { key, .. } | Request::Get { key, .. } => {
                keys.insert(key.clone());
            }
            Request::Batch { mutations, .. } => {
                keys.extend(mutations.iter().map(|mutation| match mutation {
                    Mutation::Put { key, .. } | Mutation::Delete { key } => key.clone(),
                }));
            }
            _ => {}
        }
    }
    let get = |key| Request::Get { key, snapshot: 0 };
    requests.extend(keys.into_iter().map(get));
    requests
}

/// Whether a request makes sense without an earlier one of the same process run, and leaves the database open.
fn stands_alone(request: &Request) -> bool {
    match request {
        Request::Get { snapshot, .. } => *snapshot == 0,
        Request::Scan(scan) => scan.snapshot == 0,
        Request::Snapshot | Request::Release { .. } | Request::Close => false,
        Request::Put { .. } | Request::Delete { .. } | Request::Batch { .. } | Request::Sync => {
            true
        }
    }
}

/// Lets things happen until this is answered.
fn answer_to(world: &mut World, id: u64) -> Answer {
    loop {
        match world.step() {
            Ok(Step::Reply(reply)) if reply.id == id => return Answer::Reply(reply),
            Ok(Step::Reply(_) | Step::Event) => {}
            Ok(Step::Quiet) => return Answer::Failed("it never answers".to_owned()),
            Err(error) => return Answer::Failed(error.to_string()),
        }
    }
}

fn words(stop: Stop) -> String {
    match stop {
        Stop::Violation(violation) => violation.to_string(),
        Stop::Damaged(message) => format!("the guest reports damage: {message}"),
        Stop::DeviceError(message) => format!("the guest meets an error: {message}"),
        Stop::Rejected(message) => format!("the guest does not take its options: {message}"),
        Stop::Invalid(message) => message,
        Stop::OutOfEvents => "it takes too many events".to_owned(),
        Stop::Cut => "a process run is cut".to_owned(),
    }
}
