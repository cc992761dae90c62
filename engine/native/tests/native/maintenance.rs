//! Backups, checks, dumps, and tasks that do all without blocking.
#![allow(missing_docs, reason = "a test")]

use crate::common::{all, directory};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use kvsim_native::{
    BackupError, Database, Direction, DumpError, Durability, OpenOptions, Progress, ScanRange,
    Status, WriteBatch,
};

fn options() -> OpenOptions {
    OpenOptions::new()
        .size_bytes(16 << 20)
        .max_bytes(256 << 20)
        .cache_bytes(1 << 20)
        .segment_bytes(1 << 18)
        .checkpoint_bytes(1 << 18)
}

fn opened(path: &Path) -> Database {
    options().open(path).expect("a database")
}

fn names(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).expect("a folder");
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("a name").file_name();
    let mut names: Vec<String> = names
        .map(|entry| name(entry).to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Goal: a copy has what there was at one moment, however much is written meanwhile, and large values too; nothing is left beside it, and nothing is replaced. Method: a
/// thread writes the same number to all keys, again and again; in every copy all keys have one number, and it is none that was written after the copy.
#[test]
fn a_copy_is_of_one_moment_while_others_write() {
    const KEYS: u64 = 300;
    let directory = directory();
    let database = opened(&directory.path().join("database"));
    let write = |number: u64| {
        let mut batch = WriteBatch::new();
        for key in 0..KEYS {
            batch.put(&key.to_be_bytes(), &number.to_le_bytes().repeat(40));
        }
        database
            .apply(&batch, Durability::Relaxed)
            .expect("there is room");
    };
    for large in 0..3 {
        let put = database.put(&[255, large], &vec![large; 1_000_000], Durability::Relaxed);
        put.expect("there is room");
    }
    write(0);
    let (written, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1.. {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                written.store(number, Ordering::SeqCst);
                write(number);
            }
        });
        let mut seen = Vec::new();
        for round in 0..3 {
            let path = directory.path().join(format!("copy {round}"));
            let before = written.load(Ordering::SeqCst);
            let mut told = Vec::new();
            let snapshot = database.snapshot().expect("it is open");
            let latest = written.load(Ordering::SeqCst);
            let copied = snapshot.backup(&path, &options(), |progress| told.push(progress));
            let copied = copied.expect("it can be copied");
            assert_eq!(copied.entries, KEYS + 3);
            assert!(told.len() > 3 && told.is_sorted_by_key(|it: &Progress| it.bytes));
            assert_eq!(told.last(), Some(&copied));
            let taken = database.backup(&path).expect_err("there is one");
            assert!(matches!(taken, BackupError::Name { .. }), "{taken}");
            let copy = options()
                .read_only(true)
                .open(&path)
                .expect("it is a database");
            let entries = all(&copy);
            assert_eq!(entries.len() as u64, KEYS + 3);
            let number =
                |value: &[u8]| u64::from_le_bytes(value[..8].try_into().expect("eight bytes"));
            let first = number(&entries[0].1);
            for (key, value) in &entries {
                match key[..] {
                    [255, large] => assert!(value[..] == vec![large; 1_000_000]),
                    _ => assert!(value[..] == first.to_le_bytes().repeat(40)),
                }
            }
            assert!(
                before.saturating_sub(1) <= first && first <= latest,
                "{before} {first} {latest}"
            );
            seen.push(first);
        }
        stop.store(true, Ordering::SeqCst);
        assert!(
            seen.is_sorted() && seen[0] < seen[2],
            "somebody wrote: {seen:?}"
        );
    });
    assert_eq!(
        names(directory.path()),
        ["copy 0", "copy 1", "copy 2", "database"]
    );
    let nowhere = database.backup(directory.path().join("none/copy"));
    assert!(matches!(nowhere, Err(BackupError::Create(_))));
    database.clone().close().expect("all is durable");
    let closed = database.backup(directory.path().join("closed"));
    assert!(matches!(closed, Err(BackupError::Read(failure)) if failure.status == Status::Closed));
    assert_eq!(names(directory.path()).len(), 4);
}

