//! Conditional writes, transactions and what removes ranges, under many threads.
#![allow(missing_docs, reason = "a test")]

use crate::common::directory;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use kvsim_native::{
    Checked, Conditions, Database, DriverChoice, Durability, OpenOptions, Prefix, Status,
    WriteBatch,
};

const DURABILITIES: [Durability; 2] = [Durability::Relaxed, Durability::Durable];

/// A database with so large a cache, and a write buffer that is soon full.
fn opened(cache_bytes: u64) -> (tempfile::TempDir, Database) {
    let directory = directory();
    let database = Database::open(&directory.path().join("database"), &options(cache_bytes));
    (directory, database.expect("a new database"))
}

fn options(cache_bytes: u64) -> OpenOptions {
    OpenOptions {
        driver: DriverChoice::Threads,
        size_bytes: 16 << 20,
        max_bytes: 256 << 20,
        cache_bytes,
        engine: "segment_bytes=262144\nwrite_buffer_bytes=65536\n".to_owned(),
        ..OpenOptions::default()
    }
}

/// Without a cache; with one that holds none of the long values; with one that holds all.
const CACHES: [u64; 3] = [0, 1 << 20, 64 << 20];

/// A number as a value of this length.
fn value(number: u64, len: usize) -> Vec<u8> {
    let mut value = vec![7; len.max(8)];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().expect("eight bytes"))
}

/// Goal: no change is lost and none is made twice, whatever the cache holds and however full the engine is. Method: threads count up the same keys, with short and long
/// values, by replacing what they read and by transactions, while others write and delete keys beside them; each key's count is how often it was counted up, now and
/// after opening again.
#[test]
fn no_count_is_lost() {
    const THREADS: u64 = 6;
    const ROUNDS: u64 = 120;
    for cache_bytes in CACHES {
        let (directory, database) = opened(cache_bytes);
        let keys = [(b"short", 8), (b"large", 9_000), (b"inner", 200)];
        let (conflicts, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let counters: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (database, conflicts) = (&database, &conflicts);
                    scope.spawn(move || {
                        for round in 0..ROUNDS {
                            let (key, len) = keys[(round % 3) as usize];
                            let durability = DURABILITIES[usize::from(round % 10 == 0)];
                            if (thread + round) % 2 == 0 {
                                let counted = database.transact(durability, |transaction| {
                                    conflicts.fetch_add(1, Ordering::Relaxed);
                                    let now = transaction.get(key)?.map_or(0, |it| number(&it));
                                    transaction.put(key, &value(now + 1, len));
                                    Ok(())
                                });
                                counted.expect("there is room");
                                continue;
                            }
                            loop {
                                conflicts.fetch_add(1, Ordering::Relaxed);
                                let old = database.get(key).expect("it can be read");
                                let next = value(old.as_deref().map_or(0, number) + 1, len);
                                let new = Some(&next[..]);
                                let replaced =
                                    database.replace(key, old.as_deref(), new, durability);
                                if replaced.expect("there is room") == Checked::Written {
                                    break;
                                }
                            }
                        }
                    })
                })
                .collect();
            let (database, stop) = (&database, &stop);
            scope.spawn(move || {
                for n in 0_u64.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let key = (n % 2000).to_le_bytes();
                    let put = database.put(&key, &value(n, 3000), Durability::Relaxed);
                    put.expect("there is room");
                    if n % 7 == 0 {
                        let delete = database.delete(&key, Durability::Relaxed);
                        delete.expect("there is room");
                    }
                }
            });
            for counter in counters {
                counter.join().expect("it counts");
            }
            stop.store(true, Ordering::Relaxed);
        });
        let check = |database: &Database| {
            for (key, len) in keys {
                let found = database.get(key).expect("a get").expect("it was counted");
                assert_eq!((number(&found), found.len()), (THREADS * ROUNDS / 3, len));
            }
        };
        check(&database);
        assert!(
            conflicts.load(Ordering::Relaxed) > THREADS * ROUNDS,
            "nobody came in between with a cache of {cache_bytes}"
        );
        database.close().expect("all is durable");
        let path = directory.path().join("database");
        check(&Database::open(&path, &options(cache_bytes)).expect("the same database"));
    }
}

