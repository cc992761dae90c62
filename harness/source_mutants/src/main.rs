//! `kvsim-source-mutants`: list, build, run, score.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is the command line"
)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use kvsim_harness::guest;
use kvsim_source_mutants::coverage::Executed;
use kvsim_source_mutants::hunt::{Hunter, Outcome, Rounds};
use kvsim_source_mutants::known::Category;
use kvsim_source_mutants::mutation::{Mutation, Switch};
use kvsim_source_mutants::page::{Score, insert};
use kvsim_source_mutants::results::{Record, Results, append, sample};
use kvsim_source_mutants::scratch::{COVERAGE, Scratch, mutations};
use kvsim_source_mutants::{compile, known};

type Failure = Box<dyn std::error::Error>;

/// Edits the engine's source in one place at a time, and counts which edits the shipped scenarios catch.
#[derive(Debug, Parser)]
#[command(name = "kvsim-source-mutants", version, max_term_width = 110)]
struct Cli {
    /// The workspace
    #[arg(long, default_value = ".", global = true)]
    root: PathBuf,
    /// Where the copy of the engine, the module and the results are
    #[arg(long, default_value = "target/source-mutants", global = true)]
    work: PathBuf,
    /// Seconds of processor time for each edit
    #[arg(long, default_value_t = 60, global = true)]
    seconds: u64,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print every edit
    List,
    /// Build the module that has all edits
    Build,
    /// Run the scenarios without an edit, and note the lines that each executes
    Coverage,
    /// Run the scenarios on each edit, and continue where an earlier run stopped
    Run {
        /// Only so many edits, drawn at random
        #[arg(long)]
        sample: Option<usize>,
        /// The seed of the sample
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Only part I of N, counted from 0: one process for each
        #[arg(long, value_name = "I/N", value_parser = part, default_value = "0/1")]
        part: (usize, usize),
        /// Only edits with these numbers, whatever is known of them
        #[arg(long, value_delimiter = ',')]
        only: Vec<usize>,
        /// Only edits of sources whose names from `engine/src` begin so; the sample is drawn among them
        #[arg(long, value_delimiter = ',', value_name = "PREFIX")]
        files: Vec<String>,
    },
    /// Print the score and the edits that survived as the book's page has them
    Score {
        /// Write them into this page
        #[arg(long)]
        page: Option<PathBuf>,
    },
}

fn part(text: &str) -> Result<(usize, usize), String> {
    let wrong = || format!("`{text}` is no part such as 0/2");
    let (part, parts) = text.split_once('/').ok_or_else(wrong)?;
    let part: usize = part.parse().map_err(|_| wrong())?;
    let parts: usize = parts.parse().map_err(|_| wrong())?;
    if part < parts {
        Ok((part, parts))
    } else {
        Err(wrong())
    }
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli) -> Result<(), Failure> {
    let work = std::path::absolute(&cli.work)?;
    match &cli.command {
        Command::List => {
            for mutation in mutations(&cli.root)? {
                println!(
                    "{} {} {}: {}",
                    mutation.number,
                    mutation.place(),
                    mutation.function,
                    mutation.edit()
                );
            }
            Ok(())
        }
        Command::Build => build(&cli.root, &work),
        Command::Coverage => coverage(cli, &work),
        Command::Run {
            sample,
            seed,
            part,
            only,
            files,
        } => hunt(cli, &work, (*sample, *seed), *part, only, files),
        Command::Score { page } => score(cli, &work, page.as_deref()),
    }
}

fn build(root: &Path, work: &Path) -> Result<(), Failure> {
    let mut scratch = Scratch::new(root, &work.join("copy"))?;
    let module = compile::build(&mut scratch, &mut |line| eprintln!("{line}"))?;
    std::fs::copy(&module, work.join("engine.wasm"))?;
    let text = serde_json::to_string_pretty(&scratch.mutations)?;
    std::fs::write(work.join("mutations.json"), text)?;
    let built = scratch.mutations.iter().filter(|it| it.built).count();
    println!(
        "{built} of {} edits are in {}",
        scratch.mutations.len(),
        work.join("engine.wasm").display()
    );
    Ok(())
}

fn built(work: &Path) -> Result<Vec<Mutation>, Failure> {
    let file = work.join("mutations.json");
    let text = std::fs::read_to_string(&file)
        .map_err(|error| format!("{}: {error}; run `build` first", file.display()))?;
    Ok(serde_json::from_str(&text)?)
}

