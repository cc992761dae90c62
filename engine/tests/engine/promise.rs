//! Writes that a driver acknowledges before the engine has them.

use crate::common::{Disk, FAST, World, device, numbered, world};
use kvsim_engine::{Direction, Mutation, Reply, Request, Room, ScanRange, Status};

const ROOM: Room = Room {
    changes: 64,
    bytes: 100 << 10,
};
const OPTIONS: &str = "segment_bytes=65536\ninline_bytes=0\ncache_bytes=0";

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

fn keep(world: &mut World, n: u64, value: &[u8]) {
    world.keep(&[Mutation::Put {
        key: &key(n),
        value,
    }]);
}

/// Goal: what was promised takes effect before whatever is handed in later, waiting for room or not, no keys are handed out as long as one of it waits, and a sync makes it durable. Method: far more of it than
/// the write buffer takes, without a step of the device in between, so that some of it has to wait; then a get, a batch, a sync, and a power cut.
#[test]
fn promised_writes_come_before_what_is_handed_in_later() {
    let mut world = world(16 << 20, OPTIONS);
    world.open().expect("opens");
    assert!(world.engine().promise(ROOM).is_some());
    for n in 0..1000 {
        keep(&mut world, n, &numbered(n));
    }
    assert!(world.engine().stats().stalls > 0, "some wait for room");
    assert!(
        world.engine().promise(ROOM).is_none(),
        "as long as some wait, no more is promised"
    );
    let all = ScanRange {
        snapshot: 0,
        direction: Direction::Forward,
        start: None,
        end: None,
        limit: u32::MAX,
        max_bytes: u32::MAX,
    };
    assert_eq!(
        world.engine().scan_keys(&all, |_| {}),
        None,
        "not all that was acknowledged is in the index"
    );
    let later = world.request(Request::Get {
        snapshot: 0,
        key: &key(999),
    });
    let Reply::Value(value) = world.wait(later) else {
        panic!("it was not handed in before");
    };
    assert_eq!(&value[..], numbered(999));
    assert!(world.engine().promise(ROOM).is_some(), "nothing waits");
    let mut keys = 0;
    let more = world.engine().scan_keys(&all, |_| keys += 1);
    assert_eq!((more, keys), (Some(false), 1000));
    world.keep(&[
        Mutation::Delete { key: &key(0) },
        Mutation::Put {
            key: &key(1),
            value: b"of a batch",
        },
    ]);
    assert!(matches!(world.call(Request::Sync), Reply::Done));
    world.kill();
    world.disk.power_cut();
    world.open().expect("opens again");
    assert_eq!(world.get(&key(0)), None);
    assert_eq!(world.get(&key(1)).as_deref(), Some(&b"of a batch"[..]));
    for n in 2..1000 {
        assert!(world.get(&key(n)) == Some(numbered(n)), "key {n}");
    }
}

/// Goal: as long as room is promised nothing is refused, and where there is none nothing is promised. Method: new keys until there is no promise; then an ordinary
/// write of as much is refused soon after, and all that was promised is there.
#[test]
fn there_is_room_for_what_is_promised() {
    let mut world = world(8 << 20, OPTIONS);
    world.open().expect("opens");
    let mut n = 0;
    while world.engine().promise(ROOM).is_some() {
        // As much as one promise is of.
        for _ in 0..64 {
            keep(&mut world, n, &numbered(n));
            n += 1;
        }
        world.run_until_idle();
    }
    assert!(n > 3000, "{n} are half of the device");
    assert!(
        !world
            .log()
            .iter()
            .any(|line| line.contains("cannot be kept")),
        "{:#?}",
        world.log()
    );
    let refused = (n..n + 400).any(|n| {
        let reply = world.put(&key(n), &numbered(n));
        matches!(reply, Reply::Failed(Status::NoSpace, _))
    });
    assert!(refused, "there was no promise, but room");
    for n in 0..n {
        assert!(world.get(&key(n)) == Some(numbered(n)), "key {n}");
    }
}

/// Goal: a device grows ahead of what its index takes too, so that clients that write small values always have a promise. Method: keys with their values in the index, far more than it held at first.
#[test]
fn a_device_grows_for_its_index_too() {
    let mut info = device(2 << 20);
    info.max_capacity_bytes = 64 << 20;
    let mut world = World::new(Disk::new(info, FAST, 1), "segment_bytes=65536");
    world.open().expect("opens");
    for n in 0..40_000 {
        keep(&mut world, n, &[1; 100]);
        if n % 64 == 63 {
            world.run_until_idle();
            assert!(world.engine().promise(ROOM).is_some(), "after {n}");
        }
    }
    assert!(world.disk.growths > 0, "it grew");
}

