//! Keyspaces in a process that is killed: batches across keyspaces are whole, and drops go on where they were.
//!
//! The load runs in a child, which is this same program. An acknowledgement is a line on a pipe, written in one call. The parent kills the child after a random number of
//! lines. `KVSIM_KILL_ROUNDS` says how often.
#![allow(missing_docs, reason = "a test")]

use crate::common::{directory, say};
use crate::noise::Noise;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kvsim_native::{Durability, Keyspace, KeyspaceBatch, Keyspaces, OpenOptions};

/// Where the child finds the database. Unset, the child's test does nothing.
const PLACE: &str = "KVSIM_KILL_PLACE";
/// Which load it is.
const LOAD: &str = "KVSIM_KILL_LOAD";
const NAMES: [&str; 3] = ["first", "second", "third"];
/// Keys of a keyspace that is dropped: several pieces of a removal.
const KEYS: u32 = 8000;
/// Keys that a removal takes at once.
const PIECE: u32 = 1024;

fn options() -> OpenOptions {
    OpenOptions::new()
        .size_bytes(8 << 20)
        .max_bytes(64 << 20)
        .cache_bytes(0)
        .segment_bytes(1 << 16)
        .checkpoint_bytes(1 << 18)
}

fn opened(path: &Path) -> Keyspaces {
    options().open_keyspaces(path).expect("it opens")
}

fn rounds() -> u64 {
    std::env::var("KVSIM_KILL_ROUNDS").map_or(12, |text| {
        text.parse().expect("KVSIM_KILL_ROUNDS is a number")
    })
}

fn number_of(keyspace: &Keyspace) -> u64 {
    let found = keyspace.get(b"number").expect("a get");
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
    let keyspaces = opened(&path);
    say("opened");
    match &std::env::var(LOAD).expect("it is set with the other")[..] {
        "batches" => write_batches(&keyspaces),
        "drops" => drop_keyspaces(&keyspaces),
        _ => create_keyspaces(&keyspaces),
    }
}

/// Writes one number to all keyspaces, again and again.
fn write_batches(keyspaces: &Keyspaces) {
    let all = NAMES.map(|name| keyspaces.open_or_create(name).expect("there is room"));
    let mut number = number_of(&all[0]);
    loop {
        number += 1;
        let mut batch = KeyspaceBatch::new();
        for keyspace in &all {
            batch.put(keyspace, b"number", &number.to_le_bytes());
            batch.put(
                keyspace,
                &(number % 40).to_le_bytes(),
                &[number.to_le_bytes(); 90].concat(),
            );
        }
        let durability = match number % 3 {
            0 => Durability::Relaxed,
            _ => Durability::Durable,
        };
        keyspaces.apply(&batch, durability).expect("a batch");
        if durability == Durability::Durable {
            say(&format!("ack {number}"));
        }
    }
}

/// Fills a keyspace, and drops it, again and again. One that stays says how often.
fn drop_keyspaces(keyspaces: &Keyspaces) {
    let stays = keyspaces.open_or_create("stays").expect("there is room");
    loop {
        let number = number_of(&stays) + 1;
        let dropped = keyspaces.open_or_create("dropped").expect("there is room");
        fill(&dropped, number);
        stays
            .put(b"number", &number.to_le_bytes(), Durability::Durable)
            .expect("there is room");
        say(&format!("filled {number}"));
        keyspaces.drop_keyspace("dropped").expect("it is there");
        say(&format!("ack {number}"));
    }
}

/// Creates keyspaces, and gives each its last name.
fn create_keyspaces(keyspaces: &Keyspaces) {
    for number in 1.. {
        let (new, kept) = (format!("new {number}"), format!("kept {number}"));
        if keyspaces.open(&kept).is_ok() {
            continue;
        }
        if keyspaces.open(&new).is_err() {
            keyspaces.create(&new).expect("there is room");
            say(&format!("created {number}"));
            // What comes next must not make it durable.
            if number % 3 == 0 {
                loop {
                    say("waiting");
                }
            }
        }
        keyspaces.rename(&new, &kept).expect("it is there");
        say(&format!("ack {number}"));
    }
}

/// Sets all keys to this number.
fn fill(keyspace: &Keyspace, number: u64) {
    for key in 0..KEYS {
        let put = keyspace.put(
            &key.to_be_bytes(),
            &number.to_le_bytes(),
            Durability::Relaxed,
        );
        put.expect("there is room");
    }
}

