//! A small deterministic device and driver for the engine's own tests.
//!
//! The device has a volatile cache: a write is durable when a flush that was submitted after its completion completes, or
//! when it was write-through and has completed. A power cut keeps any subset of the rest, in any order, torn at any sector,
//! with garbage in sectors being written. Every effect of the engine and every completion is a step of its own, so a cut can
//! fall between any two.
#![allow(
    unreachable_pub,
    missing_docs,
    reason = "shared by the test binaries only"
)]
#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::cast_possible_truncation, reason = "test sizes are small")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use kvsim_engine::{
    Config, DeviceInfo, DiskError, DiskOp, Engine, Entry, IoBuf, Level, Mutation, Port, Reply,
    Request, RequestId, Status,
};

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

#[derive(Debug, Clone)]
struct Pending {
    id: u64,
    offset: usize,
    data: Arc<Vec<u8>>,
    complete: bool,
}

#[derive(Debug)]
enum Kind {
    Read {
        offset: usize,
        buffer: IoBuf,
    },
    Write {
        id: u64,
        through: bool,
    },
    /// The completed writes that it makes durable.
    Flush {
        covers: Vec<u64>,
    },
    Grow {
        bytes: usize,
    },
    Discard,
}

#[derive(Debug)]
struct InFlight {
    at: u64,
    kind: Kind,
}

/// Times of one device.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    pub read: u64,
    pub write: u64,
    pub flush: u64,
    /// Each time is multiplied by up to this, at random.
    pub spread: u64,
}

pub const FAST: Times = Times {
    read: 20_000,
    write: 20_000,
    flush: 200_000,
    spread: 3,
};

pub struct Disk {
    pub durable: Vec<u8>,
    pending: Vec<Pending>,
    in_flight: BTreeMap<u64, InFlight>,
    pub device: DeviceInfo,
    pub times: Times,
    pub rng: Rng,
    next_id: u64,
    /// The device is busy with flushes until then: they are serial.
    flush_free_at: u64,
    pub fail_writes: bool,
    pub fail_flushes: bool,
    pub fail_reads: bool,
    /// Says whether a byte range may be read; for latent errors.
    pub writes: u64,
    pub flushes: u64,
}

impl Disk {
    pub fn new(device: DeviceInfo, times: Times, seed: u64) -> Disk {
        Disk {
            durable: vec![0; device.capacity_bytes as usize],
            pending: Vec::new(),
            in_flight: BTreeMap::new(),
            device,
            times,
            rng: Rng(seed),
            next_id: 1,
            flush_free_at: 0,
            fail_writes: false,
            fail_flushes: false,
            fail_reads: false,
            writes: 0,
            flushes: 0,
        }
    }

    fn took(&mut self, base: u64) -> u64 {
        base + self.rng.below(base * self.times.spread / 2 + 1)
    }

    fn submit(&mut self, now: u64, tag: u64, op: DiskOp) {
        let sector = u64::from(self.device.sector_bytes);
        let check = |offset: u64, len: usize| {
            assert!(
                offset.is_multiple_of(sector) && (len as u64).is_multiple_of(sector),
                "misaligned: {offset} {len}"
            );
            offset as usize
        };
        let (at, kind) = match op {
            DiskOp::Read { offset, buffer } => {
                let offset = check(offset, buffer.len());
                assert!(
                    offset + buffer.len() <= self.durable.len(),
                    "read out of range"
                );
                (
                    now + self.took(self.times.read),
                    Kind::Read { offset, buffer },
                )
            }
            DiskOp::Write {
                offset,
                data,
                through,
            } => {
                let offset = check(offset, data.len());
                assert!(
                    offset + data.len() <= self.durable.len(),
                    "write out of range"
                );
                assert!(
                    !through || self.device.write_through,
                    "write-through was not offered"
                );
                self.writes += 1;
                let id = self.next_id;
                self.next_id += 1;
                let bytes = Arc::new(data.to_vec());
                self.pending.push(Pending {
                    id,
                    offset,
                    data: bytes,
                    complete: false,
                });
                (
                    now + self.took(self.times.write),
                    Kind::Write { id, through },
                )
            }
            DiskOp::Flush => {
                self.flushes += 1;
                let covers = self
                    .pending
                    .iter()
                    .filter(|w| w.complete)
                    .map(|w| w.id)
                    .collect();
                let at = now.max(self.flush_free_at) + self.took(self.times.flush);
                self.flush_free_at = at;
                (at, Kind::Flush { covers })
            }
            DiskOp::Grow { new_bytes } => (
                now + 1000,
                Kind::Grow {
                    bytes: new_bytes as usize,
                },
            ),
            DiskOp::Discard { .. } => (now + 1000, Kind::Discard),
        };
        assert!(
            self.in_flight.insert(tag, InFlight { at, kind }).is_none(),
            "a tag in use"
        );
    }

