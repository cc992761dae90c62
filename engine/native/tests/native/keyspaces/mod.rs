//! Keyspaces against a model, and what keeps them apart.
#![allow(missing_docs, reason = "a test")]

mod kill;
mod refused;
mod threads;

use crate::common::directory;
use crate::noise::Noise;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

use kvsim_native::{
    Checked, Direction, Durability, KEYSPACE_KEY_BYTES_MAX, Keyspace, KeyspaceBatch,
    KeyspaceChecked, KeyspaceConditions, Keyspaces, KeyspacesSnapshot, OpenOptions, Prefix,
    ScanRange,
};

fn options() -> OpenOptions {
    OpenOptions::new()
        .size_bytes(16 << 20)
        .cache_bytes(64 << 10)
        .segment_bytes(1 << 18)
}

fn opened(path: &Path) -> Keyspaces {
    options().open_keyspaces(path).expect("it opens")
}

/// Divides a file so that its next keyspace gets this identifier.
fn divided(path: &Path, next: u32) {
    opened(path).close().expect("it is durable");
    set_next(path, next);
}

fn set_next(path: &Path, next: u32) {
    let database = options().open(path).expect("it opens");
    let put = database.put(b"\0next", &next.to_le_bytes(), Durability::Durable);
    put.expect("there is room");
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
type Model = BTreeMap<String, Map>;

const NAMES: [&str; 5] = ["a", "b", "", "zero\0", "long"];

fn name(rng: &mut Noise) -> String {
    match *rng.of(&NAMES) {
        "long" => "n".repeat(255),
        "" | "zero\0" => "c".to_owned(),
        name => name.to_owned(),
    }
}

/// Few keys, so that they meet, at both ends of the order and of both lengths at most.
fn key(rng: &mut Noise) -> Vec<u8> {
    let byte = *rng.of(&[0, 1, 2, 0x7f, 0x80, 0xff]);
    let len = *rng.of(&[1, 2, 3, KEYSPACE_KEY_BYTES_MAX]);
    vec![byte; len]
}

fn value(rng: &mut Noise) -> Vec<u8> {
    let len = *rng.of(&[0, 1, 30, 300]);
    rng.next()
        .to_le_bytes()
        .into_iter()
        .cycle()
        .take(len)
        .collect()
}

fn durability(rng: &mut Noise) -> Durability {
    *rng.of(&[
        Durability::Relaxed,
        Durability::Relaxed,
        Durability::Relaxed,
        Durability::Durable,
    ])
}

/// A range in the form of bounds.
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

fn bounds(rng: &mut Noise) -> Bounds {
    let mut bound = || match rng.below(3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(key(rng)),
        _ => Bound::Excluded(key(rng)),
    };
    (bound(), bound())
}

fn within(map: &Map, bounds: &Bounds) -> Vec<(Vec<u8>, Vec<u8>)> {
    let inside = |key: &Vec<u8>| {
        (match &bounds.0 {
            Bound::Included(start) => key >= start,
            Bound::Excluded(start) => key > start,
            Bound::Unbounded => true,
        }) && match &bounds.1 {
            Bound::Included(end) => key <= end,
            Bound::Excluded(end) => key < end,
            Bound::Unbounded => true,
        }
    };
    let entries = map.iter().filter(|(key, _)| inside(key));
    entries.map(|(k, v)| (k.clone(), v.clone())).collect()
}

fn entries(range: kvsim_native::Range) -> Vec<(Vec<u8>, Vec<u8>)> {
    let owned = range.map(|entry| {
        let entry = entry.expect("it can be read");
        (entry.key.to_vec(), entry.value.to_vec())
    });
    owned.collect()
}

/// Everything that can be asked of a keyspace, against what it should have.
fn compare(keyspace: &Keyspace, map: &Map, rng: &mut Noise) {
    let range = bounds(rng);
    let expected = within(map, &range);
    assert_eq!(
        entries(keyspace.range(range.clone()).expect("it is there")),
        expected
    );
    let mut backwards = keyspace.range(range.clone()).expect("it is there").rev();
    for (key, _) in expected.iter().rev() {
        let entry = backwards.next().expect("one more").expect("it can be read");
        assert_eq!(*entry.key, **key);
    }
    assert!(backwards.next().is_none());
    let count = keyspace
        .approximate_count(range.clone())
        .expect("it is there");
    assert_eq!(count, expected.len() as u64);
    let mut cursor = keyspace.cursor(range).expect("it is there");
    let to = key(rng);
    let found = cursor
        .seek(&to)
        .expect("it can be read")
        .map(|it| it.key.to_vec());
    assert_eq!(
        found.as_ref(),
        expected.iter().map(|it| &it.0).find(|key| **key >= to)
    );
    let found = cursor.seek_back(&to).expect("it can be read");
    let found = found.map(|it| (it.key.to_vec(), it.value.to_vec()));
    assert_eq!(found.as_ref(), expected.iter().rfind(|it| it.0 <= to));
    let first = cursor
        .first()
        .expect("it can be read")
        .map(|it| it.key.to_vec());
    assert_eq!(first.as_ref(), expected.first().map(|it| &it.0));
    let last = cursor
        .last()
        .expect("it can be read")
        .map(|it| it.key.to_vec());
    assert_eq!(last.as_ref(), expected.last().map(|it| &it.0));
    assert!(cursor.next().expect("it can be read").is_none());
    let keys: Vec<Vec<u8>> = (0..5).map(|_| key(rng)).collect();
    for (key, found) in keys.iter().zip(keyspace.multi_get(&keys)) {
        let found = found.expect("it can be read");
        assert_eq!(found.as_deref(), map.get(key).map(|it| &it[..]));
        let single = keyspace.get(key).expect("it can be read");
        assert_eq!(single.as_deref(), found.as_deref());
        assert_eq!(
            keyspace.contains(key).expect("it is there"),
            found.is_some()
        );
    }
    for direction in [Direction::Forward, Direction::Reverse] {
        let (start, limit) = (
            key(rng),
            u32::try_from(1 + rng.below(9)).expect("it is small"),
        );
        let found = keyspace.scan(&ScanRange {
            snapshot: 0,
            direction,
            start: Some(&start),
            end: None,
            limit,
            max_bytes: u32::MAX,
        });
        let found = found.expect("it can be read");
        let all = map.range(start.clone()..);
        let expected: Vec<_> = match direction {
            Direction::Forward => all.take(limit as usize).collect(),
            Direction::Reverse => all.rev().take(limit as usize).collect(),
        };
        let found: Vec<_> = found
            .iter()
            .map(|it| (it.key.to_vec(), it.value.to_vec()))
            .collect();
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        assert_eq!(found, expected);
    }
}

/// All keyspaces and all their keys, by the newest values.
fn compare_all(keyspaces: &Keyspaces, model: &Model) {
    assert_eq!(keyspaces.list(), model.keys().cloned().collect::<Vec<_>>());
    for (name, map) in model {
        let keyspace = keyspaces.open(name).expect("it is listed");
        let found = entries(keyspace.iter().expect("it is there"));
        assert_eq!(
            found,
            within(map, &(Bound::Unbounded, Bound::Unbounded)),
            "{name}"
        );
    }
}

/// Does something with the keyspaces and the model.
fn step(keyspaces: &Keyspaces, model: &mut Model, rng: &mut Noise) {
    let (name, other) = (name(rng), name(rng));
    let durable = durability(rng);
    let what = rng.below(100);
    // What concerns the keyspaces as such.
    match what {
        0..3 => {
            let created = keyspaces.create(&name);
            assert_eq!(created.is_ok(), !model.contains_key(&name));
            model.entry(name).or_default();
            return;
        }
        3..6 => {
            let dropped = keyspaces.drop_keyspace(&name);
            assert_eq!(dropped.is_ok(), model.remove(&name).is_some());
            return;
        }
        6..9 => {
            let renamed = keyspaces.rename(&name, &other);
            let can = model.contains_key(&name) && !model.contains_key(&other);
            assert_eq!(renamed.is_ok(), can);
            if can && let Some(map) = model.remove(&name) {
                model.insert(other, map);
            }
            return;
        }
        _ => {}
    }
    let keyspace = keyspaces.open_or_create(&name).expect("there is room");
    let map = model.entry(name.clone()).or_default();
    let (key, value) = (key(rng), value(rng));
    match what {
        9..40 => {
            keyspace.put(&key, &value, durable).expect("there is room");
            map.insert(key, value);
        }
        40..50 => {
            keyspace.delete(&key, durable).expect("it is there");
            map.remove(&key);
        }
        50..55 => {
            let range = bounds(rng);
            let gone = within(map, &range);
            let deleted = match rng.below(2) {
                0 => keyspace.delete_range(range, durable),
                _ => keyspace.delete_range_in_pieces(range, durable),
            };
            assert_eq!(deleted.expect("they are few"), gone.len() as u64);
            gone.iter().for_each(|(key, _)| _ = map.remove(key));
        }
        55..62 => {
            let old = match rng.below(2) {
                0 => map.get(&key).cloned(),
                _ => Some(b"another".to_vec()),
            };
            let new = Some(value).filter(|value| !value.is_empty());
            let replaced = keyspace.replace(&key, old.as_deref(), new.as_deref(), durable);
            let is = map.get(&key) == old.as_ref();
            let expected = match is {
                true => Checked::Written,
                false => Checked::Changed {
                    key: key.clone().into(),
                },
            };
            assert_eq!(replaced.expect("there is room"), expected);
            match new.filter(|_| is) {
                Some(new) => _ = map.insert(key, new),
                None if is => _ = map.remove(&key),
                None => {}
            }
        }
        62..82 => {
            let second = keyspaces.open_or_create(&other).expect("there is room");
            let seen = model.entry(other.clone()).or_default().get(&key).cloned();
            let written = match rng.below(3) {
                0 => {
                    let mut batch = KeyspaceBatch::new();
                    batch
                        .put(&keyspace, &key, &value)
                        .delete(&second, &value_key(&value));
                    batch.put(&second, &key, b"second");
                    assert_eq!(batch.len(), 3);
                    keyspaces.apply(&batch, durable).expect("there is room");
                    true
                }
                1 => {
                    let mut conditions = KeyspaceConditions::new();
                    match &seen {
                        Some(seen) if rng.below(3) > 0 => conditions.is(&second, &key, seen),
                        _ => conditions.is_absent(&second, &key),
                    };
                    let mut batch = KeyspaceBatch::new();
                    batch
                        .put(&keyspace, &key, &value)
                        .delete(&second, &value_key(&value));
                    batch.put(&second, &key, b"second");
                    match keyspaces
                        .apply_if(&conditions, &batch, durable)
                        .expect("there is room")
                    {
                        KeyspaceChecked::Written => true,
                        changed => {
                            let key = key.clone().into();
                            let keyspace = second;
                            assert_eq!(changed, KeyspaceChecked::Changed { keyspace, key });
                            assert!(seen.is_some());
                            false
                        }
                    }
                }
                _ => {
                    let mut transaction = match rng.below(2) {
                        0 => keyspaces.transaction(),
                        _ => keyspaces.snapshot().expect("it is open").transaction(),
                    };
                    let read = transaction.get(&second, &key).expect("it can be read");
                    assert_eq!(read.as_deref(), seen.as_deref());
                    transaction
                        .put(&keyspace, &key, &value)
                        .delete(&second, &value_key(&value));
                    transaction.put(&second, &key, b"second");
                    let in_between = rng.below(3) == 0;
                    if in_between {
                        second
                            .put(&key, b"in between", durable)
                            .expect("there is room");
                        let map = model.entry(other.clone()).or_default();
                        map.insert(key.clone(), b"in between".to_vec());
                    }
                    let is_same = !in_between || seen.as_deref() == Some(b"in between");
                    let committed = transaction.commit(durable).expect("there is room");
                    assert_eq!(committed == KeyspaceChecked::Written, is_same);
                    is_same
                }
            };
            if written {
                let map = model.entry(name).or_default();
                map.insert(key.clone(), value.clone());
                let map = model.entry(other).or_default();
                map.remove(&value_key(&value));
                map.insert(key, b"second".to_vec());
            }
        }
        _ => compare(&keyspace, map, rng),
    }
}

/// A key of a value, which is another one than those of `key`.
fn value_key(value: &[u8]) -> Vec<u8> {
    [b"v", value].concat()
}

/// A moment, and what was there then.
fn moment(keyspaces: &Keyspaces, model: &Model) -> (KeyspacesSnapshot, Vec<Keyspace>, Model) {
    let handles = model
        .keys()
        .map(|name| keyspaces.open(name).expect("it is listed"));
    let handles = handles.collect();
    (
        keyspaces.snapshot().expect("it is open"),
        handles,
        model.clone(),
    )
}

/// Goal: keyspaces are maps that know nothing of each other, whatever is done with them, across reopenings. Method: random operations on five names, with identifiers of one
/// byte and of two, against maps; snapshots are compared with the maps of their moment after more operations, drops among them.
#[test]
fn keyspaces_are_maps() {
    for seed in 0..6 {
        let mut rng = Noise(seed);
        let directory = directory();
        let path = directory.path().join("database");
        divided(&path, 1 + u32::try_from(seed).expect("it is small") * 25);
        let mut model = Model::new();
        for _ in 0..5 {
            let keyspaces = opened(&path);
            compare_all(&keyspaces, &model);
            for _ in 0..4 {
                let (snapshot, handles, then) = moment(&keyspaces, &model);
                for _ in 0..60 {
                    step(&keyspaces, &mut model, &mut rng);
                }
                for (keyspace, map) in handles.iter().zip(then.values()) {
                    let all = within(map, &(Bound::Unbounded, Bound::Unbounded));
                    let range = snapshot.range(keyspace, ..).expect("it was there");
                    assert_eq!(entries(range), all);
                    for (key, found) in map
                        .keys()
                        .zip(snapshot.multi_get(keyspace, &map.keys().collect::<Vec<_>>()))
                    {
                        assert_eq!(found.expect("it was there").as_deref(), Some(&map[key][..]));
                        assert!(snapshot.contains(keyspace, key).expect("it was there"));
                    }
                    let mut cursor = snapshot.cursor(keyspace, ..).expect("it was there");
                    let last = cursor
                        .last()
                        .expect("it can be read")
                        .map(|it| it.key.to_vec());
                    assert_eq!(last, all.last().map(|it| it.0.clone()));
                }
            }
            compare_all(&keyspaces, &model);
        }
    }
}

/// Goal: keyspaces whose prefixes are neighbours do not see each other's keys, at any length of a prefix. Method: two keyspaces on each side of each edge, with keys at both
/// ends of the order and the longest ones; the ends of all ranges, and the removal of one.
#[test]
fn neighbours_do_not_meet() {
    for edge in [2_u32, 0x80, 0x100, 0x4000, 0x20_0000, (1 << 28) - 1] {
        let directory = directory();
        let path = directory.path().join("database");
        divided(&path, edge - 1);
        let keyspaces = opened(&path);
        let pair = ["low", "high"].map(|name| keyspaces.create(name).expect("there is room"));
        let longest = vec![0xff; KEYSPACE_KEY_BYTES_MAX];
        let keys = [&[0][..], &[0, 0], &[1], &[0x80, 0], &[0xff], &longest];
        for (keyspace, value) in pair.iter().zip([b"l", b"h"]) {
            for key in keys {
                keyspace
                    .put(key, value, Durability::Relaxed)
                    .expect("there is room");
            }
        }
        for (keyspace, value) in pair.iter().zip([b"l", b"h"]) {
            let all = entries(keyspace.iter().expect("it is there"));
            let expected: Vec<_> = keys
                .iter()
                .map(|key| (key.to_vec(), value.to_vec()))
                .collect();
            assert_eq!(all, expected, "{edge}");
            let mut cursor = keyspace.cursor(..).expect("it is there");
            assert_eq!(
                cursor.last().expect("it can be read").map(|it| it.key),
                Some(&longest[..])
            );
            assert!(cursor.next().expect("it can be read").is_none());
            assert_eq!(
                cursor.first().expect("it can be read").map(|it| it.key),
                Some(&[0][..])
            );
            assert!(cursor.previous().expect("it can be read").is_none());
            assert!(cursor.seek_back(b"").expect("it can be read").is_none());
            assert!(
                cursor
                    .seek(&[0xff; 2000])
                    .expect("it can be read")
                    .is_none()
            );
            assert_eq!(
                keyspace.range(Prefix([0xff])).expect("it is there").count(),
                2
            );
            assert!(
                keyspace
                    .get(&[0xff; 2000])
                    .expect("there is none")
                    .is_none()
            );
            assert!(keyspace.get(b"").expect("there is none").is_none());
        }
        assert_eq!(pair[0].delete_range(.., Durability::Relaxed), Ok(6));
        assert_eq!(pair[0].approximate_count(..), Ok(0));
        assert_eq!(pair[1].approximate_count(..), Ok(6));
        keyspaces.drop_keyspace("low").expect("it is there");
        assert_eq!(pair[1].approximate_count(..), Ok(6));
    }
}
