//! What an opening refuses, and what it formats: blank devices and others, other versions of the format, wrong configurations, devices that are too
//! small.

use crate::common::{Disk, FAST, World, device, world};
use kvsim_engine::{Reply, Status};

/// Goal: nothing that is not blank is formatted over. Method: garbage in many places.
#[test]
fn only_a_blank_device_is_formatted() {
    for at in [0, 70_000, 196_608, 262_144, 400_000] {
        let mut world = world(1 << 20, "");
        world.disk.damage(|bytes| bytes[at] = 1);
        if at == 0 {
            // One half of the copies as garbage is what an interrupted creation leaves.
            world.open().expect("opens");
            continue;
        }
        let opened = world.open();
        if at == 196_608 {
            opened.expect("opens");
            continue;
        }
        assert_eq!(opened.expect_err("not blank").0, Status::Corruption, "{at}");
    }
}

/// Goal: what a creation has left is formatted over, also where garbage is in both halves of the copies; a database that was written to never is.
/// Method: garbage in the place of all copies of a database without a write, and of one with a single one.
#[test]
fn garbage_in_both_halves_is_what_a_creation_may_leave() {
    for written in [false, true] {
        let mut world = world(1 << 20, "");
        world.open().expect("opens");
        if written {
            assert!(matches!(world.put(b"key", b"value"), Reply::Done));
        }
        world.kill();
        world.disk.power_cut();
        world.disk.damage(|bytes| {
            for at in [0, 65_536, 131_072, 196_608] {
                bytes[at..at + 512].fill(0xa5);
            }
        });
        match (written, world.open()) {
            (false, opened) => opened.expect("opens"),
            (true, opened) => {
                let (status, _) = opened.expect_err("there is a log");
                assert_eq!(status, Status::Corruption);
            }
        }
    }
}

/// Goal: a database of another version of the format is refused as that, and damage is not taken for it. Method: another version in all copies of the
/// superblock, and different ones.
#[test]
fn another_format_version_is_refused_as_that() {
    const COPIES_AT: [usize; 4] = [0, 65_536, 131_072, 196_608];
    let refused = |versions: [u8; 4]| {
        let mut world = world(1 << 20, "");
        world.open().expect("opens");
        world.kill();
        world.disk.process_crash();
        let before = world.disk.durable.clone();
        world.disk.damage(|bytes| {
            for (at, version) in COPIES_AT.into_iter().zip(versions) {
                assert_eq!(&bytes[at..at + 8], b"KVSIMSB1");
                bytes[at + 8] = version;
            }
        });
        let opened = world.open();
        let overwritten = (0..before.len())
            .filter(|at| world.disk.durable[*at] != before[*at])
            .count();
        assert!(overwritten <= 4, "nothing is formatted over");
        opened
    };
    let (status, message) = refused([1; 4]).expect_err("another version");
    assert_eq!(status, Status::Invalid);
    assert!(message.contains("format version 1,"), "{message}");
    let (status, _) = refused([1, 1, 1, 9]).expect_err("they differ");
    assert_eq!(status, Status::Corruption);
}

/// Goal: a device with large blocks gets segments that hold four of them, without anybody asking. Method: a small device with blocks of 32 KiB.
#[test]
fn segments_fit_the_blocks() {
    let mut info = device(2 << 20);
    info.physical_block_bytes = 32 << 10;
    let mut world = World::new(Disk::new(info, FAST, 1), "");
    world.open().expect("it has room for 14 of 128 KiB");
}

/// Goal: a wrong configuration is a reply. Method: each kind.
#[test]
fn a_wrong_configuration_is_invalid() {
    for options in ["nonsense=1", "commit=write_through", "segment_bytes=8192"] {
        let mut world = world(1 << 20, options);
        assert_eq!(world.open().expect_err(options).0, Status::Invalid);
    }
    assert_eq!(
        world(300_000, "").open().expect_err("too small").0,
        Status::NoSpace
    );
}