    fn next_at(&self) -> Option<(u64, u64)> {
        self.in_flight.iter().map(|(tag, op)| (op.at, *tag)).min()
    }

    fn harden(&mut self, id: u64) {
        // In order of submission: an older overlapping write must not win later.
        if let Some(at) = self.pending.iter().position(|w| w.id == id) {
            let write = self.pending.remove(at);
            self.durable[write.offset..write.offset + write.data.len()]
                .copy_from_slice(&write.data);
        }
    }

    fn complete(&mut self, tag: u64) -> Result<Option<IoBuf>, DiskError> {
        let op = self.in_flight.remove(&tag).expect("in flight");
        match op.kind {
            Kind::Read { offset, mut buffer } => {
                if self.fail_reads {
                    return Err(DiskError::Read);
                }
                let end = offset + buffer.len();
                buffer.copy_from_slice(&self.durable[offset..end]);
                for write in &self.pending {
                    let from = write.offset.max(offset);
                    let to = (write.offset + write.data.len()).min(end);
                    if from < to {
                        let source = &write.data[from - write.offset..to - write.offset];
                        buffer[from - offset..to - offset].copy_from_slice(source);
                    }
                }
                Ok(Some(buffer))
            }
            Kind::Write { id, through } => {
                if self.fail_writes {
                    return Err(DiskError::Write);
                }
                if through || !self.device.volatile_cache {
                    self.harden(id);
                } else if let Some(write) = self.pending.iter_mut().find(|w| w.id == id) {
                    write.complete = true;
                }
                Ok(None)
            }
            Kind::Flush { covers } => {
                if self.fail_flushes {
                    self.pending.retain(|write| !covers.contains(&write.id));
                    return Err(DiskError::Flush);
                }
                covers.into_iter().for_each(|id| self.harden(id));
                Ok(None)
            }
            Kind::Grow { bytes } => {
                self.durable.resize(bytes, 0);
                self.device.capacity_bytes = bytes as u64;
                Ok(None)
            }
            Kind::Discard => Ok(None),
        }
    }

    /// The power fails: any subset of what is not durable survives, torn, in any order.
    pub fn power_cut(&mut self) {
        self.in_flight.clear();
        let mut pending = std::mem::take(&mut self.pending);
        let keep = self.rng.below(101);
        let sector = self.device.sector_bytes as usize;
        while !pending.is_empty() {
            let at = self.rng.below(pending.len() as u64) as usize;
            let write = pending.swap_remove(at);
            if self.rng.below(100) >= keep {
                continue;
            }
            let torn = self.rng.chance(40);
            for (n, chunk) in write.data.chunks(sector).enumerate() {
                let to = write.offset + n * sector;
                if torn && self.rng.chance(40) {
                    if self.rng.chance(20) {
                        for byte in &mut self.durable[to..to + chunk.len()] {
                            *byte = self.rng.next() as u8;
                        }
                    }
                    continue;
                }
                self.durable[to..to + chunk.len()].copy_from_slice(chunk);
            }
        }
        self.flush_free_at = 0;
    }

    /// Everything that was submitted reaches the medium.
    pub fn keep_all(&mut self) {
        let all: Vec<u64> = self.pending.iter().map(|write| write.id).collect();
        all.into_iter().for_each(|id| self.harden(id));
    }

