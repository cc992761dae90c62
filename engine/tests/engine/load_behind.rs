//! An index that is loaded behind its opening: clients read and write meanwhile, and the power may go at any moment.

use std::collections::BTreeMap;

use crate::common::{Disk, FAST, Rng, Times, World, bytes, device};
use kvsim_engine::{
    CoveragePoint, Direction, Durability, Mutation, Reply, Request, ScanRange, Status,
};

const KEYS: u64 = 40_000;
/// Loading takes hundreds of reads.
const SLOW_READS: Times = Times {
    read: 300_000,
    spread: 5,
    ..FAST
};
const ALL_IN_MEMORY: &str = "load_first_bytes=0\nsegment_bytes=262144\ncheckpoint_bytes=262144\ninline_bytes=0\nlarge_value_bytes=3000";
const LITTLE_MEMORY: &str = "load_first_bytes=0\nsegment_bytes=262144\ncheckpoint_bytes=262144\ninline_bytes=0\nlarge_value_bytes=3000\nindex_bytes=262144";

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Neighbours share little, so the index has many leaves.
fn key(n: u64) -> Vec<u8> {
    let number = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{number:016x} a longer key {n:010}").into_bytes()
}

/// A database with many keys, and what is in it.
fn filled(options: &str) -> (World, Model) {
    let mut info = device(64 << 20);
    info.physical_block_bytes = 4096;
    let mut world = World::new(Disk::new(info, FAST, 1), options);
    world.open().expect("opens");
    let mut model = Model::new();
    for n in 0..KEYS {
        let key = key(n);
        let len = if n % 500 == 0 { 5000 } else { 100 };
        let value = bytes(n, len);
        assert!(matches!(world.put_relaxed(&key, &value), Reply::Done));
        model.insert(key, value);
    }
    world.call(Request::Sync);
    // Else an opening would write the tail of the log anew, and read what it joins that with.
    world.run_until_idle();
    world.disk.times = SLOW_READS;
    (world, model)
}

fn is_loaded(world: &World) -> bool {
    let points = world.coverage_points();
    points.contains(&CoveragePoint::LoadedBehind)
}

/// One change or question, drawn at random, and compared with the model.
fn step(world: &mut World, model: &mut Model, rng: &mut Rng, n: u64) {
    let key = key(rng.below(KEYS + 200));
    match rng.below(10) {
        0..=3 => {
            let value = bytes(n + 1_000_000, if rng.chance(3) { 4000 } else { 120 });
            assert!(matches!(world.put(&key, &value), Reply::Done));
            model.insert(key, value);
        }
        4..=5 => {
            assert!(matches!(world.delete(&key), Reply::Done));
            model.remove(&key);
        }
        6..=8 => assert_eq!(world.get(&key).as_ref(), model.get(&key)),
        _ => {
            let forward = rng.chance(50);
            let range = ScanRange {
                snapshot: 0,
                direction: match forward {
                    true => Direction::Forward,
                    false => Direction::Reverse,
                },
                start: forward.then_some(&key[..]),
                end: (!forward).then_some(&key[..]),
                limit: 20,
                max_bytes: 1 << 20,
            };
            let Reply::Entries { entries, .. } = world.call(Request::Scan(range)) else {
                panic!("a scan returns entries");
            };
            let found = entries
                .iter()
                .map(|it| (it.key.to_vec(), it.value.to_vec()));
            let expected: Vec<_> = match forward {
                true => model.range(key..).take(20).collect(),
                false => model.range(..key).rev().take(20).collect(),
            };
            let expected = expected.into_iter().map(|(k, v)| (k.clone(), v.clone()));
            assert!(found.eq(expected));
        }
    }
}

fn check_all(world: &mut World, model: &Model) {
    world.disk.times = FAST;
    for (key, value) in model {
        assert_eq!(world.get(key).as_ref(), Some(value));
    }
    for n in 0..KEYS {
        let key = key(n);
        if !model.contains_key(&key) {
            assert_eq!(world.get(&key), None);
        }
    }
    world.disk.times = SLOW_READS;
}

/// Goal: an opening is answered without a look at what the index says, all requests are right meanwhile, and in the end everything is counted exactly. Method: puts, deletes, gets
/// and scans until all is loaded, with an index that is all in memory and one that is not; then each key, and the counts beside those of another opening.
#[test]
fn clients_go_on_while_the_index_is_loaded() {
    for options in [ALL_IN_MEMORY, LITTLE_MEMORY] {
        let (mut world, mut model) = filled(options);
        world.kill();
        world.disk.power_cut();
        world.open().expect("opens");
        let reads = world.engine().stats().index_reads;
        assert!(
            reads <= 16,
            "{reads} reads: those that come next are under way"
        );
        let mut rng = Rng(7);
        let mut n = 0;
        while !is_loaded(&world) {
            step(&mut world, &mut model, &mut rng, n);
            n += 1;
        }
        assert!(n > 10, "{n} requests were served meanwhile");
        world.run_until_idle();
        assert_eq!(world.engine().stats().keys, model.len() as u64);
        check_all(&mut world, &model);
        // More of the same, with checkpoints and garbage collection.
        world.disk.times = FAST;
        for n in n..n + 3000 {
            step(&mut world, &mut model, &mut rng, n);
        }
        world.run_until_idle();
        assert_eq!(world.engine().stats().keys, model.len() as u64);
        world.kill();
        world.disk.process_crash();
        world.options = format!("{options}\nload_first_bytes=1000000000");
        world.open().expect("opens");
        assert!(!is_loaded(&world));
        assert_eq!(world.engine().stats().keys, model.len() as u64);
        check_all(&mut world, &model);
    }
}

