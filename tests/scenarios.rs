//! Every scenario that ships: it loads, it says in full what it does, and it ends as its header says. Shortened, since the
//! full length is for `kvsim run`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use kvsim_harness::scenario::{Expect, explain, parse};
use kvsim_harness::summary::Verdict;
use kvsim_tests::{Program, all_cores, builtin_guest, run, scenario, toml_files};

fn engine() -> Arc<dyn Program> {
    static ENGINE: OnceLock<Arc<dyn Program>> = OnceLock::new();
    Arc::clone(ENGINE.get_or_init(builtin_guest))
}

/// Runs a scenario with fields changed, and holds its end against what it expects.
fn ends_as_it_says(name: &str, sets: &[&str]) {
    let report = run(
        scenario(format!("scenarios/{name}.toml"), sets),
        &engine(),
        all_cores(),
    );
    assert_eq!(
        report.verdict,
        Verdict::Pass,
        "{name}: {:#?}",
        report.failure
    );
    assert!(
        report.tally.crashes() > 0 && report.tally.writes_checked() > 0,
        "{name} checked nothing"
    );
}

macro_rules! shipped {
    ($($name:ident: $sets:expr;)*) => {
        $(
            #[test]
            fn $name() {
                ends_as_it_says(stringify!($name), &$sets);
            }
        )*

        /// What has a test here.
        const TESTED: &[&str] = &[$(stringify!($name)),*];
    };
}

shipped! {
    appending: ["run.seeds=1..3", "run.crashes=10"];
    as_library: ["run.seeds=1..61"];
    bad_openings: ["run.seeds=1..201"];
    bad_sectors: ["run.seeds=1..5"];
    barrier: ["run.seeds=1..3", "run.crashes=40"];
    bit_rot: ["run.seeds=1..7", "run.crashes=40"];
    crash_in_recovery: ["run.seeds=1..3", "run.crashes=60"];
    disk_full: ["run.seeds=1..3", "run.crashes=12"];
    durable_8_clients: ["run.seeds=1..2", "run.crashes=2", "run.events_per_crash=8000"];
    explore_deep: ["run.seeds=1..3", "run.crashes=60"];
    explore_errors: ["run.seeds=2..4", "run.crashes=60"];
    explore_long: ["run.seeds=1..2", "run.crashes=40"];
    explore_small: ["run.seeds=1..3", "run.crashes=60"];
    few_changes: ["run.seeds=1..3", "run.crashes=30"];
    flush_error: ["run.seeds=1..3", "run.crashes=40"];
    flush_lies: ["run.seeds=1..3", "run.crashes=30"];
    growing_errors: ["run.seeds=13..15"];
    growing_lies: ["run.seeds=1..9"];
    just_fits: ["run.seeds=1..41"];
    kitchen_sink: ["run.seeds=1..9", "run.crashes=20"];
    large_values: ["run.seeds=1..2", "run.crashes=4"];
    limits: ["run.seeds=1..21", "run.crashes=6"];
    little_index: ["run.seeds=1..3", "run.crashes=20"];
    little_memory: ["run.seeds=1..3", "run.crashes=2"];
    loading: ["run.seeds=1..3", "run.crashes=20"];
    many_segments: ["run.seeds=1..2", "run.crashes=4"];
    misdirected: ["run.seeds=1..7", "run.crashes=40"];
    mixed: ["run.seeds=1..2", "run.crashes=4", "run.events_per_crash=1000", "workload.preload=500", "workload.keys=500"];
    powercut: ["run.seeds=1..5", "run.crashes=60"];
    process_crash: ["run.seeds=1..3", "run.crashes=60"];
    promises: ["run.seeds=1..41"];
    relaxed_window: ["run.seeds=1..5", "run.crashes=20"];
    reopened: ["run.seeds=1..5", "run.crashes=20"];
    reorder: ["run.seeds=1..3", "run.crashes=60"];
    segments_astray: ["run.seeds=6..8", "run.crashes=30"];
    segments_lost: ["run.seeds=116..118"];
    short_runs: ["run.seeds=1..3"];
    small_faults: ["run.seeds=1..201"];
    small_full: ["run.seeds=1..101"];
    small_index: ["run.seeds=1..41"];
    small_swarm: ["run.seeds=1..201"];
    space: ["run.seeds=1..2", "run.crashes=3"];
    space_large: ["run.seeds=1..2", "run.crashes=2"];
    space_returns: ["run.seeds=2..4", "run.crashes=2", "run.events_per_crash=8000"];
    swarm: ["run.seeds=1..41"];
    torn_superblock: ["run.seeds=1..3", "run.crashes=60"];
    torn_unreadable: ["run.seeds=1..3", "run.crashes=60"];
    torn_write: ["run.seeds=1..3", "run.crashes=60"];
    write_error: ["run.seeds=1..3", "run.crashes=40"];
    write_error_protected: ["run.seeds=5..9", "run.crashes=40"];
}