/// Goal: transactions are as if made one after the other, several keys together. Method: threads move amounts between accounts, some of which are not there, by
/// transactions of the database and of snapshots; the sum is the same at every moment.
#[test]
fn transactions_keep_the_sum() {
    const ACCOUNTS: u64 = 12;
    for cache_bytes in CACHES {
        let (_directory, database) = opened(cache_bytes);
        let key = |account: u64| (account % ACCOUNTS).to_be_bytes();
        for account in 0..ACCOUNTS {
            let put = database.put(&key(account), &value(100, 8), Durability::Relaxed);
            put.expect("there is room");
        }
        let committed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (database, committed) = (&database, &committed);
                scope.spawn(move || {
                    let mut random: u64 = thread + 1;
                    for _ in 0..400 {
                        random = random
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1);
                        let (from, to) = (key(random >> 20), key(random >> 40));
                        if from == to {
                            continue;
                        }
                        let mut transaction = match random % 4 {
                            0 | 1 => database.transaction(),
                            _ => database.snapshot().expect("it is open").transaction(),
                        };
                        let mut amount = |key: &[u8]| {
                            let found = transaction.get(key).expect("it can be read");
                            found.map_or(0, |found| number(&found))
                        };
                        let (less, more) = (amount(&from), amount(&to));
                        let moved = less.min(1 + (random >> 30) % 60);
                        match less - moved {
                            0 => transaction.delete(&from),
                            left => transaction.put(&from, &value(left, 8)),
                        };
                        transaction.put(&to, &value(more + moved, 8));
                        let seen = transaction.get(&to).expect("its own");
                        assert_eq!(number(&seen.expect("it was put")), more + moved);
                        let done = transaction.commit(Durability::Relaxed);
                        let done = done.expect("there is room") == Checked::Written;
                        committed.fetch_add(u64::from(done), Ordering::Relaxed);
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..200 {
                    let entries = database.iter().expect("it is open");
                    let sum: u64 = entries
                        .map(|entry| number(&entry.expect("it can be read").value))
                        .sum();
                    assert_eq!(sum, 100 * ACCOUNTS);
                }
            });
        });
        let committed = committed.into_inner();
        assert!(
            (100..1600).contains(&committed),
            "{committed} of 1600 committed"
        );
    }
}

/// Goal: a condition that does not hold is named, and nothing is written; one that holds lets the batch in. Method: each kind of condition, both ways; and a key that was
/// changed and changed back.
#[test]
fn conditions_are_checked() {
    for cache_bytes in CACHES {
        let (_directory, database) = opened(cache_bytes);
        let put = |key: &[u8], value: &[u8]| {
            let put = database.put(key, value, Durability::Relaxed);
            put.expect("there is room");
        };
        put(b"a", b"1");
        put(b"long", &[3; 50_000]);
        let read = database.get(b"long").expect("a get");
        let mut batch = WriteBatch::new();
        batch.put(b"done", b"yes").delete(b"a");
        let mut apply = |conditions: &Conditions| {
            let checked = database.apply_if(conditions, &batch, Durability::Durable);
            let done = database.get(b"done").expect("a get").is_some();
            database
                .delete(b"done", Durability::Relaxed)
                .expect("there is room");
            batch.clear();
            batch.put(b"done", b"yes");
            match checked.expect("there is room") {
                Checked::Written => {
                    assert!(done);
                    None
                }
                Checked::Changed { key } => {
                    assert!(!done);
                    Some(key.to_vec())
                }
            }
        };
        let conditions = |add: fn(&mut Conditions)| {
            let mut conditions = Conditions::new();
            add(&mut conditions);
            conditions
        };
        let holds = conditions(|it| {
            it.is(b"a", b"1").is_absent(b"b").is(b"long", &[3; 50_000]);
        });
        assert_eq!(apply(&holds), None, "cache {cache_bytes}");
        assert_eq!(apply(&holds), Some(b"a".to_vec()), "it was deleted");
        assert_eq!(apply(&Conditions::new()), None);
        let mut unchanged = Conditions::new();
        unchanged
            .is_unchanged(b"long", read.as_ref())
            .is_unchanged(b"a", None);
        assert_eq!(apply(&unchanged), None);
        put(b"long", b"");
        assert_eq!(apply(&unchanged), Some(b"long".to_vec()));
        put(b"long", &[3; 50_000]);
        assert_eq!(apply(&unchanged), None, "it was changed back");
        put(b"a", b"");
        assert_eq!(apply(&unchanged), Some(b"a".to_vec()));
        assert_eq!(
            apply(&conditions(|it| {
                it.is_absent(b"a");
            })),
            Some(b"a".to_vec())
        );
        assert_eq!(
            apply(&conditions(|it| {
                it.is(b"a", b"");
            })),
            None
        );
        database.clone().close().expect("all is durable");
        let refused = database.apply_if(&Conditions::new(), &batch, Durability::Relaxed);
        assert_eq!(refused.expect_err("it is closed").status, Status::Closed);
    }
}

