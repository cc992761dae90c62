//! One guest, one storage (a device or files), one virtual clock; events one at a time; a cut at any point between two of them.
//!
//! Invariants:
//! - the earliest event goes first; at equal times a completion, then a request, then a wake-up, each in order of creation;
//! - a call starts when the processor is free and takes its fuel's time; what it lets out takes effect at its end, one item
//!   an event, so that a cut can fall between two submissions of one call;
//! - after a crash nothing of the process run is left but the storage.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use kvsim_fs::{FileConfig, FileSystem, Moment as FileMoment};
use kvsim_simdisk::{
    Completion, CrashError, CrashKind, CrashReport, CrashState, Device, DeviceConfig, FaultConfig,
    FaultKind, Nanos, OpId,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::api::{Reply, Request, RequestId};
use crate::guest::{Call, Guest, GuestLimits, Needs, OpenConfig, OutItem, Outbox, Program};
use crate::intervention::{Effort, Intervention, Place};
use crate::notes::{Asked, Cut, FiredFault};
use crate::places::TracedCall;
use crate::steps::describe as describe_step;
use crate::storage::Storage;
use crate::trace::{Trace, TraceEvent, TraceMode, describe, hash_body};
use crate::{GuestError, WorldError};

/// What a world is made from.
#[derive(Debug, Clone)]
pub struct WorldConfig {
    /// Feeds every stream of random numbers.
    pub seed: u64,
    /// The device.
    pub device: DeviceConfig,
    /// Its liberties.
    pub faults: FaultConfig,
    /// The file system, of a program that uses files; device and faults count for nothing then.
    pub files: FileConfig,
    /// What a guest may use up.
    pub limits: GuestLimits,
    /// Virtual time of one unit of fuel, in picoseconds.
    pub fuel_ps: u64,
    /// The guest's own options.
    pub options: BTreeMap<String, String>,
    /// What the second opening and every later one is given on top of them, one table after the other in turn. Empty: the same options each time.
    pub reopen: Vec<BTreeMap<String, String>>,
    /// Identity of a database that is created.
    pub db_id: [u8; 16],
    /// What is kept of the trace.
    pub trace: TraceMode,
}

impl WorldConfig {
    /// The options of the n-th opening, counted from 1.
    #[must_use]
    pub fn options_of(&self, opening: u64) -> BTreeMap<String, String> {
        let mut options = self.options.clone();
        let tables = self.reopen.len() as u64;
        if let Some(at) = opening.checked_sub(2).and_then(|n| n.checked_rem(tables)) {
            let table = &self.reopen[usize::try_from(at).expect("below the number of tables")];
            options.extend(table.clone());
        }
        options
    }
}

/// A request on its way.
struct Arrival {
    request: Request,
    /// What it takes to bring its client onto the processor, if it has to wait for it.
    turn_ns: Nanos,
}

/// What one step was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The guest answered a request.
    Reply(Reply),
    /// Something else happened.
    Event,
    /// Nothing can ever happen again without a new request.
    Quiet,
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
    /// The process run has answered its opening; requests wait for that.
    opened: bool,
    next_request: RequestId,
    outstanding: u64,
    events: u64,
    /// Requests that are with the guest, in the order in which they were handed in, and how many events there had been then. Those that
    /// were answered go when they are the first.
    handed_in: VecDeque<(RequestId, u64)>,
    unanswered: BTreeSet<RequestId>,
    fuel: u64,
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

/// A world caught between two events, without its guest: what is left when the plug is pulled there, any number of times.
#[derive(Clone)]
pub struct Moment {
    program: Arc<dyn Program>,
    config: Arc<WorldConfig>,
    storage: Storage,
    now: Nanos,
    next_request: RequestId,
    events: u64,
    fuel: u64,
    process_run: u64,
}

impl std::fmt::Debug for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Moment(event {}, {} ns)", self.events, self.now)
    }
}

