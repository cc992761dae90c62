//! The driver: one engine on one disk in virtual time. Every effect of the engine and every completion is a step of its own,
//! so a crash can fall between any two.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use kvsim_engine::{
    CachedValues, Config, CoveragePoint, DiskOp, Engine, Entry, Find, Found, Join, Level, Mutation,
    Port, Reply, Request, RequestId, ScanRange, Shared, Status,
};

use super::Disk;

#[derive(Debug)]
enum Out {
    Submit(u64, DiskOp),
    Reply(RequestId, Reply),
}

#[derive(Default)]
struct Collect {
    out: VecDeque<Out>,
    log: Vec<String>,
    coverage_points: Vec<CoveragePoint>,
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
    fn reached(&mut self, point: CoveragePoint) {
        self.coverage_points.push(point);
    }
}

/// One engine on one disk.
pub struct World {
    pub now: u64,
    pub disk: Disk,
    pub options: String,
    /// What the engine is told of values in memory.
    pub values: Option<Arc<dyn CachedValues>>,
    engine: Option<Engine>,
    port: Collect,
    wake_at: Option<u64>,
    next_request: RequestId,
    /// Scans that are done outside the engine.
    joins: BTreeMap<RequestId, Join>,
    /// Gets that are.
    finds: BTreeMap<RequestId, Find>,
    /// What these have read.
    pub reads_here: u64,
}

/// How a scan outside the engine goes on.
pub enum Joined {
    Reply(Reply),
    /// It is not answered yet.
    Open,
    /// Something cannot be read.
    Dropped,
}

impl World {
    pub fn new(disk: Disk, options: &str) -> World {
        World {
            now: 0,
            disk,
            options: options.into(),
            values: None,
            engine: None,
            port: Collect::default(),
            wake_at: None,
            next_request: 1,
            joins: BTreeMap::new(),
            finds: BTreeMap::new(),
            reads_here: 0,
        }
    }

    pub fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("open")
    }

    pub fn coverage_points(&self) -> &[CoveragePoint] {
        &self.port.coverage_points
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
        let (engine, wake_at) = Engine::open(self.now, &config, &mut self.port);
        self.engine = engine;
        self.wake_at = wake_at;
        if let (Some(engine), Some(values)) = (&mut self.engine, &self.values) {
            engine.use_cache(Arc::clone(values));
        }
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
        self.wake_at = None;
        self.joins.clear();
        self.finds.clear();
    }

    /// Begins a get outside the engine, if it lets it.
    pub fn begin_find(&mut self, key: &[u8]) -> Option<RequestId> {
        let find = self.engine.as_mut().expect("open").begin_find(key)?;
        let id = self.next_request;
        self.next_request += 1;
        self.finds.insert(id, find);
        Some(id)
    }

    /// A get outside the engine that ends with `end_find`, if there is one.
    pub fn next_find(&self) -> Option<RequestId> {
        self.finds.keys().next().copied()
    }

    /// Ends a get outside the engine. The reply; `None`: the engine has to be asked.
    pub fn end_find(&mut self, id: RequestId) -> Option<Reply> {
        let find = self.finds.remove(&id).expect("it was begun");
        let of_value = find.is_of_value();
        let read = |offset, len| {
            self.reads_here += 1;
            self.disk.read_here(offset, len)
        };
        let found = find.finish(read, Shared::copy);
        let engine = self.engine.as_mut().expect("open");
        match found {
            Ok(Found::Here(value)) => {
                engine.make_room_for_kept(u64::from(!of_value));
                Some(Reply::Value(value))
            }
            Ok(Found::Nowhere) => Some(Reply::NotFound),
            Ok(Found::Elsewhere(found)) => {
                let find = engine.learn(found)?;
                self.finds.insert(id, find);
                self.end_find(id)
            }
            Err(_) => None,
        }
    }

    /// Begins a scan outside the engine, if it lets it.
    pub fn begin_join(&mut self, range: &ScanRange<'_>) -> Option<RequestId> {
        let join = self.engine.as_mut().expect("open").begin_join(range)?;
        let id = self.next_request;
        self.next_request += 1;
        self.joins.insert(id, join);
        Some(id)
    }

    /// A scan outside the engine that goes on with `go_on`, if there is one.
    pub fn next_join(&self) -> Option<RequestId> {
        self.joins.keys().next().copied()
    }

    /// Reads what a scan outside the engine needs next. The engine answers it where it does not let it go on.
    pub fn go_on(&mut self, id: RequestId) -> Joined {
        let mut join = self.joins.remove(&id).expect("it was begun");
        let engine = self.engine.as_mut().expect("open");
        let went_on = join.go_on(|places| {
            self.reads_here += places.len() as u64;
            let places = places.iter();
            places
                .map(|(offset, len)| self.disk.read_here(*offset, *len))
                .collect()
        });
        let found = join.take_entries();
        let (now, port) = (self.now, &mut self.port);
        if went_on.is_ok() && found.is_none() {
            if engine.show_next(&mut join) {
                self.joins.insert(id, join);
            } else {
                self.wake_at = engine.end_join(now, id, join, port);
            }
            return Joined::Open;
        }
        self.wake_at = engine.drop_join(now, join, port);
        match found {
            Some((entries, more)) => Joined::Reply(Reply::Entries { entries, more }),
            None => Joined::Dropped,
        }
    }

    pub fn request(&mut self, request: Request<'_>) -> RequestId {
        let id = self.next_request;
        self.next_request += 1;
        let engine = self.engine.as_mut().expect("open");
        self.wake_at = engine.request(self.now, id, request, &mut self.port);
        id
    }

    /// Hands in a write that was promised.
    pub fn keep(&mut self, write: &[Mutation<'_>]) {
        let engine = self.engine.as_mut().expect("open");
        let writes = std::iter::once(write);
        self.wake_at = engine.keep(self.now, writes, &mut self.port);
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
        match (self.disk.next_at(), self.wake_at) {
            (Some((at, _)), Some(wake_at)) if wake_at < at => self.tick(wake_at),
            (Some((at, tag)), _) => {
                self.now = self.now.max(at);
                let result = self.disk.complete(tag);
                self.wake_at = engine.complete(self.now, tag, result, &mut self.port);
            }
            (None, Some(wake_at)) => self.tick(wake_at),
            (None, None) => return None,
        }
        Some(None)
    }

    /// Like `step`, but time does not go beyond `until` while something else is due then.
    pub fn step_until(&mut self, until: Option<u64>) -> Option<Option<(RequestId, Reply)>> {
        let next = [self.disk.next_at().map(|(at, _)| at), self.wake_at]
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
            "a wake-up that is due would be asked for for ever"
        );
        self.now = at;
        self.wake_at = self
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
    pub fn run_until_idle(&mut self) {
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
