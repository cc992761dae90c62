//! `kvsim board`: engines beside profiles, cell after cell, each on all cores. What is finished is kept at once.

use std::sync::Arc;

use kvsim_harness::board::board::{Board, Row};
use kvsim_harness::board::cell::{Cell, Key};
use kvsim_harness::board::class::VerdictClass;
use kvsim_harness::board::judge::{self, Job};
use kvsim_harness::board::modules::{self, Module};
use kvsim_harness::board::store::Store;
use kvsim_harness::board::{page, text};
use kvsim_harness::guest::{self, Instances, Program};
use kvsim_harness::scenario::{self, Scenario};

use crate::args::BoardArgs;
use crate::exit::Exit;
use crate::interrupts::Interrupts;
use crate::output::progress::Spinner;
use crate::output::{colour, complain, print, print_json};
use crate::runtime;
use crate::runtime::all_cores;

/// `kvsim board`
pub(crate) fn board(args: &BoardArgs) -> Exit {
    if args.rewrite {
        return rewrite(args);
    }
    let prepared = prepare(args);
    let (modules, store) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            complain(&format!("error: {error}"));
            return Exit::Usage;
        }
    };
    let runtime = match runtime::start(None) {
        Ok(runtime) => runtime,
        Err(exit) => return exit,
    };
    let exit = runtime.block_on(async {
        let work = Work {
            args,
            store,
            interrupts: Interrupts::watch(),
            spinner: Arc::new(Spinner::new(!args.quiet && !args.json)),
            all: modules.len() * args.profiles.len(),
        };
        work.all(&modules).await
    });
    runtime.shutdown_background();
    exit
}

/// The results of a board that was run, written again.
fn rewrite(args: &BoardArgs) -> Exit {
    let (store, board) = match Store::finished_board(&args.out) {
        Ok(found) => found,
        Err(error) => {
            complain(&format!("error: {error}"));
            return Exit::Usage;
        }
    };
    let exits = board.cells().map(exit_of);
    let mut exit = exits.fold(write(&store, &board), Exit::and);
    if board.is_interrupted {
        exit = exit.and(Exit::Inconclusive);
    }
    show(args, &store, &board, exit)
}

/// Writes the results into the folder.
fn write(store: &Store, board: &Board) -> Exit {
    let json = serde_json::to_string_pretty(board).map_err(|error| error.to_string());
    let written = json
        .and_then(|json| store.write("board.json", &format!("{json}\n")))
        .and_then(|()| store.write("board.txt", &text::board(board, colour_off())))
        .and_then(|()| store.write("board.html", &page::page(board)));
    match written {
        Ok(()) => Exit::Clean,
        Err(error) => {
            complain(&format!("error: {error}"));
            Exit::Internal
        }
    }
}

/// Prints the results.
fn show(args: &BoardArgs, store: &Store, board: &Board, exit: Exit) -> Exit {
    if args.json {
        return print_json(board, exit);
    }
    print(&text::board(board, colour()));
    print(&format!("page: {}\n", store.path("board.html").display()));
    exit
}

/// All that can be known to be wrong before anything runs.
fn prepare(args: &BoardArgs) -> Result<(Vec<Module>, Store), String> {
    for (at, profile) in args.profiles.iter().enumerate() {
        judge::known_profile(profile)?;
        if args.profiles[..at].contains(profile) {
            return Err(format!("the profile {profile} stands twice"));
        }
    }
    let modules = modules::find(&args.engines)?;
    for profile in &args.profiles {
        scenario_of(args, profile, &[]).map(|_| ())?;
    }
    let store = Store::open(&args.out)?;
    Ok((modules, store))
}

/// The scenario of a cell.
fn scenario_of(args: &BoardArgs, profile: &str, listed: &[String]) -> Result<Scenario, String> {
    // What a person sets is stronger than the list of engines, and the column stronger than both.
    let mut sets = listed.to_vec();
    sets.extend(args.set.iter().cloned());
    sets.push(format!("files.profile={profile}"));
    let loaded = scenario::load(&args.scenario, &sets).map_err(|error| error.to_string())?;
    if loaded.files.is_none() {
        return Err(format!(
            "the scenario {} is not for engines that use files",
            loaded.name
        ));
    }
    let seed = loaded.run.seeds.start;
    let scenario = loaded.of_seed(seed).map_err(|error| error.to_string())?;
    Ok(scenario.into_owned())
}

struct Work<'a> {
    args: &'a BoardArgs,
    store: Store,
    interrupts: Interrupts,
    spinner: Arc<Spinner>,
    /// Cells.
    all: usize,
}