impl Moment {
    /// The storage as it was.
    #[must_use]
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Virtual time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// The world after a crash at this moment, equal to the one in which it would have happened but for its trace, which
    /// is not kept.
    ///
    /// # Errors
    /// If the storage could not have left this.
    pub fn crashed(&self, kind: CrashKind, state: &CrashState) -> Result<World, CrashError> {
        let mut storage = self.storage.clone();
        storage.crash(self.now, kind, state)?;
        Ok(World {
            program: Arc::clone(&self.program),
            config: Arc::clone(&self.config),
            storage,
            guest: None,
            now: self.now,
            cpu_free_at: self.now,
            arrivals: BTreeMap::new(),
            outbox: VecDeque::new(),
            wake_at: None,
            opened: false,
            next_request: self.next_request,
            outstanding: 0,
            events: self.events,
            handed_in: VecDeque::new(),
            unanswered: BTreeSet::new(),
            fuel: self.fuel,
            process_run: self.process_run,
            coverage_points: Vec::new(),
            trace: Trace::new(TraceMode::Off),
            called_at: self.now,
            syncing: None,
            has_steps: true,
            interventions: Vec::new(),
            awaited: BTreeSet::new(),
            traced_ops: BTreeSet::new(),
            traced: BTreeMap::new(),
        })
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
            opened: false,
            next_request: 1,
            outstanding: 0,
            events: 0,
            handed_in: VecDeque::new(),
            unanswered: BTreeSet::new(),
            fuel: 0,
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
        self.guest = Some(started.inspect_err(|error| self.trace.push(self.now, fault(error)))?);
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

    /// Lets the next thing happen.
    ///
    /// # Errors
    /// What the guest did wrong. The process run is over then: only a crash and an opening go on.
    pub fn step(&mut self) -> Result<Step, GuestError> {
        if self.guest.is_none() {
            return Ok(Step::Quiet);
        }
        if let Some(item) = self.outbox.pop_front() {
            self.events += 1;
            if let OutItem::Step(moment) = item {
                self.take_step(*moment);
                return Ok(Step::Event);
            }
            self.now = self.now.max(self.cpu_free_at);
            return self.let_out(item);
        }
        let completion_at = self.storage.next_completion_at();
        let first = self.arrivals.first_key_value().filter(|_| self.opened);
        let arrival_at = first.map(|(&(at, _), _)| at);
        let Some(at) = [completion_at, arrival_at, self.wake_at]
            .into_iter()
            .flatten()
            .min()
        else {
            return Ok(Step::Quiet);
        };
        self.events += 1;
        self.now = self.now.max(at).max(self.cpu_free_at);
        self.check_answers()?;
        if completion_at == Some(at) {
            let completion = self.storage.complete_next().expect("one is due");
            self.deliver(&completion)?;
        } else if arrival_at == Some(at) {
            let ((_, id), arrival) = self.arrivals.pop_first().expect("one is due");
            let Arrival { request, turn_ns } = arrival;
            self.hand_in(id);
            if at < self.now {
                self.now = self.now.saturating_add(turn_ns);
            }
            if self.trace.is_on() {
                self.trace.push(self.now, arrived(id, &request));
            }
            self.call(Call::Request {
                id,
                request: &request,
            })?;
        } else {
            self.wake_at = None;
            self.trace.push(self.now, TraceEvent::Tick);
            self.call(Call::Tick)?;
        }
        Ok(Step::Event)
    }

    /// A request comes to the guest.
    fn hand_in(&mut self, id: RequestId) {
        self.handed_in.push_back((id, self.events));
        self.unanswered.insert(id);
    }

    /// No request waits for its answer for ever.
    fn check_answers(&mut self) -> Result<(), GuestError> {
        while let Some((id, at)) = self.handed_in.front() {
            if self.unanswered.contains(id) {
                let events = self.config.limits.events_per_answer;
                if self.events - at <= events {
                    return Ok(());
                }
                let unanswered = self.unanswered.len() as u64;
                return Err(self.end(GuestError::Endless { events, unanswered }));
            }
            self.handed_in.pop_front();
        }
        Ok(())
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
        self.opened = false;
        self.outstanding = 0;
        self.handed_in.clear();
        self.unanswered.clear();
        self.cpu_free_at = self.now;
        Ok(report)
    }

    /// A copy with a copy of the storage, to try something on. Its trace begins empty and keeps nothing.
    ///
    /// # Panics
    /// If a process run is under way: a running guest cannot be copied.
    #[must_use]
    pub fn fork(&self) -> World {
        assert!(self.guest.is_none(), "a running guest cannot be copied");
        World {
            program: Arc::clone(&self.program),
            config: Arc::clone(&self.config),
            storage: self.storage.clone(),
            guest: None,
            arrivals: BTreeMap::new(),
            outbox: VecDeque::new(),
            coverage_points: Vec::new(),
            trace: Trace::new(TraceMode::Hash),
            syncing: None,
            interventions: Vec::new(),
            awaited: BTreeSet::new(),
            traced_ops: BTreeSet::new(),
            traced: BTreeMap::new(),
            handed_in: VecDeque::new(),
            unanswered: BTreeSet::new(),
            ..*self
        }
    }

    /// What a cut at this moment would begin from. Costs a copy of the storage, which shares its contents.
    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment {
            program: Arc::clone(&self.program),
            config: Arc::clone(&self.config),
            storage: self.storage.clone(),
            now: self.now,
            next_request: self.next_request,
            events: self.events,
            fuel: self.fuel,
            process_run: self.process_run,
        }
    }