/// Goal: nothing acknowledged is lost, however often the power goes before the index is loaded. Method: a few requests behind each of many openings, and then each key. A checkpoint
/// that an opening has to write, for the tail of the log, is among them.
#[test]
fn the_power_may_go_while_the_index_is_loaded() {
    for options in [ALL_IN_MEMORY, LITTLE_MEMORY] {
        let (mut world, mut model) = filled(options);
        let mut rng = Rng(3);
        let mut rewritten = 0;
        for round in 0..40 {
            world.kill();
            world.disk.power_cut();
            world.open().expect("opens");
            rewritten += u64::from(world.engine().stats().tail_rewritten);
            for n in 0..rng.below(40) {
                step(&mut world, &mut model, &mut rng, round * 100 + n);
            }
        }
        assert!(rewritten > 0);
        world.disk.times = FAST;
        world.run_until_idle();
        assert!(is_loaded(&world));
        assert_eq!(world.engine().stats().keys, model.len() as u64);
        check_all(&mut world, &model);
    }
}

/// Goal: a database is closed without waiting until its index is loaded. Method: a write and a close behind an opening, and another opening.
#[test]
fn a_database_is_closed_while_its_index_is_loaded() {
    let (mut world, mut model) = filled(ALL_IN_MEMORY);
    for n in 0..10 {
        world.kill();
        world.disk.process_crash();
        world.open().expect("opens");
        assert!(matches!(world.put(&key(n), b"new"), Reply::Done));
        model.insert(key(n), b"new".to_vec());
        assert!(matches!(world.call(Request::Close), Reply::Done));
        assert!(!is_loaded(&world));
        world.run_until_idle();
    }
    world.kill();
    world.disk.process_crash();
    world.open().expect("opens");
    check_all(&mut world, &model);
    assert_eq!(world.engine().stats().keys, model.len() as u64);
}

/// Goal: a snapshot sees what was there when it was made, though that was not loaded then. Method: a snapshot behind an opening, overwrites and deletes, and what it reads before and
/// after all is loaded; then nothing of it counts any more.
#[test]
fn a_snapshot_sees_what_is_not_loaded() {
    for options in [ALL_IN_MEMORY, LITTLE_MEMORY] {
        let (mut world, mut model) = filled(options);
        world.kill();
        world.disk.process_crash();
        world.open().expect("opens");
        let Reply::Snapshot(snapshot) = world.call(Request::Snapshot) else {
            panic!("there is a snapshot");
        };
        let before = model.clone();
        for n in 0..60 {
            let key = key(n * 331 % KEYS);
            if n % 3 == 0 {
                assert!(matches!(world.delete(&key), Reply::Done));
                model.remove(&key);
            } else {
                assert!(matches!(world.put(&key, b"new"), Reply::Done));
                model.insert(key, b"new".to_vec());
            }
        }
        let check = |world: &mut World| {
            for n in 0..60 {
                let key = key(n * 331 % KEYS);
                let reply = world.call(Request::Get {
                    snapshot,
                    key: &key,
                });
                let Reply::Value(value) = reply else {
                    panic!("{reply:?}");
                };
                assert_eq!(&value[..], &before[&key][..]);
                assert_eq!(world.get(&key).as_ref(), model.get(&key));
            }
        };
        check(&mut world);
        world.disk.times = FAST;
        world.run_until_idle();
        assert!(is_loaded(&world));
        check(&mut world);
        world.call(Request::Release { snapshot });
        world.run_until_idle();
        assert_eq!(world.engine().stats().keys, model.len() as u64);
        check_all(&mut world, &model);
    }
}

