//! `kvsim`: arguments in, reports out, exit codes. The crates behind `kvsim-harness` run, judge and count.

mod args;
mod campaigns;
mod commands;
mod complete;
mod exit;
mod interrupts;
mod loading;
mod output;
mod runtime;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};
use clap_complete::CompleteEnv;

use args::{Cli, Command};
use commands::{
    bench, board, calibrate, check_guest, crash_disk, explore, merge, mutants, new_guest, pages,
    replay, run, suite, syncs, timeline,
};
use exit::Exit;

fn main() -> ExitCode {
    // If a shell asks for completions, this answers and ends.
    CompleteEnv::with_factory(Cli::command)
        .var(complete::VARIABLE)
        .complete();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error).and(output::lost()).into(),
    };
    output::start_logging(cli.verbose);
    let exit = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Replay(args) => replay::replay(&args),
        Command::Trace(args) => timeline::trace(&args),
        Command::Explore(args) => explore::explore(&args),
        Command::Board(args) => board::board(&args),
        Command::Merge(args) => merge::merge(&args),
        Command::Mutants(args) => mutants::mutants(&args),
        Command::Syncs(args) => syncs::syncs(&args),
        Command::Bench(args) => bench::bench(&args),
        Command::EngineProcess(args) => bench::engine_process(&args),
        Command::Calibrate(args) => calibrate::calibrate(&args),
        Command::CrashDisk(args) => crash_disk::crash_disk(&args),
        Command::NewGuest(args) => new_guest::new_guest(&args),
        Command::CheckGuest(args) => check_guest::check_guest(&args),
        Command::Suite(args) => suite::suite(&args),
        Command::Explain(args) => pages::explain(&args),
        Command::Scenarios { json } => pages::scenarios(json),
        Command::Completions { shell } => pages::completions(shell),
        Command::Man { dir } => pages::man(dir.as_deref()),
    };
    exit.and(output::lost()).into()
}

/// Help and version are what was asked for; everything else that clap stops at is wrong usage.
fn usage(error: &clap::Error) -> Exit {
    let asked_for = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    if asked_for {
        output::print(&error.render().to_string());
        return Exit::Clean;
    }
    output::complain(error.render().to_string().trim_end());
    Exit::Usage
}
