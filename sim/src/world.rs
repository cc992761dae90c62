//! One guest, one storage (a device or files), one virtual clock; events one at a time; a cut at any point between two of them.
//!
//! Invariants:
//! - the earliest event goes first; at equal times a completion, then a request, then a wake-up, each in order of creation;
//! - a call starts when the processor is free and takes its fuel's time; what it lets out takes effect at its end, one item
//!   an event, so that a cut can fall between two submissions of one call;
//! - after a crash nothing of the process run is left but the storage.

mod config;
mod copies;
mod step;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use kvsim_fs::FileSystem;
use kvsim_simdisk::{
    CrashError, CrashKind, CrashReport, CrashState, Device, FaultKind, Nanos, OpId, Slowest,
};

use crate::WorldError;
use crate::api::{Request, RequestId};
use crate::guest::{Call, Guest, Needs, OpenConfig, OutItem, Program};
use crate::intervention::{Effort, Intervention, Place};
use crate::notes::{Asked, Cut};
use crate::places::TracedCall;
use crate::storage::Storage;
use crate::trace::{Trace, TraceEvent};

pub use config::WorldConfig;
pub use copies::Moment;
pub use step::Step;

/// A request on its way.
struct Arrival {
    request: Request,
    /// What it takes to bring its client onto the processor, if it has to wait for it.
    turn_ns: Nanos,
}

/// Timers of the guest, one after the other, that keep a request that is due from it, or between which time stands still.
#[derive(Debug, Clone, Copy, Default)]
struct VainTicks {
    count: u64,
    last_at: Nanos,
}

/// How long nothing was under way and nothing computed, in this process run.
#[derive(Debug, Clone, Copy, Default)]
struct Idle {
    ns: Nanos,
    /// The same when an operation was under way last.
    ns_before: Nanos,
}

/// A request that is with the guest, and what there had been when it was handed in.
#[derive(Debug, Clone, Copy)]
struct HandedIn {
    id: RequestId,
    events: u64,
    idle_ns: Nanos,
}

/// A simulated machine.
pub struct World {
    program: Arc<dyn Program>,
    config: Arc<WorldConfig>,
    storage: Storage,
    guest: Option<Box<dyn Guest>>,
    now: Nanos,
    cpu_free_at: Nanos,
    arrivals: BTreeMap<(Nanos, RequestId), Arrival>,
    outbox: VecDeque<OutItem>,
    wake_at: Option<Nanos>,
    vain: VainTicks,
    idle: Idle,
    /// The process run has answered its opening; requests wait for that.
    opened: bool,
    next_request: RequestId,
    outstanding: u64,
    events: u64,
    /// Requests that are with the guest, in the order in which they were handed in. Those that were answered go when they are the first.
    handed_in: VecDeque<HandedIn>,
    unanswered: BTreeSet<RequestId>,
    fuel: u64,
    /// How long the guest computed in its calls.
    slowest_calls: Slowest,
    process_run: u64,
    /// How often each coverage point of the guest was reached.
    coverage_points: Vec<u64>,
    trace: Trace,
    /// Of a guest that uses files: when its last call began, and what is being synced.
    called_at: Nanos,
    syncing: Option<String>,
    /// Whether the steps of a file system are events.
    has_steps: bool,
    /// What the host does for the guest; nothing as a rule.
    interventions: Vec<Intervention>,
    /// Operations that have completed and that answers wait for.
    awaited: BTreeSet<OpId>,
    /// Calls of the file system whose place in the engine's code is asked for, and what is known of them.
    traced_ops: BTreeSet<u64>,
    traced: BTreeMap<u64, TracedCall>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let World {
            now,
            events,
            process_run,
            trace,
            ..
        } = self;
        write!(
            f,
            "World(process run {process_run}, event {events}, {now} ns, {trace:?})"
        )
    }
}