/// Goal: a device on which no write would ever be accepted is refused when a database is to be created on it, and the message says how many segments are
/// needed; with so many, writes are accepted for ever. Method: devices that grow by one segment, with several options; overwrites of the longest key and of
/// usual ones, and an opening after a power cut.
#[test]
fn a_device_is_refused_at_creation_or_takes_writes() {
    for (block_bytes, segment_bytes, options) in [
        (4_096, 65_536, ""),
        (512, 16_384, ""),
        (4_096, 16_384, ""),
        (4_096, 16_384, "\ninline_bytes=0"),
        (4_096, 65_536, "\nwrite_buffer_bytes=1048576"),
        (32_768, 131_072, ""),
    ] {
        let options = format!("segment_bytes={segment_bytes}{options}");
        let world = |segments: u64| {
            let mut info = device((256 << 10) + segments * segment_bytes);
            info.physical_block_bytes = block_bytes;
            World::new(Disk::new(info, FAST, 1), &options)
        };
        let mut refused = String::new();
        let smallest = (1..100).find(|segments| match world(*segments).open() {
            Ok(()) => true,
            Err((status, message)) => {
                assert_eq!(status, Status::NoSpace, "{segments} segments");
                refused = message;
                false
            }
        });
        let smallest = smallest.expect("some size is accepted");
        let says = format!("takes {smallest}");
        assert!(refused.ends_with(&says), "{options}: {refused}");
        let mut world = world(smallest);
        world.open().expect("opens");
        let long = [7; 1_024];
        for turn in 0..300_u64 {
            let value = [turn.to_le_bytes()[0]; 100];
            for key in [&long[..], b"a", b"b"] {
                let reply = world.put(key, &value);
                assert!(matches!(reply, Reply::Done), "{options}, {turn}: {reply:?}");
            }
            if turn % 100 == 50 {
                world.kill();
                world.disk.power_cut();
                world.open().expect("opens again");
            }
            assert_eq!(world.get(&long).as_deref(), Some(&value[..]));
        }
    }
}

/// Goal: a device that ends among the superblocks or before the first segment is refused, and nothing is asked of it beyond its end: a blank one for want of
/// room, one that a database was on for what it lacks. Method: such sizes, on a test device that asserts where it is read; the last with the beginning of a database.
#[test]
fn a_device_that_ends_among_the_superblocks_is_refused() {
    for capacity_bytes in [4_096, 32_768, 69_632, 200_704, 299_008] {
        let (status, message) = world(capacity_bytes, "").open().expect_err("too small");
        assert_eq!(status, Status::NoSpace, "{capacity_bytes}: {message}");
    }
    let mut whole = world(1 << 20, "");
    whole.open().expect("opens");
    for capacity_bytes in [4_096, 32_768, 200_704] {
        let mut cut = world(capacity_bytes, "");
        let beginning = &whole.disk.durable[..cut.disk.durable.len()];
        cut.disk.durable.copy_from_slice(beginning);
        cut.disk.power_cut();
        let (status, message) = cut.open().expect_err("the rest is missing");
        assert_eq!(status, Status::Corruption, "{capacity_bytes}: {message}");
    }
}

/// Goal: a part of the log that was cut off in an epoch before is never taken for the one that was written in its place, however well it fits. Method: two futures of one database, each
/// with a frame of the same length at the same place; one gets the log of the other, as a device does that loses a write or shows what was there before.
#[test]
fn a_log_of_another_future_is_damage() {
    const LOG: std::ops::Range<usize> = 262_144..327_680;
    let options = "segment_bytes=65536";
    let image = |world: &mut crate::common::World| {
        // Until it has stated that all of it is durable.
        world.run_until_idle();
        killed(world)
    };
    let of = |bytes: &[u8]| {
        let mut world = world(1 << 20, options);
        world.disk.load(bytes.to_vec());
        world.open().expect("opens");
        world
    };
    let mut new = world(1 << 20, options);
    new.open().expect("opens");
    let created = image(&mut new);

    let mut cut = of(&created);
    assert!(matches!(cut.put(b"key", b"one future"), Reply::Done));
    let cut = image(&mut cut);
    let mut kept = of(&image(&mut of(&created)));
    assert!(matches!(kept.put(b"key", b"the other."), Reply::Done));
    let kept = image(&mut kept);
    // This opening begins an epoch behind the frame, and writes nothing into it.
    let mut opened = image(&mut of(&kept));
    assert_eq!(of(&opened).get(b"key").as_deref(), Some(&b"the other."[..]));
    assert_ne!(opened[LOG], cut[LOG]);

    opened[LOG].copy_from_slice(&cut[LOG]);
    let mut mixed = world(1 << 20, options);
    mixed.disk.load(opened);
    let (status, message) = mixed.open().expect_err("another log");
    assert_eq!(status, Status::Corruption);
    assert!(message.contains("last frame before the epoch"), "{message}");
}

