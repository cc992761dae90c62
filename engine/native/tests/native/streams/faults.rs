//! Streams and what goes wrong: damage, a full disk, a source that fails, wrong calls, databases that are only read.
#![allow(missing_docs, reason = "a test")]

use crate::common::directory;
use crate::noise::Noise;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

use kvsim_native::{
    Database, DriverChoice, Durability, Failure, OpenOptions, Prefix, Status, Streams, WriteBatch,
};

const PREFIX: &str = "s/";
const PIECE: usize = 64 << 10;

fn options() -> OpenOptions {
    OpenOptions {
        driver: DriverChoice::Threads,
        size_bytes: 16 << 20,
        max_bytes: 24 << 20,
        cache_bytes: 0,
        engine: "segment_bytes=262144\n".to_owned(),
        ..OpenOptions::default()
    }
}

fn open(path: &Path) -> (Database, Streams) {
    let database = Database::open(path, &options()).expect("it opens");
    let streams = streams(&database);
    (database, streams)
}

fn streams(database: &Database) -> Streams {
    let streams = database.streams(PREFIX).expect("its streams");
    let bytes = u32::try_from(PIECE).expect("small");
    streams.with_piece_bytes(bytes).expect("a power of two")
}

/// Bytes that no other seed has.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    Noise(seed << 32).bytes(len)
}

fn put(streams: &Streams, key: &[u8], value: &[u8]) -> io::Result<()> {
    streams
        .put_from(key, value, Durability::Durable)
        .map(|_| ())
}

fn read(streams: &Streams, key: &[u8]) -> io::Result<Vec<u8>> {
    let mut value = Vec::new();
    let reader = streams.reader(key)?;
    reader.expect("it is there").read_to_end(&mut value)?;
    Ok(value)
}

fn raw_keys(database: &Database) -> u64 {
    database.approximate_count(Prefix(PREFIX)).expect("a count")
}

fn failure(error: &io::Error) -> &Failure {
    let inside = error.get_ref().and_then(|it| it.downcast_ref());
    inside.expect("a failure of the database")
}

/// Expects damage to be told, with the words in the message.
fn is_damage<T: std::fmt::Debug>(result: io::Result<T>, words: &[&str]) {
    let error = result.expect_err("it is damaged");
    assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
    let failure = failure(&error);
    assert_eq!(failure.status, Status::Corruption);
    for word in words {
        assert!(failure.message.contains(word), "{word}: {failure}");
    }
}

/// Goal: a damaged piece is an error with its stream and number, and all other pieces can be read. Method: one bit of a piece is turned over in the file.
#[test]
fn a_damaged_piece_is_told_and_the_others_are_read() {
    let directory = directory();
    let path = directory.path().join("database");
    let (database, all) = open(&path);
    let value = bytes(1, 4 * PIECE + 7);
    put(&all, b"key", &value).expect("a put");
    drop(all);
    database.close().expect("it closes");
    let mut file = std::fs::read(&path).expect("the file");
    let inside = &value[2 * PIECE + 1000..2 * PIECE + 1100];
    let found = file.windows(inside.len()).position(|it| it == inside);
    file[found.expect("it is stored as it is") + 50] ^= 1;
    std::fs::write(&path, file).expect("it can be written");

    let (_database, all) = open(&path);
    is_damage(read(&all, b"key"), &["piece 2 of 5", "`key`"]);
    let mut reader = all.reader(b"key").expect("a reader").expect("it is there");
    for piece in [4, 3, 0, 1] {
        let at = (piece * PIECE) as u64;
        reader.seek(SeekFrom::Start(at)).expect("a place");
        let mut part = vec![0; PIECE.min(value.len() - piece * PIECE)];
        reader.read_exact(&mut part).expect("it is whole");
        assert!(part == value[piece * PIECE..][..part.len()]);
    }
    reader
        .seek(SeekFrom::Start(3 * PIECE as u64 - 1))
        .expect("a place");
    is_damage(reader.read(&mut [0]), &["piece 2 of 5"]);
    is_damage(reader.read(&mut [0]), &["piece 2 of 5"]);
}

