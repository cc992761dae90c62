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
    ends(&["replay", &large, "--blame"], 1, &["blame: "]);
    what_is_said_stays(&large);
    let minimise = [
        "replay",
        &large,
        "--minimize",
        "--failures",
        &failures,
        "--json",
    ];
    let ended = ends(&minimise, 1, &[]);
    let said: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(said["schema"], "kvsim.failure/2");
    let blame = &said["failure"]["blame"];
    let sentence = blame["sentence"].as_str().expect("a sentence");
    assert!(sentence.contains("a flush between"), "{sentence}");
    assert_eq!(blame["fixes"][0]["missing"], "write_through", "{blame}");
    let small = file(directory.path(), ending, true);
    let small = small.to_string_lossy();
    ends(&["replay", &small], 1, &["Reproduced exactly"]);
    let text = std::fs::read_to_string(&*small).expect("a saved case");
    let place = |table: &str| text.find(table).unwrap_or_else(|| panic!("no {table}"));
    assert!(
        place("[failure]") < place("[[case.process_runs]]"),
        "{text}"
    );
    assert!(place("[[case.process_runs]]") < place("[run]"), "{text}");
    assert!(!text.contains("guest_file = \"/"), "{text}");
    a_folder_is_replayed_as_a_table(&failures);
    ends(&["replay", &small, "--blame"], 1, &["blame:", sentence]);
}

/// Goal: with `--says` the small case says so too, and what the failure does not say is refused. Method: the failure loses many writes, and its small form only one.
fn what_is_said_stays(large: &str) {
    let elsewhere = tempfile::tempdir().expect("a directory");
    let to = elsewhere.path().to_string_lossy();
    let minimise = ["replay", large, "--minimise", "--failures", &to];
    let says = |text| [&minimise[..], &["--says", text]].concat();
    ends(&minimise, 1, &["1 requests", "it is lost\n"]);
    ends(&says("writes after it"), 1, &["writes after it"]);
    let part = "`a hole` is no part of what the case shows: the write of key";
    ends(&says("a hole"), 2, &[part]);
    ends(&["replay", large, "--says", "a hole"], 2, &["--minimise"]);
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

/// Goal: all cases of a folder are replayed at once, and the most severe end counts. Method: the two cases, then with an engine that passes one of them.
fn a_folder_is_replayed_as_a_table(folder: &str) {
    std::fs::copy(
        "../scenarios/powercut.toml",
        format!("{folder}/powercut.toml"),
    )
    .expect("copied");
    let parts = [
        "fails as saved: acknowledged_durable",
        "2 fail as saved",
        "powercut.toml has no [failure] table",
    ];
    ends(&["replay", folder], 1, &parts);
    let ended = ends(&["replay", folder, "--json", "--quiet"], 1, &[]);
    let said: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(said["exit_code"], 1);
    let right = ["replay", folder, "--set", "guest.options.break=reads_agree"];
    ends(
        &right,
        0,
        &["2 pass", "passes: the saved failure did not happen again"],
    );
    let other = ["replay", folder, "--set", "guest.cpu_ps_per_fuel=300"];
    let ended = ends(&other, 1, &["2 fail by another trace", "by --set"]);
    assert!(!ended.stdout.contains("guest has changed"), "{ended:#?}");
    let empty = tempfile::tempdir().expect("a directory");
    let empty = empty.path().to_string_lossy();
    ends(
        &["replay", &empty],
        2,
        &["there is no failing case in the folder"],
    );
}
