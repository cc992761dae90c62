//! A scenario that is another one for each seed, as its user meets it.

use std::path::Path;

use crate::ends;

/// Half the seeds have a client whose relaxed writes are held to a promise that nobody gave.
const UNKEPT: &str = "name = \"unkept\"\n[run]\nseeds = \"1..20\"\ncrashes = 20\nevents_per_crash = 200\n\
    [workload]\ndurable_fraction = 0.0\n[check]\nrelaxed_slack_ns = 0\n[vary]\n\
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
    assert_eq!(taken_out.line("trace"), in_place.line("trace"));
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

/// Goal: one time line is of one seed, and it is the seed's own.
#[test]
fn a_time_line_is_of_what_the_seed_drew() {
    let of = |seed: &str| {
        ends(
            &[
                "trace",
                "scenarios/swarm.toml",
                "--seed",
                seed,
                "--limit",
                "40",
            ],
            0,
            &[],
        )
        .stdout
    };
    assert_eq!(of("3"), of("3"));
    assert_ne!(of("3"), of("4"));
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
            &["drew 100 times from [vary]", "never.toml:3:27"],
        );
    }
    ends(
        &["run", &path, "--set", "vary.a=3"],
        2,
        &["--set vary", "stands in a scenario's file"],
    );
}
