//! Transactions that read ranges, and conditions on ranges.
#![allow(missing_docs, reason = "a test")]

use crate::common::directory;
use std::collections::BTreeMap;

use kvsim_native::{
    Checked, Conditions, Database, DriverChoice, Durability, Keyspace, KeyspaceBatch,
    KeyspaceChecked, KeyspaceConditions, OpenOptions, Prefix, Status, Transaction, WriteBatch,
};

/// A database with so large a cache, and so much memory for its index (0: no bound).
fn opened(cache_bytes: u64, index_bytes: u64) -> (tempfile::TempDir, Database) {
    let directory = directory();
    let options = OpenOptions {
        driver: DriverChoice::Threads,
        size_bytes: 16 << 20,
        max_bytes: 256 << 20,
        cache_bytes,
        engine: format!("segment_bytes=262144\nindex_bytes={index_bytes}\n"),
        ..OpenOptions::default()
    };
    let database = Database::open(&directory.path().join("database"), &options);
    (directory, database.expect("a new database"))
}

/// Without a cache; with one that holds none of the long values; with one that holds all.
const CACHES: [u64; 3] = [0, 1 << 20, 64 << 20];

fn put(database: &Database, key: &[u8], value: &[u8]) {
    let put = database.put(key, value, Durability::Relaxed);
    put.expect("there is room");
}

fn numbered(number: usize) -> Vec<u8> {
    [b"k".as_slice(), &number.to_be_bytes()].concat()
}

fn delete(database: &Database, key: &[u8]) {
    let deleted = database.delete(key, Durability::Relaxed);
    deleted.expect("it is open");
}

/// Takes so many entries of a range from each end.
fn take(transaction: &mut Transaction, front: usize, back: usize) {
    let mut range = transaction.range("b".."n").expect("it is open");
    for _ in 0..front {
        range.next().transpose().expect("it can be read");
    }
    for _ in 0..back {
        range.next_back().transpose().expect("it can be read");
    }
}

