//! Streams: what is written comes back, whole or not at all, whatever happens in between; and nothing is left behind.
#![allow(missing_docs, reason = "a test")]

mod faults;
mod kill;

use crate::common::directory;
use crate::noise::Noise;
use std::collections::BTreeMap;
use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};
use std::ops::Bound;
use std::path::Path;

use kvsim_native::{
    Database, DriverChoice, Durability, OpenOptions, Prefix, StreamReader, Streams, WriteBatch,
};

const PREFIX: &[u8] = b"s/";
const PIECE: usize = 4096;

fn options() -> OpenOptions {
    options_with("")
}

fn options_with(engine: &str) -> OpenOptions {
    OpenOptions {
        driver: DriverChoice::Threads,
        size_bytes: 16 << 20,
        max_bytes: 256 << 20,
        cache_bytes: 1 << 20,
        engine: format!("segment_bytes=262144\n{engine}"),
        ..OpenOptions::default()
    }
}

fn open(path: &Path) -> (Database, Streams) {
    open_with(path, &options())
}

fn open_with(path: &Path, options: &OpenOptions) -> (Database, Streams) {
    let database = Database::open(path, options).expect("it opens");
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
    Noise(seed).bytes(len)
}

fn put(streams: &Streams, key: &[u8], value: &[u8]) {
    let info = streams.put_from(key, value, Durability::Relaxed);
    assert_eq!(info.expect("a put").bytes, value.len() as u64);
}

fn read(streams: &Streams, key: &[u8]) -> Option<Vec<u8>> {
    let reader = streams.reader(key).expect("a reader")?;
    Some(read_all(reader))
}

fn read_all(mut reader: StreamReader) -> Vec<u8> {
    let mut value = Vec::new();
    reader.read_to_end(&mut value).expect("it can be read");
    assert_eq!(value.len() as u64, reader.len());
    value
}

/// Entries of the database under the prefix, of whatever kind.
fn raw_keys(database: &Database) -> usize {
    let keys = database.approximate_count(Prefix(PREFIX)).expect("a count");
    usize::try_from(keys).expect("some")
}

