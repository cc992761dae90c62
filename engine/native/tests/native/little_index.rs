//! A database whose index does not fit into the memory that it may take.
#![allow(missing_docs, reason = "a test")]

use crate::common::directory;
use std::collections::BTreeMap;

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
