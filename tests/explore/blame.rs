//! What is missing in a guest is named, and what is not missing is not.

use std::num::NonZeroUsize;

use kvsim_harness::blame::{Blame, BlameVerdict, Missing};
use kvsim_harness::explore::ExploreReport;
use kvsim_harness::scenario::{Scenario, load};
use kvsim_harness::summary::Verdict;
use kvsim_simdisk::Sectors;
use kvsim_tests::{Program, scenario};

use super::slate::{Flaw, slate};
use super::{Arc, exploration, explore, naive, slate_scenario};

/// The failure of an exploration, made small, with what is to blame.
fn blamed(scenario: Scenario, program: &Arc<dyn Program>) -> (ExploreReport, Scenario, Blame) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut exploration = exploration(scenario, program);
    exploration.failures = Some(directory.path().to_path_buf());
    exploration.minimise = true;
    exploration.jobs = NonZeroUsize::MIN;
    let report = explore(&exploration);
    assert_eq!(report.verdict, Verdict::Violation, "{report:#?}");
    let failure = &report.failures[0];
    let saved = load(failure.file.as_deref().expect("it is saved"), &[]);
    let saved = saved.unwrap_or_else(|error| panic!("{error}"));
    let blame = failure.blame.clone().expect("it was asked");
    assert!(!blame.exhausted, "{blame:?}");
    assert_eq!(
        saved.failure.as_ref().map(|failure| failure.blame.clone()),
        Some(blame.to_string())
    );
    (report, saved, blame)
}

/// Goal: the flush that is missing is named, between the write and its acknowledgement, and not one that comes too late. Method: the
/// guest that answers before it flushes; the number of its write, its place and its request are known.
#[test]
fn an_early_answer_misses_a_flush_before_it() {
    let program = slate(Flaw::AcknowledgesEarly);
    let (_, saved, blame) = blamed(slate_scenario(&["explore.operations=20"]), &program);
    let case = saved.case.expect("its steps");
    let [request] = &case.process_runs[0].requests[..] else {
        panic!("{case:#?}")
    };
    let write = "operation 1 (the write of 1,024 bytes at offset 0)";
    let kinds: Vec<Missing> = blame.fixes.iter().map(|fix| fix.missing).collect();
    assert_eq!(kinds, [Missing::WriteThrough, Missing::Flush], "{blame}");
    assert_eq!(
        blame.to_string(),
        format!(
            "{write} written through; or a flush between {write} and the acknowledgement of `{request}`"
        )
    );
    assert!(!blame.together);
    assert_eq!(blame.verdict(), BlameVerdict::Ordering);
}

/// Goal: what no flush fixes is not blamed on one. Method: a guest that forgets its last record however durable it is.
#[test]
fn what_is_forgotten_is_no_ordering_bug() {
    let program = slate(Flaw::ForgetsLast);
    let (_, _, blame) = blamed(slate_scenario(&["explore.operations=20"]), &program);
    assert_eq!(blame.fixes, [], "{blame}");
    assert!(blame.to_string().starts_with("no ordering bug"), "{blame}");
    assert_eq!(blame.verdict(), BlameVerdict::NotOrdering);
    assert!(blame.tried > 0);
}

/// Goal: what a guest answers wrong after it was read back well is no matter of order, though a write-through before the cut would hide it. Method: a guest that has met
/// a torn record, and finds no key after its next write.
#[test]
fn what_was_read_back_well_is_no_ordering_bug() {
    let program = slate(Flaw::LosesSight);
    let sets = [
        "explore.operations=4",
        "explore.again_every=1",
        "workload.keys=1",
        "workload.operations={ put = 50, get = 50 }",
    ];
    let (_, saved, blame) = blamed(slate_scenario(&sets), &program);
    let case = saved.case.expect("its steps");
    assert_eq!(case.crashes(), 1, "{case:#?}");
    assert!(blame.working, "{blame}");
    assert_eq!(blame.verdict(), BlameVerdict::NotOrdering);
    assert_eq!(
        blame.to_string(),
        "no ordering bug: what the last cut left was read back well, and the running guest answers wrong after that"
    );
}

/// Goal: a recovery that does without what is lost, and not without a part of it, is not told to flush, though a flush before the next write would hide
/// what is wrong with it. Method: a guest that believes a torn record if what it wrote after that is there.
#[test]
fn a_tear_that_is_not_handled_is_no_missing_flush() {
    let program = slate(Flaw::TrustsSeal);
    let (_, saved, blame) = blamed(slate_scenario(&["explore.operations=20"]), &program);
    let case = saved.case.expect("its steps");
    let crash = case.process_runs[0].crash.as_ref().expect("it is cut");
    let [torn, seal] = &crash.persisted[..] else {
        panic!("{case:#?}")
    };
    assert!(torn.sectors != Sectors::All && seal.sectors == Sectors::All);
    assert!(!blame.is_ordering(), "{blame}");
    let sentence = blame.to_string();
    assert!(
        sentence.starts_with("no flush is missing: a recovery makes the wrong thing of what it finds, or else operation 2 "),
        "{sentence}"
    );
    assert!(
        sentence.contains("it passes if operation 1 ")
            && sentence.contains(" is not torn (only its sector"),
        "{sentence}"
    );
}

fn naive_blame(property: &str, flaw: &str) -> (Scenario, Blame) {
    let flaw = format!("guest.options.break={flaw}");
    let sets = ["explore.operations=24", &flaw];
    let scenario = scenario(format!("tests/broken/{property}.toml"), &sets);
    let (_, saved, blame) = blamed(scenario, &naive());
    (saved, blame)
}

/// Goal: the same of a guest in the sandbox. Method: the naive guest that answers without a flush.
#[test]
fn the_naive_guest_misses_its_flush() {
    let (saved, blame) = naive_blame("acknowledged_durable", "acknowledged_durable");
    let case = saved.case.expect("its steps");
    let requests: usize = case
        .process_runs
        .iter()
        .map(|process_run| process_run.requests.len())
        .sum();
    assert!(requests <= 5, "{case:#?}");
    let flush = blame.fixes.iter().find(|fix| fix.missing == Missing::Flush);
    let flush = flush.unwrap_or_else(|| panic!("{blame:?}"));
    assert!(
        flush.sentence.contains("the write of")
            && flush.sentence.contains("the acknowledgement of"),
        "{blame}"
    );
}

/// Goal: a guest that loses its mind over a torn record does so whatever is flushed when. Method: the one that panics.
#[test]
fn a_panic_is_no_ordering_bug() {
    let (_, blame) = naive_blame("guest_behaves", "guest_panics");
    assert!(blame.to_string().starts_with("no ordering bug"), "{blame}");
}
