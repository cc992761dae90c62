//! Reads, writes, flushes and growths that fail, once or for good, and what they leave.

use crate::common::{Rig, SECTOR, SECTORS, config, discard, fills, read, write};
use kvsim_simdisk::{
    Cache, CrashState, DeviceConfig, DiskError, FaultConfig, FaultKind, Op, Persisted,
    ScriptedFault,
};

fn scripted(script: &[ScriptedFault]) -> FaultConfig {
    FaultConfig {
        drop_dirty: 0.0,
        script: script.to_vec(),
        ..FaultConfig::default()
    }
}

fn at(op: u64, kind: FaultKind) -> ScriptedFault {
    ScriptedFault::new(op, kind)
}

/// Goal: a transient read error is over with the operation. Method: fail one read of three.
#[test]
fn a_transient_read_error_passes() {
    let mut rig = Rig::with_faults(&scripted(&[at(2, FaultKind::ReadError)]));
    rig.write(0, 1, 7);
    assert_eq!(rig.read(0), Ok(7));
    assert_eq!(rig.read(0), Err(DiskError::Read));
    assert_eq!(rig.read(0), Ok(7));
    assert_eq!(rig.fired(FaultKind::ReadError), 1);
}

/// Goal: a persistent read error stays on its sector, over power cuts too, until the sector is rewritten or discarded.
/// Method: fail a read of two sectors on its second one.
#[test]
fn a_persistent_read_error_stays_until_rewritten() {
    let fault = ScriptedFault {
        persistent: Some(true),
        at_bytes: Some(SECTOR),
        ..at(2, FaultKind::ReadError)
    };
    for repair in [write(1, 1, 9, false), discard(1, 1)] {
        let mut rig = Rig::with_faults(&scripted(std::slice::from_ref(&fault)));
        rig.write(0, 3, 7);
        rig.flush();
        let clean = rig.device.image_hash();
        assert_eq!(rig.run(read(0, 2)), Err(DiskError::Read));
        assert_ne!(
            rig.device.image_hash(),
            clean,
            "a state with a bad sector is another state"
        );
        rig.cut_all();
        assert_eq!(rig.read(0), Ok(7));
        assert_eq!(rig.read(1), Err(DiskError::Read));
        assert_eq!(rig.read(2), Ok(7));
        let expected = if matches!(repair, Op::Discard { .. }) {
            0
        } else {
            9
        };
        rig.run(repair).unwrap();
        assert_eq!(rig.read(1), Ok(expected));
    }
}

/// Goal: a failed write either did nothing or is in the cache, and in neither case durable. Method: script both, cut.
#[test]
fn a_failed_write_may_have_reached_the_cache() {
    for written in [false, true] {
        for cache in [Cache::Volatile, Cache::WriteThrough] {
            let fault = ScriptedFault {
                written: Some(written),
                ..at(0, FaultKind::WriteError)
            };
            let device = DeviceConfig { cache, ..config() };
            let mut rig = Rig::new(&device, &scripted(&[fault]), 1);
            assert_eq!(rig.run(write(0, 1, 7, true)), Err(DiskError::Write));
            assert_eq!(rig.device.pending().len(), usize::from(written));
            assert_eq!(rig.read(0), Ok(if written { 7 } else { 0 }));
            rig.cut_all();
            assert_eq!(rig.read(0), Ok(0), "a failed write-through is not durable");
        }
    }
}

/// Goal: a failed write that reached the cache is durable after a flush like any other.
#[test]
fn a_failed_write_in_the_cache_is_flushed_with_the_rest() {
    let fault = ScriptedFault {
        written: Some(true),
        ..at(0, FaultKind::WriteError)
    };
    let mut rig = Rig::with_faults(&scripted(&[fault]));
    rig.run(write(0, 1, 7, false)).unwrap_err();
    rig.flush();
    rig.cut_all();
    assert_eq!(rig.read(0), Ok(7));
}

