//! Mistakes: each is answered by exit code 2, with what is wrong, where, and what to do.

use std::path::PathBuf;

use crate::ends;

/// A scenario file of a test's own.
struct Draft {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

fn draft(text: &str) -> Draft {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("draft.toml");
    std::fs::write(&path, text).expect("it can be written");
    Draft {
        _directory: directory,
        path,
    }
}

/// Running the scenario, and explaining it, ends in the same complaint.
#[track_caller]
fn is_wrong(text: &str, parts: &[&str]) {
    let draft = draft(text);
    let path = draft.path.to_string_lossy();
    for command in ["run", "explain"] {
        let ended = ends(&[command, &path], 2, parts);
        assert!(ended.stdout.is_empty(), "{ended:#?}");
    }
}

/// Goal: a misspelt field is shown where it stands, with the one that was meant. Method: a letter too few.
#[test]
fn an_unknown_field_is_shown_with_a_suggestion() {
    is_wrong(
        "name = \"draft\"\n\n[workload]\nclient = 3\n",
        &["draft.toml:4", "client = 3", "^", "clients"],
    );
}

/// Goal: a value of another type is shown where it stands. Method: text for a number.
#[test]
fn a_wrong_type_is_shown() {
    is_wrong(
        "name = \"draft\"\n[run]\ncrashes = \"many\"\n",
        &["draft.toml:3", "crashes = \"many\"", "^"],
    );
}

/// Goal: a value out of range is shown with the range. Method: a probability of two, and no clients.
#[test]
fn a_value_out_of_range_is_shown() {
    is_wrong(
        "name = \"draft\"\n[faults]\ntorn = 2.0\n",
        &["draft.toml:3", "torn = 2.0", "^"],
    );
    is_wrong(
        "name = \"draft\"\n[workload]\nclients = 0\n",
        &["draft.toml:3", "clients = 0", "^"],
    );
}

/// Goal: fields that contradict each other are refused, with both named. Method: a device that shrinks as it grows.
#[test]
fn an_impossible_combination_is_refused() {
    is_wrong(
        "name = \"draft\"\n[device]\ncapacity_bytes = 8_388_608\nmax_capacity_bytes = 4_194_304\n",
        &["max_capacity_bytes", "capacity_bytes"],
    );
}

/// Goal: what is no TOML is shown where it stops being so. Method: a bracket left open.
#[test]
fn a_syntax_error_is_shown() {
    is_wrong(
        "name = \"draft\"\n[run\ncrashes = 3\n",
        &["draft.toml:2", "^"],
    );
}

/// Goal: a file that is not there is named, with where it was looked for. Method: a scenario and a profile.
#[test]
fn what_does_not_exist_is_named() {
    ends(
        &["run", "scenarios/powercuts.toml"],
        2,
        &["scenarios/powercuts.toml"],
    );
    is_wrong(
        "name = \"draft\"\nprofile = \"nvme_consume\"\n",
        &["nvme_consume", "profiles"],
    );
}

/// Goal: every wrong scenario is complained of, not only the first. Method: two of them.
#[test]
fn all_wrong_scenarios_are_named() {
    ends(
        &["run", "one.toml", "two.toml"],
        2,
        &["one.toml", "two.toml"],
    );
}

/// Goal: a wrong change is told like a wrong file. Method: a path that leads nowhere, a value of another type, no value.
#[test]
fn a_wrong_set_is_named() {
    let run =
        |set, parts: &[&str]| ends(&["run", "scenarios/powercut.toml", "--set", set], 2, parts);
    run(
        "workload.client=3",
        &["--set", "client", "^", "did you mean `clients`?"],
    );
    run(
        "workload.clients=three",
        &["--set", "workload.clients", "^", "whole number"],
    );
    run("workload.clients", &["--set", "workload.clients", "no `=`"]);
}

/// Goal: a wrong argument is usage. Method: seeds backwards, no workers, options that exclude each other, no command.
#[test]
fn a_wrong_argument_is_usage() {
    ends(
        &["run", "scenarios/powercut.toml", "--seeds", "5..2"],
        2,
        &["--seeds"],
    );
    ends(
        &["run", "scenarios/powercut.toml", "--jobs", "0"],
        2,
        &["--jobs"],
    );
    ends(
        &[
            "run",
            "scenarios/powercut.toml",
            "--seed",
            "1",
            "--seeds",
            "1..2",
        ],
        2,
        &["--seed"],
    );
    ends(
        &["run", "scenarios/powercut.toml", "--for", "soon"],
        2,
        &["--for"],
    );
    ends(&["rnu", "scenarios/powercut.toml"], 2, &["rnu", "Usage"]);
    ends(&[], 2, &["Usage"]);
}

/// Goal: a scenario is not replayed as if it had failed. Method: a shipped one.
#[test]
fn only_a_failing_case_is_replayed() {
    ends(
        &["replay", "scenarios/powercut.toml"],
        2,
        &["no saved failing case", "kvsim run"],
    );
}

/// Goal: a number is asked for in words, and not in Rust's. Method: several seeds where one goes, no threads, no number.
#[test]
fn a_wrong_number_is_told_in_words() {
    let run = |arguments: &[&str], parts: &[&str]| {
        let ended = ends(&[&["run", "powercut"], arguments].concat(), 2, parts);
        for rust in ["invalid digit", "non-zero type", "ParseIntError"] {
            assert!(!ended.stderr.contains(rust), "{ended:#?}");
        }
    };
    run(&["--seed", "1-5"], &["--seed", "1-5", "--seeds 1..=5"]);
    run(&["--seed", "one"], &["--seed", "a whole number"]);
    run(&["-j", "0"], &["--jobs", "at least 1"]);
    run(&["-j", "two"], &["--jobs", "a whole number"]);
    run(&["--seeds", "5..2"], &["--seeds"]);
}

/// Goal: what never ends is not read for ever. Method: a device in place of a scenario, a profile, a part, a guest.
#[test]
fn a_file_without_end_is_refused() {
    for file in ["/dev/zero", "/dev/urandom"] {
        let wrong = [file, "longer than", "MiB"];
        for command in [
            "run", "explore", "trace", "explain", "replay", "bench", "merge",
        ] {
            ends(&[command, file], 2, &wrong);
        }
        ends(&["run", "powercut", "--guest", file], 2, &wrong);
        let profile = format!("profile={file}");
        ends(&["run", "powercut", "--set", &profile], 2, &wrong);
    }
}

/// Goal: a refused scenario is complained of, and the page says why. Method: an option that no guest knows, run and explored.
#[test]
fn a_refused_scenario_has_a_page() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("page.html");
    let page = path.to_string_lossy();
    for command in ["run", "explore"] {
        let option = "guest.options.nonsense=1";
        let arguments = [command, "explore_small", "--set", option, "--report", &page];
        ends(&arguments, 2, &["nonsense"]);
        let text = std::fs::read_to_string(&path).expect("it was written");
        for part in ["explore_small", "NOT RUN", "nonsense", "</html>"] {
            assert!(text.contains(part), "{command}: no {part}: {text}");
        }
    }
}

/// Goal: files are written for a case of an engine on files only, and into a directory that is new or empty. Method: a case of a device, with a new
/// directory and with one that has a file; a folder of cases.
#[test]
fn files_of_a_crash_are_refused_where_there_are_none() {
    let case = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tests/regressions/disk_full-1-guest_behaves.toml"
    );
    let directory = tempfile::tempdir().expect("a directory");
    let new = directory.path().join("new");
    let new_name = new.to_string_lossy();
    let device = ["disk_full-1", "a case of a device"];
    ends(&["replay", case, "--write-files", &new_name], 2, &device);
    assert!(!new.exists());
    std::fs::write(directory.path().join("here"), "here").expect("it can be written");
    let full = directory.path().to_string_lossy();
    let taken = ["is not empty", "new or empty"];
    ends(&["replay", case, "--write-files", &full], 2, &taken);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/regressions");
    let arguments = ["replay", folder, "--write-files", &new_name];
    ends(&arguments, 2, &["one case, not a folder"]);
}
