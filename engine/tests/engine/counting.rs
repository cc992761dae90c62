//! Writes that leave counted what they replace, since no value lies outside the index.

use crate::common::{Disk, FAST, Rng, World, device};
use kvsim_engine::{CoveragePoint, Reply, Status};

const KEYS: u64 = 520;
const OPTIONS: &str =
    "segment_bytes=16384\ncheckpoint_bytes=16384\ninline_bytes=1024\nindex_bytes=32768";

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// A device that holds these keys with little room beside.
fn world() -> World {
    let mut info = device(1_163_264);
    info.physical_block_bytes = 512;
    let mut world = World::new(Disk::new(info, FAST, 1), OPTIONS);
    world.open().expect("opens");
    for n in 0..KEYS {
        let reply = world.put_relaxed(&key(n), &[1; 364]);
        assert!(matches!(reply, Reply::Done), "{reply:?}");
    }
    world
}

/// How often all keys were counted anew.
fn counted_anew(world: &World) -> usize {
    let points = world.coverage_points().iter();
    let anew = points.filter(|it| **it == CoveragePoint::CountedAnew);
    anew.count()
}

/// Goal: what is counted too much refuses nothing, and where it cannot be counted since reads fail, that is what a write is told. Method: overwrites of other sizes, with reads that fail in
/// every other stretch; then all keys are as they were acknowledged.
#[test]
fn what_cannot_be_counted_is_no_want_of_space() {
    let mut world = world();
    let mut rng = Rng(7);
    let mut sizes = vec![364; KEYS as usize];
    let mut unread = 0;
    for n in 0..40_000 {
        world.disk.fail_reads = n / 500 % 2 == 1;
        let (at, size) = (rng.below(KEYS), 28 + rng.below(672) as usize);
        match world.put_relaxed(&key(at), &vec![1; size]) {
            Reply::Done => sizes[at as usize] = size,
            Reply::Failed(Status::IoError, _) if world.disk.fail_reads => unread += 1,
            other => panic!("write {n}: {other:?}"),
        }
    }
    world.disk.fail_reads = false;
    world.run_until_idle();
    assert!(unread > 0, "no write was told");
    assert!(counted_anew(&world) > 0, "none waited for exact counts");
    for (n, size) in (0..).zip(sizes) {
        let found = world.get(&key(n));
        assert_eq!(found.map(|it| it.len()), Some(size), "key {n}");
    }
}
