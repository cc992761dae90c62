//! Correct engines are not reported, and reads that contradict each other are. Each policy has a guest that needs it,
//! and each rule of reads a guest that breaks it.
#![allow(missing_docs, reason = "a test")]

use std::path::Path;

use kvsim_tests::{Ended, execute, naive_guest};

const PROGRAM: &str = env!("CARGO_BIN_EXE_kvsim");

/// Runs the naive guest with fields of the scenario changed; nothing is kept.
fn run(scenario: &str, sets: &[&str]) -> Ended {
    let folder = tempfile::tempdir().expect("a directory");
    let failures = folder.path().to_string_lossy().into_owned();
    let scenario = format!("tests/promises/{scenario}.toml");
    let guest = naive_guest().to_string_lossy();
    let mut arguments = vec!["run", &scenario, "--guest", &guest, "--failures", &failures];
    arguments.extend(sets.iter().flat_map(|set| ["--set", set]));
    execute(Path::new(PROGRAM), &arguments)
}

/// The guest of this manner is reported unless this policy is stated.
fn needs(manner: &str, policy: &str) {
    let manner = format!("guest.options.manner={manner}");
    let accused = run("policies", &[&manner]);
    assert_eq!(accused.code, Some(1), "{policy}: {accused:#?}");
    let policy = format!("guest.policies.{policy}");
    let clean = run("policies", &[&manner, &policy]);
    assert_eq!(clean.code, Some(0), "{policy}: {clean:#?}");
}

macro_rules! policies {
    ($($manner:ident needs $policy:literal;)*) => {
        $(
            #[test]
            fn $manner() {
                needs(stringify!($manner), $policy);
            }
        )*
    };
}

policies! {
    any_order needs "commit_order=any";
    committed_reads needs "reads=committed";
    lazy_recovery needs "recovery_survives=power_cut";
    empty_at_once needs "empty_commit_covers=false";
    relaxed_in_memory needs "relaxed_survives_kill=false";
}

/// Goal: a policy excuses nothing else. Method: each manner with all policies stated but the one that it needs.
#[test]
fn other_policies_do_not_help() {
    let all = [
        ("any_order", "commit_order=any"),
        ("committed_reads", "reads=committed"),
        ("lazy_recovery", "recovery_survives=power_cut"),
        ("empty_at_once", "empty_commit_covers=false"),
        ("relaxed_in_memory", "relaxed_survives_kill=false"),
    ];
    for (manner, _) in all {
        // A write that commits at any time before its answer may be missed by a read until then: that order excuses these reads.
        let left_out = if manner == "committed_reads" {
            "any_order"
        } else {
            ""
        };
        let others = all
            .iter()
            .filter(|(other, _)| *other != manner && *other != left_out);
        let mut sets: Vec<String> = others
            .map(|(_, policy)| format!("guest.policies.{policy}"))
            .collect();
        sets.push(format!("guest.options.manner={manner}"));
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let accused = run("policies", &sets);
        assert_eq!(accused.code, Some(1), "{manner}: {accused:#?}");
    }
}

/// Goal: an engine that keeps all of the contract is clean, whatever less it may state. Method: the naive guest as it is, with no policy and with all.
#[test]
fn the_strict_guest_is_clean_under_every_policy() {
    let lax = [
        "guest.policies.reads=committed",
        "guest.policies.empty_commit_covers=false",
        "guest.policies.relaxed_survives_kill=false",
    ];
    let any = "guest.policies.commit_order=any";
    let not_always = "guest.policies.recovery_survives=power_cut";
    let with = |more: &[&'static str]| [&lax[..], more].concat();
    for sets in [
        vec![],
        with(&[any]),
        with(&[not_always]),
        with(&[any, not_always]),
    ] {
        for scenario in ["policies", "reads"] {
            let clean = run(scenario, &sets);
            assert_eq!(clean.code, Some(0), "{sets:?}: {clean:#?}");
        }
    }
}

/// Goal: a guest may have both. Method: a guest that needs both, with none, one and the other, and both stated.
#[test]
fn commits_in_any_order_may_be_taken_back_after_a_kill() {
    let manner = "guest.options.manner=any_order,lazy_recovery";
    let any = "guest.policies.commit_order=any";
    let lazy = "guest.policies.recovery_survives=power_cut";
    for (policies, code) in [
        (&[][..], 1),
        (&[any][..], 1),
        (&[lazy][..], 1),
        (&[any, lazy][..], 0),
    ] {
        let ended = run("policies", &[&[manner][..], policies].concat());
        assert_eq!(ended.code, Some(code), "{policies:?}: {ended:#?}");
    }
}

/// Goal: a lost durable write is one under every policy. Method: a guest that never flushes, with all of them stated.
#[test]
fn lost_writes_are_found_under_every_policy() {
    let flaw = "guest.options.break=acknowledged_durable";
    let any = "guest.policies.commit_order=any";
    let not_always = "guest.policies.recovery_survives=power_cut";
    for policies in [&[any][..], &[not_always], &[any, not_always]] {
        let accused = run("policies", &[&[flaw][..], policies].concat());
        assert_eq!(accused.code, Some(1), "{policies:?}: {accused:#?}");
    }
}

/// Goal: a wrong policy in a scenario is named at its place. Method: a value that there is not.
#[test]
fn a_policy_that_there_is_not_is_named() {
    let refused = run("policies", &["guest.policies.reads=all"]);
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(
        refused.stderr.contains("`accepted` or `committed`"),
        "{refused:#?}"
    );
}

/// The guest with this flaw breaks the rules of reads.
fn reads_are_wrong(flaw: &str, words: &str) {
    let set = format!("guest.options.break={flaw}");
    let accused = run("reads", &[&set]);
    assert_eq!(accused.code, Some(1), "{flaw}: {accused:#?}");
    assert!(
        accused.stdout.contains("reads_agree"),
        "{flaw}: {accused:#?}"
    );
    assert!(accused.stdout.contains(words), "{flaw}: {accused:#?}");
}

macro_rules! reads {
    ($($flaw:ident says $words:literal;)*) => {
        $(
            #[test]
            fn $flaw() {
                reads_are_wrong(stringify!($flaw), $words);
            }
        )*
    };
}

reads! {
    flicker says "is due";
    half_batch says "";
    snapshot_reused says "has number";
    scan_bytes says "bytes were asked for";
    scan_short says "and says that there is more, although";
    more_always says "there is more";
    more_never says "";
    get_misses says "";
    scan_misses says "";
    reads_agree says "";
}

/// Goal: a get and a scan are held against each other by the reading back itself. Method: guests whose gets or scans miss keys, and clients
/// that only write; then the same with a key space that is read in windows.
#[test]
fn the_reading_back_asks_both_ways() {
    let no_scans = "workload.operations.scan=0";
    let no_snapshots = "workload.operations.snapshot=0";
    for flaw in [
        "get_misses",
        "scan_misses",
        "more_always",
        "more_never",
        "scan_bytes",
        "scan_short",
    ] {
        let flaw = format!("guest.options.break={flaw}");
        for windows in ["check.scan_keys_max=4096", "check.scan_keys_max=6"] {
            let accused = run(
                "reads",
                &[&flaw, no_scans, no_snapshots, windows, "check.gets_max=2"],
            );
            assert_eq!(accused.code, Some(1), "{flaw} {windows}: {accused:#?}");
        }
    }
}
