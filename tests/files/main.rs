//! A guest that keeps its data in files is run, explored, made small and replayed as one on a device is.
#![allow(
    missing_docs,
    clippy::print_stdout,
    reason = "a test, which says what it saw"
)]

mod ledger;

use std::num::NonZeroUsize;
use std::sync::Arc;

use kvsim_harness::blame::{BlameVerdict, blame};
use kvsim_harness::control::Control;
use kvsim_harness::explore::sync_places::PlaceEnd;
use kvsim_harness::explore::{Exploration, ExploreReport};
use kvsim_harness::left::{left_by_last_crash, text, write_files};
use kvsim_harness::scenario::{Scenario, load, parse};
use kvsim_harness::summary::{Reproduction, Verdict};
use kvsim_harness::syncs::{LeaveOut, leave_out_each};
use kvsim_tests::{Program, all_cores, run};
use ledger::{Flaw, ledger};

/// One client writes, deletes and reads a few keys.
fn scenario(sets: &[&str]) -> Scenario {
    let text = r#"
        profile = "nvme_consumer"
        [run]
        seeds = "1"
        crashes = 60
        events_per_crash = 40
        process_weight = 1
        [workload]
        kind = "custom"
        clients = 1
        keys = 8
        value_bytes = { min = 28, max = 700 }
        operations = { put = 60, delete = 15, batch = 15, get = 10 }
        [explore]
        operations = 12
        subset_writes = 3
        tear_sectors = 2
        again_every = 16
        [files]
        profile = "posix"
    "#;
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    parse("files", "files", text.to_owned(), None, &sets).unwrap_or_else(|error| panic!("{error}"))
}

fn exploration(scenario: Scenario, program: &Arc<dyn Program>) -> Exploration {
    Exploration {
        seed: scenario.run.seeds.start,
        scenario: Arc::new(scenario),
        program: Arc::clone(program),
        jobs: all_cores(),
        shard: None,
        strict: false,
        failures: None,
        skip_seen: true,
        minimise: false,
    }
}

fn explore(exploration: &Exploration) -> ExploreReport {
    let report = exploration.run(&Control::default());
    report.unwrap_or_else(|error| panic!("{error}"))
}

/// Goal: a correct engine on files passes, power cuts and killed processes at any step. Method: 60 crashes of one seed, twice, which must be the same.
#[test]
fn a_correct_engine_survives_random_crashes() {
    let program = ledger(Flaw::Nothing);
    let (one, other) = (
        run(scenario(&[]), &program, NonZeroUsize::MIN),
        run(scenario(&[]), &program, all_cores()),
    );
    assert_eq!(one.verdict, Verdict::Pass, "{:?}", one.failure);
    assert_eq!(one.trace_hash, other.trace_hash);
    assert!(one.tally.crashes_with_pending > 0 && one.tally.writes_checked() > 0);
    println!(
        "{} crashes, {} with something pending, {} writes checked, {} events",
        one.tally.crashes(),
        one.tally.crashes_with_pending,
        one.tally.writes_checked(),
        one.tally.events
    );
}

/// Goal: an engine that answers a failed read, write or sync with an error is not reported. Method: the correct engine, with each fault by chance, which
/// has to fire.
#[test]
fn an_engine_that_reports_errors_of_files_is_correct() {
    for fault in ["read_error", "sync_error", "no_space_write"] {
        let set = format!("files.faults.{fault}=0.05");
        let result = run(scenario(&[&set]), &ledger(Flaw::Nothing), all_cores());
        assert!(result.failure.is_none(), "{fault}: {:?}", result.failure);
        assert!(result.tally.faults[fault].fired > 0, "{fault}");
    }
}

/// Goal: of a correct engine every state is legal. Method: all states of twelve requests under three profiles, and at depth 2 those of four.
#[test]
fn a_correct_engine_survives_every_state() {
    for profile in ["posix", "ext4_ordered", "process_kill"] {
        for (operations, depth) in [(12, 1), (4, 2)] {
            let sets = [
                format!("files.profile={profile}"),
                format!("explore.operations={operations}"),
                format!("explore.depth={depth}"),
                "explore.work=2".to_owned(),
            ];
            let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
            let report = explore(&exploration(scenario(&sets), &ledger(Flaw::Nothing)));
            let total = report.total();
            println!(
                "{profile}, depth {depth}: {} points, {} states, {} distinct, {} checked, {} recoveries, {:?}",
                report.points_asked,
                total.possible,
                total.distinct,
                total.checked,
                total.recoveries,
                total.left_out,
            );
            assert_eq!(report.failures.len(), 0, "{profile}: {:?}", report.failures);
            if profile != "process_kill" {
                assert_eq!(report.verdict, Verdict::Pass);
            }
        }
    }
}