/// How many there are if nothing is there but these streams: a header for each, its pieces, and the bound of ids.
fn expected_keys<'a>(values: impl IntoIterator<Item = &'a Vec<u8>>) -> usize {
    let keys = values
        .into_iter()
        .map(|value| 1 + value.len().div_ceil(PIECE));
    1 + keys.sum::<usize>()
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn check(database: &Database, streams: &Streams, model: &Model) {
    assert_eq!(raw_keys(database), expected_keys(model.values()));
    let listed = streams.list(..).expect("a list");
    let listed: Vec<_> = listed
        .map(|entry| {
            let entry = entry.expect("it can be read");
            (entry.key.to_vec(), entry.info.bytes)
        })
        .collect();
    let expected = model.iter().map(|(key, value)| (key, value.len() as u64));
    assert!(listed.iter().map(|(key, bytes)| (key, *bytes)).eq(expected));
    for (key, value) in model {
        assert!(read(streams, key).as_ref() == Some(value));
    }
}

/// Goal: streams are what a map of vectors is. Method: random puts, with lengths around the bounds of pieces, by writes of random lengths; deletes, writers that are dropped, reads
/// from random places, lists of random ranges from both ends, other handles and openings; each against the map, and the raw entries are counted. With all of the index in memory, and
/// with next to nothing of it.
#[test]
fn streams_are_a_map_of_vectors() {
    are_a_map(&options());
    are_a_map(&options_with("index_bytes=65536\ncheckpoint_bytes=65536\n"));
}

fn are_a_map(options: &OpenOptions) {
    let directory = directory();
    let path = directory.path().join("database");
    let (mut database, mut all) = open_with(&path, options);
    let mut model = Model::new();
    let mut rng = Noise(3);
    let near: Vec<usize> = [0, 1, 2, 5, 40]
        .iter()
        .flat_map(|pieces| [0, 1, PIECE - 1].map(|more| pieces * PIECE + more))
        .collect();
    let key_of = |rng: &mut Noise| vec![b'a'; 1 + rng.place(12)];
    for round in 0..600 {
        let key = key_of(&mut rng);
        match rng.below(10) {
            0..=3 => {
                let value = bytes(round, near[rng.place(near.len())]);
                let mut writer = all.writer(&key).expect("a writer");
                let mut left = &value[..];
                while !left.is_empty() {
                    let len = (1 + rng.place(3 * PIECE)).min(left.len());
                    writer.write_all(&left[..len]).expect("a write");
                    left = &left[len..];
                }
                assert_eq!(writer.bytes(), value.len() as u64);
                if rng.below(4) > 0 {
                    let durability = [Durability::Relaxed, Durability::Durable][rng.place(2)];
                    writer.finish(durability).expect("it is finished");
                    model.insert(key, value);
                }
            }
            4 => {
                let deleted = all.delete(&key, Durability::Relaxed).expect("a delete");
                assert_eq!(deleted, model.remove(&key).is_some());
            }
            5 | 6 => {
                let reader = all.reader(&key).expect("a reader");
                assert_eq!(all.contains(&key), Ok(reader.is_some()));
                let info = all.metadata(&key).expect("metadata");
                assert_eq!(info, reader.as_ref().map(StreamReader::metadata));
                let Some(value) = model.get(&key) else {
                    assert!(reader.is_none());
                    continue;
                };
                let mut reader = reader.expect("it is there");
                for _ in 0..5 {
                    let at = rng.place(value.len() + 9);
                    let to = match rng.below(2) {
                        0 => SeekFrom::Start(at as u64),
                        _ => SeekFrom::End(at as i64 - value.len() as i64),
                    };
                    assert_eq!(reader.seek(to).expect("a place"), at as u64);
                    let mut some = Vec::new();
                    let len = rng.place(3 * PIECE);
                    let read = (&mut reader).take(len as u64).read_to_end(&mut some);
                    assert_eq!(read.expect("it can be read"), some.len());
                    let end = value.len().min(at + len);
                    assert!(some == value[at.min(end)..end]);
                    let now = reader.stream_position().expect("a place");
                    assert_eq!(now, (at + some.len()) as u64);
                }
            }
            7 => {
                let (a, b) = (key_of(&mut rng), key_of(&mut rng));
                let range = (Bound::Excluded(a.clone()), Bound::Included(b.clone()));
                let mut list = all.list(range).expect("a list");
                let mut found = Vec::new();
                let mut expected: Vec<_> =
                    model.keys().filter(|key| a < **key && **key <= b).collect();
                while let Some(entry) = list.next_back() {
                    found.push(entry.expect("it can be read").key.to_vec());
                    assert_eq!(expected.pop(), found.last());
                    if let Some(entry) = list.next() {
                        assert_eq!(*expected.remove(0), *entry.expect("the same").key);
                    }
                }
                assert!(expected.is_empty());
            }
            8 => all = streams(&database),
            _ => {
                drop(all);
                database.close().expect("it closes");
                (database, all) = open_with(&path, options);
            }
        }
        if round % 40 == 0 {
            check(&database, &all, &model);
        }
    }
    assert!(model.len() > 4);
    check(&database, &all, &model);
}

/// A source that makes a copy of the database each time that so many bytes more were taken from it.
struct Watched<'a> {
    value: &'a [u8],
    taken: usize,
    copy: &'a mut dyn FnMut(),
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (self.copy)();
        let taken = buffer.len().min(PIECE / 2);
        let taken = (&self.value[self.taken..]).read(&mut buffer[..taken])?;
        self.taken += taken;
        Ok(taken)
    }
}

