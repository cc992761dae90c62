//! `kvsim bench`: that it measures, and what it refuses. Nothing here is about how fast anything is.

use std::path::Path;

use kvsim_tests::Ended;
use serde_json::Value;

use crate::{PROGRAM, ends};

/// A tenth of a second of a few records, on the disk that holds the sources.
pub(crate) fn brief<'a>(scenario: &'a str, directory: &'a str) -> Vec<&'a str> {
    let brief = [
        "bench",
        "--real-disk",
        scenario,
        "--dir",
        directory,
        "--rounds",
        "3",
        "--warm-up",
        "50ms",
        "--duration",
        "200ms",
        "--set",
        "workload.keys=200",
        "--set",
        "workload.preload=200",
        "--set",
        "workload.clients=4",
    ];
    brief.to_vec()
}

fn on_disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

/// Goal: every benchmark that ships measures something on a real disk, and names the device. Method: all of them, briefly.
#[test]
fn every_benchmark_measures_something() {
    let directory = on_disk();
    let path = directory.path().to_string_lossy();
    for scenario in kvsim_tests::toml_files("scenarios/bench") {
        let scenario = scenario.to_string_lossy();
        let ended = ends(
            &brief(&scenario, &path),
            0,
            &["ops/s", "kvsim", "driver", "durability"],
        );
        let line = ended
            .stdout
            .lines()
            .find(|line| line.starts_with("  kvsim  "))
            .expect("a row");
        let rate: u64 = line
            .split_whitespace()
            .nth(1)
            .expect("a figure")
            .replace(',', "")
            .parse()
            .expect("a number");
        assert!(rate > 0, "{scenario}: {ended:#?}");
    }
}

/// Goal: the program measures the disk that somebody stands on, wherever that is and with nothing beside it. Method: an empty folder, and no
/// scenario named.
#[test]
fn what_is_measured_by_default_is_built_in() {
    let directory = on_disk();
    for (more, name) in [
        (&[][..], "durable"),
        (
            &["--no-fsync", "--engines", "kvsim-through"][..],
            "no_fsync",
        ),
    ] {
        let named = brief("", ".");
        let arguments = named.into_iter().filter(|argument| !argument.is_empty());
        let arguments: Vec<&str> = arguments.chain(more.iter().copied()).collect();
        let mut command = kvsim_tests::command(Path::new(PROGRAM), &arguments);
        let output = command.current_dir(directory.path()).output();
        let ended = Ended::new(&output.expect("the program starts"));
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        assert!(ended.stdout.contains(name), "{ended:#?}");
        assert!(ended.stdout.contains("ops/s"), "{ended:#?}");
    }
}

