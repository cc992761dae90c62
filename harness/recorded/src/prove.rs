//! Sessions on a real disk, one after the other, each judged; then recordings with something left out.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use kvsim_native::DriverChoice;
use kvsim_simdisk::rng::{Purpose, Rng};
use kvsim_simdisk::{FaultConfig, Image};

use super::judge::{Found, Judging, Tally, judge};
use super::recover::{Opening, recover};
use super::replay::{Replay, Stuck};
use super::session::{Calls, Clients, Made, Making, Session, first_difference, make, write_file};
use super::take_out::{self, TakenOut};
use kvsim_oracle::{CheckConfig, DeviceTruth, Oracle, OracleConfig, Violation};
use kvsim_workload::{
    ByteRange, OperationWeights, ValueBytes, Workload, WorkloadConfig, WorkloadKind,
};

/// How far behind the acknowledgement the loss of a call is looked for, in events.
const LOOKED_AT: usize = 100;
/// After so many times the sessions that are asked for, what could not be taken out so far is given up.
const SESSIONS_FACTOR: u64 = 8;
/// States drawn at each of those places.
const STATES_TAKEN_OUT: u32 = 24;
/// The engine's options, in turn: what makes its own work frequent, and what is on by default. A small database is collected and grows
/// while it is watched.
const SETTINGS: [Setting; 4] = [
    Setting {
        engine: "segment_bytes=65536\ncheckpoint_bytes=131072\n",
        size_bytes: 2 << 20,
    },
    Setting {
        engine: "segment_bytes=65536\ncheckpoint_bytes=131072\ncommit=flush\n",
        size_bytes: 2 << 20,
    },
    Setting {
        engine: "segment_bytes=65536\ncheckpoint_bytes=65536\nlarge_value_bytes=2048\n",
        size_bytes: 4 << 20,
    },
    Setting {
        engine: "",
        size_bytes: 32 << 20,
    },
];
const MAX_BYTES: u64 = 64 << 20;

/// How databases are made.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The engine's options.
    pub engine: &'static str,
    /// Size of a new file.
    pub size_bytes: u64,
}

/// What is to be proved, and how thoroughly.
#[derive(Debug, Clone)]
pub struct Plan {
    /// A directory on the disk.
    pub directory: PathBuf,
    /// Crash states to judge, at least.
    pub states: u64,
    /// States drawn at each point.
    pub states_at_a_point: u32,
    /// Recordings that are judged with a call left out.
    pub taken_out: u64,
    /// Requests of each client in a session.
    pub requests: u64,
    /// What the clients do: puts, deletes, batches, gets and syncs.
    pub workload: WorkloadConfig,
    /// What a power cut may do.
    pub faults: FaultConfig,
    /// How much is read back.
    pub check: CheckConfig,
    /// How databases are made, in turn: each has two sessions, the second on what a crash of the first left.
    pub settings: Vec<Setting>,
    /// Sessions, at least.
    pub sessions: u64,
    /// The drivers that take turns.
    pub drivers: Vec<DriverChoice>,
    /// Decides what is written and which states are judged.
    pub seed: u64,
    /// Threads that judge.
    pub workers: NonZeroUsize,
}

impl Plan {
    /// The strictest device, both drivers, work of every kind, on all cores.
    #[must_use]
    pub fn usual(directory: &Path, seed: u64) -> Plan {
        let mut workload = WorkloadConfig::of_kind(WorkloadKind::Custom);
        workload.clients = 8;
        workload.keys = 200;
        workload.value_bytes = ValueBytes::Range(ByteRange {
            min: 40,
            max: 3_000,
        });
        workload.durable_fraction = 0.8;
        workload.operations = OperationWeights {
            put: 70,
            delete: 12,
            batch: 8,
            get: 8,
            sync: 2,
            ..OperationWeights::default()
        };
        Plan {
            directory: directory.to_owned(),
            states: 100_000,
            states_at_a_point: 12,
            taken_out: 40,
            requests: 300,
            workload,
            faults: FaultConfig {
                torn: 0.5,
                garbage: 0.2,
                byte_tear: 0.2,
                ..FaultConfig::default()
            },
            check: CheckConfig::default(),
            settings: SETTINGS.to_vec(),
            sessions: 2 * SETTINGS.len() as u64,
            drivers: vec![DriverChoice::Auto, DriverChoice::Threads],
            seed,
            workers: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        }
    }