    /// A step of the file system has happened, in the middle of the last call.
    fn take_step(&mut self, moment: FileMoment) {
        let at = self.called_at.saturating_add(moment.after_ns);
        self.now = self.now.max(at.min(self.cpu_free_at));
        if self.trace.is_on() {
            let said = describe_step(&moment.step, &moment.files, &mut self.syncing);
            let step = TraceEvent::Step {
                op: said.op,
                kind: said.kind,
                what: said.words,
                hash: said.hash,
            };
            self.trace.push(self.now, step);
        }
        self.storage = Storage::Files(moment.files);
        self.note_faults();
        self.catch_up();
    }

    /// Once no step of a call is to come any more, the storage is what the guest works on: what reads have met is known by then.
    fn catch_up(&mut self) {
        let is_step = |item: &OutItem| matches!(item, OutItem::Step(_));
        let live = self.guest.as_ref().and_then(|guest| guest.files());
        if let Some(live) = live
            && !self.outbox.iter().any(is_step)
        {
            self.storage = Storage::Files(live.clone());
            self.note_faults();
        }
    }

    fn let_out(&mut self, item: OutItem) -> Result<Step, GuestError> {
        match item {
            OutItem::Step(moment) => self.take_step(*moment),
            OutItem::Submit { tag, op } => {
                let (kind, offset, len_bytes, hash) = describe(&op, self.trace.is_on());
                self.intervene_at(Place::Submitting(self.storage.next_op()));
                match self.storage.submit(self.now, tag, op) {
                    Ok(op) => {
                        let submit = TraceEvent::Submit {
                            op,
                            tag,
                            kind,
                            offset,
                            len_bytes,
                            hash,
                        };
                        self.trace.push(self.now, submit);
                        self.note_faults();
                        self.intervene_at(Place::Submitted(op));
                    }
                    Err(error) => {
                        let verdict = GuestError::Abi(format!("a {kind} that {error}"));
                        return Err(self.end(verdict));
                    }
                }
            }
            OutItem::Reply(reply) => {
                self.intervene_at(Place::Replying(reply.id));
                if self.trace.is_on() {
                    let hash = hash_body(&reply);
                    self.trace.push(
                        self.now,
                        TraceEvent::Reply {
                            id: reply.id,
                            status: reply.status,
                            hash,
                        },
                    );
                }
                self.outstanding -= 1;
                self.unanswered.remove(&reply.id);
                self.opened |= reply.id == 0;
                return Ok(Step::Reply(reply));
            }
            OutItem::Log { level, text } => {
                tracing::debug!(target: "kvsim::guest", ?level, "{text}");
                self.trace.push(self.now, TraceEvent::Log { level, text });
            }
        }
        Ok(Step::Event)
    }

    /// Notes what has affected the operation just submitted, if events are kept.
    fn note_faults(&mut self) {
        let event = self.trace.len().saturating_sub(1);
        if let Some(notes) = self.trace.notes_mut() {
            let fired = self.storage.fired_script(notes.faults.len()).into_iter();
            notes
                .faults
                .extend(fired.map(|fault| FiredFault { event, fault }));
        }
    }