impl World {
    /// A world with a blank storage of the kind that the program needs, and no process run yet.
    ///
    /// # Errors
    /// If device or faults are impossible.
    pub fn new(program: Arc<dyn Program>, config: WorldConfig) -> Result<World, WorldError> {
        let seed = config.seed;
        let storage = match program.needs() {
            Needs::Device => Storage::Device(Device::new(&config.device, &config.faults, seed)?),
            Needs::Files => Storage::Files(FileSystem::new(&config.files, seed)?),
        };
        let trace = Trace::new(config.trace);
        Ok(World {
            program,
            config: Arc::new(config),
            storage,
            guest: None,
            now: 0,
            cpu_free_at: 0,
            arrivals: BTreeMap::new(),
            outbox: VecDeque::new(),
            wake_at: None,
            vain: VainTicks::default(),
            idle: Idle::default(),
            opened: false,
            next_request: 1,
            outstanding: 0,
            events: 0,
            handed_in: VecDeque::new(),
            unanswered: BTreeSet::new(),
            fuel: 0,
            slowest_calls: Slowest::default(),
            process_run: 0,
            coverage_points: Vec::new(),
            trace,
            called_at: 0,
            syncing: None,
            has_steps: true,
            interventions: Vec::new(),
            awaited: BTreeSet::new(),
            traced_ops: BTreeSet::new(),
            traced: BTreeMap::new(),
        })
    }

    /// Lets the n-th operation that such a fault can affect fail, counted from 0 and from now.
    pub fn fail_nth(&mut self, kind: FaultKind, n: u64) {
        self.storage.fail_nth(kind, n);
    }

    /// Lets the storage note from now on what is read.
    pub fn note_reads(&mut self) {
        self.storage.note_reads();
    }

    /// Lets the steps of a file system be no events from the next opening on: for process runs that nobody cuts.
    pub fn without_steps(&mut self) {
        self.has_steps = false;
    }

    /// Whether what the guest does in this process run depends on the time or on random numbers.
    #[must_use]
    pub fn asked_time(&self) -> bool {
        self.guest.as_ref().is_some_and(|guest| guest.asked_time())
    }

    /// Notes from now on which reads, writes and flushes the storage is asked for.
    pub fn note_ops(&mut self) {
        self.storage.note_ops();
    }

    /// Notes from the next opening on where in the engine's own code these calls of the file system are made, by their numbers. The course of events
    /// stays the same; calls take longer.
    pub fn trace_calls(&mut self, ops: BTreeSet<u64>) {
        self.traced_ops = ops;
    }

    /// Where the calls were made that [`trace_calls`](World::trace_calls) has named, of those that were made so far in this world.
    #[must_use]
    pub fn traced_calls(&self) -> &BTreeMap<u64, TracedCall> {
        &self.traced
    }

    /// Does this for the guest from now on. The course of events stays the same: only what a cut can leave changes. Reference recoveries and
    /// [moments](Moment) know nothing of it.
    pub fn intervene(&mut self, interventions: &[Intervention]) {
        self.interventions = interventions.to_vec();
        if let Storage::Files(files) = &mut self.storage {
            let interventions = interventions.iter().filter_map(Intervention::on_files);
            interventions.for_each(|intervention| files.intervene_at(intervention));
        }
    }

    /// Whether this answer counts as given only later, by something done for the guest ([`Effort::Later`]).
    #[must_use]
    pub fn holds(&self, answer: RequestId) -> bool {
        self.interventions
            .iter()
            .any(|intervene| match intervene.effort {
                Effort::Later(op) => {
                    intervene.process_run == self.process_run
                        && intervene.place == Place::Replying(answer)
                        && !self.awaited.contains(&op)
                }
                _ => false,
            })
    }

    /// How long the guest computed in its calls. What files took is in it, since a file system takes its time within them.
    #[must_use]
    pub fn slowest_calls(&self) -> &Slowest {
        &self.slowest_calls
    }

    /// Virtual time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Events so far, over all process runs: the clock that crashes go by.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Fuel burnt so far, over all process runs.
    #[must_use]
    pub fn fuel(&self) -> u64 {
        self.fuel
    }

    /// Requests that were submitted and have not come to the guest yet.
    #[must_use]
    pub fn coming(&self) -> usize {
        self.arrivals.len()
    }

    /// When the guest's last call ends, or ended, and its processor is free.
    #[must_use]
    pub fn busy_until(&self) -> Nanos {
        self.cpu_free_at
    }

