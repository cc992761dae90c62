//! An open database that nobody uses costs nothing. The only test of its program, so that all threads are its own.
#![cfg(target_os = "linux")]
#![allow(missing_docs, reason = "a test")]

use std::time::Duration;

use kvsim_native::{Database, DriverChoice, Durability, OpenOptions};

/// How long nothing must happen.
const QUIET: Duration = Duration::from_secs(1);
/// How often it is looked at before it counts as never quiet.
const LOOKS: u32 = 30;

/// Of each thread of the database: how often it was given a processor and gave it back, and its processor time in ticks.
fn work() -> Vec<(String, u64, u64)> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("the kernel shows threads");
    let mut all = Vec::new();
    for task in tasks.flatten() {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name));
        // A thread that ends meanwhile is none of those that stay.
        let (Ok(name), Ok(status), Ok(stat)) = (read("comm"), read("status"), read("stat")) else {
            continue;
        };
        if !name.starts_with("kvsim-") {
            continue;
        }
        let switches = status
            .lines()
            .filter(|line| line.contains("ctxt_switches"))
            .filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok())
            .sum();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let ticks = after_name.split_whitespace().skip(11).take(2);
        let ticks = ticks.filter_map(|field| field.parse::<u64>().ok()).sum();
        all.push((name.trim().to_owned(), switches, ticks));
    }
    all.sort();
    all
}

/// Goal: no thread of a database runs while nothing is asked of it. Method: work of every kind; then, within a few looks, a second in
/// which no thread of it was given the processor once.
#[test]
fn an_idle_database_does_nothing() {
    for driver in [DriverChoice::Auto, DriverChoice::Threads] {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let options = OpenOptions {
            driver,
            size_bytes: 8 << 20,
            engine: "segment_bytes=65536\ncheckpoint_bytes=262144\n".to_owned(),
            ..OpenOptions::default()
        };
        let path = directory.path().join("database");
        let database = Database::open(&path, &options).expect("a new database");
        for number in 0..2_000_u64 {
            let durability = if number % 10 == 0 {
                Durability::Durable
            } else {
                Durability::Relaxed
            };
            let key = (number % 500).to_be_bytes();
            database.put(&key, &[7; 1_000], durability).expect("a put");
        }
        let quiet = (0..LOOKS).any(|_| {
            let before = work();
            assert!(!before.is_empty(), "the database has threads");
            std::thread::sleep(QUIET);
            work() == before
        });
        assert!(
            quiet,
            "some thread of the database is never idle: {:?}",
            work()
        );
        let key = 3_u64.to_be_bytes();
        assert!(database.get(&key).expect("a get").is_some());
    }
}
