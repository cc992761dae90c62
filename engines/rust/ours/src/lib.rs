//! kvsim's own engine on a file, behind kvsim's adapter: the engine is a state machine without I/O, and this is its driver, which blocks.
//!
//! An operation is done at once and ended before the next. A call returns when its request is answered and nothing is left to do; a wake-up that the
//! engine asks for is kept at the next call after its time, or slept for if an answer needs it.
//! Options: `size_bytes=BYTES` of a new file (1 MiB if it is not set), `max_bytes=BYTES`, and those of the engine (the book's page "The engine's options").

mod file;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use file::DataFile;
use kvsim_adapter::{Change, Durability, Engine, Error, Offers, Options, Page, Range, Read, Result, Status};
use kvsim_engine::{Config, DeviceInfo, Direction, DiskOp, Level, Mutation, Port, Reply, Request, ScanRange};

/// Operations that wait, and the answer to the request under way.
#[derive(Default)]
struct Effects {
    queue: VecDeque<(u64, DiskOp)>,
    reply: Option<Reply>,
}

impl Port for Effects {
    fn submit(&mut self, tag: u64, op: DiskOp) {
        self.queue.push_back((tag, op));
    }

    fn reply(&mut self, _: u64, reply: Reply) {
        let before = self.reply.replace(reply);
        assert!(before.is_none(), "one request at a time, and one answer");
    }

    fn log(&mut self, level: Level, text: &str) {
        if level <= Level::Warn {
            eprintln!("{text}");
        }
    }
}

/// The engine and its file, between calls.
struct Driver {
    engine: kvsim_engine::Engine,
    file: DataFile,
    effects: Effects,
    begin: Instant,
    wake_up: Option<u64>,
    requests: u64,
}

/// A state that can be read: the newest, with number 0, or a snapshot, which is released when it goes.
struct State {
    driver: Rc<RefCell<Driver>>,
    snapshot: u64,
}

/// A database.
pub struct Ours(State);

kvsim_adapter::export_engine!(Ours);

fn nanos_since(begin: Instant) -> u64 {
    u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// What a reply says, as the adapter has it.
fn failed(reply: Reply) -> Error {
    match reply {
        Reply::Failed(status, message) => {
            let status = match status {
                kvsim_engine::Status::Corruption => Status::Corruption,
                kvsim_engine::Status::NoSpace => Status::NoSpace,
                kvsim_engine::Status::ReadOnly => Status::ReadOnly,
                kvsim_engine::Status::Invalid => Status::Invalid,
                kvsim_engine::Status::Closed => Status::Closed,
                _ => Status::IoError,
            };
            Error::new(status, message)
        }
        other => panic!("the engine answers {other:?} to a request of another kind"),
    }
}

fn done(reply: Reply) -> Result<()> {
    match reply {
        Reply::Done => Ok(()),
        other => Err(failed(other)),
    }
}

impl Driver {
    /// Does what the engine has asked for, until its queue is empty.
    fn drain_queue(&mut self) {
        while let Some((tag, op)) = self.effects.queue.pop_front() {
            let result = self.file.execute(op);
            self.wake_up = self.engine.complete(nanos_since(self.begin), tag, result, &mut self.effects);
        }
    }

    /// Calls the engine if it wants to be called by now.
    fn tick_if_due(&mut self) {
        while self.wake_up.is_some_and(|at| at <= nanos_since(self.begin)) {
            self.wake_up = self.engine.tick(nanos_since(self.begin), &mut self.effects);
            self.drain_queue();
        }
    }

    /// The answer to the request that was handed in.
    fn await_reply(&mut self) -> Reply {
        loop {
            self.drain_queue();
            if let Some(reply) = self.effects.reply.take() {
                return reply;
            }
            let at = self.wake_up.expect("an engine that waits for nothing has answered");
            let wait = at.saturating_sub(nanos_since(self.begin));
            std::thread::sleep(Duration::from_nanos(wait));
            self.wake_up = self.engine.tick(nanos_since(self.begin), &mut self.effects);
        }
    }

    fn ask(&mut self, request: Request) -> Reply {
        self.tick_if_due();
        self.requests += 1;
        self.wake_up = self.engine.request(nanos_since(self.begin), self.requests, request, &mut self.effects);
        self.await_reply()
    }
}

impl State {
    fn ask(&self, request: Request) -> Reply {
        self.driver.borrow_mut().ask(request)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if self.snapshot != 0 {
            done(self.ask(Request::Release { snapshot: self.snapshot })).expect("a snapshot that is held can be released");
        }
    }
}

impl Read for State {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.ask(Request::Get { snapshot: self.snapshot, key }) {
            Reply::Value(value) => Ok(Some(value.to_vec())),
            Reply::NotFound => Ok(None),
            other => Err(failed(other)),
        }
    }

    /// The page takes less than the engine gives, if its own limits are lower.
    fn scan(&self, range: &Range, page: &mut Page) -> Result<()> {
        let mut start = range.start.map(<[u8]>::to_vec);
        let mut end = range.end.map(<[u8]>::to_vec);
        loop {
            let asked = ScanRange {
                snapshot: self.snapshot,
                direction: if range.is_reverse { Direction::Reverse } else { Direction::Forward },
                start: start.as_deref(),
                end: end.as_deref(),
                limit: 64,
                max_bytes: 1 << 20,
            };
            let (entries, more) = match self.ask(Request::Scan(asked)) {
                Reply::Entries { entries, more } => (entries, more),
                other => return Err(failed(other)),
            };
            for entry in &entries {
                if !page.add(&entry.key, &entry.value) {
                    return Ok(());
                }
            }
            let Some(last) = entries.last().filter(|_| more) else { return Ok(()) };
            if range.is_reverse {
                end = Some(last.key.to_vec());
            } else {
                // The next key after it.
                start = Some([&last.key[..], &[0]].concat());
            }
        }
    }
}

