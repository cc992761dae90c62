//! A process that writes, replaces and deletes streams is killed, again and again: what it had acknowledged is there and whole, and no piece without a stream is left.
//!
//! The load runs in a child, which is this same program. Each of its threads has a key of its own and writes its next number there as a stream, together with a key that says how
//! far it has come. Every third stream is deleted again, and other writers are dropped before they have finished. An acknowledgement is a line on a pipe, written in one call.
//! The parent kills the child after a random number of lines. `KVSIM_KILL_ROUNDS` says how often.
#![allow(missing_docs, reason = "a test")]

use crate::common::{directory, say};
use crate::noise::Noise;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kvsim_native::{Database, DriverChoice, Durability, OpenOptions, Prefix, Streams, WriteBatch};

const THREADS: usize = 4;
const PREFIX: &str = "s/";
const PIECE: usize = 4096;
/// Where the child finds the database. Unset, the child's test does nothing.
const PLACE: &str = "KVSIM_KILL_STREAMS_PLACE";

fn open(path: &Path, driver: DriverChoice) -> (Database, Streams) {
    let options = OpenOptions {
        driver,
        size_bytes: 8 << 20,
        max_bytes: 64 << 20,
        cache_bytes: 0,
        engine: "segment_bytes=65536\ncheckpoint_bytes=262144\n".to_owned(),
        ..OpenOptions::default()
    };
    let database = Database::open(path, &options).expect("the database opens");
    let streams = database.streams(PREFIX).expect("its streams");
    let bytes = u32::try_from(PIECE).expect("small");
    (
        database,
        streams.with_piece_bytes(bytes).expect("a power of two"),
    )
}

/// The bytes of a stream that no other has: from none up to 30 pieces, often some that are full.
fn value(thread: u64, number: u64) -> Vec<u8> {
    let mut rng = Noise(thread << 48 | number);
    let pieces = rng.next() % 30;
    let len = pieces * PIECE as u64
        + match rng.next() % 3 {
            2 => rng.next() % PIECE as u64,
            more => more,
        };
    let words = (0..len.div_ceil(8)).flat_map(|_| rng.next().to_le_bytes());
    words.take(usize::try_from(len).expect("small")).collect()
}

fn is_deleted_again(number: u64) -> bool {
    number.is_multiple_of(3)
}

fn progress_key(thread: u64) -> [u8; 9] {
    let mut key = *b"p........";
    key[1..].copy_from_slice(&thread.to_be_bytes());
    key
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
    // What the test harness prints stands before this on the same line.
    say("\nopening");
    let (database, streams) = open(&path, DriverChoice::Auto);
    std::thread::scope(|scope| {
        for thread in 0..THREADS as u64 {
            let (database, streams) = (&database, &streams);
            scope.spawn(move || {
                let key = thread.to_be_bytes();
                for number in number_of(database, thread) + 1.. {
                    let value = value(thread, number);
                    let mut dropped = streams.writer(&key).expect("a writer");
                    dropped.write_all(&value).expect("a write");
                    let mut writer = streams.writer(&key).expect("a writer");
                    writer.write_all(&value).expect("a write");
                    drop(dropped);
                    let mut batch = WriteBatch::new();
                    batch.put(&progress_key(thread), &number.to_le_bytes());
                    let written = writer.finish_with(&batch, Durability::Durable);
                    written.expect("it is finished");
                    say(&format!("written {thread} {number}"));
                    if is_deleted_again(number) {
                        let deleted = streams.delete(&key, Durability::Durable);
                        assert_eq!(deleted, Ok(true));
                        say(&format!("deleted {thread} {number}"));
                    }
                }
            });
        }
    });
}

/// What a thread had acknowledged: its last number, and whether that was deleted again.
type Acknowledged = [(u64, bool); THREADS];

/// Lets the child work until so many lines have come, and kills it. Notes what was acknowledged.
fn round(path: &Path, lines: u64, acknowledged: &mut Acknowledged) {
    let program = std::env::current_exe().expect("it runs");
    let mut child = Command::new(program)
        .args([
            "--exact",
            "streams::kill::child",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(PLACE, path)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the child starts");
    let mut pipe = BufReader::new(child.stdout.take().expect("it was asked for"));
    let mut note = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [what @ ("written" | "deleted"), thread, number] = words[..] else {
            return;
        };
        let last = &mut acknowledged[thread.parse::<usize>().expect("a thread")];
        *last = (number.parse().expect("a number"), what == "deleted");
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
}

/// What is there must be what was acknowledged, or of each thread the one step that was under way.
fn check(path: &Path, acknowledged: &mut Acknowledged) {
    let (database, streams) = open(path, DriverChoice::Threads);
    let mut keys = 1;
    for (thread, (last, was_deleted)) in (0..).zip(acknowledged.iter_mut()) {
        let found = number_of(&database, thread);
        assert!(
            found == *last || found == *last + 1,
            "thread {thread}: {last} was acknowledged, {found} is there"
        );
        let reader = streams.reader(&thread.to_be_bytes()).expect("a reader");
        let is_there = reader.is_some();
        match reader {
            Some(mut reader) => {
                assert!(
                    found > *last || !*was_deleted,
                    "thread {thread}: {last} was deleted"
                );
                let mut there = Vec::new();
                reader.read_to_end(&mut there).expect("it is whole");
                assert!(
                    there == value(thread, found),
                    "thread {thread}: not {found}"
                );
                keys += 1 + there.len().div_ceil(PIECE) as u64;
            }
            // Only a delete that was not acknowledged yet can have come between.
            None => assert!(
                found == 0 || found == *last && is_deleted_again(found),
                "thread {thread}: {last} was acknowledged, and nothing is there"
            ),
        }
        *last = found;
        *was_deleted = !is_there;
    }
    let there = database.approximate_count(Prefix(PREFIX)).expect("a count");
    assert_eq!(there, keys, "pieces without a stream");
}

/// Goal: a killed process leaves each stream as it was acknowledged, whole, and at most one step further; and the next opening removes all that belongs to none. Method: see
/// above; kills after any number of writes, replacements and deletes, and during openings.
#[test]
fn a_killed_process_leaves_whole_streams() {
    let rounds: u64 = std::env::var("KVSIM_KILL_ROUNDS").map_or(20, |text| {
        text.parse().expect("KVSIM_KILL_ROUNDS is a number")
    });
    let directory = directory();
    let path = directory.path().join("database");
    drop(open(&path, DriverChoice::Auto));
    let mut rng = Noise(rounds);
    let mut acknowledged = Acknowledged::default();
    for _ in 0..rounds {
        let lines = match rng.next() % 5 {
            0 => 2,
            _ => 3 + rng.next() % 80,
        };
        round(&path, lines, &mut acknowledged);
        check(&path, &mut acknowledged);
    }
    assert!(acknowledged.iter().all(|(last, _)| *last > 0));
}
