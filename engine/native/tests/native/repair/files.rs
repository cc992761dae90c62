//! Repairs of files: what is written, and what is refused.

use crate::common::directory;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use kvsim_native::{
    BackupError, Durability, NoDatabase, OpenError, OpenOptions, RepairError, repair,
};

use crate::noise::Noise;
use crate::repair::made::{Writer, options};

/// Goal: the new file is a database with what the old one had, the old one is as it was, progress is told, and what cannot be read is named. Method: a database of which a large value is
/// damaged, and all superblocks but one.
#[test]
fn a_damaged_file_becomes_a_new_one() {
    let directory = directory();
    let (path, to) = (directory.path().join("old"), directory.path().join("new"));
    let mut writer = Writer::new(&path, 1);
    writer.change(3000, 1000);
    writer.put(b"large", 300_000);
    let known = writer.closed();
    let mut bytes = known.bytes.clone();
    let large = &known.now[&b"large"[..]];
    let mut windows = bytes.windows(64);
    let at = windows.position(|window| window == &large[70_000..70_064]);
    bytes[at.expect("it was written")] ^= 1;
    bytes[..3 * (64 << 10)].fill(0);
    std::fs::write(&path, &bytes).expect("it is ours");

    let mut told = Vec::new();
    let report = repair(&path, &to, &OpenOptions::new(), |it| told.push(it));
    let report = report.expect("there is room");
    assert!(std::fs::read(&path).expect("it is there") == bytes);
    assert_eq!(report.damaged_superblocks, [0, 1, 2]);
    assert!(report.older.is_empty() && report.unknown.is_empty() && report.unreadable.is_empty());
    assert!(!report.is_complete());
    let [(lost, why)] = &report.lost[..] else {
        panic!("{:?}", report.lost);
    };
    assert_eq!(&lost[..], b"large");
    assert!(why.message.contains("chunk checksum"), "{why}");
    assert_eq!(report.copied.entries, known.now.len() as u64 - 1);
    assert!(told.is_sorted_by_key(|it| (it.looked_at_bytes, it.copied.entries)) && told.len() > 2);
    let last = told.last().expect("it was told");
    assert_eq!(last.copied, report.copied);
    assert_eq!(last.looked_at_bytes, bytes.len() as u64);

    let database = OpenOptions::new().open(&to).expect("it is a database");
    assert_eq!(database.counts().engine.segment_bytes, 1 << 16);
    let mut expected = known.now.clone();
    expected.remove(&b"large"[..]);
    let all = database.iter().expect("it is open");
    let all = all.map(|entry| {
        let entry = entry.expect("it can be read");
        (entry.key.to_vec(), entry.value.to_vec())
    });
    assert!(all.eq(expected));
}

/// Goal: keyspaces and streams come back. Method: both, from files without superblocks.
#[test]
fn keyspaces_and_streams_come_back() {
    let directory = directory();
    let path = |name: &str| directory.path().join(name);
    let damage = |name: &str| {
        let file = std::fs::OpenOptions::new().write(true).open(path(name));
        let written = file.and_then(|it| it.write_all_at(&[7; 256 << 10], 0));
        written.expect("it is ours");
    };
    let keyspaces = options().open_keyspaces(path("divided")).expect("it opens");
    for name in ["one", "two"] {
        let keyspace = keyspaces.create(name).expect("a keyspace");
        let put = keyspace.put(b"key", name.as_bytes(), Durability::Durable);
        put.expect("there is room");
    }
    keyspaces.close().expect("the disk works");
    damage("divided");
    repair(path("divided"), path("divided again"), &options(), |_| ()).expect("there is room");
    let keyspaces = options().open_keyspaces(path("divided again"));
    let keyspaces = keyspaces.expect("it opens");
    assert_eq!(keyspaces.list(), ["one", "two"]);
    for name in ["one", "two"] {
        let keyspace = keyspaces.open(name).expect("it is there");
        let value = keyspace.get(b"key").expect("it can be read");
        assert_eq!(value.as_deref(), Some(name.as_bytes()));
    }

    let film = Noise(9).bytes(3_000_000);
    let database = options().open(path("streams")).expect("it opens");
    let streams = database.streams("film/").expect("it is open");
    let stored = streams.put_from(b"a", &film[..], Durability::Durable);
    stored.expect("there is room");
    drop(streams);
    database.close().expect("the disk works");
    damage("streams");
    repair(path("streams"), path("streams again"), &options(), |_| ()).expect("there is room");
    let database = options().open(path("streams again")).expect("it opens");
    let streams = database.streams("film/").expect("it is open");
    let reader = streams.reader(b"a").expect("it is open");
    let mut found = Vec::new();
    let read = reader.expect("it is there").read_to_end(&mut found);
    read.expect("it can be read");
    assert!(found == film);
}

