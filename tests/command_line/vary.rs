//! A scenario that is another one for each seed, as its user meets it.

use std::path::Path;

use crate::{ends, kvsim};

/// Half the seeds have a client whose relaxed writes are held to a promise that nobody gave.
const UNKEPT: &str = "name = \"unkept\"\n[run]\nseeds = \"1..20\"\ncrashes = 10\nevents_per_crash = 1000\n\
    [workload]\ndurable_fraction = 0.0\n[vary]\n\
    clients = [{ workload.clients = 3 }, { workload.clients = 5 }]\n\
    promise = [{}, { check.relaxed_window_ns = 1 }]\n";

fn only_file(directory: &Path) -> String {
    let mut files = std::fs::read_dir(directory).expect("failing cases are saved there");
    let file = files
        .next()
        .expect("one was saved")
        .expect("it is readable");
    assert!(files.next().is_none());
    file.path().display().to_string()
}

/// Goal: a seed's own scenario can be had, and is what the seed ran. Method: the trace of both.
#[test]
fn the_scenario_of_a_seed_can_be_taken_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("one.toml");
    let said = "Seed 5 took ";
    let explained = ends(
        &["explain", "scenarios/swarm.toml", "--seed", "5"],
        0,
        &[said],
    );
    assert!(!explained.stdout.contains("[vary"), "{explained:#?}");
    std::fs::write(&path, &explained.stdout).expect("it can be written");
    let taken_out = ends(&["run", &path.display().to_string()], 0, &["PASS"]);
    let in_place = ends(
        &["run", "scenarios/swarm.toml", "--seed", "5"],
        0,
        &["PASS"],
    );
    assert_eq!(taken_out.line("traces"), in_place.line("traces"));
    let first = ends(&["explain", "scenarios/swarm.toml"], 0, &["Seed 1 took "]);
    assert_ne!(first.stdout, explained.stdout);
}

/// Goal: a failing case is complete in itself: what the seed drew is in it, and replays to the same failure.
#[test]
fn a_failing_case_has_what_its_seed_drew() {
    let directory = tempfile::tempdir().expect("a directory");
    let (file, failures) = (
        directory.path().join("unkept.toml"),
        directory.path().join("failures"),
    );
    std::fs::write(&file, UNKEPT).expect("it can be written");
    let arguments = [
        "run",
        &file.display().to_string(),
        "--failures",
        &failures.display().to_string(),
    ];
    ends(&arguments, 1, &["VIOLATION"]);
    let case = only_file(&failures);
    let text = std::fs::read_to_string(&case).expect("it can be read");
    for part in ["relaxed_window_ns = 1 ", " took clients[", "promise[1]"] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    assert!(!text.contains("[vary"), "{text}");
    ends(&["replay", &case], 1, &["Reproduced exactly"]);
}

/// Goal: whatever takes a seed takes what that seed drew. Method: the same of the seed's scenario, taken out.
#[test]
fn time_lines_and_explorations_are_of_what_the_seed_drew() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("one.toml");
    let explained = ends(&["explain", "scenarios/swarm.toml", "--seed", "3"], 0, &[]);
    std::fs::write(&path, &explained.stdout).expect("it can be written");
    let path = path.display().to_string();
    let trace = |file: &str| ends(&["trace", file, "--seed", "3", "--limit", "400"], 0, &[]).stdout;
    assert_eq!(trace("scenarios/swarm.toml"), trace(&path));
    let explored = |file: &str| {
        let few = [
            "--set",
            "explore.operations=5",
            "--set",
            "explore.states_per_point=20",
        ];
        let ended = ends(
            &[&["explore", file, "--seed", "3"], &few[..]].concat(),
            0,
            &["PASS"],
        );
        ["requests", "crash points", "crash states"]
            .map(|label| ended.line(label).map(str::to_owned))
    };
    let taken_out = explored(&path);
    assert!(taken_out.iter().any(Option::is_some), "{taken_out:?}");
    assert_eq!(explored("scenarios/swarm.toml"), taken_out);
}

/// Goal: the first seed that fails or cannot be run decides, however many run side by side. Method: a violation before and behind a
/// seed that the guest refuses.
#[test]
fn the_first_seed_decides_whatever_comes_first() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("both.toml");
    let text = UNKEPT.replace(
        "promise = [{},",
        "promise = [{ guest.options.nonsense = 1 },",
    );
    std::fs::write(&path, text).expect("it can be written");
    let path = path.display().to_string();
    let mut ends_of = std::collections::BTreeSet::new();
    for seeds in ["1..20", "2..20", "3..20", "4..20", "5..20", "6..20"] {
        let run = |jobs: &str| {
            let failures = directory.path().display().to_string();
            let ended = kvsim(&[
                "run",
                &path,
                "--seeds",
                seeds,
                "-j",
                jobs,
                "--failures",
                &failures,
            ]);
            (
                ended.code,
                ended.line("traces").map(str::to_owned),
                ended.stderr,
            )
        };
        let alone = run("1");
        assert_eq!(alone, run("4"), "{seeds}");
        ends_of.insert(alone.0);
    }
    assert_eq!(ends_of, [Some(1), Some(2)].into());
}

/// Goal: what has one workload only is not fed with many, and what fits nothing is wrong usage.
#[test]
fn what_cannot_be_is_refused() {
    ends(
        &["bench", "scenarios/swarm.toml"],
        2,
        &["varies by seed", "--seed N"],
    );
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("never.toml");
    let text =
        "[vary]\na = [{ device.cache = \"write_through\" }]\nb = [{ faults.flush_lie = 0.5 }]\n";
    std::fs::write(&path, text).expect("it can be written");
    let path = path.display().to_string();
    for command in ["run", "explore", "trace", "explain"] {
        ends(
            &[command, &path],
            2,
            &["the other dimensions of [vary]", "never.toml:3:27"],
        );
    }
    ends(
        &["run", "scenarios/swarm.toml", "--set", "vary.a=3"],
        2,
        &["--set vary", "stands in a scenario's file"],
    );
}