/// Goal: pieces and headers that somebody else has changed are told, and no byte of them is taken for the stream's. Method: entries are changed by their keys.
#[test]
fn foreign_entries_are_told() {
    let directory = directory();
    let (database, all) = open(&directory.path().join("database"));
    let value = bytes(1, 2 * PIECE + 9);
    let raw = |at: usize| {
        let mut entries = database.range(Prefix(PREFIX)).expect("a range");
        let entry = entries
            .nth(at)
            .expect("it is there")
            .expect("it can be read");
        (entry.key, entry.value.to_vec())
    };
    // The header, the pieces, the bound of ids.
    let change = |at: usize, change: &dyn Fn(&mut Vec<u8>), told: &dyn Fn()| {
        put(&all, b"key", &value).expect("a put");
        let (key, value) = raw(at);
        let mut changed = value.clone();
        change(&mut changed);
        database
            .put(&key, &changed, Durability::Relaxed)
            .expect("a put");
        told();
        database
            .put(&key, &value, Durability::Relaxed)
            .expect("a put");
        assert!(read(&all, b"key").is_ok());
    };
    change(2, &|piece| piece.truncate(PIECE - 1), &|| {
        is_damage(read(&all, b"key"), &["piece 1 of 3", "65535", "65536"]);
    });
    change(3, &|piece| piece[3] ^= 1, &|| {
        is_damage(read(&all, b"key"), &["hash", "`key`"]);
        let mut reader = all.reader(b"key").expect("a reader").expect("it is there");
        let mut most = Vec::new();
        assert!(reader.read_to_end(&mut most).is_err());
        assert_eq!(most.len(), 2 * PIECE, "the last piece is not given out");
    });
    change(0, &|header| header[20] ^= 1, &|| {
        is_damage(read(&all, b"key"), &["header", "`key`", "Database::delete"]);
        is_damage(put(&all, b"key", &value), &["header"]);
        let deleted = all.delete(b"key", Durability::Relaxed);
        assert_eq!(deleted.expect_err("damaged").status, Status::Corruption);
        let listed = all.list(..).expect("a list").next().expect("an entry");
        assert_eq!(listed.expect_err("damaged").status, Status::Corruption);
    });
    change(0, &|header| header[3] = 9, &|| {
        let error = read(&all, b"key").expect_err("refused");
        assert_eq!(failure(&error).status, Status::Invalid);
        assert!(error.to_string().contains("version 9"), "{error}");
    });
    let no_bound = || {
        let failure = database.streams(PREFIX).expect_err("damaged");
        assert_eq!(failure.status, Status::Corruption);
        assert!(failure.message.contains("no bound of ids"), "{failure}");
    };
    change(4, &|bound| bound.truncate(7), &no_bound);
    change(4, &|bound| bound.fill(0xff), &no_bound);
    let (key, _) = raw(3);
    database
        .delete(&key, Durability::Relaxed)
        .expect("a delete");
    is_damage(read(&all, b"key"), &["piece 2 of 3", "not there"]);
    database
        .put(b"s/\x02x", b"", Durability::Relaxed)
        .expect("a put");
    let failure = database.streams(PREFIX).expect_err("damaged");
    assert!(failure.message.contains("`s/\\x02x`"), "{failure}");
}

