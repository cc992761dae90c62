//! One instance of a guest and one device, driven call by call: which operation completes next is chosen here, and so is which fails.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kvsim_sim::api::{
    Body, Direction, Durability, Mutation, Reply, Request, RequestId, Scan, Status,
};
use kvsim_sim::{Call, Guest, GuestLimits, GuestPolicies, OpenConfig, OutItem, Outbox, Program};
use kvsim_simdisk::{
    CrashKind, CrashState, Device, DeviceConfig, DiskError, FaultConfig, Nanos, Op, OpId,
};
use xxhash_rust::xxh3::Xxh3;

use super::rule::{Breach, Outcome, Result};

/// What a guest may use up: as in a scenario that says nothing.
const LIMITS: GuestLimits = GuestLimits {
    memory_bytes_max: 64 << 20,
    fuel_per_call: 2_000_000_000,
    events_per_answer: 1_000_000,
    idle_ns_per_answer: 10_000_000_000,
};
/// The device of a session: that of `powercut`.
pub(super) const CAPACITY_BYTES: u64 = 4 << 20;
/// Calls until a request has to be answered.
const CALLS_MAX: u64 = 100_000;
/// What a call takes.
const CALL_NS: Nanos = 1_000;

/// Looks at a guest; what it saw, or that it does not apply.
pub(super) type Look = fn(&Subject) -> Result<Outcome>;

/// The guest that is checked.
pub(super) struct Subject {
    pub(super) program: Arc<dyn Program>,
    pub(super) options: BTreeMap<String, String>,
}

impl Subject {
    pub(super) fn new(program: Arc<dyn Program>, options: BTreeMap<String, String>) -> Subject {
        Subject { program, options }
    }

    /// What the guest states, for the rules that depend on it.
    pub(super) fn policies(&self) -> GuestPolicies {
        self.program.policies()
    }

    /// The usual device: no write-through, no discard, no barrier.
    pub(super) fn device(&self) -> DeviceConfig {
        DeviceConfig {
            capacity_bytes: CAPACITY_BYTES,
            discard: false,
            ..DeviceConfig::default()
        }
    }

    /// A session over a new device that has answered its opening with `Ok`.
    pub(super) fn open(&self) -> Result<Session> {
        self.open_on(&self.device())
    }

    pub(super) fn open_on(&self, device: &DeviceConfig) -> Result<Session> {
        let mut session = self.start(device)?;
        session.opened()?;
        Ok(session)
    }

    /// A session over a new device that is being opened.
    pub(super) fn start(&self, device: &DeviceConfig) -> Result<Session> {
        let device = Device::new(device, &FaultConfig::default(), 1)
            .map_err(|error| Breach::new("a device", error.to_string()))?;
        self.start_with(device, Order::First)
    }

    pub(super) fn start_with(&self, device: Device, order: Order) -> Result<Session> {
        let guest = self.program.start(&LIMITS);
        let guest =
            guest.map_err(|error| Breach::new("an instance that starts", error.to_string()))?;
        let mut session = Session {
            guest,
            device,
            now: 0,
            next_request: 1,
            wake_at: None,
            in_flight: Vec::new(),
            waiting: BTreeSet::new(),
            replies: BTreeMap::new(),
            order,
            fails: None,
            failed: 0,
            ticks: 0,
            transcript: Xxh3::new(),
            calls: Vec::new(),
        };
        let open = OpenConfig {
            device: session.device.capabilities(),
            memory_bytes_max: LIMITS.memory_bytes_max,
            db_id: [7; 16],
            options: self.options.clone(),
        };
        session.waiting.insert(0);
        session.call("kv_open", Call::Open(&open))?;
        Ok(session)
    }

    /// Ends a session, and starts another over what the device holds then: all that was submitted, or only what is durable.
    pub(super) fn restart(&self, session: Session, kind: CrashKind) -> Result<Session> {
        let mut session = self.start_with(crashed(session, kind)?, Order::First)?;
        session.opened()?;
        Ok(session)
    }