impl Work<'_> {
    async fn all(&self, modules: &[Module]) -> Exit {
        let mut exit = Exit::Clean;
        let mut rows = Vec::new();
        for (at, module) in modules.iter().enumerate() {
            let (row, row_exit) = self.row(module, at * self.args.profiles.len()).await;
            exit = exit.and(row_exit);
            rows.extend(row);
            exit = exit.and(self.write(&rows, at + 1 < modules.len()));
            if self.interrupts.came() {
                exit = exit.and(Exit::Inconclusive);
                break;
            }
        }
        let interrupted = self.interrupts.came();
        let board = self.document(rows, interrupted);
        let exit = show(self.args, &self.store, &board, exit);
        if interrupted && !self.args.json {
            complain(
                "interrupted; what is finished is kept, and the same command goes on from there",
            );
        }
        exit
    }

    fn document(&self, rows: Vec<Row>, is_interrupted: bool) -> Board {
        let name = self.args.scenario.file_stem();
        let name = name.map_or_else(String::new, |it| it.to_string_lossy().into_owned());
        Board::new(&name, self.args.profiles.clone(), rows, is_interrupted)
    }

    /// Writes the results as they are after each engine, so that they are there whatever comes.
    fn write(&self, rows: &[Row], is_partial: bool) -> Exit {
        write(&self.store, &self.document(rows.to_vec(), is_partial))
    }

    /// The cells of an engine. It is loaded only if one of them is not finished.
    async fn row(&self, module: &Module, before: usize) -> (Option<Row>, Exit) {
        let (mut exit, mut cells) = (Exit::Clean, Vec::new());
        let hash = match judge::module_hash(&module.file) {
            Ok(hash) => hash,
            Err(error) => {
                complain(&format!("error: {error}"));
                let cells = self.broken(module, &error);
                return (
                    Some(Row::new(&module.name, String::new(), cells)),
                    Exit::Usage,
                );
            }
        };
        let mut program: Option<Arc<dyn Program>> = None;
        for (at, profile) in self.args.profiles.iter().enumerate() {
            if self.interrupts.came() {
                break;
            }
            let scenario = match scenario_of(self.args, profile, &module.set) {
                Ok(mut scenario) => {
                    scenario.name = format!("{}-{profile}", module.name);
                    scenario
                }
                Err(error) => {
                    complain(&format!("error: {error}"));
                    return (None, Exit::Usage);
                }
            };
            let key = judge::key(&scenario, &module.name, hash.clone(), profile);
            if let Some(cell) = self.store.finished(&key) {
                exit = exit.and(exit_of(&cell));
                cells.push(cell);
                continue;
            }
            let number = before + at + 1;
            if program.is_none() {
                self.say(number, &module.name, profile, "compiles");
                let files = std::slice::from_ref(&scenario);
                match guest::load_for(files, Some(&module.file), Instances::Reused) {
                    Ok(loaded) => program = Some(loaded),
                    Err(error) => {
                        complain(&format!("error: {error}"));
                        let cells = self.broken(module, &error);
                        return (Some(Row::new(&module.name, hash, cells)), Exit::Usage);
                    }
                }
            }
            let Some(loaded) = &program else { continue };
            let (cell, cell_exit) = self.cell(number, key, scenario, loaded).await;
            exit = exit.and(cell_exit);
            cells.extend(cell);
        }
        (Some(Row::new(&module.name, hash, cells)), exit)
    }

    async fn cell(
        &self,
        number: usize,
        key: Key,
        scenario: Scenario,
        program: &Arc<dyn Program>,
    ) -> (Option<Cell>, Exit) {
        let job = Job {
            scenario,
            program: Arc::clone(program),
            profile: key.profile.clone(),
            jobs: self.args.jobs.unwrap_or_else(all_cores),
            cases: self.store.cases(),
        };
        let control = self.interrupts.next();
        let (spinner, all, belongs) = (Arc::clone(&self.spinner), self.all, key.clone());
        let outcome = tokio::task::spawn_blocking(move || {
            let say = |what: &str| {
                let Key {
                    engine, profile, ..
                } = &belongs;
                spinner.say(&said(number, all, engine, profile, what));
            };
            job.run(belongs.clone(), &control, &say)
        })
        .await;
        let cell = match outcome {
            Ok(Ok(Some(cell))) => cell,
            Ok(Ok(None)) => return (None, Exit::Inconclusive),
            // A configuration that an engine does not take is its cell's own end. It is not kept: it is tried again.
            Ok(Err(error)) => {
                complain(&error.to_string());
                let exit = Exit::from(&error);
                let cell = Cell::failed(key, VerdictClass::CannotBeRun, error.to_string());
                return (Some(cell), exit);
            }
            Err(error) => {
                complain(&format!("internal error: kvsim panicked: {error}"));
                return (None, Exit::Internal);
            }
        };
        let kept = self.store.keep(&cell);
        let exit = exit_of(&cell);
        if let Err(error) = kept {
            complain(&format!("error: {error}"));
            return (Some(cell), exit.and(Exit::Internal));
        }
        (Some(cell), exit)
    }

    /// The cells of a module that is no engine.
    fn broken(&self, module: &Module, error: &str) -> Vec<Cell> {
        let cell = |profile: &String| {
            let key = Key {
                kvsim: env!("CARGO_PKG_VERSION").to_owned(),
                engine: module.name.clone(),
                module: String::new(),
                profile: profile.clone(),
                scenario: String::new(),
            };
            Cell::failed(key, VerdictClass::CannotBeRun, error.to_owned())
        };
        self.args.profiles.iter().map(cell).collect()
    }

    fn say(&self, number: usize, engine: &str, profile: &str, what: &str) {
        self.spinner
            .say(&said(number, self.all, engine, profile, what));
    }
}

fn said(number: usize, all: usize, engine: &str, profile: &str, what: &str) -> String {
    format!("cell {number} of {all}: {engine} on {profile}: {what}")
}

fn exit_of(cell: &Cell) -> Exit {
    match cell.verdict {
        VerdictClass::CleanWithinBounds => Exit::Clean,
        VerdictClass::CannotBeRun => Exit::Usage,
        class if class.is_violation() => Exit::Violation,
        _ => Exit::Inconclusive,
    }
}

fn colour_off() -> kvsim_harness::summary::text::Colour {
    kvsim_harness::summary::text::Colour::Off
}
