//! Devices that are full, or about to be: what is refused, what is taken, and how they grow.

use std::collections::BTreeMap;

use crate::common::{Disk, FAST, Rng, World, bytes, device, world};
use kvsim_engine::{Direction, Durability, Mutation, Reply, Request, Status};

/// Goal: a full device refuses definitely, still takes deletes, and takes writes again after them. Method: fill, delete, refill,
/// over and over, with reopening; the model knows what was refused.
#[test]
fn a_full_device_refuses_and_recovers() {
    for value_bytes in [150, 1000, 20_000, 200_000] {
        let mut world = world(3 << 20, "");
        world.open().expect("opens");
        let mut model = BTreeMap::new();
        let mut n = 0_u64;
        let mut filled = Vec::new();
        for round in 0..6 {
            loop {
                n += 1;
                let key = format!("{n:08}").into_bytes();
                let value = bytes(n, value_bytes);
                match world.put(&key, &value) {
                    Reply::Done => model.insert(key, value),
                    Reply::Failed(Status::NoSpace, _) => break,
                    other => panic!("{value_bytes}: {other:?}"),
                };
                assert!(n < 100_000, "never full");
            }
            let live: usize = model.iter().map(|(k, v)| k.len() + v.len()).sum();
            filled.push(live);
            if round % 2 == 0 {
                world.kill();
                world.disk.power_cut();
                world.open().expect("opens");
            }
            assert!(world.dump(Direction::Forward, 0) == model, "{value_bytes}");
            let victims: Vec<Vec<u8>> = model.keys().step_by(2).cloned().collect();
            for key in victims {
                assert!(matches!(world.delete(&key), Reply::Done));
                model.remove(&key);
            }
        }
        let (least, most) = (filled.iter().min().unwrap(), filled.iter().max().unwrap());
        assert!(
            *least * 10 > *most * 9,
            "space comes back in full: {filled:?}"
        );
        assert!(*least > 400_000, "{value_bytes}: {filled:?}");
    }
}

/// Goal: the device grows before it is full. Method: start small with room to grow, write more than the start holds.
#[test]
fn the_device_grows_ahead_of_need() {
    let mut info = device(2 << 20);
    info.max_capacity_bytes = 16 << 20;
    let mut world = World::new(Disk::new(info, FAST, 1), "");
    world.open().expect("opens");
    for n in 0..4000_u64 {
        assert!(
            matches!(world.put(&n.to_be_bytes(), &bytes(n, 1000)), Reply::Done),
            "{n}"
        );
    }
    assert!(world.disk.device.capacity_bytes > 4 << 20);
    world.kill();
    world.disk.power_cut();
    world.open().expect("opens");
    for n in 0..4000_u64 {
        assert_eq!(
            world.get(&n.to_be_bytes()).as_deref(),
            Some(&bytes(n, 1000)[..])
        );
    }
}

/// Goal: the option says at which share of live data a device grows, over its whole range. Method: the same data, a fifth of the device, with a share below that and one above.
#[test]
fn the_share_at_which_a_device_grows_is_what_the_option_says() {
    let grows = |options: &str| {
        let mut info = device(16 << 20);
        info.max_capacity_bytes = 64 << 20;
        let mut world = World::new(Disk::new(info, FAST, 1), options);
        world.open().expect("opens");
        for n in 0..3200_u64 {
            assert!(matches!(
                world.put(&n.to_be_bytes(), &bytes(n, 1000)),
                Reply::Done
            ));
        }
        world.disk.growths
    };
    assert!(grows("segment_bytes=65536\ngrow_percent=10") > 0);
    assert_eq!(grows("segment_bytes=65536\ngrow_percent=40"), 0);
}

