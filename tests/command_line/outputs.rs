//! What the program prints: for people, for programs, for shells.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use kvsim_tests::command;
use serde_json::Value;

use crate::{PROGRAM, SHORT, ends, kvsim};

fn short<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&["run"], arguments, &SHORT[..]].concat()
}

/// Goal: a clean run ends with 0, and says at once what was done. Method: the summary's lines.
#[test]
fn a_clean_run_is_summed_up() {
    let ended = ends(
        &short(&["scenarios/powercut.toml"]),
        0,
        &["PASS", "nothing acknowledged was lost", "crashes deep"],
    );
    for label in [
        "seeds",
        "crashes",
        "writes checked",
        "recoveries",
        "faults fired",
        "predicted",
        "simulated",
        "traces",
    ] {
        assert!(ended.line(label).is_some(), "no `{label}`: {ended:#?}");
    }
    assert!(
        !ended.stdout.contains('\u{1b}'),
        "colours in a pipe: {ended:#?}"
    );
}

/// Goal: JSON is JSON and nothing else, and names its schema. Method: parse it; of a clean run and of one that found something.
#[test]
fn json_is_all_that_is_printed() {
    let parse = |text: &str| {
        serde_json::from_str::<Value>(text).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    let clean = ends(&short(&["scenarios/powercut.toml", "--json"]), 0, &[]);
    let document = parse(&clean.stdout);
    assert_eq!(document["schema"], "kvsim.run/2");
    assert_eq!(document["exit_code"], 0);
    assert_eq!(document["runs"][0]["crashes"]["total"], 10);
    let hash = document["runs"][0]["trace_hash"]
        .as_str()
        .expect("a hash")
        .to_owned();
    let plain = kvsim(&short(&["scenarios/powercut.toml"]));
    assert!(
        plain.stdout.contains(&hash),
        "the same run has the same hash: {plain:#?}"
    );

    let directory = tempfile::tempdir().expect("a directory");
    let failures = directory.path().to_string_lossy();
    let guest = kvsim_tests::naive_guest().to_string_lossy();
    let broken = [
        "run",
        "tests/broken/prefix.toml",
        "--set",
        "guest.options.break=prefix",
        "--guest",
        &guest,
        "--failures",
        &failures,
        "--json",
    ];
    let found = ends(&broken, 1, &[]);
    let document = parse(&found.stdout);
    assert_eq!(document["exit_code"], 1);
    assert_eq!(document["runs"][0]["failure"]["property"], "prefix");
    let file = document["runs"][0]["failure"]["file"]
        .as_str()
        .expect("it was saved");
    assert!(Path::new(file).is_file(), "{file}");
}

/// Goal: a CI server is told in its own words. Method: the file of a run that found something.
#[test]
fn junit_holds_the_failure() {
    let directory = tempfile::tempdir().expect("a directory");
    let (failures, junit) = (
        directory.path().to_string_lossy(),
        directory.path().join("junit.xml"),
    );
    let (guest, file) = (
        kvsim_tests::naive_guest().to_string_lossy(),
        junit.to_string_lossy(),
    );
    let broken = [
        "run",
        "tests/broken/prefix.toml",
        "--set",
        "guest.options.break=prefix",
        "--guest",
        &guest,
        "--failures",
        &failures,
        "--junit",
        &file,
    ];
    ends(&broken, 1, &["prefix"]);
    let text = std::fs::read_to_string(&junit).expect("it was written");
    assert!(text.starts_with("<?xml"), "{text}");
    assert!(
        text.contains("<failure") && text.contains("prefix"),
        "{text}"
    );
    assert_eq!(
        text.matches("<testsuite ").count(),
        text.matches("</testsuite>").count(),
        "{text}"
    );
}

/// Goal: a trace has an event a line, and looking changes nothing. Method: the hash with and without.
#[test]
fn a_trace_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace.txt");
    let file = path.to_string_lossy();
    let with = ends(
        &short(&["scenarios/powercut.toml", "--trace", &file]),
        0,
        &[],
    );
    let without = kvsim(&short(&["scenarios/powercut.toml"]));
    assert_eq!(with.line("traces"), without.line("traces"));
    let text = std::fs::read_to_string(&path).expect("it was written");
    for part in ["seed 1", "seed 2", "submit", "complete", "reply", "crash"] {
        assert!(text.contains(part), "no `{part}` in the trace");
    }
}