/// Goal: nothing is promised on the strength of a growth that may be refused. Method: new keys as long as there is a promise, on a device that takes long
/// to say that it does not grow.
#[test]
fn what_a_growth_would_bring_is_not_promised() {
    let mut info = device(4 << 20);
    info.max_capacity_bytes = 64 << 20;
    let mut world = World::new(Disk::new(info, FAST, 1), OPTIONS);
    world.open().expect("opens");
    world.disk.growth_ns = 3_600_000_000_000;
    world.disk.refused_growths = u64::MAX;
    let mut n = 0;
    while world.engine().promise(ROOM).is_some() {
        assert!(n < 4000, "more than the device holds");
        for _ in 0..64 {
            keep(&mut world, n, &numbered(n));
            n += 1;
        }
        let until = world.now + 1_000_000_000;
        while world.now < until {
            world.step_until(Some(until));
        }
    }
    assert!(n > 1000 && n < 2600, "{n} kilobytes");
    assert!(world.disk.growths > 0, "it was asked to grow");
    world.run_until_idle();
    let broken = world.log().iter().find(|it| it.contains("cannot be kept"));
    assert!(broken.is_none(), "{broken:?}");
    for n in 0..n {
        assert!(world.get(&key(n)) == Some(numbered(n)), "key {n}");
    }
}

/// Goal: a promise covers no write that could be refused as such. Method: keys and values at their bounds, and beyond.
#[test]
fn a_promise_covers_small_writes_alone() {
    let mut world = world(16 << 20, OPTIONS);
    assert!(world.open().is_ok());
    let promise = world.engine().promise(ROOM).expect("there is room");
    let covers = |key: &[u8], value: &[u8]| promise.covers(&[Mutation::Put { key, value }]);
    assert!(covers(b"k", b"") && covers(&[7; 1024], b"value"));
    assert!(!covers(b"", b"value") && !covers(&[7; 1025], b"value"));
    // An eighth of a segment lies in the log, with its header and its key.
    assert!(covers(b"k", &[7; 7000]) && !covers(b"k", &[7; 8192]));
    let half = [7; 5000];
    let put = |key| Mutation::Put { key, value: &half };
    assert!(promise.covers(&[put(b"k")]));
    assert!(!promise.covers(&[put(b"k"), put(b"l")]));
    assert!(!promise.covers(&[]));
}

/// Goal: after a failure of the device, what was promised before is read like what was accepted before, nothing more is promised, nobody hangs, and a sync says that
/// not everything is durable. Method: the flush of a commit fails.
#[test]
fn what_was_promised_before_a_failure_is_read() {
    let mut world = world(16 << 20, OPTIONS);
    world.open().expect("opens");
    world.disk.fail_flushes = true;
    let reply = world.put(&key(1), &numbered(1));
    assert!(
        matches!(reply, Reply::Failed(Status::IoError, _)),
        "{reply:?}"
    );
    for n in 2..2000 {
        keep(&mut world, n, &numbered(n));
    }
    assert!(world.engine().promise(ROOM).is_none());
    assert_eq!(world.get(&key(2)), Some(numbered(2)));
    let reply = world.call(Request::Sync);
    assert!(
        matches!(reply, Reply::Failed(Status::IoError, _)),
        "{reply:?}"
    );
}

/// Goal: a device that is fuller than what garbage collection wants free is left alone once garbage collection gains nothing, and collected again when a client changes something. Method: as much
/// handed in as nobody promised, on devices of several timings, until nothing happens any more; then half of it is removed and there is a promise again.
#[test]
fn gc_that_gains_nothing_stops() {
    for seed in 0..8 {
        let disk = Disk::new(device(4 << 20), FAST, seed);
        let mut world = World::new(disk, OPTIONS);
        world.open().expect("opens");
        for n in 0..2816 {
            keep(&mut world, n, &numbered(n));
            if n % 64 == 63 {
                world.run_until_idle();
            }
        }
        assert!(world.engine().promise(ROOM).is_none(), "{seed}");
        for n in 0..1408 {
            assert!(matches!(world.delete(&key(n)), Reply::Done), "{seed}");
        }
        world.run_until_idle();
        assert!(world.engine().promise(ROOM).is_some(), "{seed}");
    }
}

/// Goal: what was acknowledged and cannot be kept does not go unnoticed: the database is read-only from then on and says so, and nobody waits for ever. Method: far more than
/// was ever promised, new keys until no space can be reclaimed.
#[test]
fn a_promise_that_cannot_be_kept_is_a_failure() {
    let mut world = world(4 << 20, OPTIONS);
    world.open().expect("opens");
    let refused = |world: &World| world.log().iter().any(|it| it.contains("cannot be kept"));
    let mut n = 0;
    while !refused(&world) && n < 8000 {
        keep(&mut world, n, &numbered(n));
        n += 1;
        if n % 64 == 0 {
            world.run_until_idle();
        }
    }
    assert!(
        refused(&world),
        "{n} kilobytes on a device of four thousand"
    );
    assert!(world.engine().promise(ROOM).is_none());
    let reply = world.put(&key(0), &numbered(0));
    assert!(
        matches!(reply, Reply::Failed(Status::ReadOnly, _)),
        "{reply:?}"
    );
    assert_eq!(world.get(&key(0)), Some(numbered(0)));
    world.kill();
    world.disk.power_cut();
    world.open().expect("opens again");
    assert_eq!(world.get(&key(0)), Some(numbered(0)));
}
