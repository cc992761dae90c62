//! Determinism: seeds, scripts, replay, and that faults leave each other alone. And time: stalls, queues, serial flushes.

use crate::common::{Rig, SECTORS, config, discard, honest, read, write};
use kvsim_simdisk::rng::{Purpose, Rng};
use kvsim_simdisk::{
    Completion, CrashKind, Device, DeviceConfig, FaultConfig, FaultKind, LatencyConfig, Op,
    ScriptedFault, TimingConfig,
};

/// Everything at once, often.
fn everything() -> FaultConfig {
    FaultConfig {
        read_error: 0.05,
        write_error: 0.05,
        flush_error: 0.1,
        persistent: 0.2,
        drop_dirty: 0.5,
        no_space: 0.05,
        flush_lie: 0.1,
        lost_write: 0.05,
        misdirected_write: 0.05,
        misdirected_read: 0.05,
        stale_read: 0.1,
        bit_rot: 0.05,
        latent_sector_error: 0.02,
        garbage: 0.3,
        torn_unreadable: 0.3,
        byte_tear: 0.3,
        ..FaultConfig::default()
    }
}

fn varied() -> DeviceConfig {
    DeviceConfig {
        timing: TimingConfig {
            stall: 0.02,
            ..TimingConfig::default()
        },
        ..config()
    }
}

/// A mixed load with cuts, the same for every device; all completions, and the device after it.
fn load(device: &DeviceConfig, faults: &FaultConfig, seed: u64) -> (Vec<Completion>, Device) {
    let mut rig = Rig::new(device, faults, seed);
    let mut rng = Rng::new(99, Purpose::Test);
    let mut all = Vec::new();
    for step in 0..1500_u64 {
        let (sector, count) = (rng.below(SECTORS - 4), rng.range(1, 4));
        let op = match rng.below(8) {
            0..4 => write(
                sector,
                count,
                u8::try_from(1 + step % 255).unwrap(),
                rng.chance(0.2),
            ),
            4 | 5 => read(sector, count),
            6 => Op::Flush,
            _ => discard(sector, count),
        };
        rig.submit(op);
        if rng.chance(0.3) {
            while rig.device.in_flight() > 0 {
                all.push(rig.complete());
            }
        }
        if step % 200 == 199 {
            let state = rig.device.draw_crash();
            rig.device
                .crash(rig.now, CrashKind::Power, &state)
                .expect("what is drawn is legal");
        }
    }
    (all, rig.device)
}

/// Goal: the seed decides everything. Method: the same load twice with one seed, and with another.
#[test]
fn the_same_seed_gives_the_same_run() {
    let (one, first) = load(&varied(), &everything(), 1);
    let (two, second) = load(&varied(), &everything(), 1);
    assert_eq!(one, two);
    assert_eq!(
        (first.image_hash(), first.counts()),
        (second.image_hash(), second.counts())
    );
    let (other, _) = load(&varied(), &everything(), 2);
    assert_ne!(one, other);
}

/// Goal: what fired, given as a script with all chances off, gives the same run, each fault of it counted alike.
#[test]
fn a_fired_script_replays_the_run() {
    for seed in 0..20 {
        let (before, recorded) = load(&varied(), &everything(), seed);
        let script = recorded.fired_script().to_vec();
        let replay = everything().scripted(script.clone());
        let (after, replayed) = load(&varied(), &replay, seed);
        assert_eq!(before, after, "seed {seed}");
        assert_eq!(replayed.fired_script(), script);
        assert_eq!(replayed.image_hash(), recorded.image_hash());
        for (kind, count) in recorded.counts().iter() {
            assert_eq!(count.fired, replayed.counts().get(kind).fired, "{kind:?}");
        }
    }
}

/// Goal: nothing that a scenario can ask for stays unseen. Method: all kinds fired in the mixed loads.
#[test]
fn every_kind_of_fault_fires() {
    let mut counts = kvsim_simdisk::FaultCounts::default();
    for seed in 0..20 {
        counts.add(load(&varied(), &everything(), seed).1.counts());
    }
    for (kind, count) in counts.iter() {
        assert!(
            count.fired > 0 && count.fired <= count.possible,
            "{kind:?}: {count:?}"
        );
    }
}

