//! Keyspaces and many threads: drops beside writes, creations beside each other, moments of all.
#![allow(missing_docs, reason = "a test")]

use crate::common::directory;
use std::collections::BTreeSet;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use kvsim_native::{
    Direction, Durability, Failure, Keyspace, KeyspaceBatch, KeyspaceChecked, KeyspaceConditions,
    KeyspaceError, Keyspaces, OpenOptions, ScanRange, Status,
};

fn options() -> OpenOptions {
    OpenOptions::new()
        .size_bytes(64 << 20)
        .segment_bytes(1 << 18)
}

fn opened(path: &Path) -> Keyspaces {
    options().open_keyspaces(path).expect("it opens")
}

/// What each key of the file that is not of the catalogue begins with. There are fewer than 128 keyspaces, so it is one byte.
fn first_bytes(path: &Path) -> BTreeSet<u8> {
    let database = options().open(path).expect("it opens");
    let entries = database.iter().expect("it is open");
    let bytes = entries.map(|entry| entry.expect("it can be read").key[0]);
    bytes.filter(|byte| *byte != 0).collect()
}

/// Whether it was done; an error other than that the keyspace was dropped is a bug.
fn done(result: Result<(), Failure>) -> bool {
    match result {
        Ok(()) => true,
        Err(failure) => {
            assert_eq!(failure.status, Status::Invalid, "{failure}");
            assert!(failure.message.contains("was dropped"), "{failure}");
            false
        }
    }
}

/// Waits for a future, which needs nothing but polls.
fn poll_until_ready<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        match future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::yield_now(),
        }
    }
}

/// One write in one of the ways in which there are writes.
fn write(keyspaces: &Keyspaces, keyspace: &Keyspace, way: u64, key: &[u8]) -> bool {
    let relaxed = Durability::Relaxed;
    let mut batch = KeyspaceBatch::new();
    batch.put(keyspace, key, b"batch");
    done(match way % 6 {
        0 => keyspace.put(key, b"put", relaxed),
        1 => keyspaces.apply(&batch, relaxed),
        2 => keyspace
            .replace(key, None, Some(b"replace"), relaxed)
            .map(|_| ()),
        3 => {
            let mut conditions = KeyspaceConditions::new();
            conditions.is_absent(keyspace, key);
            keyspaces.apply_if(&conditions, &batch, relaxed).map(|_| ())
        }
        4 => {
            let mut transaction = keyspaces.transaction();
            transaction.put(keyspace, key, b"transaction");
            transaction.commit(relaxed).map(|_| ())
        }
        _ => poll_until_ready(keyspace.put_async(key, b"task", relaxed)),
    })
}

/// Goal: a write through a handle that races with the drop of its keyspace leaves no key that nobody owns, and none that was acknowledged before is missing while there is no
/// drop. Method: threads write in each way without a pause while the keyspace is dropped and created anew; after each drop there has to be nothing of it in the file, and
/// in the end only the last one's keys are there.
#[test]
fn drops_leave_nothing_of_racing_writes() {
    let directory = directory();
    let path = directory.path().join("database");
    let keyspaces = opened(&path);
    let ended = AtomicBool::new(false);
    let (refused, written) = (AtomicU64::new(0), AtomicU64::new(0));
    keyspaces.create("raced").expect("there is room");
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (keyspaces, ended) = (&keyspaces, &ended);
            let (refused, written) = (&refused, &written);
            scope.spawn(move || {
                let mut number = 0_u64;
                while !ended.load(Ordering::Relaxed) {
                    let Ok(keyspace) = keyspaces.open("raced") else {
                        std::thread::yield_now();
                        continue;
                    };
                    // Until it is dropped.
                    loop {
                        number += 1;
                        let key = [thread.to_be_bytes(), number.to_be_bytes()].concat();
                        if !write(keyspaces, &keyspace, number, &key) {
                            refused.fetch_add(1, Ordering::Relaxed);
                            break;
                        }
                        written.fetch_add(1, Ordering::Relaxed);
                        if let Ok(found) = keyspace.get(&key) {
                            assert!(found.is_some(), "it was acknowledged");
                        }
                        if ended.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                }
            });
        }
        for _ in 0..60 {
            let before = written.load(Ordering::Relaxed);
            while written.load(Ordering::Relaxed) < before + 200 {
                std::thread::yield_now();
            }
            keyspaces.drop_keyspace("raced").expect("it is there");
            keyspaces.create("raced").expect("the name is free");
        }
        ended.store(true, Ordering::Relaxed);
    });
    assert!(refused.load(Ordering::Relaxed) > 60, "writes met drops");
    let last = keyspaces.open("raced").expect("it is there");
    last.put(b"last", b"", Durability::Relaxed)
        .expect("it is there");
    drop((keyspaces, last));
    assert_eq!(first_bytes(&path), BTreeSet::from([61]));
}

