//! Filters of runs on the device: an index that does not fit into memory, and has all values, is loaded by them.

use std::collections::BTreeMap;

use crate::common::{Disk, FAST, Rng, Times, World, bytes, device};
use kvsim_engine::{CoveragePoint, Reply, Request};

const KEYS: u64 = 30_000;
const OPTIONS: &str = "load_first_bytes=0\nsegment_bytes=262144\ncheckpoint_bytes=262144\ninline_bytes=192\nindex_bytes=262144";

/// Loading takes hundreds of reads.
const SLOW_READS: Times = Times {
    read: 300_000,
    spread: 5,
    ..FAST
};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(n: u64) -> Vec<u8> {
    let number = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{number:016x}").into_bytes()
}

fn empty() -> World {
    empty_with(OPTIONS, 4096)
}

fn empty_with(options: &str, block_bytes: u32) -> World {
    let mut info = device(64 << 20);
    info.physical_block_bytes = block_bytes;
    World::new(Disk::new(info, FAST, 1), options)
}

/// A database with many keys, and what is in it.
fn filled() -> (World, Model) {
    filled_with(OPTIONS, 4096)
}

fn filled_with(options: &str, block_bytes: u32) -> (World, Model) {
    let mut world = empty_with(options, block_bytes);
    world.open().expect("opens");
    let mut model = Model::new();
    for n in 0..KEYS {
        let (key, value) = (key(n), bytes(n, 100));
        assert!(matches!(world.put_relaxed(&key, &value), Reply::Done));
        model.insert(key, value);
    }
    world.call(Request::Sync);
    (world, model)
}

/// Cuts the power and opens again.
fn reopen(world: &mut World) {
    world.kill();
    world.disk.power_cut();
    world.open().expect("opens");
    world.run_until_idle();
}

fn has(world: &World, point: CoveragePoint) -> bool {
    world.coverage_points().contains(&point)
}

fn count(world: &World, point: CoveragePoint) -> usize {
    let points = world.coverage_points().iter();
    points.filter(|it| **it == point).count()
}

fn check_all(world: &mut World, model: &Model) {
    for n in 0..KEYS + 1_000 {
        let key = key(n);
        assert_eq!(world.get(&key).as_ref(), model.get(&key), "key {n}");
    }
}

/// Offsets of all filters.
fn filters_of(image: &[u8]) -> Vec<usize> {
    let blocks = (0..image.len()).step_by(4096);
    blocks
        .filter(|at| &image[*at..*at + 4] == b"KVFL")
        .collect()
}

/// Goal: an opening reads filters and not the leaves of the runs, keys that are not there mostly cost no read after it, and nothing is lost or comes back. What is counted stays near to what is there,
/// however often the power is cut. Method: rounds of puts and deletes with a power cut after each; all keys after each, and the reads of the opening and of keys that are not there.
#[test]
fn an_index_is_loaded_by_its_filters() {
    let (mut world, mut model) = filled();
    let mut rng = Rng(3);
    for round in 0..5 {
        reopen(&mut world);
        assert!(has(&world, CoveragePoint::LoadedByFilters));
        let read = count(&world, CoveragePoint::FilterRead);
        assert!(read > 3, "{read} filters were read");
        let reads = world.engine().stats().index_reads;
        let leaves = KEYS * 120 / 4096;
        assert!(reads < leaves / 2, "{reads} reads of about {leaves} leaves");
        for n in 0..1_000 {
            assert_eq!(world.get(&key(1_000_000 + n)), None);
        }
        let absent = world.engine().stats().index_reads - reads;
        assert!(absent < 100, "{absent} reads for keys that are not there");
        check_all(&mut world, &model);
        let (counted, there) = (world.engine().stats().keys, model.len() as u64);
        assert!(
            counted.abs_diff(there) < there / 4,
            "{counted} of {there} keys"
        );
        for n in 0..8_000 {
            let key = key(rng.below(KEYS + 500));
            if rng.chance(20) {
                assert!(matches!(world.delete(&key), Reply::Done));
                model.remove(&key);
            } else {
                let value = bytes(round * 100_000 + n, 20 + rng.below(150) as usize);
                assert!(matches!(world.put(&key, &value), Reply::Done));
                model.insert(key, value);
            }
        }
        check_all(&mut world, &model);
    }
}

