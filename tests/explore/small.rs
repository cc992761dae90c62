//! What `kvsim run` finds at random, after many requests and crashes, becomes as small as what an exploration finds.

use std::num::NonZeroUsize;

use kvsim_harness::control::Control;
use kvsim_harness::minimise::{Budget, minimise};
use kvsim_harness::scenario::load;
use kvsim_tests::{all_cores, run_saving, scenario};

use super::{naive, replays_exactly};

/// A failing run of the naive guest is saved without its steps, and comes down to a handful that fail in the same way.
fn becomes_small(property: &str, flaw: &str) {
    let flaw = format!("guest.options.break={flaw}");
    let scenario = scenario(format!("tests/broken/{property}.toml"), &[&flaw]);
    let program = naive();
    let directory = tempfile::tempdir().expect("a directory");
    let failures = Some(directory.path().to_path_buf());
    let report = run_saving(scenario, &program, NonZeroUsize::MIN, failures);
    let failure = report.failure.unwrap_or_else(|| panic!("{flaw} passes"));
    let saved = load(failure.file.as_deref().expect("it is saved"), &[]).expect("it loads");
    assert_eq!(saved.case, None, "a run says no steps");
    let (budget, control) = (Budget::default(), Control::default());
    let small = minimise(&saved, &program, budget, all_cores(), &control)
        .unwrap_or_else(|error| panic!("{flaw}: {error}"));
    let case = small.scenario.case.as_ref().expect("its steps");
    let requests: usize = case.lives.iter().map(|life| life.requests.len()).sum();
    let crashes = case.lives.iter().filter_map(|life| life.crash.as_ref());
    let survivors: usize = crashes.map(|crash| crash.survivors.len()).sum();
    assert!(requests <= 5, "{flaw}: {case:#?}");
    assert!(survivors <= 3, "{flaw}: {case:#?}");
    let report = small.report(program.as_ref(), Some(directory.path()), None);
    assert_eq!(report.property, failure.property, "{flaw}");
    let file = report.file.expect("it is saved");
    replays_exactly(load(&file, &[]).expect("it loads"), &program);
}

macro_rules! small {
    ($($name:ident: $property:ident $flaw:ident;)*) => {
        $(
            #[test]
            fn $name() {
                becomes_small(stringify!($property), stringify!($flaw));
            }
        )*
    };
}

small! {
    a_lost_write_of_a_run: acknowledged_durable acknowledged_durable;
    a_torn_batch_of_a_run: atomic_writes atomic_writes;
    a_hole_of_a_run: prefix prefix;
    a_panic_of_a_run: sane_guest sane_guest_panic;
    a_recovery_of_a_run_that_differs: recovery_idempotent recovery_idempotent;
    work_of_a_run_that_is_lost: work_after_recovery work_after_recovery;
    a_hang_of_a_run: sane_guest sane_guest_hang;
}
