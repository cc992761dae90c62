//! Writes that fail partly done, against brute force: every set of sectors that may have been written.

use std::collections::BTreeSet;

use crate::common::{Rig, SECTOR, config, fills, write};
use kvsim_simdisk::{
    Cache, CrashState, DeviceConfig, DiskError, FaultConfig, FaultKind, Persisted, ScriptedFault,
};

const COUNT: u64 = 4;
type Picture = [u8; 4];

/// All sets of sectors of the write.
fn sets() -> Vec<Vec<u64>> {
    (0..1_u64 << COUNT)
        .map(|bits| (0..COUNT).filter(|at| bits >> at & 1 == 1).collect())
        .collect()
}

/// New sectors hold 5, old ones 9.
fn picture(written: &[u64]) -> Picture {
    std::array::from_fn(|sector| {
        if written.contains(&(sector as u64)) {
            5
        } else {
            9
        }
    })
}

/// A device on which the third operation, a write of four sectors, has failed so.
fn rig(cache: Cache, fault: ScriptedFault) -> Rig {
    let faults = FaultConfig {
        script: vec![fault],
        ..FaultConfig::default()
    };
    let mut rig = Rig::new(&DeviceConfig { cache, ..config() }, &faults, 1);
    rig.write(0, COUNT, 9);
    rig.flush();
    assert_eq!(rig.run(write(0, COUNT, 5, true)), Err(DiskError::Write));
    rig
}

fn scripted(sectors: &[u64]) -> ScriptedFault {
    ScriptedFault {
        written: (!sectors.is_empty()).then_some(true),
        sectors: sectors.to_vec(),
        ..ScriptedFault::new(2, FaultKind::WriteError)
    }
}

/// Goal: reads see exactly the sectors that were written, a cut leaves any of them and no other, and a flush makes them durable. Method: all sixteen sets,
/// on devices with and without a volatile cache, and all subsets of each as persisted writes.
#[test]
fn a_failed_write_leaves_any_of_its_sectors() {
    for cache in [Cache::Volatile, Cache::WriteThrough] {
        for written in sets() {
            let mut rig = rig(cache, scripted(&written));
            assert_eq!(fills(rig.device.image()), picture(&written));
            assert_eq!(fills(rig.device.durable()), picture(&[]));
            assert_eq!(rig.device.pending().len(), usize::from(!written.is_empty()));
            let mut left = BTreeSet::from([fills::<4>(rig.device.durable())]);
            for kept in sets().into_iter().filter(|_| !written.is_empty()) {
                let sectors = if kept.len() as u64 == COUNT {
                    Persisted::whole(2)
                } else {
                    Persisted::torn(2, kept.clone())
                };
                let state = CrashState {
                    persisted: vec![sectors],
                };
                let image = rig.device.image_after(&state);
                assert_eq!(image.is_ok(), !kept.is_empty(), "{kept:?}");
                left.extend(image.map(|image| fills::<4>(&image)));
            }
            let is_part = |kept: &Vec<u64>| kept.iter().all(|sector| written.contains(sector));
            let modelled = sets().into_iter().filter(is_part);
            assert_eq!(left, modelled.map(|kept| picture(&kept)).collect());
            rig.flush();
            rig.cut_all();
            assert_eq!(rig.reads(), picture(&written));
        }
    }
}

/// Goal: by chance a failed write leaves each set of its sectors, and the record of it makes the same happen again. Method: many seeds; each is run once more
/// by its script.
#[test]
fn chance_comes_to_every_set_of_sectors() {
    let faults = FaultConfig {
        write_error: 1.0,
        after_op: 2,
        ..FaultConfig::default()
    };
    let mut seen = BTreeSet::new();
    for seed in 0..4_000 {
        let again = |faults: &FaultConfig| {
            let mut rig = Rig::new(&config(), faults, seed);
            rig.write(0, COUNT, 9);
            rig.flush();
            rig.run(write(0, COUNT, 5, false)).unwrap_err();
            (
                fills::<4>(rig.device.image()),
                rig.device.fired_script().to_vec(),
            )
        };
        let (found, script) = again(&faults);
        assert_eq!(again(&faults.scripted(script)).0, found);
        seen.insert(found);
    }
    assert_eq!(seen, sets().iter().map(|set| picture(set)).collect());
}

