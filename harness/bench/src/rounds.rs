//! Rounds: each engine is opened and loaded once, in a process of its own, then they take turns, so that a disk that is slow for a while is slow
//! for all. A turn begins when the disk is quiet after the one before.

use std::path::{Path, PathBuf};

pub use kvsim_store::memory::Memory;
use kvsim_store::process::{Opened, Process};
use kvsim_store::wait_until_quiet::wait_until_quiet;

use super::counters::{Source, space_bytes};
use super::load::{Pace, Script, Seen, now};
use super::numbers::float;
use super::predict::Prediction;
use super::serve::start;
use super::store::{Durability, Engine, Settings, StoreError};
use super::stream::{self, Action, Operation};
use kvsim_scenario::Scenario;

/// What is to be measured, and how.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Whose workload it is.
    pub scenario: Scenario,
    /// When writes are acknowledged.
    pub durability: Durability,
    /// Where the databases go: a directory on the disk that is measured.
    pub directory: PathBuf,
    /// kvsim itself: it is started again for each engine that is built into it.
    pub program: PathBuf,
    /// How long, how fast, by whom.
    pub pace: Pace,
    /// How often each engine has its turn.
    pub rounds: u32,
    /// Memory for caches of each engine.
    pub cache_bytes: u64,
    /// Memory for the entries of our engine's index; 0: all of them are in memory.
    pub index_bytes: u64,
    /// Further options of our engine, `name=value` each.
    pub engine_options: Vec<String>,
    /// The file that our engine begins with, in percent of the data.
    pub space_percent: u64,
    /// All that the process of an engine may take, what the system caches of its files included; `None`: what there is.
    pub memory_bytes: Option<u64>,
    /// The caller's word that the drive's cache survives a power cut.
    pub assume_power_loss_protection: bool,
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
    /// Its writes are as durable as was asked for.
    pub durable_as_asked: bool,
    /// What it found out about the disk.
    pub device: Option<String>,
    /// Why its figures are worth less than the others'.
    pub caveat: Option<String>,
    /// How the keys came in that are there before the first round; `None` where there are none, or it failed.
    pub load: Option<Load>,
    /// Its rounds, in order.
    pub rounds: Vec<Seen>,
    /// What its process takes after the last round, its clients and what they write with it; `None` where the system does not say it.
    pub memory: Option<Memory>,
    /// Bytes on the disk after the last round.
    pub space_bytes: u64,
    /// Bytes of keys and values that were live then.
    pub live_bytes: u64,
    /// Why there is nothing, or no more.
    pub failed: Option<StoreError>,
}

/// How the keys came in that are there before the first round: put by one thread, relaxed, and then synced. Openings count.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Load {
    /// How many.
    pub keys: u64,
    /// How long it took, in nanoseconds.
    pub took_ns: u64,
}

impl Load {
    /// Keys a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        float(self.keys) * 1e9 / float(self.took_ns.max(1))
    }
}

/// Everything that was measured.
#[derive(Debug, Clone)]
pub struct Table {
    /// What was to be measured.
    pub plan: Plan,
    /// By engine, in the order asked for.
    pub rows: Vec<Row>,
    /// What the simulator says of our engine, if it was asked.
    pub prediction: Option<Prediction>,
}

/// Told what is going on.
pub trait Watch {
    /// An engine is being loaded; so many records of so many are there.
    fn loading(&self, engine: &str, done: u64, of: u64);
    /// A round begins.
    fn measuring(&self, engine: &str, round: u32, of: u32);
}

/// An engine under measurement.
struct Contender {
    row: Row,
    process: Option<Process>,
    directory: tempfile::TempDir,
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
    let workload = &plan.scenario.workload;
    let seed = plan.scenario.run.seeds.start;
    let script = stream::script(workload, seed)?;
    let settings = plan.settings(&script);
    let source = Source::of(&plan.directory);
    let mut contenders = Vec::new();
    for engine in engines {
        if stopped() {
            break;
        }
        contenders.push(open(*engine, plan, &settings, &script, watch)?);
    }
    for round in 0..plan.rounds {
        for contender in &mut contenders {
            if contender.process.is_none() {
                continue;
            }
            if stopped() {
                break;
            }
            let quiet = wait_until_quiet(&plan.directory, &source, stopped);
            if stopped() {
                break;
            }
            tracing::debug!(engine = contender.row.engine, quiet, "its turn");
            watch.measuring(contender.row.engine, round + 1, plan.rounds);
            contender.measure(&plan.pace);
        }
    }
    let finished = contenders
        .into_iter()
        .map(|contender| contender.finish(&script, &settings));
    Ok(Table {
        plan: plan.clone(),
        rows: finished.collect(),
        prediction: None,
    })
}

