//! Snapshots, iterators and cursors as callers use them, against a map.
#![allow(missing_docs, reason = "a test")]

use crate::common::directory;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};

use kvsim_native::{
    Cursor, Database, Direction, Durability, Entry, Mutation, OpenOptions, OwnedEntry, Prefix,
    ScanRange, Status,
};

/// Two of a kind.
type Pair<T> = (T, T);
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn opened() -> (tempfile::TempDir, Database) {
    let directory = directory();
    let options = OpenOptions {
        size_bytes: 16 << 20,
        max_bytes: 256 << 20,
        cache_bytes: 1 << 20,
        engine: "segment_bytes=262144\n".to_owned(),
        ..OpenOptions::default()
    };
    let path = directory.path().join("database");
    let database = Database::open(&path, &options).expect("a new database");
    (directory, database)
}

/// A few thousand keys of one to three bytes, with values of up to 3,000 bytes.
fn filled(database: &Database) -> Model {
    let mut model = Model::new();
    for n in 0..3000_usize {
        let number = u32::try_from(n * 7919 % 70_000).expect("it is small");
        let key = number.to_be_bytes()[4 - (1 + n % 3)..].to_vec();
        let value = vec![key[0]; n * 31 % 3000];
        let put = database.put(&key, &value, Durability::Relaxed);
        put.expect("there is room");
        model.insert(key, value);
    }
    model
}

fn pair(entry: Result<OwnedEntry, kvsim_native::Failure>) -> (Vec<u8>, Vec<u8>) {
    let entry = entry.expect("it can be read");
    (entry.key.into(), entry.value.to_vec())
}

/// Goal: an iterator returns what a range holds, once, from both ends, however the two are mixed, and nothing that was written since. Method: ranges of each kind
/// over a database that another thread overwrites; against a map.
#[test]
fn ranges_are_walked_from_both_ends() {
    let (_directory, database) = opened();
    let model = filled(&database);
    let snapshot = database.snapshot().expect("it is open");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0_u32.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let key = n.to_be_bytes();
                let key = &key[2 - (n % 2) as usize..];
                database
                    .put(key, b"later", Durability::Relaxed)
                    .expect("there is room");
            }
        });
        let bounds: [Pair<Bound<&[u8]>>; 6] = [
            (Bound::Unbounded, Bound::Unbounded),
            (Bound::Included(&[40]), Bound::Excluded(&[90, 1])),
            (Bound::Excluded(&[0, 200]), Bound::Included(&[1, 1, 1])),
            (Bound::Unbounded, Bound::Excluded(&[7])),
            (Bound::Included(&[255, 255]), Bound::Unbounded),
            (Bound::Included(&[9]), Bound::Excluded(&[9])),
        ];
        for bound in bounds {
            let expected: Vec<_> = match bound {
                (Bound::Included(&[9]), _) => Vec::new(),
                bound => model
                    .range::<[u8], _>(bound)
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect(),
            };
            let all: Vec<_> = snapshot.range(bound).map(pair).collect();
            assert!(all == expected, "{bound:?} forwards");
            let mut all: Vec<_> = snapshot.range(bound).rev().map(pair).collect();
            all.reverse();
            assert!(all == expected, "{bound:?} backwards");
            for every in [2, 3, 50] {
                let mut range = snapshot.range(bound);
                let (mut front, mut back) = (Vec::new(), Vec::new());
                for n in 1.. {
                    let (next, end) = match n % every {
                        0 => (range.next_back(), &mut back),
                        _ => (range.next(), &mut front),
                    };
                    match next {
                        Some(entry) => end.push(pair(entry)),
                        None => break,
                    }
                }
                assert!(range.next().is_none() && range.next_back().is_none());
                front.extend(back.into_iter().rev());
                assert!(front == expected, "{bound:?} from both ends, {every}");
            }
        }
        let prefix: Vec<_> = snapshot.range(Prefix([1, 2])).map(pair).collect();
        let expected = model.iter().filter(|(key, _)| key.starts_with(&[1, 2]));
        assert!(prefix.iter().map(|(key, value)| (key, value)).eq(expected));
        stop.store(true, Ordering::Relaxed);
    });
    let later = database.get(&[0, 0, 1]).expect("a get");
    assert_eq!(later.as_deref(), Some(&b"later"[..]), "somebody wrote");
}

/// Where a cursor may stand: as many entries of the model lie before it, and whether it is at the next.
fn check(entry: Option<Entry<'_>>, expected: Option<(&Vec<u8>, &Vec<u8>)>, what: &str) {
    let found = entry.map(|entry| (entry.key, entry.value));
    let expected = expected.map(|(key, value)| (&key[..], &value[..]));
    assert!(
        found == expected,
        "{what}: {:?} for {:?}",
        found.map(|it| it.0),
        expected.map(|it| it.0)
    );
}

