//! `kvsim bench`: the workload of a scenario on a real disk, on our engine and on its peers; or on the simulated one.

mod engines;
mod process;

use std::cell::Cell;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kvsim_harness::bench::load::Pace;
use kvsim_harness::bench::predict::{self, predict};
use kvsim_harness::bench::rounds::{Plan, Table, Watch, measure};
use kvsim_harness::bench::store::{Durability, Engine};
use kvsim_harness::bench::{export, html, json, openings, report};
use kvsim_harness::guest::{self, Program};
use kvsim_harness::scenario::{self, BUILTIN_PROFILES, Scenario, Shipped};

use crate::args::{BenchArgs, DurabilityArg};
use crate::exit::Exit;
use crate::interrupts::Interrupts;
use crate::output::progress::Spinner;
use crate::output::{complain, print};
use crate::runtime;
use engines::engines;
pub(crate) use process::engine_process;

/// What `--no-fsync` measures, on what, and how much of it is under way.
const NO_FSYNC: &str = "no_fsync";
const NO_FSYNC_ENGINES: [&str; 4] = [
    "kvsim-through",
    "kvsim-fsync-free",
    "direct+fsync",
    "buffered+fsync",
];
const NO_FSYNC_DEPTH: u32 = 100;
/// What is measured if nothing is named.
const USUAL: &str = "durable";
/// File systems in memory: what is measured there says nothing about a disk. Their magic numbers are those of `statfs(2)`.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// `kvsim bench`
pub(crate) fn bench(args: &BenchArgs) -> Exit {
    let scenarios = match scenarios(args) {
        Ok(scenarios) => scenarios,
        Err(exit) => return exit,
    };
    if !args.real_disk {
        return crate::commands::run::predict(&scenarios, args);
    }
    match on_disk(args, &scenarios) {
        Ok(exit) => exit,
        Err(message) => {
            complain(&format!("error: {message}"));
            Exit::Usage
        }
    }
}

fn scenarios(args: &BenchArgs) -> Result<Vec<Scenario>, Exit> {
    let mut sets = args.set.clone();
    sets.extend(
        args.clients
            .map(|clients| format!("workload.clients={clients}")),
    );
    sets.extend(tasks(args).map(|tasks| format!("workload.clients={tasks}")));
    if let Some(profile) = &args.profile {
        match profile_of(profile) {
            Ok(profile) => sets.push(format!("profile={profile}")),
            Err(error) => {
                complain(&format!("error: --profile {}: {error}", profile.display()));
                return Err(Exit::Usage);
            }
        }
    }
    let found = if args.scenarios.is_empty() {
        let name = if args.no_fsync { NO_FSYNC } else { USUAL };
        let shipped = Shipped::named(name).map(|shipped| shipped.load(&sets));
        shipped.into_iter().collect::<Vec<_>>()
    } else {
        let paths = args.scenarios.iter();
        paths.map(|path| scenario::load(path, &sets)).collect()
    };
    let named = found.len();
    let mut loaded = Vec::new();
    for scenario in found {
        match scenario {
            Ok(scenario) => loaded.push(scenario),
            Err(error) => complain(&error.to_string()),
        }
    }
    if let Some(varied) = loaded.iter().find(|scenario| scenario.varies()) {
        complain(&format!(
            "error: scenario {} varies by seed, and a benchmark measures one workload\n  = help: take one of them: kvsim explain SCENARIO --seed N",
            varied.name
        ));
        return Err(Exit::Usage);
    }
    if loaded.len() == named {
        Ok(loaded)
    } else {
        Err(Exit::Usage)
    }
}