/// Goal: an atomic write that fails is all there or not at all. Method: a device with an atomic unit of its size, by chance and by a script that asks for a part.
#[test]
fn a_failed_atomic_write_is_all_or_nothing() {
    let device = DeviceConfig {
        atomic_write_bytes: COUNT * SECTOR,
        ..config()
    };
    let faults = FaultConfig {
        write_error: 1.0,
        ..FaultConfig::default()
    };
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let mut rig = Rig::new(&device, &faults, seed);
        rig.run(write(0, COUNT, 5, false)).unwrap_err();
        seen.insert(fills::<4>(rig.device.image()));
    }
    assert_eq!(seen, BTreeSet::from([[0; 4], [5; 4]]));
    let script = vec![ScriptedFault {
        op: 0,
        ..scripted(&[1])
    }];
    let mut rig = Rig::new(&device, &faults.scripted(script), 1);
    rig.run(write(0, COUNT, 5, false)).unwrap_err();
    assert_eq!(rig.reads(), [5; 4]);
}

/// Goal: a sector that was unreadable is readable again where the failed write came to it, and only there. Method: two bad sectors, one of them written.
#[test]
fn a_part_that_was_written_heals_its_sectors_alone() {
    let bad = |op, sector: u64| ScriptedFault {
        persistent: Some(true),
        at_bytes: Some(sector * SECTOR),
        ..ScriptedFault::new(op, FaultKind::ReadError)
    };
    let faults = FaultConfig {
        script: vec![
            bad(2, 0),
            bad(3, 1),
            ScriptedFault {
                op: 4,
                ..scripted(&[1, 2])
            },
        ],
        ..FaultConfig::default()
    };
    let mut rig = Rig::with_faults(&faults);
    rig.write(0, COUNT, 9);
    rig.flush();
    for sector in 0..2 {
        rig.read(sector).unwrap_err();
    }
    rig.run(write(0, COUNT, 5, false)).unwrap_err();
    let readable = |rig: &mut Rig| [0, 1, 2, 3].map(|sector| rig.read(sector).ok());
    assert_eq!(readable(&mut rig), [None, Some(5), Some(5), Some(9)]);
    rig.flush();
    rig.cut_all();
    assert_eq!(readable(&mut rig), [None, Some(5), Some(5), Some(9)]);
}

/// Goal: a flush that fails drops exactly the operations that a script names. Method: all subsets of three writes; a cut that keeps all it can.
#[test]
fn a_failed_flush_drops_what_the_script_names() {
    for bits in 0..8_u64 {
        let dropped: Vec<u64> = (0..3).filter(|at| bits >> at & 1 == 1).collect();
        let faults = FaultConfig {
            script: vec![
                ScriptedFault::new(3, FaultKind::FlushError),
                ScriptedFault {
                    dropped: Some(dropped.clone()),
                    ..ScriptedFault::new(3, FaultKind::DirtyDropped)
                },
            ],
            ..FaultConfig::default()
        };
        let mut rig = Rig::with_faults(&faults);
        for sector in 0..3 {
            rig.write(sector, 1, 1);
        }
        assert_eq!(rig.run(kvsim_simdisk::Op::Flush), Err(DiskError::Flush));
        let flags = |rig: &Rig| -> Vec<u64> {
            let pending = rig.device.pending().iter().filter(|write| write.dropped);
            pending.map(|write| write.id).collect()
        };
        assert_eq!(flags(&rig), dropped);
        assert_eq!(rig.reads(), [1; 3]);
        rig.flush();
        rig.cut_all();
        let expected: [u8; 3] = std::array::from_fn(|at| u8::from(!dropped.contains(&(at as u64))));
        assert_eq!(rig.reads(), expected);
    }
}

/// Goal: a script that makes no sense is refused. Method: sectors and dropped operations on other kinds of faults.
#[test]
fn a_script_names_parts_only_where_there_are_any() {
    let refused = |fault: ScriptedFault| {
        let faults = FaultConfig {
            script: vec![fault],
            ..FaultConfig::default()
        };
        faults.validate(&config()).unwrap_err().field
    };
    let sectors = ScriptedFault {
        sectors: vec![1],
        ..ScriptedFault::new(0, FaultKind::ReadError)
    };
    assert_eq!(refused(sectors), "faults.script[0].sectors");
    let dropped = ScriptedFault {
        dropped: Some(vec![1]),
        ..ScriptedFault::new(0, FaultKind::FlushError)
    };
    assert_eq!(refused(dropped), "faults.script[0].dropped");
}