/// Goal: a read that races with a drop finds what was there, or says that the keyspace was dropped: it never finds keys that the removal has left. Method: threads that read in
/// each way without a pause, more of them than processors, so that some are interrupted within a read while a keyspace is dropped.
#[test]
fn reads_find_all_or_a_drop() {
    const KEYS: u32 = 40;
    let directory = directory();
    let options = options().cache_bytes(0);
    let keyspaces = options.open_keyspaces(directory.path().join("database"));
    let keyspaces = keyspaces.expect("it opens");
    let create = || {
        let keyspace = keyspaces.create("new").expect("the name is free");
        for key in 0..KEYS {
            keyspace
                .put(&key.to_be_bytes(), b"value", Durability::Relaxed)
                .expect("there is room");
        }
        keyspaces.rename("new", "full").expect("it is there");
    };
    let all = ScanRange {
        snapshot: 0,
        direction: Direction::Forward,
        start: None,
        end: None,
        limit: 2 * KEYS,
        max_bytes: u32::MAX,
    };
    let key = 0_u32.to_be_bytes();
    let read = |keyspace: &Keyspace, way: u32| {
        let found = match way % 8 {
            0 => keyspace.get(&key).map(|it| u32::from(it.is_some()) * KEYS),
            1 => keyspace.contains(&key).map(|it| u32::from(it) * KEYS),
            2 => keyspace
                .multi_get(&[key])
                .remove(0)
                .map(|it| u32::from(it.is_some()) * KEYS),
            3 => keyspace
                .scan(&all)
                .map(|it| u32::try_from(it.len()).expect("they are few")),
            4 => keyspace
                .approximate_count(..)
                .map(|it| u32::try_from(it).expect("they are few")),
            5 => keyspace
                .iter()
                .map(|it| u32::try_from(it.count()).expect("they are few")),
            6 => {
                poll_until_ready(keyspace.get_async(&key)).map(|it| u32::from(it.is_some()) * KEYS)
            }
            _ => poll_until_ready(keyspace.scan_async(&all))
                .map(|it| u32::try_from(it.len()).expect("they are few")),
        };
        let dropped =
            |failure: &Failure| assert!(failure.message.contains("was dropped"), "{failure}");
        found.inspect_err(dropped).ok()
    };
    let ended = AtomicBool::new(false);
    let reads = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for way in 0..8 {
            let (keyspaces, ended, reads, read) = (&keyspaces, &ended, &reads, &read);
            scope.spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    let Ok(keyspace) = keyspaces.open("full") else {
                        std::thread::yield_now();
                        continue;
                    };
                    while let Some(found) = read(&keyspace, way) {
                        assert_eq!(found, KEYS, "way {way}");
                        reads.fetch_add(1, Ordering::Relaxed);
                        if ended.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                }
            });
        }
        for _ in 0..100 {
            create();
            let before = reads.load(Ordering::Relaxed);
            while reads.load(Ordering::Relaxed) < before + 50 {
                std::thread::yield_now();
            }
            keyspaces.drop_keyspace("full").expect("it is there");
        }
        ended.store(true, Ordering::Relaxed);
    });
}

/// Goal: of several threads that create a keyspace, one does, and all that open it or create it have the same. Method: threads that begin together, for many names.
#[test]
fn one_of_several_threads_creates() {
    let directory = directory();
    let path = directory.path().join("database");
    let keyspaces = opened(&path);
    let names: Vec<String> = (0..15).map(|number| format!("name {number}")).collect();
    let barrier = std::sync::Barrier::new(4);
    let made: Vec<Vec<(bool, Keyspace)>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let make = |name: &String| {
                        barrier.wait();
                        match keyspaces.create(name) {
                            Ok(keyspace) => (true, keyspace),
                            Err(KeyspaceError::Exists { .. }) => {
                                (false, keyspaces.open_or_create(name).expect("it is there"))
                            }
                            Err(error) => panic!("{error}"),
                        }
                    };
                    names.iter().map(make).collect::<Vec<_>>()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|it| it.join().expect("no panic"))
            .collect()
    });
    for number in 0..names.len() {
        let creators = made.iter().filter(|it| it[number].0).count();
        assert_eq!(creators, 1, "{number}");
        assert!(made.iter().all(|it| it[number].1 == made[0][number].1));
        made[0][number]
            .1
            .put(b"key", b"", Durability::Relaxed)
            .expect("there is room");
    }
    drop((keyspaces, made));
    // Each has an identifier of its own, and no more were given than there are.
    assert_eq!(first_bytes(&path), (1..=15).collect());
    assert_eq!(opened(&path).list().len(), 15);
}

