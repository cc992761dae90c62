//! What the device may do: operations of the work that fail, flushes that only order.

use kvsim_harness::summary::Verdict;

use super::slate::{Flaw, slate};
use super::{exploration, explore, load, replays_exactly, slate_scenario};

/// Goal: each write and flush of the run fails once in every way, and only a guest that minds it passes. Method: two puts of two guests, the runs counted by
/// hand: each put is a write of two sectors, which fails in three ways, and a flush that covers it, which drops it or not. The case of the other replays.
#[test]
fn each_operation_of_the_work_fails_in_every_way() {
    let sets = [
        "explore.operations=2",
        r#"explore.work_errors=["read", "write", "flush"]"#,
    ];
    let right = explore(&exploration(
        slate_scenario(&sets),
        &slate(Flaw::MindsErrors),
    ));
    assert_eq!(right.verdict, Verdict::Pass, "{:?}", right.failures);
    let errors = right.work_errors;
    assert_eq!((errors.reads, errors.writes, errors.flushes), (0, 6, 4));
    assert!(errors.states > 10 && errors.points > 30, "{errors:?}");
    assert_eq!((errors.ops_left_out, errors.drops_left_out), (0, 0));
    let program = slate(Flaw::Nothing);
    let directory = tempfile::tempdir().expect("a directory");
    let mut wrong = exploration(slate_scenario(&sets), &program);
    wrong.failures = Some(directory.path().to_path_buf());
    let wrong = explore(&wrong);
    assert_eq!(wrong.verdict, Verdict::Violation);
    assert_eq!(wrong.failures[0].property, "acknowledged_durable");
    let file = wrong.failures[0].file.as_deref().expect("it is saved");
    let saved = load(file, &[]).unwrap_or_else(|error| panic!("{error}"));
    let case = saved.case.clone().expect("its steps");
    assert_eq!(case.faults.len(), 1, "{:?}", case.faults);
    replays_exactly(saved, &program);
}

/// Goal: the bounds of failing operations are counted. Method: one operation of each kind, and no room for the two ways to drop a write.
#[test]
fn operations_that_never_fail_are_counted() {
    let sets = [
        "explore.operations=3",
        r#"explore.work_errors=["write", "flush"]"#,
        "explore.work_errors_max=1",
        "explore.work_errors_drops=1",
    ];
    let report = explore(&exploration(
        slate_scenario(&sets),
        &slate(Flaw::MindsErrors),
    ));
    assert_eq!(report.verdict, Verdict::Pass, "{:?}", report.failures);
    let errors = report.work_errors;
    assert_eq!((errors.writes, errors.ops_left_out), (3, 4));
    assert_eq!(errors.drops_left_out, 1);
}

/// Goal: where a flush only orders, a guest that relies on order passes although commits are lost, and one that writes without any order fails. Method: three puts
/// of two guests, on such a device and on one whose flush makes durable.
#[test]
fn a_flush_that_only_orders_excuses_lost_commits_and_no_hole() {
    for flush in ["durable", "barrier"] {
        let flush = format!("device.flush=\"{flush}\"");
        let sets = ["explore.operations=3", flush.as_str()];
        let right = explore(&exploration(slate_scenario(&sets), &slate(Flaw::Nothing)));
        assert_eq!(
            right.verdict,
            Verdict::Pass,
            "{flush}: {:?}",
            right.failures
        );
        let wrong = explore(&exploration(slate_scenario(&sets), &slate(Flaw::Unordered)));
        assert_eq!(wrong.verdict, Verdict::Violation, "{flush}");
    }
}
