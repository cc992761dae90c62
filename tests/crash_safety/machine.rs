//! Drives the built-in engine through a case, in a simulated world.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use kvsim_harness::oracle::Property;
use kvsim_sim::api::{
    Body, Direction, Durability, Mutation, Reply, Request, RequestId, Scan, Status,
};
use kvsim_sim::{GuestLimits, Program, Step as Happened, TraceMode, World, WorldConfig};
use kvsim_simdisk::{CrashKind, CrashState, DeviceConfig, FaultConfig, PendingKind, Persisted};

use crate::case::{Action, Case, Cut, KEYS, Step, VALUE_BYTES};
use crate::model::{Finding, Model, State, Write};

/// Events after which a guest that has not answered counts as hung.
const EVENT_LIMIT: u64 = 200_000;

fn engine() -> Arc<dyn Program> {
    static ENGINE: OnceLock<Arc<dyn Program>> = OnceLock::new();
    Arc::clone(ENGINE.get_or_init(kvsim_tests::builtin_guest))
}

/// What a request in flight is about.
enum Asked {
    /// A write, by its place since the base.
    Write(usize),
    /// Everything up to there is durable when it is answered.
    Sync(usize),
    Get(u8, Option<u32>),
    Scan(Scan, State),
    Snapshot(State),
}

/// A world, and what must survive in it.
pub(crate) struct Machine {
    world: World,
    model: Model,
    asked: BTreeMap<RequestId, Asked>,
    snapshots: Vec<(u64, State)>,
    /// The key of each value, by its number less one.
    owners: Vec<u8>,
    crashes: u64,
    /// The device lies: reports of damage are in order, and only wrong bytes are not.
    lies: bool,
    ended: bool,
}

/// Runs a case.
pub(crate) fn run(case: &Case, faults: FaultConfig) -> Result<(), Finding> {
    let mut machine = Machine::new(faults)?;
    for step in &case.0 {
        machine.step(step)?;
        if machine.ended {
            return Ok(());
        }
    }
    machine.finish()
}

fn misbehaved(what: impl ToString) -> Finding {
    (Property::GuestBehaves, what.to_string())
}

fn key(key: u8) -> Vec<u8> {
    vec![b'k', b'0' + key]
}

/// A value that says which write it is from, filled with bytes that follow from that.
fn value(number: u32, size: u8) -> Vec<u8> {
    let len = 4 + VALUE_BYTES[usize::from(size)];
    let mut value: Vec<u8> = number.to_le_bytes().to_vec();
    value.extend(
        (4..len as u64).map(|at| (at.wrapping_mul(u64::from(number) | 1) >> 3).to_le_bytes()[0]),
    );
    value
}

/// The number of a value whose bytes are all as they should be.
fn number_of(bytes: &[u8]) -> Option<u32> {
    let number = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
    let size = VALUE_BYTES.iter().position(|len| len + 4 == bytes.len())?;
    (value(number, u8::try_from(size).ok()?) == bytes).then_some(number)
}

impl Machine {
    fn new(faults: FaultConfig) -> Result<Machine, Finding> {
        let lies = faults
            .asked()
            .into_iter()
            .any(kvsim_simdisk::FaultKind::is_lie);
        let config = WorldConfig {
            seed: 1,
            device: DeviceConfig {
                capacity_bytes: 16 << 20,
                ..DeviceConfig::default()
            },
            faults,
            files: Default::default(),
            limits: GuestLimits {
                memory_bytes_max: 64 << 20,
                fuel_per_call: 2_000_000_000,
                events_per_answer: 1_000_000,
                idle_ns_per_answer: 10_000_000_000,
            },
            fuel_ps: 250,
            options: BTreeMap::new(),
            reopen: Vec::new(),
            db_id: [7; 16],
            trace: TraceMode::Hash,
        };
        let world = World::new(engine(), config).expect("the device can be made");
        let (model, asked, snapshots) = (Model::default(), BTreeMap::new(), Vec::new());
        let mut machine = Machine {
            world,
            model,
            asked,
            snapshots,
            owners: Vec::new(),
            crashes: 0,
            lies,
            ended: false,
        };
        machine.open(None)?;
        Ok(machine)
    }