/// Goal: several workloads follow each other on data that are loaded once, the database opened anew where writes are to be durable, and an engine that cannot scan does the others.
/// Method: four scenarios on two engines, which keep the time of their one load; then the same with data of their own, which is refused before anything is loaded.
#[test]
fn one_load_serves_several_workloads() {
    let directory = on_disk();
    let path = directory.path().to_string_lossy();
    let mut arguments = brief("ycsb_b", &path);
    arguments.extend(["ycsb_e", "durable", "ycsb_c", "--load-once", "--json"]);
    arguments.extend([
        "--engines",
        "kvsim,direct+fsync",
        "--set",
        "workload.value_bytes=100",
    ]);
    // One engine has no scans, and so no figure in that table.
    let ended = ends(&arguments, 3, &[]);
    let document: Value = serde_json::from_str(&ended.stdout).expect("it is JSON");
    let tables = document["tables"].as_array().expect("tables");
    let names = tables.iter().map(|table| table["scenario"].as_str());
    let asked = ["ycsb_b", "ycsb_e", "durable", "ycsb_c"].map(Some);
    assert!(names.eq(asked), "{document}");
    let mut loads = Vec::new();
    for (table, scenario) in tables.iter().zip(asked) {
        let engines = table["engines"].as_array().expect("engines");
        assert_eq!(engines.len(), 2, "{table}");
        for engine in engines {
            let rounds = engine["rounds"].as_array().expect("rounds");
            let is_missing = scenario == Some("ycsb_e") && engine["name"] == "direct+fsync";
            assert_eq!(rounds.len(), if is_missing { 0 } else { 3 }, "{engine}");
            // A round is short, and a flush of a busy disk may take all of it.
            let operations = rounds.iter().map(|round| round["operations"].as_u64());
            let operations: Option<u64> = operations.sum();
            assert!(is_missing || operations > Some(0), "{engine}");
            loads.push(engine["load"].clone());
        }
        // Four clients commit with one flush; where writes are relaxed, a flush serves many more.
        let sum = |count: &dyn Fn(&Value) -> Option<u64>| -> u64 {
            let rounds = engines[0]["rounds"].as_array().expect("rounds");
            rounds.iter().filter_map(count).sum()
        };
        let commits = sum(&|round| round["commits"].as_u64());
        let flushes = sum(&|round| {
            let mut own = round["engine_counters"].as_array()?.iter();
            own.find(|count| count[0] == "flushes")?[1].as_u64()
        });
        if commits > 0 {
            let is_durable = scenario == Some("durable");
            assert_eq!(flushes * 8 > commits, is_durable, "{table}");
        }
    }
    assert_eq!(loads[0]["keys"].as_u64(), Some(200), "{document}");
    assert!(loads.chunks(2).all(|pair| pair == &loads[..2]), "{loads:?}");

    let mut arguments = brief("ycsb_b", &path);
    arguments.truncate(5);
    arguments.extend(["large", "--load-once"]);
    let said = ["workload.keys of large is not that of ycsb_b", "--set"];
    ends(&arguments, 2, &said);
}

/// Goal: JSON holds every round with what the device counted, and agrees with itself. Method: parse it.
#[test]
fn json_holds_every_round() {
    let directory = on_disk();
    let path = directory.path().to_string_lossy();
    let mut arguments = brief("scenarios/bench/durable.toml", &path);
    arguments.push("--json");
    let ended = ends(&arguments, 0, &[]);
    let document: Value = serde_json::from_str(&ended.stdout).expect("it is JSON");
    assert_eq!(document["schema"], "kvsim.bench/2");
    let engine = &document["tables"][0]["engines"][0];
    assert_eq!(engine["name"], "kvsim");
    let rounds = engine["rounds"].as_array().expect("rounds");
    assert_eq!(rounds.len(), 3);
    for round in rounds {
        let commits = round["commits"].as_u64().expect("a number");
        assert!(commits > 0);
        assert_eq!(round["user_bytes"].as_u64(), Some(commits * 1040));
        assert_eq!(round["operations"].as_u64(), Some(commits));
        let engine = round["amplification"]["engine"].as_f64();
        assert!(engine.is_some_and(|ratio| ratio >= 1.0), "{round}");
        assert!(round["amplification"]["wake_ups_per_commit"].is_number());
    }
    let memory = &engine["memory"];
    if cfg!(target_os = "linux") {
        let [peak, now, mapped] = ["peak_bytes", "resident_bytes", "mapped_bytes"]
            .map(|name| memory[name].as_u64().expect("a number"));
        assert!(peak >= now && now > mapped && mapped > 0, "{memory}");
    }
}

/// Openings of 500 keys, with more than a pass of writes before each kill.
fn openings<'a>(directory: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let few = [
        "bench",
        "--real-disk",
        "--openings",
        "--dir",
        directory,
        "--rounds",
        "3",
        "--log-mib",
        "1",
        "--set",
        "workload.keys=500",
        "--set",
        "workload.preload=0",
    ];
    [&few[..], more].concat()
}

