//! What is only printed: a scenario in full, completions, manual pages.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use kvsim_harness::scenario;

use crate::args::{Cli, ExplainArgs};
use crate::exit::Exit;
use crate::output::{complain, print};

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

/// Prints the completion script of a shell.
pub(crate) fn completions(shell: Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "kvsim", &mut script);
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
