//! `--minimise` and `--blame` as a user gives them.

use std::path::{Path, PathBuf};

use kvsim_tests::naive_guest;
use serde_json::Value;

use crate::ends;

/// The file in this folder whose name ends so.
fn file(directory: &Path, ending: &str, small: bool) -> PathBuf {
    let entries = std::fs::read_dir(directory).expect("a folder");
    let mut paths = entries.map(|entry| entry.expect("readable").path());
    let found = paths.find(|path| {
        let name = path.to_string_lossy().into_owned();
        name.ends_with(ending) && name.contains("-small-") == small
    });
    found.unwrap_or_else(|| panic!("no {ending} in {}", directory.display()))
}

/// Goal: from a failing run to the flush that is missing, by what the program prints. Method: the naive guest that answers without
/// a flush: run, shrink as JSON, blame the small one.
#[test]
fn a_failing_run_is_made_small_and_blamed() {
    let directory = tempfile::tempdir().expect("a directory");
    let failures = directory.path().to_string_lossy();
    let guest = naive_guest().to_string_lossy();
    let scenario = "tests/broken/acknowledged_durable.toml";
    let set = "guest.options.break=acknowledged_durable";
    let run = [
        "run",
        scenario,
        "--guest",
        &guest,
        "--set",
        set,
        "--failures",
        &failures,
    ];
    ends(&run, 1, &["acknowledged_durable"]);
    let ending = "acknowledged_durable.toml";
    let large = file(directory.path(), ending, false);
    let large = large.to_string_lossy();
    ends(&["replay", &large, "--blame"], 2, &["--minimise"]);
    let minimise = [
        "replay",
        &large,
        "--minimise",
        "--failures",
        &failures,
        "--json",
    ];
    let ended = ends(&minimise, 1, &[]);
    let said: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(said["schema"], "kvsim.failure/1");
    let blame = &said["failure"]["blame"];
    let sentence = blame["sentence"].as_str().expect("a sentence");
    assert!(sentence.contains("a flush between"), "{sentence}");
    assert_eq!(blame["cures"][0]["missing"], "write_through", "{blame}");
    let small = file(directory.path(), ending, true);
    let small = small.to_string_lossy();
    ends(&["replay", &small], 1, &["Reproduced exactly"]);
    ends(&["replay", &small, "--blame"], 1, &["blame:", sentence]);
}

/// Goal: exploring makes small and blames at once. Method: the same guest.
#[test]
fn an_exploration_makes_small_and_blames_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let failures = directory.path().to_string_lossy();
    let guest = naive_guest().to_string_lossy();
    let explore = [
        "explore",
        "tests/broken/acknowledged_durable.toml",
        "--guest",
        &guest,
        "--set",
        "guest.options.break=acknowledged_durable",
        "--set",
        "explore.operations=24",
        "--failures",
        &failures,
        "--minimise",
    ];
    ends(&explore, 1, &["blame:", "a flush between", "-small-"]);
}
