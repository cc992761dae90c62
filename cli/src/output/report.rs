//! `--report`: the results as a page, in a file that is made before anything runs.

use std::fmt::Display;
use std::fs::File;
use std::path::Path;

use crate::exit::Exit;
use crate::output::complain;

/// Makes the file, so that a place that cannot be written is known before anything runs.
pub(crate) fn begin(path: Option<&Path>) -> Result<(), String> {
    match path {
        Some(path) => File::create(path)
            .map(|_| ())
            .map_err(|error| cannot(path, &error)),
        None => Ok(()),
    }
}

/// Writes the page if one is wanted.
pub(crate) fn write(path: Option<&Path>, page: impl FnOnce() -> String) -> Exit {
    let Some(path) = path else { return Exit::Clean };
    match std::fs::write(path, page()) {
        Ok(()) => Exit::Clean,
        Err(error) => {
            complain(&cannot(path, &error));
            Exit::Internal
        }
    }
}

fn cannot(path: &Path, error: &dyn Display) -> String {
    format!("error: cannot write {}: {error}", path.display())
}
