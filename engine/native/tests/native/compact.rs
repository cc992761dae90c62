//! Compaction: what is there afterwards, how large the file is, and what a crash or a second user meets.
#![allow(missing_docs, reason = "a test")]

use crate::common::{all, directory};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use kvsim_native::{CompactError, Database, Durability, OpenError, OpenOptions, compact};

fn options() -> OpenOptions {
    OpenOptions::new()
        .size_bytes(64 << 20)
        .cache_bytes(1 << 20)
        .segment_bytes(1 << 16)
        .checkpoint_bytes(1 << 20)
}

/// Writes keys with values of every kind (in the index, in the log, large), and deletes most of them.
fn fill(database: &Database) {
    let write = |key: u64, len: usize| {
        let value = [u8::try_from(key % 251).expect("small"); 1].repeat(len);
        let put = database.put(&key.to_be_bytes(), &value, Durability::Relaxed);
        put.expect("there is room");
    };
    for key in 0..12_000 {
        write(key, 3000);
    }
    for key in 0..12_000_u64 {
        if key % 20 != 0 {
            let deleted = database.delete(&key.to_be_bytes(), Durability::Relaxed);
            deleted.expect("there is room");
        }
    }
    for key in 20_000..20_300 {
        write(key, 20);
    }
    for key in 30_000..30_004 {
        write(key, 300_000);
    }
    database.sync().expect("the disk works");
}

fn partials(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder).expect("a folder");
    names
        .filter(|name| {
            name.as_ref()
                .is_ok_and(|it| it.path().extension().is_some_and(|it| it == "partial"))
        })
        .count()
}

/// Goal: keyspaces and streams are kept. Method: both are read after a compaction.
#[test]
fn keyspaces_and_streams_are_kept() {
    let directory = directory();
    let path = directory.path().join("divided");
    let keyspaces = options().open_keyspaces(&path).expect("it opens");
    for name in ["one", "two"] {
        let keyspace = keyspaces.create(name).expect("a keyspace");
        let put = keyspace.put(b"key", name.as_bytes(), Durability::Durable);
        put.expect("there is room");
    }
    keyspaces.close().expect("the disk works");
    compact(&path, &OpenOptions::new(), |_| ()).expect("there is room");
    let keyspaces = options().open_keyspaces(&path).expect("it opens");
    assert_eq!(keyspaces.list(), ["one", "two"]);
    for name in ["one", "two"] {
        let keyspace = keyspaces.open(name).expect("it is there");
        let value = keyspace.get(b"key").expect("it can be read");
        assert_eq!(value.as_deref(), Some(name.as_bytes()));
    }

    let path = directory.path().join("streams");
    let film: Vec<u8> = (0..3_000_000_u32).map(|at| at.to_le_bytes()[0]).collect();
    let database = options().open(&path).expect("it opens");
    let streams = database.streams("film/").expect("it is open");
    let stored = streams.put_from(b"a", &film[..], Durability::Durable);
    stored.expect("there is room");
    drop(streams);
    database.close().expect("the disk works");
    compact(&path, &OpenOptions::new(), |_| ()).expect("there is room");
    let database = options().open(&path).expect("it opens");
    let streams = database.streams("film/").expect("it is open");
    let mut reader = streams
        .reader(b"a")
        .expect("it is open")
        .expect("it is there");
    let mut found = Vec::new();
    reader.read_to_end(&mut found).expect("it can be read");
    assert!(found == film);
}

/// Goal: everything is there, the file takes about its live bytes, and name, permissions and size of segments are kept; also through a link. Method: a database of which most was
/// deleted.
#[test]
fn the_file_becomes_small_and_nothing_is_lost() {
    let directory = directory();
    let (path, link) = (
        directory.path().join("database"),
        directory.path().join("link"),
    );
    let database = options().open(&path).expect("it opens");
    fill(&database);
    let expected = all(&database);
    let live: usize = expected
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    database.close().expect("the disk works");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("it is ours");
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    let before = path.metadata().expect("it is there").len();
    let mut told = Vec::new();
    let plain = OpenOptions::new();
    let report =
        compact(&link, &plain, |progress| told.push(progress)).expect("nobody has it open");
    assert_eq!(report.copied.entries, expected.len() as u64);
    assert!(told.is_sorted_by_key(|it| it.entries) && told.len() > 1);
    assert_eq!(told.last(), Some(&report.copied));
    let found = path.metadata().expect("it is there");
    assert!(link.is_symlink() && found.mode() & 0o777 == 0o640);
    assert_eq!(report.bytes_after, found.blocks() * 512);
    // The live data at 80 %, a step of growth, what the engine keeps free; at least what a file begins with.
    let bound = (live as u64 * 2).max(16 << 20);
    assert!(found.len() <= bound, "{} of {live}", found.len());
    assert!(report.bytes_before > before / 2 && found.len() < before / 2);
    let database = plain.open(&path).expect("it opens");
    assert_eq!(database.counts().engine.segment_bytes, 1 << 16);
    assert!(all(&database) == expected);
    assert_eq!(partials(directory.path()), 0);
}

