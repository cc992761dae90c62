//! What is only printed: a scenario in full, the list of those that ship, completions, manual pages.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_complete::env::Shells;
use kvsim_harness::scenario::{self, Purpose, SHIPPED, ScenarioError, Shipped};
use serde::Serialize;

use crate::args::{Cli, ExplainArgs};
use crate::complete;
use crate::exit::Exit;
use crate::output::{complain, print, print_json};

/// Prints a scenario with every default filled in.
pub(crate) fn explain(args: &ExplainArgs) -> Exit {
    let explained = scenario::load(&args.scenario, &args.set).and_then(|scenario| {
        let seed = args.seed.unwrap_or(scenario.run.seeds.start);
        Ok(scenario::explain(&*scenario.of_seed(seed)?))
    });
    match explained {
        Ok(text) => {
            print(&text);
            Exit::Clean
        }
        Err(error) => {
            complain(&error.to_string());
            Exit::Usage
        }
    }
}

/// A row of the list of what ships.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    /// The commands that it is for.
    purpose: &'static str,
    description: String,
}

/// Prints the scenarios and profiles that ship.
pub(crate) fn scenarios(json: bool) -> Exit {
    let listed = match SHIPPED.iter().map(listed).collect::<Result<Vec<_>, _>>() {
        Ok(scenarios) => scenarios.into_iter().chain(profiles()).collect::<Vec<_>>(),
        Err(error) => {
            complain(&format!("internal error: {error}"));
            return Exit::Internal;
        }
    };
    if json {
        return print_json(&listed, Exit::Clean);
    }
    let width = listed.iter().map(|it| it.name.len()).max().unwrap_or(0);
    let mut purpose = "";
    let mut text = String::new();
    for row in &listed {
        if row.purpose != purpose {
            purpose = row.purpose;
            let gap = if text.is_empty() { "" } else { "\n" };
            text.push_str(&format!("{gap}For {purpose}:\n"));
        }
        text.push_str(&format!("  {:width$}  {}\n", row.name, row.description));
    }
    text.push_str("\nkvsim explain NAME prints a scenario in full.\n");
    print(&text);
    Exit::Clean
}

fn listed(shipped: &Shipped) -> Result<Listed, ScenarioError> {
    Ok(Listed {
        name: shipped.name,
        purpose: match shipped.purpose {
            Purpose::Crash => "kvsim run and kvsim explore",
            Purpose::Files => "kvsim run and kvsim explore with --guest, an engine that uses files",
            Purpose::Bench => "kvsim bench",
        },
        description: shipped.load(&[])?.description,
    })
}

/// Profiles say what they are in their first comment.
fn profiles() -> impl Iterator<Item = Listed> {
    scenario::BUILTIN_PROFILES
        .iter()
        .map(|(name, text)| Listed {
            name,
            purpose: "the field profile, and kvsim bench --profile",
            description: sentence(text),
        })
}

/// The first sentence of the comment that a text begins with, as far as its first empty line.
fn sentence(text: &str) -> String {
    let comment = text.lines().map_while(|line| line.strip_prefix('#'));
    let comment = comment.map(str::trim).take_while(|line| !line.is_empty());
    let comment = comment.collect::<Vec<_>>().join(" ");
    match comment.split_once(". ") {
        Some((first, _)) => format!("{first}."),
        None => comment,
    }
}

/// Prints what a shell needs to ask this program for completions.
pub(crate) fn completions(shell: Shell) -> Exit {
    let shells = Shells::builtins();
    let mut script = Vec::new();
    let written = shells.completer(&shell.to_string()).map(|completer| {
        completer.write_registration(complete::VARIABLE, "kvsim", "kvsim", "kvsim", &mut script)
    });
    if !matches!(written, Some(Ok(()))) {
        complain(&format!("internal error: no completions for {shell}"));
        return Exit::Internal;
    }
    print(&String::from_utf8_lossy(&script));
    Exit::Clean
}

/// Prints the manual page, or writes one for each command into `directory`.
pub(crate) fn man(directory: Option<&Path>) -> Exit {
    let written = match directory {
        Some(directory) => std::fs::create_dir_all(directory)
            .and_then(|()| clap_mangen::generate_to(Cli::command(), directory)),
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command())
                .render(&mut page)
                .map(|()| print(&String::from_utf8_lossy(&page)))
        }
    };
    match (written, directory) {
        (Ok(()), _) => Exit::Clean,
        (Err(error), directory) => {
            let place = directory.unwrap_or(Path::new("standard output")).display();
            complain(&format!(
                "error: cannot write the manual pages to {place}: {error}"
            ));
            Exit::Usage
        }
    }
}
