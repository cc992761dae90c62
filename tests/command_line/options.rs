//! Options of a guest: each goes to the guest that it belongs to.

use std::path::Path;

use kvsim_tests::{naive_guest, toml_files};

use crate::ends;

/// Goal: a window that is shorter than the engine's own is not kept, and the engine is held to it. Method: seeds of a scenario that draws engines with windows of
/// 2 and 50 ms, checked for 1 ms; and as it ships.
#[test]
fn a_window_shorter_than_the_engines_is_not_kept() {
    let run = ["run", "small_swarm", "--seeds", "1..40"];
    ends(&run, 0, &["PASS"]);
    let directory = tempfile::tempdir().expect("a directory");
    let failures = directory.path().to_string_lossy();
    let mut checked = run.to_vec();
    checked.extend(["--set", "check.relaxed_window_ns=1000000"]);
    checked.extend(["--failures", &failures]);
    let said = [
        "acknowledged_durable does not hold",
        "did not survive crash",
    ];
    ends(&checked, 1, &said);
}

/// Goal: every scenario that ships can be run with an engine that knows none of our engine's options. Method: all of them with the naive
/// guest, briefly. Its findings are its own; none of the scenarios is refused.
#[test]
fn every_scenario_takes_a_foreign_guest() {
    let directory = tempfile::tempdir().expect("a directory");
    let failures = directory.path().to_string_lossy();
    let guest = naive_guest().to_string_lossy();
    let files = toml_files("scenarios");
    let files: Vec<_> = files.iter().map(|file| file.to_string_lossy()).collect();
    let mut arguments = vec!["run"];
    arguments.extend(files.iter().map(AsRef::as_ref));
    arguments.extend([
        "--guest",
        &guest,
        "--failures",
        &failures,
        "--quiet",
        "--json",
    ]);
    arguments.extend(["--set", "run.seeds=1..3", "--set", "run.crashes=1"]);
    arguments.extend([
        "--set",
        "run.events_per_crash=200",
        "--set",
        "workload.preload=10",
    ]);
    arguments.extend([
        "--set",
        "workload.keys=50",
        "--set",
        "workload.value_bytes=64",
    ]);
    let ended = crate::kvsim(&arguments);
    assert!(matches!(ended.code, Some(0 | 1 | 3)), "{ended:#?}");
    let document: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let runs = document["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), files.len(), "{}", ended.stderr);
    for run in runs {
        assert_eq!(run["crashes"]["total"], 2, "{run}");
    }
}

/// Goal: options for one guest are not told another, those for any are told all, and the latter are stronger. Method: an option that
/// nobody knows, in each place; the line that `--set` overrides.
#[test]
fn an_option_goes_to_its_guest() {
    let guest = naive_guest();
    let name = guest.file_stem().expect("a name").to_string_lossy();
    let (path, own) = (
        guest.to_string_lossy(),
        format!("guest.options_for.{name}.x=1"),
    );
    let directory = tempfile::tempdir().expect("a directory");
    let failures = directory.path().to_string_lossy();
    let run = |sets: &[&str], foreign: bool, code, parts: &[&str]| {
        let mut arguments = vec!["run", "scenarios/powercut.toml", "--failures", &failures];
        arguments.extend(crate::SHORT);
        arguments.extend(sets.iter().flat_map(|set| ["--set", set]));
        if foreign {
            arguments.extend(["--guest", &path]);
        }
        ends(&arguments, code, parts);
    };
    let (ours, any) = ("guest.options_for.kvsim-engine.x=1", "guest.options.x=1");
    let refused = ["does not take its configuration", "x"];
    run(&[ours], true, 0, &[]);
    run(&[&own], false, 0, &[]);
    run(&[ours], false, 2, &refused);
    run(&[&own], true, 2, &refused);
    run(&[any], false, 2, &refused);
    run(&[any], true, 2, &refused);
    let wrong = "guest.options_for.kvsim-engine.commit=nonsense";
    run(&[wrong], false, 2, &["nonsense"]);
    run(&[wrong, "guest.options.commit=flush"], false, 0, &[]);
    assert!(Path::new(&*path).is_file());
}

/// Goal: a misspelt table is told at its place. Method: a letter too few, and an option that is no text.
#[test]
fn a_wrong_table_is_told() {
    let run = |set, parts: &[&str]| ends(&["run", "powercut", "--set", set], 2, parts);
    run(
        "guest.option_for.kvsim-engine.x=1",
        &["did you mean `options_for`?"],
    );
    run("guest.options_for.kvsim-engine=1", &["guest.options_for"]);
}
