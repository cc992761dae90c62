//! Brute force: random work from many clients, crashes at random events, also during recovery, checked against a model.

use crate::common::{Case, Disk, FAST, Rng, device};

#[derive(Debug, Default)]
struct Totals {
    cuts: u64,
    tail_rewrites: u64,
    checkpoints: u64,
    collected: u64,
    relocated: u64,
    /// Of that, from memory.
    from_cache: u64,
    log_freed: u64,
    stalls: u64,
    /// Writes refused for want of space.
    full: u64,
}

fn run(
    seed: u64,
    options: &str,
    volatile: bool,
    through: bool,
    capacity: u64,
    keys: u64,
    large: bool,
) -> Totals {
    let mut rng = Rng(seed);
    let mut info = device(capacity);
    info.volatile_cache = volatile;
    info.write_through = through;
    info.sector_bytes = if rng.chance(50) { 512 } else { 4096 };
    info.physical_block_bytes = if info.sector_bytes == 512 && rng.chance(50) {
        512
    } else {
        4096
    };
    let disk = Disk::new(info, FAST, rng.next());
    let mut case = Case::new(rng.next(), disk, options, keys, large);
    let mut totals = Totals::default();
    case.recover();
    for _ in 0..12 {
        let clients = 1 + case.rng.below(10) as usize;
        let steps = if case.rng.chance(8) {
            8000
        } else {
            20 + case.rng.below(1500)
        };
        case.work(steps, clients);
        case.check_snapshots();
        let stats = case.world.engine().stats();
        totals.checkpoints += stats.checkpoints;
        totals.collected += stats.collected_segments;
        totals.relocated += stats.relocated_bytes;
        totals.from_cache += stats.relocated_from_cache_bytes;
        totals.log_freed += stats.log_freed_segments;
        totals.stalls += stats.stalls;
        case.crash();
        let stats = case.recover();
        totals.cuts += u64::from(stats.cut_tail);
        totals.tail_rewrites += u64::from(stats.tail_rewritten);
    }
    totals.full = case.full;
    totals
}

/// Goal: nothing acknowledged is lost, whatever the device keeps. Method: the brute force above over seeds, on devices with a
/// volatile cache, with write-through, and without a cache; small enough that garbage collection and checkpoints are always at work.
/// Seed 67 once had a client wait for space for ever, with garbage collection waiting for clients to write.
#[test]
fn what_comes_back_is_a_prefix_with_everything_that_must_survive() {
    let seeds: u64 = std::env::var("KVSIM_ENGINE_SEEDS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(100);
    let first: u64 = std::env::var("KVSIM_ENGINE_FIRST")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    let mut sum = Totals::default();
    for seed in first..first + seeds {
        let options = [
            "",
            "checkpoint_bytes=65536\ncache_bytes=0",
            "commit=write_through",
            "segment_bytes=65536\nlarge_value_bytes=4096",
            "segment_bytes=65536\nlarge_value_bytes=1024\ninline_bytes=0",
        ];
        let (volatile, through) =
            [(true, false), (true, true), (false, false), (true, true)][seed as usize % 4];
        let option = options[(seed / 4) as usize % 5];
        let option = if volatile && !through && option.starts_with("commit") {
            "inline_bytes=0"
        } else {
            option
        };
        // The last ones are more than fits.
        let (capacity, keys, large) = [
            (2 << 20, 60, false),
            (8 << 20, 40, true),
            (16 << 20, 300, true),
            (1 << 20, 400, false),
            (3 << 20, 150, true),
        ][(seed / 20) as usize % 5];
        // Every third loads its index behind the openings.
        let first = ["load_first_bytes=0", "", ""][seed as usize % 3];
        let option = &format!("{option}\n{first}");
        let result = std::panic::catch_unwind(|| {
            run(seed, option, volatile, through, capacity, keys, large)
        });
        match result {
            Ok(totals) => {
                sum.cuts += totals.cuts;
                sum.checkpoints += totals.checkpoints;
                sum.collected += totals.collected;
                sum.relocated += totals.relocated;
                sum.from_cache += totals.from_cache;
                sum.log_freed += totals.log_freed;
                sum.stalls += totals.stalls;
                sum.tail_rewrites += totals.tail_rewrites;
                sum.full += totals.full;
            }
            Err(panic) => {
                eprintln!(
                    "seed {seed}, options {option:?}, volatile {volatile}, through {through}, capacity {capacity}"
                );
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{sum:?}");
    assert!(
        sum.cuts > 0 && sum.checkpoints > 0 && sum.tail_rewrites > 0,
        "the test tests something: {sum:?}"
    );
    assert!(
        seeds < 100 || sum.collected > 0 && sum.log_freed > 0 && sum.full > 0,
        "garbage collection was at work, segments were freed through the log, and devices were full: {sum:?}"
    );
    assert!(
        seeds < 100 || (1..sum.relocated).contains(&sum.from_cache),
        "live records came from memory and from the device: {sum:?}"
    );
}
