//! Overwriting in the open frame: what it saves, and what it must not change.

use crate::common::{Disk, FAST, World, device, world};
use kvsim_engine::{Direction, Reply, Request};

fn value(n: u32, len: usize) -> Vec<u8> {
    n.to_le_bytes().repeat(len / 4)
}

/// Goal: a key that is overwritten before its frame is sealed takes one record. Method: a hundred relaxed writes to two keys,
/// then everything durable; the log must be smaller than ten of them, and the last values must survive a power cut.
#[test]
fn overwrites_within_a_frame_cost_no_log() {
    let mut world = world(4 << 20, "");
    world.open().expect("opens");
    for n in 0..100 {
        assert!(matches!(
            world.put_relaxed(b"one", &value(n, 1000)),
            Reply::Done
        ));
        assert!(matches!(
            world.put_relaxed(b"two", &value(n + 1, 2000)),
            Reply::Done
        ));
    }
    assert_eq!(world.get(b"one"), Some(value(99, 1000)));
    assert!(matches!(world.call(Request::Sync), Reply::Done));
    let stats = world.engine().stats();
    assert_eq!(stats.user_bytes, 100 * 3006);
    assert!(stats.absorbed_bytes >= 90 * 3006, "{stats:?}");
    assert!(stats.log_bytes < 30_000, "{stats:?}");
    world.kill();
    world.disk.power_cut();
    world.open().expect("opens");
    assert_eq!(world.get(b"one"), Some(value(99, 1000)));
    assert_eq!(world.get(b"two"), Some(value(100, 2000)));
}

/// Goal: a snapshot does not move. Method: overwrite in the open frame after a snapshot was taken; both versions must be found,
/// from memory, and from the device after more writes.
#[test]
fn a_snapshot_keeps_what_would_be_overwritten() {
    let mut world = world(4 << 20, "cache_bytes=0");
    world.open().expect("opens");
    world.put_relaxed(b"key", &value(1, 800));
    let Reply::Snapshot(snapshot) = world.call(Request::Snapshot) else {
        panic!("a snapshot is taken");
    };
    world.put_relaxed(b"key", &value(2, 800));
    world.put_relaxed(b"key", &value(3, 800));
    for _ in 0..2 {
        let then = world.dump(Direction::Forward, snapshot);
        assert_eq!(then.get(&b"key"[..]), Some(&value(1, 800)));
        assert_eq!(world.get(b"key"), Some(value(3, 800)));
        assert!(matches!(world.call(Request::Sync), Reply::Done));
    }
    assert_eq!(
        world.engine().stats().absorbed_bytes,
        803,
        "only the third write"
    );
}

/// Goal: a checkpoint that runs while records are overwritten in place does not spoil them. Method: hot keys on a device that
/// takes a checkpoint every few frames, a power cut, and every value must be there.
#[test]
fn checkpoints_in_between_change_nothing() {
    let options = "checkpoint_bytes=8192\nsegment_bytes=32768\ncache_bytes=0";
    let mut world = World::new(Disk::new(device(2 << 20), FAST, 3), options);
    world.open().expect("opens");
    for n in 0..3000_u32 {
        let key = format!("key{}", if n % 2 == 0 { n % 14 } else { n % 301 });
        assert!(matches!(
            world.put_relaxed(key.as_bytes(), &value(n, 400)),
            Reply::Done
        ));
    }
    assert!(matches!(world.call(Request::Sync), Reply::Done));
    let stats = world.engine().stats();
    assert!(
        stats.checkpoints > 3 && stats.absorbed_bytes > 0,
        "{stats:?}"
    );
    let before = world.dump(Direction::Forward, 0);
    world.kill();
    world.disk.power_cut();
    world.open().expect("opens");
    let after = world.dump(Direction::Forward, 0);
    for (key, value) in &before {
        let n = |value: &Vec<u8>| u32::from_le_bytes([value[0], value[1], value[2], value[3]]);
        assert_eq!(after.get(key).map(n), Some(n(value)), "{key:?}");
    }
    assert_eq!(after.len(), before.len());
}
