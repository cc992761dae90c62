//! What an opening after a crash takes: each engine is loaded, writes on, is killed, and is opened again, in turns with the others.
//!
//! A turn: a process opens the database, makes writes of a stated amount durable, and is killed (`SIGKILL`) while it makes further ones. What the system has in
//! memory of the files is dropped. A new process opens the database, reads keys and makes a durable write. Then it is looked at what was read: each key holds
//! what was durable, or what came after it. Between its turns an engine has no process, so none works behind the turn of another.
//!
//! - `history`: which write a key must show; [`cold`]: what the system has in memory is dropped
//! - [`report`]: the table; [`json`]: the same for programs; [`export`]: as CSV and Markdown

pub mod cold;
pub mod export;
mod history;
pub mod json;
pub mod report;

use std::time::Duration;

use kvsim_simdisk::rng::{Purpose, Rng};
use kvsim_store::memory::Memory;
use kvsim_store::process::Process;

use super::contender;
use super::counters::{Counters, space_bytes};
use super::load::Script;
use super::rounds::{self, Spread, Watch};
use super::serve::start;
use super::store::{Durability, Engine, Settings, StoreError};
use super::stream;
use cold::Cold;
use history::History;

/// Keys that are read after an opening, one after the other.
pub const GETS: u64 = 1_000;
/// Keys of the last writes, and as many of all writes since the kill before, that are looked at when the clock has stopped.
const LOOKED_AT: u64 = 500;
/// Writes that may come between the decision to kill and the kill: further ones are not made.
const AFTER_MAX: u64 = 65_536;

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Whose keys and values, where, how often. The pace counts for nothing: one client writes as fast as it can.
    pub of: rounds::Plan,
    /// Keys and values that are made durable before each kill, at least, in bytes.
    pub log_bytes: u64,
}

/// What one opening took. Times after the opening begin when it has returned.
#[derive(Debug, Clone)]
pub struct Opening {
    /// Until the engine had opened the database.
    pub open: Duration,
    /// Until the first get had its value.
    pub first_get: Duration,
    /// Until [`GETS`] gets had theirs.
    pub gets: Duration,
    /// Until a write of another thread was durable.
    pub put: Duration,
    /// What the system counted while it opened.
    pub opening: Counters,
    /// What the system counted from the opening's begin until gets and put were done.
    pub until_used: Counters,
    /// The memory of the process then.
    pub memory: Option<Memory>,
    /// What the system had in memory when it began.
    pub cold: Cold,
    /// What the engine counted itself.
    pub own: Vec<(String, u64)>,
}

/// What came of one engine.
#[derive(Debug, Clone)]
pub struct Row {
    /// Which.
    pub engine: &'static str,
    /// Which version.
    pub version: String,
    /// How it was set up.
    pub configuration: Vec<(String, String)>,
    /// What it found out about the disk.
    pub device: Option<String>,
    /// Why its figures are worth less than the others'.
    pub caveat: Option<String>,
    /// Its openings, in order.
    pub openings: Vec<Opening>,
    /// Bytes on the disk after the last one.
    pub space_bytes: u64,
    /// What was durable and is not there, or is there and was never written.
    pub wrong: Option<String>,
    /// Why there is nothing, or no more.
    pub failed: Option<StoreError>,
}

/// Everything that was measured.
#[derive(Debug, Clone)]
pub struct Table {
    /// What was to be measured.
    pub plan: Plan,
    /// Keys that each database has.
    pub keys: u64,
    /// Bytes of these keys and their values.
    pub data_bytes: u64,
    /// By engine, in the order asked for.
    pub rows: Vec<Row>,
}

impl Row {
    /// Median, least and most of a figure over the openings.
    #[must_use]
    pub fn spread(&self, figure: impl Fn(&Opening) -> f64) -> Option<Spread> {
        Spread::of(self.openings.iter().map(figure))
    }
}

/// Measures all engines.
///
/// # Errors
/// The workload is none for a benchmark, or the directory cannot be used. What an engine cannot do is in its row.
pub fn measure(
    plan: &Plan,
    engines: &[&dyn Engine],
    watch: &dyn Watch,
    stopped: &dyn Fn() -> bool,
) -> Result<Table, String> {
    let script = script(plan)?;
    let settings = plan.of.settings(&script);
    let mut contenders = Vec::new();
    for engine in engines {
        if stopped() {
            break;
        }
        let mut contender = Contender::new(*engine, plan, &settings, &script)?;
        contender.load(watch);
        contenders.push(contender);
    }
    for round in 0..plan.of.rounds {
        for contender in &mut contenders {
            if !contender.goes_on() {
                continue;
            }
            if stopped() {
                break;
            }
            watch.measuring(contender.row.engine, round + 1, plan.of.rounds);
            contender.turn(round);
        }
    }
    let finished = contenders.into_iter().map(Contender::finish);
    Ok(Table {
        plan: plan.clone(),
        keys: script.preload,
        data_bytes: settings.data_bytes,
        rows: finished.collect(),
    })
}

/// All keys of the scenario, and its values. What its clients do counts for nothing.
fn script(plan: &Plan) -> Result<Script, String> {
    let workload = &plan.of.scenario.workload;
    let keys = workload.keys.max(workload.preload);
    if keys == 0 {
        return Err("workload.keys is 0, and there is nothing to open".to_owned());
    }
    let get = stream::Operation {
        action: stream::Action::Get,
        key: 0,
        entries: 0,
    };
    Ok(Script {
        key_bytes: workload.key_bytes,
        preload: keys,
        next_key: keys,
        from_latest: false,
        lists: vec![vec![get]],
        values: stream::values(workload, plan.of.scenario.run.seeds.start),
    })
}

