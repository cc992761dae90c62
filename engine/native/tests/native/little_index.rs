//! A database whose index does not fit into the memory that it may take.
#![allow(missing_docs, reason = "a test")]

use crate::common::directory;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use kvsim_native::{Database, Direction, Durability, OpenOptions, Prefix, ScanRange};

const KEYS: u32 = 20_000;

fn key(n: u32) -> [u8; 5] {
    let [a, b, c, d] = n.to_be_bytes();
    [1, a, b, c, d]
}

/// Goal: nothing that is done with keys alone waits for ever, or misses a key, where entries are not in memory. Method: entries for twenty times the memory; counts, looks,
/// walks and removals of ranges, before and after another opening, which loads the index behind it.
#[test]
fn keys_beyond_memory_are_counted_and_removed() {
    let directory = directory();
    let path = directory.path().join("database");
    let options = OpenOptions {
        size_bytes: 32 << 20,
        max_bytes: 256 << 20,
        cache_bytes: 64 << 10,
        engine: "segment_bytes=262144\nindex_bytes=131072\ninline_bytes=0\nload_first_bytes=0\n"
            .to_owned(),
        ..OpenOptions::default()
    };
    let database = Database::open(&path, &options).expect("opens");
    for n in 0..KEYS {
        let value = [n.to_le_bytes()[0]; 100];
        let put = database.put(&key(n * 7919 % KEYS), &value, Durability::Relaxed);
        put.expect("there is room");
    }
    database.sync().expect("a sync");
    drop(database);
    let database = Database::open(&path, &options).expect("opens again");
    assert_eq!(
        database.approximate_count(..).expect("a count"),
        u64::from(KEYS)
    );
    for n in (0..KEYS).step_by(997) {
        assert!(database.contains(&key(n)).expect("a look"));
        assert!(!database.contains(&[2, n.to_le_bytes()[0]]).expect("a look"));
    }
    let some = Prefix(&key(0)[..4]);
    let removed = database.delete_range(some, Durability::Durable);
    assert_eq!(removed.expect("a removal"), 256);
    let removed =
        database.delete_range_in_pieces(&key(1_000)[..]..&key(6_000)[..], Durability::Relaxed);
    assert_eq!(removed.expect("a removal"), 5_000);
    let left = u64::from(KEYS) - 5_256;
    assert_eq!(database.approximate_count(..).expect("a count"), left);
    assert_eq!(database.iter().expect("a walk").count() as u64, left);
    assert!(database.get(&key(7_919)).expect("a get").is_some());
    assert!(database.get(&key(1_000)).expect("a get").is_none());
}