/// Lets the child work until so many lines have come, and a little longer, and kills it. Gives the lines.
fn round(path: &Path, load: &str, lines: u64, turns: u64) -> Vec<String> {
    let mut command = Command::new(std::env::current_exe().expect("it runs"));
    command.args([
        "--exact",
        "keyspaces::kill::child",
        "--nocapture",
        "--test-threads=1",
    ]);
    command.env(PLACE, path).env(LOAD, load);
    command.stdout(Stdio::piped());
    let mut child = command.spawn().expect("the child starts");
    let mut pipe = BufReader::new(child.stdout.take().expect("it was asked for"));
    let mut said = String::new();
    let mut from = 0;
    let mut seen = 0;
    while seen < lines {
        let read = pipe.read_line(&mut said).expect("a line");
        assert!(read > 0, "the child ended by itself: {said}");
        // What comes before the child's part is not of it.
        seen += u64::from(said[from..].trim() == "opening" || seen > 0);
        from = said.len();
    }
    (0..turns).for_each(|_| std::thread::yield_now());
    child.kill().expect("it runs");
    pipe.read_to_string(&mut said).expect("what was left");
    child.wait().expect("it was killed");
    said.lines().map(str::to_owned).collect()
}

/// The last number that was said with this word.
fn last(lines: &[String], word: &str) -> Option<u64> {
    let mut numbers = lines
        .iter()
        .filter_map(|line| line.strip_prefix(word)?.trim().parse().ok());
    numbers.next_back()
}

/// Goal: a batch across keyspaces is in all of them or in none after a kill, and is there if it was acknowledged as durable. Method: see above; the keyspaces are created
/// under kills too.
#[test]
fn batches_across_keyspaces_are_whole() {
    let directory = directory();
    let path = directory.path().join("database");
    let mut rng = Noise(rounds());
    let mut acknowledged = 0;
    for _ in 0..rounds() {
        let lines = match rng.next() % 4 {
            0 => 1 + rng.next() % 3,
            _ => 3 + rng.next() % 300,
        };
        let said = round(&path, "batches", lines, rng.next() % 50);
        acknowledged = last(&said, "ack").unwrap_or(acknowledged);
        let keyspaces = opened(&path);
        let names = keyspaces.list();
        assert!(
            names.iter().all(|name| NAMES.contains(&&name[..])),
            "{names:?}"
        );
        let all = names
            .iter()
            .map(|name| keyspaces.open(name).expect("it is listed"));
        let all: Vec<Keyspace> = all.collect();
        let found: Vec<u64> = all.iter().map(number_of).collect();
        let number = found.first().copied().unwrap_or_default();
        assert_eq!(found, vec![number; names.len()]);
        // A relaxed one and a durable one may have been under way.
        assert!(
            (acknowledged..=acknowledged + 2).contains(&number),
            "{acknowledged} {number}"
        );
        assert!(names.len() == NAMES.len() || number == 0);
        let text = |keyspace: &Keyspace| {
            let entries = keyspace.iter().expect("it is there");
            let entries = entries.map(|it| it.expect("it can be read"));
            entries
                .map(|it| (it.key, it.value.to_vec()))
                .collect::<Vec<_>>()
        };
        for keyspace in &all {
            assert!(text(keyspace) == text(&all[0]), "all have the same");
        }
        acknowledged = number;
    }
    assert!(acknowledged > rounds(), "something was acknowledged");
}

/// Goal: a keyspace that was created, and a name that was given, are there after a kill. Method: kills between any two of both.
#[test]
fn creations_and_names_are_durable() {
    let directory = directory();
    let path = directory.path().join("database");
    let mut rng = Noise(rounds());
    let (mut created, mut named) = (0, 0);
    for _ in 0..rounds() {
        let said = round(&path, "creations", 3 + rng.next() % 20, rng.next() % 20);
        created = last(&said, "created").unwrap_or(created);
        named = last(&said, "ack").unwrap_or(named);
        let names = opened(&path).list();
        let kept = names.iter().filter(|name| name.starts_with("kept")).count() as u64;
        assert!(kept == named || kept == named + 1, "{named} {kept}");
        let all = names.len() as u64;
        assert!(all == created || all == created + 1, "{created} {all}");
        (created, named) = (all, kept);
    }
    assert!(named > 3, "something was acknowledged");
}

/// What a file holds, by what its keys begin with.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    /// Identifiers of keyspaces that have a name.
    named: Vec<u32>,
    /// Identifiers of keyspaces that are being removed.
    dropped: Vec<u32>,
    /// Keys by identifier.
    keys: BTreeMap<u32, u32>,
}

