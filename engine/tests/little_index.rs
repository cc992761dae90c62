//! An index that does not fit into the memory that it may take: entries leave memory, and are read when somebody asks for them.
#![allow(clippy::cast_possible_truncation, reason = "test sizes are small")]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a failing seed has to be told"
)]

mod common;

use std::collections::BTreeMap;

use common::{Case, Disk, FAST, Rng, World, bytes, device};
use kvsim_engine::{CoveragePoint, Direction, Reply, Request, ScanRange};

const POINTS: [CoveragePoint; 10] = [
    CoveragePoint::EntriesForgotten,
    CoveragePoint::EntryRead,
    CoveragePoint::EntryNotInRun,
    CoveragePoint::EntryReadAgain,
    CoveragePoint::WriteAwaitedEntry,
    CoveragePoint::RangeRead,
    CoveragePoint::PartitionRead,
    CoveragePoint::PartitionMerged,
    CoveragePoint::CollectionAwaitedEntries,
    CoveragePoint::ReplayAwaitedEntries,
];

fn run(seed: u64, options: &str, large: bool, seen: &mut BTreeMap<CoveragePoint, u64>) {
    let mut rng = Rng(seed);
    let mut info = device(if large { 24 << 20 } else { 6 << 20 });
    info.volatile_cache = rng.chance(60);
    info.write_through = rng.chance(50);
    info.physical_block_bytes = if rng.chance(70) { 512 } else { 4096 };
    let disk = Disk::new(info, FAST, rng.next());
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
        case.crash();
        case.recover();
    }
}

/// Goal: nothing acknowledged is lost, and every read is right, where most entries of the index are not in memory. Method: the brute force of `crash.rs` on databases whose
/// entries take several times the memory that they may have, with one partition and with several.
#[test]
fn what_leaves_memory_comes_back() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse().ok());
    let seeds = number("KVSIM_ENGINE_SEEDS").unwrap_or(24);
    let first: u64 = number("KVSIM_ENGINE_FIRST").unwrap_or(0);
    let mut seen = BTreeMap::new();
    for seed in first..first + seeds {
        let options = [
            "inline_bytes=1024\ncheckpoint_bytes=32768\nsegment_bytes=65536\nindex_bytes=40000",
            "inline_bytes=0\ncheckpoint_bytes=16384\nsegment_bytes=32768\nindex_bytes=20000",
            "checkpoint_bytes=32768\nsegment_bytes=65536\nlarge_value_bytes=2000\nindex_bytes=4000",
        ][seed as usize % 3];
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
            // What a scan has read answers a driver that asks for the same keys.
            let mut keys = Vec::new();
            let range = ScanRange {
                snapshot: 0,
                direction,
                start: Some(&from),
                end: Some(&end),
                limit: 150,
                max_bytes: u32::MAX,
            };
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