/// Goal: a cursor goes where it is sent, both ways, and comes back from beyond its range. Method: random moves within and beyond a range, against a map.
#[test]
fn a_cursor_moves_both_ways() {
    let (_directory, database) = opened();
    let model = filled(&database);
    let (low, high) = (vec![30_u8, 7], vec![200_u8]);
    let entries: Vec<_> = model.range(low.clone()..high.clone()).collect();
    assert!(entries.len() > 300);
    let mut cursor: Cursor = database.cursor(low..high).expect("it is open");
    database
        .put(&[31], b"later", Durability::Relaxed)
        .expect("there is room");
    // Its place: 0 is before the first, and one more than there are is behind the last.
    let (mut place, behind) = (0, entries.len() + 1);
    let at = |place: usize| place.checked_sub(1).and_then(|at| entries.get(at).copied());
    let mut random = 1_u64;
    for step in 0..20_000 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let draw = random >> 33;
        let key = [
            u8::try_from(draw % 256).expect("a byte"),
            u8::try_from(draw / 256 % 256).expect("a byte"),
        ];
        let key = &key[..1 + (draw % 2) as usize];
        let what = format!("step {step}, {key:?}");
        let entry = match draw % 64 {
            0 => {
                place = 1;
                cursor.first()
            }
            1 => {
                place = behind - 1;
                cursor.last()
            }
            2 => {
                place = 1 + entries.iter().filter(|entry| entry.0[..] < *key).count();
                cursor.seek(key)
            }
            3 => {
                place = entries.iter().filter(|entry| entry.0[..] <= *key).count();
                cursor.seek_back(key)
            }
            // For a while mostly forwards, for a while mostly backwards.
            draw if (draw < 40) == (step / 500 % 2 == 0) => {
                place = (place + 1).min(behind);
                cursor.next()
            }
            _ => {
                place = place.saturating_sub(1);
                cursor.previous()
            }
        };
        check(entry.expect("it can be read"), at(place), &what);
        check(cursor.entry(), at(place), &what);
    }
    let empty = database.cursor("b".."a");
    assert!(
        empty
            .and_then(|mut cursor| Ok(cursor.first()?.is_none()))
            .expect("it is open")
    );
}

/// Goal: a snapshot goes with the last of what reads it, and its space with it. Method: more versions than the file may hold are written, each under a snapshot that an
/// iterator outlives; then one is kept, and there is no more room.
#[test]
fn snapshots_free_themselves() {
    let directory = directory();
    let options = OpenOptions {
        size_bytes: 16 << 20,
        max_bytes: 16 << 20,
        engine: "segment_bytes=65536\n".to_owned(),
        ..OpenOptions::default()
    };
    let path = directory.path().join("database");
    let database = Database::open(&path, &options).expect("a new database");
    let round = |n: u32| -> Result<(), kvsim_native::Failure> {
        for key in 0..8_u8 {
            let value = n.to_le_bytes().repeat(20_000);
            database.put(&[key], &value, Durability::Relaxed)?;
        }
        Ok(())
    };
    for n in 0..60 {
        round(n).expect("there is room");
        let snapshot = database.snapshot().expect("it is open");
        let mut range = snapshot.iter();
        drop(snapshot);
        drop(database.snapshot_async());
        assert_eq!(
            pair(range.next().expect("an entry")).1[..4],
            n.to_le_bytes()
        );
    }
    let kept: Vec<_> = (0..60)
        .map_while(|n| {
            round(n).ok()?;
            database.snapshot().ok()
        })
        .collect();
    assert!((5..60).contains(&kept.len()), "{} versions fit", kept.len());
}

/// Goal: what reads a snapshot of a database that was closed says so, and frees itself all the same; and a snapshot keeps a database open. Method: both.
#[test]
fn a_snapshot_of_a_closed_database_says_so() {
    let (directory, database) = opened();
    database
        .put(b"key", b"value", Durability::Relaxed)
        .expect("there is room");
    let snapshot = database.snapshot().expect("it is open");
    let mut range = snapshot.iter();
    let mut cursor = snapshot.cursor(..);
    drop(database);
    assert_eq!(
        snapshot.get(b"key").expect("it is open").as_deref(),
        Some(&b"value"[..])
    );
    snapshot.database().clone().close().expect("all is durable");
    let status =
        |result: Result<bool, kvsim_native::Failure>| result.expect_err("it is closed").status;
    assert_eq!(
        status(snapshot.get(b"key").map(|it| it.is_some())),
        Status::Closed
    );
    assert_eq!(
        status(range.next().expect("an error").map(|_| true)),
        Status::Closed
    );
    assert!(range.next().is_none() && range.next_back().is_none());
    assert_eq!(
        status(cursor.first().map(|it| it.is_some())),
        Status::Closed
    );
    drop((snapshot, range, cursor));
    let path = directory.path().join("database");
    let again = Database::open(&path, &OpenOptions::default()).expect("nobody has it open");
    let scan = ScanRange {
        snapshot: 77,
        direction: Direction::Forward,
        start: None,
        end: None,
        limit: 10,
        max_bytes: 1000,
    };
    let snapshot = again.snapshot().expect("it is open");
    again
        .write(&[Mutation::Delete { key: b"key" }], Durability::Relaxed)
        .expect("there is room");
    assert_eq!(
        snapshot.scan(&scan).expect("its own number counts").len(),
        1
    );
}
