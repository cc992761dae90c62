//! Scenarios by name: those that ship are in the program, and a file wins.

use std::path::Path;

use kvsim_tests::{Ended, command};
use serde_json::Value;

use crate::{PROGRAM, SHORT, ends};

/// The program in this folder.
#[track_caller]
fn inside(folder: &Path, arguments: &[&str], code: i32) -> Ended {
    let output = command(Path::new(PROGRAM), arguments)
        .current_dir(folder)
        .output();
    let ended = Ended::new(&output.expect("the program starts"));
    assert_eq!(ended.code, Some(code), "{arguments:?}: {ended:#?}");
    ended
}

/// Goal: a shipped scenario runs anywhere by its name, as its file does. Method: an empty folder, by `run`, `explain`, `trace` and
/// `explore`; the trace hash of the file.
#[test]
fn a_shipped_scenario_runs_anywhere() {
    let folder = tempfile::tempdir().expect("a directory");
    let short = |name| [&["run", name], &SHORT[..]].concat();
    let by_name = inside(folder.path(), &short("powercut"), 0);
    let by_file = ends(&short("scenarios/powercut.toml"), 0, &[]);
    assert_eq!(by_name.line("traces"), by_file.line("traces"));
    let explained = inside(folder.path(), &["explain", "powercut"], 0);
    assert!(explained.stdout.starts_with("name = \"powercut\""));
    inside(folder.path(), &["trace", "powercut", "--limit", "3"], 0);
    let few = ["explore", "explore_small", "--set", "explore.operations=2"];
    inside(folder.path(), &few, 0);
    // A profile by its name, and a benchmark by its own.
    let hard = ["explain", "durable", "--set", "profile=hard_disk"];
    let durable = inside(folder.path(), &hard, 0);
    assert!(durable.stdout.contains("name = \"durable\""));
}

/// Goal: one's own file of the same name is taken, with the ending or without, and a folder of that name is in nobody's way. Method: each.
#[test]
fn a_file_wins() {
    let folder = tempfile::tempdir().expect("a directory");
    let explained = || inside(folder.path(), &["explain", "powercut"], 0).stdout;
    std::fs::create_dir(folder.path().join("powercut")).expect("a folder");
    assert!(explained().contains("power cuts"), "{}", explained());
    let file = folder.path().join("powercut.toml");
    std::fs::write(file, "description = \"my own\"\n").expect("it can be written");
    assert!(explained().contains("my own"), "{}", explained());
}

/// Goal: a name that is a slip of the pen is answered with the one that was meant, also where there are no files. Method: a letter too many.
#[test]
fn the_name_that_was_meant_is_said() {
    let folder = tempfile::tempdir().expect("a directory");
    let ended = inside(folder.path(), &["run", "powercutt"], 2);
    for part in ["did you mean `powercut`?", "kvsim scenarios"] {
        assert!(ended.stderr.contains(part), "{ended:#?}");
    }
}

/// Goal: what ships can be looked up. Method: the list, and its JSON.
#[test]
fn what_ships_is_listed() {
    let parts = [
        "For kvsim run",
        "  powercut",
        "For kvsim bench",
        "  ycsb_a",
        "  hard_disk",
    ];
    ends(&["scenarios"], 0, &parts);
    let ended = ends(&["scenarios", "--json"], 0, &[]);
    let listed: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let rows = listed.as_array().expect("rows");
    assert_eq!(rows.len(), 54 + 14 + 6);
    for row in rows {
        let told = row["description"].as_str().expect("a description");
        assert!(!told.is_empty() && !told.contains('\n'), "{row}");
    }
}

/// What bash is offered for the last of these words.
fn completed(words: &[&str]) -> Vec<String> {
    let mut arguments = vec!["--", "kvsim"];
    arguments.extend(words);
    let output = command(Path::new(PROGRAM), &arguments)
        .env("KVSIM_COMPLETE", "bash")
        .env("_CLAP_IFS", "\n")
        .env("_CLAP_COMPLETE_INDEX", words.len().to_string())
        .output();
    let ended = Ended::new(&output.expect("the program starts"));
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    ended.stdout.lines().map(str::to_owned).collect()
}

/// Goal: a shell completes names that no file has. Method: as bash asks: commands, scenarios, benchmarks, profiles, mutants, fields.
#[test]
fn names_are_completed() {
    for (words, wanted) in [
        (&["expl"][..], &["explore", "explain"][..]),
        (&["run", "power"], &["powercut"]),
        (&["run", "powercut", "explore_s"], &["explore_small"]),
        (&["bench", "ycsb_"], &["ycsb_a", "ycsb_f"]),
        (&["bench", "--profile", "nvme_c"], &["nvme_consumer"]),
        (&["mutants", "torn_frame"], &["torn_frame_applied_in_part"]),
        (
            &["mutants", "--scenario", "durable,re"],
            &["durable,recovery"],
        ),
        (
            &["run", "powercut", "--set", "faults.tor"],
            &["faults.torn=", "faults.torn_unreadable="],
        ),
        (
            &["explain", "swarm", "--set", "guest.opt"],
            &["guest.options."],
        ),
        (&["run", "Cargo.to"], &["Cargo.toml"]),
    ] {
        let found = completed(words);
        for name in wanted {
            assert!(found.iter().any(|it| it == name), "{words:?}: {found:?}");
        }
        let last = words.last().expect("a word");
        assert!(found.iter().all(|it| it.starts_with(last)), "{found:?}");
    }
}