    /// Requests handed over and not answered, the opening among them.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// The storage.
    #[must_use]
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The device of a program that needs one.
    ///
    /// # Panics
    /// If the program uses files.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.storage.device().expect("the program needs a device")
    }

    /// The trace.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// How often the guest has reached each of its coverage points, by their numbers, over all process runs of this world. Coverage points beyond the
    /// end were never reached.
    #[must_use]
    pub fn coverage_points(&self) -> &[u64] {
        &self.coverage_points
    }

    /// Which process run this is, from 1; 0 before the first.
    #[must_use]
    pub fn process_run(&self) -> u64 {
        self.process_run
    }

    /// Starts a fresh instance and asks it to open; the answer is the reply to request 0.
    ///
    /// # Errors
    /// If the instance cannot be made, or fails in the call.
    ///
    /// # Panics
    /// If a process run is under way; crash it first.
    pub fn open(&mut self) -> Result<(), WorldError> {
        assert!(self.guest.is_none(), "a process run is under way");
        self.process_run += 1;
        self.trace.push(
            self.now,
            TraceEvent::Open {
                process_run: self.process_run,
            },
        );
        let limits = &self.config.limits;
        let started = match &mut self.storage {
            Storage::Device(_) => self.program.start(limits),
            Storage::Files(files) => {
                files.note_moments(self.has_steps);
                files.set_now(self.now);
                if self.traced_ops.is_empty() {
                    self.program.start_on(limits, files)
                } else {
                    self.program.start_traced(limits, files, &self.traced_ops)
                }
            }
        };
        self.guest =
            Some(started.inspect_err(|error| self.trace.push(self.now, step::fault(error)))?);
        self.outstanding = 1;
        self.hand_in(0);
        let open = OpenConfig {
            device: self.storage.info(),
            memory_bytes_max: self.config.limits.memory_bytes_max,
            db_id: self.config.db_id,
            options: self.config.options_of(self.process_run),
        };
        Ok(self.call(Call::Open(&open))?)
    }

    /// Lets a request arrive at `at`, or now if that is past; not before the opening is answered, though. Requests of equal time
    /// arrive in the order of this call.
    pub fn submit(&mut self, at: Nanos, request: Request) -> RequestId {
        self.submit_in_turn(at, request, 0)
    }

    /// The same of a client that sleeps when it has to wait for the processor: then `turn_ns` pass until it is awake, which begin
    /// when the processor is free.
    pub fn submit_in_turn(&mut self, at: Nanos, request: Request, turn_ns: Nanos) -> RequestId {
        let id = self.next_request;
        self.next_request += 1;
        self.outstanding += 1;
        let arrival = Arrival { request, turn_ns };
        self.arrivals.insert((at.max(self.now), id), arrival);
        id
    }

    /// Notes who sent a request and what it is in words, if events are kept.
    pub fn note_request(&mut self, id: RequestId, asked: impl FnOnce() -> Asked) {
        if let Some(notes) = self.trace.notes_mut() {
            notes.asked.insert(id, asked());
        }
    }

    /// Notes the number of a client's request among those of all clients, if events are kept.
    pub fn note_number(&mut self, id: RequestId, number: u64) {
        if let Some(asked) = self
            .trace
            .notes_mut()
            .and_then(|notes| notes.asked.get_mut(&id))
        {
            asked.number = Some(number);
        }
    }

    /// Notes what there is to say of the last event, if events are kept.
    pub fn note(&mut self, words: impl FnOnce() -> String) {
        let last = self.trace.len().checked_sub(1);
        if let (Some(last), Some(notes)) = (last, self.trace.notes_mut()) {
            notes.said.insert(last, words());
        }
    }

    /// Ends the process run; a power cut leaves what the storage draws.
    pub fn crash(&mut self, kind: CrashKind) -> CrashReport {
        let state = if kind == CrashKind::Power {
            self.storage.draw_crash()
        } else {
            CrashState::default()
        };
        self.crash_with(kind, &state)
            .expect("the storage draws what it accepts")
    }

    /// Ends the process run; a power cut leaves exactly `state`.
    ///
    /// # Errors
    /// If the storage could not have left this. The process run goes on then.
    pub fn crash_with(
        &mut self,
        kind: CrashKind,
        state: &CrashState,
    ) -> Result<CrashReport, CrashError> {
        let event = self.trace.len();
        let keeps = self.trace.notes_mut().is_some();
        let cut = keeps.then(|| Cut::before(event, &self.storage));
        let report = self.storage.crash(self.now, kind, state)?;
        self.trace.push(self.now, TraceEvent::Crash(report.clone()));
        if let (Some(cut), Some(notes)) = (cut, self.trace.notes_mut()) {
            notes.cuts.push(cut.after(&report));
        }
        self.guest = None;
        self.syncing = None;
        self.arrivals.clear();
        self.outbox.clear();
        self.wake_at = None;
        self.vain = VainTicks::default();
        self.idle = Idle::default();
        self.opened = false;
        self.outstanding = 0;
        self.handed_in.clear();
        self.unanswered.clear();
        self.cpu_free_at = self.now;
        Ok(report)
    }
}
