//! Segments given back between checkpoints, by a record of the log.

mod common;

use common::{Disk, FAST, World, device, numbered};

const SEGMENT: u64 = 65_536;
const KEYS: u64 = 4000;

/// Goal: dead segments are given back without a checkpoint each time, and what was in them comes back from where it was moved to.
/// Method: overwrite a set of keys many times over on a device that holds it a few times; cut the power after every few writes; every
/// key has the last value that was acknowledged.
#[test]
fn what_was_moved_out_of_a_released_segment_comes_back() {
    let (mut released, mut checkpoints) = (0, 0);
    for through in [false, true] {
        let mut info = device(8 << 20);
        info.write_through = through;
        let options = format!("segment_bytes={SEGMENT}\ninline_bytes=0\ncache_bytes=0");
        let mut world = World::new(Disk::new(info, FAST, 7), &options);
        world.open().expect("opens");
        let mut last = std::collections::BTreeMap::new();
        for n in 0..24_000_u64 {
            // Some keys are cold, so that cleaning has something to move.
            let key = if n % 4 == 0 {
                n / 4 % KEYS
            } else {
                n % (KEYS / 8)
            };
            let reply = world.put(&key.to_be_bytes(), &numbered(n));
            assert!(
                matches!(reply, kvsim_engine::Reply::Done),
                "write {n}: {reply:?}"
            );
            last.insert(key, n);
            if n % 3_977 == 3_976 {
                released += world.engine().stats().released_segments;
                checkpoints += world.engine().stats().checkpoints;
                world.kill();
                world.disk.power_cut();
                world.open().expect("opens again");
                for (key, n) in &last {
                    let expected = Some(numbered(*n));
                    let found = world.get(&key.to_be_bytes());
                    assert!(found == expected, "key {key}, through {through}");
                }
            }
        }
    }
    assert!(
        released > checkpoints && checkpoints > 0,
        "{released} released, {checkpoints} checkpoints"
    );
}