    /// So many states: a few come from fewer sessions and fewer states at each point.
    pub fn judge(&mut self, states: u64) {
        self.states = states;
        self.sessions = self.sessions.min(states / 1_000).max(2);
        let at_a_point = (states / 8_000).max(1);
        self.states_at_a_point = u32::try_from(at_a_point).map_or(self.states_at_a_point, |few| {
            few.min(self.states_at_a_point)
        });
    }
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Proof {
    /// What was to be proved.
    pub plan: Plan,
    /// What was found about the device.
    pub device: String,
    /// Recordings, by driver.
    pub sessions: Vec<(&'static str, u64)>,
    /// What was recorded.
    pub calls: Calls,
    /// Checkpoints that fell into recordings.
    pub checkpoints: u64,
    /// Segments that were collected in recordings.
    pub collected_segments: u64,
    /// What was judged.
    pub tally: Tally,
    /// What is wrong, if anything is.
    pub found: Option<Found>,
    /// Recordings with a call left out.
    pub taken_out: Vec<TakenOut>,
    /// Somebody asked for the end before everything was done.
    pub interrupted: bool,
}

/// Told what is going on.
pub trait Watch: Sync {
    /// A session is about to be recorded.
    fn recording(&self, session: u64);
    /// So many states of so many were judged.
    fn judged(&self, states: u64, of: u64);
    /// A recording with a call left out is about to be judged.
    fn taking_out(&self, number: u64, of: u64);
    /// Whether to stop.
    fn stopped(&self) -> bool;
}

/// Records and judges until there is enough, or something is found.
///
/// # Errors
/// The disk cannot be used, or the plan makes no sense: a sentence.
pub fn prove(plan: &Plan, watch: &dyn Watch) -> Result<Proof, String> {
    Prover::new(plan, watch)?.prove()
}

struct Prover<'a> {
    plan: &'a Plan,
    watch: &'a dyn Watch,
    rng: Rng,
    workload: Workload,
    directory: tempfile::TempDir,
    seen: Mutex<BTreeSet<(u128, u64)>>,
    proof: Proof,
}

/// What the next session finds on the disk, and what must survive of it.
struct Start {
    image: Option<Image>,
    oracle: Oracle,
}

impl<'a> Prover<'a> {
    fn new(plan: &'a Plan, watch: &'a dyn Watch) -> Result<Prover<'a>, String> {
        let directory = tempfile::Builder::new()
            .prefix("kvsim-crash-disk-")
            .tempdir_in(&plan.directory)
            .map_err(|error| format!("{}: {error}", plan.directory.display()))?;
        let operations = &plan.workload.operations;
        if operations.scan + operations.snapshot + operations.insert + operations.read_modify_write
            > 0
        {
            return Err("only puts, deletes, batches, gets and syncs are recorded".to_owned());
        }
        let workload =
            Workload::new(&plan.workload, plan.seed).map_err(|error| error.to_string())?;
        Ok(Prover {
            plan,
            watch,
            rng: Rng::new(plan.seed, Purpose::Crash),
            workload,
            directory,
            seen: Mutex::default(),
            proof: Proof {
                plan: plan.clone(),
                device: String::new(),
                sessions: Vec::new(),
                calls: Calls::default(),
                checkpoints: 0,
                collected_segments: 0,
                tally: Tally::default(),
                found: None,
                taken_out: Vec::new(),
                interrupted: false,
            },
        })
    }

    fn blank(&self) -> Start {
        Start {
            image: None,
            oracle: Oracle::new(OracleConfig::default()),
        }
    }