/// Goal: a full disk in the middle of a stream leaves the old one, and gives the space back; and a full database deletes. Method: streams that are too large, again and again,
/// beside one that stays; then the database is filled to the brim.
#[test]
fn a_full_disk_leaves_the_old_one_and_gives_space_back() {
    let directory = directory();
    let (database, all) = open(&directory.path().join("database"));
    let old = bytes(1, 4 << 20);
    put(&all, b"key", &old).expect("a put");
    let before = raw_keys(&database);
    for round in 0..6 {
        let written = put(&all, b"key", &bytes(round, 40 << 20));
        let error = written.expect_err("it does not fit");
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
        assert_eq!(failure(&error).status, Status::NoSpace);
        assert!(read(&all, b"key").expect("it is whole") == old);
        assert_eq!(raw_keys(&database), before);
        // What fits beside the old one does again.
        let fits = bytes(round, 9 << 20);
        put(&all, b"other", &fits).expect("there is space");
        assert!(read(&all, b"other").expect("it is whole") == fits);
        assert_eq!(all.delete(b"other", Durability::Durable), Ok(true));
    }
    let mut count = 0_u32;
    let full = loop {
        if let Err(error) = put(&all, &count.to_be_bytes(), &bytes(7, 3 * PIECE)) {
            break error;
        }
        count += 1;
    };
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    let mut small = 0_u32;
    let one_more = |small: u32| {
        database.put(
            &[b"x", &small.to_be_bytes()[..]].concat(),
            &[1; 4000],
            Durability::Relaxed,
        )
    };
    while one_more(small).is_ok() {
        small += 1;
    }
    assert!(count > 10, "{count}");
    for key in 0..count {
        assert_eq!(
            all.delete(&key.to_be_bytes(), Durability::Relaxed),
            Ok(true)
        );
    }
    assert_eq!(raw_keys(&database), before);
    assert!(read(&all, b"key").expect("it is whole") == old);
}

/// Goal: a source that fails leaves nothing, and its error is the caller's. Method: one that fails after some pieces.
#[test]
fn a_source_that_fails_leaves_nothing() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::new(ErrorKind::ConnectionReset, "it was cut off"))
        }
    }
    let directory = directory();
    let (database, all) = open(&directory.path().join("database"));
    let source = io::repeat(7).take(3 * PIECE as u64 + 1).chain(Failing);
    let stored = all.put_from(b"key", source, Durability::Durable);
    let error = stored.expect_err("the source failed");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!((all.contains(b"key"), raw_keys(&database)), (Ok(false), 1));
}

/// Goal: wrong calls say what is wrong, and nothing is done. Method: keys, prefixes, pieces and places at their bounds and beyond.
#[test]
fn wrong_calls_are_told() {
    let directory = directory();
    let path = directory.path().join("database");
    let (database, all) = open(&path);
    let invalid = |failure: Failure, words: &str| {
        assert_eq!(failure.status, Status::Invalid);
        assert!(failure.message.contains(words), "{failure}");
    };
    let longest = [b'k'; 1021];
    put(&all, &longest, b"value").expect("it fits");
    assert_eq!(read(&all, &longest).expect("a read"), b"value");
    for key in [&[][..], &[b'k'; 1022]] {
        invalid(all.writer(key).expect_err("refused"), "1..=1021");
        invalid(all.reader(key).expect_err("refused"), "1..=1021");
        invalid(all.contains(key).expect_err("refused"), "1..=1021");
        let deleted = all.delete(key, Durability::Durable);
        invalid(deleted.expect_err("refused"), "1..=1021");
    }
    invalid(database.streams([0; 513]).expect_err("refused"), "512");
    assert!(database.streams([0; 512]).is_ok());
    for pieces in [0, 1, 2048, 5000, 8 << 20, u32::MAX] {
        let refused = all.clone().with_piece_bytes(pieces);
        invalid(refused.expect_err("refused"), "power of two");
    }
    let mut reader = all.reader(&longest).expect("a reader").expect("there");
    for to in [
        SeekFrom::End(-6),
        SeekFrom::Current(-1),
        SeekFrom::Current(i64::MIN),
    ] {
        let error = reader.seek(to).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(reader.stream_position().expect("a place"), 0);
    }
    assert_eq!(
        reader.seek(SeekFrom::Start(u64::MAX)).expect("a place"),
        u64::MAX
    );
    assert_eq!(reader.read(&mut [0]).expect("nothing"), 0);
    assert!(reader.seek(SeekFrom::Current(1)).is_err());
    assert_eq!(all.delete(b"nothing", Durability::Durable), Ok(false));
    assert!(all.reader(b"nothing").expect("no error").is_none());

    drop((reader, all));
    database.close().expect("it closes");
    let options = options().max_value_bytes(10_000);
    let database = Database::open(&path, &options).expect("it opens");
    for pieces in [1, 3] {
        let value = bytes(1, pieces * PIECE);
        let error = put(&streams(&database), b"key", &value).expect_err("refused");
        invalid(failure(&error).clone(), "with_piece_bytes");
    }
    let mut writer = streams(&database).writer(b"key").expect("a writer");
    writer.write_all(&bytes(1, PIECE)).expect("it is in memory");
    let mut batch = WriteBatch::new();
    batch.put(b"name", b"key");
    let written = writer.finish_with(&batch, Durability::Durable);
    assert_eq!(written.expect_err("refused").status, Status::Invalid);
    assert_eq!(
        database.contains(b"name"),
        Ok(false),
        "together or not at all"
    );
}

