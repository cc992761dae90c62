//! Rounds: each engine is opened and loaded once, in a process of its own, then they take turns, so that a disk that is slow for a while is slow
//! for all. A turn begins when the disk is quiet after the one before. Several workloads may follow each other on what was loaded once.

use std::path::PathBuf;

pub use kvsim_store::memory::Memory;
use kvsim_store::wait_until_quiet::wait_until_quiet;

use super::contender::Contender;
use super::counters::Source;
use super::load::{Pace, Script, Seen};
use super::numbers::float;
use super::predict::Prediction;
use super::store::{Durability, Engine, Settings, StoreError};
use super::stream;
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

/// Measures all engines on the workload of each plan, one plan after the other. The engines are opened and loaded once, as the first plan says, so all plans have to be of
/// the same data; a later one finds what those before it have written. `done` gets the table of a plan as soon as it is there.
///
/// # Errors
/// A workload is none for a benchmark, two plans are of different data, or the directory cannot be used. What an engine cannot do is in its row.
pub fn measure(
    plans: &[Plan],
    engines: &[&dyn Engine],
    watch: &dyn Watch,
    stopped: &dyn Fn() -> bool,
    done: &mut dyn FnMut(Table) -> Result<(), String>,
) -> Result<(), String> {
    let Some((first, others)) = plans.split_first() else {
        return Ok(());
    };
    for other in others {
        same_data(first, other)?;
    }
    let scripts = plans.iter().map(Plan::script);
    let scripts = scripts.collect::<Result<Vec<_>, _>>()?;
    let mut contenders = Vec::new();
    for engine in engines {
        if stopped() {
            break;
        }
        contenders.push(Contender::new(*engine, first, &scripts, watch)?);
    }
    for (at, (plan, script)) in plans.iter().zip(&scripts).enumerate() {
        for contender in &mut contenders {
            contender.begin(plan, script, at > 0);
        }
        rounds(plan, &mut contenders, watch, stopped);
        let is_last = at + 1 == plans.len();
        let rows = contenders.iter_mut();
        let rows = rows.map(|contender| contender.finish(plan, script, is_last));
        done(Table {
            plan: plan.clone(),
            rows: rows.collect(),
            prediction: None,
        })?;
        if stopped() {
            break;
        }
    }
    Ok(())
}

/// The turns of all engines on one workload.
fn rounds(
    plan: &Plan,
    contenders: &mut [Contender<'_>],
    watch: &dyn Watch,
    stopped: &dyn Fn() -> bool,
) {
    let source = Source::of(&plan.directory);
    for round in 0..plan.rounds {
        for contender in &mut *contenders {
            if !contender.is_there() {
                continue;
            }
            if stopped() {
                return;
            }
            let quiet = wait_until_quiet(&plan.directory, &source, stopped);
            if stopped() {
                return;
            }
            tracing::debug!(engine = contender.engine(), quiet, "its turn");
            watch.measuring(contender.engine(), round + 1, plan.rounds);
            contender.measure(&plan.pace);
        }
    }
}

/// That two plans want the same data in the same place, so that what is loaded for one serves the other too.
fn same_data(one: &Plan, other: &Plan) -> Result<(), String> {
    let (a, b) = (&one.scenario.workload, &other.scenario.workload);
    let seeds = [one, other].map(|plan| plan.scenario.run.seeds.start);
    let differs = [
        (a.keys != b.keys, "workload.keys"),
        (a.preload != b.preload, "workload.preload"),
        (a.key_bytes != b.key_bytes, "workload.key_bytes"),
        (a.value_bytes != b.value_bytes, "workload.value_bytes"),
        (
            a.compressible_percent != b.compressible_percent,
            "workload.compressible_percent",
        ),
        (seeds[0] != seeds[1], "run.seeds"),
    ];
    match differs.iter().find(|(differs, _)| *differs) {
        None => Ok(()),
        Some((_, field)) => Err(format!(
            "{field} of {} is not that of {}, and one load cannot serve both\n  = help: give it with --set, which holds for all scenarios, or measure them without --load-once",
            other.scenario.name, one.scenario.name
        )),
    }
}

impl Plan {
    /// What the clients do.
    ///
    /// # Errors
    /// The workload is none for a benchmark.
    pub(crate) fn script(&self) -> Result<Script, String> {
        stream::script(&self.scenario.workload, self.scenario.run.seeds.start)
    }

    /// How each engine is opened for this script.
    pub(crate) fn settings(&self, script: &Script) -> Settings {
        let workload = &self.scenario.workload;
        let keys = workload.keys.max(workload.preload);
        Settings {
            durability: self.durability,
            cache_bytes: self.cache_bytes,
            index_bytes: self.index_bytes,
            engine_options: self.engine_options.clone(),
            keys,
            data_bytes: keys * (script.values.mean_bytes() + u64::from(workload.key_bytes)),
            threads: workload.clients as usize,
            space_percent: self.space_percent,
            memory_bytes: self.memory_bytes,
            assume_power_loss_protection: self.assume_power_loss_protection,
        }
    }
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
