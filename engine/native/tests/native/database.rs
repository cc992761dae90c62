//! The database as its callers see it, on a real file with each driver.
#![allow(missing_docs, reason = "a test")]

use crate::common::directory;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use kvsim_native::{
    Database, Direction, DriverChoice, Durability, Mutation, OpenError, OpenOptions, ScanRange,
};

const DRIVERS: [DriverChoice; 2] = [DriverChoice::Auto, DriverChoice::Threads];

struct Place {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

/// A place on the disk that holds the sources, and not in memory.
fn place() -> Place {
    let directory = directory();
    let path = directory.path().join("database");
    Place {
        _directory: directory,
        path,
    }
}

fn options(driver: DriverChoice) -> OpenOptions {
    OpenOptions {
        driver,
        size_bytes: 16 << 20,
        max_bytes: 256 << 20,
        cache_bytes: 1 << 20,
        engine: "segment_bytes=262144\n".to_owned(),
        ..OpenOptions::default()
    }
}

fn key(n: u32) -> [u8; 8] {
    (u64::from(n)).to_be_bytes()
}

fn all(database: &Database) -> Vec<(Vec<u8>, Vec<u8>)> {
    let range = ScanRange {
        snapshot: 0,
        direction: Direction::Forward,
        start: None,
        end: None,
        limit: u32::MAX,
        max_bytes: u32::MAX,
    };
    let found = database.scan(&range).expect("a scan");
    assert!(!found.more());
    found
        .iter()
        .map(|entry| (entry.key.to_vec(), entry.value.to_vec()))
        .collect()
}

/// Goal: what is written is read, now and after opening again. Method: puts, overwrites, deletes, batches; durable and relaxed.
#[test]
fn what_is_written_is_read() {
    for driver in DRIVERS {
        let place = place();
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let database = Database::open(&place.path, &options(driver)).expect("a new database");
        for n in 0..2000_u32 {
            let durability = if n % 10 == 0 {
                Durability::Durable
            } else {
                Durability::Relaxed
            };
            let (k, value) = (
                key(n * 31 % 500),
                vec![n.to_le_bytes()[0]; (n % 3000) as usize],
            );
            if n % 7 == 0 {
                database.delete(&k, durability).expect("a delete");
                model.remove(&k[..]);
            } else {
                database.put(&k, &value, durability).expect("a put");
                model.insert(k.to_vec(), value);
            }
        }
        for n in 0..500 {
            let found = database.get(&key(n)).expect("a get");
            assert_eq!(
                found.as_deref(),
                model.get(&key(n)[..]).map(|value| &value[..]),
                "{driver:?} {n}"
            );
        }
        let expected: Vec<_> = model.into_iter().collect();
        assert_eq!(all(&database), expected);
        database.close().expect("all is durable");
        let database = Database::open(&place.path, &options(driver)).expect("the same database");
        assert_eq!(all(&database), expected);
    }
}

/// Goal: many threads share one database, and group their commits. Method: each writes keys of its own, durably, and reads them.
#[test]
fn many_threads_write_at_once() {
    for driver in DRIVERS {
        let place = place();
        let database = Database::open(&place.path, &options(driver)).expect("a new database");
        std::thread::scope(|scope| {
            for thread in 0..8_u32 {
                let database = database.clone();
                scope.spawn(move || {
                    for n in 0..200_u32 {
                        let k = key(thread << 16 | n);
                        database
                            .put(&k, &n.to_le_bytes(), Durability::Durable)
                            .expect("a put");
                        let found = database.get(&k).expect("a get");
                        assert_eq!(found.as_deref(), Some(&n.to_le_bytes()[..]));
                    }
                });
            }
        });
        let counts = database.counts();
        assert!(
            counts.io.through_writes + counts.io.flushes < 1600,
            "commits share writes: {counts:?}"
        );
        database.close().expect("all is durable");
        let database = Database::open(&place.path, &options(driver)).expect("the same database");
        assert_eq!(all(&database).len(), 1600);
    }
}

/// Goal: writes that are acknowledged before the engine has them get there in the order in which they are seen. Method: threads that all put and delete the same keys
/// at once, in batches, relaxed and durable ones; what is read after each time is what a snapshot says, and at last the file when it is opened again.
#[test]
fn the_engine_gets_writes_in_the_order_in_which_they_are_seen() {
    const ROUNDS: u32 = 1000;
    const KEYS: u32 = 30;
    for driver in DRIVERS {
        let place = place();
        let database = Database::open(&place.path, &options(driver)).expect("a new database");
        let write = |thread: u32, round: u32| {
            let keys: Vec<_> = (0..KEYS).map(key).collect();
            for n in 0..20_u32 {
                let value = [round, thread, n].map(u32::to_le_bytes).concat();
                let change = |(at, key)| match (at + n) % 5 {
                    0 => Mutation::Delete { key },
                    _ => Mutation::Put { key, value: &value },
                };
                let borrowed = keys.iter().map(|key| &key[..]);
                let batch: Vec<_> = (0..).zip(borrowed).map(change).collect();
                let durability = match (thread, n % 10) {
                    (1, 9) => Durability::Durable,
                    _ => Durability::Relaxed,
                };
                database.write(&batch, durability).expect("there is room");
            }
        };
        for round in 0..ROUNDS {
            std::thread::scope(|scope| {
                let write = &write;
                (0..4).for_each(|thread| {
                    scope.spawn(move || write(thread, round));
                });
            });
            let snapshot = database.snapshot().expect("a snapshot");
            for n in 0..KEYS {
                let seen = database.get(&key(n)).expect("a get");
                let kept = snapshot.get(&key(n)).expect("a get");
                assert_eq!(seen.as_deref(), kept.as_deref(), "key {n}, round {round}");
            }
        }
        let seen = all(&database);
        database.close().expect("all is durable");
        let database = Database::open(&place.path, &options(driver)).expect("the same database");
        assert_eq!(all(&database), seen);
    }
}

/// Goal: who finds the engine at work is served by others, and gets what is theirs: an acceptance, the end of a wait for room, a refusal.
/// Method: threads that write without waiting for the disk, into a write buffer that is soon full, each reads what it wrote; then one
/// closes the database under the others.
#[test]
fn threads_are_served_by_others() {
    const PUTS: u32 = 4000;
    for driver in DRIVERS {
        let place = place();
        let mut narrow = options(driver);
        narrow.engine.push_str("write_buffer_bytes=131072\n");
        let database = Database::open(&place.path, &narrow).expect("a new database");
        let refused = AtomicBool::new(false);
        let all_wrote = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for thread in 0..8_u32 {
                let (database, refused, all_wrote) = (&database, &refused, &all_wrote);
                scope.spawn(move || {
                    let value =
                        |n: u32| [n.to_le_bytes(), thread.to_le_bytes()].concat().repeat(64);
                    for n in 0..PUTS {
                        let key = key((thread << 16) | (n % 100));
                        let put = database.put(&key, &value(n), Durability::Relaxed);
                        put.expect("there is room in the end");
                        let found = database.get(&key).expect("a get").expect("it was put");
                        assert_eq!(found[..], value(n)[..], "{thread} {n}");
                    }
                    all_wrote.wait();
                    for n in 0.. {
                        if thread == 0 && n == 200 {
                            return database.clone().close().expect("all is durable");
                        }
                        let put = database.put(&key(thread << 16), &value(n), Durability::Relaxed);
                        if put.is_err() {
                            return refused.store(true, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert!(
            refused.load(Ordering::Relaxed),
            "it was closed under the others"
        );
        assert!(
            database.counts().engine.stalls > 0,
            "nobody waited for room"
        );
    }
}

/// Goal: a batch is one write, and a snapshot does not move. Method: a batch after a snapshot, read both ways.
#[test]
fn a_snapshot_does_not_see_a_later_batch() {
    let place = place();
    let database =
        Database::open(&place.path, &options(DriverChoice::Auto)).expect("a new database");
    database
        .put(b"a", b"1", Durability::Relaxed)
        .expect("a put");
    let snapshot = database.snapshot().expect("a snapshot");
    let batch = [
        Mutation::Put {
            key: b"b",
            value: b"2",
        },
        Mutation::Delete { key: b"a" },
    ];
    database
        .write(&batch, Durability::Durable)
        .expect("a batch");
    assert!(database.get(b"a").expect("a get").is_none());
    assert_eq!(
        &snapshot.get(b"a").expect("a get").expect("it was there")[..],
        b"1"
    );
    assert!(snapshot.get(b"b").expect("a get").is_none());
}

/// Goal: a database outgrows its file without anybody noticing. Method: a small file, and more data than it holds.
#[test]
fn the_file_grows() {
    for driver in DRIVERS {
        let place = place();
        let mut small = options(driver);
        small.size_bytes = 8 << 20;
        let database = Database::open(&place.path, &small).expect("a new database");
        for n in 0..4000 {
            database
                .put(&key(n), &[9; 8000], Durability::Relaxed)
                .expect("there is room");
        }
        database.sync().expect("all is durable");
        drop(database);
        assert!(std::fs::metadata(&place.path).expect("it is there").len() > 32 << 20);
        let database = Database::open(&place.path, &small).expect("the same database");
        assert_eq!(
            database
                .get(&key(3999))
                .expect("a get")
                .expect("it was put")
                .len(),
            8000
        );
    }
}

/// Whether all of a file was written, as its file system has it.
#[cfg(target_os = "linux")]
fn is_written_in_full(path: &std::path::Path) -> bool {
    let file = std::fs::File::open(path).expect("it is there");
    let len = file.metadata().expect("it is there").len();
    let hole = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(0));
    hole.expect("a file has an end") == len
}

/// Goal: what a file grows by is written twice only where commits are waited for, and where they do without a flush nothing was left
/// unwritten. Method: growth by relaxed and by durable writes, looked at through the eyes of the file system; then an opening that takes the
/// drive's word, of a file that was allocated only.
#[test]
#[cfg(target_os = "linux")]
fn space_is_written_ahead_for_those_who_wait() {
    for driver in DRIVERS {
        for (durability, ahead) in [(Durability::Relaxed, false), (Durability::Durable, true)] {
            let place = place();
            let mut small = options(driver);
            small.size_bytes = 8 << 20;
            let database = Database::open(&place.path, &small).expect("a new database");
            let created = database.counts().io.grown_bytes;
            for n in 0..3000 {
                let put = database.put(&key(n), &[9; 8000], durability);
                put.expect("there is room");
            }
            let written = database.counts().io.grown_bytes - created;
            drop(database);
            assert_eq!(written > 0, ahead, "{durability:?}: {written} bytes");
            if ahead {
                assert!(is_written_in_full(&place.path));
                continue;
            }
            if is_written_in_full(&place.path) {
                // The file system does not tell, or cannot allocate.
                continue;
            }
            let trusting = OpenOptions {
                assume_power_loss_protection: true,
                ..small
            };
            let database = Database::open(&place.path, &trusting).expect("the same database");
            assert!(database.device().flush_needed || is_written_in_full(&place.path));
            for n in 0..3000 {
                let found = database.get(&key(n)).expect("a get");
                assert_eq!(found.expect("it was put")[..], [9; 8000]);
            }
        }
    }
}

/// Goal: where an overwrite may change more than the block, commits are flushed, whoever vouches for the drive. Method: a file system in memory, which takes direct I/O from Linux 6.6 on.
#[cfg(target_os = "linux")]
#[test]
fn the_word_for_a_drive_is_none_for_a_file_system() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let trusting = OpenOptions {
        assume_power_loss_protection: true,
        ..options(DriverChoice::Auto)
    };
    let path = directory.path().join("database");
    let database = Database::open(&path, &trusting).expect("a new database");
    let device = database.device();
    assert!(device.flush_needed && !device.assumed, "{device}");
    assert!(device.reason.contains("file system"), "{device}");
}

/// Goal: nothing opens what is open, and nothing but a file is opened. Method: a second opening, a directory, a wrong option.
#[test]
fn a_wrong_opening_says_why() {
    let place = place();
    let first = Database::open(&place.path, &options(DriverChoice::Auto)).expect("a new database");
    let second = Database::open(&place.path, &options(DriverChoice::Auto));
    assert!(
        matches!(second, Err(OpenError::Locked { .. })),
        "{second:?}"
    );
    drop(first);
    let mut wrong = options(DriverChoice::Auto);
    wrong.engine = "segment_byte=1\n".to_owned();
    let error = Database::open(&place.path, &wrong).expect_err("a misspelt option");
    assert!(error.to_string().contains("segment_byte"), "{error}");
    let directory = place.path.parent().expect("it lies in one");
    assert!(Database::open(directory, &options(DriverChoice::Auto)).is_err());
    Database::open(&place.path, &options(DriverChoice::Auto)).expect("nothing was damaged");
}

/// Goal: tasks need no thread each. Method: sixty-four puts at once from one thread that polls.
#[test]
fn tasks_wait_without_threads() {
    let place = place();
    let database =
        Database::open(&place.path, &options(DriverChoice::Auto)).expect("a new database");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let puts: Vec<_> = (0..64)
            .map(|n| tokio::spawn(database.put_async(&key(n), &[1; 1000], Durability::Durable)))
            .collect();
        for put in puts {
            put.await.expect("no panic").expect("a put");
        }
        for n in 0..64 {
            let found = database
                .get_async(&key(n))
                .await
                .expect("a get")
                .expect("it was put");
            assert_eq!(found.len(), 1000);
        }
    });
}

/// Goal: a scan shows one moment, whether its values come from the cache or from the disk, while others write durably and not.
/// Method: writers set all keys of a group to the same number in one batch; whoever scans a group must find one number in it.
#[test]
fn a_scan_shows_one_moment_while_others_write() {
    const KEYS: u32 = 20;
    for cache_bytes in [0, 64 << 20] {
        let place = place();
        let mut wanted = options(DriverChoice::Auto);
        wanted.cache_bytes = cache_bytes;
        let database = Database::open(&place.path, &wanted).expect("a new database");
        let group_key = |group: u32, n: u32| key(group << 16 | n);
        let write = |database: &Database, group: u32, round: u32| {
            let value = round.to_le_bytes().repeat(60);
            let keys: Vec<_> = (0..KEYS).map(|n| group_key(group, n)).collect();
            let put = |key| Mutation::Put { key, value: &value };
            let batch: Vec<_> = keys.iter().map(|key| put(&key[..])).collect();
            let durability = if round.is_multiple_of(4) {
                Durability::Durable
            } else {
                Durability::Relaxed
            };
            database.write(&batch, durability).expect("a batch");
        };
        std::thread::scope(|scope| {
            for group in 0..4 {
                write(&database, group, 0);
                let writer = database.clone();
                scope.spawn(move || (1..400).for_each(|round| write(&writer, group, round)));
                let reader = database.clone();
                scope.spawn(move || {
                    for _ in 0..400 {
                        let range = ScanRange {
                            snapshot: 0,
                            direction: Direction::Forward,
                            start: Some(&group_key(group, 0)),
                            end: Some(&group_key(group, KEYS)),
                            limit: u32::MAX,
                            max_bytes: u32::MAX,
                        };
                        let found = reader.scan(&range).expect("a scan");
                        assert_eq!(found.len(), KEYS as usize);
                        let first = found.iter().next().expect("the first").value;
                        assert!(found.iter().all(|entry| entry.value == first));
                    }
                });
            }
        });
    }
}

/// Goal: who has seen a write by a read sees it by a scan too, and the other way round. Method: a writer counts up in one key among
/// others, with neighbours that come and go; readers take turns between reads and scans both ways, and never see the number go back.
#[test]
fn reads_and_scans_never_go_back() {
    const KEYS: u32 = 200;
    for cache_bytes in [1 << 18, 64 << 20] {
        let place = place();
        let mut wanted = options(DriverChoice::Auto);
        wanted.cache_bytes = cache_bytes;
        let database = Database::open(&place.path, &wanted).expect("a new database");
        let relaxed = Durability::Relaxed;
        for n in 0..KEYS {
            database.put(&key(n), &[0; 100], relaxed).expect("a put");
        }
        let counter = key(KEYS / 2);
        let number = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().expect("four"));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for direction in [Direction::Forward, Direction::Reverse] {
                let (database, done) = (&database, &done);
                scope.spawn(move || {
                    let (mut seen, mut scans) = (0, 0);
                    while !done.load(Ordering::Relaxed) || scans < 100 {
                        let found = database.get(&counter).expect("a get").expect("it is there");
                        assert!(number(&found) >= seen);
                        seen = number(&found);
                        let range = ScanRange {
                            snapshot: 0,
                            direction,
                            start: Some(&key(KEYS / 4)),
                            end: Some(&key(KEYS)),
                            limit: KEYS,
                            max_bytes: u32::MAX,
                        };
                        let found = database.scan(&range).expect("a scan");
                        let entry = found.iter().find(|entry| entry.key == counter);
                        let scanned = number(entry.expect("it is there").value);
                        assert!(scanned >= seen);
                        seen = scanned;
                        scans += 1;
                    }
                });
            }
            for n in 1..4000_u32 {
                let mut value = [0; 100];
                value[..4].copy_from_slice(&n.to_le_bytes());
                database.put(&counter, &value, relaxed).expect("a put");
                let neighbour = key((n * 7 % KEYS) | 1);
                if n % 3 == 0 {
                    database.delete(&neighbour, relaxed).expect("a delete");
                } else {
                    database.put(&neighbour, &value, relaxed).expect("a put");
                }
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}

/// Goal: what a crash left of a database that was being created is not taken for one. Method: leftovers of such a creation, with
/// bytes in them that nobody wrote.
#[test]
fn a_creation_that_was_cut_short_is_begun_anew() {
    for driver in DRIVERS {
        let place = place();
        let leftover = place.path.with_extension("new");
        std::fs::write(&leftover, vec![0xa5; 3 << 20]).expect("a file");
        let database = Database::open(&place.path, &options(driver)).expect("a new database");
        database
            .put(b"key", b"value", Durability::Durable)
            .expect("a put");
        drop(database);
        assert!(!leftover.exists(), "it has become the database");
        let database = Database::open(&place.path, &options(driver)).expect("what was made");
        assert_eq!(
            database.get(b"key").expect("a get").as_deref(),
            Some(&b"value"[..])
        );
    }
}

/// Goal: a file that is no database is left as it is, however small. Method: open one, look at its bytes.
#[test]
fn a_file_of_something_else_is_refused_and_kept() {
    for len in [100, 4096, 3 << 20] {
        let place = place();
        let bytes = vec![b'x'; len];
        std::fs::write(&place.path, &bytes).expect("a file");
        let opened = Database::open(&place.path, &options(DriverChoice::Auto));
        assert!(opened.is_err(), "{len} bytes of something else");
        assert_eq!(std::fs::read(&place.path).expect("the file"), bytes);
    }
}

/// Goal: a value of many chunks is written while other writes are under way, and nobody waits for a write that nobody began.
/// Method: threads that write and read large values, beside others that write small ones.
#[test]
fn large_values_are_written_beside_small_ones() {
    let place = place();
    let mut wanted = options(DriverChoice::Auto);
    wanted.size_bytes = 64 << 20;
    let database = Database::open(&place.path, &wanted).expect("a new database");
    std::thread::scope(|scope| {
        for thread in 0..6_u32 {
            let database = database.clone();
            scope.spawn(move || {
                let len = if thread < 3 { 1_500_000 } else { 1000 };
                for n in 0..40_u32 {
                    let k = key((thread << 16) | (n % 2));
                    let value = vec![u8::try_from(n).expect("few"); len];
                    database
                        .put(&k, &value, Durability::Durable)
                        .expect("a put");
                    let found = database.get(&k).expect("a get");
                    assert!(found.as_deref() == Some(&value[..]));
                }
            });
        }
    });
}
