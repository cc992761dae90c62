//! What several of these tests need.

use std::io::Write;

use kvsim_native::Database;

/// A directory of its own for a test.
pub(crate) fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

/// All entries.
pub(crate) fn all(database: &Database) -> Vec<(Vec<u8>, Vec<u8>)> {
    let entries = database.iter().expect("it is open");
    entries
        .map(|entry| {
            let entry = entry.expect("it can be read");
            (entry.key.to_vec(), entry.value.to_vec())
        })
        .collect()
}

/// What a child says to the parent that kills it: one call for each line, so that a kill leaves no half of one.
pub(crate) fn say(line: &str) {
    let written = std::io::stdout().write_all(format!("{line}\n").as_bytes());
    written.expect("the parent reads");
}
