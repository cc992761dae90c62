//! Which guest is crashed: the engine that is built in, or a module of the user's.

use std::path::Path;
use std::sync::Arc;

pub use kvsim_sim::Program;
use kvsim_sim::{GuestError, WasmProgram};

/// The guest in `file`, or the built-in engine.
///
/// # Errors
/// The file cannot be read, or what it holds is no guest; the message names the file.
pub fn load(file: Option<&Path>) -> Result<Arc<dyn Program>, String> {
    let loaded: Result<Arc<WasmProgram>, GuestError> = match file {
        Some(file) => WasmProgram::from_file(file),
        None => WasmProgram::builtin(),
    };
    match (loaded, file) {
        (Ok(program), _) => Ok(program),
        (Err(error), Some(file)) => Err(format!("{}: {error}", file.display())),
        (Err(error), None) => Err(format!("the built-in guest: {error}")),
    }
}
