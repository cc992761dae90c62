//! Mutants that do wrong only when the device fails while clients work.

use std::sync::Arc;

use kvsim_harness::control::Control;
use kvsim_harness::explore::Exploration;
use kvsim_harness::summary::Verdict;
use kvsim_tests::{all_cores, scenario};

use super::program;

/// Goal: the scenario that lets each operation of the work fail catches all of them, and leaves nothing out. Method: four mutants, and the guest without any.
#[test]
fn failing_operations_of_the_work_catch_them() {
    for (mutant, property) in [
        (None, None),
        (Some("failed_flush_retried"), Some("acknowledged_durable")),
        (Some("flush_error_ignored"), Some("acknowledged_durable")),
        (
            Some("failed_commit_reported_undone"),
            Some("no_resurrection"),
        ),
        (Some("others_failure_ignored"), Some("acknowledged_durable")),
    ] {
        let set = mutant.map(|name| format!("guest.options.mutant={name}"));
        let sets: Vec<&str> = set.as_deref().into_iter().collect();
        let scenario = scenario("scenarios/explore_errors.toml", &sets);
        let exploration = Exploration {
            seed: scenario.run.seeds.start,
            scenario: Arc::new(scenario),
            program: program(),
            jobs: all_cores(),
            shard: None,
            strict: false,
            failures: None,
            skip_seen: true,
            minimise: false,
        };
        let report = exploration
            .run(&Control::default())
            .unwrap_or_else(|error| panic!("{mutant:?}: {error}"));
        let found = report
            .failures
            .first()
            .map(|failure| failure.property.as_str());
        assert_eq!(found, property, "{mutant:?}");
        if mutant.is_none() {
            assert_eq!(report.verdict, Verdict::Pass);
            let errors = report.work_errors;
            assert!(
                errors.reads > 0 && errors.writes > 0 && errors.flushes > 0,
                "{errors:?}"
            );
            assert_eq!((errors.ops_left_out, errors.drops_left_out), (0, 0));
            assert_eq!(report.total().left_out, Default::default());
        }
    }
}