/// A profile's file as a path that holds in any folder, or the name of a profile that ships.
fn profile_of(profile: &Path) -> Result<String, String> {
    let names = || BUILTIN_PROFILES.iter().map(|(name, _)| *name);
    match std::fs::canonicalize(profile) {
        Ok(path) if path.is_file() => Ok(path.display().to_string()),
        Ok(_) => Err("it is no file".to_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let shipped = names().find(|name| profile == Path::new(name));
            shipped.map(str::to_owned).ok_or_else(|| {
                let names = names().collect::<Vec<_>>().join(", ");
                format!("there is no such file, and no profile of that name ships\n  = help: name a file that kvsim calibrate wrote, or one of {names}")
            })
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Asynchronous tasks in place of threads.
fn tasks(args: &BenchArgs) -> Option<u32> {
    let deep = args.no_fsync && args.clients.is_none();
    args.tasks.or(deep.then_some(NO_FSYNC_DEPTH))
}

fn on_disk(args: &BenchArgs, scenarios: &[Scenario]) -> Result<Exit, String> {
    let engines = if args.no_fsync && args.engines.is_empty() {
        engines(&NO_FSYNC_ENGINES.map(str::to_owned))?
    } else {
        engines(&args.engines)?
    };
    let engines: Vec<&dyn Engine> = engines.iter().map(AsRef::as_ref).collect();
    let directory = directory(args.dir.as_deref())?;
    let runtime = match runtime::start(None) {
        Ok(runtime) => runtime,
        Err(exit) => return Ok(exit),
    };
    let interrupts = runtime.block_on(async { Interrupts::watch() });
    let program = match &args.profile {
        Some(_) => Some(guest::load(None)?),
        None => None,
    };
    let call = Call {
        args,
        scenarios,
        engines,
        directory,
        interrupts,
    };
    if args.openings {
        return call.openings();
    }
    call.rounds(program.as_ref())
}

/// One call of `kvsim bench` on a real disk.
struct Call<'a> {
    args: &'a BenchArgs,
    scenarios: &'a [Scenario],
    engines: Vec<&'a dyn Engine>,
    directory: PathBuf,
    interrupts: Interrupts,
}

impl Call<'_> {
    fn plan(&self, scenario: &Scenario) -> Result<Plan, String> {
        let args = self.args;
        let program = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
        Ok(Plan {
            scenario: scenario.clone(),
            durability: durability(scenario, args.durability)?,
            directory: self.directory.clone(),
            program,
            pace: Pace {
                warm_up: args.warm_up,
                measured: args.duration,
                rate: args.rate,
                tasks: tasks(args).is_some(),
            },
            rounds: args.rounds.get(),
            cache_bytes: args.cache_mib << 20,
            index_bytes: args.index_mib << 20,
            engine_options: args
                .option
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect(),
            space_percent: args.space,
            memory_bytes: args.memory_mib.map(|mib| mib << 20),
            assume_power_loss_protection: args.assume_power_loss_protection,
        })
    }

    /// What is said while scenarios from this one on are measured.
    fn progress(&self, done: usize, turn: Duration) -> Progress {
        let left = self.scenarios.len() - done;
        let turns = (left * self.engines.len()) as u64 * u64::from(self.args.rounds.get());
        Progress {
            spinner: Spinner::new(!self.args.json),
            turns_left: Cell::new(u32::try_from(turns).unwrap_or(u32::MAX)),
            turn,
        }
    }

    fn rounds(&self, program: Option<&Arc<dyn Program>>) -> Result<Exit, String> {
        let args = self.args;
        let files = Files::create(&[
            (&args.report, html::page as Render<Table>),
            (&args.csv, export::csv),
            (&args.markdown, export::markdown),
        ])?;
        let plans = self.scenarios.iter().map(|scenario| self.plan(scenario));
        let plans = plans.collect::<Result<Vec<_>, _>>()?;
        // Those of one group find what was loaded once.
        let together = if args.load_once {
            plans.len().max(1)
        } else {
            1
        };
        let mut tables = Vec::new();
        for group in plans.chunks(together) {
            let progress = self.progress(tables.len(), args.warm_up + args.duration);
            let stopped = || self.interrupts.came();
            measure(
                group,
                &self.engines,
                &progress,
                &stopped,
                &mut |mut table| {
                    if let Some(program) = program {
                        progress.spinner.say("predicting");
                        let (scenario, course) = (&table.plan.scenario, course(&table.plan));
                        table.prediction = Some(predict(scenario, program, &course)?);
                    }
                    if !args.json {
                        progress
                            .spinner
                            .aside(|| print(&format!("{}\n", report::table(&table))));
                    }
                    tables.push(table);
                    Ok(())
                },
            )?;
        }
        if args.json {
            print_json(&json::document(&tables))?;
        }
        files.write(&tables)?;
        let rows = tables.iter().flat_map(|table| &table.rows);
        let mut missing = rows.map(|row| row.failed.is_some() || row.rounds.is_empty());
        Ok(if self.interrupts.came() || missing.any(|it| it) {
            Exit::Inconclusive
        } else {
            Exit::Clean
        })
    }

    fn openings(&self) -> Result<Exit, String> {
        let args = self.args;
        let files = Files::create(&[
            (&args.csv, openings::export::csv as Render<openings::Table>),
            (&args.markdown, openings::export::markdown),
        ])?;
        let mut tables = Vec::new();
        for scenario in self.scenarios {
            let plan = openings::Plan {
                of: self.plan(scenario)?,
                log_bytes: args.log_mib << 20,
            };
            // How long a turn takes is what is asked.
            let progress = self.progress(tables.len(), Duration::ZERO);
            let stopped = || self.interrupts.came();
            let table = openings::measure(&plan, &self.engines, &progress, &stopped)?;
            drop(progress);
            if !args.json {
                print(&format!("{}\n", openings::report::table(&table)));
            }
            tables.push(table);
        }
        if args.json {
            print_json(&openings::json::document(&tables))?;
        }
        files.write(&tables)?;
        let mut rows = tables.iter().flat_map(|table| &table.rows);
        let missing = |row: &openings::Row| row.failed.is_some() || row.openings.is_empty();
        Ok(if rows.clone().any(|row| row.wrong.is_some()) {
            Exit::Violation
        } else if self.interrupts.came() || rows.any(missing) {
            Exit::Inconclusive
        } else {
            Exit::Clean
        })
    }
}

/// What the simulator is to predict of a plan.
fn course(plan: &Plan) -> predict::Course {
    predict::Course {
        durability: plan.durability,
        tasks: plan.pace.tasks,
        space_percent: plan.space_percent,
        cache_bytes: plan.cache_bytes,
        index_bytes: plan.index_bytes,
        rounds: plan.rounds,
        warm_up: plan.pace.warm_up,
        measured: plan.pace.measured,
    }
}

fn print_json(document: &impl serde::Serialize) -> Result<(), String> {
    let document = serde_json::to_string_pretty(document);
    let document = document.map_err(|error| error.to_string())?;
    print(&format!("{document}\n"));
    Ok(())
}

/// Makes the text of a file.
type Render<T> = fn(&[T]) -> String;

/// The files that are asked for, and what goes into each. They are created before anything is measured: whoever waited for the figures should get them.
struct Files<T>(Vec<(PathBuf, File, Render<T>)>);

impl<T> Files<T> {
    fn create(all: &[(&Option<PathBuf>, Render<T>)]) -> Result<Files<T>, String> {
        let asked = all
            .iter()
            .filter_map(|(path, render)| Some((path.as_ref()?, *render)));
        let create = |(path, render): (&PathBuf, Render<T>)| {
            let file =
                File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok((path.clone(), file, render))
        };
        asked.map(create).collect::<Result<_, _>>().map(Files)
    }

    fn write(self, tables: &[T]) -> Result<(), String> {
        for (path, mut file, render) in self.0 {
            let written = file.write_all(render(tables).as_bytes());
            written.map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }
}

/// A benchmark has one kind of durability: what the scenario says of all writes, or the command line.
fn durability(scenario: &Scenario, asked: Option<DurabilityArg>) -> Result<Durability, String> {
    match (asked, scenario.workload.durable_fraction) {
        (Some(DurabilityArg::Full), _) => Ok(Durability::Full),
        (Some(DurabilityArg::Os), _) => Ok(Durability::Os),
        (Some(DurabilityArg::Relaxed), _) => Ok(Durability::Relaxed),
        (None, 1.0) => Ok(Durability::Full),
        (None, 0.0) => Ok(Durability::Relaxed),
        (None, fraction) => Err(format!(
            "{}: workload.durable_fraction is {fraction}, but figures of different durability do not mix\n  = help: --durability full or --durability relaxed",
            scenario.name
        )),
    }
}

/// Where the databases go. A file system in memory is refused: it would be measured in place of a disk.
pub(crate) fn directory(asked: Option<&Path>) -> Result<PathBuf, String> {
    let directory = match asked {
        Some(directory) => directory.to_owned(),
        None => {
            std::env::current_dir().map_err(|error| format!("the current directory: {error}"))?
        }
    };
    if !directory.is_dir() {
        return Err(format!(
            "--dir {}: there is no such directory",
            directory.display()
        ));
    }
    if is_in_memory(&directory) {
        return Err(format!(
            "{} is in memory, and not on a disk\n  = help: name a directory on the disk with --dir",
            directory.display()
        ));
    }
    Ok(directory)
}

#[cfg(target_os = "linux")]
pub(crate) fn is_in_memory(directory: &Path) -> bool {
    rustix::fs::statfs(directory).is_ok_and(|found| IN_MEMORY.contains(&found.f_type))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_in_memory(_: &Path) -> bool {
    let _ = IN_MEMORY;
    false
}

/// Says what is measured, and how long the turns that are left will take; loading comes on top.
struct Progress {
    spinner: Spinner,
    turns_left: Cell<u32>,
    turn: Duration,
}

impl Watch for Progress {
    fn loading(&self, engine: &str, done: u64, of: u64) {
        self.spinner
            .say(&format!("{engine}: loading {done} of {of}"));
    }

    fn measuring(&self, engine: &str, round: u32, of: u32) {
        self.spinner
            .say(&format!("{engine}: round {round} of {of}"));
        let turns = self.turns_left.get();
        self.spinner.ends_in(self.turn * turns);
        self.turns_left.set(turns.saturating_sub(1));
    }
}