/// Goal: by chance, some failed writes reach the cache and some do not. Method: all writes fail.
#[test]
fn chance_leaves_some_failed_writes_in_the_cache() {
    let faults = FaultConfig {
        write_error: 1.0,
        ..FaultConfig::default()
    };
    let mut rig = Rig::with_faults(&faults);
    for sector in 0..64 {
        assert_eq!(rig.run(write(sector, 1, 1, false)), Err(DiskError::Write));
    }
    assert!(
        (16..48).contains(&rig.device.pending().len()),
        "{}",
        rig.device.pending().len()
    );
    assert_eq!(
        (
            rig.possible(FaultKind::WriteError),
            rig.fired(FaultKind::WriteError)
        ),
        (64, 64)
    );
}

/// Goal: a read error that stays damages what was written there, on a device that never lies too; one that passes damages nothing. Method: one of each, at the second of
/// two writes.
#[test]
fn a_read_error_that_stays_is_damage() {
    for stays in [true, false] {
        let fault = ScriptedFault {
            persistent: Some(stays),
            at_bytes: stays.then_some(SECTOR),
            ..at(2, FaultKind::ReadError)
        };
        let mut rig = Rig::with_faults(&scripted(&[fault]));
        rig.write(0, 1, 7);
        let second = rig.now;
        rig.write(1, 1, 8);
        assert_eq!(rig.run(read(0, 2)), Err(DiskError::Read));
        let damaged = if stays { vec![second] } else { Vec::new() };
        assert_eq!(rig.device.damaged(), damaged);
    }
}

/// Goal: a persistent write error never heals and affects its sector alone. Method: write it and its neighbours, with a cut
/// between.
#[test]
fn a_persistent_write_error_stays_for_good() {
    let fault = ScriptedFault {
        persistent: Some(true),
        at_bytes: Some(SECTOR),
        ..at(0, FaultKind::WriteError)
    };
    let mut rig = Rig::with_faults(&scripted(&[fault]));
    rig.run(write(0, 3, 1, false)).unwrap_err();
    for _ in 0..2 {
        assert_eq!(rig.run(write(1, 1, 2, false)), Err(DiskError::Write));
        assert_eq!(rig.run(write(0, 3, 2, false)), Err(DiskError::Write));
        rig.write(0, 1, 3);
        rig.write(2, 1, 3);
        assert_eq!(rig.reads(), [3, 0, 3]);
        rig.cut_all();
    }
    assert_eq!(
        rig.fired(FaultKind::WriteError),
        1,
        "the rest follows from the one"
    );
}

/// Goal: a failed flush makes nothing durable, and where the device keeps the data, the next flush does.
#[test]
fn a_failed_flush_may_be_tried_again_where_nothing_is_dropped() {
    let mut rig = Rig::with_faults(&scripted(&[at(1, FaultKind::FlushError)]));
    rig.write(0, 1, 7);
    assert_eq!(rig.run(Op::Flush), Err(DiskError::Flush));
    assert_eq!(fills(rig.device.durable()), [0]);
    rig.flush();
    rig.cut_all();
    assert_eq!(rig.read(0), Ok(7));
}

/// Goal: after a failed flush that dropped its data, reads see the data, a later flush succeeds, and a cut loses it.
/// Method: one write before the failed flush and one after it.
#[test]
fn a_later_flush_does_not_save_what_a_failed_one_dropped() {
    let script = [at(1, FaultKind::FlushError), at(1, FaultKind::DirtyDropped)];
    let mut rig = Rig::with_faults(&scripted(&script));
    rig.write(0, 1, 7);
    assert_eq!(rig.run(Op::Flush), Err(DiskError::Flush));
    assert_eq!(rig.read(0), Ok(7), "reads still see it");
    rig.write(1, 1, 8);
    rig.flush();
    assert_eq!(rig.fired(FaultKind::DirtyDropped), 1);
    let keep = CrashState {
        persisted: vec![Persisted::whole(0)],
    };
    let refusal = rig.device.check_crash(&keep).unwrap_err();
    assert!(refusal.to_string().contains("dropped"), "{refusal}");
    rig.cut_all();
    assert_eq!(rig.reads(), [0, 8]);
}