/// An engine under measurement.
struct Contender<'a> {
    engine: &'a dyn Engine,
    plan: &'a Plan,
    settings: &'a Settings,
    script: &'a Script,
    row: Row,
    directory: tempfile::TempDir,
    history: History,
}

impl<'a> Contender<'a> {
    fn new(
        engine: &'a dyn Engine,
        plan: &'a Plan,
        settings: &'a Settings,
        script: &'a Script,
    ) -> Result<Contender<'a>, String> {
        Ok(Contender {
            engine,
            plan,
            settings,
            script,
            row: Row {
                engine: engine.name(),
                version: engine.version(),
                configuration: engine.configuration(settings),
                device: None,
                caveat: contender::caveat(engine, settings),
                openings: Vec::new(),
                space_bytes: 0,
                wrong: None,
                failed: None,
            },
            directory: contender::place(&plan.of.directory, engine)?,
            history: History::new(script.preload),
        })
    }

    fn goes_on(&self) -> bool {
        self.row.failed.is_none() && self.row.wrong.is_none()
    }

    fn process(&self) -> Result<Process, StoreError> {
        let (program, directory) = (&self.plan.of.program, self.directory.path());
        let mut process = start(program, self.engine, directory, self.settings)?;
        process.send_script(self.script)?;
        Ok(process)
    }

    /// Sets each key once, in an order that looks random, and closes the database.
    fn load(&mut self, watch: &dyn Watch) {
        let keys = self.script.preload;
        let loaded = self.process().and_then(|mut process| {
            process.open(Durability::Relaxed)?;
            process.write(0, keys, keys, &mut |line| {
                let written = line.written.into_iter();
                written.for_each(|done| watch.loading(self.row.engine, done, keys));
            })?;
            process.close()
        });
        self.history.is_durable(keys);
        self.row.failed = loaded.err();
    }

    /// Writes, kills, opens. After an error there is no further turn.
    fn turn(&mut self, round: u32) {
        match self.crash(round).and_then(|begin| self.open(round, begin)) {
            Ok(opening) => self.row.openings.push(opening),
            Err(error) => self.row.failed = Some(error),
        }
    }

    /// Leaves a database as a kill leaves it. Returns the first write since the kill before.
    fn crash(&mut self, round: u32) -> Result<u64, StoreError> {
        let write_bytes = u64::from(self.script.key_bytes) + self.script.values.mean_bytes();
        let writes = self.plan.log_bytes.div_ceil(write_bytes).max(1);
        let begin = self.history.next();
        let durable = begin + writes;
        // Not always at the same distance from the sync.
        let killed_at = durable + 1 + self.random(round, 0).below(writes.min(20_000));
        let end = killed_at + AFTER_MAX;
        let mut process = self.process()?;
        process.open(Durability::Relaxed)?;
        process.write_until_killed(begin, durable, end, killed_at)?;
        self.history.is_durable(durable);
        self.history.may_be_there(end);
        Ok(begin)
    }

    fn open(&mut self, round: u32, begin: u64) -> Result<Opening, StoreError> {
        let cold = cold::drop_cache(self.directory.path());
        let keys = self.script.preload;
        let mut rng = self.random(round, 1);
        let places: Vec<u64> = (0..GETS).map(|_| rng.below(keys)).collect();
        let mut process = self.process()?;
        process.read_program();
        let before = process.counters();
        let opened = process.open(self.settings.durability)?;
        let open = process.counters();
        let put = self.history.next();
        let used = process.first_use(&self.numbers(&places), put)?;
        let (after, memory) = (process.counters(), process.memory());
        self.row.device = opened.device;
        self.row.caveat = opened.caveat.or(self.row.caveat.take());
        self.history.may_be_there(put + 1);
        self.look_at(&places, &used.values);
        // It was acknowledged as durable.
        self.history.was_acknowledged(put);
        let durable = self.history.durable();
        let newest = durable.saturating_sub(LOOKED_AT).max(begin)..durable;
        let any = (0..LOOKED_AT).map(|_| rng.range(begin, durable - 1));
        let places: Vec<u64> = newest.chain(any).chain([put]).collect();
        let values = process.get_all(&self.numbers(&places))?;
        self.look_at(&places, &values);
        process.close()?;
        Ok(Opening {
            open: opened.took,
            first_get: used.first_get,
            gets: used.gets,
            put: used.put,
            opening: open.since(&before),
            until_used: after.since(&before),
            memory,
            cold,
            own: used.own,
        })
    }

    fn numbers(&self, writes: &[u64]) -> Vec<u64> {
        writes.iter().map(|it| self.history.key_of(*it)).collect()
    }

    /// Whether the keys that these writes set hold what they must.
    fn look_at(&mut self, writes: &[u64], values: &[Option<Vec<u8>>]) {
        for (write, value) in writes.iter().zip(values) {
            if self.row.wrong.is_none() {
                let values = &self.script.values;
                self.row.wrong = self.history.wrong(*write, value.as_deref(), values);
            }
        }
    }

    /// Numbers for one purpose of a turn, the same for each engine.
    fn random(&self, round: u32, purpose: u64) -> Rng {
        let seed = self.plan.of.scenario.run.seeds.start;
        let seed = seed.wrapping_mul(1_000_003) + 2 * u64::from(round) + purpose;
        Rng::new(seed, Purpose::Workload)
    }

    fn finish(mut self) -> Row {
        self.row.space_bytes = space_bytes(self.directory.path());
        self.row
    }
}