/// Everything that was asked of the device reaches the medium, and the process is gone: the image.
fn killed(world: &mut crate::common::World) -> Vec<u8> {
    world.kill();
    world.disk.process_crash();
    world.disk.keep_all();
    world.disk.durable.clone()
}

/// Goal: an opening that misreads the only copy of the newest superblock does not begin with the one before, whose segments may be used again. Method: a publication that
/// was cut short, and a read of its copy that brings what was there before.
#[test]
fn a_misread_superblock_is_read_again() {
    const AT: [usize; 4] = [0, 65_536, 131_072, 196_608];
    let generation = |bytes: &[u8], at: usize| {
        u64::from_le_bytes(bytes[at + 32..at + 40].try_into().expect("8"))
    };
    let mut world = world(1 << 20, "");
    world.open().expect("opens");
    let before = killed(&mut world);
    world.open().expect("opens");
    let after = killed(&mut world);
    let first = AT.into_iter().find(|at| after[at + 12] == 1);
    let first = first.expect("a copy of the first turn");
    let mut image = after.clone();
    for at in AT.into_iter().filter(|at| *at != first) {
        image[at..at + 512].copy_from_slice(&before[at..at + 512]);
    }
    world.disk.load(image);
    world.disk.older.clone_from(&before);
    world.disk.misreads.insert(first, 1);
    world.open().expect("opens");
    let published = generation(&killed(&mut world), first);
    assert_eq!(published, generation(&after, first) + 2);
}

/// Goal: a large value at the log's end is not taken for one that never came, because reads of it come from elsewhere. Method: one and two such reads.
#[test]
fn a_misread_value_at_the_end_is_read_again() {
    let value: Vec<u8> = crate::common::bytes(7, 5_000);
    for misreads in [1, 2] {
        let mut world = world(1 << 20, "large_value_bytes=1024");
        world.open().expect("opens");
        // The first block of a segment is read for other reasons, too.
        assert!(matches!(world.put(b"first", &value[1..]), Reply::Done));
        assert!(matches!(world.put(b"key", &value), Reply::Done));
        let image = killed(&mut world);
        let at = image.windows(64).position(|bytes| *bytes == value[..64]);
        world.disk.older = vec![0; image.len()];
        world.disk.misreads.insert(at.expect("is there"), misreads);
        world.open().expect("opens");
        assert!(world.disk.misreads.values().all(|left| *left == 0));
        assert_eq!(world.get(b"key").as_deref(), Some(&value[..]), "{misreads}");
    }
}

/// Goal: two reads that show an end of the log where there is none cut nothing off. Method: what was there before the last write, read once and twice: the opening says that the
/// device contradicts itself, and the next one has the write.
#[test]
fn a_misread_end_of_the_log_is_read_again() {
    const LOG: usize = 262_144;
    for misreads in [1, 2] {
        let mut world = world(1 << 20, "segment_bytes=65536");
        world.open().expect("opens");
        assert!(matches!(world.put(b"one", b"1"), Reply::Done));
        world.disk.older = world.disk.durable.clone();
        assert!(matches!(world.put(b"two", b"2"), Reply::Done));
        killed(&mut world);
        world.disk.misreads.insert(LOG, misreads);
        let (status, message) = world.open().expect_err("a contradiction");
        assert_eq!(status, Status::Corruption);
        assert!(message.contains("not there when it was read"), "{message}");
        world.kill();
        world.open().expect("opens");
        for (key, value) in [(b"one", b"1"), (b"two", b"2")] {
            assert_eq!(world.get(key).as_deref(), Some(&value[..]), "{misreads}");
        }
    }
}
