//! `--report FILE.html` as a user meets it.

use std::path::Path;

use crate::{SHORT, ends};

/// What makes a page need more than itself.
const NEEDS: [&str; 6] = ["<script", "<link", "<img", "<iframe", "http://", "https://"];

fn page(path: &Path) -> String {
    let page = std::fs::read_to_string(path).expect("it was written");
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"));
    for needs in NEEDS {
        assert!(!page.contains(needs), "the page has {needs}");
    }
    assert!(page.len() < 4_000_000, "{} bytes", page.len());
    assert!(page.contains("prefers-color-scheme: dark"));
    page
}

/// Goal: a failure's page shows the clients, the device's operations and the cut in time, what became of each block, what was expected and
/// what came back, and how to see it again. Method: the naive guest that acknowledges before it flushes, explored; the page of the
/// exploration, and of a replay of the case it saved; each twice.
#[test]
fn a_failure_is_shown_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let (failures, guest) = (
        at("failures"),
        kvsim_tests::naive_guest().to_string_lossy().into_owned(),
    );
    let explore = |report: &str| {
        let arguments = [
            "explore",
            "tests/broken/acknowledged_durable.toml",
            "--set",
            "guest.options.break=acknowledged_durable",
            "--set",
            "explore.operations=40",
            "--guest",
            &guest,
            "--failures",
            &failures,
            "--report",
            report,
        ];
        ends(&arguments, 1, &["acknowledged_durable"])
    };
    let found = explore(&at("explored.html"));
    let explored = page(Path::new(&at("explored.html")));
    for part in [
        "acknowledged_durable",
        "expected",
        "found",
        "client 0",
        "class=\"ack\"",
        "class=\"cut\"",
        "url(#lost)",
        "What happened",
        "The device at the cut",
        "States by crash point",
        "kvsim replay",
    ] {
        assert!(explored.contains(part), "the page has no {part}");
    }
    explore(&at("again.html"));
    assert_eq!(page(Path::new(&at("again.html"))), explored);

    let line = found.stdout.lines().find(|line| line.contains("replay: "));
    let file = line
        .and_then(|line| line.rsplit(' ').next())
        .expect("a replay line");
    let replayed = at("replayed.html");
    ends(
        &["replay", file, "--guest", &guest, "--report", &replayed],
        1,
        &[],
    );
    let replayed = page(Path::new(&replayed));
    for part in ["reproduced exactly", "What happened", "url(#lost)"] {
        assert!(replayed.contains(part), "the page has no {part}");
    }
}

/// Goal: what went well has a page too. Method: a short run and a short exploration; what their pages name, and the same bytes again.
#[test]
fn what_went_well_is_shown() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("run.html");
    let name = path.to_string_lossy();
    let run = [
        &["run", "scenarios/powercut.toml", "--report", &name],
        &SHORT[..],
    ]
    .concat();
    ends(&run, 0, &[]);
    let first = page(&path);
    for part in [
        "PASS",
        "Faults",
        "Coverage points of the guest",
        "recovery",
        "polyline",
    ] {
        assert!(first.contains(part), "the page has no {part}");
    }
    ends(&run, 0, &[]);
    assert_eq!(page(&path), first);
    let explore = [
        "explore",
        "scenarios/explore_small.toml",
        "--set",
        "explore.operations=4",
        "--report",
        &name,
    ];
    ends(&explore, 0, &[]);
    let explored = page(&path);
    for part in ["PASS", "States by crash point", "replay.torn_tail", "never"] {
        assert!(explored.contains(part), "the page has no {part}");
    }
}

/// Goal: a place that cannot be written is known before anything runs. Method: a directory that is not there.
#[test]
fn a_report_that_cannot_be_written_is_wrong_usage() {
    let run = [
        &[
            "run",
            "scenarios/powercut.toml",
            "--report",
            "/nowhere/at/all.html",
        ],
        &SHORT[..],
    ]
    .concat();
    let ended = ends(&run, 2, &["cannot write /nowhere/at/all.html"]);
    assert!(ended.stdout.is_empty());
}
