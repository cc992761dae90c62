//! Crash points: moments of a process run at which the plug can be pulled, with all that is needed to pull it there, and the way back to
//! how they were reached.

use std::sync::Arc;

use kvsim_sim::{Moment, StorageFault};
use kvsim_simdisk::{CrashKind, CrashState, Slowest};
use xxhash_rust::xxh3::Xxh3;

use kvsim_drive::case::{Phase, Seen, Watch};
use kvsim_oracle::{DeviceTruth, Ending, Observation, Oracle, RunFaults};
use kvsim_scenario::case::{Case, CaseCrash, CaseRequest, CaseRun};
use kvsim_workload::Workload;

/// A process run of which every moment was seen.
pub struct SeenRun {
    /// The crashes before it, the last one first.
    pub trail: Option<Arc<Trail>>,
    /// What its clients asked.
    pub log: Vec<CaseRequest>,
    /// The clients at its end: whoever goes on after a crash in it writes nothing that was written before.
    pub clients: Workload,
    /// What they ask after a crash in it, in place of what they would draw.
    pub after: Option<Arc<[CaseRequest]>>,
    /// What it showed when it was not disturbed.
    pub shown: Option<Arc<Observation>>,
    /// Whether the device had nothing in its cache when it began.
    pub nothing_pending: bool,
    /// Crashes before it.
    pub crashes: u64,
    /// What was made to affect the device in the process run that is recorded.
    pub faults: Vec<StorageFault>,
}

/// How a process run ended.
pub struct Trail {
    /// The process run that was cut.
    pub process_run: Arc<SeenRun>,
    /// How it was cut.
    pub crash: CaseCrash,
    /// Requests that its clients had sent by then.
    pub sent: usize,
}

/// A moment of a process run at which it may be cut.
#[derive(Clone)]
pub struct Point {
    /// The world at this moment.
    pub moment: Moment,
    /// What must survive if it is cut here.
    pub oracle: Arc<Oracle>,
    /// The same if the process is killed here, where that makes a difference.
    killed: Option<Arc<Oracle>>,
    /// A hash of both.
    pub obligations: u64,
    /// Events of its process run before it.
    pub event: u64,
    /// Requests that clients had sent by then.
    pub sent: usize,
    /// What the process run was doing.
    pub phase: Phase,
}

impl Point {
    /// What must survive if it is cut here in this way.
    pub fn oracle_after(&self, kind: CrashKind) -> &Arc<Oracle> {
        match (kind, &self.killed) {
            (CrashKind::Process, Some(killed)) => killed,
            _ => &self.oracle,
        }
    }

    /// Whether a flush is under way.
    pub fn is_in_flush(&self) -> bool {
        self.moment.storage().is_syncing()
    }

    /// What a recovery after a cut here has to show again, if that is known.
    pub fn reference<'a>(
        &self,
        process_run: &'a SeenRun,
        kind: CrashKind,
    ) -> Option<&'a Observation> {
        let disturbed = self.phase == Phase::Recovering && process_run.crashes > 0;
        let may_differ = kind == CrashKind::Power && !process_run.nothing_pending;
        process_run
            .shown
            .as_deref()
            .filter(|_| disturbed && !may_differ)
    }
}

impl SeenRun {
    /// The steps that led here and then, if a cut is given, to it.
    pub fn case(&self, sent: usize, crash: Option<CaseCrash>) -> Case {
        let mut process_runs = vec![CaseRun {
            requests: self.log[..sent].to_vec(),
            crash,
            ..CaseRun::default()
        }];
        let mut trail = self.trail.as_ref();
        let mut faults = &self.faults;
        while let Some(before) = trail {
            process_runs.push(CaseRun {
                requests: before.process_run.log[..before.sent].to_vec(),
                crash: Some(before.crash.clone()),
                ..CaseRun::default()
            });
            faults = &before.process_run.faults;
            trail = before.process_run.trail.as_ref();
        }
        process_runs.reverse();
        Case {
            process_runs,
            faults: faults.clone(),
        }
    }
}