fn open(
    engine: &dyn Engine,
    plan: &Plan,
    settings: &Settings,
    script: &Script,
    watch: &dyn Watch,
) -> Result<Contender, String> {
    let directory = place(&plan.directory, engine)?;
    let mut row = Row {
        engine: engine.name(),
        version: engine.version(),
        configuration: engine.configuration(settings),
        durable_as_asked: engine.keeps(settings.durability),
        device: None,
        caveat: caveat(engine, settings),
        load: None,
        rounds: Vec::new(),
        memory: None,
        space_bytes: 0,
        live_bytes: 0,
        failed: None,
    };
    let loaded = if !engine.is_ordered() && scans(script) {
        Err(StoreError {
            engine: engine.name(),
            what: "it has no order, and so no scans".to_owned(),
        })
    } else {
        load(engine, plan, directory.path(), settings, script, watch)
    };
    let process = match loaded {
        Ok((process, opened, load)) => {
            row.load = load;
            row.device = opened.device;
            row.caveat = opened.caveat.or(row.caveat);
            Some(process)
        }
        Err(error) => {
            row.failed = Some(error);
            None
        }
    };
    Ok(Contender {
        row,
        process,
        directory,
    })
}

/// A directory for the databases of an engine, which goes with what is in it.
pub(crate) fn place(directory: &Path, engine: &dyn Engine) -> Result<tempfile::TempDir, String> {
    tempfile::Builder::new()
        .prefix(&format!("kvsim-bench-{}-", engine.name()))
        .tempdir_in(directory)
        .map_err(|error| format!("{}: {error}", directory.display()))
}

/// What is to be said of an engine that does not keep the durability that was asked for.
pub(crate) fn caveat(engine: &dyn Engine, settings: &Settings) -> Option<String> {
    let kept = engine.keeps(settings.durability);
    (!kept).then(|| "not as durable as the others, and compared with none of them".to_owned())
}

fn scans(script: &Script) -> bool {
    let mut operations = script.lists.iter().flatten();
    operations.any(|operation| operation.action == Action::Scan)
}

/// Starts the process of an engine and lets it load.
fn load(
    engine: &dyn Engine,
    plan: &Plan,
    directory: &Path,
    settings: &Settings,
    script: &Script,
    watch: &dyn Watch,
) -> Result<(Process, Opened, Option<Load>), StoreError> {
    let mut process = start(&plan.program, engine, directory, settings)?;
    process.send_script(script)?;
    let began = now();
    let opened = process.load(&|done| watch.loading(engine.name(), done, script.preload))?;
    let load = (script.preload > 0).then(|| Load {
        keys: script.preload,
        took_ns: u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
    });
    Ok((process, opened, load))
}

impl Plan {
    /// How each engine is opened for this script.
    pub(crate) fn settings(&self, script: &Script) -> Settings {
        let workload = &self.scenario.workload;
        Settings {
            durability: self.durability,
            cache_bytes: self.cache_bytes,
            index_bytes: self.index_bytes,
            engine_options: self.engine_options.clone(),
            data_bytes: workload.keys.max(workload.preload)
                * (script.values.mean_bytes() + u64::from(workload.key_bytes)),
            threads: workload.clients as usize,
            space_percent: self.space_percent,
            memory_bytes: self.memory_bytes,
            assume_power_loss_protection: self.assume_power_loss_protection,
        }
    }
}

impl Contender {
    /// One round. After an error there is no further one.
    fn measure(&mut self, pace: &Pace) {
        let Some(process) = &mut self.process else {
            return;
        };
        match process.run(pace) {
            Ok(seen) => {
                self.row.rounds.push(seen);
                self.row.memory = process.memory();
            }
            Err(error) => {
                self.row.failed = Some(error);
                self.process = None;
            }
        }
    }

    fn finish(mut self, script: &Script, settings: &Settings) -> Row {
        let mut keys = script.next_key;
        if let Some(process) = &mut self.process {
            match process.next_key() {
                Ok(there) => keys = there,
                Err(error) => self.row.failed = Some(error),
            }
        }
        self.row.live_bytes = live_bytes(script, settings, keys);
        self.row.space_bytes = space_bytes(self.directory.path());
        if let Some(mut process) = self.process.take()
            && let Err(error) = process.close()
        {
            self.row.failed = Some(error);
        }
        tracing::debug!(engine = self.row.engine, "closed");
        self.row
    }
}

/// About how much there is in the end: what was loaded or put, and what was inserted.
fn live_bytes(script: &Script, settings: &Settings, next_key: u64) -> u64 {
    let puts = |one: &Operation| matches!(one.action, Action::Put | Action::ReadModifyWrite);
    let first = if script.lists.iter().flatten().any(puts) {
        script.next_key
    } else {
        script.preload
    };
    let per_key = settings.data_bytes / script.next_key.max(1);
    per_key * (first + next_key.saturating_sub(script.next_key))
}

impl Row {
    /// Median, least and most of a figure over the rounds.
    #[must_use]
    pub fn spread(&self, figure: impl Fn(&Seen) -> f64) -> Option<Spread> {
        Spread::of(self.rounds.iter().map(figure))
    }
}

/// A figure over several rounds.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Spread {
    /// Half of the rounds had less.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
}

impl Spread {
    /// Of these figures; `None` if there is none.
    #[must_use]
    pub fn of(figures: impl Iterator<Item = f64>) -> Option<Spread> {
        let mut all: Vec<f64> = figures.collect();
        all.sort_by(f64::total_cmp);
        let (first, last) = (all.first()?, all.last()?);
        let middle = all.len() / 2;
        let median = if all.len() % 2 == 1 {
            all[middle]
        } else {
            f64::midpoint(all[middle - 1], all[middle])
        };
        Some(Spread {
            median,
            least: *first,
            most: *last,
        })
    }
}