/// Goal: what cannot be repaired is refused with a reason, and nothing is left of the attempt. Method: files that are no database, names that are taken, a database that is open.
#[test]
fn what_cannot_be_repaired_is_refused() {
    let directory = directory();
    let path = |name: &str| directory.path().join(name);
    let to = path("new");
    let run = |name: &str| repair(path(name), &to, &options(), |_| ());
    let is_nothing = |it: &Result<_, RepairError>| {
        let nothing = NoDatabase::Nothing;
        matches!(it, Err(RepairError::NoDatabase { why, .. }) if *why == nothing)
    };
    for (name, bytes) in [
        ("empty", Vec::new()),
        ("short", vec![1; 5000]),
        ("zeroes", vec![0; 3 << 20]),
        ("noise", Noise(5).bytes(3 << 20)),
        ("text", b"Kvsimsb1 KVSG KVFR KVPG ".repeat(100_000)),
    ] {
        std::fs::write(path(name), bytes).expect("there is room");
        let refused = run(name);
        assert!(is_nothing(&refused), "{name}: {refused:?}");
    }
    let mut other = vec![0; 3 << 20];
    other[..10].copy_from_slice(b"KVSIMSB1\xff\x00");
    std::fs::write(path("other"), other).expect("there is room");
    let refused = run("other").expect_err("it is of another version");
    assert!(
        refused.to_string().contains("format version 255"),
        "{refused}"
    );
    let refused = run("none");
    assert!(
        matches!(refused, Err(RepairError::Open(OpenError::Io { .. }))),
        "{refused:?}"
    );
    let refused = repair(directory.path(), &to, &options(), |_| ());
    assert!(
        matches!(refused, Err(RepairError::Open(OpenError::NotAFile { .. }))),
        "{refused:?}"
    );
    let mut writer = Writer::new(&path("database"), 2);
    writer.change(10, 10);
    let refused = run("database");
    assert!(
        matches!(refused, Err(RepairError::Open(OpenError::Locked { .. }))),
        "{refused:?}"
    );
    writer.closed();
    let wrong = OpenOptions {
        engine: "segment_byte=1".into(),
        ..options()
    };
    let refused = repair(path("database"), &to, &wrong, |_| ());
    assert!(
        matches!(refused, Err(RepairError::Options(_))),
        "{refused:?}"
    );
    std::fs::write(&to, b"something").expect("there is room");
    for to in [&to, &path("database")] {
        let refused = repair(path("database"), to, &options(), |_| ());
        assert!(
            matches!(refused, Err(RepairError::Copy(BackupError::Name { .. }))),
            "{refused:?}"
        );
    }
    assert_eq!(std::fs::read(&to).expect("it is there"), b"something");
    let names = std::fs::read_dir(directory.path()).expect("a folder");
    let names = names.map(|it| it.expect("a name").file_name());
    let partial = names.filter(|it| it.to_string_lossy().contains("partial"));
    assert_eq!(partial.count(), 0);
}

/// Not a test of its own: the process that is killed.
#[test]
#[ignore = "it is run by the test that kills it"]
fn repair_again_and_again() {
    let folder = std::env::var("KVSIM_REPAIR").expect("it is run by the test that kills it");
    let path = |name: &str| std::path::Path::new(&folder).join(name);
    for number in 0.. {
        let to = path(&format!("new {number}"));
        repair(path("old"), to, &options(), |_| ()).expect("it is alone");
    }
}

/// Goal: whenever a repair is killed, a file with the new name is whole. Method: a process that repairs again and again is killed at moments that are spread over a repair.
#[test]
fn a_repair_that_is_killed_leaves_no_half_of_a_file() {
    let mut unfinished = 0;
    let directory = directory();
    let old = directory.path().join("old");
    let mut writer = Writer::new(&old, 3);
    writer.change(3000, 1000);
    let known = writer.closed();
    let program = std::env::current_exe().expect("it has a name");
    let mut whole = 0;
    // As many rounds as it takes to meet both, on a machine of any speed.
    for round in 0..60 {
        if round > 6 && whole > 0 && unfinished > 0 {
            break;
        }
        let mut child = Command::new(&program)
            .args([
                "--ignored",
                "--exact",
                "repair::files::repair_again_and_again",
            ])
            .env("KVSIM_REPAIR", directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        std::thread::sleep(Duration::from_millis(150 + 67 * round));
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        let names = std::fs::read_dir(directory.path()).expect("a folder");
        for entry in names {
            let path = entry.expect("a name").path();
            if path == old {
                continue;
            }
            let is_named = path
                .file_name()
                .is_some_and(|it| !it.to_string_lossy().starts_with('.'));
            if is_named {
                let database = options().read_only(true).open(&path).expect("it is whole");
                let all = database.iter().expect("it is open");
                let all = all.map(|entry| {
                    let entry = entry.expect("it can be read");
                    (entry.key.to_vec(), entry.value.to_vec())
                });
                assert!(all.eq(known.now.clone()), "{round}");
                whole += 1;
            } else {
                unfinished += 1;
            }
            std::fs::remove_file(&path).expect("it is ours");
        }
        assert!(std::fs::read(&old).expect("it is there") == known.bytes);
    }
    assert!(whole > 0 && unfinished > 0, "{whole} {unfinished}");
}
