//! What `kvsim run` finds at random, after many requests and crashes, becomes as small as what an exploration finds.

use std::num::NonZeroUsize;
use std::path::Path;

use kvsim_harness::case::Case;
use kvsim_harness::control::{Control, Stop};
use kvsim_harness::minimise::{Budget, Progress, minimise, minimise_watched, with_steps};
use kvsim_harness::run::{Tracing, run_seed};
use kvsim_harness::scenario::{Scenario, SeedRange, load};
use kvsim_harness::summary::FailureReport;
use kvsim_simdisk::FlushKind;
use kvsim_tests::{all_cores, run_saving, scenario};

use super::slate::{Flaw, slate};
use super::{naive, replays_exactly, slate_scenario};

/// Properties that the loss of a write breaks, by what was asked before and after.
const LOSSES: [&str; 6] = [
    "acknowledged_durable",
    "atomic_writes",
    "prefix",
    "no_resurrection",
    "recovery_idempotent",
    "work_after_recovery",
];

/// A failing run of the naive guest: the failure, and what was saved of it.
fn failing(property: &str, sets: &[&str], directory: &Path) -> (FailureReport, Scenario) {
    let scenario = scenario(format!("tests/broken/{property}.toml"), sets);
    let failures = Some(directory.to_path_buf());
    let report = run_saving(scenario, &naive(), NonZeroUsize::MIN, failures);
    let failure = report.failure.unwrap_or_else(|| panic!("{sets:?} passes"));
    let saved = load(failure.file.as_deref().expect("it is saved"), &[]).expect("it loads");
    (failure, saved)
}

/// A failing run of the naive guest is saved without its steps, and comes down to a handful that fail in the same way.
fn becomes_small(property: &str, flaw: &str) {
    let flaw = format!("guest.options.break={flaw}");
    let directory = tempfile::tempdir().expect("a directory");
    let (failure, saved) = failing(property, &[&flaw], directory.path());
    let program = naive();
    assert_eq!(saved.case, None, "a run says no steps");
    let (budget, control) = (Budget::default(), Control::default());
    let small = minimise(&saved, &program, budget, all_cores(), &control)
        .unwrap_or_else(|error| panic!("{flaw}: {error}"));
    let case = small.scenario.case.as_ref().expect("its steps");
    let requests: usize = case
        .process_runs
        .iter()
        .map(|process_run| process_run.requests.len())
        .sum();
    let crashes = case
        .process_runs
        .iter()
        .filter_map(|process_run| process_run.crash.as_ref());
    let persisted: usize = crashes.map(|crash| crash.persisted.len()).sum();
    assert!(requests <= 5, "{flaw}: {case:#?}");
    assert!(persisted <= 3, "{flaw}: {case:#?}");
    let report = small.report(program.as_ref(), Some(directory.path()), None);
    // What is lost may break another property in a smaller case; a panic stays one.
    let is_loss = |property: &str| LOSSES.contains(&property);
    assert!(
        report.property == failure.property
            || (is_loss(&report.property) && is_loss(&failure.property)),
        "{flaw}: {} and {}",
        failure.property,
        report.property
    );
    let file = report.file.expect("it is saved");
    replays_exactly(load(&file, &[]).expect("it loads"), &program);
}

/// Goal: a failure that happens on any device comes down to a case on one whose flush saves. Method: a guest that panics, where a flush only orders.
#[test]
fn a_flush_that_only_orders_is_left_out() {
    let sets = ["guest.options.break=guest_panics", "device.flush=barrier"];
    let directory = tempfile::tempdir().expect("a directory");
    let (_, saved) = failing("guest_behaves", &sets, directory.path());
    assert_eq!(saved.device.flush, FlushKind::Barrier);
    let (budget, control) = (Budget::default(), Control::default());
    let small = minimise(&saved, &naive(), budget, all_cores(), &control).expect("it is small");
    assert_eq!(small.scenario.device.flush, FlushKind::Durable);
}

/// Goal: a minimisation that is stopped leaves the smallest case so far, which fails. Method: a stop as soon as the case is smaller than it was; and one
/// before anything is tried.
#[test]
fn a_minimisation_that_is_stopped_leaves_what_it_has() {
    let flaw = "guest.options.break=acknowledged_durable";
    let directory = tempfile::tempdir().expect("a directory");
    let (_, saved) = failing("acknowledged_durable", &[flaw], directory.path());
    let program = naive();
    let stopped_when = |is_enough: &(dyn Fn(usize, usize) -> bool + Sync)| {
        let (control, first) = (Control::default(), std::sync::OnceLock::new());
        let watch = |now: Progress| {
            let first = *first.get_or_init(|| now.requests);
            if is_enough(first, now.requests) {
                control.stop(Stop::Interrupted);
            }
        };
        let (budget, jobs) = (Budget::default(), NonZeroUsize::MIN);
        let small = minimise_watched(&saved, &program, None, budget, jobs, &control, &watch);
        let small = small.expect("it is as small as it is");
        let requests = small.scenario.case.as_ref().map_or(0, Case::requests);
        assert!(small.exhausted && small.result.end.is_violation());
        (*first.get().expect("it was shown"), requests)
    };
    let (first, last) = stopped_when(&|first, now| now < first);
    assert!(last < first, "{last} of {first}");
    let (first, last) = stopped_when(&|_, _| true);
    assert_eq!(last, first);
}

/// Goal: a guest that goes wrong while clients work before the reading back does so again when the failure is written down step by step. Method: one that goes
/// wrong only where nothing was read.
#[test]
fn a_failure_before_the_reading_back_can_be_written_down() {
    let sets = [
        "run.seeds=1..20",
        "run.crashes=3",
        "run.events_per_crash=40",
        "run.work_before_reading=1.0",
    ];
    let (program, control) = (slate(Flaw::TrapsUnread), Control::default());
    let scenario = slate_scenario(&sets);
    let seeds = scenario.run.seeds.start..scenario.run.seeds.end;
    let mut failed = 0;
    for seed in seeds {
        let mut scenario = scenario.clone();
        scenario.run.seeds = SeedRange::one(seed);
        let result = run_seed(&scenario, &program, seed, &control, Tracing::HashOnly);
        if !result.end.is_violation() {
            continue;
        }
        failed += 1;
        let (noted, _) =
            with_steps(&scenario, &program).unwrap_or_else(|error| panic!("{seed}: {error}"));
        let case = noted.case.expect("its steps");
        let last = case.process_runs.last().expect("the one that fails");
        assert_eq!(last.read_after_requests, Some(last.requests.len() as u64));
    }
    assert!(failed > 0);
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
    a_panic_of_a_run: guest_behaves guest_panics;
    a_recovery_of_a_run_that_differs: recovery_idempotent recovery_idempotent;
    work_of_a_run_that_is_lost: work_after_recovery work_after_recovery;
    a_hang_of_a_run: guest_behaves guest_hangs;
}