    /// The same on a device that fails from the beginning; it is being opened.
    pub(super) fn restart_failing(
        &self,
        session: Session,
        fails: (DiskError, DiskError),
    ) -> Result<Session> {
        let mut session = self.start_with(crashed(session, CrashKind::Process)?, Order::First)?;
        session.fails = Some(fails);
        Ok(session)
    }
}

fn crashed(session: Session, kind: CrashKind) -> Result<Device> {
    let mut device = session.device;
    let crashed = device.crash(session.now, kind, &CrashState::default());
    crashed.map_err(|error| Breach::new("a device that can be restarted", error.to_string()))?;
    Ok(device)
}

/// Which operation completes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    First,
    Last,
    /// By this seed.
    Mixed(u64),
}

impl Order {
    fn pick(&mut self, count: usize) -> usize {
        match self {
            Order::First => 0,
            Order::Last => count - 1,
            Order::Mixed(state) => {
                *state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                usize::try_from(*state >> 33).unwrap_or(0) % count
            }
        }
    }
}

struct InFlight {
    id: OpId,
    kind: DiskError,
}

/// See the module.
pub(super) struct Session {
    guest: Box<dyn Guest>,
    device: Device,
    now: Nanos,
    next_request: RequestId,
    wake_at: Option<Nanos>,
    in_flight: Vec<InFlight>,
    waiting: BTreeSet<RequestId>,
    replies: BTreeMap<RequestId, Reply>,
    order: Order,
    /// Every operation that can fail so does, with this error.
    pub(super) fails: Option<(DiskError, DiskError)>,
    /// Operations that have failed.
    pub(super) failed: u64,
    pub(super) ticks: u64,
    transcript: Xxh3,
    /// The last calls, for a person.
    calls: Vec<String>,
}

impl Session {
    fn call(&mut self, what: &str, call: Call<'_>) -> Result<()> {
        let mut out = Outbox::new();
        self.now += CALL_NS;
        let ended = self.guest.call(self.now, call, &mut out);
        let end = ended.map_err(|error| {
            Breach::new(
                format!("{what} returns and keeps the rules"),
                error.to_string(),
            )
        })?;
        self.wake_at = end.wake_at;
        self.calls.push(what.to_owned());
        self.transcript
            .update(format!("{what} {end:?} {out:?}").as_bytes());
        for item in out {
            match item {
                OutItem::Submit { tag, op } => self.submit(what, tag, op)?,
                OutItem::Reply(reply) => {
                    self.waiting.remove(&reply.id);
                    self.replies.insert(reply.id, reply);
                }
                // A guest of the guest ABI has no files.
                OutItem::Step(_) | OutItem::Log { .. } => {}
            }
        }
        Ok(())
    }

    fn submit(&mut self, what: &str, tag: u64, op: Op) -> Result<()> {
        let (kind, name) = match &op {
            Op::Read { .. } => (DiskError::Read, "read"),
            Op::Write { .. } => (DiskError::Write, "write"),
            Op::Flush | Op::Barrier => (DiskError::Flush, "flush or barrier"),
            Op::Discard { .. } => (DiskError::NoSpace, "discard"),
            Op::Grow { .. } => (DiskError::NoSpace, "growth"),
        };
        let taken = self.device.submit(self.now, tag, op);
        let id = taken.map_err(|error| {
            Breach::new(
                "disk operations in whole sectors, within the device, of kinds that it can do",
                format!("a {name} in {what}: {error}"),
            )
        })?;
        self.in_flight.push(InFlight { id, kind });
        Ok(())
    }