/// Goal: where a value lies outside of the index, an opening counts what is live. Method: one large value; then the same without it.
#[test]
fn a_value_outside_of_the_index_is_counted() {
    let (mut world, mut model) = filled();
    let large = key(7);
    let value = bytes(1, 5_000);
    assert!(matches!(world.put(&large, &value), Reply::Done));
    model.insert(large.clone(), value);
    reopen(&mut world);
    assert!(!has(&world, CoveragePoint::LoadedByFilters));
    check_all(&mut world, &model);
    assert!(matches!(world.delete(&large), Reply::Done));
    model.remove(&large);
    for n in 0..6_000 {
        let (key, value) = (key(n + 10), bytes(n, 90));
        assert!(matches!(world.put_relaxed(&key, &value), Reply::Done));
        model.insert(key, value);
    }
    world.call(Request::Sync);
    reopen(&mut world);
    assert!(has(&world, CoveragePoint::LoadedByFilters));
    check_all(&mut world, &model);
}

/// Goal: nothing is lost with a filter. Method: a byte of a filter is another one; the opening says so, makes the filter anew, and all keys are there. A filter of another
/// run is refused by how many entries it says, or denies nothing wrongly.
#[test]
fn a_damaged_filter_is_made_anew() {
    let (mut world, model) = filled();
    world.kill();
    world.disk.keep_all();
    let image = world.disk.durable.clone();
    let filters = filters_of(&image);
    assert!(filters.len() >= 6, "{} filters", filters.len());
    let mut made_anew = 0;
    for (number, at) in filters
        .iter()
        .step_by((filters.len() / 24).max(1))
        .enumerate()
    {
        let mut damaged = image.clone();
        damaged[at + [100, 41, 33, 5][number % 4]] ^= 16;
        let mut world = empty();
        world.disk.load(damaged);
        world.open().expect("opens");
        world.run_until_idle();
        made_anew += usize::from(has(&world, CoveragePoint::FilterMadeAnew));
        check_all(&mut world, &model);
    }
    assert!(
        made_anew > 2,
        "{made_anew} of {} filters were made anew",
        filters.len()
    );
}

/// Goal: filters serve while the leaves are read, as they are where values lie outside of the index. Method: slow reads; as soon as all filters are read, and not all leaves, keys that are not there are
/// answered at once.
#[test]
fn filters_serve_while_leaves_are_read() {
    let options = OPTIONS.replace("inline_bytes=192", "inline_bytes=0");
    let (mut world, model) = filled_with(&options, 512);
    reopen(&mut world);
    assert!(!has(&world, CoveragePoint::LoadedByFilters));
    let filters = count(&world, CoveragePoint::FilterRead);
    assert!(filters > 3, "{filters} filters were read");
    world.kill();
    world.disk.power_cut();
    world.disk.times = SLOW_READS;
    world.open().expect("opens");
    while count(&world, CoveragePoint::FilterRead) < filters {
        world.step().expect("they are being read");
    }
    let began = world.now;
    let at_once = (0..200).filter(|n| {
        let before = world.now;
        assert_eq!(world.get(&key(1_000_000 + n)), None);
        world.now == before
    });
    let at_once = at_once.count();
    let took = world.now - began;
    assert!(
        !has(&world, CoveragePoint::LoadedBehind),
        "it took {took} ns"
    );
    // A small run has no filter on the device.
    assert!(at_once > 120, "{at_once} of 200 were answered at once");
    world.run_until_idle();
    check_all(&mut world, &model);
}

/// Goal: no opening and no write is refused for want of room that is counted and not there. Method: a device that holds little more than its values, which are overwritten in other sizes; a power
/// cut after each few hundred. Every other opening counts exactly.
#[test]
fn a_full_device_opens_whatever_is_counted() {
    const FULL: &str =
        "segment_bytes=16384\ncheckpoint_bytes=16384\ninline_bytes=1024\nindex_bytes=32768";
    let mut info = device(1_163_264);
    info.physical_block_bytes = 512;
    let mut world = World::new(Disk::new(info, FAST, 1), FULL);
    world.open().expect("opens");
    for n in 0..520 {
        let reply = world.put_relaxed(&key(n), &[1; 364]);
        assert!(matches!(reply, Reply::Done), "{reply:?}");
    }
    let mut rng = Rng(7);
    for round in 0..60 {
        for _ in 0..50 + rng.below(400) {
            let size = 28 + rng.below(672) as usize;
            let reply = world.put_relaxed(&key(rng.below(520)), &vec![1; size]);
            assert!(matches!(reply, Reply::Done), "{reply:?}");
        }
        world.kill();
        world.disk.power_cut();
        let by_filters = round % 2 == 0;
        world.options = match by_filters {
            true => format!("{FULL}\nload_first_bytes=0"),
            false => FULL.to_owned(),
        };
        world.open().expect("opens");
        world.run_until_idle();
        assert_eq!(has(&world, CoveragePoint::LoadedByFilters), by_filters);
    }
}
