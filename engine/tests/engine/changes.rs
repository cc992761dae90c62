//! Checkpoints that write what has changed: what they cost, and that nothing is lost by what they leave out.

use crate::common::{Case, Disk, FAST, Rng, World, bytes, device};
use kvsim_engine::{CoveragePoint, Direction, Request};

fn key(n: u64) -> Vec<u8> {
    format!("a key {n:010}").into_bytes()
}

/// Writes relaxed, until so many checkpoints more were published. Returns the bytes that they took on average.
fn bytes_per_checkpoint(
    world: &mut World,
    checkpoints: u64,
    mut write: impl FnMut(&mut World),
) -> u64 {
    let stats = |world: &World| world.engine().stats();
    // The one under way is of another time, and the next one has what has changed since that began.
    let first = stats(world).checkpoints + 2;
    while stats(world).checkpoints < first {
        write(world);
    }
    let before = stats(world).checkpoint_bytes;
    while stats(world).checkpoints < first + checkpoints {
        write(world);
    }
    (stats(world).checkpoint_bytes - before) / checkpoints
}

/// Goal: a checkpoint costs what has changed, not what there is. Method: many keys in several partitions, then writes to one in a hundred of them, side by
/// side or far apart; the checkpoints in between, and what is there after a power cut.
#[test]
fn a_checkpoint_costs_what_has_changed() {
    const KEYS: u64 = 20_000;
    for step in [1, 97] {
        let mut info = device(64 << 20);
        info.physical_block_bytes = 512;
        let mut world = World::new(
            Disk::new(info, FAST, 1),
            "segment_bytes=262144\ncheckpoint_bytes=262144\ninline_bytes=192",
        );
        world.open().expect("opens");
        for n in 0..KEYS {
            world.put_relaxed(&key(n), &bytes(n, 100));
        }
        let whole = KEYS * 110;
        let mut rng = Rng(7);
        let mut versions = std::collections::BTreeMap::new();
        let mut n = KEYS;
        let cost = bytes_per_checkpoint(&mut world, 12, |world| {
            let changed = rng.below(KEYS / 100) * step;
            n += 1;
            versions.insert(changed, n);
            world.put_relaxed(&key(changed), &bytes(n, 100));
        });
        // Two hundred entries, the list of partitions and the table of segments; a partition is written anew now and then.
        println!("{cost} bytes a checkpoint, of {whole}");
        assert!(cost < whole / 30, "{cost} bytes a checkpoint, of {whole}");
        world.call(Request::Sync);
        world.kill();
        world.disk.power_cut();
        world.open().expect("opens");
        for n in 0..KEYS {
            let version = versions.get(&n).copied().unwrap_or(n);
            assert_eq!(world.get(&key(n)), Some(bytes(version, 100)), "key {n}");
        }
    }
}

/// Goal: keys that come behind all others are written once, however small a checkpoint's part of them is beside the index. Method: many keys in order, with more
/// and with fewer entries in memory; now and then an older key is overwritten, deleted or comes back. Most of the keys come after another opening. Last a power cut.
#[test]
fn keys_behind_all_others_are_written_once() {
    const KEYS: u64 = 60_000;
    for index_bytes in [512 << 10, 2 << 20] {
        let mut info = device(64 << 20);
        info.physical_block_bytes = 512;
        let options = format!(
            "segment_bytes=65536\ncheckpoint_bytes=524288\ninline_bytes=192\nindex_bytes={index_bytes}"
        );
        let mut world = World::new(Disk::new(info, FAST, 1), &options);
        world.open().expect("opens");
        let mut versions = std::collections::BTreeMap::new();
        let mut rng = Rng(5);
        let mut written = 0;
        for n in 0..KEYS {
            world.put_relaxed(&key(n), &bytes(n, 100));
            versions.insert(n, Some(n));
            if n % 500 == 499 {
                let older = rng.below(n);
                let version = (!older.is_multiple_of(3)).then_some(n);
                match version {
                    Some(n) => world.put_relaxed(&key(older), &bytes(n, 100)),
                    None => world.delete(&key(older)),
                };
                versions.insert(older, version);
            }
            if n == KEYS / 8 {
                world.call(Request::Close);
                // A growth may still be under way.
                world.run_until_idle();
                written += world.engine().stats().checkpoint_bytes;
                world.kill();
                world.open().expect("opens");
                world.run_until_idle();
            }
        }
        world.call(Request::Sync);
        world.run_until_idle();
        written += world.engine().stats().checkpoint_bytes;
        let points = world.coverage_points().iter();
        let appended = points.filter(|it| **it == CoveragePoint::CheckpointAppended);
        let appended = appended.count();
        // An entry has its key, of which the most is that of the one before, its value and a few bytes.
        let once = KEYS * 110;
        println!("{written} bytes of checkpoints, {once} once, {appended} times");
        assert!(appended >= 4, "{appended} times");
        assert!(written < once * 3 / 2, "{written} bytes in place of {once}");
        world.kill();
        world.disk.power_cut();
        world.open().expect("opens");
        world.run_until_idle();
        let there = versions.iter().filter_map(|(n, version)| {
            let value = bytes((*version)?, 100);
            Some((key(*n), value))
        });
        let found = world.dump(Direction::Forward, 0);
        assert!(found.into_iter().eq(there), "what is there is as it was");
        let there = versions.values().flatten().count() as u64;
        let counted = world.engine().stats().keys;
        // Where the index is loaded by its filters, what overwrites and deletes replaced stays counted.
        assert!(
            counted.abs_diff(there) < there / 100,
            "{counted} of {there} keys"
        );
    }
}