/// Goal: what was durable is there after each kill, each opening is timed and counted, and all formats say so. Method: three kills of each engine of this build
/// that keeps its word, a bounded index once; parse JSON, count lines.
#[test]
fn openings_after_a_crash_are_measured() {
    let directory = on_disk();
    let at = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let (folder, csv, markdown) = (at(""), at("openings.csv"), at("openings.md"));
    let mut engines = vec!["kvsim"];
    if cfg!(feature = "peers") {
        engines.extend(["fjall", "lmdb", "redb", "sqlite"]);
    }
    let named = engines.join(",");
    let more = ["--json", "--engines", &named, "--index-mib", "1"];
    let mut arguments = openings(&folder, &more);
    arguments.extend(["--csv", &csv, "--markdown", &markdown]);
    let ended = ends(&arguments, 0, &[]);
    let document: Value = serde_json::from_str(&ended.stdout).expect("it is JSON");
    assert_eq!(document["schema"], "kvsim.openings/1");
    let table = &document["tables"][0];
    assert_eq!(
        (&table["keys"], &table["log_bytes"]),
        (&500.into(), &(1 << 20).into())
    );
    let rows = table["engines"].as_array().expect("engines");
    assert_eq!(rows.len(), engines.len());
    for row in rows {
        assert!(row["wrong"].is_null() && row["failed"].is_null(), "{row}");
        let all = row["openings"].as_array().expect("openings");
        assert_eq!(all.len(), 3);
        for one in all {
            for name in ["open_ns", "first_get_ns", "gets_ns", "put_ns"] {
                assert!(one[name].as_u64().is_some_and(|ns| ns > 0), "{name}: {one}");
            }
        }
    }
    // What was durable before the kill was in no checkpoint yet, and was read again.
    let ours = rows[0]["openings"].as_array().expect("openings");
    let replayed = |one: &Value| {
        let counts = one["engine_counters"].as_array().expect("counts");
        let count = counts.iter().find(|pair| pair[0] == "replayed_bytes");
        count.and_then(|pair| pair[1].as_u64()).expect("a count")
    };
    assert!(ours.iter().any(|one| replayed(one) > 0), "{ended:#?}");
    let csv = std::fs::read_to_string(csv).expect("it was written");
    assert_eq!(csv.lines().count(), 1 + 3 * engines.len(), "{csv}");
    let markdown = std::fs::read_to_string(markdown).expect("it was written");
    assert!(markdown.contains("\n| kvsim "), "{markdown}");
}

/// Goal: the table of openings is for people, and options that say nothing there are refused. Method: one opening; a rate, tasks, and a log without openings.
#[test]
fn openings_have_options_of_their_own() {
    let directory = on_disk();
    let path = directory.path().to_string_lossy();
    let said = [
        "openings after SIGKILL",
        "open",
        "durable put",
        "500 keys",
        "of processor time",
    ];
    ends(&openings(&path, &[]), 0, &said);
    ends(&openings(&path, &["--rate", "5"]), 2, &["--rate"]);
    ends(&openings(&path, &["--tasks", "5"]), 2, &["--tasks"]);
    ends(
        &openings(
            &path,
            &["--set", "workload.keys=0", "--set", "workload.preload=0"],
        ),
        2,
        &["workload.keys"],
    );
    ends(
        &["bench", "--real-disk", "--log-mib", "7"],
        2,
        &["--openings"],
    );
}

/// Goal: tasks on one thread are measured as threads are, and an open loop keeps its rate. Method: both, briefly.
#[test]
fn tasks_and_rates_are_measured() {
    let directory = on_disk();
    let path = directory.path().to_string_lossy();
    let mut tasks = brief("scenarios/bench/durable.toml", &path);
    tasks.extend(["--tasks", "16"]);
    ends(&tasks, 0, &["tasks on one thread"]);
    let mut open = brief("scenarios/bench/ycsb_c.toml", &path);
    open.extend(["--rate", "500"]);
    ends(&open, 0, &["open loop at 500/s"]);
}