    fn prove(mut self) -> Result<Proof, String> {
        let mut start = self.blank();
        let mut number = 0;
        while self.proof.found.is_none() && !self.is_over(number) {
            number += 1;
            // A new database for each set of options, then a session on what a crash of it left.
            let fresh = number % 2 == 1;
            if fresh {
                start = self.blank();
                self.workload = Workload::new(&self.plan.workload, self.rng.below(u64::MAX))
                    .map_err(|error| error.to_string())?;
            }
            self.watch.recording(number);
            let session = self.record(number, &start)?;
            self.count(&session);
            self.judge(number, &session)?;
            if self.proof.found.is_some() {
                break;
            }
            self.take_out(number, &session)?;
            start = self.cut_somewhere(&session)?;
        }
        self.proof.interrupted = self.watch.stopped();
        Ok(self.proof)
    }

    fn is_over(&self, sessions: u64) -> bool {
        let judged = self.proof.tally.judged >= self.plan.states;
        let taken_out = self.proof.taken_out.len() as u64 >= self.proof.plan.taken_out;
        // What cannot be had is not waited for: there may be no call on which anything depends.
        let given_up = sessions >= SESSIONS_FACTOR * self.plan.sessions;
        let enough = judged && (taken_out || given_up) && sessions >= self.plan.sessions;
        self.watch.stopped() || enough
    }

