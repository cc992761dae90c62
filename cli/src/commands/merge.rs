//! `kvsim merge`: puts the results of shards together, of runs or of explorations. Which of both is said by the files themselves.

use kvsim_harness::explore;
use kvsim_harness::files::read_text;
use kvsim_harness::summary::{self, Found, json, part};
use serde::Deserialize;

use crate::args::MergeArgs;
use crate::campaigns;
use crate::commands::explore as exploring;
use crate::exit::Exit;
use crate::output::complain;

/// No part is longer.
const BYTES_MAX: u64 = 256 << 20;

/// What every document of results begins with.
#[derive(Deserialize)]
struct Header {
    schema: String,
}

/// `kvsim merge`
pub(crate) fn merge(args: &MergeArgs) -> Exit {
    let mut runs = Vec::new();
    let mut explorations = Vec::new();
    for file in &args.files {
        let read = read_text(file, BYTES_MAX).map_err(|error| error.to_string());
        let read = read.and_then(|text| {
            match schema(&text)?.as_str() {
                json::SCHEMA => runs.extend(summary::read::read(&text)?),
                _ => explorations.extend(explore::json::read(&text)?),
            }
            Ok(())
        });
        if let Err(error) = read {
            complain(&format!("error: {}: {error}", file.display()));
            return Exit::Usage;
        }
    }
    let merged = match (runs.is_empty(), explorations.is_empty()) {
        (false, false) => {
            Err("some of these are parts of runs, and some of explorations".to_owned())
        }
        (true, true) => Err("there is nothing in these files".to_owned()),
        (false, true) => {
            part::merge(runs, args.strict).map(|reports| show_runs(reports, args.json))
        }
        (true, false) => {
            explore::merge(explorations, args.strict).map(|all| show_explorations(&all, args.json))
        }
    };
    merged.unwrap_or_else(|error| {
        complain(&format!("error: {error}"));
        Exit::Usage
    })
}

fn schema(text: &str) -> Result<String, String> {
    let header: Header = serde_json::from_str(text).map_err(|error| {
        let (run, exploration) = (json::SCHEMA, explore::json::SCHEMA);
        format!("it is neither {run} nor {exploration}: {error}")
    })?;
    Ok(header.schema)
}

fn show_runs(reports: Vec<summary::RunReport>, as_json: bool) -> Exit {
    let exits = reports.iter().map(campaigns::exit_of);
    let exit = exits.fold(Exit::Clean, Exit::and);
    let found = Found {
        reports,
        unreported: Vec::new(),
    };
    if as_json {
        return campaigns::print_json(&found, exit);
    }
    for report in &found.reports {
        campaigns::show(report, false);
    }
    exit
}

fn show_explorations(reports: &[explore::ExploreReport], as_json: bool) -> Exit {
    let exits = reports.iter().map(exploring::exit_of);
    let exit = exits.fold(Exit::Clean, Exit::and);
    if as_json {
        return exploring::print_json(reports, exit);
    }
    for report in reports {
        exploring::show(report, false);
    }
    exit
}