/// A cut at a point, as a case says it.
pub fn crash(point: &Point, kind: CrashKind, state: &CrashState) -> CaseCrash {
    CaseCrash {
        after_event: point.event,
        kind,
        persisted: state.persisted.clone(),
    }
}

/// Keeps the points of a process run.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) points: Vec<Point>,
    /// What had to survive last, before and after the plug was pulled: most events change nothing in it.
    last: Option<MustSurvive>,
}

struct MustSurvive {
    alive: Arc<Oracle>,
    stopped: Arc<Oracle>,
    killed: Option<Arc<Oracle>>,
    truth: DeviceTruth,
    obligations: u64,
}

impl Watch for Recorder {
    fn look(&mut self, seen: &Seen<'_>) {
        let (oracle, killed, obligations) = self.must_survive(seen);
        self.points.push(Point {
            moment: seen.world.moment(),
            oracle,
            killed,
            obligations,
            event: seen.events,
            sent: seen.sent,
            phase: seen.phase,
        });
    }
}

impl Recorder {
    fn must_survive(&mut self, seen: &Seen<'_>) -> (Arc<Oracle>, Option<Arc<Oracle>>, u64) {
        let truth = DeviceTruth::of(seen.world, RunFaults::default());
        // The time of the cut counts only where relaxed writes have a window or a lie may excuse a loss.
        let timeless = truth.lies() == 0 && !seen.oracle.has_window();
        if let Some(last) = &self.last
            && timeless
            && seen.reading.is_none()
            && Arc::ptr_eq(&last.alive, seen.oracle)
            && same_faults(&last.truth, &truth)
        {
            return (
                Arc::clone(&last.stopped),
                last.killed.clone(),
                last.obligations,
            );
        }
        let after = |ending| {
            let mut stopped = Oracle::clone(seen.oracle);
            stopped.stopped(seen.world.now(), ending);
            if let Some(reading) = seen.reading {
                stopped.interrupted(&reading.clone().finish());
            }
            Arc::new(stopped)
        };
        let stopped = after(Ending::Crash);
        let apart = seen.oracle.tells_kills_apart();
        let killed = apart.then(|| after(Ending::Kill));
        let mut obligations = obligations(&stopped, &truth);
        if let Some(killed) = &killed {
            obligations ^= self::obligations(killed, &truth).rotate_left(1);
        }
        self.last = Some(MustSurvive {
            alive: Arc::clone(seen.oracle),
            stopped: Arc::clone(&stopped),
            killed: killed.clone(),
            truth,
            obligations,
        });
        (stopped, killed, obligations)
    }
}

fn same_faults(one: &DeviceTruth, other: &DeviceTruth) -> bool {
    let counts = |truth: &DeviceTruth| DeviceTruth {
        last_flush_completed_ns: None,
        slowest: Slowest::default(),
        slowest_calls: Slowest::default(),
        damaged_ns: Vec::new(),
        ..truth.clone()
    };
    counts(one) == counts(other)
}

/// A hash of all that judging a recovery depends on but what it shows.
pub fn obligations(stopped: &Oracle, truth: &DeviceTruth) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(&stopped.fingerprint().to_le_bytes());
    if stopped.has_window() {
        hash.update(&stopped.must_survive(truth).to_le_bytes());
    }
    if !truth.is_clean() {
        let flushed = truth.last_flush_completed_ns.unwrap_or(u64::MAX);
        let must_survive = stopped.must_survive_despite_lies(truth);
        for number in [
            truth.flush_lies,
            truth.lost_writes,
            truth.misdirected_writes,
            truth.misdirected_reads,
            truth.stale_reads,
            truth.bit_rot,
            truth.latent_errors,
            truth.read_errors,
            truth.write_errors,
            truth.flush_errors,
            truth.no_space,
            flushed,
            must_survive.into(),
        ] {
            hash.update(&number.to_le_bytes());
        }
    }
    hash.digest()
}
