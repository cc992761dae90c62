//! A process under load is killed, again and again, and what it had acknowledged is there. What the page cache and the drive's cache hide
//! is not tested by that: `kvsim crash-disk` is for that.
//!
//! The load runs in a child, which is this same program, with eight threads. Each thread writes its next number to one
//! of a few keys of its own and, in the same batch, to a key that says how far it has come. An acknowledgement is a
//! line on a pipe, written in one call after the write has returned. The parent kills the child after a random number
//! of lines, and reads what is left in the pipe. `KVSIM_KILL_ROUNDS` says how often.
#![allow(missing_docs, reason = "a test")]

use crate::common::{directory, say};
use crate::noise::Noise;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kvsim_native::{Database, DriverChoice, Durability, Mutation, OpenOptions};

const THREADS: u64 = 8;
/// Keys of each thread, beside the one that says how far it has come.
const SLOTS: u64 = 16;
/// Where the child finds the database. Unset, the child's test does nothing.
const PLACE: &str = "KVSIM_KILL_PLACE";
const DRIVER: &str = "KVSIM_KILL_DRIVER";
const DRIVERS: [DriverChoice; 2] = [DriverChoice::Auto, DriverChoice::Threads];

/// With every other driver the index is loaded behind the opening.
fn open(path: &Path, driver: usize) -> Database {
    let options = OpenOptions {
        driver: DRIVERS[driver],
        size_bytes: 8 << 20,
        max_bytes: 64 << 20,
        cache_bytes: 0,
        engine: format!(
            "segment_bytes=65536\ncheckpoint_bytes=262144\nload_first_bytes={}\n",
            [0, 4 << 20][driver % 2]
        ),
        ..OpenOptions::default()
    };
    Database::open(path, &options).expect("the database opens")
}

fn key(thread: u64, slot: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&thread.to_be_bytes());
    key[8..].copy_from_slice(&slot.to_be_bytes());
    key
}

/// The key that says how far a thread has come.
fn progress_key(thread: u64) -> [u8; 16] {
    key(thread, SLOTS)
}

/// A value that no other write has, of up to 3,000 bytes.
fn value(thread: u64, number: u64) -> Vec<u8> {
    let mut rng = Noise(thread << 48 | number);
    let words = 2 + rng.next() % 374;
    (0..words).flat_map(|_| rng.next().to_le_bytes()).collect()
}

fn number_of(database: &Database, thread: u64) -> u64 {
    let found = database.get(&progress_key(thread)).expect("a get");
    found.map_or(0, |bytes| {
        u64::from_le_bytes(bytes[..].try_into().expect("eight bytes"))
    })
}

/// The child's part.
#[test]
fn child() {
    let Some(path) = std::env::var_os(PLACE).map(PathBuf::from) else {
        return;
    };
    let driver = std::env::var(DRIVER).expect("it is set with the other");
    // What the test harness prints stands before this on the same line.
    say("\nopening");
    let database = open(&path, driver.parse().expect("an index"));
    say("opened");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let database = &database;
            scope.spawn(move || {
                let mut number = number_of(database, thread);
                loop {
                    number += 1;
                    let value = value(thread, number);
                    let batch = [
                        Mutation::Put {
                            key: &key(thread, number % SLOTS),
                            value: &value,
                        },
                        Mutation::Put {
                            key: &progress_key(thread),
                            value: &number.to_le_bytes(),
                        },
                    ];
                    let written = database.write(&batch, Durability::Durable);
                    written.expect("a write");
                    say(&format!("ack {thread} {number}"));
                }
            });
        }
    });
}

/// Lets the child work until so many lines have come, and kills it. Notes what was acknowledged.
fn round(path: &Path, driver: usize, lines: u64, acknowledged: &mut [u64]) -> u64 {
    let program = std::env::current_exe().expect("it runs");
    let mut child = Command::new(program)
        .args(["--exact", "kill::child", "--nocapture", "--test-threads=1"])
        .env(PLACE, path)
        .env(DRIVER, driver.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the child starts");
    let mut pipe = BufReader::new(child.stdout.take().expect("it was asked for"));
    let mut note = |line: &str| {
        let mut words = line.split_whitespace();
        if words.next() == Some("ack") {
            let mut number = || words.next().and_then(|word| word.parse().ok());
            let (thread, number): (u64, u64) =
                (number().expect("a thread"), number().expect("a number"));
            let last = &mut acknowledged[usize::try_from(thread).expect("one of eight")];
            assert_eq!(number, *last + 1, "a thread goes on where it was");
            *last = number;
        }
    };
    let mut line = String::new();
    for _ in 0..lines {
        line.clear();
        let read = pipe.read_line(&mut line).expect("a line");
        assert!(read > 0, "the child ended by itself");
        note(&line);
    }
    child.kill().expect("it runs");
    let mut rest = String::new();
    pipe.read_to_string(&mut rest).expect("what was left");
    child.wait().expect("it was killed");
    rest.lines().for_each(&mut note);
    acknowledged.iter().sum()
}

/// What is there must be what was acknowledged, and of each thread at most the one write that was under way.
fn check(path: &Path, driver: usize, acknowledged: &mut [u64]) {
    let database = open(path, driver);
    for (thread, last) in (0..).zip(acknowledged.iter_mut()) {
        let found = number_of(&database, thread);
        assert!(
            found == *last || found == *last + 1,
            "thread {thread}: {last} was acknowledged, {found} is there"
        );
        *last = found;
        for slot in 0..SLOTS {
            // The newest number up to there that went to this slot.
            let newest = (0..SLOTS)
                .map_while(|back| found.checked_sub(back))
                .find(|number| number % SLOTS == slot)
                .filter(|number| *number > 0);
            let expected = newest.map(|number| value(thread, number));
            let there = database.get(&key(thread, slot)).expect("a get");
            assert!(
                there.as_deref() == expected.as_deref(),
                "thread {thread}, slot {slot}: not the value of {newest:?}"
            );
        }
    }
}

/// Goal: a killed process loses nothing that it acknowledged, and a batch is whole. Method: see above; kills while the file is being
/// created, during recovery, and after any number of writes.
#[test]
fn a_killed_process_loses_nothing() {
    let rounds: u64 = std::env::var("KVSIM_KILL_ROUNDS").map_or(20, |text| {
        text.parse().expect("KVSIM_KILL_ROUNDS is a number")
    });
    let directory = directory();
    let path = directory.path().join("database");
    let mut rng = Noise(rounds);
    let mut acknowledged: Vec<u64> = (0..THREADS).map(|_| 0).collect();
    let mut all = 0;
    for round_number in 0..rounds {
        let driver = usize::try_from(round_number % 2).expect("0 or 1");
        // Some kills come while it opens: right after the line that says so.
        let lines = match rng.next() % 5 {
            0 => 3,
            1 => 4 + rng.next() % 50,
            _ => 4 + rng.next() % 500,
        };
        all = round(&path, driver, lines, &mut acknowledged);
        check(&path, driver, &mut acknowledged);
    }
    assert!(all > rounds, "something was acknowledged");
}