/// Goal: a database that is only read gives its streams out, also to several at once, and refuses to write; what a crash left there is left. Method: one with a writer that never ended.
#[test]
fn a_database_that_is_only_read_gives_its_streams_out() {
    let directory = directory();
    let path = directory.path().join("database");
    let (database, all) = open(&path);
    let value = bytes(1, 3 * PIECE);
    put(&all, b"key", &value).expect("a put");
    let mut writer = all.writer(b"unfinished").expect("a writer");
    writer.write_all(&value).expect("a write");
    database.sync().expect("a sync");
    let copy = directory.path().join("copy");
    database.backup(&copy).expect("a backup");
    drop(writer);
    let read_only = || options().read_only(true).open(&copy).expect("it opens");
    let (first, second) = (read_only(), read_only());
    for database in [&first, &second] {
        let all = streams(database);
        assert!(read(&all, b"key").expect("it is whole") == value);
        assert_eq!(all.list(..).expect("a list").count(), 1);
        assert_eq!(raw_keys(database), 1 + 3 + 2 + 1 + 1);
        let refused = all.writer(b"key").expect_err("refused");
        assert_eq!(refused.status, Status::ReadOnly);
        let refused = all.delete(b"key", Durability::Relaxed);
        assert_eq!(refused.expect_err("refused").status, Status::ReadOnly);
    }
    drop((first, second));
    let (database, _all) = open(&copy);
    assert_eq!(raw_keys(&database), 1 + 3 + 1);
}

/// Goal: a read at any place reads from the disk the pieces that it needs, and no others. Method: bytes that the disk gave, without a cache.
#[test]
fn a_read_touches_its_pieces_alone() {
    let directory = directory();
    let path = directory.path().join("database");
    let (database, all) = open(&path);
    let value = bytes(1, 40 * PIECE);
    put(&all, b"key", &value).expect("a put");
    drop(all);
    database.close().expect("it closes");
    let (database, all) = open(&path);
    let read_bytes = || database.counts().io.read_bytes;
    let mut reader = all.reader(b"key").expect("a reader").expect("there");
    let mut read = |at: usize, len: usize| {
        let before = read_bytes();
        let mut part = vec![0; len];
        reader.seek(SeekFrom::Start(at as u64)).expect("a place");
        reader.read_exact(&mut part).expect("it is whole");
        assert!(part == value[at..at + len]);
        (read_bytes() - before).div_ceil(PIECE as u64 + 8192)
    };
    assert_eq!(read(7 * PIECE + 9, 100), 1);
    assert_eq!(read(30 * PIECE, PIECE), 1);
    assert_eq!(read(30 * PIECE + 5, 9), 0, "it is in memory");
    assert_eq!(read(3 * PIECE - 1, 1), 1);
    assert_eq!(read(20 * PIECE, 1), 1);
    assert_eq!(read(10 * PIECE - 2, 4), 2);
}