    /// The process dies: the device keeps all that was submitted, volatile as it is.
    pub fn process_crash(&mut self) {
        self.in_flight.clear();
        self.pending
            .iter_mut()
            .for_each(|write| write.complete = true);
        if !self.device.volatile_cache {
            let all: Vec<u64> = self.pending.iter().map(|write| write.id).collect();
            all.into_iter().for_each(|id| self.harden(id));
        }
    }
}

#[derive(Debug)]
enum Out {
    Submit(u64, DiskOp),
    Reply(RequestId, Reply),
}

#[derive(Default)]
struct Collect {
    out: VecDeque<Out>,
    log: Vec<String>,
}

impl Port for Collect {
    fn submit(&mut self, tag: u64, op: DiskOp) {
        self.out.push_back(Out::Submit(tag, op));
    }
    fn reply(&mut self, id: RequestId, reply: Reply) {
        self.out.push_back(Out::Reply(id, reply));
    }
    fn log(&mut self, level: Level, text: &str) {
        self.log.push(format!("{level:?}: {text}"));
    }
}

/// Drives one engine on one disk in virtual time.
pub struct World {
    pub now: u64,
    pub disk: Disk,
    pub options: String,
    engine: Option<Engine>,
    port: Collect,
    wish: Option<u64>,
    next_request: RequestId,
}

impl World {
    pub fn new(disk: Disk, options: &str) -> World {
        World {
            now: 0,
            disk,
            options: options.into(),
            engine: None,
            port: Collect::default(),
            wish: None,
            next_request: 1,
        }
    }

