//! Which guest is crashed: the engine that is built in, or a module of the user's.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

pub use kvsim_sim::{Instances, Program};
use kvsim_sim::{Needs, WasmProgram};
use kvsim_wasi::{LoadOptions, WasiProgram};
use wasmparser::{Parser, Payload};

use crate::scenario::Scenario;

/// The guest in `file`, or the built-in engine.
///
/// # Errors
/// The file cannot be read, or what it holds is no guest; the message names the file.
pub fn load(file: Option<&Path>) -> Result<Arc<dyn Program>, String> {
    load_as(file, Instances::Fresh)
}

/// The same for many short lives: instances take turns in the same memory.
///
/// # Errors
/// As [`load`].
pub fn load_reused(file: Option<&Path>) -> Result<Arc<dyn Program>, String> {
    load_as(file, Instances::Reused)
}

/// The guest in `file`, or the engine with planted bugs where this build has it.
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
            "planted bugs are in no ordinary build\n  = help: cargo run --release --features mutants -- mutants"
                .to_owned(),
        ),
        Err(error) => Err(format!("the built-in guest with planted bugs: {error}")),
    }
}

/// The guest in `file`, or the built-in engine: that with planted bugs if one of these scenarios switches one on, since an ordinary one would
/// refuse it.
///
/// # Errors
/// As [`load_mutants`].
pub fn load_for(
    scenarios: &[Scenario],
    file: Option<&Path>,
    instances: Instances,
) -> Result<Arc<dyn Program>, String> {
    let wants = |scenario: &Scenario| scenario.may_set_option("mutant");
    let program = if file.is_none() && scenarios.iter().any(wants) {
        load_mutants(None)?
    } else {
        load_as(file, instances)?
    };
    for scenario in scenarios {
        fits(scenario, program.as_ref())?;
    }
    Ok(program)
}

/// Whether the scenario describes what this guest stores in.
///
/// # Errors
/// It describes a device and the guest uses files, or the other way round; the message says what to do.
pub fn fits(scenario: &Scenario, program: &dyn Program) -> Result<(), String> {
    let (name, guest) = (&scenario.name, program.name());
    match (program.needs(), &scenario.files) {
        (Needs::Files, None) => Err(format!(
            "the scenario {name} describes a block device, and the guest {guest} uses files\n  = help: take `files_powercut` or `files_explore`, or a scenario with a [files] table"
        )),
        (Needs::Device, Some(_)) => Err(format!(
            "the scenario {name} is for an engine that uses files, and the guest {guest} needs a block device\n  = help: give it an engine built for WASI preview 1: --guest ENGINE.wasm"
        )),
        _ => Ok(()),
    }
}

/// Whether a file holds an engine that uses files, by what it imports. What cannot be read is for the loader to say.
fn uses_files(file: &Path) -> bool {
    const BYTES_MAX: u64 = 1 << 30;
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut bytes));
    read.is_ok() && imports_wasi(&bytes)
}

/// Whether a module imports anything of WASI preview 1. Bytes that are no module import nothing.
fn imports_wasi(bytes: &[u8]) -> bool {
    for payload in Parser::new(0).parse_all(bytes) {
        match payload {
            Ok(Payload::ImportSection(imports)) => {
                return imports
                    .into_imports()
                    .flatten()
                    .any(|import| import.module == "wasi_snapshot_preview1");
            }
            Err(_) => return false,
            Ok(_) => {}
        }
    }
    false
}

fn load_as(file: Option<&Path>, instances: Instances) -> Result<Arc<dyn Program>, String> {
    if let Some(file) = file.filter(|file| uses_files(file)) {
        let options = LoadOptions {
            reuse_instances: instances == Instances::Reused,
            ..LoadOptions::default()
        };
        return match WasiProgram::from_file(file, options) {
            Ok(program) => Ok(program),
            Err(error) => Err(format!("{}: {error}", file.display())),
        };
    }
    match (WasmProgram::load(file, instances), file) {
        (Ok(program), _) => Ok(program),
        (Err(error), Some(file)) => Err(format!("{}: {error}", file.display())),
        (Err(error), None) => Err(format!("the built-in guest: {error}")),
    }
}
