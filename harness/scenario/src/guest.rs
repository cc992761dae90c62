//! Which guest is crashed: the engine that is built in, or a module of the user's.

use std::path::Path;
use std::sync::Arc;

use kvsim_sim::WasmProgram;
pub use kvsim_sim::{Instances, Program};

use crate::scenario::Scenario;

/// The guest in `file`, or the built-in engine.
///
/// # Errors
/// The file cannot be read, or what it holds is no guest; the message names the file.
pub fn load(file: Option<&Path>) -> Result<Arc<dyn Program>, String> {
    load_as(file, Instances::Fresh)
}

/// The same for many short process runs: instances take turns in the same memory.
///
/// # Errors
/// As [`load`].
pub fn load_reused(file: Option<&Path>) -> Result<Arc<dyn Program>, String> {
    load_as(file, Instances::Reused)
}

/// The guest in `file`, or the engine with mutants where this build has it.
///
/// # Errors
/// As [`load`]; or this build has none, and the message says which has.
pub fn load_mutants(file: Option<&Path>) -> Result<Arc<dyn Program>, String> {
    if file.is_some() {
        return load_reused(file);
    }
    match WasmProgram::mutants() {
        Ok(Some(program)) => Ok(program),
        Ok(None) => Err(
            "this build has no mutants\n  = help: cargo run --release --features mutants -- mutants"
                .to_owned(),
        ),
        Err(error) => Err(format!("the built-in guest with mutants: {error}")),
    }
}

/// The guest in `file`, or the built-in engine. If one of these scenarios switches a mutant on, it is the engine with
/// mutants, since an ordinary one would refuse the option.
///
/// # Errors
/// As [`load_mutants`].
pub fn load_for(
    scenarios: &[Scenario],
    file: Option<&Path>,
    instances: Instances,
) -> Result<Arc<dyn Program>, String> {
    let wants = |scenario: &Scenario| scenario.may_set_option("mutant");
    if file.is_none() && scenarios.iter().any(wants) {
        return load_mutants(None);
    }
    load_as(file, instances)
}

fn load_as(file: Option<&Path>, instances: Instances) -> Result<Arc<dyn Program>, String> {
    match (WasmProgram::load(file, instances), file) {
        (Ok(program), _) => Ok(program),
        (Err(error), Some(file)) => Err(format!("{}: {error}", file.display())),
        (Err(error), None) => Err(format!("the built-in guest: {error}")),
    }
}