/// Goal: after a crash at any step of a write, a replacement or a delete the old stream is whole or the new one is, no piece without a stream is left, and what is written then
/// changes none. Method: what a crash leaves is a prefix of the order of writes, and a backup is just that. One is made before each half piece that a writer takes; one after
/// the header was replaced or deleted and before pieces are removed, which a reader delays; and from that one, with more and more of the pieces removed. Each is opened.
#[test]
fn a_crash_at_any_step_leaves_the_old_or_the_new() {
    let directory = directory();
    let copy_path = directory.path().join("copy");
    let (database, all) = open(&directory.path().join("database"));
    let (other, old, new) = (
        bytes(1, 9_000),
        bytes(2, 6 * PIECE + 1),
        bytes(3, 5 * PIECE),
    );
    put(&all, b"other", &other);
    let mut crashes = 0;
    // What the crash leaves of the key, after this was removed besides.
    let mut crash = |expected: Option<&Vec<u8>>, removed: &[Vec<u8>]| {
        let _ = std::fs::remove_file(&copy_path);
        let snapshot = database.snapshot().expect("a snapshot");
        let progress = snapshot.backup(&copy_path, &options(), |_| {});
        progress.expect("a backup");
        let copy = Database::open(&copy_path, &options()).expect("it opens");
        for key in removed {
            copy.delete(key, Durability::Relaxed).expect("a delete");
        }
        let again = streams(&copy);
        let mut model = Model::from([(b"other".to_vec(), other.clone())]);
        model.extend(expected.map(|value| (b"key".to_vec(), value.clone())));
        check(&copy, &again, &model);
        let later = bytes(4, 3 * PIECE);
        put(&again, b"later", &later);
        model.insert(b"later".to_vec(), later);
        check(&copy, &again, &model);
        crashes += 1;
    };
    let mut before: Option<&Vec<u8>> = None;
    for now in [Some(&old), Some(&new), Some(&old), None] {
        let reader = all.reader(b"key").expect("a reader");
        match now {
            Some(value) => {
                let mut copy = || crash(before, &[]);
                let source = Watched {
                    value,
                    taken: 0,
                    copy: &mut copy,
                };
                let stored = all.put_from(b"key", source, Durability::Relaxed);
                stored.expect("it is written");
            }
            None => assert_eq!(all.delete(b"key", Durability::Relaxed), Ok(true)),
        }
        crash(now, &[]);
        if let Some(reader) = reader {
            // The pieces of what was there before are those that nothing but the reader keeps.
            let entries = database.range(Prefix(PREFIX)).expect("a range");
            let entries = entries.map(|entry| entry.expect("it can be read").key.to_vec());
            let entries: Vec<_> = entries.collect();
            let removal = |key: &&Vec<u8>| key[PREFIX.len()] == 2;
            let removals: Vec<_> = entries.iter().filter(removal).collect();
            let [removal] = &removals[..] else {
                panic!("{removals:?}");
            };
            let id = &removal[PREFIX.len() + 1..];
            let start = [PREFIX, &[1], id].concat();
            let pieces: Vec<_> = entries
                .iter()
                .filter(|key| key.starts_with(&start))
                .collect();
            assert_eq!(
                pieces.len(),
                before.map_or(0, |value| value.len().div_ceil(PIECE))
            );
            for some in 1..=pieces.len() {
                let pieces: Vec<_> = pieces[..some].iter().map(|key| key.to_vec()).collect();
                crash(now, &pieces);
            }
            assert!(Some(&read_all(reader)) == before);
        }
        crash(now, &[]);
        before = now;
    }
    assert!(crashes > 50, "{crashes}");
}

/// Goal: a reader reads what was there when it was made, by whatever handle, however often that is replaced or deleted, and its space comes back when it goes. Method:
/// readers of three generations, and the raw entries.
#[test]
fn a_reader_reads_one_moment() {
    let directory = directory();
    let (database, all) = open(&directory.path().join("database"));
    let values: Vec<_> = (0..3).map(|seed| bytes(seed, 7 * PIECE + 5)).collect();
    let mut readers = Vec::new();
    for value in &values {
        put(&streams(&database), b"key", value);
        let mut reader = all.reader(b"key").expect("a reader").expect("it is there");
        let first = reader.fill_buf().expect("a piece")[0];
        assert_eq!(first, value[0]);
        readers.push(reader);
    }
    let second = streams(&database).reader(b"key").expect("a reader");
    streams(&database)
        .delete(b"key", Durability::Durable)
        .expect("a delete");
    assert_eq!(read(&all, b"key"), None);
    // Headers have gone, and there is an entry for each that is to be removed.
    let mut left = 1 + 3 * (8 + 1);
    assert_eq!(raw_keys(&database), left);
    for (reader, value) in readers.into_iter().zip(&values) {
        assert!(read_all(reader) == *value);
        if value != &values[2] {
            left -= 8 + 1;
        }
        assert_eq!(raw_keys(&database), left);
    }
    assert!(read_all(second.expect("it was there")) == values[2]);
    assert_eq!(raw_keys(&database), expected_keys([]));
}

