//! Rounds: each engine is opened and loaded once, then they take turns, so that a disk that is slow for a while is slow
//! for all. A turn begins when the disk is quiet after the one before.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use kvsim_store::remote::{Remote, RemoteLoad};
use kvsim_store::wait_until_quiet::wait_until_quiet;

use super::counters::{Source, space_bytes};
use super::load::{Pace, Script, Seen, preload, run};
use super::predict::Prediction;
use super::store::{Durability, Engine, Settings, Store, StoreError};
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
    /// How long, how fast, by whom.
    pub pace: Pace,
    /// How often each engine has its turn.
    pub rounds: u32,
    /// Memory for caches of each engine.
    pub cache_bytes: u64,
    /// Memory for the entries of our engine's index; 0: all of them are in memory.
    pub index_bytes: u64,
    /// The file that our engine begins with, in percent of the data.
    pub space_percent: u64,
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
    pub caveat: Option<&'static str>,
    /// Its rounds, in order.
    pub rounds: Vec<Seen>,
    /// Bytes on the disk after the last round.
    pub space_bytes: u64,
    /// Bytes of keys and values that were live then.
    pub live_bytes: u64,
    /// Why there is nothing, or no more.
    pub failed: Option<StoreError>,
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
struct Contender<'a> {
    row: Row,
    opened: Option<Opened>,
    directory: tempfile::TempDir,
    next_key: AtomicU64,
    engine: &'a dyn Engine,
}

/// Where the database and its clients are.
enum Opened {
    /// In this process.
    Here(Box<dyn Store>),
    /// In another.
    There(Box<dyn RemoteLoad>),
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
    let settings = Settings {
        durability: plan.durability,
        cache_bytes: plan.cache_bytes,
        index_bytes: plan.index_bytes,
        data_bytes: workload.keys.max(workload.preload)
            * (script.values.mean_bytes() + u64::from(workload.key_bytes)),
        threads: workload.clients as usize,
        space_percent: plan.space_percent,
        assume_power_loss_protection: plan.assume_power_loss_protection,
    };
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
            if contender.opened.is_none() {
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
            contender.measure(&script, &plan.pace, &source);
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

fn open<'a>(
    engine: &'a dyn Engine,
    plan: &Plan,
    settings: &Settings,
    script: &Script,
    watch: &dyn Watch,
) -> Result<Contender<'a>, String> {
    let directory = tempfile::Builder::new()
        .prefix(&format!("kvsim-bench-{}-", engine.name()))
        .tempdir_in(&plan.directory)
        .map_err(|error| format!("{}: {error}", plan.directory.display()))?;
    let mut row = Row {
        engine: engine.name(),
        version: engine.version(),
        configuration: engine.configuration(settings),
        durable_as_asked: engine.keeps(settings.durability),
        device: None,
        caveat: (!engine.keeps(settings.durability))
            .then_some("not as durable as the others, and compared with none of them"),
        rounds: Vec::new(),
        space_bytes: 0,
        live_bytes: 0,
        failed: None,
    };
    let opened = match engine.remote() {
        _ if !engine.is_ordered() && scans(script) => Err(StoreError {
            engine: engine.name(),
            what: "it has no order, and so no scans".to_owned(),
        }),
        Some(remote) => load_there(remote, &row, directory.path(), settings, script, watch),
        None => load(engine, directory.path(), settings, script, watch).map(Opened::Here),
    };
    let opened = match opened {
        Ok(opened) => {
            if let Opened::Here(store) = &opened {
                row.device = store.device();
                row.caveat = store.caveat().or(row.caveat);
            }
            Some(opened)
        }
        Err(error) => {
            row.failed = Some(error);
            None
        }
    };
    Ok(Contender {
        row,
        opened,
        directory,
        next_key: AtomicU64::new(script.next_key),
        engine,
    })
}

fn scans(script: &Script) -> bool {
    let mut operations = script.lists.iter().flatten();
    operations.any(|operation| operation.action == Action::Scan)
}

/// Starts the process of an engine and lets it load.
fn load_there(
    remote: &dyn Remote,
    row: &Row,
    directory: &Path,
    settings: &Settings,
    script: &Script,
    watch: &dyn Watch,
) -> Result<Opened, StoreError> {
    let mut load = remote.start(directory, settings, script)?;
    load.load(&|done| watch.loading(row.engine, done, script.preload))?;
    Ok(Opened::There(load))
}

/// Loads without waiting for each record, whatever the durability that is measured, if the engine lets itself be opened twice.
fn load(
    engine: &dyn Engine,
    directory: &Path,
    settings: &Settings,
    script: &Script,
    watch: &dyn Watch,
) -> Result<Box<dyn Store>, StoreError> {
    let of = script.preload;
    let progress = |done| watch.loading(engine.name(), done, of);
    if of > 0 && settings.durability != Durability::Relaxed {
        let relaxed = Settings {
            durability: Durability::Relaxed,
            ..settings.clone()
        };
        preload(
            engine.open(directory, &relaxed)?.as_ref(),
            script,
            &progress,
        )?;
        return engine.open(directory, settings);
    }
    let store = engine.open(directory, settings)?;
    if of > 0 {
        preload(store.as_ref(), script, &progress)?;
    }
    Ok(store)
}

impl Contender<'_> {
    /// One round. After an error there is no further one.
    fn measure(&mut self, script: &Script, pace: &Pace, source: &Source) {
        let seen = match &mut self.opened {
            Some(Opened::Here(store)) => run(store.as_ref(), script, &self.next_key, pace, source),
            Some(Opened::There(load)) => load.run(pace),
            None => return,
        };
        match seen {
            Ok(seen) => self.row.rounds.push(seen),
            Err(error) => {
                self.row.failed = Some(error);
                self.opened = None;
            }
        }
    }

    fn finish(mut self, script: &Script, settings: &Settings) -> Row {
        let mut keys = self.next_key.load(std::sync::atomic::Ordering::Relaxed);
        if let Some(Opened::There(load)) = &mut self.opened {
            match load.next_key() {
                Ok(there) => keys = there,
                Err(error) => self.row.failed = Some(error),
            }
        }
        self.row.live_bytes = live_bytes(script, settings, keys);
        self.row.space_bytes = space_bytes(self.directory.path());
        if let Some(Opened::There(mut load)) = self.opened.take()
            && let Err(error) = load.close()
        {
            self.row.failed = Some(error);
        }
        tracing::debug!(engine = self.engine.name(), "closed");
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
    /// A figure of each round, in order of size.
    fn sorted(&self, figure: impl Fn(&Seen) -> f64) -> Vec<f64> {
        let mut all: Vec<f64> = self.rounds.iter().map(figure).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    /// Median, least and most of a figure over the rounds.
    #[must_use]
    pub fn spread(&self, figure: impl Fn(&Seen) -> f64) -> Option<Spread> {
        let all = self.sorted(figure);
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
