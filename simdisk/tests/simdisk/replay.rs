//! Any sequence of operations: the same seed gives the same run, its script replays it, a fork goes on as the original.

use crate::common::{SECTOR, SECTORS, config};
use kvsim_simdisk::{
    Completion, CrashKind, CrashState, Device, DeviceConfig, FaultConfig, FaultKind, LatencyConfig,
    Op, ScriptedFault, TimingConfig,
};
use quickcheck::{Gen, QuickCheck};

/// Everything at once.
fn all_faults() -> FaultConfig {
    FaultConfig {
        garbage: 0.3,
        byte_tear: 0.3,
        read_error: 0.05,
        write_error: 0.05,
        flush_error: 0.1,
        persistent: 0.1,
        no_space: 0.02,
        flush_lie: 0.05,
        lost_write: 0.02,
        misdirected_write: 0.02,
        misdirected_read: 0.05,
        stale_read: 0.05,
        bit_rot: 0.05,
        latent_sector_error: 0.02,
        ..FaultConfig::default()
    }
}

fn varied() -> DeviceConfig {
    let latency = LatencyConfig {
        min_ns: 10,
        p50_ns: 100,
        p90_ns: 300,
        p99_ns: 1000,
        p999_ns: 3000,
        max_ns: 9000,
        means_ns: None,
    };
    let timing = TimingConfig {
        read: latency,
        write: latency,
        write_through: latency,
        flush: latency,
        stall: 0.01,
        stall_ns: 5000,
        ..config().timing
    };
    DeviceConfig { timing, ..config() }
}

/// What came out of a run.
#[derive(Debug, PartialEq)]
struct Outcome {
    completions: Vec<Completion>,
    crashes: Vec<CrashState>,
    image: u128,
    fired: Vec<ScriptedFault>,
}

/// A run that depends on `ops` alone, with two power cuts.
fn run(faults: &FaultConfig, seed: u64, ops: &[u8]) -> Outcome {
    let mut device = Device::new(&varied(), faults, seed).unwrap();
    let (mut completions, mut crashes, mut now) = (Vec::new(), Vec::new(), 0);
    for (number, &byte) in ops.iter().enumerate() {
        let offset = u64::from(byte) * 7 % (SECTORS - 4) * SECTOR;
        let data =
            || vec![byte; usize::try_from(SECTOR).unwrap() * (1 + usize::from(byte) % 4)].into();
        let op = match byte % 8 {
            0 => Op::Flush,
            1 => Op::Discard {
                offset,
                len_bytes: 512,
            },
            2 => Op::Grow {
                new_bytes: (SECTORS + u64::from(byte) / 32 * 8) * SECTOR,
            },
            3 => Op::Write {
                offset,
                data: data(),
                through: true,
            },
            4 | 5 => Op::Read {
                offset,
                len_bytes: 1024,
            },
            _ => Op::Write {
                offset,
                data: data(),
                through: false,
            },
        };
        now += 40;
        device.submit(now, number as u64, op).unwrap();
        while device.next_completion_at().is_some_and(|at| at <= now) {
            completions.extend(device.complete_next());
        }
        if number % (ops.len() / 2 + 1) == ops.len() / 2 {
            let state = device.draw_crash();
            device
                .crash(now, CrashKind::Power, &state)
                .expect("what is drawn is legal");
            crashes.push(state);
        }
    }
    let fired = device.fired_script().to_vec();
    Outcome {
        completions,
        crashes,
        image: device.image_hash(),
        fired,
    }
}

fn check(property: fn(u64, Vec<u8>) -> bool) {
    // The seed is quickcheck's size and count; its own randomness only chooses inputs, and a failure prints them.
    QuickCheck::new()
        .rng(Gen::from_size_and_seed(400, 0x6b76_7369_6d00_0001))
        .tests(150)
        .quickcheck(property);
}

/// Goal: same seed, same everything. Method: twice, with all faults.
#[test]
fn the_same_seed_gives_the_same_run() {
    check(|seed, ops| run(&all_faults(), seed, &ops) == run(&all_faults(), seed, &ops));
}

/// Goal: every fault that fired is in the script, and the script alone gives the same run. Method: run, replay, compare.
#[test]
fn a_run_replays_from_its_script() {
    check(|seed, ops| {
        let first = run(&all_faults(), seed, &ops);
        let again = run(&all_faults().scripted(first.fired.clone()), seed, &ops);
        first == again
    });
}

/// Goal: a fork goes on as the original. Method: clone in the middle.
#[test]
fn a_clone_goes_on_alike_and_apart() {
    let mut one = Device::new(&varied(), &all_faults(), 3).unwrap();
    let op = |fill: u8| Op::Write {
        offset: 0,
        data: vec![fill; 512].into(),
        through: false,
    };
    one.submit(0, 0, op(1)).unwrap();
    let mut two = one.clone();
    for device in [&mut one, &mut two] {
        device.submit(1, 1, op(2)).unwrap();
    }
    assert_eq!(one.draw_crash(), two.draw_crash());
    assert_eq!(one.complete_next(), two.complete_next());
    assert_eq!(one.image_hash(), two.image_hash());
    two.submit(2, 2, op(3)).unwrap();
    assert_ne!(one.image_hash(), two.image_hash());
}

/// Goal: bad sectors belong to the state. Method: the same bytes, with and without an unreadable sector.
#[test]
fn a_hash_tells_bad_sectors_apart() {
    let device = |sector: Option<u64>| {
        let script = sector.map(|sector| ScriptedFault {
            persistent: Some(true),
            at_bytes: Some(sector * SECTOR),
            ..ScriptedFault::new(0, FaultKind::ReadError)
        });
        let faults = FaultConfig {
            script: script.into_iter().collect(),
            ..FaultConfig::default()
        };
        let mut device = Device::new(&config(), &faults, 1).unwrap();
        device
            .submit(
                0,
                0,
                Op::Read {
                    offset: 0,
                    len_bytes: 4096,
                },
            )
            .unwrap();
        device.image_hash()
    };
    assert_eq!(device(Some(1)), device(Some(1)));
    assert_ne!(device(None), device(Some(1)));
    assert_ne!(device(Some(1)), device(Some(2)));
}