    fn step(&mut self, step: &Step) -> Result<(), Finding> {
        match &step.action {
            Action::Cut(cut) => return self.cut(cut),
            Action::Reopen => return self.reopen(),
            Action::Write { writes, durable } => self.write(writes, *durable),
            Action::Sync => {
                let count = self.model.since.len();
                self.ask(Request::Sync, Asked::Sync(count));
            }
            Action::Get(of) => {
                let due = self.model.latest().get(of).copied();
                self.ask(
                    Request::Get {
                        key: key(*of),
                        snapshot: 0,
                    },
                    Asked::Get(*of, due),
                );
            }
            Action::Scan { reverse, limit } => self.scan(0, *reverse, *limit, self.model.latest()),
            Action::Snapshot => {
                let state = self.model.latest();
                self.ask(Request::Snapshot, Asked::Snapshot(state));
            }
            Action::ReadSnapshot(which) => {
                if let Some((id, state)) = self.snapshots.get(usize::from(*which)).cloned() {
                    self.scan(id, which % 2 == 1, KEYS, state);
                }
            }
        }
        self.go_on(step.events.map(u64::from))
    }

    /// Lets so many events happen, or all until everything is answered.
    fn go_on(&mut self, events: Option<u64>) -> Result<(), Finding> {
        for _ in 0..events.unwrap_or(EVENT_LIMIT) {
            if self.ended || (events.is_none() && self.asked.is_empty()) {
                return Ok(());
            }
            match self.world.step().map_err(misbehaved)? {
                Happened::Reply(reply) => self.replied(&reply)?,
                Happened::Event => {}
                Happened::Quiet if self.asked.is_empty() => return Ok(()),
                Happened::Quiet => {
                    return Err(misbehaved(
                        "requests are unanswered, and nothing will ever happen",
                    ));
                }
            }
        }
        if events.is_none() {
            Err(misbehaved(format!("no answer after {EVENT_LIMIT} events")))
        } else {
            Ok(())
        }
    }

    fn ask(&mut self, request: Request, asked: Asked) {
        let id = self.world.submit(self.world.now(), request);
        self.asked.insert(id, asked);
    }

    fn write(&mut self, writes: &[(u8, Option<u8>)], durable: bool) {
        let durability = if durable {
            Durability::Durable
        } else {
            Durability::Relaxed
        };
        let mut numbered = Vec::new();
        let mut mutations = Vec::new();
        for &(of, size) in writes {
            let number = size.map(|_| self.number_for(of));
            numbered.push((of, number));
            mutations.push(match (number, size) {
                (Some(number), Some(size)) => Mutation::Put {
                    key: key(of),
                    value: value(number, size),
                },
                _ => Mutation::Delete { key: key(of) },
            });
        }
        let request = match mutations.pop() {
            Some(Mutation::Put { key, value }) if mutations.is_empty() => Request::Put {
                key,
                value,
                durability,
            },
            Some(Mutation::Delete { key }) if mutations.is_empty() => {
                Request::Delete { key, durability }
            }
            last => Request::Batch {
                mutations: mutations.into_iter().chain(last).collect(),
                durability,
            },
        };
        let after_crash = self.crashes > 0;
        self.model.since.push(Write {
            writes: numbered,
            durable,
            acknowledged: false,
            after_crash,
        });
        self.ask(request, Asked::Write(self.model.since.len() - 1));
    }

    /// The number of a new value of this key.
    fn number_for(&mut self, of: u8) -> u32 {
        self.owners.push(of);
        u32::try_from(self.owners.len()).expect("a case is short")
    }

    fn scan(&mut self, snapshot: u64, reverse: bool, limit: u8, state: State) {
        let scan = scan_of(snapshot, reverse, u32::from(limit));
        self.ask(Request::Scan(scan.clone()), Asked::Scan(scan, state));
    }

    fn replied(&mut self, reply: &Reply) -> Result<(), Finding> {
        let Some(asked) = self.asked.remove(&reply.id) else {
            return Err(misbehaved(format!("an answer to nothing: {reply:?}")));
        };
        if self.lies
            && matches!(
                reply.status,
                Status::Corruption | Status::IoError | Status::ReadOnly
            )
        {
            self.ended = true;
            return Ok(());
        }
        match (asked, reply.status, &reply.body) {
            (Asked::Write(at), Status::Ok, _) => self.model.acknowledged(at),
            (Asked::Sync(count), Status::Ok, _) => self.model.synced(count),
            (Asked::Get(of, due), Status::Ok, Body::Value(bytes)) => {
                self.agree(&[(of, due)], &[(of, Some(self.known(of, bytes)?))])?
            }
            (Asked::Get(of, due), Status::NotFound, _) => {
                self.agree(&[(of, due)], &[(of, None)])?
            }
            (Asked::Scan(scan, due), Status::Ok, Body::Entries { entries, more }) => {
                let seen = self.entries(entries)?;
                let (due, due_more) = expected(&scan, &due);
                self.agree(&due, &seen)?;
                self.agree(&due_more, more)?;
            }
            (Asked::Snapshot(state), Status::Ok, Body::Snapshot(id)) => {
                self.snapshots.push((*id, state))
            }
            (Asked::Write(at), ..) => {
                let what = format!(
                    "the write {:?} failed on a device that does nothing wrong: {reply:?}",
                    self.model.since[at]
                );
                return Err((Property::AcknowledgedDurable, what));
            }
            _ => {
                return Err(misbehaved(format!(
                    "not the answer to what was asked: {reply:?}"
                )));
            }
        }
        Ok(())
    }