    /// Completes one operation.
    fn complete(&mut self) -> Result<()> {
        let at = self.order.pick(self.in_flight.len());
        let op = self.in_flight.remove(at);
        let Some(completion) = self.device.complete(self.now, op.id) else {
            return Err(Breach::new("an operation that is under way", "none"));
        };
        let mut result = completion.result;
        if let Some((kind, error)) = self.fails
            && kind == op.kind
        {
            result = Err(error);
            self.failed += 1;
        }
        let result = result.as_ref().map(Option::as_ref).map_err(|error| *error);
        let tag = completion.tag;
        self.call("kv_complete", Call::Complete { tag, result })
    }

    /// Goes on until all requests are answered.
    pub(super) fn run_until_idle(&mut self) -> Result<()> {
        let mut calls = 0;
        while !self.waiting.is_empty() {
            calls += 1;
            let unanswered = self.waiting.len();
            if calls > CALLS_MAX {
                return Err(Breach::new(
                    format!("an answer within {CALLS_MAX} calls"),
                    format!("the guest is busy, and {unanswered} requests are unanswered"),
                ));
            }
            if !self.step()? {
                let last = self.calls.last().map_or("", String::as_str);
                return Err(Breach::new(
                    "every request is answered; a guest that waits has an operation in flight or a next wake-up",
                    format!(
                        "{unanswered} requests are unanswered after {last}, with no operation in flight and no next wake-up"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Completes an operation, or lets the time of the next wake-up come; says whether there was any.
    pub(super) fn step(&mut self) -> Result<bool> {
        if !self.in_flight.is_empty() {
            self.complete()?;
        } else if let Some(at) = self.wake_at.take() {
            self.now = self.now.max(at);
            self.ticks += 1;
            self.call("kv_tick", Call::Tick)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Waits for the answer to the opening, which has to be `Ok`.
    pub(super) fn opened(&mut self) -> Result<()> {
        let reply = self.opening()?;
        match reply.status {
            Status::Ok => Ok(()),
            _ => Err(Breach::new("the opening is answered Ok", answer(&reply))),
        }
    }

    pub(super) fn opening(&mut self) -> Result<Reply> {
        self.run_until_idle()?;
        self.taken(0)
    }

    pub(super) fn send(&mut self, request: &Request) -> Result<RequestId> {
        let id = self.next_request;
        self.next_request += 1;
        self.waiting.insert(id);
        self.call("kv_request", Call::Request { id, request })?;
        Ok(id)
    }

    pub(super) fn taken(&mut self, id: RequestId) -> Result<Reply> {
        let reply = self.replies.remove(&id);
        reply.ok_or_else(|| Breach::new(format!("an answer to request {id}"), "none"))
    }

    pub(super) fn ask(&mut self, request: &Request) -> Result<Reply> {
        let id = self.send(request)?;
        self.run_until_idle()?;
        self.taken(id)
    }

    /// Asks, and expects this status.
    pub(super) fn expect(&mut self, request: &Request, status: Status) -> Result<Reply> {
        let reply = self.ask(request)?;
        expected(request, &reply, status)?;
        Ok(reply)
    }

    pub(super) fn ok(&mut self, request: &Request) -> Result<Reply> {
        self.expect(request, Status::Ok)
    }

    /// The value of a key has to be this.
    pub(super) fn shows(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.shows_at(0, key, value)
    }

    pub(super) fn shows_at(
        &mut self,
        snapshot: u64,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<()> {
        let request = Request::Get {
            key: key.to_vec(),
            snapshot,
        };
        let reply = self.ask(&request)?;
        let is_right = match (&reply.body, value) {
            (Body::Value(found), Some(value)) => found == value,
            (_, None) => reply.status == Status::NotFound,
            _ => false,
        };
        let due = value.map_or_else(
            || "NotFound".to_owned(),
            |value| format!("the {} bytes that were put", value.len()),
        );
        match is_right {
            true => Ok(()),
            false => Err(Breach::new(
                format!("{}: {due}", words(&request)),
                answer(&reply),
            )),
        }
    }

    /// A scan has to give these keys and values, and say rightly whether there are more.
    pub(super) fn scans(
        &mut self,
        scan: &Scan,
        due: &[(Vec<u8>, Vec<u8>)],
        due_more: bool,
    ) -> Result<()> {
        let request = Request::Scan(scan.clone());
        let reply = self.ok(&request)?;
        let Body::Entries { entries, more } = &reply.body else {
            return Err(Breach::new(words(&request), answer(&reply)));
        };
        if entries == due && *more == due_more {
            return Ok(());
        }
        let shown = |entries: &[(Vec<u8>, Vec<u8>)], more: bool| {
            let keys: Vec<String> = entries
                .iter()
                .map(|(key, value)| format!("{} ({} bytes)", printable(key), value.len()))
                .collect();
            format!(
                "{} entries [{}], more {}",
                entries.len(),
                keys.join(", "),
                u8::from(more)
            )
        };
        Err(Breach::new(
            format!("{}: {}", words(&request), shown(due, due_more)),
            shown(entries, *more),
        ))
    }

    /// A hash of all that the guest has let out, call by call.
    pub(super) fn transcript(&self) -> (u64, usize) {
        (self.transcript.digest(), self.calls.len())
    }
}

/// The status has to be this one.
pub(super) fn expected(request: &Request, reply: &Reply, status: Status) -> Result<()> {
    match reply.status == status {
        true => Ok(()),
        false => Err(Breach::new(
            format!("{}: {status:?}", words(request)),
            answer(reply),
        )),
    }
}

pub(super) fn put(key: &[u8], value: &[u8]) -> Request {
    Request::Put {
        key: key.to_vec(),
        value: value.to_vec(),
        durability: Durability::Durable,
    }
}

pub(super) fn relaxed(key: &[u8], value: &[u8]) -> Request {
    Request::Put {
        key: key.to_vec(),
        value: value.to_vec(),
        durability: Durability::Relaxed,
    }
}

pub(super) fn delete(key: &[u8]) -> Request {
    Request::Delete {
        key: key.to_vec(),
        durability: Durability::Durable,
    }
}

pub(super) fn get(key: &[u8], snapshot: u64) -> Request {
    Request::Get {
        key: key.to_vec(),
        snapshot,
    }
}

/// A batch; no value deletes.
pub(super) fn batch(members: &[(&[u8], Option<&[u8]>)]) -> Request {
    let member = |(key, value): &(&[u8], Option<&[u8]>)| match value {
        Some(value) => Mutation::Put {
            key: key.to_vec(),
            value: value.to_vec(),
        },
        None => Mutation::Delete { key: key.to_vec() },
    };
    Request::Batch {
        mutations: members.iter().map(member).collect(),
        durability: Durability::Durable,
    }
}

/// A scan of everything.
pub(super) fn scan() -> Scan {
    Scan {
        snapshot: 0,
        direction: Direction::Forward,
        start: None,
        end: None,
        limit: 1_000,
        max_bytes: 1 << 20,
    }
}

/// The number of a snapshot that was taken.
pub(super) fn snapshot(session: &mut Session) -> Result<u64> {
    let reply = session.ok(&Request::Snapshot)?;
    match reply.body {
        Body::Snapshot(id) => Ok(id),
        _ => Err(Breach::new("a snapshot's number", answer(&reply))),
    }
}

/// A request for a person.
pub(super) fn words(request: &Request) -> String {
    let words = kvsim_drive::timeline::words::request(request);
    match words.char_indices().nth(100) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

/// A reply for a person.
pub(super) fn answer(reply: &Reply) -> String {
    let body = match &reply.body {
        Body::Empty => String::new(),
        Body::Value(value) => format!(" with {} bytes", value.len()),
        Body::Entries { entries, .. } => format!(" with {} entries", entries.len()),
        Body::Snapshot(id) => format!(" with snapshot {id}"),
        Body::Message(message) => format!(": {message}"),
    };
    format!("{:?}{body}", reply.status)
}

fn printable(key: &[u8]) -> String {
    key[..key.len().min(20)].escape_ascii().to_string()
}
