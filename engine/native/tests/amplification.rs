//! What the engine counts is what the kernel counts. The only test of its program, so that nothing else writes in this process.
#![cfg(target_os = "linux")]
#![allow(missing_docs, reason = "a test")]

use kvsim_native::{Counts, Database, DriverChoice, Durability, OpenOptions};

/// Bytes that this process caused to be written, `proc_pid_io(5)`.
fn kernel_bytes() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").expect("the kernel counts");
    let line = io
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes:"));
    line.and_then(|text| text.trim().parse().ok())
        .expect("a number")
}

fn engine_bytes(counts: &Counts) -> u64 {
    counts.io.written_bytes + counts.io.grown_bytes
}

/// Goal: the engine's counters and those of the kernel for this process agree within 2 %. Method: overwrites many times the size of
/// the data, durable and relaxed, through garbage collection, checkpoints and growth, with direct I/O; where the page cache cannot be bypassed, the
/// kernel counts what is written back and not what is written, and there is nothing to compare.
#[test]
fn the_engine_and_the_kernel_count_the_same() {
    for driver in [DriverChoice::Auto, DriverChoice::Threads] {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let options = OpenOptions {
            driver,
            size_bytes: 8 << 20,
            max_bytes: 64 << 20,
            engine: "segment_bytes=65536\ncheckpoint_bytes=1048576\n".to_owned(),
            ..OpenOptions::default()
        };
        let before = kernel_bytes();
        let path = directory.path().join("database");
        let database = Database::open(&path, &options).expect("a new database");
        if !database.device().direct {
            return;
        }
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let database = &database;
                scope.spawn(move || {
                    for number in 0..6_000_u64 {
                        // Some keys are written often, so segments are left with the other keys. The log between two
                        // writes of those others does not fit into the file, so it has to be collected, whatever the
                        // order of the threads' turns.
                        let slot = if number % 4 == 0 {
                            number * 7 % 3_000
                        } else {
                            number * 7 % 40
                        };
                        let key = (slot * 4 + thread).to_be_bytes();
                        let value =
                            vec![number.to_le_bytes()[0]; 200 + (number % 50) as usize * 40];
                        let durability = if number % 64 == 0 {
                            Durability::Durable
                        } else {
                            Durability::Relaxed
                        };
                        database.put(&key, &value, durability).expect("a put");
                    }
                });
            }
        });
        database.sync().expect("a sync");
        let counts = database.counts();
        let (engine, kernel) = (engine_bytes(&counts), kernel_bytes() - before);
        assert!(counts.engine.collected_segments > 0, "{counts:?}");
        assert!(counts.engine.relocated_from_cache_bytes > 0, "{counts:?}");
        assert!(counts.io.grown_bytes >= 8 << 20, "{counts:?}");
        assert!(
            engine.abs_diff(kernel) * 50 <= engine,
            "the engine counts {engine} bytes, the kernel {kernel}; {counts:?}"
        );
    }
}