/// Goal: a transaction commits if what it has passed of a range is the same, and names the key otherwise, whatever else changed. Method: a range of four keys, passed to
/// some key from either end or wholly, by transactions of the database and of a snapshot; then each kind of change at each place; with values in the cache and not.
#[test]
fn what_was_passed_must_be_unchanged() {
    type Change = (&'static str, fn(&Database, &[u8]));
    let changes: [Change; 4] = [
        ("put", |database, key| put(database, key, b"new")),
        ("delete", delete),
        ("change back", |database, key| {
            let old = database.get(key).expect("a get");
            put(database, key, b"new");
            match old {
                Some(old) => put(database, key, &old),
                None => delete(database, key),
            }
        }),
        ("beside", |database, _| put(database, b"z", b"")),
    ];
    // How many are taken from either end of b..n, which holds c, e, g and i; below which key and from which one on they were passed then.
    let takes: [(usize, usize, &[u8], &[u8]); 9] = [
        (0, 0, b"", b"~"),
        (1, 0, b"c\0", b"~"),
        (4, 0, b"i\0", b"~"),
        (2, 1, b"e\0", b"i"),
        (2, 2, b"e\0", b"g"),
        (0, 2, b"", b"g"),
        // Then it has said that there is no more.
        (5, 0, b"~", b""),
        (3, 2, b"~", b""),
        (0, 5, b"~", b""),
    ];
    for cache_bytes in CACHES {
        let (_directory, database) = opened(cache_bytes, 0);
        for (front, back, below, from) in takes {
            for key in ["a", "b", "bb", "c", "d", "e", "f", "g", "h", "i", "j", "n"] {
                let key = key.as_bytes();
                for (name, change) in changes {
                    delete(&database, key);
                    for there in [b"c", b"e", b"g", b"i"] {
                        put(&database, there, &[7; 9000]);
                    }
                    let snapshot = database.snapshot().expect("it is open");
                    for mut transaction in [database.transaction(), snapshot.transaction()] {
                        take(&mut transaction, front, back);
                        let before = database.get(key).expect("a get");
                        change(&database, key);
                        let after = database.get(key).expect("a get");
                        let is_same = after.as_deref() == before.as_deref();
                        let in_range = key >= b"b".as_slice() && key < b"n".as_slice();
                        let is_passed = in_range && (key < below || key >= from);
                        let expected = match is_same || !is_passed {
                            true => Checked::Written,
                            false => Checked::Changed { key: key.into() },
                        };
                        transaction.put(b"y", name.as_bytes());
                        let found = transaction.commit(Durability::Relaxed);
                        let what = format!(
                            "{name} {key:?}, {front} and {back} taken, cache {cache_bytes}"
                        );
                        assert_eq!(found.expect("there is room"), expected, "{what}");
                        // As it was.
                        match before {
                            Some(before) => put(&database, key, &before),
                            None => delete(&database, key),
                        }
                    }
                }
            }
        }
    }
}

/// Goal: a range is what there is with the transaction's own writes in it, from both ends, each entry once. Method: random entries, own writes and steps from either end,
/// against a map.
#[test]
fn own_writes_are_in_the_range() {
    let (_directory, database) = opened(1 << 20, 0);
    let mut random = 1_u64;
    let mut next = |below: usize| {
        let below = below as u64;
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from((random >> 33) % below).expect("it is small")
    };
    for _ in 0..300 {
        let mut model = BTreeMap::new();
        let mut batch = WriteBatch::new();
        let span = [4, 40, 1500][next(3)];
        for key in 0..span {
            let key = numbered(key);
            if next(2) == 0 {
                let value = vec![1; next(40)];
                batch.put(&key, &value);
                model.insert(key.to_vec(), value);
            } else {
                batch.delete(&key);
            }
        }
        let written = database.apply(&batch, Durability::Relaxed);
        written.expect("there is room");
        let mut transaction = database.transaction();
        for _ in 0..next(span) {
            let key = next(span);
            let key = numbered(key);
            if next(3) == 0 {
                transaction.delete(&key);
                model.remove(&key[..]);
            } else {
                let value = vec![2; next(40)];
                transaction.put(&key, &value);
                model.insert(key.to_vec(), value);
            }
        }
        let (from, to) = (next(span), next(span));
        let (from, to) = (numbered(from), numbered(to));
        let inside = model
            .iter()
            .filter(|(key, _)| from <= **key && **key < to)
            .map(|(key, value)| (key.clone(), value.clone()));
        let mut expected = inside.collect::<std::collections::VecDeque<_>>();
        let mut range = transaction.range(&from..&to).expect("it is open");
        let forward = next(3);
        loop {
            let is_front = match forward {
                0 => true,
                1 => false,
                _ => next(2) == 0,
            };
            let (found, expected) = match is_front {
                true => (range.next(), expected.pop_front()),
                false => (range.next_back(), expected.pop_back()),
            };
            let found = found.transpose().expect("it can be read");
            let found = found.map(|entry| (entry.key.to_vec(), entry.value.to_vec()));
            assert_eq!(found, expected);
            if found.is_none() {
                break;
            }
        }
        assert!(range.next().is_none() && range.next_back().is_none());
        drop(range);
        let committed = transaction.commit(Durability::Relaxed);
        assert_eq!(committed.expect("there is room"), Checked::Written);
    }
}

/// Goal: no key comes into a range between the moment when a transaction counts it and the one when it commits. Method: threads put a key of their own only while a
/// range holds fewer than ten, and remove one only while it holds more than five, by transactions of the database and of snapshots, with an index that fits into
/// memory and one that does not; a thread beside them counts.
#[test]
fn a_counted_range_is_not_overfull() {
    for (cache_bytes, index_bytes) in [(0, 0), (64 << 20, 0), (1 << 20, 1 << 20)] {
        let (_directory, database) = opened(cache_bytes, index_bytes);
        for other in 0..4000_u32 {
            put(
                &database,
                &[b"other".as_slice(), &other.to_be_bytes()].concat(),
                &[0; 300],
            );
        }
        for first in 0..5_u8 {
            put(&database, &[b's', 9, first], &[0; 2000]);
        }
        let chairs = Prefix("s");
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4_u8)
                .map(|thread| {
                    let database = &database;
                    scope.spawn(move || {
                        let mut committed = 0;
                        for round in 0..600_u16 {
                            let mut transaction = match round % 2 {
                                0 => database.transaction(),
                                _ => database.snapshot().expect("it is open").transaction(),
                            };
                            let range = transaction.range(chairs).expect("it is open");
                            let keys: Vec<_> = range
                                .map(|entry| entry.expect("it can be read").key)
                                .collect();
                            match (round % 3, keys.len()) {
                                (0, 6..) => transaction.delete(&keys[usize::from(thread)]),
                                (1 | 2, ..10) => {
                                    let [high, low] = round.to_be_bytes();
                                    transaction.put(&[b's', thread, high, low], &[0; 2000])
                                }
                                _ => continue,
                            };
                            let done = transaction.commit(Durability::Relaxed);
                            committed +=
                                u32::from(done.expect("there is room") == Checked::Written);
                        }
                        committed
                    })
                })
                .collect();
            while workers.iter().any(|worker| !worker.is_finished()) {
                let count = database.range(chairs).expect("it is open").count();
                assert!(
                    (5..=10).contains(&count),
                    "{count} keys, cache {cache_bytes}"
                );
            }
            for worker in workers {
                let committed = worker.join().expect("it does not panic");
                assert!(committed > 10, "{committed}");
            }
        });
    }
}