/// Goal: a check names the keys whose values are damaged, and no others, and reads all others. Method: bits of values in the file are changed, of one in the log and of one in an
/// extent, before and after which others lie.
#[test]
fn a_check_names_what_is_damaged() {
    let directory = directory();
    let path = directory.path().join("database");
    let database = opened(&path);
    let pattern = |n: u32, len: usize| {
        let mut state = u64::from(n) + 1;
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            bytes.extend((state >> 8).to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    };
    let len = |n: u32| match n % 50 {
        7 => 300_000,
        _ => 2000,
    };
    for n in 0..200_u32 {
        let put = database.put(&n.to_be_bytes(), &pattern(n, len(n)), Durability::Relaxed);
        put.expect("there is room");
    }
    let whole = database.check(.., |_| ()).expect("it is open");
    assert!(whole.damaged.is_empty());
    assert_eq!(
        (whole.read.entries, whole.read.bytes),
        (200, 4 * 300_000 + 196 * 2000 + 800)
    );
    database.close().expect("all is durable");
    // What an opening replays, it would find damaged itself.
    let database = opened(&path);
    let mut n = 0;
    while database.counts().engine.checkpoints == 0 {
        assert!(n < 20_000, "no checkpoint in 80 MB of log");
        let put = database.put(b"others", &pattern(n, 4000), Durability::Durable);
        put.expect("there is room");
        n += 1;
    }
    database.close().expect("all is durable");

    let mut file = std::fs::read(&path).expect("the file");
    for n in [20_u32, 107] {
        let value = pattern(n, len(n));
        let part = &value[len(n) / 2..len(n) / 2 + 64];
        let places: Vec<usize> = (0..file.len() - 64)
            .filter(|at| file[*at..].starts_with(part))
            .collect();
        assert!(!places.is_empty(), "{n} is in the file");
        for at in places {
            file[at] ^= 1;
        }
    }
    std::fs::write(&path, &file).expect("it can be written");
    let database = options()
        .read_only(true)
        .open(&path)
        .expect("it can be opened");
    let mut told = 0;
    let report = database.check(.., |_| told += 1).expect("it is open");
    let damaged: Vec<_> = report
        .damaged
        .iter()
        .map(|(key, failure)| (&key[..], failure.status))
        .collect();
    let (one, other) = (20_u32.to_be_bytes(), 107_u32.to_be_bytes());
    assert_eq!(
        damaged,
        [
            (&one[..], Status::Corruption),
            (&other[..], Status::Corruption)
        ]
    );
    assert_eq!((report.read.entries, told), (199, 1));
    let one = database.check(other..=other, |_| ()).expect("it is open");
    assert_eq!((one.read.entries, one.damaged.len()), (0, 1));
    // Others are read all the same.
    let copy = directory.path().join("copy");
    assert!(matches!(database.backup(copy), Err(BackupError::Read(_))));
    assert_eq!(names(directory.path()), ["database"]);
}

/// Goal: a dump that is loaded is what was dumped, whatever the bytes; one that is cut short or changed is refused. Method: keys and values of all bytes; every line left out,
/// the dump cut at many places, one sign changed at many places.
#[test]
fn a_dump_comes_back() {
    let directory = directory();
    let database = opened(&directory.path().join("database"));
    let every: Vec<u8> = (0..=255).collect();
    for n in 0..300_usize {
        let key = [&every[n % 256..=n % 256], b"end", &every[..n % 40]].concat();
        let value = &every[n % 100..n % 100 + n % 157];
        database
            .put(&key, value, Durability::Relaxed)
            .expect("there is room");
    }
    database
        .put(b"end", b"", Durability::Relaxed)
        .expect("there is room");
    let mut text = Vec::new();
    let dumped = database.dump(.., &mut text).expect("it can be written");
    let there = all(&database);
    assert_eq!(dumped.entries, there.len() as u64);
    assert!(text.is_ascii() && text.ends_with(b"\n"));
    let other = opened(&directory.path().join("other"));
    assert_eq!(other.load(&text[..]).expect("it is whole"), dumped);
    assert!(all(&other) == there);
    let mut part = Vec::new();
    assert_eq!(
        other
            .dump("end"..="end", &mut part)
            .expect("it can be written")
            .entries,
        1
    );
    assert!(
        part.starts_with(b"kvsim dump 1\nend\t\nend\t1\t"),
        "{}",
        part.escape_ascii()
    );
    let refused = |text: &[u8], what: &str| {
        let loaded = other.load(text);
        assert!(
            matches!(loaded, Err(DumpError::Malformed { .. })),
            "{what}: {loaded:?}"
        );
    };
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    for left_out in (0..lines.len()).step_by(7).chain([lines.len() - 1]) {
        let mut lines = lines.clone();
        lines.remove(left_out);
        refused(&lines.concat(), "a line left out");
    }
    for at in (0..text.len()).step_by(97).chain([text.len() - 1]) {
        refused(&text[..at], "cut short");
        let mut changed = text.clone();
        changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
        refused(&changed, "a sign changed");
    }
    refused(b"kvsim dump 2\n", "another version");
    assert!(all(&other) == there, "what was there is there");
}

/// Goal: tasks do all that threads do. Method: many tasks on one thread, each with keys of its own, write, sync, take snapshots, scan and delete.
#[test]
fn tasks_do_what_threads_do() {
    let directory = directory();
    let database = opened(&directory.path().join("database"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let tasks = (0..20_u8).map(|task| {
            let database = database.clone();
            async move {
                for round in 0..30_u8 {
                    let mut batch = WriteBatch::new();
                    batch
                        .put(&[task, 1], &[round; 600])
                        .put(&[task, 2], &[round; 600]);
                    database.apply_async(&batch, Durability::Relaxed).await?;
                    let snapshot = database.snapshot_async().await?;
                    database
                        .delete_async(&[task, 1], Durability::Relaxed)
                        .await?;
                    let old = snapshot.get_async(&[task, 1]).await?;
                    assert_eq!(old.as_deref(), Some(&[round; 600][..]));
                    let (start, end) = ([task], [task + 1]);
                    let range = ScanRange {
                        snapshot: 0,
                        direction: Direction::Reverse,
                        start: Some(&start),
                        end: Some(&end),
                        limit: 10,
                        max_bytes: 1 << 20,
                    };
                    let now = database.scan_async(&range).await?;
                    let now: Vec<_> = now.iter().map(|entry| entry.key.to_vec()).collect();
                    assert_eq!(now, [[task, 2]]);
                    assert_eq!(snapshot.scan_async(&range).await?.len(), 2);
                    if round % 10 == 0 {
                        database.sync_async().await?;
                    }
                }
                Ok::<(), kvsim_native::Failure>(())
            }
        });
        let tasks: Vec<_> = tasks.map(tokio::spawn).collect();
        for task in tasks {
            task.await.expect("it ends").expect("it is open");
        }
    });
    assert_eq!(all(&database).len(), 20);
    database.clone().close().expect("all is durable");
    let closed = runtime
        .block_on(database.sync_async())
        .expect_err("it is closed");
    assert_eq!(closed.status, Status::Closed);
    assert!(runtime.block_on(database.snapshot_async()).is_err());
}
