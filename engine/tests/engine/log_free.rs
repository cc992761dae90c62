//! Segments given back between checkpoints, by a record of the log.

use std::collections::BTreeMap;

use crate::common::{Disk, FAST, World, device, numbered};
use kvsim_engine::{Reply, Request};

const SEGMENT: u64 = 65_536;
const KEYS: u64 = 4000;

/// Goal: dead segments are given back without a checkpoint each time, and what was in them comes back from where it was moved to.
/// Method: overwrite a set of keys many times over on a device that holds it a few times; cut the power after every few writes; every
/// key has the last value that was acknowledged.
#[test]
fn what_was_moved_out_of_a_freed_segment_comes_back() {
    let (mut log_freed, mut checkpoints) = (0, 0);
    for through in [false, true] {
        let mut info = device(8 << 20);
        info.write_through = through;
        let options = format!("segment_bytes={SEGMENT}\ninline_bytes=0\ncache_bytes=0");
        let mut world = World::new(Disk::new(info, FAST, 7), &options);
        world.open().expect("opens");
        let mut last = BTreeMap::new();
        for n in 0..24_000_u64 {
            // Some keys are cold, so that garbage collection has something to move.
            let key = if n % 4 == 0 {
                n / 4 % KEYS
            } else {
                n % (KEYS / 8)
            };
            let reply = world.put(&key.to_be_bytes(), &numbered(n));
            assert!(matches!(reply, Reply::Done), "write {n}: {reply:?}");
            last.insert(key, n);
            if n % 3_977 == 3_976 {
                log_freed += world.engine().stats().log_freed_segments;
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
        log_freed > checkpoints && checkpoints > 0,
        "{log_freed} released, {checkpoints} checkpoints"
    );
}

/// Goal: where openings would run short, the superblock states what is durable without a checkpoint, and what it says then holds. Method: relaxed overwrites on
/// a device that holds the keys a few times; the power is cut a few writes after every sync, and checkpoints are rare otherwise; a key has the value that it had then, or a later one.
#[test]
fn what_is_stated_without_a_checkpoint_holds() {
    let mut republications = 0;
    for through in [false, true] {
        let mut info = device(8 << 20);
        info.write_through = through;
        let options = format!(
            "segment_bytes={SEGMENT}\ninline_bytes=0\ncache_bytes=0\ncheckpoint_bytes=1048576"
        );
        let mut world = World::new(Disk::new(info, FAST, 11), &options);
        world.open().expect("opens");
        let mut may_be: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for n in 0..40_000_u64 {
            let key = if n < 3_950 {
                n
            } else if n % 4 == 0 {
                n / 4 % 3_950
            } else {
                n % (KEYS / 8)
            };
            let reply = world.put_relaxed(&key.to_be_bytes(), &numbered(n));
            assert!(matches!(reply, Reply::Done), "write {n}: {reply:?}");
            may_be.entry(key).or_default().push(n);
            if n % 3_977 == 3_950 {
                assert!(matches!(world.call(Request::Sync), Reply::Done));
                may_be.values_mut().for_each(|all| {
                    all.drain(..all.len() - 1);
                });
            }
            if n % 3_977 == 3_976 {
                republications += world.engine().stats().republications;
                world.kill();
                world.disk.power_cut();
                world.open().expect("opens again");
                for (key, all) in &mut may_be {
                    let found = world.get(&key.to_be_bytes());
                    let is_it = |n: &&u64| found.as_deref() == Some(&numbered(**n)[..]);
                    let n = all.iter().find(is_it).copied();
                    *all = vec![n.unwrap_or_else(|| panic!("key {key}, through {through}"))];
                }
            }
        }
    }
    assert!(republications > 50, "{republications} republications");
}
