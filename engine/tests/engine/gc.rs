//! Garbage collection that reads what it moves: what snapshots hold goes along, and damage stays where it is.

use crate::common::{Rng, World, numbered, world};
use kvsim_engine::{Reply, Request, Status};

const OPTIONS: &str = "segment_bytes=65536\ninline_bytes=0\ncache_bytes=0";
const KEYS: u64 = 6_000;
const OVERWRITES: u64 = 30_000;
const KEPT: &str = "is kept as it is";

fn put(world: &mut World, key: u64, n: u64) {
    let reply = world.put_relaxed(&key.to_be_bytes(), &numbered(n));
    assert!(matches!(reply, Reply::Done), "{reply:?}");
}

/// A database with all keys, each with its own number.
fn filled() -> World {
    let mut world = world(16 << 20, OPTIONS);
    world.open().expect("opens");
    (0..KEYS).for_each(|key| put(&mut world, key, key));
    world
}

/// Overwrites keys at random, but for one.
fn overwrite_all_but(world: &mut World, spared: u64) {
    let mut rng = Rng(7);
    for n in 0..OVERWRITES {
        let key = rng.below(KEYS);
        if key != spared {
            put(world, key, KEYS + n);
        }
    }
    let stats = world.engine().stats();
    assert!(stats.collected_segments > 100, "{stats:?}");
}

fn is_kept(world: &World) -> bool {
    world.log().iter().any(|line| line.contains(KEPT))
}

/// Goal: garbage collection moves what only a snapshot holds. Method: a snapshot of half of what has been written; then everything is overwritten again and again.
#[test]
fn what_a_snapshot_holds_is_moved() {
    let mut world = world(16 << 20, OPTIONS);
    world.open().expect("opens");
    for n in 0..KEYS / 2 {
        put(&mut world, n % (KEYS / 4) / (1 + n % 2), n);
    }
    let held: Vec<_> = (0..KEYS / 4)
        .map(|key| world.get(&key.to_be_bytes()))
        .collect();
    let Reply::Snapshot(snapshot) = world.call(Request::Snapshot) else {
        panic!("a snapshot is taken");
    };
    overwrite_all_but(&mut world, KEYS);
    assert!(!is_kept(&world), "{:?}", world.log());
    for (key, held) in (0_u64..).zip(held) {
        let at = Request::Get {
            snapshot,
            key: &key.to_be_bytes(),
        };
        match (world.call(at), held) {
            (Reply::Value(found), Some(held)) => assert!(found[..] == held, "key {key}"),
            (Reply::NotFound, None) => {}
            (other, _) => panic!("key {key}: {other:?}"),
        }
    }
}

/// Flips a bit in the record of this key and number, wherever that is on the device.
fn damage(world: &mut World, key: u64, n: u64) {
    world.run_until_idle();
    let record = [key.to_be_bytes(), n.to_le_bytes()].concat();
    let mut times = 0;
    world.disk.damage(|image| {
        let mut at = 0;
        while let Some(found) = image[at..].windows(16).position(|it| it == record) {
            at += found + 16;
            image[at + 500] ^= 1;
            times += 1;
        }
    });
    assert!(times > 0, "it is on the device");
}

/// Goal: damage is never given a new checksum. Method: flip a bit of a live record, and then of one that was overwritten; then overwrite the other keys
/// until garbage collection has met the damage. The first is reported and its segment kept; the second is dead, and nothing is reported.
#[test]
fn damage_is_not_moved() {
    let unlucky = 1000;
    for alive in [true, false] {
        let mut world = filled();
        damage(&mut world, unlucky, unlucky);
        if !alive {
            put(&mut world, unlucky, 1);
        }
        overwrite_all_but(&mut world, unlucky);
        assert_eq!(is_kept(&world), alive, "{:?}", world.log());
        let get = Request::Get {
            snapshot: 0,
            key: &unlucky.to_be_bytes(),
        };
        match world.call(get) {
            Reply::Failed(Status::Corruption, _) if alive => {}
            Reply::Value(found) if !alive => assert!(found[..] == numbered(1)),
            other => panic!("{other:?}"),
        }
    }
}
