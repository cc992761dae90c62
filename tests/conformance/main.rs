//! The rules of the ABI judge rightly: good guests keep all of them, and for each rule there is a guest that breaks it.
#![allow(missing_docs, reason = "a test")]

mod modules;
mod spoiled;

use std::collections::BTreeMap;

use kvsim_harness::conformance::{Checked, Conformance, Outcome, check};
use kvsim_tests::naive_guest;

fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

fn naive(pairs: &[(&str, &str)]) -> Conformance {
    let bytes = std::fs::read(naive_guest()).expect("the naive guest was built");
    check("naive", &bytes, &options(pairs))
}

/// The names of the rules that are broken.
fn broken(rules: &[Checked]) -> Vec<&'static str> {
    let broken = rules
        .iter()
        .filter(|checked| matches!(checked.outcome, Outcome::Broken(_)));
    broken.map(|checked| checked.rule.name).collect()
}

/// Goal: a good guest keeps every rule. Method: the built-in engine and the naive one.
#[test]
fn good_guests_keep_every_rule() {
    let builtin = kvsim_sim::WasmProgram::builtin_bytes();
    for report in [naive(&[]), check("engine", builtin, &options(&[]))] {
        assert_eq!(broken(&report.rules), [""; 0], "{report:#?}");
        assert!(
            report.is_guest && report.hold() >= report.rules.len() - 2,
            "{report:#?}"
        );
    }
}

/// Goal: a defect of an engine is named by the rule that it breaks. Method: defects of the naive guest that show without a crash.
#[test]
fn defects_of_an_engine_break_their_rules() {
    for (flaw, rule) in [
        ("acknowledged_durable", "durable_put"),
        ("reads_agree", "snapshot"),
        ("snapshot_reused", "release"),
        ("scan_bytes", "scan_bytes"),
        ("scan_short", "scan_limit"),
        ("more_always", "scan"),
        ("more_never", "scan_limit"),
        ("get_misses", "put_get"),
        ("scan_misses", "scan"),
        ("refuses_invalid", "put_get"),
        ("refuses_reads", "get_missing"),
        ("refuses_reopening", "reopen"),
        ("takes_ill_formed", "empty_key"),
        ("half_a_bad_batch", "bad_batch"),
        ("space_returns", "space"),
    ] {
        let report = naive(&[("break", flaw)]);
        let broken = broken(&report.rules);
        assert!(broken.contains(&rule), "{flaw} breaks {broken:?}");
    }
}

/// Goal: what a guest promises less than the strict contract without saying so breaks the rule that the policy is about.
#[test]
fn a_promise_that_is_not_kept_breaks_its_rule() {
    for (manner, rule) in [
        ("any_order", "arrival_order"),
        ("committed_reads", "reads_accepted"),
        ("empty_at_once", "empty_commit_covers"),
        ("relaxed_in_memory", "relaxed_survives_kill"),
    ] {
        let report = naive(&[("manner", manner)]);
        let broken = broken(&report.rules);
        assert!(broken.contains(&rule), "{manner} breaks {broken:?}");
    }
}