/// Goal: a growth that fails in its flush makes the database read-only like any other flush: what was written before may have been dropped, and the next flush succeeds.
/// Method: durable writes until the device grows, which fails so; then all that was acknowledged is there after a power cut.
#[test]
fn a_growth_whose_flush_fails_is_no_lack_of_space() {
    let mut info = device(2 << 20);
    info.max_capacity_bytes = 16 << 20;
    let mut world = World::new(Disk::new(info, FAST, 1), "");
    world.open().expect("opens");
    world.disk.fail_growth = true;
    let mut acknowledged = 0_u64;
    let status = loop {
        let value = bytes(acknowledged, 1000);
        match world.put(&acknowledged.to_be_bytes(), &value) {
            Reply::Done => acknowledged += 1,
            Reply::Failed(status, _) => break status,
            other => panic!("{other:?}"),
        }
        assert!(acknowledged < 4000, "it never grows");
    };
    assert!(matches!(status, Status::IoError | Status::ReadOnly));
    let later = world.put(b"later", b"1");
    assert!(matches!(later, Reply::Failed(Status::ReadOnly, _)));
    world.kill();
    world.disk.fail_growth = false;
    world.disk.power_cut();
    world.open().expect("opens");
    for n in 0..acknowledged {
        let found = world.get(&n.to_be_bytes());
        assert_eq!(found.as_deref(), Some(&bytes(n, 1000)[..]), "{n}");
    }
}

