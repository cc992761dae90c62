//! The empty frame that only states a durable position: it may be the first in its segment.

use crate::common::{Disk, FAST, World, device};

const BLOCK: u64 = 4096;
const SEGMENT: u64 = 65_536;
/// Two segments full, and some.
const WRITES: u64 = 40;
const SEEDS: u64 = 8;

/// Writes one key so often, and goes on until the mark that follows is on its way.
fn with_a_mark_on_its_way(
    through: bool,
    seed: u64,
    writes: u64,
    checkpoint_bytes: u64,
) -> Option<World> {
    let mut info = device(1 << 20);
    info.write_through = through;
    let options = format!("segment_bytes={SEGMENT}\ncheckpoint_bytes={checkpoint_bytes}");
    let mut world = World::new(Disk::new(info, FAST, seed), &options);
    world.open().expect("opens");
    for n in 0..writes {
        world.put(b"key", &n.to_le_bytes());
    }

    // Everything else will overtake it.
    world.disk.times.write = 1_000_000_000;
    let before = world.disk.writes;
    while world.disk.writes == before {
        world.step()?;
    }
    world.disk.times = FAST;
    Some(world)
}

/// Goal: a checkpoint that begins behind a mark is only published when the mark is durable, since the mark may hold the header of
/// the segment in which replay starts. Method: let marks, the slowest writes of all, be what makes a checkpoint due; whenever one is
/// published, the power fails; the database must open, with the last write.
#[test]
fn a_checkpoint_waits_for_a_mark_that_entered_a_segment() {
    let mut checkpoints = 0;
    let cases = (0..2 * SEEDS * WRITES * 4).map(|n| {
        let (through, seed) = (n % 2 == 1, n / 2 % SEEDS);
        let writes = 1 + n / 2 / SEEDS % WRITES;
        (through, seed, writes, n / 2 / SEEDS / WRITES)
    });
    for (through, seed, writes, more) in cases {
        let checkpoint_bytes = ((writes + more) * BLOCK).max(SEGMENT);
        let Some(mut world) = with_a_mark_on_its_way(through, seed, writes, checkpoint_bytes)
        else {
            continue;
        };
        let before = world.engine().stats().checkpoints;
        // Any request makes the engine look for what is due.
        world.get(b"key");
        while world.engine().stats().checkpoints == before && world.step().is_some() {}
        checkpoints += world.engine().stats().checkpoints - before;
        world.kill();
        world.disk.power_cut();
        if let Err(error) = world.open() {
            panic!("through {through}, seed {seed}, {writes} writes, {more} more: {error:?}");
        }
        let last = (writes - 1).to_le_bytes();
        assert_eq!(world.get(b"key").as_deref(), Some(&last[..]));
    }
    assert!(checkpoints > 0, "no mark made a checkpoint due");
}