/// Goal: every fault that fires is a line of the trace, under the event with which it fires. Method: a device that loses, tears and delays; the lines are held against
/// the counts of the report and of the cuts.
#[test]
fn every_fault_is_a_line_of_the_trace() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace.txt");
    let file = path.to_string_lossy();
    let mut arguments = short(&["scenarios/powercut.toml", "--trace", &file, "--json"]);
    arguments.extend(["--set", "faults.lost_write=0.01"]);
    let ended = kvsim(&arguments);
    let report: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let text = std::fs::read_to_string(&path).expect("it was written");
    let lines = |words: &str| {
        let faults = text.lines().filter(|line| line.contains("  fault     op "));
        faults.filter(|line| line.contains(words)).count() as u64
    };
    let faults = report["runs"][0]["faults"].as_array().expect("counts");
    for (kind, words) in [
        ("lost_write", "it is acknowledged and never happens"),
        ("stall", "it takes far longer than it should"),
    ] {
        let count = faults.iter().find(|count| count["kind"] == kind);
        let fired = count.and_then(|count| count["fired"].as_u64());
        assert_eq!(fired, Some(lines(words)), "{kind}");
        assert!(lines(words) > 0, "{kind}");
    }
    let of_cuts = |word: &str| -> u64 {
        let cuts = text.lines().filter(|line| line.contains("  crash     "));
        let numbers = cuts.filter_map(|line| {
            let (before, _) = line.split_once(word)?;
            before.split_whitespace().last()?.parse::<u64>().ok()
        });
        numbers.sum()
    };
    assert_eq!(of_cuts(" lost"), lines(" bytes at ") - lines(": torn"));
    assert_eq!(of_cuts(" torn"), lines(": torn"));
    assert!(of_cuts(" lost") > 0, "{text}");
}

/// Goal: of several scenarios all are run, and the most severe end counts. Method: a clean one, and one that violates something.
#[test]
fn the_most_severe_end_counts() {
    let directory = tempfile::tempdir().expect("a directory");
    let failures = directory.path().to_string_lossy();
    let guest = kvsim_tests::naive_guest().to_string_lossy();
    let both = [
        "run",
        "tests/broken/prefix.toml",
        "tests/broken/reads_agree.toml",
        "--set",
        "guest.options.break=prefix",
        "--guest",
        &guest,
        "--failures",
        &failures,
        "--set",
        "run.crashes=60",
        "--set",
        "run.seeds=1..2",
    ];
    let ended = ends(&both, 1, &["prefix  on", "reads_agree  on"]);
    assert!(ended.stdout.contains("VIOLATION"));
    let last = ended.stdout.lines().last();
    let wanted = "2 run, 0 passed, 2 failed (prefix, reads_agree)";
    assert_eq!(last, Some(wanted), "{ended:#?}");
}

/// Goal: a fault that was asked for and never fired is said, and with `--strict` is no success. Method: one crash.
#[test]
fn a_fault_that_never_fired_is_inconclusive_if_strict() {
    let one = [
        "run",
        "scenarios/kitchen_sink.toml",
        "--seed",
        "1",
        "--set",
        "run.crashes=3",
        "--set",
        "run.events_per_crash=60",
        "--set",
        "run.seek_pending=1.0",
    ];
    ends(&one, 0, &["never"]);
    let strict = [&one[..], &["--strict"]].concat();
    ends(&strict, 3, &["never"]);
}

/// Goal: what `explain` prints can be run, and explains itself. Method: a round trip through a file.
#[test]
fn an_explained_scenario_explains_itself() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("explained.toml");
    let file = path.to_string_lossy();
    let first = ends(
        &[
            "explain",
            "scenarios/powercut.toml",
            "--set",
            "run.crashes=5",
            "--set",
            "run.seeds=1..2",
        ],
        0,
        &["crashes = 5"],
    );
    std::fs::write(&path, &first.stdout).expect("it can be written");
    let second = ends(&["explain", &file], 0, &[]);
    assert_eq!(first.stdout, second.stdout);
    let original = kvsim(&[
        "run",
        "scenarios/powercut.toml",
        "--set",
        "run.crashes=5",
        "--set",
        "run.seeds=1..2",
    ]);
    let again = ends(&["run", &file], 0, &["PASS"]);
    assert_eq!(original.line("traces"), again.line("traces"));
}

/// Goal: a reader that leaves early is no error. Method: close the pipe before anything is printed.
#[test]
fn a_broken_pipe_is_no_error() {
    for arguments in [
        &["explain", "scenarios/powercut.toml"][..],
        &short(&["scenarios/powercut.toml"]),
        &["completions", "bash"],
        &["man"],
    ] {
        let mut child = command(Path::new(PROGRAM), arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        drop(child.stdout.take());
        let mut said = String::new();
        let stderr = child.stderr.take().expect("it is a pipe");
        { stderr }.read_to_string(&mut said).expect("it is text");
        let status = child.wait().expect("it ends");
        assert_eq!(status.code(), Some(0), "{arguments:?}: {said}");
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
    }
}

/// Goal: shells and manuals are served, and help is no error. Method: what each begins with.
#[test]
fn help_completions_and_manual_are_there() {
    ends(&["--help"], 0, &["Usage", "run", "replay", "explain"]);
    ends(&["run", "--help"], 0, &["--seeds", "--jobs"]);
    ends(&["--version"], 0, &["kvsim 0."]);
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        ends(&["completions", shell], 0, &["kvsim", "KVSIM_COMPLETE"]);
    }
    ends(&["man"], 0, &[".TH kvsim"]);
    let directory = tempfile::tempdir().expect("a directory");
    ends(&["man", &directory.path().to_string_lossy()], 0, &[]);
    let page = std::fs::read_to_string(directory.path().join("kvsim-run.1"));
    let page = page.expect("it was written");
    for part in [
        "SEEDS AND TIME",
        "RESULTS",
        "Examples:",
        "kvsim run powercut",
    ] {
        assert!(
            page.to_uppercase().contains(&part.to_uppercase()),
            "no {part}: {page}"
        );
    }
}