/// Goal: what that scenario is about happens in it, and not in `small_index`. Method: the coverage points of it.
#[test]
fn the_engine_is_used_as_the_library_uses_it() {
    for (name, so) in [("as_library", true), ("small_index", false)] {
        let short = scenario(format!("scenarios/{name}.toml"), &["run.seeds=1..41"]);
        let report = run(short, &engine(), all_cores());
        assert_eq!(report.verdict, Verdict::Pass, "{:#?}", report.failure);
        let missed: Vec<&str> = report.coverage.missed().collect();
        for point in [
            "index.entry_found_outside",
            "index.scan_joined_outside",
            "index.range_read",
            "write.promise_kept",
        ] {
            assert_eq!(!missed.contains(&point), so, "{name}: {point}");
        }
    }
}

fn stem(path: &Path) -> String {
    path.file_stem()
        .expect("a file has a name")
        .to_string_lossy()
        .into_owned()
}

/// The scenarios that are crashed, those for engines that use files among them.
fn to_crash() -> impl Iterator<Item = PathBuf> {
    let folders = ["scenarios", "scenarios/files"].into_iter();
    folders.flat_map(toml_files)
}

/// Goal: no scenario ships untested. Those for engines that use files are run with the engines of `kvsim new-guest`. Method: the folder and the list above.
#[test]
fn every_shipped_scenario_has_a_test() {
    let shipped: Vec<String> = toml_files("scenarios")
        .iter()
        .map(|path| stem(path))
        .collect();
    assert_eq!(shipped, TESTED);
}

/// Goal: whoever looks for a scenario finds it in the book. Method: the folder, and the book's table.
#[test]
fn the_book_lists_every_shipped_scenario() {
    let page = include_str!("../book/src/scenarios.md");
    for path in to_crash() {
        let row = format!("\n| `{}` | ", stem(&path));
        assert!(page.contains(&row), "no row for {}", path.display());
    }
}

/// Goal: a scenario is called as its file is, says what it is for, and its header's last word is what it expects.
#[test]
fn headers_say_what_the_scenarios_expect() {
    for path in to_crash() {
        let loaded = scenario(&path, &[]);
        assert_eq!(loaded.name, stem(&path));
        assert!(!loaded.description.is_empty(), "{}", loaded.name);
        let text = std::fs::read_to_string(&path).expect("it was just read");
        let header: String = text
            .lines()
            .take_while(|line| line.starts_with('#'))
            .map(|line| &line[1..])
            .collect();
        let end = header
            .split("It must end with:")
            .nth(1)
            .unwrap_or_else(|| panic!("{} does not say how it ends", loaded.name));
        assert!(end.trim().starts_with("PASS"), "{}: {end}", loaded.name);
        let damage = end.contains("PASS, with damage reported");
        assert_eq!(
            damage,
            loaded.expect == Expect::DamageReported,
            "{}: {end}",
            loaded.name
        );
    }
}

/// Goal: what `explain` prints is the scenario. Method: load it again; nothing is changed and nothing left out.
#[test]
fn an_explained_scenario_is_the_same_scenario() {
    for path in toml_files("scenarios")
        .iter()
        .chain(&toml_files("tests/broken"))
    {
        let loaded = scenario(path, &[]);
        let seed = loaded.run.seeds.start;
        let mut loaded = loaded.of_seed(seed).expect("it was drawn").into_owned();
        let text = explain(&loaded);
        let again = parse("explained", &stem(path), text, None, &[])
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        // The profile is written out in full, and so is no longer named.
        loaded.profile = again.profile.clone();
        assert_eq!(again, loaded, "{}", path.display());
    }
}
