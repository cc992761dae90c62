//! An index that does not fit into the memory that it may take: entries leave memory, and are read when somebody asks for them.

use std::collections::BTreeMap;

use crate::common::world::Joined;
use crate::common::{Case, Disk, FAST, Rng, Times, World, bytes, device};
use kvsim_engine::{
    CoveragePoint, Direction, Durability, Mutation, Reply, Request, ScanRange, Status,
};

const POINTS: [CoveragePoint; 15] = [
    CoveragePoint::EntriesForgotten,
    CoveragePoint::EntryRead,
    CoveragePoint::EntryNotInRun,
    CoveragePoint::EntryReadAgain,
    CoveragePoint::WriteAwaitedEntry,
    CoveragePoint::WrittenBlindly,
    CoveragePoint::BlindWritesSubtracted,
    CoveragePoint::BlindWritesOutlivedRuns,
    CoveragePoint::RangeRead,
    CoveragePoint::ScanJoined,
    CoveragePoint::LeafKept,
    CoveragePoint::PartitionRead,
    CoveragePoint::PartitionMerged,
    CoveragePoint::CollectionAwaitedEntries,
    CoveragePoint::LoadedBehind,
];

/// Reads that take longer than most checkpoints.
const SLOW_READS: Times = Times {
    read: 1_000_000,
    spread: 20,
    ..FAST
};

fn run(seed: u64, options: &str, large: bool, seen: &mut BTreeMap<CoveragePoint, u64>) {
    let mut rng = Rng(seed);
    let mut info = device(if large { 24 << 20 } else { 6 << 20 });
    info.volatile_cache = rng.chance(60);
    info.write_through = rng.chance(50);
    info.physical_block_bytes = if rng.chance(70) { 512 } else { 4096 };
    let times = if seed % 4 == 3 { SLOW_READS } else { FAST };
    let disk = Disk::new(info, times, rng.next());
    let mut case = Case::new(rng.next(), disk, options, 500, large);
    case.recover();
    case.fill();
    for _ in 0..8 {
        let clients = 1 + case.rng.below(6) as usize;
        let steps = 100 + case.rng.below(4_000);
        case.work(steps, clients);
        case.check_snapshots();
        for point in case.world.coverage_points() {
            *seen.entry(*point).or_default() += 1;
        }
        let log = case.world.log();
        let damaged = log.iter().any(|line| line.contains("kept as it is"));
        assert!(!damaged, "nothing is damaged: {log:#?}");
        case.crash();
        case.recover();
    }
}

/// Goal: nothing acknowledged is lost, and every read is right, where most entries of the index are not in memory. Method: the brute force of `crash.rs` on databases whose
/// entries take several times the memory that they may have, with one partition and with several.
#[test]
fn what_leaves_memory_comes_back() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse().ok());
    let seeds = number("KVSIM_ENGINE_SEEDS").unwrap_or(64);
    let first: u64 = number("KVSIM_ENGINE_FIRST").unwrap_or(0);
    let mut seen = BTreeMap::new();
    for seed in first..first + seeds {
        let options = [
            "inline_bytes=1024\ncheckpoint_bytes=32768\nsegment_bytes=65536\nindex_bytes=40000",
            "inline_bytes=0\ncheckpoint_bytes=16384\nsegment_bytes=32768\nindex_bytes=20000",
            "checkpoint_bytes=32768\nsegment_bytes=65536\nlarge_value_bytes=2000\nindex_bytes=4000",
        ][seed as usize % 3];
        let first = ["load_first_bytes=0", ""][seed as usize / 3 % 2];
        let options = &format!("{options}\n{first}");
        let work = || run(seed, options, seed % 6 == 5, &mut seen);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        if let Err(panic) = result {
            eprintln!("seed {seed}, options {options:?}");
            std::panic::resume_unwind(panic);
        }
    }
    let seen = POINTS.map(|point| (point, seen.get(&point).copied().unwrap_or(0)));
    println!("{seen:?}");
    for (point, times) in seen {
        assert!(seeds < 24 || times > 0, "{point:?} was never reached");
    }
}