/// Goal: what is deleted takes no room of the index in the end, and stays deleted. Method: many keys, all but a few deleted in their order, in another order, or from both
/// ends; then a few keys are overwritten for some checkpoints. The device has about as many free segments as one that never held the others.
#[test]
fn deleted_keys_leave_the_index() {
    const KEYS: u64 = 6_000;
    let is_kept = |n: u64| n.is_multiple_of(1_000);
    let free_after = |order: Option<u64>| {
        let mut info = device(16 << 20);
        info.physical_block_bytes = 512;
        let options = "segment_bytes=65536\ncheckpoint_bytes=65536\ninline_bytes=192";
        let mut world = World::new(Disk::new(info, FAST, 1), options);
        world.open().expect("opens");
        for n in (0..KEYS).filter(|n| is_kept(*n) || order.is_some()) {
            world.put_relaxed(&key(n), &bytes(n, 150));
        }
        if let Some(order) = order {
            for n in (0..KEYS).map(|n| n * order % KEYS).filter(|n| !is_kept(*n)) {
                world.delete(&key(n));
            }
        }
        let mut n = 0;
        bytes_per_checkpoint(&mut world, 4, |world| {
            n = (n + 1_000) % KEYS;
            world.put_relaxed(&key(n), &bytes(n, 150));
        });
        world.call(Request::Sync);
        world.run_until_idle();
        let free = world.engine().stats().free_segments;
        world.kill();
        world.disk.power_cut();
        world.open().expect("opens");
        let left = world.dump(Direction::Forward, 0);
        assert_eq!(left.len() as u64, KEYS.div_ceil(1_000));
        free
    };
    let usual = free_after(None);
    for order in [1, KEYS - 1, 2_003] {
        let free = free_after(Some(order));
        assert!(
            free + 3 >= usual,
            "{free} segments are free, and {usual} usually"
        );
    }
}

#[derive(Debug, Default)]
struct Seen {
    written: u64,
    read: u64,
    collected: u64,
    relocated: u64,
}

fn run(seed: u64, options: &str, large: bool) -> Seen {
    let mut rng = Rng(seed);
    let mut info = device(if large { 24 << 20 } else { 6 << 20 });
    info.volatile_cache = rng.chance(60);
    info.write_through = rng.chance(50);
    info.physical_block_bytes = if rng.chance(70) { 512 } else { 4096 };
    let disk = Disk::new(info, FAST, rng.next());
    let mut case = Case::new(rng.next(), disk, options, 500, large);
    let mut seen = Seen::default();
    let reached = |case: &Case, point| {
        let points = case.world.coverage_points().iter();
        points.filter(|it| **it == point).count() as u64
    };
    case.recover();
    case.fill();
    for _ in 0..8 {
        let clients = 1 + case.rng.below(6) as usize;
        let steps = 100 + case.rng.below(4_000);
        case.work(steps, clients);
        case.check_snapshots();
        seen.written += reached(&case, CoveragePoint::CheckpointChanges);
        let stats = case.world.engine().stats();
        seen.collected += stats.collected_segments;
        seen.relocated += stats.relocated_bytes;
        case.crash();
        case.recover();
        seen.read += reached(&case, CoveragePoint::CheckpointChangesRead);
    }
    seen
}

/// Goal: nothing acknowledged is lost where checkpoints leave out what has not changed. Method: the brute force of `crash.rs` on databases with many keys, of which
/// few change between checkpoints, with one partition and with several.
#[test]
fn what_checkpoints_leave_out_comes_back() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse().ok());
    let seeds = number("KVSIM_ENGINE_SEEDS").unwrap_or(24);
    let first: u64 = number("KVSIM_ENGINE_FIRST").unwrap_or(0);
    let mut sum = Seen::default();
    for seed in first..first + seeds {
        let options = [
            "inline_bytes=1024\ncheckpoint_bytes=32768\nsegment_bytes=65536",
            "inline_bytes=0\ncheckpoint_bytes=16384\nsegment_bytes=32768",
            "checkpoint_bytes=32768\nsegment_bytes=65536\nlarge_value_bytes=2000",
        ][seed as usize % 3];
        let result = std::panic::catch_unwind(|| run(seed, options, seed % 6 == 5));
        match result {
            Ok(seen) => {
                sum.written += seen.written;
                sum.read += seen.read;
                sum.collected += seen.collected;
                sum.relocated += seen.relocated;
            }
            Err(panic) => {
                eprintln!("seed {seed}, options {options:?}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{sum:?}");
    assert!(
        sum.written > seeds && sum.read > seeds,
        "changes were written and read: {sum:?}"
    );
    assert!(
        seeds < 24 || sum.collected > 0 && sum.relocated > 0,
        "{sum:?}"
    );
}