    pub fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("open")
    }

    pub fn log(&self) -> &[String] {
        &self.port.log
    }

    /// Begins an opening; the answer is the reply to request 0.
    pub fn begin_open(&mut self) {
        self.port = Collect::default();
        let config = Config {
            device: self.disk.device.clone(),
            memory_bytes_max: 0,
            db_id: *b"engine-test-db-0",
            options: self.options.clone(),
        };
        let (engine, wish) = Engine::open(self.now, &config, &mut self.port);
        self.engine = engine;
        self.wish = wish;
    }

    /// Opens, or says why not.
    pub fn open(&mut self) -> Result<(), (Status, String)> {
        self.begin_open();
        match self.wait(0) {
            Reply::Done => Ok(()),
            Reply::Failed(status, message) => Err((status, message)),
            other => panic!("an opening answered {other:?}"),
        }
    }

    /// The engine is gone with its memory.
    pub fn kill(&mut self) {
        self.engine = None;
        self.port = Collect::default();
        self.wish = None;
    }

    pub fn request(&mut self, request: Request<'_>) -> RequestId {
        let id = self.next_request;
        self.next_request += 1;
        let engine = self.engine.as_mut().expect("open");
        self.wish = engine.request(self.now, id, request, &mut self.port);
        id
    }

    /// One event: an effect of the engine, a completion, or a wake-up. `None`: nothing will ever happen again.
    pub fn step(&mut self) -> Option<Option<(RequestId, Reply)>> {
        match self.port.out.pop_front() {
            Some(Out::Submit(tag, op)) => {
                self.disk.submit(self.now, tag, op);
                return Some(None);
            }
            Some(Out::Reply(id, reply)) => return Some(Some((id, reply))),
            None => {}
        }
        let engine = self.engine.as_mut()?;
        match (self.disk.next_at(), self.wish) {
            (Some((at, _)), Some(wish)) if wish < at => self.tick(wish),
            (Some((at, tag)), _) => {
                self.now = self.now.max(at);
                let result = self.disk.complete(tag);
                self.wish = engine.complete(self.now, tag, result, &mut self.port);
            }
            (None, Some(wish)) => self.tick(wish),
            (None, None) => return None,
        }
        Some(None)
    }

    /// Like `step`, but time does not go beyond `until` while something else is due then.
    pub fn step_until(&mut self, until: Option<u64>) -> Option<Option<(RequestId, Reply)>> {
        let next = [self.disk.next_at().map(|(at, _)| at), self.wish]
            .into_iter()
            .flatten()
            .min();
        if self.port.out.is_empty()
            && let Some(until) = until
            && next.is_none_or(|next| next > until)
        {
            self.now = self.now.max(until);
            return Some(None);
        }
        self.step()
    }

    fn tick(&mut self, at: u64) {
        assert!(
            at > self.now,
            "a wish that is due would be asked for for ever"
        );
        self.now = at;
        self.wish = self
            .engine
            .as_mut()
            .expect("open")
            .tick(self.now, &mut self.port);
    }

    /// Steps until the request is answered. Other replies are lost: for tests with one client.
    pub fn wait(&mut self, id: RequestId) -> Reply {
        for _ in 0..10_000_000 {
            match self.step() {
                Some(Some((answered, reply))) if answered == id => return reply,
                Some(_) => {}
                None => panic!("request {id} is never answered; log: {:#?}", self.port.log),
            }
        }
        panic!("request {id} takes for ever; log: {:#?}", self.port.log);
    }

    pub fn call(&mut self, request: Request<'_>) -> Reply {
        let id = self.request(request);
        self.wait(id)
    }

    /// Steps until nothing happens any more.
    pub fn settle(&mut self) {
        for _ in 0..1_000_000 {
            if self.step().is_none() {
                return;
            }
        }
        panic!("an idle engine keeps busy");
    }

    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Reply {
        let mutations = [Mutation::Put { key, value }];
        self.call(Request::Write {
            mutations: &mutations,
            durability: kvsim_engine::Durability::Durable,
        })
    }

    pub fn put_relaxed(&mut self, key: &[u8], value: &[u8]) -> Reply {
        let mutations = [Mutation::Put { key, value }];
        self.call(Request::Write {
            mutations: &mutations,
            durability: kvsim_engine::Durability::Relaxed,
        })
    }

    pub fn delete(&mut self, key: &[u8]) -> Reply {
        let mutations = [Mutation::Delete { key }];
        self.call(Request::Write {
            mutations: &mutations,
            durability: kvsim_engine::Durability::Durable,
        })
    }

    pub fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        match self.call(Request::Get { snapshot: 0, key }) {
            Reply::Value(value) => Some(value.to_vec()),
            Reply::NotFound => None,
            other => panic!("a get answered {other:?}"),
        }
    }

    /// Everything, by scans in a direction, in pieces.
    pub fn dump(
        &mut self,
        direction: kvsim_engine::Direction,
        snapshot: u64,
    ) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut all = BTreeMap::new();
        let mut bound: Option<Vec<u8>> = None;
        loop {
            let (start, end) = match direction {
                kvsim_engine::Direction::Forward => (bound.as_deref(), None),
                kvsim_engine::Direction::Reverse => (None, bound.as_deref()),
            };
            let range = kvsim_engine::ScanRange {
                snapshot,
                direction,
                start,
                end,
                limit: 50,
                max_bytes: 100_000,
            };
            let (entries, more): (Vec<Entry>, bool) = match self.call(Request::Scan(range)) {
                Reply::Entries { entries, more } => (entries, more),
                other => panic!("a scan answered {other:?}; log {:#?}", self.port.log),
            };
            let Some(last) = entries.last() else {
                return all;
            };
            let mut next = last.key.to_vec();
            if direction == kvsim_engine::Direction::Forward {
                next.push(0);
            }
            bound = Some(next);
            for entry in &entries {
                assert!(
                    all.insert(entry.key.to_vec(), entry.value.to_vec())
                        .is_none(),
                    "an entry twice"
                );
            }
            if !more {
                return all;
            }
        }
    }
}

pub fn device(capacity_bytes: u64) -> DeviceInfo {
    DeviceInfo {
        sector_bytes: 512,
        physical_block_bytes: 4096,
        volatile_cache: true,
        write_through: false,
        capacity_bytes,
        max_capacity_bytes: capacity_bytes,
    }
}

pub fn world(capacity_bytes: u64, options: &str) -> World {
    World::new(Disk::new(device(capacity_bytes), FAST, 1), options)
}
