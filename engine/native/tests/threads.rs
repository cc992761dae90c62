//! Which threads a database has. Alone in its process, so that no other test's are counted.
#![cfg(target_os = "linux")]
#![allow(missing_docs, reason = "a test")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use kvsim_native::{Database, DriverChoice, Durability, OpenOptions};

/// The threads of this process, by number, with their names. A thread takes its name itself, so a new one may still have that of who started it.
fn threads() -> BTreeMap<String, String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("the threads of this process");
    tasks
        .filter_map(|task| {
            let task = task.ok()?;
            let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
            Some((task.file_name().into_string().ok()?, name))
        })
        .collect()
}

/// Goal: all threads are there when the engine opens, and none is started later, which would be under its lock and could fail. Method: with each driver, the threads
/// after the opening, and all that are ever seen during work of every kind, growths among it.
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
        let alone = threads();
        let database = Database::open(&path, &options).expect("it opens");
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (ready, go_on) = std::sync::mpsc::channel();
            let is_done = &is_done;
            let watcher = scope.spawn(move || {
                let before = threads();
                ready.send(()).expect("somebody waits");
                let mut seen = before.clone();
                while !is_done.load(Ordering::SeqCst) {
                    seen.extend(threads());
                }
                (before, seen)
            });
            go_on.recv().expect("the watcher looks");
            let value = vec![7; 1 << 20];
            let worked = (0..80_u8)
                .try_for_each(|number| database.put(&[number], &value, Durability::Durable));
            let grown = database.counts().io.grown_bytes;
            is_done.store(true, Ordering::SeqCst);
            let (before, mut seen) = watcher.join().expect("it has looked");
            worked.expect("there is room");
            assert!(grown > 0, "it has grown");
            assert!(before.len() > alone.len() + 1, "a database has threads");
            // The kernel starts workers of its own for io_uring, and they show among the threads.
            seen.retain(|number, name| !before.contains_key(number) && !name.starts_with("iou-"));
            assert!(seen.is_empty(), "{seen:?}");
        });
        database.close().expect("it closes");
    }
}
