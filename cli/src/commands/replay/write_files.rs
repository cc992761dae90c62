//! `kvsim replay --write-files`: the files as the last crash of a case left them, in a real directory.

use std::path::Path;

use kvsim_harness::guest::{self, Instances};
use kvsim_harness::left;
use kvsim_harness::minimise::with_steps;
use kvsim_harness::scenario::Scenario;

use crate::args::ReplayArgs;
use crate::exit::Exit;
use crate::loading::warn_of_another_guest;
use crate::output::{complain, print, print_json};

/// Writes the files, and says what was written and what the guest answers that is started on them.
pub(crate) fn replay(
    args: &ReplayArgs,
    directory: &Path,
    scenario: &Scenario,
    guest: Option<&Path>,
) -> Exit {
    match written(args, directory, scenario, guest) {
        Ok(exit) => exit,
        Err(error) => {
            complain(&format!("error: {}: {error}", args.file.display()));
            Exit::Usage
        }
    }
}

fn written(
    args: &ReplayArgs,
    directory: &Path,
    scenario: &Scenario,
    guest: Option<&Path>,
) -> Result<Exit, String> {
    left::is_new_or_empty(directory)?;
    if scenario.files.is_none() {
        return Err(
            "it is a case of a device; --write-files is for an engine that uses files".to_owned(),
        );
    }
    let program = guest::load_for(std::slice::from_ref(scenario), guest, Instances::Fresh)?;
    warn_of_another_guest(scenario, program.as_ref());
    let noted;
    let scenario = if scenario.case.is_some() {
        scenario
    } else {
        (noted, _) = with_steps(scenario, &program)?;
        &noted
    };
    let case = scenario.case.clone().unwrap_or_default();
    let seed = scenario.run.seeds.start;
    let left = left::left_by_last_crash(scenario, &case, &program, seed)?;
    left::write_files(&left.files, directory)?;
    let shown = directory.display().to_string();
    if args.output.json {
        return Ok(print_json(&left::document(&left, &shown), Exit::Clean));
    }
    print(&left::text(&left, &shown));
    Ok(Exit::Clean)
}
