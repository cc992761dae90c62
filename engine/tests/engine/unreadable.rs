//! Sectors that cannot be read: a torn one is a torn tail, one that is known to have been durable is damage, and a device that fails altogether
//! says nothing about either.

use crate::common::{Case, Disk, FAST, World, device, numbered, world};
use kvsim_engine::{CoveragePoint, Mutation, Reply, Request, Status};

const HEADER_BYTES: usize = 256 << 10;

/// Goal: a sector that was being written when the power failed, and cannot be read since, refuses no opening and loses nothing acknowledged.
/// Method: random work with power cuts that leave unreadable sectors in what they tear, also during recoveries, on devices of both sector sizes.
#[test]
fn a_torn_sector_that_cannot_be_read_is_a_torn_tail() {
    let mut unreadable = 0;
    for seed in 0..60 {
        let mut info = device([2 << 20, 8 << 20][seed as usize % 2]);
        info.sector_bytes = [512, 4096][(seed / 2) as usize % 2];
        let options = ["", "large_value_bytes=2048"][(seed / 4) as usize % 2];
        let disk = Disk::new(info, FAST, seed);
        let mut case = Case::new(seed, disk, options, 50, seed % 2 == 1);
        case.world.disk.torn_percent = 100;
        case.world.disk.unreadable_percent = 1 + case.rng.below(100);
        case.recover();
        for _ in 0..20 {
            let clients = 1 + case.rng.below(8) as usize;
            let steps = 20 + case.rng.below(600);
            case.work(steps, clients);
            case.crash();
            unreadable += case.world.disk.unreadable.len();
            case.recover();
        }
    }
    assert!(unreadable > 100, "{unreadable}");
}

/// Goal: a creation that was cut short can be taken up again, although superblocks cannot be read. Method: openings of a blank device that are
/// broken off at each step by power cuts which leave unreadable sectors, one after the other.
#[test]
fn a_creation_is_taken_up_again_where_superblocks_cannot_be_read() {
    let mut unreadable = 0;
    for seed in 0..40 {
        let disk = Disk::new(device(1 << 20), FAST, seed);
        let mut case = Case::new(seed, disk, "", 10, false);
        case.process_percent = 0;
        case.world.disk.torn_percent = 100;
        case.world.disk.unreadable_percent = 100;
        for steps in 0..150 {
            case.open_and_crash(steps);
            unreadable += case.world.disk.unreadable.len();
        }
        case.open_and_check();
        case.write_durably();
        case.crash();
        case.open_and_check();
    }
    assert!(unreadable > 100, "{unreadable}");
}

/// A database of a few writes, each acknowledged before the next was made, after a power cut.
fn written() -> World {
    let mut world = world(2 << 20, "durable_mark=off\ninline_bytes=0");
    world.open().expect("opens");
    for n in 0..8 {
        let reply = world.put(&[n], &numbered(n.into()));
        assert!(matches!(reply, Reply::Done), "{reply:?}");
    }
    world.kill();
    world.disk.power_cut();
    world
}

/// Where the values of `written` begin.
fn place_of(world: &World, n: u64) -> usize {
    let value = numbered(n);
    let mut places = world.disk.durable[HEADER_BYTES..].windows(value.len());
    HEADER_BYTES + places.position(|it| it == value).expect("it is there")
}

/// Goal: what cannot be read and is known to have been durable is reported, with its place, and nothing is written. Method: a sector of a frame that
/// a later frame states as durable; the same database opens once it can be read again.
#[test]
fn an_unreadable_sector_below_the_durable_position_is_damage() {
    let mut world = written();
    let sector = place_of(&world, 4) / 512;
    world.disk.unreadable.insert(sector);
    let before = world.disk.durable.clone();
    let (status, message) = world.open().expect_err("a value is missing");
    assert_eq!(status, Status::IoError, "{message}");
    let place = format!("damage at byte {}", sector * 512);
    assert!(
        message.contains(&place) && message.contains("cannot be read"),
        "{message}"
    );
    assert!(world.disk.durable == before && world.disk.writes > 0);
    world.kill();
    world.disk.process_crash();
    world.disk.unreadable.clear();
    world.open().expect("opens");
    assert_eq!(world.get(&[7]).as_deref(), Some(&numbered(7)[..]));
}

