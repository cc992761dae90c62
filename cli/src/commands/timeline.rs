//! `kvsim trace`: runs one seed and prints what happened, a line an event.

use std::slice;

use kvsim_harness::control::Control;
use kvsim_harness::guest::{self, Instances};
use kvsim_harness::run::{SeedEnd, Tracing, run_seed};
use kvsim_harness::timeline::{Entry, Recording};

use crate::args::TraceArgs;
use crate::exit::Exit;
use crate::loading::{load, saved_guest, warn_of_another_guest};
use crate::output::{complain, print};

/// Lines that are written at once.
const LINES_AT_ONCE: usize = 1_000;

/// `kvsim trace`
pub(crate) fn trace(args: &TraceArgs) -> Exit {
    let scenario = match load(slice::from_ref(&args.file), &args.set) {
        Ok(mut scenarios) => scenarios.remove(0),
        Err(exit) => return exit,
    };
    let file = args
        .guest
        .clone()
        .or_else(|| saved_guest(&scenario, &args.file));
    let scenarios = slice::from_ref(&scenario);
    let program = match guest::load_for(scenarios, file.as_deref(), Instances::Fresh) {
        Ok(program) => program,
        Err(error) => {
            complain(&format!("error: {error}"));
            return Exit::Usage;
        }
    };
    warn_of_another_guest(&scenario, program.as_ref());
    let seed = args.seed.unwrap_or(scenario.run.seeds.start);
    let scenario = match scenario.of_seed(seed) {
        Ok(scenario) => scenario,
        Err(error) => {
            complain(&error.to_string());
            return Exit::Usage;
        }
    };
    let result = run_seed(
        &scenario,
        &program,
        seed,
        &Control::default(),
        Tracing::Record,
    );
    let exit = show(args, result.recording.as_ref());
    match result.end {
        SeedEnd::Done | SeedEnd::Cancelled => exit,
        SeedEnd::Violation(violation) => {
            complain(&format!("violated: {violation}"));
            exit
        }
        SeedEnd::DamageReported => {
            complain("the guest reports damage, and the scenario ends there");
            exit
        }
        SeedEnd::OutOfEvents => {
            complain("the seed ran out of events before its crashes were done");
            exit
        }
        SeedEnd::Rejected(message) => {
            complain(&format!(
                "error: scenario {}: the guest does not take its configuration: {message}",
                scenario.name
            ));
            Exit::Usage
        }
        SeedEnd::InvalidRun(what) => {
            complain(&format!("internal error: {what}"));
            Exit::Internal
        }
    }
}

fn show(args: &TraceArgs, recording: Option<&Recording>) -> Exit {
    let (from, to) = (args.from.unwrap_or(0), args.to.unwrap_or(u64::MAX));
    let limit = args.limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    let mut device = 1;
    let mut text = String::new();
    let lines = recording
        .into_iter()
        .flat_map(Recording::entries)
        .filter(|entry| (from..=to).contains(&entry.at_ns))
        .take(limit);
    for (at, entry) in lines.enumerate() {
        if args.json {
            match serde_json::to_string(&entry) {
                Ok(line) => text.push_str(&line),
                Err(error) => {
                    complain(&format!("internal error: cannot write JSON: {error}"));
                    return Exit::Internal;
                }
            }
        } else {
            if entry.device != device {
                device = entry.device;
                text.push_str(&format!("# device {device}, in place of one given up\n"));
            }
            text.push_str(&line(&entry));
        }
        text.push('\n');
        if (at + 1).is_multiple_of(LINES_AT_ONCE) {
            print(&text);
            text.clear();
        }
    }
    print(&text);
    Exit::Clean
}

/// What a guest logs may hold anything; a line stays one line.
fn line(entry: &Entry) -> String {
    let line = entry.to_string();
    line.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
