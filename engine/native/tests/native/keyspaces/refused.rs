//! What is refused of keyspaces, and what an opening finds.
#![allow(missing_docs, reason = "a test")]

use crate::common::{all, directory};
use std::path::Path;

use kvsim_native::{
    Direction, Durability, Failure, KeyspaceBatch, KeyspaceConditions, KeyspaceError, Keyspaces,
    OpenError, OpenOptions, ReadOnly, ScanRange, Status,
};

fn options() -> OpenOptions {
    OpenOptions::new()
        .size_bytes(16 << 20)
        .segment_bytes(1 << 18)
}

fn opened(path: &Path) -> Keyspaces {
    options().open_keyspaces(path).expect("it opens")
}

/// Every key of the file as it is there.
fn raw(path: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    all(&options().open(path).expect("it opens"))
}

fn put_raw(path: &Path, key: &[u8], value: &[u8]) {
    let database = options().open(path).expect("it opens");
    let put = database.put(key, value, Durability::Durable);
    put.expect("there is room");
}

fn refused(path: &Path) -> String {
    let refused = options().open_keyspaces(path).expect_err("it is refused");
    assert!(
        matches!(refused, OpenError::Keyspaces { .. }),
        "{refused:?}"
    );
    refused.to_string()
}

/// Goal: a file is divided or it is not, and an opening as the other says so and changes nothing. Method: files of each kind, an empty one, another version, and the keys
/// of the catalogue each changed to what it cannot be.
#[test]
fn a_file_is_divided_or_it_is_not() {
    let directory = directory();
    let path = directory.path().join("plain");
    put_raw(&path, b"key", b"value");
    let before = raw(&path);
    let message = refused(&path);
    assert!(
        message.contains("plain") && message.contains("no keyspace"),
        "{message}"
    );
    assert_eq!(raw(&path), before);

    // One that has been emptied holds nothing.
    let database = options().open(&path).expect("it opens");
    database
        .delete(b"key", Durability::Durable)
        .expect("it is there");
    drop(database);
    assert!(opened(&path).list().is_empty());

    let path = directory.path().join("divided");
    let users = opened(&path).create("users").expect("there is room");
    users
        .put(b"1", b"Ada", Durability::Durable)
        .expect("there is room");
    drop(users);
    let format = [b"kvsim keyspaces ", &1_u32.to_le_bytes()[..]].concat();
    let expected: [(&[u8], &[u8]); 4] = [
        (b"\0keyspaces", &format),
        (b"\0name/users", &1_u32.to_le_bytes()),
        (b"\0next", &2_u32.to_le_bytes()),
        (b"\x011", b"Ada"),
    ];
    let expected = expected.map(|(key, value)| (key.to_vec(), value.to_vec()));
    assert_eq!(raw(&path), expected);

    // Taken out as a database and put into another, it is divided still.
    let mut dump = Vec::new();
    let database = options().open(&path).expect("it opens");
    database.dump(.., &mut dump).expect("it can be read");
    drop(database);
    let loaded = directory.path().join("loaded");
    let database = options().open(&loaded).expect("it opens");
    database.load(&dump[..]).expect("there is room");
    drop(database);
    let users = opened(&loaded).open("users").expect("it is listed");
    assert!(users.contains(b"1").expect("it can be read"));
    drop(users);

    let newer = [b"kvsim keyspaces ", &7_u32.to_le_bytes()[..]].concat();
    let wrong: [(&[u8], &[u8], &str); 10] = [
        (b"\0keyspaces", &newer, "version 7"),
        (b"\0keyspaces", b"kvsim keyspaces 1", "\\x00keyspaces"),
        (b"\0keyspaces", b"something else", "no keyspace"),
        (b"\0next", b"", "\\x00next"),
        (b"\0next", &0_u32.to_le_bytes(), "\\x00next"),
        (b"\0next", &1_u32.to_le_bytes(), "\\x00name/users"),
        (b"\0name/users", b"123456", "\\x00name/users"),
        (b"\0name/visits", &1_u32.to_le_bytes(), "\\x00name/visits"),
        (b"\0name/\xff", &1_u32.to_le_bytes(), "\\x00name/\\xff"),
        (b"\0other", b"", "\\x00other"),
    ];
    for (key, value, says) in wrong {
        let before = raw(&path);
        let there = before.iter().find(|it| it.0 == key);
        put_raw(&path, key, value);
        let message = refused(&path);
        assert!(message.contains(says), "{message}");
        match there {
            Some((_, value)) => put_raw(&path, key, value),
            None => {
                let database = options().open(&path).expect("it opens");
                database
                    .delete(key, Durability::Durable)
                    .expect("it is there");
            }
        }
        assert_eq!(raw(&path), before);
    }
    assert_eq!(opened(&path).list(), ["users"]);
}

