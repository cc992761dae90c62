//! Ctrl-C: what is known so far is told, and it was not all.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use kvsim_tests::{Ended, command};

use crate::{PROGRAM, ends};

/// Goal: an interrupted run tells what it knows and ends with 3. Method: a signal in the middle of a run of an hour.
#[test]
fn an_interrupted_run_tells_what_it_knows() {
    let child = command(
        Path::new(PROGRAM),
        &["run", "scenarios/powercut.toml", "--for", "1h"],
    )
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .expect("it starts");
    std::thread::sleep(Duration::from_secs(2));
    let killed = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(killed.expect("there is a kill").success());
    let ended = Ended::new(&child.wait_with_output().expect("it ends"));
    assert_eq!(ended.code, Some(3), "{ended:#?}");
    assert!(ended.stdout.contains("interrupted"), "{ended:#?}");
    assert!(ended.line("crashes").is_some(), "{ended:#?}");
}

/// Goal: a run with a time ends by itself, and goes on with further seeds until then. Method: two seconds of short seeds.
#[test]
fn a_run_with_a_time_ends_by_itself() {
    let arguments = [
        "run",
        "scenarios/powercut.toml",
        "--for",
        "2s",
        "--set",
        "run.crashes=3",
        "--seeds",
        "1..2",
    ];
    let ended = ends(&arguments, 0, &["PASS"]);
    let seeds = ended.line("seeds").expect("they are counted");
    let count: u64 = seeds
        .split_whitespace()
        .next()
        .and_then(|text| text.replace(',', "").parse().ok())
        .expect("a number");
    assert!(count > 1, "{ended:#?}");
}