/// Goal: nothing happens where somebody has it open, where there are other names, where a value is damaged, or where there is no file; the file is as it was. Method: each of them.
#[test]
fn a_compaction_that_is_refused_changes_nothing() {
    let directory = directory();
    let path = directory.path().join("database");
    let database = options().open(&path).expect("it opens");
    fill(&database);
    let refused = compact(&path, &options(), |_| ());
    assert!(
        matches!(refused, Err(CompactError::Open(OpenError::Locked { .. }))),
        "{refused:?}"
    );
    drop(database);
    let reader = options().read_only(true).open(&path).expect("it opens");
    let refused = compact(&path, &options(), |_| ());
    assert!(
        matches!(refused, Err(CompactError::Open(OpenError::Locked { .. }))),
        "{refused:?}"
    );
    drop(reader);
    let other = directory.path().join("other");
    std::fs::hard_link(&path, &other).expect("a name");
    let refused = compact(&path, &options(), |_| ());
    assert!(
        matches!(refused, Err(CompactError::OtherNames { names: 2, .. })),
        "{refused:?}"
    );
    std::fs::remove_file(&other).expect("a name");
    let mut bytes = std::fs::read(&path).expect("it is there");
    // A large value lies in the file as it is.
    let large = [u8::try_from(30_001 % 251).expect("small"); 10_000];
    let at = bytes
        .windows(large.len())
        .rposition(|window| window == large);
    bytes[at.expect("it was written") + 100] ^= 1;
    std::fs::write(&path, &bytes).expect("it is ours");
    let refused = compact(&path, &options(), |_| ());
    assert!(matches!(refused, Err(CompactError::Read(_))), "{refused:?}");
    assert!(std::fs::read(&path).expect("it is there") == bytes);
    assert_eq!(partials(directory.path()), 0);
    let refused = compact(directory.path().join("none"), &options(), |_| ());
    assert!(
        matches!(refused, Err(CompactError::Io { .. })),
        "{refused:?}"
    );
    assert!(!directory.path().join("none").exists());
    let refused = compact(directory.path(), &options(), |_| ());
    assert!(matches!(refused, Err(CompactError::Open(_))), "{refused:?}");
}

/// Goal: whoever waited for the lock during a compaction opens the new file, and what it writes is there. Method: openings begin while compactions go on; each adds a key.
#[test]
fn who_waited_for_the_lock_opens_the_new_file() {
    let directory = directory();
    let path = directory.path().join("database");
    let database = options().open(&path).expect("it opens");
    fill(&database);
    drop(database);
    const ROUNDS: u64 = 8;
    for round in 0..ROUNDS {
        let (begun, is_begun) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                compact(&path, &options(), move |_| {
                    // One word is enough.
                    let _ = begun.send(());
                })
                .expect("it is alone");
            });
            is_begun.recv().expect("it copies");
            let database = loop {
                match options().open(&path) {
                    Ok(database) => break database,
                    Err(OpenError::Locked { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            };
            let key = format!("round {round}");
            let put = database.put(key.as_bytes(), b"written", Durability::Durable);
            put.expect("there is room");
        });
    }
    let database = options().open(&path).expect("it opens");
    for round in 0..ROUNDS {
        let key = format!("round {round}");
        assert!(
            database.contains(key.as_bytes()).expect("it is open"),
            "{key}"
        );
    }
}

/// Not a test of its own: the process that is killed.
#[test]
#[ignore = "it is run by the test that kills it"]
fn compact_again_and_again() {
    let path = std::env::var("KVSIM_COMPACT").expect("it is run by the test that kills it");
    loop {
        compact(&path, &options(), |_| ()).expect("it is alone");
    }
}

/// Goal: whenever a compaction is killed, the database is there, whole. Method: a process that compacts again and again is killed at moments that are spread over a compaction.
/// The moments come later and later, until one compaction at least has come to its end: a machine may be busy.
#[test]
fn a_compaction_that_is_killed_leaves_the_old_file_or_the_new_one() {
    let directory = directory();
    let path = directory.path().join("database");
    let database = options().open(&path).expect("it opens");
    fill(&database);
    let expected = all(&database);
    drop(database);
    let program = std::env::current_exe().expect("it has a name");
    let file = || path.metadata().expect("it is there").ino();
    let (first, mut unfinished) = (file(), 0);
    for round in 0..100 {
        if round >= 12 && file() != first {
            break;
        }
        let mut child = Command::new(&program)
            .args(["--ignored", "--exact", "compact::compact_again_and_again"])
            .env("KVSIM_COMPACT", &path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        std::thread::sleep(Duration::from_millis(60 + 37 * round));
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        let database = options().open(&path).expect("it is there");
        assert!(all(&database) == expected, "{round}");
        drop(database);
        unfinished = partials(directory.path());
    }
    assert!(file() != first, "some compaction came to its end");
    assert!(unfinished > 0, "and some did not");
}