/// Goal: of writers of one key the last to finish counts, and nothing of the others is left, one after the other and many at once. Method: two that are interleaved; then threads,
/// beside readers, which see one of the values and never a mixture.
#[test]
fn the_last_writer_of_a_key_counts() {
    let directory = directory();
    let (database, all) = open(&directory.path().join("database"));
    let (a, b) = (bytes(1, 3 * PIECE + 1), bytes(2, 5 * PIECE));
    let (mut first, mut second) = (
        all.writer(b"key").expect("one"),
        all.writer(b"key").expect("two"),
    );
    for at in 0..5 {
        let part = |value: &[u8]| {
            value
                .chunks(PIECE)
                .nth(at)
                .map(<[u8]>::to_vec)
                .unwrap_or_default()
        };
        second.write_all(&part(&b)).expect("a write");
        first.write_all(&part(&a)).expect("a write");
        // What is being written is not what a crash has left.
        drop(streams(&database));
    }
    second.finish(Durability::Relaxed).expect("it is finished");
    assert!(read(&all, b"key").as_ref() == Some(&b));
    first.finish(Durability::Durable).expect("it is finished");
    assert!(read(&all, b"key").as_ref() == Some(&a));
    assert_eq!(raw_keys(&database), expected_keys([&a]));

    let value = |number: u64| {
        let pieces = usize::try_from(number % 4).expect("small");
        bytes(number, pieces * PIECE + 100)
    };
    std::thread::scope(|scope| {
        for thread in 0..6_u64 {
            let database = &database;
            scope.spawn(move || {
                let all = streams(database);
                for round in 0..25 {
                    let number = thread * 100 + round;
                    let value = [&number.to_le_bytes()[..], &value(number)].concat();
                    put(&all, b"key", &value);
                    if round % 8 == 7 {
                        all.delete(b"key", Durability::Relaxed).expect("a delete");
                    }
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let mut seen = 0;
                for _ in 0..200 {
                    if let Some(found) = read(&all, b"key").filter(|it| *it != a) {
                        let number = u64::from_le_bytes(found[..8].try_into().expect("eight"));
                        assert!(found[8..] == value(number), "{number}");
                        seen += 1;
                    }
                }
                assert!(seen > 0);
            });
        }
    });
    let left = read(&all, b"key");
    assert_eq!(raw_keys(&database), expected_keys(&left));
}

/// Goal: a stream takes effect together with other writes, or neither does. Method: a batch that fits, one that does not, and one beside a writer that is dropped.
#[test]
fn other_writes_come_with_the_stream() {
    let directory = directory();
    let (database, all) = open(&directory.path().join("database"));
    let value = bytes(7, 2 * PIECE + 9);
    let written = || {
        let mut writer = all.writer(b"key").expect("a writer");
        writer.write_all(&value).expect("a write");
        writer
    };
    let mut too_large = WriteBatch::new();
    for number in 0..200_u32 {
        too_large.put(&number.to_le_bytes(), &[1; 4000]);
    }
    let failure = written().finish_with(&too_large, Durability::Durable);
    let failure = failure.expect_err("a segment is 256 KiB");
    assert_eq!(failure.status, kvsim_native::Status::Invalid, "{failure}");
    drop(written());
    assert_eq!(raw_keys(&database), expected_keys([]));
    assert_eq!(database.counts().engine.keys, 1);
    let mut batch = WriteBatch::new();
    batch.put(b"name", b"key");
    let info = written().finish_with(&batch, Durability::Durable);
    assert_eq!(info.expect("it fits").bytes, value.len() as u64);
    assert_eq!(
        database.get(b"name").expect("a get").as_deref(),
        Some(&b"key"[..])
    );
    assert!(read(&all, b"key") == Some(value));
}
