//! Databases that are opened to be read.
#![allow(missing_docs, reason = "a test")]

use crate::common::{all, directory};
use std::path::Path;

use kvsim_native::{
    Conditions, Database, DriverChoice, Durability, Failure, OpenError, OpenOptions, ReadOnly,
    Status, WriteBatch,
};

fn options(driver: DriverChoice) -> OpenOptions {
    OpenOptions::new()
        .driver(driver)
        .size_bytes(16 << 20)
        .max_bytes(256 << 20)
        .cache_bytes(1 << 20)
        .segment_bytes(1 << 18)
        .relaxed_window(std::time::Duration::ZERO)
}

fn value(n: u32) -> Vec<u8> {
    n.to_le_bytes().repeat((n % 900) as usize)
}

/// Writes, a part of them again and again, so that there is something to recover.
fn fill(database: &Database) {
    for n in 0..6000_u32 {
        let durability = match n % 100 {
            0 => Durability::Durable,
            _ => Durability::Relaxed,
        };
        let put = database.put(&(n % 1500).to_be_bytes(), &value(n), durability);
        put.expect("there is room");
    }
    database
        .put(b"large", &[7; 300_000], Durability::Durable)
        .expect("there is room");
}

fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("it is there")
}

/// Goal: a database that is opened to be read shows what an opening to write shows, after a clean end and after a crash, and not a byte of its file changes. Method:
/// copies of an open database are what a crash leaves; each is opened both ways, by each driver.
#[test]
fn a_database_is_read_and_left_as_it_is() {
    for driver in [DriverChoice::Auto, DriverChoice::Threads] {
        let directory = directory();
        let [path, crashed, again] =
            ["database", "crashed", "again"].map(|name| directory.path().join(name));
        let database = options(driver).open(&path).expect("a new database");
        fill(&database);
        std::fs::copy(&path, &crashed).expect("a copy");
        database
            .put(b"last", b"", Durability::Durable)
            .expect("there is room");
        database.close().expect("all is durable");
        for path in [&path, &crashed] {
            let before = bytes(path);
            let reader = options(driver)
                .read_only(true)
                .open(path)
                .expect("it can be read");
            let seen = all(&reader);
            for (key, value) in seen.iter().step_by(50) {
                assert_eq!(reader.get(key).expect("a get").as_deref(), Some(&value[..]));
            }
            assert_eq!(reader.get(b"none").expect("a get").as_deref(), None);
            reader.sync().expect("there is nothing to do");
            reader.close().expect("there is nothing to do");
            assert!(bytes(path) == before, "{} has changed", path.display());
            std::fs::copy(path, &again).expect("a copy");
            let writer = options(driver).open(&again).expect("it can be opened");
            assert!(all(&writer) == seen, "{}", path.display());
            assert_eq!(seen.len(), 1501 + usize::from(!path.ends_with("crashed")));
        }
    }
}

/// Goal: whoever reads takes no writes, by any way, and says why. Method: every way.
#[test]
fn every_write_is_refused() {
    let directory = directory();
    let path = directory.path().join("database");
    let read = options(DriverChoice::Auto).read_only(true);
    let missing = read.open(&path).expect_err("there is none");
    assert!(matches!(missing, OpenError::Io { .. }), "{missing}");
    assert!(!path.exists());
    let database = options(DriverChoice::Auto)
        .open(&path)
        .expect("a new database");
    database
        .put(b"key", b"value", Durability::Relaxed)
        .expect("there is room");
    assert_eq!(database.read_only(), None);
    drop(database);

    let reader = read.open(&path).expect("it can be read");
    assert_eq!(reader.read_only(), Some(ReadOnly::Opened));
    let mut batch = WriteBatch::new();
    batch.delete(b"key");
    let relaxed = Durability::Relaxed;
    let none = Conditions::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let refused: [Result<(), Failure>; 8] = [
        reader.put(b"key", b"", relaxed),
        reader.delete(b"key", Durability::Durable),
        reader.apply(&batch, relaxed),
        reader.apply_all([&batch], relaxed).remove(0),
        reader.apply_if(&none, &batch, relaxed).map(drop),
        reader.delete_range(.., relaxed).map(drop),
        reader.delete_range_in_pieces(.., relaxed).map(drop),
        runtime.block_on(reader.put_async(b"key", b"", relaxed)),
    ];
    for (way, refused) in refused.into_iter().enumerate() {
        let failure = refused.expect_err("it is refused");
        assert_eq!(failure.status, Status::ReadOnly, "{way}");
        assert!(
            failure.message.contains("opened to be read only"),
            "{failure}"
        );
    }
    assert!(reader.contains(b"key").expect("a get"));
}

/// Goal: any number read at once, and nobody writes meanwhile, nor reads while somebody writes. Method: openings side by side.
#[test]
fn many_read_or_one_writes() {
    let directory = directory();
    let path = directory.path().join("database");
    let (write, read) = (
        options(DriverChoice::Auto),
        options(DriverChoice::Auto).read_only(true),
    );
    let is_locked =
        |options: &OpenOptions| matches!(options.open(&path), Err(OpenError::Locked { .. }));
    let writer = write.open(&path).expect("a new database");
    writer
        .put(b"key", b"value", Durability::Relaxed)
        .expect("there is room");
    assert!(is_locked(&read));
    drop(writer);
    let readers = [(); 3].map(|()| read.open(&path).expect("it can be read"));
    assert!(is_locked(&write));
    for reader in &readers {
        assert!(reader.contains(b"key").expect("a get"));
    }
    drop(readers);
    write
        .open(&path)
        .expect("nobody reads any more")
        .close()
        .expect("all is durable");
}