/// Goal: a device that refused to grow once is asked again, and grows when it can. Method: it refuses a few times; what does not fit meanwhile is refused,
/// and nothing else; a while later it holds more.
#[test]
fn a_growth_that_was_refused_is_asked_for_again() {
    let mut info = device(2 << 20);
    info.max_capacity_bytes = 16 << 20;
    let mut world = World::new(Disk::new(info, FAST, 1), "");
    world.open().expect("opens");
    world.disk.refused_growths = 3;
    let (mut n, mut refused) = (0_u64, 0);
    while world.disk.device.capacity_bytes < 8 << 20 {
        match world.put(&n.to_be_bytes(), &bytes(n, 1000)) {
            Reply::Done => n += 1,
            Reply::Failed(Status::NoSpace, message) => {
                refused += 1;
                assert!(refused < 1000, "{message}");
                // Time goes by.
                world.now += 1_000_000_000;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(refused > 0 && world.disk.refused_growths == 0);
    assert!(
        world.disk.growths < 30,
        "{} growths were asked for",
        world.disk.growths
    );
    for n in 0..n {
        let found = world.get(&n.to_be_bytes());
        assert_eq!(found.as_deref(), Some(&bytes(n, 1000)[..]), "{n}");
    }
}

/// Goal: on a full device an overwrite of equal size fits, but not beside what a snapshot reads, nor one of more than what its keys held before, however often a batch names
/// them. Method: fill it, then overwrite with and without a snapshot, and by batches that remove the key first.
#[test]
fn on_a_full_device_an_overwrite_counts_what_it_frees_once() {
    let mut world = world(3 << 20, "");
    world.open().expect("opens");
    let mut n = 0_u64;
    while matches!(world.put(&n.to_be_bytes(), &bytes(n, 1000)), Reply::Done) {
        n += 1;
    }
    assert!(n > 400, "{n} kilobytes");
    let is_full = |reply: &Reply| matches!(reply, Reply::Failed(Status::NoSpace, _));
    let key = &0_u64.to_be_bytes();
    let anew = |world: &mut World, value: &[u8]| {
        let put = Mutation::Put { key, value };
        let durability = Durability::Durable;
        let mutations = &[Mutation::Delete { key }, put, Mutation::Delete { key }, put];
        world.call(Request::Write {
            mutations,
            durability,
        })
    };
    assert!(matches!(world.put(key, &bytes(1, 1000)), Reply::Done));
    assert!(matches!(anew(&mut world, &bytes(2, 1000)), Reply::Done));
    assert!(is_full(&anew(&mut world, &bytes(3, 3000))));
    let Reply::Snapshot(snapshot) = world.call(Request::Snapshot) else {
        panic!("a snapshot takes no space");
    };
    let (stalls, mut taken) = (world.engine().stats().stalls, 0);
    while !is_full(&world.put(key, &bytes(4, 1000))) {
        taken += 1;
        assert!(taken < 10, "each overwrite costs space under a snapshot");
    }
    assert_eq!(
        world.engine().stats().stalls,
        stalls,
        "it is refused at once"
    );
    let release = Request::Release { snapshot };
    assert!(matches!(world.call(release), Reply::Done));
    assert!(matches!(world.put(key, &bytes(5, 1000)), Reply::Done));
    assert_eq!(world.get(key).as_deref(), Some(&bytes(5, 1000)[..]));
}

/// Goal: where a segment has few blocks, garbage collection fills those that it writes, so a full device takes overwrites and deletes without an end. Method: fill such devices, with options
/// that close a frame long before a block is full; then durable writes of a block each.
#[test]
fn small_frames_do_not_undo_what_garbage_collection_gains() {
    for (block, capacity, usable) in [
        (16 << 10, 2_228_224, 75),
        (16 << 10, 2_228_224, 90),
        (4 << 10, 1_179_648, 75),
        (4 << 10, 1_179_648, 90),
    ] {
        let mut info = device(capacity);
        info.physical_block_bytes = block;
        let options = format!(
            "segment_bytes=65536\nwrite_buffer_bytes=4096\nframe_bytes=4096\ncheckpoint_bytes=8192\nusable_percent={usable}"
        );
        let mut world = World::new(Disk::new(info, FAST, 1), &options);
        world.open().expect("opens");
        let mut n = 0_u64;
        while matches!(world.put(&n.to_be_bytes(), &bytes(n, 970)), Reply::Done) {
            n += 1;
        }
        let at = |step: u64| format!("{block} {usable}: {step}, {n} keys");
        assert!(n > 40, "{}", at(0));
        let mut rng = Rng(usable);
        for step in 0..3_000 {
            let key = rng.below(n).to_be_bytes();
            let reply = world.put(&key, &bytes(step, 970));
            assert!(matches!(reply, Reply::Done), "{}: {reply:?}", at(step));
        }
        for step in 0..n {
            let reply = world.delete(&step.to_be_bytes());
            assert!(matches!(reply, Reply::Done), "{}: {reply:?}", at(step));
        }
    }
}

/// Goal: a client gets its turn however busy garbage collection is. Method: batches of more than the write buffer holds, on a device that garbage collection wants emptier, by eight clients of
/// which each goes on when it is answered; none of them for a few thousand events is a client that starves.
#[test]
fn gc_starves_nobody() {
    let mut info = device(2 << 20);
    info.physical_block_bytes = 16 << 10;
    let options = "segment_bytes=65536\nwrite_buffer_bytes=8192\ncheckpoint_bytes=32768\nlarge_value_bytes=2000\nframe_bytes=4096";
    for seed in 0..4 {
        let mut rng = Rng(seed);
        let mut sizes = [1_000, 7_000, 3_000, 13_000].into_iter().cycle();
        let mut world = World::new(Disk::new(info.clone(), FAST, seed), options);
        world.open().expect("opens");
        let (mut asked, mut under_way, mut events) = (0, 0, 0);
        while asked < 300 || under_way > 0 {
            while asked < 300 && under_way < 8 {
                let writes = 1 + rng.below(10);
                let keys: Vec<[u8; 8]> =
                    (0..writes).map(|_| rng.below(265).to_be_bytes()).collect();
                let value = bytes(asked, sizes.next().expect("they come round"));
                let writes: Vec<Mutation<'_>> = keys
                    .iter()
                    .map(|key| match rng.chance(40) {
                        true => Mutation::Delete { key },
                        false => Mutation::Put { key, value: &value },
                    })
                    .collect();
                world.request(Request::Write {
                    mutations: &writes,
                    durability: Durability::Durable,
                });
                (asked, under_way) = (asked + 1, under_way + 1);
            }
            events += 1;
            assert!(
                events < 5_000,
                "seed {seed}: no answer after {asked} writes"
            );
            if world.step().expect("something is under way").is_some() {
                (under_way, events) = (under_way - 1, 0);
            }
        }
    }
}