/// Goal: every mistake is found, and made small: at most five requests, and the file that is saved fails in the same way, to the event.
/// Method: each under the weakest profile, with 12 requests.
#[test]
fn every_mistake_is_found_and_made_small() {
    for flaw in [
        Flaw::NoDirectorySync,
        Flaw::NoLogSync,
        Flaw::RenameWithoutSync,
        Flaw::RemovesFirst,
        Flaw::RenamesOver,
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let program = ledger(flaw);
        let mut exploration = exploration(scenario(&[]), &program);
        exploration.failures = Some(directory.path().to_path_buf());
        exploration.minimise = true;
        let report = explore(&exploration);
        assert_eq!(report.verdict, Verdict::Violation, "{flaw:?}");
        let failure = &report.failures[0];
        let file = failure.file.as_deref().expect("it is saved");
        let saved = load(file, &[]).unwrap_or_else(|error| panic!("{error}"));
        let case = saved.case.clone().expect("its steps");
        println!(
            "{flaw:?}: {} requests, {} crashes: {failure:?}",
            case.requests(),
            case.crashes()
        );
        assert!(case.requests() <= 5, "{flaw:?}: {}", case.requests());
        // On files nothing but a sync is tried, so that no sync helps proves nothing.
        let blame = failure.blame.as_ref().expect("it is looked for");
        assert_ne!(blame.verdict(), BlameVerdict::NotOrdering, "{flaw:?}");
        let again = run(saved, &program, NonZeroUsize::MIN);
        let failure = again.failure.unwrap_or_else(|| panic!("{flaw:?} passes"));
        assert_eq!(failure.reproduced, Some(Reproduction::Exact), "{flaw:?}");
    }
}

/// Goal: what a file system promises counts. Method: an engine that renames over its only snapshot, which the weakest profile does not allow, under profiles
/// in which a rename is atomic; and one that syncs no directory, under one in which a killed process is all that happens.
#[test]
fn a_stronger_file_system_hides_mistakes() {
    for (flaw, profile, operations) in [
        (Flaw::RenamesOver, "ext4_ordered", 12),
        (Flaw::RenamesOver, "btrfs", 12),
        (Flaw::NoDirectorySync, "process_kill", 12),
    ] {
        let sets = [
            format!("files.profile={profile}"),
            format!("explore.operations={operations}"),
        ];
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let report = explore(&exploration(scenario(&sets), &ledger(flaw)));
        assert_eq!(report.failures.len(), 0, "{flaw:?} {profile}");
        assert!(report.total().checked > 10, "{flaw:?} {profile}");
    }
}

/// Goal: a scenario is of a device or of files. Method: tables of the one beside the other.
#[test]
fn a_device_beside_files_is_refused() {
    for (set, wanted) in [
        (
            "device.capacity_bytes=1048576",
            "`[device]` is of a block device",
        ),
        ("faults.torn=1.0", "`[faults]` is of a block device"),
        ("files.profile=ext9", "ext9"),
        ("files.capacity_bytes=5", "multiple of the page"),
    ] {
        let text = "[files]\nprofile = 'posix'\n".to_owned();
        let error = parse("files", "files", text, None, &[set.to_owned()]).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(wanted), "{set}: {error}");
    }
}

/// Goal: the files that are written are those before the failing recovery, and the answers show the failure. Method: an engine that syncs no directory loses
/// a write: the directory has no log, the reopened engine no key. A case without a crash has no such files.
#[test]
fn the_files_of_the_last_crash_are_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = ledger(Flaw::NoDirectorySync);
    let mut exploration = exploration(scenario(&[]), &program);
    exploration.failures = Some(directory.path().to_path_buf());
    exploration.minimise = true;
    let report = explore(&exploration);
    let file = report.failures[0].file.as_deref().expect("it is saved");
    let saved = load(file, &[]).unwrap_or_else(|error| panic!("{error}"));
    let mut case = saved.case.clone().expect("its steps");
    let seed = saved.run.seeds.start;
    let left = left_by_last_crash(&saved, &case, &program, seed).expect("it has a crash");
    let to = directory.path().join("crashed");
    write_files(&left.files, &to).expect("it can be written");
    let mut written: Vec<String> = std::fs::read_dir(&to)
        .expect("it is there")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("UTF-8")
        })
        .collect();
    written.sort();
    let listed: Vec<String> = left
        .files
        .list()
        .iter()
        .map(|file| String::from_utf8_lossy(&file.path).into_owned())
        .collect();
    assert_eq!(written, listed);
    let words = text(&left, "crashed");
    println!("{words}");
    assert!(words.contains("power cut after event"), "{words}");
    assert!(words.contains("not found"), "{words}");

    for process_run in &mut case.process_runs {
        process_run.crash = None;
    }
    let error = left_by_last_crash(&saved, &case, &program, seed).unwrap_err();
    assert!(error.contains("no crash"), "{error}");
}

