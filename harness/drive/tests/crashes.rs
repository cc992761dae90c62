//! When crashes come.
#![allow(missing_docs, reason = "a test")]

use std::path::Path;

use kvsim_drive::control::Control;
use kvsim_drive::run::{Tracing, run_seed};
use kvsim_scenario::{guest, load};

/// Goal: `run.seek_pending` counts for crashes in recoveries, most of whose events are reads. Method: openings that are crashed again and again, with and without; how many
/// of the crashes found something pending.
#[test]
fn crashes_in_recoveries_wait_for_something_pending() {
    let program = guest::load(None).expect("the built-in guest");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/torn_superblock.toml");
    let with_pending = |seek_pending: &str| {
        let sets = [
            format!("run.seek_pending={seek_pending}"),
            "run.crash_in_recovery=1.0".to_owned(),
            "run.recovery_crash_depth=1_000".to_owned(),
        ];
        let scenario = load(&file, &sets).expect("it ships");
        let scenario = scenario.of_seed(1).expect("it can be drawn");
        let control = Control::default();
        let result = run_seed(&scenario, &program, 1, &control, Tracing::HashOnly);
        assert!(!result.end.is_violation(), "{:?}", result.end);
        assert!(result.tally.crashes_in_recovery > 150);
        result.tally.crashes_with_pending
    };
    let (never, always) = (with_pending("0.0"), with_pending("1.0"));
    assert!(always > 2 * never, "{always} of 200 crashes, and {never}");
}
