//! What was read is not therefore on the medium: failed flushes, restarts in the same cache, and crashes while recovery writes
//! anew what nothing states as durable.

use crate::common::{Case, Disk, FAST, Rng, World, bytes, device};
use kvsim_engine::{Reply, Request, Status};

/// Seeds from `KVSIM_ENGINE_FIRST`, `KVSIM_ENGINE_SEEDS` of them.
fn each_seed(usual: u64, mut run: impl FnMut(u64)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse().ok());
    let first: u64 = number("KVSIM_ENGINE_FIRST").unwrap_or(0);
    let seeds: u64 = number("KVSIM_ENGINE_SEEDS").unwrap_or(usual);
    for seed in first..first + seeds {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(seed)));
        if let Err(panic) = result {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// A case whose sizes and options go through all combinations with the seed.
fn case(seed: u64) -> Case {
    let options = [
        "",
        "large_value_bytes=2048",
        "inline_bytes=0\ncheckpoint_bytes=65536",
        "cache_bytes=0\nlarge_value_bytes=1024\ninline_bytes=0",
    ][seed as usize % 4];
    // The last two are more than fits.
    let (capacity, keys, large) = [
        (2 << 20, 60, false),
        (8 << 20, 40, true),
        (1 << 20, 400, false),
        (3 << 20, 150, true),
    ][(seed / 4) as usize % 4];
    let mut rng = Rng(seed ^ 0x5eed);
    let mut info = device(capacity);
    info.write_through = rng.chance(30);
    if rng.chance(50) {
        info.sector_bytes = 4096;
    }
    let disk = Disk::new(info, FAST, rng.next());
    Case::new(rng.next(), disk, options, keys, large)
}

/// Goal: a failed flush loses nothing that was or will be acknowledged, however long the cache goes on showing what was dropped.
/// Method: random work with failing flushes (also in recovery), mostly restarts of the process, and power cuts between.
#[test]
fn what_a_failed_flush_dropped_is_never_relied_upon() {
    let (mut tail_rewrites, mut bytes) = (0, 0);
    each_seed(300, |seed| {
        let mut case = case(seed);
        case.process_percent = 70;
        case.recover();
        for _ in 0..20 {
            case.world.disk.flush_errors_percent = 1 + case.rng.below(15);
            case.world.disk.torn_percent = [40, 100][case.rng.below(2) as usize];
            case.world.disk.garbage_percent = [20, 100][case.rng.below(2) as usize];
            let clients = 1 + case.rng.below(8) as usize;
            let steps = 20 + case.rng.below(600);
            case.work(steps, clients);
            case.crash();
            let stats = case.recover();
            tail_rewrites += u64::from(stats.tail_rewritten);
            bytes += stats.tail_rewrite_bytes;
        }
    });
    println!("{tail_rewrites} rewrites of the tail of {bytes} bytes");
    assert!(tail_rewrites > 0 && bytes > 0, "there was something to do");
}

/// Goal: damage of a copy of the superblock does not make an unproven one proven. Method: bring a database to a state in which one half of the
/// copies is in the cache only, since a flush failed, and the next opening rewrites the unproven tail; damage a copy of the other half; then cut the power at every step of
/// that opening, and recover.
#[test]
fn a_damaged_copy_of_the_superblock_proves_nothing() {
    each_seed(12, |seed| {
        let disk = Disk::new(device(1 << 20), FAST, seed);
        let options = "inline_bytes=0\ncheckpoint_bytes=4096\nsegment_bytes=16384";
        let mut case = Case::new(seed, disk, options, 40, false);
        case.process_percent = 100;
        let start = loop {
            case.open_and_check();
            case.world.disk.flush_errors_percent = 10;
            let steps = 200 + case.rng.below(2000);
            case.work(steps, 4);
            case.crash();
            case.world.disk.flush_errors_percent = 0;
            let dropped = case.world.disk.dropped_half();
            if dropped.is_some() && case.copy(1).open_and_check().tail_rewrite_bytes > 0 {
                break case;
            }
            // What was dropped is seen no more.
            case.world.disk.power_cut();
        };
        let half = start.world.disk.dropped_half().expect("just seen");
        for steps in 1.. {
            let mut case = start.copy(seed << 32 | steps);
            case.process_percent = 0;
            case.world.disk.torn_percent = 20;
            case.world.disk.rot((1 - half) * 65_536 + 40);
            let answered = case.open_and_crash(steps);
            case.open_and_check();
            case.write_durably();
            if answered {
                break;
            }
        }
    });
}

/// Goal: a crash at any step of a recovery that rewrites the unproven tail changes nothing. Method: bring a database to such a state; then for every
/// step of its opening: open a copy that far, crash it, by power or process, now and then once more; and recover, write, crash
/// and recover again.
#[test]
fn a_crash_at_any_step_of_a_tail_rewrite_changes_nothing() {
    let (mut tail_rewrites, mut bytes) = (0, 0);
    each_seed(16, |seed| {
        let mut case = case(seed);
        case.process_percent = 50;
        case.recover();
        let start = loop {
            let clients = 1 + case.rng.below(6) as usize;
            let steps = 200 + case.rng.below(3000);
            case.world.disk.flush_errors_percent = 5;
            case.work(steps, clients);
            case.crash();
            case.world.disk.flush_errors_percent = 0;
            let mut reference = case.copy(1);
            let stats = reference.open_and_check();
            if stats.tail_rewrite_bytes > 0 {
                tail_rewrites += 1;
                bytes += stats.tail_rewrite_bytes;
                break case;
            }
            case.open_and_check();
        };
        for steps in 1.. {
            let mut case = start.copy(seed << 32 | steps);
            let answered = case.open_and_crash(steps);
            while case.rng.chance(40) {
                let steps = case.rng.below(steps + 20);
                case.open_and_crash(steps);
            }
            case.open_and_check();
            case.write_durably();
            case.world.kill();
            case.world.disk.power_cut();
            case.open_and_check();
            if answered {
                break;
            }
        }
    });
    println!("{tail_rewrites} rewrites of the tail of {bytes} bytes");
    assert!(bytes > 0, "there was something to do");
}

/// Goal: a device that is as full as it gets can always be opened, also when every process run lasts only long enough to
/// make the next recovery rewrite the unproven tail. Method: fill it, then crash after every few writes, hundreds of times, with values in the log and
/// in extents; in the end there must still be a way out by deleting.
#[test]
fn a_full_device_opens_however_often_it_crashes() {
    each_seed(8, |seed| {
        let options = [
            "",
            "large_value_bytes=1024",
            "inline_bytes=0\ncheckpoint_bytes=1000000",
            "large_value_bytes=1024\ninline_bytes=0",
        ][seed as usize % 4];
        let (capacity, large) = [(1 << 20, false), (3 << 20, true)][(seed / 4) as usize % 2];
        let mut disk = Disk::new(device(capacity), FAST, seed);
        disk.times.spread = seed % 5;
        let mut case = Case::new(seed, disk, options, 1 << 40, large);
        case.open_and_check();
        while case.full < 20 {
            case.work(100, 8);
        }
        let mut tail_rewrites = 0;
        for _ in 0..300 {
            case.crash();
            tail_rewrites += u64::from(case.recover().tail_rewritten);
            case.keys = [1 << 40, 100][case.rng.below(2) as usize];
            let steps = [40, 400][case.rng.below(2) as usize];
            let steps = case.rng.below(steps);
            let clients = [8, 100][case.rng.below(2) as usize];
            if large && case.rng.chance(30) {
                let bytes = case.rng.below(600_000);
                case.submit_large(bytes);
            }
            if case.rng.chance(2) {
                case.delete_half();
            }
            case.work(steps, clients);
        }
        assert!(tail_rewrites > 30, "{tail_rewrites}");
        case.crash();
        case.open_and_check();
        case.delete_half();
        let before = case.full;
        case.write_durably();
        assert_eq!(case.full, before, "deleting makes room");
    });
}

/// Goal: what one opening keeps back is enough for the next, whatever options that has. Method: for each pair of options fill a device with new keys, write
/// many of them anew, all acknowledged and nothing stated as durable, cut the power, and open it with the other options.
#[test]
fn the_reserve_of_one_opening_is_enough_for_another() {
    let (mut tail_rewrites, mut refused) = (0, 0);
    for (at, one) in OPTIONS.iter().enumerate() {
        for other in OPTIONS {
            for value_bytes in [10, 100, 1000, 1500] {
                let mut info = device(2 << 20);
                info.physical_block_bytes = [4096, 8192, 16_384][at % 3];
                let options = format!("checkpoint_bytes=1000000000\nsegment_bytes=65536\n{one}");
                let mut world = World::new(Disk::new(info, FAST, 1), &options);
                world.open().expect("opens");
                let value = |n: u64| bytes(n, value_bytes);
                let mut n = 0_u64;
                while matches!(world.put_relaxed(&n.to_be_bytes(), &value(n)), Reply::Done) {
                    n += 1;
                    assert!(n < 100_000, "never full");
                }
                world.call(Request::Sync);
                for anew in 0..(n / 2).min(60) {
                    world.put_relaxed(&anew.to_be_bytes(), &value(anew));
                }
                assert!(matches!(world.call(Request::Sync), Reply::Done));
                world.kill();
                world.disk.power_cut();
                world.options = other.to_owned();
                let opened = world.open();
                assert!(
                    opened.is_ok(),
                    "{one:?}, {other:?}, {value_bytes}: {opened:?}"
                );
                tail_rewrites += u64::from(world.engine().stats().tail_rewritten);
                for n in 0..n {
                    let found = world.get(&n.to_be_bytes());
                    assert!(found == Some(value(n)), "{one:?}, {other:?}, {value_bytes}");
                }
                let moved = other.contains("inline_bytes=0") && !one.contains("inline_bytes=0");
                match world.delete(&[0; 8]) {
                    Reply::Done => {}
                    // Small values of a full device that the log has to take from the index: they do not fit then, which no option of the other opening foresaw.
                    Reply::Failed(Status::NoSpace, _) if moved && value_bytes == 10 => refused += 1,
                    reply => panic!("{one:?}, {other:?}, {value_bytes}: {reply:?}"),
                }
            }
        }
    }
    assert!(refused <= 4, "{refused} of 256 full devices take no delete");
    assert!(tail_rewrites > 100, "{tail_rewrites}");
}

/// What may differ from one opening to the next.
const OPTIONS: [&str; 8] = [
    "",
    "inline_bytes=0",
    "inline_bytes=1024",
    "frame_bytes=4096\ninline_bytes=0",
    "large_value_bytes=1024\ninline_bytes=0",
    "large_value_bytes=1024\ninline_bytes=1024\nframe_bytes=4096",
    "checkpoint_bytes=1000000\nusable_percent=50\ncache_bytes=0",
    "write_buffer_bytes=4096\nusable_percent=90\ndurable_mark=off",
];

/// Goal: a database that is as full as it gets opens with any other options. Method: for each pair of options fill it with the one, and go on with
/// the other and the one in turn, crashing after every few writes.
#[test]
fn a_full_device_opens_with_other_options() {
    let pairs = OPTIONS.len() as u64 * OPTIONS.len() as u64;
    each_seed(pairs, |seed| {
        let (one, other) = (seed % 8, seed / 8 % 8);
        let (one, other) = (OPTIONS[one as usize], OPTIONS[other as usize]);
        let mut info = device([3 << 19, 3 << 20][(seed / 5) as usize % 2]);
        info.physical_block_bytes = [4096, 16_384][(seed / 3) as usize % 2];
        let disk = Disk::new(info, FAST, seed);
        let mut case = Case::new(seed, disk, one, 1 << 40, false);
        case.open_and_check();
        while case.full < 10 {
            case.work(100, 8);
        }
        for round in 0..12 {
            case.crash();
            case.world.options = [other, one][round % 2].to_owned();
            case.recover();
            case.keys = [1 << 40, 100][case.rng.below(2) as usize];
            let steps = case.rng.below(500);
            case.work(steps, 20);
        }
        case.crash();
        case.open_and_check();
    });
}

/// Goal: of the superblock's copies, some are always on the medium and whole. Method: nothing but openings, each broken off at
/// some step, by power cuts that leave garbage wherever they can and by process crashes after failed flushes.
#[test]
fn openings_broken_off_one_after_the_other_leave_a_superblock() {
    each_seed(150, |seed| {
        let disk = Disk::new(device(1 << 20), FAST, seed);
        let mut case = Case::new(seed, disk, "", 10, false);
        case.world.disk.torn_percent = 100;
        case.world.disk.garbage_percent = 100;
        case.process_percent = 30;
        case.open_and_check();
        case.write_durably();
        for _ in 0..300 {
            case.world.disk.flush_errors_percent = 10;
            let steps = case.rng.below(60);
            case.open_and_crash(steps);
            if case.rng.chance(10) {
                case.world.disk.flush_errors_percent = 0;
                case.open_and_check();
                case.write_durably();
                case.crash();
            }
        }
        case.open_and_check();
    });
}
