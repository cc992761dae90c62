//! Which threads a database has. Alone in its process, so that no other test's are counted.
#![cfg(target_os = "linux")]
#![allow(missing_docs, reason = "a test")]

use std::collections::BTreeSet;

use kvsim_native::{Database, DriverChoice, Durability, OpenOptions};

/// The threads of this process that a database has started, by number and name.
fn threads() -> BTreeSet<(String, String)> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("the threads of this process");
    tasks
        .filter_map(|task| {
            let task = task.ok()?;
            let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
            let number = task.file_name().into_string().ok()?;
            name.starts_with("kvsim-")
                .then(|| (number, name.trim().to_owned()))
        })
        .collect()
}

/// Goal: all threads are there when the engine opens, and none is started later, which would be under its lock and could fail. Method: with each driver, the threads
/// after the opening and after work of every kind, growths among it.
#[test]
fn no_thread_is_started_after_the_opening() {
    for driver in [DriverChoice::Auto, DriverChoice::Threads] {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        let options = OpenOptions {
            size_bytes: 64 << 20,
            max_bytes: 256 << 20,
            driver,
            ..OpenOptions::default()
        };
        let path = directory.path().join("database");
        let database = Database::open(&path, &options).expect("it opens");
        let before = threads();
        assert!(before.len() >= 2, "{before:?}");
        let value = vec![7; 1 << 20];
        for number in 0..80_u8 {
            let put = database.put(&[number], &value, Durability::Durable);
            put.expect("there is room");
        }
        assert!(database.counts().io.grown_bytes > 0, "it has grown");
        database.sync().expect("it is durable");
        assert_eq!(threads(), before);
        database.close().expect("it closes");
    }
}