    /// One session on the disk.
    fn record(&mut self, number: u64, start: &Start) -> Result<Session, String> {
        let path = self.directory.path().join("database");
        let at = |error: std::io::Error| format!("{}: {error}", path.display());
        match &start.image {
            Some(image) => write_file(&path, image).map_err(at)?,
            None => match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(at(error));
                }
                _ => {}
            },
        }
        // Eight sessions see each setting with each driver and with each kind of client.
        let (turn, second) = ((number - 1) / 2, (number - 1) % 2);
        let in_turn = |at: u64, len: usize| usize::try_from(at).unwrap_or(0) % len;
        let setting = self.plan.settings[in_turn(turn, self.plan.settings.len())];
        let drivers = &self.plan.drivers;
        let driver = drivers[in_turn(turn + second, drivers.len())];
        let clients = [Clients::Threads, Clients::Tasks][in_turn(turn + turn / 2 + second, 2)];
        let size_bytes = setting.size_bytes;
        let making = Making {
            path: &path,
            driver,
            clients,
            engine: setting.engine.to_owned(),
            size_bytes,
            max_bytes: MAX_BYTES,
            requests: self.plan.requests,
        };
        let made = make(&making, &mut self.workload).map_err(|error| error.to_string())?;
        let opened = opened(start, &made, size_bytes, &self.plan.check);
        let opened = opened.map_err(|violation| violation.to_string())?;
        let oracles = (start.oracle.clone(), opened);
        let session = made.into_session(start.image.clone(), oracles, size_bytes, &self.plan.check);
        self.check_complete(&session, &path)?;
        Ok(session)
    }

    /// The recording explains every byte of the file.
    fn check_complete(&self, session: &Session, path: &Path) -> Result<(), String> {
        let mut replay = Replay::new(session, &self.plan.faults, 0, None)?;
        loop {
            match replay.next() {
                Ok(true) => {}
                Ok(false) => break,
                Err(Stuck::Unsound(what)) => return Err(what),
                // It will be found where states are judged.
                Err(Stuck::Violation(_)) => return Ok(()),
            }
        }
        let differs = first_difference(path, replay.device().image());
        match differs.map_err(|error| format!("{}: {error}", path.display()))? {
            None => Ok(()),
            Some(offset) => Err(format!(
                "{}: byte {offset} is not what the recorded calls wrote: the recording has a gap",
                path.display()
            )),
        }
    }

    fn count(&mut self, session: &Session) {
        let proof = &mut self.proof;
        proof.calls.add(&session.events);
        proof.checkpoints += session.engine.checkpoints;
        proof.collected_segments += session.engine.collected_segments;
        proof.device.clone_from(&session.device);
        match proof
            .sessions
            .iter_mut()
            .find(|(name, _)| *name == session.driver)
        {
            Some((_, count)) => *count += 1,
            None => proof.sessions.push((session.driver, 1)),
        }
    }

    fn judging(&self, number: u64) -> Judging<'_> {
        Judging {
            faults: &self.plan.faults,
            seed: self.plan.seed.wrapping_add(number),
            states: self.plan.states_at_a_point,
            workers: self.plan.workers,
            left_out: None,
            within: (0, usize::MAX),
            number,
            stopped: &|| false,
        }
    }

    fn judge(&mut self, number: u64, session: &Session) -> Result<(), String> {
        let stopped = || self.watch.stopped();
        let judging = Judging {
            stopped: &stopped,
            ..self.judging(number)
        };
        let (tally, found) = judge(session, &judging, &self.seen)?;
        self.proof.tally.add(&tally);
        self.proof.found = found;
        self.watch.judged(self.proof.tally.judged, self.plan.states);
        Ok(())
    }

    /// Leaves calls out, as many as this session's share is.
    fn take_out(&mut self, number: u64, session: &Session) -> Result<(), String> {
        if !session.opening.config.device.volatile_cache {
            // A completed write is durable here: no call makes it so.
            self.proof.plan.taken_out = 0;
            return Ok(());
        }
        let done = self.proof.taken_out.len() as u64;
        let judged = self.proof.tally.judged.min(self.plan.states);
        // In step with the states.
        let due = (self.plan.taken_out * judged).div_ceil(self.plan.states.max(1));
        for which in done..due {
            if self.watch.stopped() {
                return Ok(());
            }
            self.watch.taking_out(which + 1, self.plan.taken_out);
            let Some(candidate) = take_out::draw(session, &mut self.rng) else {
                return Ok(());
            };
            let from = candidate.acknowledged + 1;
            let judging = Judging {
                left_out: Some(candidate.call),
                states: STATES_TAKEN_OUT,
                within: (from, from + LOOKED_AT),
                ..self.judging(number)
            };
            let (_, found) = judge(session, &judging, &Mutex::default())?;
            self.proof.taken_out.push(TakenOut {
                session: number,
                event: candidate.acknowledged,
                kind: candidate.kind,
                found,
            });
        }
        Ok(())
    }

    /// Where the next session begins: at a state that a cut at some point of this one left.
    fn cut_somewhere(&mut self, session: &Session) -> Result<Start, String> {
        let last = session.events.len() as u64;
        let at = self.rng.range(last / 2, last);
        let seed = self.rng.below(u64::MAX);
        let mut replay = Replay::new(session, &self.plan.faults, seed, None)?;
        while (replay.events() as u64) < at {
            match replay.next() {
                Ok(true) => {}
                Ok(false) | Err(_) => break,
            }
        }
        let state = replay.device().draw_crash();
        let image = replay.device().image_after(&state);
        Ok(Start {
            image: Some(image.map_err(|error| error.to_string())?),
            oracle: replay.oracle_after_cut(),
        })
    }
}

/// The oracle once the opening was answered: what is on the disk is what was shown.
fn opened(
    start: &Start,
    made: &Made,
    size_bytes: u64,
    check: &CheckConfig,
) -> Result<Oracle, Box<Violation>> {
    let mut oracle = start.oracle.clone();
    let Some(image) = &start.image else {
        return Ok(oracle);
    };
    let opening = Opening {
        config: made.config.clone(),
        size_bytes,
        check: check.clone(),
    };
    let truth = DeviceTruth::default();
    let recovered = recover(image.clone(), &opening, &oracle)?;
    let recovery = oracle.judge(&recovered.seen, &truth)?;
    oracle.adopt(0, &recovery, &recovered.seen, &truth);
    Ok(oracle)
}
