//! `kvsim bench`: the workload of a scenario on a real disk, on our engine and on its peers; or on the simulated one.

use std::cell::Cell;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kvsim_harness::bench::load::Pace;
use kvsim_harness::bench::native::Native;
use kvsim_harness::bench::predict::{Course, predict};
use kvsim_harness::bench::rounds::{Plan, Table, Watch, measure};
use kvsim_harness::bench::slots::Slots;
use kvsim_harness::bench::store::{Durability, Engine};
use kvsim_harness::bench::{export, html, json, report};
use kvsim_harness::guest;
use kvsim_harness::scenario::{self, BUILTIN_PROFILES, Scenario, Shipped};

use crate::args::{BenchArgs, DurabilityArg};
use crate::exit::Exit;
use crate::interrupts::Interrupts;
use crate::output::progress::Spinner;
use crate::output::{complain, print};
use crate::runtime;

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
/// In place of the names of engines.
const ALL: &str = "all";
/// How to get the engines that this build does not have.
const UNBUILT: Option<&str> = if cfg!(not(feature = "peers")) {
    Some("peers are built with --features kvsim/peers, RocksDB with --features kvsim/rocksdb")
} else if cfg!(not(feature = "rocksdb")) {
    Some("RocksDB is built with --features kvsim/rocksdb")
} else {
    None
};
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
    // Before anything is measured: whoever waited for the figures should get them.
    let mut files = Vec::new();
    for (path, render) in outputs(args) {
        let file = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
        files.push((path, file, render));
    }
    let mut tables = Vec::new();
    for scenario in scenarios {
        let plan = Plan {
            scenario: scenario.clone(),
            durability: durability(scenario, args.durability)?,
            directory: directory.clone(),
            pace: Pace {
                warm_up: args.warm_up,
                measured: args.duration,
                rate: args.rate,
                tasks: tasks(args).is_some(),
            },
            rounds: args.rounds.get(),
            cache_bytes: args.cache_mib << 20,
            index_bytes: args.index_mib << 20,
            space_percent: args.space,
            assume_power_loss_protection: args.assume_power_loss_protection,
        };
        let tables_left = scenarios.len() - tables.len();
        let turns = (tables_left * engines.len()) as u64 * u64::from(plan.rounds);
        let progress = Progress {
            spinner: Spinner::new(!args.json),
            turns_left: Cell::new(u32::try_from(turns).unwrap_or(u32::MAX)),
            turn: args.warm_up + args.duration,
        };
        let mut table = measure(&plan, &engines, &progress, &|| interrupts.came())?;
        if let Some(program) = &program {
            progress.spinner.say("predicting");
            let course = Course {
                durability: plan.durability,
                tasks: plan.pace.tasks,
                space_percent: plan.space_percent,
                cache_bytes: plan.cache_bytes,
                index_bytes: plan.index_bytes,
                rounds: plan.rounds,
                warm_up: plan.pace.warm_up,
                measured: plan.pace.measured,
            };
            table.prediction = Some(predict(scenario, program, &course)?);
        }
        drop(progress);
        if !args.json {
            print(&format!("{}\n", report::table(&table)));
        }
        tables.push(table);
    }
    if args.json {
        let document = serde_json::to_string_pretty(&json::document(&tables));
        print(&format!(
            "{}\n",
            document.map_err(|error| error.to_string())?
        ));
    }
    for (path, mut file, render) in files {
        let written = file.write_all(render(&tables).as_bytes());
        written.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(exit_of(&tables, interrupts.came()))
}

/// Makes the text of a file.
type Render = fn(&[Table]) -> String;

/// The files that are asked for, and what goes into each.
fn outputs(args: &BenchArgs) -> impl Iterator<Item = (&PathBuf, Render)> {
    let all = [
        (&args.report, html::page as Render),
        (&args.csv, export::csv),
        (&args.markdown, export::markdown),
    ];
    all.into_iter()
        .filter_map(|(path, render)| Some((path.as_ref()?, render)))
}

fn exit_of(tables: &[Table], interrupted: bool) -> Exit {
    let missing = tables
        .iter()
        .flat_map(|table| &table.rows)
        .any(|row| row.failed.is_some() || row.rounds.is_empty());
    if interrupted || missing {
        Exit::Inconclusive
    } else {
        Exit::Clean
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

fn known() -> Vec<Box<dyn Engine>> {
    #[cfg_attr(not(feature = "peers"), expect(unused_mut, reason = "peers are added"))]
    let mut all: Vec<Box<dyn Engine>> = vec![Box::new(Native::ENGINE)];
    #[cfg(feature = "peers")]
    all.extend(kvsim_peers::all());
    all
}

/// What is measured only by its own name: ways of ours that are compared with one another, and files without an engine.
fn others() -> Vec<Box<dyn Engine>> {
    vec![
        Box::new(Native::THROUGH),
        Box::new(Native::FLUSH_FREE),
        Box::new(Slots::BUFFERED),
        Box::new(Slots::DIRECT),
    ]
}

/// Every engine that can be measured here, ours first; what is left out is said.
fn all() -> Vec<Box<dyn Engine>> {
    let (here, missing): (Vec<_>, Vec<_>) = known()
        .into_iter()
        .partition(|engine| not_ready(engine.as_ref()).is_none());
    if let Some(why) = missing
        .first()
        .and_then(|engine| not_ready(engine.as_ref()))
    {
        let names: Vec<&str> = missing.iter().map(|engine| engine.name()).collect();
        complain(&format!("note: without {}: {why}", names.join(", ")));
    }
    if let Some(features) = UNBUILT {
        complain(&format!("note: {features}"));
    }
    here
}

/// Why an engine of another process cannot be started here.
fn not_ready(engine: &dyn Engine) -> Option<String> {
    let error = engine.remote()?.ready().err()?;
    Some(error.what)
}

fn engines(names: &[String]) -> Result<Vec<Box<dyn Engine>>, String> {
    if names.is_empty() {
        return Ok(vec![Box::new(Native::ENGINE)]);
    }
    if names.iter().any(|name| name == ALL) {
        return match names {
            [_] => Ok(all()),
            _ => Err(format!("--engines {ALL} names all of them already")),
        };
    }
    let mut chosen: Vec<Box<dyn Engine>> = Vec::new();
    for name in names {
        let mut all: Vec<_> = known().into_iter().chain(others()).collect();
        let at = all.iter().position(|engine| engine.name() == name);
        let Some(at) = at else {
            let names: Vec<&str> = all.iter().map(|engine| engine.name()).collect();
            let help = UNBUILT.unwrap_or("`all` names all of them");
            return Err(format!(
                "there is no engine `{name}`; this build has {}\n  = help: {help}",
                names.join(", ")
            ));
        };
        if let Some(why) = not_ready(all[at].as_ref()) {
            return Err(format!("{name}: {why}"));
        }
        chosen.push(all.swap_remove(at));
    }
    Ok(chosen)
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