/// Goal: the same for what lies beyond the last statement: it may have been torn, so the rest is served, and written on. Method: a sector of the last
/// frame, which nothing states as durable.
#[test]
fn an_unreadable_sector_that_nothing_states_as_durable_is_cut_off() {
    let mut world = written();
    let sector = place_of(&world, 7) / 512;
    world.disk.unreadable.insert(sector);
    world.open().expect("opens");
    assert!(
        world
            .coverage_points()
            .contains(&CoveragePoint::SectorUnreadable)
    );
    assert_eq!(world.get(&[7]), None);
    for n in 0..7 {
        assert_eq!(world.get(&[n]).as_deref(), Some(&numbered(n.into())[..]));
    }
    assert!(matches!(world.put(b"new", b"value"), Reply::Done));
    world.kill();
    world.disk.power_cut();
    world.open().expect("opens");
    assert_eq!(world.get(b"new").as_deref(), Some(&b"value"[..]));
}

/// Goal: what could not be read for a while, and then can, is no damage: the device failed, and the next opening has everything. Method: a sector of the last frame cannot be
/// read until it counts as unreadable, and can be read when the end of the log is looked at once more.
#[test]
fn a_sector_that_can_be_read_again_is_no_damage() {
    let mut world = written();
    let sector = place_of(&world, 7) / 512;
    world.disk.unreadable.insert(sector);
    world.begin_open();
    while !world
        .coverage_points()
        .contains(&CoveragePoint::SectorUnreadable)
    {
        assert!(!matches!(world.step(), Some(Some(_))), "it opened before");
    }
    world.disk.unreadable.clear();
    match world.wait(0) {
        Reply::Failed(status, message) => {
            assert_eq!(status, Status::IoError, "{message}");
            assert!(message.contains("cannot be read"), "{message}");
        }
        opened => panic!("{opened:?}"),
    }
    world.kill();
    world.disk.process_crash();
    world.open().expect("opens");
    for n in 0..8 {
        assert_eq!(world.get(&[n]).as_deref(), Some(&numbered(n.into())[..]));
    }
}

/// Goal: a device that fails all reads from some moment on is not taken for one with torn sectors. Method: it fails from every step of an opening on;
/// the opening is refused, and the next one finds everything.
#[test]
fn a_device_that_fails_altogether_loses_nothing() {
    for steps in 0..10_000 {
        let mut world = written();
        world.begin_open();
        let answered = (0..steps).any(|_| matches!(world.step(), Some(Some(_))));
        if answered {
            assert!(steps > 10);
            return;
        }
        world.disk.fail_reads = true;
        let opened = world.wait(0);
        let refused = matches!(opened, Reply::Failed(Status::IoError, _));
        assert!(refused || matches!(opened, Reply::Done), "{opened:?}");
        world.disk.fail_reads = false;
        world.kill();
        world.disk.power_cut();
        world.open().expect("opens");
        for n in 0..8 {
            assert_eq!(world.get(&[n]).as_deref(), Some(&numbered(n.into())[..]));
        }
    }
}

/// Goal: reads that fail now and then are no unreadable sectors. Method: every read fails once or twice before it succeeds.
#[test]
fn reads_that_fail_now_and_then_lose_nothing() {
    for period in 2..5 {
        let mut world = written();
        world.disk.read_succeeds_each = period;
        world.open().expect("opens");
        world.disk.read_succeeds_each = 1;
        for n in 0..8 {
            let found = world.call(Request::Get {
                snapshot: 0,
                key: &[n],
            });
            assert!(matches!(found, Reply::Value(_)), "{period}: {found:?}");
        }
        let put = [Mutation::Put {
            key: b"new",
            value: b"value",
        }];
        let reply = world.call(Request::Write {
            mutations: &put,
            durability: kvsim_engine::Durability::Durable,
        });
        assert!(matches!(reply, Reply::Done));
    }
}