/// Goal: read only, everything can be read and nothing written, and nothing of the file changes. Method: a divided file with a keyspace that is being removed, and one that
/// holds nothing.
#[test]
fn read_only_changes_nothing() {
    let directory = directory();
    let empty = directory.path().join("empty");
    options()
        .open(&empty)
        .expect("it opens")
        .close()
        .expect("it is durable");
    let keyspaces = options()
        .read_only(true)
        .open_keyspaces(&empty)
        .expect("it opens");
    assert!(keyspaces.list().is_empty());
    let created = keyspaces.create("users").expect_err("it is read only");
    assert!(matches!(&created, KeyspaceError::Failed(it) if it.status == Status::ReadOnly));
    drop(keyspaces);
    assert_eq!(raw(&empty), []);

    let path = directory.path().join("divided");
    let users = opened(&path).create("users").expect("there is room");
    users
        .put(b"1", b"Ada", Durability::Durable)
        .expect("there is room");
    is_locked(&users, &path);
    drop(users);
    put_raw(&path, b"\0dropped/\0\0\0\x02", b"");
    put_raw(&path, b"\0next", &3_u32.to_le_bytes());
    put_raw(&path, b"\x02left", b"");
    let before = std::fs::read(&path).expect("it is there");
    let keyspaces = options()
        .read_only(true)
        .open_keyspaces(&path)
        .expect("it opens");
    assert_eq!(keyspaces.read_only(), Some(ReadOnly::Opened));
    assert_eq!(keyspaces.list(), ["users"]);
    let users = keyspaces.open("users").expect("it is listed");
    assert!(users.contains(b"1").expect("it can be read"));
    let refused = [
        users.put(b"1", b"", Durability::Relaxed),
        users.delete(b"1", Durability::Relaxed),
        keyspaces.remove_dropped().map(|_| ()),
    ];
    for refused in refused {
        assert_eq!(
            refused.expect_err("it is read only").status,
            Status::ReadOnly
        );
    }
    assert!(keyspaces.drop_keyspace("users").is_err());
    assert!(keyspaces.rename("users", "people").is_err());
    assert!(!users.is_dropped() && users.name() == "users");
    drop((keyspaces, users));
    assert!(std::fs::read(&path).expect("it is there") == before);
    drop(opened(&path));
    assert!(
        raw(&path)
            .iter()
            .all(|(key, _)| !key.starts_with(b"\x02") && !key.starts_with(b"\0dropped"))
    );
}

/// As long as one is open, nobody else opens the file.
fn is_locked(_open: &kvsim_native::Keyspace, path: &Path) {
    let locked = options().open_keyspaces(path).expect_err("it is open");
    assert!(matches!(locked, OpenError::Locked { .. }), "{locked:?}");
}

/// Goal: what cannot be is refused with the caller's own numbers. Method: names, keys and batches at and beyond each limit, with the longest prefix; the last identifier.
#[test]
fn limits_are_stated_in_the_callers_numbers() {
    let directory = directory();
    let path = directory.path().join("database");
    drop(opened(&path));
    put_raw(&path, b"\0next", &((1_u32 << 28) - 1).to_le_bytes());
    let keyspaces = opened(&path);
    let long = "é".repeat(128);
    for (name, says) in [
        ("", "0 bytes"),
        (&long[..], "256 bytes"),
        ("a\0b", "number 0"),
    ] {
        let errors = [
            keyspaces.create(name).map(|_| ()),
            keyspaces.open_or_create(name).map(|_| ()),
            keyspaces.rename("a", name),
        ];
        for error in errors {
            let message = error.expect_err("it is refused").to_string();
            assert!(
                message.contains(says) && message.contains("1..=255"),
                "{message}"
            );
        }
        assert!(matches!(
            keyspaces.open(name),
            Err(KeyspaceError::Missing { .. })
        ));
    }
    let last = keyspaces.create("last").expect("there is one more");
    assert_eq!(
        keyspaces.create("no more").expect_err("none is left"),
        KeyspaceError::Exhausted
    );
    assert_eq!(keyspaces.list(), ["last"]);
    let longest = [7; 1020];
    last.put(&longest, b"", Durability::Durable)
        .expect("it is as long as it may be");
    assert!(last.contains(&longest).expect("it can be read"));
    for (key, says) in [
        (&[][..], "a key of 0 bytes"),
        (&[7; 1021], "a key of 1021 bytes"),
    ] {
        let mut batch = KeyspaceBatch::new();
        batch.put(&last, key, b"");
        let mut deletes = KeyspaceBatch::new();
        deletes.delete(&last, b"fine").delete(&last, key);
        let mut transaction = keyspaces.transaction();
        transaction.put(&last, key, b"");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        let refused = [
            last.put(key, b"", Durability::Durable),
            last.delete(key, Durability::Durable),
            last.replace(key, None, None, Durability::Durable)
                .map(|_| ()),
            keyspaces.apply(&batch, Durability::Durable),
            keyspaces.apply(&deletes, Durability::Durable),
            transaction.commit(Durability::Durable).map(|_| ()),
            runtime.block_on(last.put_async(key, b"", Durability::Durable)),
            runtime.block_on(last.delete_async(key, Durability::Durable)),
            runtime.block_on(keyspaces.apply_async(&batch, Durability::Durable)),
        ];
        for refused in refused {
            let Failure { status, message } = refused.expect_err("it is refused");
            assert_eq!(status, Status::Invalid);
            assert!(
                message.contains(says) && message.contains("1..=1020"),
                "{message}"
            );
        }
        batch.clear();
        batch.put(&last, b"1", b"");
        keyspaces
            .apply(&batch, Durability::Relaxed)
            .expect("what was wrong is cleared");
    }
}

