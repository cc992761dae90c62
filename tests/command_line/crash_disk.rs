//! `kvsim crash-disk`: that it judges what it says, and what it refuses.

use serde_json::Value;

use crate::ends;

/// A few states of short sessions, on the disk that holds the sources.
fn brief(directory: &str) -> Vec<&str> {
    let brief = [
        "crash-disk",
        "--dir",
        directory,
        "--states",
        "300",
        "--take-out",
        "3",
        "--clients",
        "4",
    ];
    brief.to_vec()
}

/// Goal: the native path is crashed, and what was left out is caught. Method: the command as a user gives it, but short; its JSON holds the
/// same.
#[test]
fn the_native_path_is_judged() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let path = directory.path().to_string_lossy();
    ends(&brief(&path), 0, &["PASS", "driver", "caught 3"]);
    let mut json = brief(&path);
    json.push("--json");
    let ended = ends(&json, 0, &[]);
    let document: Value = serde_json::from_str(&ended.stdout).expect("it is JSON");
    assert_eq!(document["schema"], "kvsim.crash-disk/2");
    assert_eq!(document["complete"], true);
    assert!(document["tally"]["judged"].as_u64() >= Some(300));
    let taken_out = document["taken_out"].as_array().expect("a list");
    assert!(
        taken_out
            .iter()
            .all(|one| one["caught"]["violation"].is_object())
    );
    let left = std::fs::read_dir(&path[..]).expect("the directory").count();
    assert_eq!(left, 0, "it cleans up");
}

/// Goal: what proves nothing is refused. Method: a directory that is not there, one in memory, no states, a driver that is none.
#[test]
fn what_proves_nothing_is_refused() {
    ends(
        &["crash-disk", "--dir", "no/such/place"],
        2,
        &["no/such/place"],
    );
    if std::path::Path::new("/dev/shm").is_dir() {
        ends(&["crash-disk", "--dir", "/dev/shm"], 2, &["in memory"]);
    }
    ends(&["crash-disk", "--states", "0"], 2, &["--states"]);
    ends(
        &["crash-disk", "--drivers", "uring"],
        2,
        &["--drivers", "io-uring"],
    );
}
