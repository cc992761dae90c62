//! Scenarios and saved cases that a command line names, and the guests that belong to them.

use std::path::{Path, PathBuf};

use kvsim_harness::guest::Program;
use kvsim_harness::scenario::{self, Scenario};

use crate::exit::Exit;
use crate::output::complain;

/// The file of the guest that a saved case failed with; `case` is the case's file, from whose folder the way is given.
pub(crate) fn saved_guest(scenario: &Scenario, case: &Path) -> Option<PathBuf> {
    let failure = scenario.failure.as_ref()?;
    let folder = case.parent().unwrap_or(Path::new(""));
    (!failure.guest_file.is_empty()).then(|| folder.join(&failure.guest_file))
}

/// Loads all scenarios and shows every mistake, not only the first one's.
pub(crate) fn load(paths: &[PathBuf], sets: &[String]) -> Result<Vec<Scenario>, Exit> {
    let mut scenarios = Vec::new();
    for path in paths {
        match scenario::load(path, sets) {
            Ok(scenario) => scenarios.push(scenario),
            Err(error) => complain(&error.to_string()),
        }
    }
    if scenarios.len() == paths.len() {
        Ok(scenarios)
    } else {
        Err(Exit::Usage)
    }
}

/// Says so if a saved case comes from another guest than this one.
pub(crate) fn warn_of_another_guest(scenario: &Scenario, program: &dyn Program) {
    let Some(saved) = &scenario.failure else {
        return;
    };
    if !saved.is_of(program) {
        complain(&format!(
            "warning: this case was saved with the guest {} {}; this one is {} {}, so the result may differ, and a crash leaves what it can of what the case says",
            saved.guest,
            saved.guest_hash,
            program.name(),
            program.hash()
        ));
    }
}
