//! Scans whose values lie on the device.

use crate::common::world::Joined;
use crate::common::{World, bytes, world};
use kvsim_engine::{Direction, Reply, Request, ScanRange, Status};

const KEYS: u64 = 1_000;
const VALUE_BYTES: usize = 1_500;

fn key(n: u64) -> Vec<u8> {
    format!("{n:08}").into_bytes()
}

/// Who reads the values of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Engine,
    /// The one who asks, outside the engine: he reads leaves of the index too.
    Asking,
}

/// Keys in order with values in the log, none of which is in memory.
fn filed(by: By) -> World {
    let index = match by {
        By::Engine => "",
        By::Asking => "\nindex_bytes=32768\ncheckpoint_bytes=65536",
    };
    let mut world = world(16 << 20, &format!("inline_bytes=0\ncache_bytes=0{index}"));
    world.open().expect("opens");
    for n in 0..KEYS {
        world.put_relaxed(&key(n), &bytes(n, VALUE_BYTES));
    }
    world.call(Request::Sync);
    world.call(Request::Close);
    world.kill();
    world.open().expect("opens");
    world.run_until_idle();
    world
}

/// The reads that a scan takes, and its reply.
fn scan(world: &mut World, from: u64, entries: u64, direction: Direction, by: By) -> (u64, Reply) {
    let (start, end) = (key(from), key(from + entries));
    let range = ScanRange {
        snapshot: 0,
        direction,
        start: Some(&start),
        end: Some(&end),
        limit: 1_000,
        max_bytes: 1 << 20,
    };
    let reads = |world: &World| world.disk.reads + world.reads_here;
    let before = reads(world);
    let reply = match by {
        By::Engine => world.call(Request::Scan(range)),
        By::Asking => {
            let id = world.begin_join(&range).expect("it has to be read");
            loop {
                match world.go_on(id) {
                    Joined::Open => {}
                    Joined::Reply(reply) => break reply,
                    Joined::Dropped => break world.call(Request::Scan(range)),
                }
                assert_eq!(world.next_join(), Some(id), "the engine is not asked");
            }
        }
    };
    (reads(world) - before, reply)
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

/// Goal: values that lie near each other are read together, however many a scan wants, and those between them that have moved away are read beside it; whoever reads them.
/// Method: keys that were written in order; then each fifth of them is overwritten; scans both ways, whose reads are counted.
#[test]
fn values_near_each_other_are_read_together() {
    for by in [By::Engine, By::Asking] {
        // A leaf has some 100 entries.
        let leaves = |entries: u64| match by {
            By::Engine => 0,
            By::Asking => 2 + entries / 50,
        };
        let mut world = filed(by);
        for direction in [Direction::Forward, Direction::Reverse] {
            let (reads, reply) = scan(&mut world, 100, 50, direction, by);
            check(reply, 100, 50, direction, |n| n);
            assert!(reads <= 2 + leaves(50), "{reads} reads of 50 values {by:?}");
            let (reads, reply) = scan(&mut world, 200, 600, direction, by);
            check(reply, 200, 600, direction, |n| n);
            assert!(
                reads <= 24 + leaves(600),
                "{reads} reads of 600 values {by:?}"
            );
        }
        for n in (0..KEYS).step_by(5) {
            world.put_relaxed(&key(n), &bytes(KEYS + n, VALUE_BYTES));
        }
        world.call(Request::Sync);
        world.run_until_idle();
        let written = |n| if n % 5 == 0 { KEYS + n } else { n };
        for direction in [Direction::Forward, Direction::Reverse] {
            let (reads, reply) = scan(&mut world, 100, 50, direction, by);
            check(reply, 100, 50, direction, written);
            assert!(
                reads <= 3 + 2 * leaves(50),
                "{reads} reads of 50 values {by:?}"
            );
        }
    }
}

/// Goal: what cannot be read between values costs none of them. Method: a sector of a value that was overwritten cannot be read.
#[test]
fn what_lies_between_values_may_be_unreadable() {
    for by in [By::Engine, By::Asking] {
        let mut world = filed(by);
        let marker = bytes(120, VALUE_BYTES);
        let image = &world.disk.durable;
        let at = image.windows(VALUE_BYTES).position(|it| it == marker);
        let sector = at.expect("it was flushed") / 512 + 1;
        world.put_relaxed(&key(120), &bytes(KEYS, VALUE_BYTES));
        world.call(Request::Sync);
        world.disk.unreadable.insert(sector);
        let (reads, reply) = scan(&mut world, 100, 50, Direction::Forward, by);
        let written = |n| if n == 120 { KEYS } else { n };
        check(reply, 100, 50, Direction::Forward, written);
        assert!(reads > 50, "{reads} reads: each value by itself");
    }
}

/// Goal: what a scan outside the engine returns is what its entries refer to. Method: a byte of a value is changed on the device; the scan is dropped, and the engine says what is wrong.
#[test]
fn a_damaged_value_is_not_returned() {
    let by = By::Asking;
    let mut world = filed(by);
    let marker = bytes(120, VALUE_BYTES);
    let at = world
        .disk
        .durable
        .windows(VALUE_BYTES)
        .position(|it| it == marker);
    world.disk.rot(at.expect("it was flushed") + 700);
    let (_, reply) = scan(&mut world, 100, 50, Direction::Forward, by);
    assert!(
        matches!(reply, Reply::Failed(Status::Corruption, _)),
        "{reply:?}"
    );
    let (_, reply) = scan(&mut world, 200, 50, Direction::Forward, by);
    check(reply, 200, 50, Direction::Forward, |n| n);
}