    /// Does for the guest what it is to be done for here.
    fn intervene_at(&mut self, place: Place) {
        for intervene in &self.interventions {
            if intervene.process_run == self.process_run && intervene.place == place {
                intervene.apply(&mut self.storage);
            }
        }
    }

    fn deliver(&mut self, completion: &Completion) -> Result<(), GuestError> {
        self.intervene_at(Place::Completed(completion.id));
        let effort = Effort::Later(completion.id);
        if self
            .interventions
            .iter()
            .any(|intervene| intervene.effort == effort)
        {
            self.awaited.insert(completion.id);
        }
        let hash = match &completion.result {
            Ok(Some(bytes)) if self.trace.is_on() => bytes.hash(),
            _ => 0,
        };
        let error = completion.result.as_ref().err().copied();
        let (op, tag) = (completion.id, completion.tag);
        self.trace.push(
            self.now,
            TraceEvent::Complete {
                op,
                tag,
                error,
                hash,
            },
        );
        let result = completion
            .result
            .as_ref()
            .map(Option::as_ref)
            .map_err(|&error| error);
        self.call(Call::Complete { tag, result })
    }

    fn call(&mut self, call: Call<'_>) -> Result<(), GuestError> {
        let guest = self.guest.as_mut().expect("a process run is under way");
        let mut out = Outbox::from(std::mem::take(&mut self.outbox));
        self.called_at = self.now;
        let ended = guest.call(self.now, call, &mut out);
        self.outbox = out.into();
        if !self.traced_ops.is_empty()
            && let Some(traced) = guest.traced()
        {
            self.traced.extend(traced.clone());
        }
        for &point in guest.reached() {
            let point = point as usize;
            if self.coverage_points.len() <= point {
                self.coverage_points.resize(point + 1, 0);
            }
            self.coverage_points[point] += 1;
            if self.trace.is_on() {
                let name = self
                    .program
                    .coverage_points()
                    .get(point)
                    .cloned()
                    .unwrap_or_default();
                self.trace
                    .push(self.now, TraceEvent::CoveragePoint { name });
            }
        }
        match ended {
            Ok(end) => {
                self.fuel += end.fuel;
                let took_ns = end.fuel.saturating_mul(self.config.fuel_ps).div_ceil(1000);
                let took_ns = took_ns.saturating_add(end.elapsed_ns);
                self.cpu_free_at = self.now.saturating_add(took_ns);
                self.wake_at = end.wake_at;
                self.trace.push(
                    self.now,
                    TraceEvent::Returned {
                        fuel: end.fuel,
                        wake_at: end.wake_at,
                    },
                );
                self.catch_up();
                Ok(())
            }
            Err(verdict) => Err(self.end(verdict)),
        }
    }

    fn end(&mut self, verdict: GuestError) -> GuestError {
        if let GuestError::OutOfFuel { fuel, .. } = &verdict {
            self.fuel += fuel;
        }
        self.trace.push(self.now, fault(&verdict));
        self.guest = None;
        verdict
    }
}

fn fault(verdict: &GuestError) -> TraceEvent {
    TraceEvent::Fault {
        verdict: verdict.to_string(),
    }
}

fn arrived(id: RequestId, request: &Request) -> TraceEvent {
    let (op, hash) = match request {
        Request::Put { key, value, .. } => ("put", xxh3_64(key) ^ xxh3_64(value)),
        Request::Delete { key, .. } => ("delete", xxh3_64(key)),
        Request::Batch { mutations, .. } => ("batch", mutations.len() as u64),
        Request::Get { key, snapshot } => ("get", xxh3_64(key) ^ snapshot),
        Request::Scan(scan) => ("scan", u64::from(scan.limit) ^ scan.snapshot),
        Request::Snapshot => ("snapshot", 0),
        Request::Release { snapshot } => ("release", *snapshot),
        Request::Sync => ("sync", 0),
        Request::Close => ("close", 0),
    };
    TraceEvent::Request { id, op, hash }
}