/// Goal: a keyspace of another database is refused by everything that could take one. Method: each such function; nothing is written.
#[test]
fn a_keyspace_of_another_database_is_refused() {
    let directory = directory();
    let both = ["one", "two"].map(|name| opened(&directory.path().join(name)));
    let [one, two] = both
        .each_ref()
        .map(|it| it.create("same name").expect("there is room"));
    assert_ne!(one, two);
    let keyspaces = &both[0];
    let mut foreign = KeyspaceBatch::new();
    foreign.put(&two, b"key", b"");
    let mut mixed = KeyspaceBatch::new();
    mixed.put(&one, b"key", b"").put(&two, b"key", b"");
    let mut conditions = KeyspaceConditions::new();
    conditions.is_absent(&two, b"key");
    let mut transaction = keyspaces.transaction();
    let snapshot = keyspaces.snapshot().expect("it is open");
    let mut writes = keyspaces.transaction();
    writes.put(&one, b"key", b"").put(&two, b"key", b"");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let refused = [
        keyspaces.apply(&foreign, Durability::Relaxed),
        keyspaces.apply(&mixed, Durability::Relaxed),
        both[1].apply(&mixed, Durability::Relaxed),
        keyspaces
            .apply_if(&conditions, &KeyspaceBatch::new(), Durability::Relaxed)
            .map(|_| ()),
        transaction.get(&two, b"key").map(|_| ()),
        writes.commit(Durability::Relaxed).map(|_| ()),
        snapshot.get(&two, b"key").map(|_| ()),
        snapshot.range(&two, ..).map(|_| ()),
        snapshot.cursor(&two, ..).map(|_| ()),
        runtime.block_on(keyspaces.apply_async(&mixed, Durability::Relaxed)),
        runtime
            .block_on(snapshot.get_async(&two, b"key"))
            .map(|_| ()),
    ];
    for refused in refused {
        let Failure { status, message } = refused.expect_err("it is refused");
        assert_eq!(status, Status::Invalid);
        assert!(message.contains("another database"), "{message}");
    }
    for keyspace in [one, two] {
        assert_eq!(keyspace.approximate_count(..), Ok(0));
    }
}