fn held(path: &Path) -> Held {
    let mut held = Held {
        named: Vec::new(),
        dropped: Vec::new(),
        keys: BTreeMap::new(),
    };
    let database = options().open(path).expect("it opens");
    for entry in database.iter().expect("it is open") {
        let entry = entry.expect("it can be read");
        if entry.key.starts_with(b"\0name/") {
            held.named.push(u32::from_le_bytes(
                entry.value[..].try_into().expect("four bytes"),
            ));
        } else if let Some(dropped) = entry.key.strip_prefix(b"\0dropped/") {
            held.dropped
                .push(u32::from_be_bytes(dropped.try_into().expect("four bytes")));
        } else if entry.key[0] != 0 {
            // A prefix is one byte below 128, or else two bytes here: there are fewer than 16,384 keyspaces.
            let identifier = match (entry.key[0], entry.key.get(1)) {
                (first @ 0x80.., Some(second)) => u32::from(first & 0x3f) << 8 | u32::from(*second),
                (first, _) => u32::from(first),
            };
            *held.keys.entry(identifier).or_default() += 1;
        }
    }
    held
}

/// Goal: after a kill during a drop the keyspace is there with all its keys, or gone; it is gone if that was acknowledged; each key in the file has an owner; and the next
/// opening removes what is left. Method: kills after any line, most of them soon after a drop has begun; the file is read as it is before and after that opening. Rounds go
/// on until a removal was met halfway.
#[test]
fn a_killed_drop_goes_on_at_the_next_opening() {
    let directory = directory();
    let path = directory.path().join("database");
    let mut rng = Noise(rounds());
    let (mut halfway, mut acknowledged) = (0, 0);
    for number in 0.. {
        if number >= rounds() && halfway > 0 {
            break;
        }
        assert!(number < rounds() + 60, "no kill met a removal");
        let lines = match rng.next() % 5 {
            0 => 1 + rng.next() % 6,
            // The third line says that a keyspace is full.
            _ => 3 + 2 * (rng.next() % 2),
        };
        let said = round(&path, "drops", lines, rng.next() % 60);
        let found = held(&path);
        for identifier in found.keys.keys() {
            let (named, dropped) = (&found.named, &found.dropped);
            assert!(
                named.contains(identifier) || dropped.contains(identifier),
                "{found:?}"
            );
        }
        assert!(
            found.dropped.len() <= 1 && found.named.len() <= 2,
            "{found:?}"
        );
        if let Some(left) = found.dropped.first().and_then(|it| found.keys.get(it)) {
            assert_eq!(
                left % PIECE,
                KEYS % PIECE * u32::from(*left > 0),
                "whole pieces"
            );
            halfway += u64::from(*left < KEYS);
        }
        acknowledged = last(&said, "ack").unwrap_or(acknowledged);
        let keyspaces = opened(&path);
        if let Ok(dropped) = keyspaces.open("dropped") {
            for entry in dropped.iter().expect("it is there") {
                let value = entry.expect("it can be read").value;
                let of = u64::from_le_bytes(value[..].try_into().expect("eight bytes"));
                assert!(of > acknowledged, "what was dropped is there again");
            }
            // It was full, and its drop is not known to have begun.
            if last(&said, "filled").is_some_and(|filled| filled > acknowledged) {
                assert_eq!(dropped.approximate_count(..), Ok(u64::from(KEYS)));
            }
        }
        drop(keyspaces);
        let after = held(&path);
        assert_eq!((&after.named, after.dropped.len()), (&found.named, 0));
        assert!(
            after.keys.keys().all(|it| after.named.contains(it)),
            "{after:?}"
        );
    }
}

/// Goal: a removal goes on from each piece at which it can end. Method: a file as a kill leaves it after each piece, made by hand; the opening removes the rest, and nothing of
/// the neighbours.
#[test]
fn a_removal_goes_on_from_each_piece() {
    let directory = directory();
    for gone in (0..=KEYS).step_by(PIECE as usize).chain([KEYS]) {
        let path = directory.path().join(gone.to_string());
        let keyspaces = opened(&path);
        let [low, dropped, high] = NAMES.map(|name| keyspaces.create(name).expect("there is room"));
        fill(&dropped, 1);
        for keyspace in [&low, &high] {
            keyspace
                .put(b"key", b"value", Durability::Durable)
                .expect("there is room");
        }
        drop((keyspaces, low, dropped, high));
        let database = options().open(&path).expect("it opens");
        database
            .delete(b"\0name/second", Durability::Relaxed)
            .expect("it is there");
        database
            .put(b"\0dropped/\0\0\0\x02", b"", Durability::Relaxed)
            .expect("there is room");
        for number in 0..gone {
            let key = [&[2], &number.to_be_bytes()[..]].concat();
            database
                .delete(&key, Durability::Relaxed)
                .expect("it is there");
        }
        database.close().expect("it is durable");
        let keyspaces = opened(&path);
        assert_eq!(keyspaces.list(), ["first", "third"]);
        assert_eq!(keyspaces.remove_dropped(), Ok(0), "the opening has done it");
        drop(keyspaces);
        let keys = BTreeMap::from([(1, 1), (3, 1)]);
        assert_eq!(
            held(&path),
            Held {
                named: vec![1, 3],
                dropped: vec![],
                keys
            }
        );
    }
}
