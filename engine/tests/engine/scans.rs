//! Scans whose values lie on the device.

use crate::common::{World, bytes, world};
use kvsim_engine::{Direction, Reply, Request, ScanRange};

const KEYS: u64 = 1_000;
const VALUE_BYTES: usize = 1_500;

fn key(n: u64) -> Vec<u8> {
    format!("{n:08}").into_bytes()
}

/// Keys in order with values in the log, none of which is in memory.
fn filed() -> World {
    let mut world = world(16 << 20, "inline_bytes=0\ncache_bytes=0");
    world.open().expect("opens");
    for n in 0..KEYS {
        world.put_relaxed(&key(n), &bytes(n, VALUE_BYTES));
    }
    world.call(Request::Sync);
    world
}

fn scan(world: &mut World, from: u64, entries: u64, direction: Direction) -> (u64, Reply) {
    let before = world.disk.reads;
    let (start, end) = (key(from), key(from + entries));
    let reply = world.call(Request::Scan(ScanRange {
        snapshot: 0,
        direction,
        start: Some(&start),
        end: Some(&end),
        limit: 1_000,
        max_bytes: 1 << 20,
    }));
    (world.disk.reads - before, reply)
}

fn check(
    reply: Reply,
    from: u64,
    entries: u64,
    direction: Direction,
    written: impl Fn(u64) -> u64,
) {
    let Reply::Entries { entries: found, .. } = reply else {
        panic!("{reply:?}");
    };
    let mut keys: Vec<u64> = (from..from + entries).collect();
    if direction == Direction::Reverse {
        keys.reverse();
    }
    assert_eq!(found.len(), keys.len());
    for (entry, n) in found.iter().zip(keys) {
        assert_eq!(entry.key[..], key(n));
        assert_eq!(entry.value[..], bytes(written(n), VALUE_BYTES));
    }
}

/// Goal: values that lie near each other are read together, however many a scan wants, and those between them that have moved away are read beside it.
/// Method: keys that were written in order; then each fifth of them is overwritten; scans both ways, whose reads are counted.
#[test]
fn values_near_each_other_are_read_together() {
    let mut world = filed();
    for direction in [Direction::Forward, Direction::Reverse] {
        let (reads, reply) = scan(&mut world, 100, 50, direction);
        check(reply, 100, 50, direction, |n| n);
        assert!(reads <= 2, "{reads} reads of 50 values");
        let (reads, reply) = scan(&mut world, 200, 600, direction);
        check(reply, 200, 600, direction, |n| n);
        assert!(reads <= 24, "{reads} reads of 600 values");
    }
    for n in (0..KEYS).step_by(5) {
        world.put_relaxed(&key(n), &bytes(KEYS + n, VALUE_BYTES));
    }
    world.call(Request::Sync);
    let written = |n| if n % 5 == 0 { KEYS + n } else { n };
    for direction in [Direction::Forward, Direction::Reverse] {
        let (reads, reply) = scan(&mut world, 100, 50, direction);
        check(reply, 100, 50, direction, written);
        assert!(reads <= 3, "{reads} reads of 50 values");
    }
}

/// Goal: what cannot be read between values costs none of them. Method: a sector of each value that was overwritten cannot be read.
#[test]
fn what_lies_between_values_may_be_unreadable() {
    let mut world = filed();
    let marker = bytes(120, VALUE_BYTES);
    let image = &world.disk.durable;
    let at = image.windows(VALUE_BYTES).position(|it| it == marker);
    let sector = at.expect("it was flushed") / 512 + 1;
    world.put_relaxed(&key(120), &bytes(KEYS, VALUE_BYTES));
    world.call(Request::Sync);
    world.disk.unreadable.insert(sector);
    let (reads, reply) = scan(&mut world, 100, 50, Direction::Forward);
    let written = |n| if n == 120 { KEYS } else { n };
    check(reply, 100, 50, Direction::Forward, written);
    assert!(reads > 50, "{reads} reads: each value by itself");
}