/// Goal: a batch is seen in all its keyspaces or in none, by snapshots and by transactions, and no transfer between keyspaces is lost. Method: one thread writes a number to
/// two keyspaces, in batches; others transfer between two more, in transactions; snapshots of all meanwhile.
#[test]
fn moments_are_of_all_keyspaces() {
    const SUM: u64 = 1000;
    let directory = directory();
    let path = directory.path().join("database");
    let keyspaces = opened(&path);
    let created =
        ["a", "b", "from", "to"].map(|name| keyspaces.create(name).expect("there is room"));
    let [a, b, from, to] = &created;
    let number = |found: Option<kvsim_native::Value>| {
        let found = found.map(|it| it[..].try_into().expect("eight bytes"));
        found.map_or(0, u64::from_le_bytes)
    };
    from.put(b"sum", &SUM.to_le_bytes(), Durability::Relaxed)
        .expect("there is room");
    std::thread::scope(|scope| {
        let numbers = scope.spawn(|| {
            for number in 1..=3000_u64 {
                let number = number.to_le_bytes();
                let mut batch = KeyspaceBatch::new();
                batch.put(a, b"number", &number).put(b, b"number", &number);
                keyspaces
                    .apply(&batch, Durability::Relaxed)
                    .expect("there is room");
            }
        });
        let transfers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..300 {
                        let moved = keyspaces.transact(Durability::Relaxed, |transaction| {
                            let left = number(transaction.get(from, b"sum")?);
                            let there = number(transaction.get(to, b"sum")?);
                            transaction.put(from, b"sum", &(left - 1).to_le_bytes());
                            transaction.put(to, b"sum", &(there + 1).to_le_bytes());
                            Ok(())
                        });
                        moved.expect("there is room");
                    }
                })
            })
            .collect();
        let mut moments = 0;
        while moments < 200 || !numbers.is_finished() {
            let snapshot = match moments % 2 {
                0 => keyspaces.snapshot(),
                _ => poll_until_ready(keyspaces.snapshot_async()),
            };
            let snapshot = snapshot.expect("it is open");
            let get = |keyspace, key| number(snapshot.get(keyspace, key).expect("it can be read"));
            assert_eq!(get(a, b"number"), get(b, b"number"));
            assert_eq!(get(from, b"sum") + get(to, b"sum"), SUM);
            moments += 1;
        }
        numbers.join().expect("no panic");
        transfers
            .into_iter()
            .for_each(|it| it.join().expect("no panic"));
    });
    assert_eq!(number(to.get(b"sum").expect("it can be read")), 600);
    // Of the same moment, a transaction that comes too late is not made.
    let mut late = keyspaces.snapshot().expect("it is open").transaction();
    late.get(a, b"number").expect("it can be read");
    late.put(b, b"late", b"");
    a.put(b"number", b"12345678", Durability::Relaxed)
        .expect("there is room");
    let key = b"number".as_slice().into();
    let changed = KeyspaceChecked::Changed {
        keyspace: a.clone(),
        key,
    };
    assert_eq!(
        late.commit(Durability::Durable).expect("there is room"),
        changed
    );
    assert!(!b.contains(b"late").expect("it can be read"));
}

/// Goal: a copy of a divided database is one, of one moment. Method: copies while a batch is written to two keyspaces again and again and another is dropped.
#[test]
fn a_copy_is_divided_too() {
    let directory = directory();
    let keyspaces = opened(&directory.path().join("database"));
    let [a, b] = ["a", "b"].map(|name| keyspaces.create(name).expect("there is room"));
    let other = keyspaces.create("other").expect("there is room");
    for number in 0..3000_u32 {
        let put = other.put(&number.to_be_bytes(), b"value", Durability::Relaxed);
        put.expect("there is room");
    }
    let snapshot = keyspaces.snapshot().expect("it is open");
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0_u32;
            while !ended.load(Ordering::Relaxed) {
                number += 1;
                let mut batch = KeyspaceBatch::new();
                let (key, value) = (number % 50, number.to_le_bytes());
                batch
                    .put(&a, &key.to_le_bytes(), &value)
                    .put(&b, &key.to_le_bytes(), &value);
                keyspaces
                    .apply(&batch, Durability::Relaxed)
                    .expect("there is room");
            }
        });
        for copy in ["1", "2", "3"] {
            let path = directory.path().join(copy);
            keyspaces.backup(&path).expect("there is room");
            let copy = OpenOptions::new()
                .read_only(true)
                .open_keyspaces(&path)
                .expect("it is whole");
            let all = |name: &str| {
                let keyspace = copy.open(name).expect("it is there");
                let entries = keyspace.iter().expect("it is there");
                let entry = |it: Result<kvsim_native::OwnedEntry, Failure>| {
                    let it = it.expect("it can be read");
                    (it.key, it.value.to_vec())
                };
                entries.map(entry).collect::<Vec<_>>()
            };
            assert_eq!(all("a"), all("b"));
            match keyspaces.list().len() {
                3 => {
                    assert_eq!(all("other").len(), 3000);
                    keyspaces.drop_keyspace("other").expect("it is there");
                }
                _ => assert_eq!(copy.list(), ["a", "b"]),
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
    let path = directory.path().join("before");
    let options = OpenOptions::new().size_bytes(16 << 20);
    snapshot
        .backup(&path, &options, |_| ())
        .expect("there is room");
    let copy = opened(&path);
    let other = copy.open("other").expect("it was there");
    assert_eq!(other.approximate_count(..), Ok(3000));
    assert_eq!(
        copy.create("new")
            .expect("there is room")
            .approximate_count(..),
        Ok(0)
    );
}
