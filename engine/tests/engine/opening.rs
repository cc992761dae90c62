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
    let (status, _) = refused([1, 1, 1, 7]).expect_err("they differ");
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