/// Goal: everything that is done with a handle of a dropped keyspace fails and says so, also when there is a new one of that name. Method: each function; a snapshot
/// from before and one from after.
#[test]
fn a_handle_of_a_dropped_keyspace_says_so() {
    let directory = directory();
    let path = directory.path().join("database");
    let keyspaces = opened(&path);
    let old = keyspaces.create("users").expect("there is room");
    old.put(b"1", b"Ada", Durability::Relaxed)
        .expect("there is room");
    let before = keyspaces.snapshot().expect("it is open");
    let mut pending = keyspaces.transaction();
    pending.put(&old, b"2", b"");
    let mut pending_read = before.transaction();
    assert!(
        pending_read
            .get(&old, b"1")
            .expect("it was there")
            .is_some()
    );
    let mut walking = old.iter().expect("it is there");
    keyspaces.drop_keyspace("users").expect("it is there");
    let new = keyspaces.create("users").expect("the name is free");
    let after = keyspaces.snapshot().expect("it is open");

    let mut batch = KeyspaceBatch::new();
    batch.put(&new, b"3", b"").put(&old, b"2", b"");
    let mut conditions = KeyspaceConditions::new();
    conditions.is_absent(&old, b"2");
    let range = ScanRange {
        snapshot: 0,
        direction: Direction::Forward,
        start: None,
        end: None,
        limit: 9,
        max_bytes: u32::MAX,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let durable = Durability::Durable;
    let refused = [
        old.put(b"2", b"", durable),
        old.delete(b"1", durable),
        old.replace(b"2", None, Some(b""), durable).map(|_| ()),
        old.get(b"1").map(|_| ()),
        old.contains(b"1").map(|_| ()),
        old.multi_get(&[b"1"]).remove(0).map(|_| ()),
        old.scan(&range).map(|_| ()),
        old.range(..).map(|_| ()),
        old.iter().map(|_| ()),
        old.cursor(..).map(|_| ()),
        old.delete_range(.., durable).map(|_| ()),
        old.delete_range_in_pieces(.., durable).map(|_| ()),
        old.approximate_count(..).map(|_| ()),
        keyspaces.apply(&batch, durable),
        keyspaces
            .apply_if(&conditions, &KeyspaceBatch::new(), durable)
            .map(|_| ()),
        keyspaces.transaction().get(&old, b"1").map(|_| ()),
        pending.commit(durable).map(|_| ()),
        pending_read.commit(durable).map(|_| ()),
        after.get(&old, b"1").map(|_| ()),
        after.multi_get(&old, &[b"1"]).remove(0).map(|_| ()),
        after.range(&old, ..).map(|_| ()),
        after.cursor(&old, ..).map(|_| ()),
        runtime.block_on(old.put_async(b"2", b"", durable)),
        runtime.block_on(old.delete_async(b"1", durable)),
        runtime.block_on(old.get_async(b"1")).map(|_| ()),
        runtime.block_on(old.scan_async(&range)).map(|_| ()),
        runtime.block_on(keyspaces.apply_async(&batch, durable)),
        runtime.block_on(after.get_async(&old, b"1")).map(|_| ()),
        runtime.block_on(after.scan_async(&old, &range)).map(|_| ()),
    ];
    for (number, refused) in refused.into_iter().enumerate() {
        let Failure { status, message } = refused.expect_err("it was dropped");
        assert_eq!(status, Status::Invalid, "{number}");
        assert!(
            message.contains("`users` was dropped"),
            "{number}: {message}"
        );
    }
    assert!(old.is_dropped() && !new.is_dropped() && old != new);
    assert_eq!(
        &*walking
            .next()
            .expect("it is of before")
            .expect("it can be read")
            .key,
        b"1"
    );
    assert_eq!(
        before.get(&old, b"1").expect("it was there").as_deref(),
        Some(&b"Ada"[..])
    );
    assert_eq!(before.range(&new, ..).expect("it is there").count(), 0);
    assert_eq!(new.approximate_count(..), Ok(0));
    drop((keyspaces, old, new, before, after, walking));
    // They hold handles too.
    drop((batch, conditions));
    assert!(
        raw(&path).iter().all(|(key, _)| key[0] == 0),
        "no key is left"
    );
}

/// Goal: a drop gives its space back, also where there is none left. Method: a file that may not grow is filled by one keyspace until nothing more fits, again and again.
#[test]
fn a_drop_makes_room_in_a_full_file() {
    let directory = directory();
    let options = options().max_bytes(16 << 20);
    let keyspaces = options.open_keyspaces(directory.path().join("database"));
    let keyspaces = keyspaces.expect("it opens");
    let stays = keyspaces.create("stays").expect("there is room");
    stays
        .put(b"1", b"Ada", Durability::Durable)
        .expect("there is room");
    let mut counts = Vec::new();
    for _ in 0..3 {
        let full = keyspaces.create("full").expect("there is room again");
        let mut count = 0_u64;
        let refused = loop {
            match full.put(&count.to_be_bytes(), &[7; 3000], Durability::Relaxed) {
                Ok(()) => count += 1,
                Err(failure) => break failure,
            }
        };
        assert_eq!(refused.status, Status::NoSpace, "{refused}");
        assert_eq!(full.approximate_count(..), Ok(count));
        keyspaces.drop_keyspace("full").expect("nothing has to fit");
        assert_eq!(keyspaces.remove_dropped(), Ok(0));
        counts.push(count);
    }
    assert!(counts[0] > 1000 && counts[2] > counts[0] / 2, "{counts:?}");
    assert_eq!(keyspaces.list(), ["stays"]);
    assert!(stays.contains(b"1").expect("it can be read"));
}