/// Goal: a range is removed at one moment. Method: a thread removes a range again and again while others fill it, each as one batch, and wait when there is nearly too
/// much to be removed at once; no snapshot ever has a part of a batch, and the numbers of what was put and removed are the same in the end.
#[test]
fn a_range_is_removed_at_once() {
    const KEYS: u64 = 20;
    // Deletes of so many keys fit into a frame, and one batch of each thread more.
    const KEYS_MAX: u64 = 1000;
    let (_directory, database) = opened(1 << 20);
    let (put, deleted, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let count = database.delete_range(Prefix([1]), Durability::Relaxed);
                let count = count.inspect_err(|_| stop.store(true, Ordering::Relaxed));
                deleted.fetch_add(count.expect("it fits"), Ordering::Relaxed);
            }
        });
        let fillers: Vec<_> = (0..3_u64)
            .map(|thread| {
                let (database, put, deleted, stop) = (&database, &put, &deleted, &stop);
                scope.spawn(move || {
                    for round in 0..100_u64 {
                        while put.load(Ordering::Relaxed)
                            > deleted.load(Ordering::Relaxed) + KEYS_MAX
                            && !stop.load(Ordering::Relaxed)
                        {
                            std::thread::yield_now();
                        }
                        let mut batch = WriteBatch::new();
                        for n in 0..KEYS {
                            let key = [
                                [1; 8],
                                thread.to_be_bytes(),
                                round.to_be_bytes(),
                                n.to_be_bytes(),
                            ];
                            batch.put(key.as_flattened(), &value(n, 500));
                        }
                        database
                            .apply(&batch, Durability::Relaxed)
                            .expect("there is room");
                        put.fetch_add(KEYS, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let seen = database.range([1]..[2]).expect("it is open").count();
                assert_eq!(seen as u64 % KEYS, 0, "{seen} keys");
            }
        });
        for filler in fillers {
            filler.join().expect("it fills");
        }
        stop.store(true, Ordering::Relaxed);
    });
    let rest = database
        .delete_range(.., Durability::Durable)
        .expect("it fits");
    assert_eq!(deleted.into_inner() + rest, put.into_inner());
    assert_eq!(database.approximate_count(..).expect("it is open"), 0);
    assert_eq!(
        database
            .delete_range(.., Durability::Durable)
            .expect("nothing"),
        0
    );
}

