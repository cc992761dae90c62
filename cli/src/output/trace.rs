//! `--trace`: every event of every seed, one a line, under a line that names the seed.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use kvsim_harness::campaign::Outcome;
use kvsim_harness::scenario::Scenario;

/// Where `--trace` writes.
pub(crate) struct TraceFile {
    path: PathBuf,
    file: BufWriter<File>,
}

impl TraceFile {
    /// Begins it, so that a place that cannot be written is known before anything runs.
    pub(crate) fn create(path: &Path) -> Result<TraceFile, String> {
        let file = File::create(path)
            .map_err(|error| format!("error: cannot write {}: {error}", path.display()))?;
        Ok(TraceFile {
            path: path.to_path_buf(),
            file: BufWriter::new(file),
        })
    }

    /// Adds the events of a scenario.
    pub(crate) fn write(&mut self, scenario: &Scenario, outcome: &Outcome) -> Result<(), String> {
        let mut all = || -> std::io::Result<()> {
            for (seed, lines) in &outcome.traces {
                writeln!(self.file, "# {} seed {seed}", scenario.name)?;
                for line in lines {
                    writeln!(self.file, "{line}")?;
                }
            }
            self.file.flush()
        };
        all().map_err(|error| format!("error: cannot write {}: {error}", self.path.display()))
    }
}