fn hunter(cli: &Cli, work: &Path) -> Result<Hunter, Failure> {
    let program = guest::load_reused(Some(&work.join("engine.wasm")))?;
    Ok(Hunter::new(&cli.root, program)?)
}

fn coverage(cli: &Cli, work: &Path) -> Result<(), Failure> {
    let found =
        hunter(cli, work)?.coverage(cli.seconds, COVERAGE, &mut |line| eprintln!("{line}"))?;
    let executed = Executed(found.into_iter().collect());
    std::fs::write(
        work.join("coverage.json"),
        serde_json::to_string_pretty(&executed)?,
    )?;
    let all = built(work)?;
    let of_all = all
        .iter()
        .filter(|it| it.built && it.switch != Switch::None);
    for mutation in of_all.filter(|it| executed.steps(it).is_empty()) {
        println!(
            "never executed: {} {}: {}",
            mutation.place(),
            mutation.function,
            mutation.edit()
        );
    }
    Ok(())
}

fn hunt(
    cli: &Cli,
    work: &Path,
    drawn: (Option<usize>, u64),
    part: (usize, usize),
    only: &[usize],
    files: &[String],
) -> Result<(), Failure> {
    let (all, file) = (built(work)?, work.join("results.jsonl"));
    let executed = Executed::load(&work.join("coverage.json"))?;
    let is_in_files =
        |it: &&Mutation| files.is_empty() || files.iter().any(|prefix| it.file.starts_with(prefix));
    let built = all.iter().filter(|it| it.built);
    let can_run: Vec<&Mutation> = built.filter(is_in_files).collect();
    let mut wanted = sample(&can_run, drawn.0.unwrap_or(usize::MAX), drawn.1);
    if !only.is_empty() {
        wanted = can_run
            .into_iter()
            .filter(|it| only.contains(&it.number))
            .collect();
    }
    let own = wanted
        .iter()
        .enumerate()
        .filter(|(at, _)| at % part.1 == part.0);
    let hunter = hunter(cli, work)?;
    let known = known::load(&cli.root)?;
    let sources = Scratch::new(&cli.root, work)?.sources;
    let line = |mutation: &Mutation| line_of(&sources, mutation);
    for (at, mutation) in own {
        if only.is_empty() && !Results::load(&file).wants(mutation, cli.seconds) {
            continue;
        }
        let mut record = Record {
            key: mutation.key(),
            place: mutation.place(),
            outcome: Outcome::Started,
            seconds: 0.0,
            limit_seconds: cli.seconds,
        };
        append(&file, &record)?;
        let reason = known.iter().find(|it| it.fits(mutation, line(mutation)));
        // Those that are asked for by number have their whole time.
        let rounds_wanted = match reason {
            Some(reason) if reason.category != Category::Hole && only.is_empty() => {
                Rounds::FirstRound
            }
            _ => Rounds::All,
        };
        let steps = executed.steps(mutation);
        let (outcome, took) = hunter.hunt(mutation.number, &steps, cli.seconds, rounds_wanted);
        println!(
            "{at} {} {}: {} {outcome:?} {took:?}",
            mutation.place(),
            mutation.function,
            mutation.edit()
        );
        (record.outcome, record.seconds) = (outcome, took.as_secs_f64());
        append(&file, &record)?;
    }
    Ok(())
}

/// The source line of a mutation.
fn line_of<'a>(sources: &'a [(String, String)], mutation: &Mutation) -> &'a str {
    let source = sources.iter().find(|(name, _)| *name == mutation.file);
    let line = source.and_then(|(_, text)| text.lines().nth(mutation.line - 1));
    line.unwrap_or_default()
}

fn score(cli: &Cli, work: &Path, page: Option<&Path>) -> Result<(), Failure> {
    let (all, results) = (built(work)?, Results::load(&work.join("results.jsonl")));
    let known = known::load(&cli.root)?;
    let sources = Scratch::new(&cli.root, work)?.sources;
    let line = |mutation: &Mutation| line_of(&sources, mutation).to_owned();
    let score = Score::new(&all, &results, &known, line);
    let generated = score.page(all.len(), cli.seconds);
    match page {
        Some(page) => std::fs::write(page, insert(&std::fs::read_to_string(page)?, &generated)?)?,
        None => print!("{generated}"),
    }
    Ok(())
}
