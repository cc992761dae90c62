//! `kvsim check-guest`: the rules of the ABI, one after the other.

use std::collections::BTreeMap;
use std::path::Path;

use kvsim_harness::conformance::{self, Conformance, json, text};

use crate::args::CheckGuestArgs;
use crate::exit::Exit;
use crate::output::{colour, complain, print, print_json};

/// Checks the module and prints a line a rule.
pub(crate) fn check_guest(args: &CheckGuestArgs) -> Exit {
    let options: BTreeMap<String, String> = args.option.iter().cloned().collect();
    let report = match check(&args.file, &options) {
        Ok(report) => report,
        Err(exit) => return exit,
    };
    let exit = exit_of(&report);
    if args.json {
        return print_json(&json::document(&report, exit as u8), exit);
    }
    print(&text::table(&report, colour(), args.quiet));
    exit
}

/// Reads a module and checks it.
pub(crate) fn check(file: &Path, options: &BTreeMap<String, String>) -> Result<Conformance, Exit> {
    let bytes = std::fs::read(file).map_err(|error| {
        complain(&format!("error: cannot read {}: {error}", file.display()));
        Exit::Usage
    })?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    Ok(conformance::check(&name, &bytes, options))
}

/// A file that is no guest is wrong usage, as everywhere; a guest that breaks a rule is a violation.
pub(crate) fn exit_of(report: &Conformance) -> Exit {
    match (report.is_guest, report.broken()) {
        (false, _) => Exit::Usage,
        (true, 0) => Exit::Clean,
        (true, _) => Exit::Violation,
    }
}