    /// A read while the guest works, held against the model; which is not to be had where the device lies.
    fn agree<T: PartialEq + std::fmt::Debug + ?Sized>(
        &self,
        due: &T,
        seen: &T,
    ) -> Result<(), Finding> {
        if self.lies { Ok(()) } else { agree(due, seen) }
    }

    /// The number of a value of this key, whose bytes are as they were written.
    fn known(&self, of: u8, bytes: &[u8]) -> Result<u32, Finding> {
        let number = number_of(bytes).filter(|&number| self.owner(number) == Some(of));
        number.ok_or_else(|| {
            let what = format!(
                "key {of} holds {} bytes that nobody wrote to it",
                bytes.len()
            );
            (Property::DamageReported, what)
        })
    }

    /// The key that the value of this number was written to.
    fn owner(&self, number: u32) -> Option<u8> {
        self.owners
            .get(usize::try_from(number).ok()?.checked_sub(1)?)
            .copied()
    }

    fn entries(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<Vec<(u8, u32)>, Finding> {
        let entry = |(name, value): &(Vec<u8>, Vec<u8>)| {
            let of = (0..KEYS).find(|&of| key(of) == *name);
            let of = of.ok_or_else(|| {
                (
                    Property::DamageReported,
                    format!("a key that nobody wrote: {name:?}"),
                )
            })?;
            Ok((of, self.known(of, value)?))
        };
        entries.iter().map(entry).collect()
    }

    fn reopen(&mut self) -> Result<(), Finding> {
        let count = self.model.since.len();
        self.ask(Request::Close, Asked::Sync(count));
        self.go_on(None)?;
        if self.ended {
            return Ok(());
        }
        self.stop(CrashKind::Power, &CrashState::default());
        self.open(None)
    }

    /// The end of a case: a close, a cut, and a last look.
    fn finish(&mut self) -> Result<(), Finding> {
        self.reopen()
    }

    fn cut(&mut self, cut: &Cut) -> Result<(), Finding> {
        if cut.process {
            self.stop(CrashKind::Process, &CrashState::default());
        } else {
            let state = self.left_by(cut);
            self.stop(CrashKind::Power, &state);
        }
        self.open(cut.again_after)
    }

    fn stop(&mut self, kind: CrashKind, state: &CrashState) {
        self.world
            .crash_with(kind, state)
            .expect("the state was checked");
        self.crashes += 1;
        self.asked.clear();
        self.snapshots.clear();
    }

    /// The crash state that the case asks for, as far as the device could leave it.
    fn left_by(&self, cut: &Cut) -> CrashState {
        let device = self.world.device();
        let sector_bytes = u64::from(device.capabilities().sector_bytes);
        let mut persisted = Vec::new();
        for (at, write) in device.pending().iter().enumerate() {
            let bit = |mask: u64| mask & (1 << (at % 64)) != 0;
            let sectors = write.range().1 / sector_bytes;
            if write.dropped || !bit(cut.survive) {
                continue;
            }
            let torn =
                bit(cut.torn) && sectors > 1 && matches!(write.kind, PendingKind::Write { .. });
            let parity = u64::from(at % 2 == 1);
            persisted.push(match torn {
                true => Persisted::torn(
                    write.id,
                    (0..sectors).filter(|sector| sector % 2 == parity).collect(),
                ),
                false => Persisted::whole(write.id),
            });
        }
        if cut.reversed {
            persisted.reverse();
        }
        let state = CrashState { persisted };
        if device.check_crash(&state).is_ok() {
            state
        } else {
            CrashState::default()
        }
    }

    /// Opens, perhaps cut once while doing so, and holds what is there against the model and against a second recovery.
    fn open(&mut self, cut_after: Option<u8>) -> Result<(), Finding> {
        let mut reference = self.world.fork();
        // What a killed process left in the cache may be seen by one recovery and lost by a cut before the next.
        let at_rest = cut_after.is_none() || reference.device().pending().is_empty();
        let first = if self.crashes > 0 && !self.lies && at_rest {
            Some(self.look(&mut reference)?)
        } else {
            None
        };
        if let Some(events) = cut_after {
            self.world.open().map_err(misbehaved)?;
            for _ in 0..events {
                self.world.step().map_err(misbehaved)?;
            }
            self.stop(CrashKind::Power, &CrashState::default());
        }
        let mut world = self.world.fork();
        std::mem::swap(&mut world, &mut self.world);
        let seen = self.look(&mut world);
        self.world = world;
        let Some(seen) = seen? else {
            self.ended = true;
            return Ok(());
        };
        if let Some(Some(first)) = first.filter(|first| first.as_ref() != Some(&seen)) {
            return Err((
                Property::RecoveryIdempotent,
                format!("one recovery showed {first:?}, another {seen:?}"),
            ));
        }
        if self.lies {
            Ok(())
        } else {
            self.model.recovered(&seen)
        }
    }

    /// Opens a world and reads everything back, three ways; nothing if damage is reported.
    fn look(&self, world: &mut World) -> Result<Option<State>, Finding> {
        world.open().map_err(misbehaved)?;
        let opened = answer(world, 0)?;
        if self.lies && matches!(opened.status, Status::Corruption | Status::IoError) {
            return Ok(None);
        }
        if opened.status != Status::Ok {
            return Err((
                Property::AcknowledgedDurable,
                format!("it will not open: {opened:?}"),
            ));
        }
        let mut ways = Vec::new();
        for reverse in [false, true] {
            let request = Request::Scan(scan_of(0, reverse, 1_000));
            match self.ask_now(world, request)? {
                Reply {
                    status: Status::Ok,
                    body: Body::Entries { entries, .. },
                    ..
                } => {
                    let mut seen = self.entries(&entries)?;
                    if reverse {
                        seen.reverse();
                    }
                    ways.push(seen);
                }
                reply if self.lies && reply.status != Status::Ok => return Ok(None),
                reply => {
                    return Err((
                        Property::ReadsAgree,
                        format!("a scan was answered {reply:?}"),
                    ));
                }
            }
        }
        let mut by_key = Vec::new();
        for of in 0..KEYS {
            match self.ask_now(
                world,
                Request::Get {
                    key: key(of),
                    snapshot: 0,
                },
            )? {
                Reply {
                    status: Status::Ok,
                    body: Body::Value(bytes),
                    ..
                } => by_key.push((of, self.known(of, &bytes)?)),
                Reply {
                    status: Status::NotFound,
                    ..
                } => {}
                reply if self.lies && reply.status != Status::Ok => return Ok(None),
                reply => {
                    return Err((
                        Property::ReadsAgree,
                        format!("a get was answered {reply:?}"),
                    ));
                }
            }
        }
        agree(&ways[0], &ways[1])?;
        agree(&ways[0], &by_key)?;
        Ok(Some(by_key.into_iter().collect()))
    }

    fn ask_now(&self, world: &mut World, request: Request) -> Result<Reply, Finding> {
        let now = world.now();
        let id = world.submit(now, request);
        answer(world, id)
    }
}

/// Steps until this request is answered.
fn answer(world: &mut World, id: RequestId) -> Result<Reply, Finding> {
    for _ in 0..EVENT_LIMIT {
        match world.step().map_err(misbehaved)? {
            Happened::Reply(reply) if reply.id == id => return Ok(reply),
            Happened::Reply(_) | Happened::Event => {}
            Happened::Quiet => {
                return Err(misbehaved(
                    "it does not answer, and nothing will ever happen",
                ));
            }
        }
    }
    Err(misbehaved(format!("no answer after {EVENT_LIMIT} events")))
}

fn scan_of(snapshot: u64, reverse: bool, limit: u32) -> Scan {
    let direction = if reverse {
        Direction::Reverse
    } else {
        Direction::Forward
    };
    Scan {
        snapshot,
        direction,
        start: None,
        end: None,
        limit,
        max_bytes: 16 << 20,
    }
}

/// What a scan of this state is to show, and whether there is more.
fn expected(scan: &Scan, state: &State) -> (Vec<(u8, u32)>, bool) {
    let mut all: Vec<(u8, u32)> = state.iter().map(|(key, number)| (*key, *number)).collect();
    if scan.direction == Direction::Reverse {
        all.reverse();
    }
    let more = all.len() > scan.limit as usize;
    all.truncate(scan.limit as usize);
    (all, more)
}

fn agree<T: PartialEq + std::fmt::Debug + ?Sized>(due: &T, seen: &T) -> Result<(), Finding> {
    if due == seen {
        Ok(())
    } else {
        Err((
            Property::ReadsAgree,
            format!("{due:?} was due, and {seen:?} was read"),
        ))
    }
}
