//! Garbage collection that finds what is live in a segment in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::common::{Disk, FAST, World, device, numbered};
use kvsim_engine::{CachedValues, Durability, Mutation, Reply, Request, Stats};

const KEYS: u64 = 8_000;
const WRITES: u64 = 30_000;
const SEGMENT_BYTES: u64 = 65_536;
/// A header of 24, a key of 8 and a value of 1,000.
const RECORD_BYTES: u64 = 1_032;

/// What a driver has in memory, and what it hands out of that.
struct Lender {
    values: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    gives: Gives,
}

type Gives = fn(&[u8]) -> Vec<u8>;

const ALL: Gives = <[u8]>::to_vec;

impl Lender {
    fn keep(&self, key: &[u8], value: Option<&[u8]>) {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        match value {
            Some(value) => values.insert(key.into(), value.into()),
            None => values.remove(key),
        };
    }
}

impl CachedValues for Lender {
    fn with_value(&self, key: &[u8], take: &mut dyn FnMut(&[u8])) {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = values.get(key) {
            take(&(self.gives)(value));
        }
    }
}

/// Overwrites keys at random by durable commits of two keys, where the live data fills half of the device, by two process runs or by one. Then cuts
/// the power, and every key has its last value. Returns the last one's counters and how often it read from the device.
fn overwrite(options: &str, gives: Option<Gives>, opened_anew: bool) -> (Stats, u64) {
    let mut info = device(16 << 20);
    info.write_through = true;
    let mut world = World::new(Disk::new(info, FAST, 5), options);
    let lender = gives.map(|gives| {
        Arc::new(Lender {
            values: Mutex::default(),
            gives,
        })
    });
    world.values = lender.clone().map(|it| it as Arc<dyn CachedValues>);
    world.open().expect("opens");
    world.disk.reads = 0;
    let mut last = BTreeMap::new();
    for n in (0..WRITES).step_by(2) {
        if opened_anew && n == WRITES / 3 {
            world.kill();
            world.disk.process_crash();
            world.open().expect("opens again");
            world.disk.reads = 0;
        }
        let pair = [n, n + 1].map(|n| ((n * 2_654_435_761 % KEYS).to_be_bytes(), n));
        let values = pair.map(|(_, n)| numbered(n));
        let mutations = [0, 1].map(|at| {
            let (key, value) = (&pair[at].0[..], &values[at][..]);
            Mutation::Put { key, value }
        });
        let id = world.request(Request::Write {
            mutations: &mutations,
            durability: Durability::Durable,
        });
        // As a driver has to: no value is there while a write waits for room.
        if let Some(lender) = &lender {
            let queued = world.engine().is_queued(id);
            for (it, value) in pair.iter().zip(&values) {
                lender.keep(&it.0, (!queued).then_some(value));
            }
        }
        let reply = world.wait(id);
        assert!(matches!(reply, Reply::Done), "write {n}: {reply:?}");
        for (key, n) in pair {
            if let Some(lender) = &lender {
                lender.keep(&key, Some(&numbered(n)));
            }
        }
        last.extend(pair);
    }
    let (stats, reads) = (world.engine().stats(), world.disk.reads);
    assert!(stats.collected_segments > 0, "{stats:?}");
    world.kill();
    world.disk.power_cut();
    world.open().expect("opens again");
    for (key, n) in last {
        assert!(world.get(&key) == Some(numbered(n)), "key {key:?}");
    }
    (stats, reads)
}

const UNCACHED: &str = "segment_bytes=65536\ninline_bytes=0\ngroup_wait=100000\ncache_bytes=0";

/// Goal: what is in memory is not read. Method: a driver that has every value, also of
/// segments that were written before the opening, and the engine's own cache, large enough; the device is read for none but those whose keys wait to be written, and for one victim after the opening.
#[test]
fn what_is_in_memory_is_moved_without_reading() {
    let cached = "segment_bytes=65536\ninline_bytes=0\ngroup_wait=100000\ncache_bytes=67108864";
    for (options, gives, opened_anew) in [
        (UNCACHED, Some(ALL), false),
        (UNCACHED, Some(ALL), true),
        (cached, None, false),
    ] {
        let (stats, reads) = overwrite(options, gives, opened_anew);
        let moved = stats.relocated_bytes / RECORD_BYTES;
        let read = moved - stats.relocated_from_cache_bytes / RECORD_BYTES;
        assert!(moved > 1000, "{stats:?}");
        // While a write waits for room, its keys' values are not handed out. And a victim that is met before commits go on again is read.
        let not_borrowed = 2 * stats.stalls;
        let of_one_victim = if opened_anew {
            SEGMENT_BYTES / RECORD_BYTES
        } else {
            0
        };
        assert!(
            read <= not_borrowed + of_one_victim && reads <= not_borrowed + u64::from(opened_anew),
            "{reads} reads for {read} of {moved}: {stats:?}"
        );
        assert!(not_borrowed < 50, "{stats:?}");
    }
}

/// Goal: cached values are checked. Method: drivers that return other bytes than they were given, and none at all: everything that is moved is read.
#[test]
fn a_value_that_is_not_the_newest_is_not_moved() {
    fn one_bit_less(value: &[u8]) -> Vec<u8> {
        let mut value = value.to_vec();
        value[500] ^= 1;
        value
    }
    fn shorter(value: &[u8]) -> Vec<u8> {
        value[1..].to_vec()
    }
    for gives in [Some(one_bit_less as Gives), Some(shorter), None] {
        let (stats, reads) = overwrite(UNCACHED, gives, false);
        assert_eq!(stats.relocated_from_cache_bytes, 0);
        assert!(stats.relocated_bytes > 0 && reads > 0, "{stats:?}");
    }
}

/// Goal: commits take live records along where there would be padding. Method: commits of two records, half of a block, with values in memory and
/// without: what the log takes beyond a block for two commits, and one at the beginning of each segment, is less than what was moved, where it is
/// more otherwise.
#[test]
fn live_records_fill_the_blocks_of_commits() {
    let beyond =
        |stats: &Stats| stats.log_bytes - (WRITES / 2 + stats.log_bytes / SEGMENT_BYTES) * 4096;
    let (with, _) = overwrite(UNCACHED, Some(ALL), false);
    let (without, _) = overwrite(UNCACHED, None, false);
    assert!(beyond(&with) < with.relocated_bytes * 9 / 10, "{with:?}");
    assert!(beyond(&without) > without.relocated_bytes, "{without:?}");
}
