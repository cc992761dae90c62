//! `kvsim run --shard` and `kvsim merge`: several machines, one report.

use std::path::Path;

use kvsim_tests::naive_guest;
use serde_json::Value;

use crate::{ends, kvsim};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// What `run` and then these arguments print, as JSON, in a file.
fn run_into(file: &Path, arguments: &[&str], shard: Option<&str>) -> Value {
    let mut all = [&["run", "--json"], arguments].concat();
    if let Some(shard) = shard {
        all.extend(["--shard", shard]);
    }
    let ended = kvsim(&all);
    std::fs::write(file, &ended.stdout).expect("it can be written");
    json(&ended.stdout)
}

/// The runs of a document without what differs from one moment to another.
fn timeless(document: &Value) -> Value {
    let mut runs = document["runs"].clone();
    for run in runs.as_array_mut().expect("there are runs") {
        run.as_object_mut().expect("a run").remove("real");
    }
    runs
}

/// Four shards, merged in another order than theirs, against the whole.
#[track_caller]
fn four_shards_are_one_run(arguments: &[&str]) -> Value {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name);
    let whole = run_into(&file("whole"), arguments, None);
    let mut merge = vec!["merge".to_owned(), "--json".to_owned()];
    for shard in ["2/4", "0/4", "3/4", "1/4"] {
        let file = file(&shard.replace('/', "-"));
        run_into(&file, arguments, Some(shard));
        merge.push(file.display().to_string());
    }
    let merge: Vec<&str> = merge.iter().map(String::as_str).collect();
    let merged = kvsim(&merge);
    let document = json(&merged.stdout);
    assert_eq!(timeless(&document), timeless(&whole));
    assert_eq!(document["exit_code"], whole["exit_code"]);
    assert_eq!(i64::from(merged.code.unwrap_or(-1)), whole["exit_code"]);
    whole
}

/// Goal: parts from four machines make the very report of one. Method: two scenarios at once, one of them with faults that few
/// seeds see, each count, hash, quantile and verdict compared.
#[test]
fn four_shards_of_a_run_are_merged_to_it() {
    let seeds = ["--set", "run.seeds=3..13", "--set", "run.crashes=3"];
    let scenarios = ["scenarios/powercut.toml", "scenarios/kitchen_sink.toml"];
    let whole = four_shards_are_one_run(&[&scenarios[..], &seeds[..], &["--strict"]].concat());
    assert_eq!(whole["runs"][1]["seeds"]["count"], 10);
}

/// Goal: a failure is that of the first failing seed, and what later shards saw does not count. Method: a guest that loses what it
/// acknowledged, so few crashes a seed that the first seeds pass.
#[test]
fn four_shards_of_a_failing_run_are_merged_to_it() {
    let guest = naive_guest().to_string_lossy();
    let failures = tempfile::tempdir().expect("a directory");
    let whole = four_shards_are_one_run(&[
        "tests/broken/acknowledged_durable.toml",
        "--guest",
        &guest,
        "--failures",
        &failures.path().to_string_lossy(),
        "--set",
        "run.seeds=1..13",
        "--set",
        "run.crashes=1",
        "--set",
        "guest.options.break=acknowledged_durable",
    ]);
    assert_eq!(whole["exit_code"], 1);
}

/// Goal: what does not belong together is not merged. Method: a part twice, one missing, a whole run, an exploration among runs,
/// and more shards than seeds.
#[test]
fn what_does_not_belong_together_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let few = [
        "scenarios/powercut.toml",
        "--set",
        "run.seeds=1..3",
        "--set",
        "run.crashes=2",
    ];
    run_into(&directory.path().join("part"), &few, Some("0/2"));
    run_into(&directory.path().join("whole"), &few, None);
    let explored = ends(
        &[
            "explore",
            "scenarios/explore_small.toml",
            "--set",
            "explore.operations=2",
            "--json",
        ],
        0,
        &[],
    );
    std::fs::write(path("explored"), explored.stdout).expect("it can be written");
    let part = path("part");
    ends(&["merge", &part], 2, &["shard 1/2 is missing"]);
    ends(&["merge", &part, &part], 2, &["shard 0/2 is there twice"]);
    ends(&["merge", &path("whole")], 2, &["without `--shard`"]);
    ends(
        &["merge", &part, &path("explored")],
        2,
        &["some of these are parts of runs, and some of explorations"],
    );
    let split = [&["run"], &few[..], &["--shard", "0/3"]].concat();
    ends(&split, 2, &["2 seeds are too few for 3 shards"]);
}