/// Goal: where a part of the index is damaged, nothing is written any more, and what lies elsewhere is read. Method: some damaged leaves, met behind an opening.
#[test]
fn damage_that_is_met_behind_an_opening_makes_read_only() {
    let (mut world, model) = filled(ALL_IN_MEMORY);
    world.call(Request::Close);
    world.kill();
    world.disk.process_crash();
    world.disk.damage(|image| {
        let leaves = image.chunks_mut(4096).filter(|page| {
            let (level, tree) = (page[6], page[7]);
            page.starts_with(b"KVPG") && (level, tree) == (0, 1)
        });
        // Some of them are not in force any more.
        leaves.step_by(8).for_each(|leaf| leaf[100] ^= 1);
    });
    world.open().expect("opens");
    world.run_until_idle();
    let log = world.log().iter();
    let told = log.filter(|line| line.contains("the index cannot be loaded: damage at byte"));
    assert_eq!(told.count(), 1);
    // What was written before becomes durable.
    assert!(matches!(world.call(Request::Sync), Reply::Done));
    let reply = world.put(&key(1), b"new");
    assert!(
        matches!(reply, Reply::Failed(Status::ReadOnly, _)),
        "{reply:?}"
    );
    let (mut right, mut failed) = (0, 0);
    for (key, value) in &model {
        match world.call(Request::Get { snapshot: 0, key }) {
            Reply::Value(found) => {
                assert_eq!(&found[..], &value[..]);
                right += 1;
            }
            Reply::Failed(Status::Corruption, _) => failed += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(right > KEYS / 2, "{right}");
    assert!(failed > 50, "{failed}");
}

/// Goal: a write that fits is not refused because it is not known yet what is live. Method: a full device, half of it deleted in the log, and puts behind the next opening.
#[test]
fn a_write_waits_until_it_is_known_what_is_live() {
    let mut info = device(16 << 20);
    info.physical_block_bytes = 4096;
    let options =
        "load_first_bytes=0\nsegment_bytes=65536\ncheckpoint_bytes=4194304\ninline_bytes=0";
    let mut world = World::new(Disk::new(info, FAST, 1), options);
    world.open().expect("opens");
    let mut n = 0;
    let full = loop {
        let reply = world.put_relaxed(&key(n), &bytes(n, 60));
        match reply {
            Reply::Done => n += 1,
            Reply::Failed(Status::NoSpace, _) => break n,
            other => panic!("{other:?}"),
        }
    };
    assert!(full > 20_000, "{full}");
    world.call(Request::Close);
    world.kill();
    world.disk.process_crash();
    world.open().expect("opens");
    world.run_until_idle();
    let keys: Vec<Vec<u8>> = (0..full / 2).map(key).collect();
    for keys in keys.chunks(500) {
        let deletes: Vec<_> = keys.iter().map(|key| Mutation::Delete { key }).collect();
        let reply = world.call(Request::Write {
            mutations: &deletes,
            durability: Durability::Durable,
        });
        assert!(matches!(reply, Reply::Done), "{reply:?}");
    }
    assert_eq!(world.engine().stats().checkpoints, 0);
    world.kill();
    world.disk.power_cut();
    world.disk.times = SLOW_READS;
    world.open().expect("opens");
    let before = world.engine().stats().stalls;
    for n in 0..full / 8 {
        let reply = world.put_relaxed(&key(full + n), &bytes(n, 60));
        assert!(matches!(reply, Reply::Done), "{reply:?}");
    }
    assert!(is_loaded(&world));
    assert!(world.engine().stats().stalls > before);
    for n in 0..full / 8 {
        assert_eq!(world.get(&key(full + n)), Some(bytes(n, 60)));
    }
    assert_eq!(world.get(&key(0)), None);
    assert_eq!(world.get(&key(full - 1)), Some(bytes(full - 1, 60)));
}

/// Goal: a version that only a snapshot reads, and that garbage collection has moved, does not come back. Method: a snapshot over overwritten keys, garbage collection under it, and
/// an opening that knows of the newer versions by the index alone.
#[test]
fn an_older_version_that_was_moved_stays_older() {
    let mut info = device(5 << 20);
    info.physical_block_bytes = 4096;
    let options =
        "load_first_bytes=0\nsegment_bytes=65536\ncheckpoint_bytes=262144\ninline_bytes=0";
    let mut world = World::new(Disk::new(info, FAST, 1), options);
    world.open().expect("opens");
    for n in 0..800 {
        world.put_relaxed(&key(n), &bytes(n, 1000));
    }
    world.call(Request::Snapshot);
    for n in 0..800 {
        world.put_relaxed(&key(n), b"newer");
    }
    // Others fill the device again and again.
    let mut rng = Rng(5);
    for n in 0..20_000_u64 {
        let reply = world.put_relaxed(&key(10_000 + rng.below(900)), &bytes(n, 1000));
        assert!(matches!(reply, Reply::Done), "{reply:?}");
    }
    let relocated = world.engine().stats().relocated_bytes;
    assert!(relocated > 1 << 20, "{relocated} bytes");
    for _ in 0..3 {
        world.kill();
        world.disk.process_crash();
        world.open().expect("opens");
        for n in 0..800 {
            assert_eq!(world.get(&key(n)).as_deref(), Some(&b"newer"[..]), "{n}");
        }
        for n in 0..300_u64 {
            world.put_relaxed(&key(10_000 + n % 900), &bytes(n, 1000));
        }
        world.call(Request::Write {
            mutations: &[Mutation::Delete { key: b"none" }],
            durability: Durability::Durable,
        });
    }
}