/// Goal: a leaf that a scan outside the engine read wrongly is read again, and not kept as it came. Method: each read of such a scan brings zeroes, once; then the same scan by a request.
#[test]
fn a_misread_leaf_is_not_kept() {
    let mut world = World::new(Disk::new(device(16 << 20), FAST, 1), "index_bytes=131072");
    world.open().expect("opens");
    for n in 0..5_000 {
        world.put_relaxed(&key(n), &bytes(n, 100));
    }
    world.call(Request::Sync);
    let (from, end) = (key(1_000), key(1_050));
    let range = ScanRange {
        snapshot: 0,
        direction: Direction::Forward,
        start: Some(&from),
        end: Some(&end),
        limit: 100,
        max_bytes: 1 << 20,
    };
    world.disk.older = vec![0; 16 << 20];
    world.disk.misreads = (0..16 << 20).step_by(512).map(|at| (at, 1)).collect();
    let id = world.begin_join(&range).expect("it has to be read");
    assert!(matches!(world.go_on(id), Joined::Dropped));
    world.disk.misreads.clear();
    let reply = world.call(Request::Scan(range));
    let Reply::Entries { entries, more } = reply else {
        panic!("{reply:?}");
    };
    let found: Vec<Vec<u8>> = entries.iter().map(|entry| entry.key.to_vec()).collect();
    assert_eq!(found, (1_000..1_050).map(key).collect::<Vec<_>>());
    assert!(!more);
}

/// Goal: gets outside the engine keep the leaves of values that lie elsewhere, and the entries too where most leaves find no room; neither takes more than it may, though no request comes.
/// Method: keys whose leaves find room, each got twice, of which the second reads no leaf; then far more keys, got at random.
#[test]
fn gets_outside_keep_leaves_and_stay_within_their_memory() {
    const BOUND: u64 = 512 << 10;
    let get = |world: &mut World, n: u64, keys: u64| {
        let id = world.begin_find(&key(n * 7919 % keys));
        match world.end_find(id.expect("it has to be read")) {
            Some(Reply::Value(value)) => assert_eq!(&value[..], bytes(n, 100)),
            other => panic!("{other:?}"),
        }
    };
    let keys = 6_000;
    let mut world = world_of_forgotten(keys, BOUND);
    let before = world.reads_here;
    (0..keys).for_each(|n| get(&mut world, n, keys));
    let first = world.reads_here - before;
    (0..keys).for_each(|n| get(&mut world, n, keys));
    let second = world.reads_here - before - first;
    println!("{first} reads, then {second}");
    // A filter may lead to a leaf that has nothing which counts.
    assert!(first < keys + keys / 10 && second < keys + keys / 100);

    let keys = 60_000;
    let mut world = world_of_forgotten(keys, BOUND);
    let mut rng = Rng(1);
    let mut most = 0;
    for _ in 0..20_000 {
        let n = rng.below(keys);
        get(&mut world, n, keys);
        most = most.max(world.engine().stats().index_memory_bytes);
    }
    println!("{most} bytes of entries");
    assert!(
        (BOUND / 4..=BOUND).contains(&most),
        "{most} bytes of entries"
    );
}