/// Goal: rewriting what was dropped saves it. Method: as above, with a rewrite before the later flush.
#[test]
fn rewriting_what_was_dropped_saves_it() {
    let script = [at(1, FaultKind::FlushError), at(1, FaultKind::DirtyDropped)];
    let mut rig = Rig::with_faults(&scripted(&script));
    rig.write(0, 1, 7);
    rig.run(Op::Flush).unwrap_err();
    rig.write(0, 1, 7);
    rig.flush();
    assert!(rig.device.pending().is_empty());
    rig.cut_all();
    assert_eq!(rig.read(0), Ok(7));
}

/// Goal: a failed flush drops no more than it covered, sometimes all and sometimes a part, never nothing. Method: eight
/// writes complete and one in flight, over many seeds.
#[test]
fn a_failed_flush_drops_some_or_all_of_what_it_covered() {
    let faults = FaultConfig {
        flush_error: 1.0,
        drop_dirty: 1.0,
        ..FaultConfig::default()
    };
    let mut sizes = std::collections::BTreeSet::new();
    for seed in 0..64 {
        let mut rig = Rig::new(&config(), &faults, seed);
        for sector in 0..8 {
            rig.write(sector, 1, 1);
        }
        rig.submit_write(8, 1, 1);
        assert_eq!(rig.run(Op::Flush), Err(DiskError::Flush));
        assert!(!rig.device.pending()[8].dropped, "it was not covered");
        sizes.insert(
            rig.device
                .pending()
                .iter()
                .filter(|write| write.dropped)
                .count(),
        );
    }
    assert!(
        !sizes.contains(&0) && sizes.contains(&8) && sizes.len() > 3,
        "{sizes:?}"
    );
}

/// Goal: a failed flush with nothing to drop drops nothing, and does not say so.
#[test]
fn nothing_is_dropped_where_nothing_was_dirty() {
    let faults = FaultConfig {
        flush_error: 1.0,
        drop_dirty: 1.0,
        ..FaultConfig::default()
    };
    let mut rig = Rig::with_faults(&faults);
    assert_eq!(rig.run(Op::Flush), Err(DiskError::Flush));
    assert_eq!(
        (
            rig.fired(FaultKind::FlushError),
            rig.fired(FaultKind::DirtyDropped)
        ),
        (1, 0)
    );
}

/// Goal: a persistent flush error lasts until the power is cycled.
#[test]
fn a_persistent_flush_error_ends_with_the_power() {
    let fault = ScriptedFault {
        persistent: Some(true),
        ..at(0, FaultKind::FlushError)
    };
    let mut rig = Rig::with_faults(&scripted(&[fault]));
    assert_eq!(rig.run(Op::Flush), Err(DiskError::Flush));
    assert_eq!(rig.run(Op::Flush), Err(DiskError::Flush));
    rig.cut_all();
    assert_eq!(rig.run(Op::Flush), Ok(None));
}

/// Goal: a write or growth that finds no space does nothing, and the next may find some.
#[test]
fn no_space_leaves_everything_as_it_was() {
    let script = [at(1, FaultKind::NoSpace), at(2, FaultKind::NoSpace)];
    let mut rig = Rig::with_faults(&scripted(&script));
    rig.write(0, 1, 1);
    assert_eq!(rig.run(write(0, 1, 2, false)), Err(DiskError::NoSpace));
    let grow = Op::Grow {
        new_bytes: 2 * SECTORS * SECTOR,
    };
    assert_eq!(rig.run(grow.clone()), Err(DiskError::NoSpace));
    assert_eq!(rig.device.capabilities().capacity_bytes, SECTORS * SECTOR);
    assert_eq!(rig.read(0), Ok(1));
    assert_eq!(rig.device.pending().len(), 1);
    assert_eq!(rig.run(grow), Ok(None));
    assert_eq!(rig.fired(FaultKind::NoSpace), 2);
}