/// Goal: scans by threads and by tasks find what is there, wherever it lies. Method: values in the index, in the log and in extents, of which a part was overwritten and a part removed
/// since the index was written; scans both ways with several bounds, against a map.
#[test]
fn scans_beyond_memory_find_all() {
    let directory = directory();
    let options = OpenOptions {
        size_bytes: 32 << 20,
        max_bytes: 256 << 20,
        cache_bytes: 64 << 10,
        engine: "segment_bytes=262144\nindex_bytes=131072\nlarge_value_bytes=4096\n".to_owned(),
        ..OpenOptions::default()
    };
    let path = directory.path().join("database");
    let database = Database::open(&path, &options).expect("opens");
    let mut model = BTreeMap::new();
    let value = |n: u32, round: u8| {
        let len = match n % 50 {
            0 => 5_000,
            1..5 => 1_000,
            _ => 60,
        };
        vec![round ^ n.to_le_bytes()[0]; len]
    };
    for round in 0..2 {
        for n in (0..KEYS).step_by(if round == 0 { 1 } else { 7 }) {
            let n = n * 7919 % KEYS;
            let put = database.put(&key(n), &value(n, round), Durability::Relaxed);
            put.expect("there is room");
            model.insert(key(n), value(n, round));
        }
    }
    for n in (0..KEYS).step_by(11) {
        let removed = database.delete(&key(n), Durability::Relaxed);
        removed.expect("a removal");
        model.remove(&key(n));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime");
    for n in (0..KEYS).step_by(173) {
        let (start, end) = (key(n), key(n + 400));
        let range = ScanRange {
            snapshot: 0,
            direction: if n % 2 == 0 {
                Direction::Forward
            } else {
                Direction::Reverse
            },
            start: Some(&start),
            end: Some(&end),
            limit: 1 + n % 300,
            max_bytes: 1 << 20,
        };
        let between = model.range(start..end);
        let expected: Vec<_> = match range.direction {
            Direction::Forward => between.take(range.limit as usize).collect(),
            Direction::Reverse => between.rev().take(range.limit as usize).collect(),
        };
        let found = match n % 3 {
            0 => runtime.block_on(database.scan_async(&range)),
            _ => database.scan(&range),
        };
        let found = found.expect("a scan");
        let entries = found.iter().map(|entry| (entry.key, entry.value));
        let expected = expected.iter().map(|(key, value)| (&key[..], &value[..]));
        assert!(entries.eq(expected), "the scan from key {n}");
    }
}

/// Goal: a get shows what was written last before it or something that is written beside it, wherever that lies. Method: keys for several times the memory of index and cache, in the
/// index and in the log; two threads write and remove them, each its own, two others read; a key's value says its version, so a get may show those from the last that was
/// acknowledged before it to the last that was begun after it.
#[test]
fn gets_beside_writes_are_up_to_date() {
    const KEYS: u32 = 60_000;
    const WRITES: u32 = 60_000;
    /// A key of this version, of each two, is not there.
    const REMOVED: u32 = 0;
    let directory = directory();
    let options = OpenOptions {
        size_bytes: 128 << 20,
        max_bytes: 512 << 20,
        cache_bytes: 8 << 20,
        engine: "segment_bytes=262144\nindex_bytes=1048576\ncheckpoint_bytes=4194304\n".to_owned(),
        ..OpenOptions::default()
    };
    let database = Database::open(&directory.path().join("database"), &options).expect("opens");
    let versions = || -> Vec<AtomicU32> { (0..KEYS).map(|_| AtomicU32::new(0)).collect() };
    let (begun, acknowledged) = (versions(), versions());
    let write = |n: u32, version: u32| {
        begun[n as usize].store(version, Ordering::SeqCst);
        let mut value = vec![7; if n.is_multiple_of(5) { 1_000 } else { 100 }];
        value[..4].copy_from_slice(&version.to_le_bytes());
        let written = match version % 2 == REMOVED {
            true => database.delete(&key(n), Durability::Relaxed),
            false => database.put(&key(n), &value, Durability::Relaxed),
        };
        written.expect("there is room");
        acknowledged[n as usize].store(version, Ordering::SeqCst);
    };
    (0..KEYS).for_each(|n| write(n, 1));
    let check = |n: u32| {
        let least = acknowledged[n as usize].load(Ordering::SeqCst);
        let found = database.get(&key(n)).expect("a get");
        let most = begun[n as usize].load(Ordering::SeqCst);
        match found.as_deref() {
            Some(value) => {
                let version = u32::from_le_bytes(*value.first_chunk().expect("four"));
                assert!((least..=most).contains(&version), "key {n}: {version}");
            }
            None => assert!(
                (least..=most).any(|version| version % 2 == REMOVED),
                "key {n} is not there: {least} to {most}"
            ),
        }
    };
    let (stop, read) = (AtomicBool::new(false), AtomicU32::new(0));
    // What each writer writes next: whoever reads that now reads it from the device while it is written.
    let next = [AtomicU32::new(0), AtomicU32::new(0)];
    std::thread::scope(|scope| {
        for reader in 0..2_usize {
            let (stop, read, next, check) = (&stop, &read, &next, &check);
            scope.spawn(move || {
                let (mut n, mut last) = (0, 0);
                while !stop.load(Ordering::Relaxed) {
                    n = (n * 7 + 4_999) % KEYS;
                    let aimed = next[reader].load(Ordering::Relaxed);
                    [aimed, last, n].into_iter().for_each(check);
                    last = aimed;
                    read.fetch_add(3, Ordering::Relaxed);
                }
            });
        }
        let writers = [0, 1].map(|writer| {
            let (write, acknowledged, next) = (&write, &acknowledged, &next);
            scope.spawn(move || {
                for round in 0..WRITES / 2 {
                    let n = (round * 7_919 + round / 64) % (KEYS / 2) * 2 + writer;
                    next[writer as usize].store(n, Ordering::Relaxed);
                    if round.is_multiple_of(4) {
                        std::thread::sleep(Duration::from_micros(u64::from(round % 150)));
                    }
                    write(n, acknowledged[n as usize].load(Ordering::SeqCst) + 1);
                }
            })
        });
        let ended = writers.map(|writer| writer.join().is_ok());
        stop.store(true, Ordering::Relaxed);
        assert_eq!(ended, [true; 2]);
    });
    let counts = database.counts();
    let read = read.into_inner();
    assert!(read > 1_000 && counts.engine.index_reads > 1_000, "{read}");
    assert!(counts.io.reads >= counts.engine.index_reads);
}