/// Goal: ranges of any size are counted, and removed in pieces; what is too much for one piece is refused and left. Method: more keys than one frame has deletes for.
#[test]
fn large_ranges_are_counted_and_removed_in_pieces() {
    let (directory, database) = opened(1 << 20);
    let keys: Vec<[u8; 8]> = (0..20_000_u64).map(u64::to_be_bytes).collect();
    for some in keys.chunks(500) {
        let mut batch = WriteBatch::new();
        for key in some {
            batch.put(key, b"");
        }
        database
            .apply(&batch, Durability::Relaxed)
            .expect("there is room");
    }
    let count = |database: &Database, from: u64, to: u64| {
        let count = database.approximate_count(from.to_be_bytes()..to.to_be_bytes());
        count.expect("it is open")
    };
    assert_eq!(count(&database, 0, 20_000), 20_000);
    assert_eq!(count(&database, 7, 2055), 2048);
    assert_eq!(count(&database, 9, 3), 0);
    let refused = database
        .delete_range(.., Durability::Durable)
        .expect_err("it is too much");
    assert_eq!(refused.status, Status::Invalid, "{refused}");
    assert!(refused.message.contains("in pieces"), "{refused}");
    assert_eq!(count(&database, 0, 20_000), 20_000);
    let low = 100_u64.to_be_bytes();
    let deleted = database.delete_range_in_pieces(low.., Durability::Durable);
    assert_eq!(deleted.expect("there is room"), 19_900);
    drop(database);
    let path = directory.path().join("database");
    let database = Database::open(&path, &options(0)).expect("the same database");
    assert_eq!(database.approximate_count(..).expect("it is open"), 100);
    database.clone().close().expect("all is durable");
    for status in [
        database.approximate_count(..).expect_err("closed").status,
        database
            .delete_range(.., Durability::Relaxed)
            .expect_err("closed")
            .status,
        database.contains(b"a").expect_err("closed").status,
    ] {
        assert_eq!(status, Status::Closed);
    }
}

/// Goal: several reads and writes in one call are the same as one after the other. Method: keys of all lengths of values, some deleted, in any order and twice, with each
/// cache, while another thread writes; batches of which some are refused.
#[test]
fn many_in_one_call_are_as_one_after_the_other() {
    for cache_bytes in CACHES {
        let (_directory, database) = opened(cache_bytes);
        let batches: Vec<WriteBatch> = (0..600_u64)
            .map(|n| {
                let mut batch = WriteBatch::new();
                match n % 100 {
                    50 => batch.put(b"", b"no key"),
                    51 => batch.put(&[1; 2000], b"too long"),
                    _ => batch.put(&n.to_be_bytes(), &value(n, (n * 13 % 4000) as usize)),
                };
                if n % 10 == 0 {
                    batch.delete(&n.to_be_bytes());
                }
                batch
            })
            .collect();
        let results = database.apply_all(&batches, Durability::Durable);
        for (n, result) in (0_u64..).zip(&results) {
            assert_eq!(result.is_ok(), !matches!(n % 100, 50 | 51), "{n}");
        }
        assert!(database.apply_all(&[], Durability::Durable).is_empty());
        let keys: Vec<[u8; 8]> = (0..1400_u64).map(|n| (n * 7 % 700).to_be_bytes()).collect();
        let snapshot = database.snapshot().expect("it is open");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0_u64.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let key = (10_000 + n % 300).to_be_bytes();
                    let put = database.put(&key, &value(n, 900), Durability::Relaxed);
                    put.expect("there is room");
                }
            });
            for values in [database.multi_get(&keys), snapshot.multi_get(&keys)] {
                for (key, found) in keys.iter().zip(values) {
                    let found = found.expect("it can be read");
                    let n = u64::from_be_bytes(*key);
                    let there = n < 600 && n % 10 != 0 && !matches!(n % 100, 50 | 51);
                    let expected = there.then(|| value(n, (n * 13 % 4000) as usize));
                    assert_eq!(found.as_deref(), expected.as_deref(), "{n}");
                    assert_eq!(database.contains(key).expect("it is open"), there, "{n}");
                    assert_eq!(snapshot.contains(key).expect("it is open"), there, "{n}");
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        database.clone().close().expect("all is durable");
        let refused = database.multi_get(&[b"a"]);
        assert_eq!(
            refused[0].as_ref().expect_err("closed").status,
            Status::Closed
        );
        let refused = database.apply_all(&batches[..1], Durability::Durable);
        assert_eq!(
            refused[0].as_ref().expect_err("closed").status,
            Status::Closed
        );
    }
}