impl Read for Ours {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.0.get(key)
    }

    fn scan(&self, range: &Range, page: &mut Page) -> Result<()> {
        self.0.scan(range, page)
    }
}

impl Engine for Ours {
    fn offers() -> Offers {
        let offers = Offers::new("kvsim-engine", "a flush for each durable write");
        Offers {
            batch: true,
            scan: true,
            reverse_scan: true,
            snapshot: true,
            relaxed: true,
            sync: true,
            policies: vec![("relaxed_survives_kill", "false".to_owned())],
            ..offers
        }
    }

    fn open(directory: &Path, options: &Options) -> Result<Self> {
        let (mut size_bytes, mut max_bytes, mut engine_options) = (1 << 20, 64 << 20, String::new());
        for (name, value) in &options.0 {
            let number = || value.parse::<u64>().map_err(|_| Error::invalid(format_args!("`{name}` is a number, not `{value}`")));
            match name.as_str() {
                "size_bytes" => size_bytes = number()?,
                "max_bytes" => max_bytes = number()?,
                _ => engine_options += &format!("{name}={value}\n"),
            }
        }
        let file = DataFile::open(directory, size_bytes)?;
        let device = DeviceInfo {
            sector_bytes: 4096,
            physical_block_bytes: 4096,
            volatile_cache: true,
            write_through: false,
            capacity_bytes: file.len_bytes(),
            max_capacity_bytes: max_bytes.max(file.len_bytes()),
        };
        let config = Config { device, memory_bytes_max: 32 << 20, db_id: *b"kvsim, on a file", options: engine_options };
        let (begin, mut effects) = (Instant::now(), Effects::default());
        let (engine, wake_up) = kvsim_engine::Engine::open(nanos_since(begin), &config, &mut effects);
        let Some(engine) = engine else {
            return Err(failed(effects.reply.expect("an engine that is not there has said why")));
        };
        let mut driver = Driver { engine, file, effects, begin, wake_up, requests: 0 };
        done(driver.await_reply())?;
        Ok(Ours(State { driver: Rc::new(RefCell::new(driver)), snapshot: 0 }))
    }

    fn put(&mut self, key: &[u8], value: &[u8], durability: Durability) -> Result<()> {
        self.batch(&[Change::Put { key, value }], durability)
    }

    fn delete(&mut self, key: &[u8], durability: Durability) -> Result<()> {
        self.batch(&[Change::Delete { key }], durability)
    }

    fn batch(&mut self, changes: &[Change], durability: Durability) -> Result<()> {
        let mutations: Vec<Mutation> = changes
            .iter()
            .map(|change| match *change {
                Change::Put { key, value } => Mutation::Put { key, value },
                Change::Delete { key } => Mutation::Delete { key },
            })
            .collect();
        let durability = match durability {
            Durability::Durable => kvsim_engine::Durability::Durable,
            Durability::Relaxed => kvsim_engine::Durability::Relaxed,
        };
        done(self.0.ask(Request::Write { mutations: &mutations, durability }))
    }

    fn snapshot(&mut self) -> Result<Box<dyn Read>> {
        match self.0.ask(Request::Snapshot) {
            Reply::Snapshot(snapshot) => Ok(Box::new(State { driver: Rc::clone(&self.0.driver), snapshot })),
            other => Err(failed(other)),
        }
    }

    fn sync(&mut self) -> Result<()> {
        done(self.0.ask(Request::Sync))
    }

    fn close(self) -> Result<()> {
        done(self.0.ask(Request::Close))
    }

    fn idle(&mut self) {
        self.0.driver.borrow_mut().tick_if_due();
    }
}
