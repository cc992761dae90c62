//! Failing cases that were once found, and must not fail again.
//!
//! Each file under `regressions/` is what `kvsim run` saved when it failed, with a line on top that says the cause. To
//! add one, move it here from `failures/`. A seed takes another path once the engine changes. So a case is kept for its
//! scenario and seed, which found something, not as the exact run.

use kvsim_harness::summary::Verdict;
use kvsim_tests::{all_cores, builtin_guest, run, scenario, toml_files};

/// Goal: what was fixed stays fixed. Method: every saved case, on today's engine.
#[test]
fn what_once_failed_passes() {
    let engine = builtin_guest();
    for path in toml_files("tests/regressions") {
        let case = scenario(&path, &[]);
        let report = run(case, &engine, all_cores());
        assert_eq!(
            report.verdict,
            Verdict::Pass,
            "{}: {:#?}",
            path.display(),
            report.failure
        );
    }
}

/// Goal: a case that is no failing case, or of another guest, is not kept by mistake.
#[test]
fn every_case_says_what_once_failed() {
    let files = toml_files("tests/regressions");
    assert!(!files.is_empty());
    for path in files {
        let failure = scenario(&path, &[])
            .failure
            .unwrap_or_else(|| panic!("{} has no [failure]", path.display()));
        assert_eq!(failure.guest, builtin_guest().name(), "{}", path.display());
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        assert!(
            name.ends_with(failure.property.name()),
            "{name} is about {}",
            failure.property
        );
    }
}