/// Goal: turning one fault on does not move the draws of another. Method: read errors at the same operations, whatever else
/// is on; and the same crash states drawn, garbage or not.
#[test]
fn one_fault_does_not_move_another() {
    let failed = |faults: &FaultConfig| {
        let device = load(&config(), faults, 5).1;
        let of = |fault: &&ScriptedFault| fault.kind == FaultKind::ReadError;
        device
            .fired_script()
            .iter()
            .filter(of)
            .map(|fault| fault.op)
            .collect::<Vec<_>>()
    };
    let alone = FaultConfig {
        read_error: 0.05,
        ..honest()
    };
    let ops = failed(&alone);
    assert!(ops.len() > 5);
    assert_eq!(
        ops,
        failed(&FaultConfig {
            persistent: 0.0,
            ..everything()
        })
    );
    let drawn = |faults: &FaultConfig| {
        let mut rig = Rig::with_faults(faults);
        for sector in 0..8 {
            rig.write(sector * 4, 4, 1);
        }
        let order = |_| {
            let state = rig.device.draw_crash();
            state
                .persisted
                .iter()
                .map(|persisted_write| persisted_write.id)
                .collect::<Vec<_>>()
        };
        (0..100).map(order).collect::<Vec<_>>()
    };
    let plain = drawn(&FaultConfig {
        torn: 0.0,
        ..honest()
    });
    assert_eq!(
        plain,
        drawn(&FaultConfig {
            torn: 1.0,
            garbage: 0.5,
            byte_tear: 0.5,
            ..honest()
        })
    );
}

/// Goal: a script strikes the named operation and no other. Method: the same read ten times.
#[test]
fn a_script_fires_at_the_named_operation_only() {
    for op in 1..10 {
        let script = vec![ScriptedFault::new(op, FaultKind::ReadError)];
        let mut rig = Rig::with_faults(&FaultConfig { script, ..honest() });
        rig.write(0, 1, 1);
        let failed: Vec<u64> = (1..10).filter(|_| rig.read(0).is_err()).collect();
        assert_eq!(failed.len(), 1);
        assert_eq!(rig.device.fired_script()[0].op, op);
    }
}

/// Goal: chance begins at `after_op` and ends with `max_fired`; stalls, which are neither errors nor lies, use up nothing.
#[test]
fn chance_keeps_to_its_window() {
    let faults = FaultConfig {
        read_error: 1.0,
        after_op: 3,
        max_fired: 2,
        ..honest()
    };
    let timing = TimingConfig {
        stall: 1.0,
        ..config().timing
    };
    let mut rig = Rig::new(&DeviceConfig { timing, ..config() }, &faults, 1);
    let failed: Vec<bool> = (0..8).map(|_| rig.read(0).is_err()).collect();
    assert_eq!(
        failed,
        [false, false, false, true, true, false, false, false]
    );
    assert_eq!(rig.fired(FaultKind::Stall), 8);
}

/// Goal: a stall holds up what is submitted during it, and a power cut ends it. Method: script one.
#[test]
fn a_stall_holds_up_the_device() {
    let timing = TimingConfig {
        stall_ns: 50_000,
        ..config().timing
    };
    let script = vec![ScriptedFault::new(1, FaultKind::Stall)];
    let faults = FaultConfig { script, ..honest() };
    let mut rig = Rig::new(&DeviceConfig { timing, ..config() }, &faults, 1);
    let mut times = (0..3).map(|_| rig.submit(read(0, 1))).collect::<Vec<_>>();
    times.clear();
    while rig.device.in_flight() > 0 {
        times.push(rig.complete().at);
    }
    assert_eq!(times, [1000, 51_000, 51_000]);
    assert_eq!(
        (
            rig.fired(FaultKind::Stall),
            faults.asked().contains(&FaultKind::Stall)
        ),
        (1, true)
    );
}

/// Goal: no more than `queue_depth` operations are worked on at once, and flushes one at a time where so asked.
#[test]
fn a_queue_and_serial_flushes_take_turns() {
    let ends = |queue_depth, serial_flush, op: Op| {
        let timing = TimingConfig {
            serial_flush,
            ..config().timing
        };
        let mut rig = Rig::new(
            &DeviceConfig {
                queue_depth,
                timing,
                ..config()
            },
            &honest(),
            1,
        );
        for _ in 0..4 {
            rig.submit(op.clone());
        }
        (0..4).map(|_| rig.complete().at).collect::<Vec<_>>()
    };
    assert_eq!(ends(2, false, read(0, 1)), [1000, 1000, 2000, 2000]);
    assert_eq!(ends(8, false, Op::Flush), [1000; 4]);
    assert_eq!(ends(8, true, Op::Flush), [1000, 2000, 3000, 4000]);
}

/// Goal: completions overtake each other, unless the device keeps order. Method: latencies that vary.
#[test]
fn completions_are_reordered_unless_in_order() {
    let order = |in_order| {
        let read = LatencyConfig {
            min_ns: 1,
            max_ns: 90_000,
            ..TimingConfig::default().read
        };
        let timing = TimingConfig {
            read: LatencyConfig {
                max_ns: 9_000_000,
                ..read
            },
            in_order,
            ..config().timing
        };
        let mut rig = Rig::new(&DeviceConfig { timing, ..config() }, &honest(), 1);
        for _ in 0..32 {
            rig.submit(crate::common::read(0, 1));
        }
        let ids: Vec<u64> = rig.drain().into_iter().map(|(id, _)| id).collect();
        ids.is_sorted()
    };
    assert_eq!([order(false), order(true)], [false, true]);
}