/// Goal: what would be measured wrong is not measured. Method: memory for a disk, two kinds of durability in one, an engine that is
/// not there, no rounds, a directory that is not there.
#[test]
fn what_would_mislead_is_refused() {
    let bench = ["bench", "--real-disk", "scenarios/bench/durable.toml"];
    let with = |more: &[&'static str]| [&bench[..], more].concat();
    if std::path::Path::new("/dev/shm").is_dir() {
        ends(
            &with(&["--dir", "/dev/shm"]),
            2,
            &["/dev/shm", "in memory", "--dir"],
        );
    }
    ends(
        &with(&["--set", "workload.durable_fraction=0.5"]),
        2,
        &["durable_fraction", "--durability"],
    );
    ends(
        &with(&["--engines", "kvsim,levelkb"]),
        2,
        &["levelkb", "kvsim"],
    );
    ends(&with(&["--rounds", "0"]), 2, &["--rounds"]);
    ends(&with(&["--rate=-3"]), 2, &["--rate"]);
    ends(&with(&["--dir", "no/such/place"]), 2, &["no/such/place"]);
    ends(
        &with(&["--set", "workload.operations.sync=1"]),
        2,
        &["workload.operations.sync"],
    );
}

/// Goal: `all` measures every engine that is here in one table, and says how to get those that are not. Method: this build's.
#[test]
fn all_engines_stand_in_one_table() {
    let directory = on_disk();
    let path = directory.path().to_string_lossy();
    let mut all = brief("scenarios/bench/durable.toml", &path);
    all.extend(["--engines", "all"]);
    let named: &[&str] = if cfg!(feature = "peers") {
        &[
            "kvsim",
            "fjall",
            "lmdb",
            "redb",
            "sled",
            "sqlite",
            "not as durable",
        ]
    } else {
        &["kvsim", "--features kvsim/peers"]
    };
    ends(&all, 0, named);
    all.push("--engines=kvsim");
    ends(&all, 2, &["--engines all"]);
}

/// Goal: without a real disk the same workload is predicted. Method: the summary's prediction.
#[test]
fn without_a_disk_it_is_predicted() {
    let arguments = [
        "bench",
        "scenarios/bench/durable.toml",
        "--set",
        "workload.keys=200",
        "--set",
        "workload.preload=0",
    ];
    let ended = ends(&arguments, 0, &["predicted", "put durable"]);
    assert!(ended.line("predicted").is_some());
}

/// Goal: a profile is a file wherever it lies, or the name of one that ships; and nothing else. Method: each, with the built-in workload.
#[test]
fn a_profile_is_a_file_or_a_name() {
    let few = ["--set", "workload.keys=200", "--set", "workload.preload=0"];
    let bench = |profile: &str, code, parts: &[&str]| {
        let arguments = [&["bench", "--profile", profile], &few[..]].concat();
        ends(&arguments, code, parts);
    };
    bench("scenarios/profiles/hard_disk.toml", 0, &["predicted"]);
    bench("hard_disk", 0, &["on hard_disk"]);
    bench(
        "hard_dis",
        2,
        &["--profile hard_dis", "kvsim calibrate", "hard_disk"],
    );
    bench("scenarios", 2, &["--profile scenarios", "no file"]);
}

/// Goal: the figures go on into other programs. Method: a row for each round in CSV, a row for each engine in Markdown.
#[test]
fn tables_for_other_programs_are_written() {
    let directory = on_disk();
    let at = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let (folder, csv, markdown) = (at(""), at("bench.csv"), at("bench.md"));
    let mut arguments = brief("durable", &folder);
    arguments.extend(["--csv", &csv, "--markdown", &markdown]);
    ends(&arguments, 0, &["ops/s"]);
    let csv = std::fs::read_to_string(csv).expect("it was written");
    assert_eq!(csv.lines().count(), 1 + 3, "{csv}");
    assert!(
        csv.lines()
            .nth(1)
            .is_some_and(|line| line.starts_with("durable,full,4,kvsim,")),
        "{csv}"
    );
    let markdown = std::fs::read_to_string(markdown).expect("it was written");
    assert!(markdown.contains("\n| kvsim "), "{markdown}");
}