/// Goal: a scan by a request shows the state of its arrival, however far it has to look; one outside the engine, which takes down no more than it probably needs, begins anew
/// where it has to look further, and shows that moment. Method: many keys are removed, so that the first leaves have nothing to show; while a scan over them is under way, a key behind them is removed.
#[test]
fn a_scan_shows_its_arrival_or_begins_anew() {
    const REMOVED: u64 = 2_000;
    for outside in [false, true] {
        let mut world = world_of_forgotten(15_000, 262_144);
        for n in 0..REMOVED {
            world.delete(&key(n));
        }
        let range = ScanRange {
            snapshot: 0,
            direction: Direction::Forward,
            start: None,
            end: None,
            limit: 3,
            max_bytes: 1 << 20,
        };
        let scan = match outside {
            true => world.begin_join(&range).expect("it has to be read"),
            false => world.request(Request::Scan(range)),
        };
        let next = key(REMOVED + 1);
        world.request(Request::Write {
            mutations: &[Mutation::Delete { key: &next }],
            durability: Durability::Relaxed,
        });
        let mut ended = None;
        while world.next_join() == Some(scan) {
            match world.go_on(scan) {
                Joined::Open => {}
                Joined::Reply(reply) => ended = Some(reply),
                Joined::Dropped => panic!("nothing of it is damaged"),
            }
        }
        let reply = ended.unwrap_or_else(|| world.wait(scan));
        let Reply::Entries { entries, more } = reply else {
            panic!("{reply:?}");
        };
        let found: Vec<Vec<u8>> = entries.iter().map(|entry| entry.key.to_vec()).collect();
        let shown = match outside {
            true => [0, 2, 3],
            false => [0, 1, 2],
        };
        assert_eq!(found, shown.map(|n| key(REMOVED + n)), "outside: {outside}");
        assert!(more);
    }
}

fn key(n: u64) -> Vec<u8> {
    format!("a key {n:010}").into_bytes()
}

/// Goal: entries take no more memory than they may, however many there are, and a key costs one read. Method: entries for ten times the memory, put, read and
/// scanned both ways, before and after another opening.
#[test]
fn entries_stay_within_their_memory() {
    const KEYS: u64 = 30_000;
    const BOUND: u64 = 512 << 10;
    let mut info = device(64 << 20);
    info.physical_block_bytes = 4096;
    let options = format!(
        "segment_bytes=262144\ncheckpoint_bytes=262144\ninline_bytes=0\nindex_bytes={BOUND}"
    );
    let mut world = World::new(Disk::new(info, FAST, 1), &options);
    world.open().expect("opens");
    let mut most = 0;
    for n in 0..KEYS {
        world.put_relaxed(&key(n * 7919 % KEYS), &bytes(n, 100));
        most = most.max(world.engine().stats().index_memory_bytes);
    }
    world.call(Request::Sync);
    assert_eq!(world.engine().stats().keys, KEYS);
    // A partition that is written anew is in memory as a whole, and so is what has changed.
    assert!(most < 2 * BOUND, "{most} bytes");
    for round in 0..2 {
        let before = world.engine().stats();
        let mut rng = Rng(round);
        for _ in 0..1000 {
            let n = rng.below(KEYS);
            assert_eq!(world.get(&key(n * 7919 % KEYS)), Some(bytes(n, 100)));
            assert_eq!(world.get(&key(KEYS + n)), None);
        }
        let reads = world.engine().stats().index_reads - before.index_reads;
        println!("{reads} reads for 1000 keys that are there and as many that are not");
        assert!((700..1_200).contains(&reads), "{reads} reads");
        for direction in [Direction::Forward, Direction::Reverse] {
            let start = rng.below(KEYS / 2);
            let (from, end) = (key(start), key(start + 200));
            let reply = world.call(Request::Scan(ScanRange {
                snapshot: 0,
                direction,
                start: Some(&from),
                end: Some(&end),
                limit: 150,
                max_bytes: 1 << 20,
            }));
            let Reply::Entries { entries, more } = reply else {
                panic!("{reply:?}");
            };
            assert!(more);
            let range = ScanRange {
                snapshot: 0,
                direction,
                start: Some(&from),
                end: Some(&end),
                limit: 150,
                max_bytes: u32::MAX,
            };
            // A scan leaves nothing in memory. A driver that needs the keys has them read.
            assert_eq!(world.engine().scan_keys(&range, |_| {}), None);
            assert!(matches!(world.call(Request::Know(range)), Reply::Done));
            let mut keys = Vec::new();
            let known = world
                .engine()
                .scan_keys(&range, |key| keys.push(key.to_vec()));
            assert_eq!(known, Some(true));
            let all = ScanRange {
                end: None,
                start: None,
                limit: u32::MAX,
                ..range
            };
            assert_eq!(world.engine().scan_keys(&all, |_| {}), None);
            let mut expected: Vec<Vec<u8>> = (start..start + 200).map(key).collect();
            if direction == Direction::Reverse {
                expected.reverse();
            }
            let found: Vec<Vec<u8>> = entries.iter().map(|entry| entry.key.to_vec()).collect();
            assert_eq!(found, expected[..150]);
            assert_eq!(keys, found);
        }
        assert!(world.engine().stats().index_memory_bytes < 2 * BOUND);
        world.kill();
        world.disk.power_cut();
        world.open().expect("opens");
        assert_eq!(world.engine().stats().keys, KEYS);
        assert!(world.engine().stats().index_memory_bytes < 2 * BOUND);
    }
}

