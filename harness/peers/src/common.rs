//! What the engines here share.
#![allow(
    dead_code,
    reason = "each engine uses some of it, and can be built without the others"
)]

use kvsim_store::StoreError;

/// What an engine said, under its name.
pub(crate) fn failed(engine: &'static str) -> impl Fn(&dyn std::fmt::Display) -> StoreError {
    move |what| StoreError {
        engine,
        what: what.to_string(),
    }
}

/// A configuration for print.
pub(crate) fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// Bytes for print.
pub(crate) fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

/// The version of a package in the lock file that this was built with.
pub(crate) fn locked(package: &str) -> &'static str {
    let mut lines = include_str!("../../../Cargo.lock").lines();
    let name = format!("name = \"{package}\"");
    let found = lines.by_ref().any(|line| line == name);
    let version = lines.next().filter(|_| found);
    version
        .and_then(|line| line.strip_prefix("version = \"")?.strip_suffix('"'))
        .unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::locked;

    /// Goal: versions come from the lock file. Method: a package that is there once and one that is not.
    #[test]
    fn the_lock_file_knows_versions() {
        assert!(locked("fjall").starts_with("3."), "{}", locked("fjall"));
        assert!(locked("sled").starts_with("0.34"), "{}", locked("sled"));
        assert_eq!(locked("no such package"), "unknown");
    }
}