/// Goal: a condition on a range that was read some other way is checked too, and a closed database is an error and no condition. Method: each kind of difference.
#[test]
fn ranges_are_conditions() {
    for cache_bytes in CACHES {
        let (_directory, database) = opened(cache_bytes, 0);
        for key in [b"b", b"d"] {
            put(&database, key, &[3; 9000]);
        }
        let read = || {
            let range = database.range("a".."f").expect("it is open");
            range.map(|entry| entry.expect("it can be read"))
        };
        let mut conditions = Conditions::new();
        conditions.range_is_unchanged("a".."f", read());
        let mut reversed = Conditions::new();
        reversed.range_is_unchanged("f".."a", []);
        let batch = WriteBatch::new();
        let checked = |conditions| {
            let checked = database.apply_if(conditions, &batch, Durability::Relaxed);
            match checked.expect("it is open") {
                Checked::Written => None,
                Checked::Changed { key } => Some(key.to_vec()),
            }
        };
        assert_eq!(checked(&conditions), None);
        assert_eq!(checked(&reversed), None, "it holds no key");
        for (key, differs) in [("a", "a"), ("c", "c"), ("e", "e")] {
            put(&database, key.as_bytes(), b"");
            assert_eq!(checked(&conditions), Some(differs.into()));
            delete(&database, key.as_bytes());
            assert_eq!(checked(&conditions), None);
        }
        delete(&database, b"b");
        assert_eq!(checked(&conditions), Some(b"b".to_vec()));
        put(&database, b"c", b"");
        assert_eq!(checked(&conditions), Some(b"b".to_vec()), "the first");
        database.clone().close().expect("all is durable");
        let closed = database.apply_if(&conditions, &batch, Durability::Relaxed);
        assert_eq!(closed.expect_err("it is closed").status, Status::Closed);
    }
}

/// Goal: in keyspaces a range is one keyspace's alone. Method: neighbours with the same keys are changed, and then the range itself.
#[test]
fn ranges_of_keyspaces_are_conditions() {
    let directory = directory();
    let options = OpenOptions::new().size_bytes(16 << 20);
    let keyspaces = options.open_keyspaces(directory.path().join("database"));
    let keyspaces = keyspaces.expect("a new one");
    let [low, own, high] =
        ["low", "own", "high"].map(|name| keyspaces.create(name).expect("a keyspace"));
    let put = |keyspace: &Keyspace, key: &[u8]| {
        let put = keyspace.put(key, b"", Durability::Relaxed);
        put.expect("there is room");
    };
    put(&own, b"a");
    put(&own, b"b");
    let read = own.iter().expect("it is open");
    let mut conditions = KeyspaceConditions::new();
    let read = read.map(|entry| entry.expect("it can be read"));
    conditions.range_is_unchanged(&own, .., read);
    let mut transaction = keyspaces.transaction();
    transaction.put(&own, b"c", b"").delete(&own, b"a");
    let keys: Vec<_> = transaction
        .range(&own, ..)
        .expect("it is open")
        .map(|entry| entry.expect("it can be read").key)
        .collect();
    assert_eq!(keys, [b"b".as_slice().into(), b"c".as_slice().into()]);
    let late = transaction.clone();
    for neighbour in [&low, &high] {
        put(neighbour, b"a");
        put(neighbour, b"c");
    }
    let batch = KeyspaceBatch::new();
    let checked = keyspaces.apply_if(&conditions, &batch, Durability::Relaxed);
    assert_eq!(checked.expect("it is open"), KeyspaceChecked::Written);
    let checked = transaction.commit(Durability::Relaxed);
    assert_eq!(checked.expect("it is open"), KeyspaceChecked::Written);
    let changed = || {
        let (keyspace, key) = (own.clone(), b"a".as_slice().into());
        KeyspaceChecked::Changed { keyspace, key }
    };
    let checked = keyspaces.apply_if(&conditions, &batch, Durability::Relaxed);
    assert_eq!(checked.expect("it is open"), changed());
    let checked = late.commit(Durability::Relaxed);
    assert_eq!(checked.expect("it is open"), changed());
}
