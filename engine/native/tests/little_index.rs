//! A database whose index does not fit into the memory that it may take.
#![allow(missing_docs, reason = "a test")]

use kvsim_native::{Database, Durability, OpenOptions, Prefix};

const KEYS: u32 = 20_000;

fn key(n: u32) -> [u8; 5] {
    let [a, b, c, d] = n.to_be_bytes();
    [1, a, b, c, d]
}

/// Goal: nothing that is done with keys alone waits for ever, or misses a key, where entries are not in memory. Method: entries for twenty times the memory; counts, looks,
/// walks and removals of ranges, before and after another opening, which loads the index behind it.
#[test]
fn keys_beyond_memory_are_counted_and_removed() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
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