/// A database whose entries take several times the memory that they may, all of them in runs, and nothing under way.
fn world_of_forgotten(keys: u64, index_bytes: u64) -> World {
    let mut info = device(64 << 20);
    info.physical_block_bytes = 4096;
    let options = format!(
        "segment_bytes=262144\ncheckpoint_bytes=262144\ninline_bytes=0\nindex_bytes={index_bytes}"
    );
    let mut world = World::new(Disk::new(info, FAST, 1), &options);
    world.open().expect("opens");
    for n in 0..keys {
        world.put_relaxed(&key(n * 7919 % keys), &bytes(n, 100));
    }
    world.call(Request::Close);
    world.kill();
    world.open().expect("opens");
    world.run_until_idle();
    world
}

/// Goal: a leaf that a scan has read is not read again for the next one, and leaves take no more of memory than they may. Method: the same scan twice; then scans over all
/// keys, whose leaves do not fit, and the first one again.
#[test]
fn scans_keep_a_few_leaves() {
    const KEYS: u64 = 15_000;
    let mut world = world_of_forgotten(KEYS, 262_144);
    let scan = |world: &mut World, from: u64| {
        let before = world.engine().stats().index_reads;
        let (start, end) = (key(from), key(from + 20));
        let reply = world.call(Request::Scan(ScanRange {
            snapshot: 0,
            direction: Direction::Forward,
            start: Some(&start),
            end: Some(&end),
            limit: 100,
            max_bytes: 1 << 20,
        }));
        let Reply::Entries { entries, .. } = reply else {
            panic!("{reply:?}");
        };
        let found: Vec<Vec<u8>> = entries.iter().map(|entry| entry.key.to_vec()).collect();
        assert_eq!(found, (from..from + 20).map(key).collect::<Vec<_>>());
        world.engine().stats().index_reads - before
    };
    for from in [1000, 3000] {
        assert!(scan(&mut world, from) > 0, "nothing is kept of it yet");
        assert_eq!(scan(&mut world, from), 0, "its leaves are kept");
        let all = (0..KEYS / 20).map(|n| scan(&mut world, n * 20));
        assert!(all.sum::<u64>() > 20, "most leaves were read anew");
        assert!(scan(&mut world, from) > 0, "others have taken their room");
    }
}