/// Goal: each sync of a correct engine on files is needed, is noticed where the host leaves it out, and is named by blame, with any number of threads.
/// Method: the syncs of each of its three places left out, with one thread and with all cores.
#[test]
fn each_sync_that_is_left_out_is_caught_and_blamed() {
    let program = ledger(Flaw::Nothing);
    let directory = tempfile::tempdir().expect("a directory");
    let how = LeaveOut {
        each_call: false,
        only: Vec::new(),
        states_max: 20_000,
        limit: std::time::Duration::from_secs(600),
    };
    let leave_out = |jobs| {
        let mut exploration = exploration(scenario(&[]), &program);
        exploration.jobs = jobs;
        exploration.minimise = true;
        exploration.failures = Some(directory.path().to_path_buf());
        leave_out_each(&exploration, &how, &Control::default(), |_| {})
            .unwrap_or_else(|error| panic!("{error}"))
    };
    let report = leave_out(NonZeroUsize::MIN);
    assert_eq!(report.control.0, None, "it passes with all syncs");
    let places: Vec<&str> = report
        .lines
        .iter()
        .map(|line| line.place.frames[0].function.as_str())
        .collect();
    assert_eq!(places, ["Snapshot", "Renamed", "Write"]);
    for line in &report.lines {
        let caught = matches!(line.left_out.end, PlaceEnd::Caught(_));
        assert!(caught, "{:?}", line.left_out);
        let blamed = line.blamed.as_ref().expect("it was caught");
        let blamed = blamed.as_ref().unwrap_or_else(|why| panic!("{why}"));
        assert!(blamed.is_right, "{:?}: {}", line.place.frames, blamed.blame);
    }
    let said = |report: &kvsim_harness::syncs::Report| {
        let lines = report.lines.iter().map(|line| {
            let blamed = line.blamed.as_ref().and_then(|it| it.as_ref().ok());
            let said = blamed.map(|it| it.blame.clone());
            (line.left_out.states, line.left_out.points, said)
        });
        lines.collect::<Vec<_>>()
    };
    assert_eq!(said(&report), said(&leave_out(all_cores())));
}

/// Goal: a sync that the host leaves out is named although the engine has a mistake of its own near by. Method: an engine that cannot be opened after a crash
/// while it made its first files, without the syncs of its log, and without those of its directory.
#[test]
fn a_mistake_of_the_engines_own_hides_no_missing_sync() {
    let program = ledger(Flaw::RefusesHalfMade);
    let directory = tempfile::tempdir().expect("a directory");
    let mut exploration = exploration(scenario(&[]), &program);
    exploration.minimise = true;
    exploration.failures = Some(directory.path().to_path_buf());
    let how = LeaveOut {
        each_call: false,
        only: Vec::new(),
        states_max: 20_000,
        limit: std::time::Duration::from_secs(600),
    };
    let report = leave_out_each(&exploration, &how, &Control::default(), |_| {})
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(report.control.0.is_some(), "it fails with all syncs");
    for function in ["Write", "Renamed"] {
        let mut lines = report.lines.iter();
        let line = lines.find(|line| line.place.frames[0].function == function);
        let line = line.expect("it syncs there");
        assert!(matches!(line.left_out.end, PlaceEnd::Caught(_)));
        let blamed = line.blamed.as_ref().expect("it was caught");
        let blamed = blamed.as_ref().unwrap_or_else(|why| panic!("{why}"));
        assert!(blamed.is_right, "{function}: {}", blamed.blame);
    }
}

/// Goal: what an engine does wrong while it makes its file hides no missing sync, where that sync makes its mistake easier to see. Method: an engine of one file
/// whose directory it never syncs, and which it cannot open half made: a case that loses a write is blamed on the directory.
#[test]
fn a_sync_that_shows_another_mistake_is_blamed() {
    let program = ledger(Flaw::OneFile);
    let directory = tempfile::tempdir().expect("a directory");
    let mut exploration = exploration(scenario(&["explore.violations_max=60"]), &program);
    exploration.failures = Some(directory.path().to_path_buf());
    let report = explore(&exploration);
    let mut files = report.failures.iter().filter_map(|it| it.file.as_deref());
    let load = |file: &std::path::Path| load(file, &[]).unwrap_or_else(|error| panic!("{error}"));
    let sentence = |scenario: &Scenario| scenario.failure.as_ref().map(|it| it.sentence.clone());
    let has =
        |file: &std::path::Path, words| sentence(&load(file)).is_some_and(|it| it.contains(words));
    assert!(files.clone().any(|file| has(file, "it is no log")));
    let lost = files
        .find(|file| has(file, "did not survive"))
        .expect("a loss");
    let blame = blame(&load(lost), &program, all_cores(), &Control::default());
    let blame = blame.unwrap_or_else(|why| panic!("{why}"));
    let fixes: Vec<&str> = blame.fixes.iter().map(|it| it.sentence.as_str()).collect();
    assert!(
        fixes
            .iter()
            .any(|it| it.starts_with("a sync of the directory after call")),
        "{fixes:?}"
    );
}