/// Goal: a write does not wait for the entry that it replaces, and soon everything is counted exactly. Method: overwrites, deletes and new keys, handed in at once; a part of
/// them behind gets of the same keys, or under a snapshot.
#[test]
fn what_was_replaced_is_subtracted() {
    const KEYS: u64 = 5000;
    let mut world = world_of_forgotten(KEYS, 65_536);
    assert_eq!(world.engine().stats().keys, KEYS);
    let mut ids = Vec::new();
    for n in 0..600 {
        let (key, value) = (key(n * 7 % KEYS), bytes(n + 1_000_000, 120));
        let put = [Mutation::Put {
            key: &key,
            value: &value,
        }];
        let delete = [Mutation::Delete { key: &key }];
        let mutations: &[Mutation<'_>] = if n % 3 == 0 { &delete } else { &put };
        ids.push(world.request(Request::Write {
            mutations,
            durability: Durability::Relaxed,
        }));
    }
    for id in ids {
        assert!(matches!(world.wait(id), Reply::Done));
    }
    assert!(
        world
            .coverage_points()
            .contains(&CoveragePoint::WrittenBlindly)
    );
    world.run_until_idle();
    assert_eq!(world.engine().stats().keys, KEYS - 200);
    for n in 0..600 {
        let expected = (n % 3 != 0).then(|| bytes(n + 1_000_000, 120));
        assert_eq!(world.get(&key(n * 7 % KEYS)), expected);
    }
    // More at once than may be written blindly.
    let keys: Vec<Vec<u8>> = (600..3000).map(|n| key(n * 7 % KEYS)).collect();
    let deletes: Vec<Mutation<'_>> = keys.iter().map(|key| Mutation::Delete { key }).collect();
    let reply = world.call(Request::Write {
        mutations: &deletes,
        durability: Durability::Durable,
    });
    assert!(matches!(reply, Reply::Done), "{reply:?}");
    world.run_until_idle();
    let left = KEYS - 200 - keys.len() as u64;
    assert_eq!(world.engine().stats().keys, left);
    // Who came before sees what was there before.
    let key = key(3000 * 7 % KEYS);
    let before = world.get(&key).expect("it is there");
    world.kill();
    world.open().expect("opens");
    world.run_until_idle();
    let get = world.request(Request::Get {
        snapshot: 0,
        key: &key,
    });
    world.put_relaxed(&key, b"after");
    let Reply::Value(value) = world.wait(get) else {
        panic!("the key is there");
    };
    assert_eq!(value[..], before[..]);
    assert_eq!(world.get(&key).as_deref(), Some(&b"after"[..]));
}

/// Goal: a write of a key whose older entry cannot be read takes effect, and the log says what is lost. Method: every leaf of the index is damaged.
#[test]
fn a_damaged_entry_can_be_overwritten() {
    let mut world = world_of_forgotten(5000, 65_536);
    world.disk.damage(|image| {
        let leaves = image.chunks_mut(4096).filter(|page| {
            let (level, tree) = (page[6], page[7]);
            page.starts_with(b"KVPG") && (level, tree) == (0, 1)
        });
        leaves.for_each(|page| page[100] ^= 1);
    });
    for n in 0..50 {
        assert!(matches!(
            world.put_relaxed(&key(n * 97), b"new"),
            Reply::Done
        ));
    }
    world.run_until_idle();
    for n in 0..50 {
        assert_eq!(world.get(&key(n * 97)).as_deref(), Some(&b"new"[..]), "{n}");
    }
    let lost = world.log().iter();
    let lost = lost.filter(|line| line.contains("the space of an overwritten value is lost"));
    assert!(lost.count() > 40);
}

/// Goal: on a full device a write is refused, also one of a key that a run names and that is not there: nobody waits for ever. Method: a device is filled, some keys are
/// deleted, and the room is taken by others; then the deleted keys are written, alone and together with one that is there.
#[test]
fn a_full_device_refuses_keys_that_were_deleted() {
    let mut info = device(3 << 20);
    info.physical_block_bytes = 512;
    let options = "segment_bytes=32768\ncheckpoint_bytes=16384\ninline_bytes=0\nindex_bytes=1";
    let mut world = World::new(Disk::new(info, FAST, 1), options);
    world.open().expect("opens");
    let write = |world: &mut World, keys: &[&[u8]], value: &[u8]| {
        let puts = keys.iter().map(|key| Mutation::Put { key, value });
        let puts: Vec<Mutation<'_>> = puts.collect();
        let id = world.request(Request::Write {
            mutations: &puts,
            durability: Durability::Durable,
        });
        for _ in 0..20_000 {
            if let Some(Some((answered, reply))) = world.step()
                && answered == id
            {
                return reply;
            }
        }
        panic!("no answer");
    };
    let is_full = |reply: &Reply| matches!(reply, Reply::Failed(Status::NoSpace, _));
    let mut there = 0;
    while !is_full(&write(&mut world, &[&key(there)], &bytes(there, 900))) {
        there += 1;
    }
    let mut refused = 0;
    for n in 0..there {
        world.delete(&key(n));
        write(&mut world, &[&key(10_000 + n)], &bytes(n, 900));
        for keys in [&[&key(n)[..]][..], &[&key(n), &key(there)]] {
            refused += u64::from(is_full(&write(&mut world, keys, &bytes(n, 900))));
        }
    }
    assert!(refused > there, "{refused} of {}", 2 * there);
}

/// Goal: a checkpoint that fails leaves no segment in use that nothing refers to, and the next one does not begin at once. Method: every leaf of the index is damaged, so each
/// checkpoint that merges some fails; free segments are counted while small writes go on.
#[test]
fn checkpoints_that_fail_take_no_room() {
    let mut world = world_of_forgotten(5000, 65_536);
    world.disk.damage(|image| {
        let leaves = image.chunks_mut(4096).filter(|page| {
            let (level, tree) = (page[6], page[7]);
            page.starts_with(b"KVPG") && (level, tree) == (0, 1)
        });
        leaves.for_each(|page| page[100] ^= 1);
    });
    let failed = |world: &World| {
        let log = world.log().iter();
        log.filter(|line| line.contains("a checkpoint failed"))
            .count()
    };
    let mut n = 0;
    while failed(&world) < 3 {
        world.put_relaxed(&key(n * 97 % 5000), &bytes(n, 100));
        n += 1;
        assert!(n < 100_000, "no checkpoint has failed");
    }
    let (before, failed_before) = (world.engine().stats().free_segments, failed(&world));
    let began = world.now;
    for more in 0.. {
        world.put_relaxed(&key(more * 97 % 5000), b"new");
        world.now += 200_000;
        assert!(more < 100_000, "checkpoints are tried no more");
        if failed(&world) > failed_before + 50 {
            break;
        }
    }
    world.run_until_idle();
    let times = failed(&world) - failed_before;
    let pauses_ns = world.now - began;
    assert!(
        pauses_ns / times as u64 >= 10_000_000,
        "{times} in {pauses_ns} ns"
    );
    let after = world.engine().stats().free_segments;
    assert!(
        after + 5 >= before,
        "{before} free before, {after} after {times}"
    );
}

/// Goal: what many blind writes replace is read together, with far fewer reads than there are keys, and everything is counted exactly soon after. Method: overwrites of keys all
/// over a database whose entries are not in memory, then time in which nobody calls.
#[test]
fn what_blind_writes_replace_is_read_together() {
    const KEYS: u64 = 6_000;
    const WRITES: u64 = 512;
    let mut world = world_of_forgotten(KEYS, 65_536);
    let before = world.engine().stats();
    for n in 0..WRITES {
        world.put_relaxed(&key(n * 4001 % KEYS), &bytes(n, 90));
    }
    world.run_until_idle();
    let after = world.engine().stats();
    assert_eq!(after.keys, KEYS);
    assert!(
        world
            .coverage_points()
            .contains(&CoveragePoint::BlindWritesSubtracted)
    );
    let reads = after.index_reads - before.index_reads;
    println!("{reads} reads for {WRITES} blind writes");
    assert!(reads < WRITES / 2, "{reads} reads");
    for n in 0..WRITES {
        assert_eq!(
            world.get(&key(n * 4001 % KEYS)),
            Some(bytes(n, 90)),
            "write {n}"
        );
    }
}
