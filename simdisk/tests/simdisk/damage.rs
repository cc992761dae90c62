//! What is wrong on the medium, and until when; and the failures that the host is told of.

use crate::common::{Rig, SECTOR, honest};
use kvsim_simdisk::{CrashKind, CrashState, FaultConfig, FaultKind, Op, ScriptedFault};

fn one(op: u64, kind: FaultKind) -> Rig {
    Rig::with_faults(&FaultConfig {
        script: vec![ScriptedFault::new(op, kind)],
        ..honest()
    })
}

/// Goal: a sector that a lie has spoilt counts until something new there is durable. Method: lose a write of two sectors; rewrite one of them, cut that
/// away, rewrite both and flush.
#[test]
fn a_lost_write_is_damage_until_it_is_rewritten() {
    let mut rig = one(1, FaultKind::LostWrite);
    rig.write(0, 4, 1);
    assert_eq!(rig.device.damaged_sectors(), 0);
    rig.write(2, 2, 2);
    assert_eq!(rig.device.damaged_sectors(), 2);
    rig.flush();
    assert_eq!(
        rig.device.damaged_sectors(),
        2,
        "a flush repairs nothing by itself"
    );
    rig.write(2, 1, 3);
    rig.cut_all();
    assert_eq!(rig.device.damaged_sectors(), 2, "the rewrite is gone again");
    rig.write(2, 2, 4);
    rig.flush();
    assert_eq!(rig.device.damaged_sectors(), 0);
}

/// Goal: both places of a misdirected write are damaged, and a rotten sector is.
#[test]
fn a_misdirected_write_damages_two_places() {
    let fault = ScriptedFault {
        at_bytes: Some(3 * SECTOR),
        ..ScriptedFault::new(1, FaultKind::MisdirectedWrite)
    };
    let mut rig = Rig::with_faults(&FaultConfig {
        script: vec![fault],
        ..honest()
    });
    rig.write(0, 5, 1);
    rig.write(0, 1, 2);
    assert_eq!(rig.device.damaged_sectors(), 2);

    let mut rig = one(2, FaultKind::BitRot);
    rig.write(0, 1, 1);
    rig.flush();
    rig.write(9, 1, 1);
    assert_eq!(rig.device.damaged_sectors(), 1);
}

/// Goal: what a flush left out is damage as long as a cut may take it away, and after a cut that did. Method: a flush that lies; an honest one after it,
/// a cut that keeps all, a cut that keeps nothing.
#[test]
fn a_flush_that_lies_leaves_damage_until_its_data_is_durable() {
    let lied = || {
        let mut rig = one(1, FaultKind::FlushLie);
        rig.write(0, 3, 7);
        rig.flush();
        assert_eq!(rig.device.damaged_sectors(), 3);
        rig
    };
    let mut flushed = lied();
    flushed.flush();
    assert_eq!(flushed.device.damaged_sectors(), 0);
    let mut lost = lied();
    lost.cut_all();
    assert_eq!(lost.device.damaged_sectors(), 3);
    let mut killed = lied();
    let now = killed.now;
    let report = killed
        .device
        .crash(now, CrashKind::Process, &CrashState::default());
    assert!(report.is_ok());
    assert_eq!(killed.device.damaged_sectors(), 3, "the cache is as it was");
}

/// Goal: an error counts each time that the host is told of it. Method: a bad sector is read twice, and once beside it.
#[test]
fn failures_are_counted_as_the_host_meets_them() {
    let fault = ScriptedFault {
        persistent: Some(true),
        at_bytes: Some(0),
        ..ScriptedFault::new(2, FaultKind::ReadError)
    };
    let mut rig = Rig::with_faults(&FaultConfig {
        script: vec![fault, ScriptedFault::new(5, FaultKind::FlushError)],
        ..honest()
    });
    rig.write(0, 2, 1);
    rig.flush();
    assert!(rig.read(0).is_err());
    assert!(rig.read(0).is_err());
    assert!(rig.read(1).is_ok());
    assert!(rig.run(Op::Flush).is_err());
    let failures = rig.device.failures();
    assert_eq!(
        (failures.reads, failures.writes, failures.flushes),
        (2, 0, 1)
    );
    assert_eq!(rig.device.damaged_sectors(), 1, "the sector stays bad");
}

/// Goal: a read meets damage where it lies and nowhere else, and what lies in the cache over it hides it. Method: lose a write of two sectors; read beside it, over
/// it, and over it after a rewrite that is not durable.
#[test]
fn only_a_read_of_a_damaged_sector_meets_damage() {
    let mut rig = one(1, FaultKind::LostWrite);
    rig.write(0, 4, 1);
    rig.write(2, 2, 2);
    rig.flush();
    rig.read(1).unwrap();
    assert_eq!(rig.device.damaged_reads(), 0);
    rig.read(2).unwrap();
    assert_eq!(rig.device.damaged_reads(), 1);
    rig.write(2, 2, 3);
    rig.read(2).unwrap();
    assert_eq!(rig.device.damaged_reads(), 1, "the cache answers");
    rig.cut_all();
    rig.read(3).unwrap();
    assert_eq!(rig.device.damaged_reads(), 2, "the rewrite is gone");
}

/// Goal: a read that is answered with a lie meets damage. Method: a misdirected read.
#[test]
fn a_lying_read_meets_damage() {
    let fault = ScriptedFault {
        at_bytes: Some(3 * SECTOR),
        ..ScriptedFault::new(2, FaultKind::MisdirectedRead)
    };
    let mut rig = Rig::with_faults(&FaultConfig {
        script: vec![fault],
        ..honest()
    });
    rig.write(0, 2, 1);
    rig.write(2, 2, 2);
    assert_eq!(rig.read(0), Ok(2));
    assert_eq!(rig.device.damaged_reads(), 1);
}

/// Goal: a sector is failing from the failed read that the host is told of until a later read succeeds, and no longer than the process run. Method: an
/// error that passes, with a read under way beside it; a sector that stays bad, and a kill.
#[test]
fn a_sector_fails_until_a_later_read_succeeds() {
    let mut rig = one(1, FaultKind::ReadError);
    rig.write(0, 4, 1);
    let failing = rig.submit(crate::common::read(0, 3));
    let beside = rig.submit(crate::common::read(0, 3));
    assert_eq!(rig.device.failing_sectors(), 0, "nobody was told");
    let ended = rig.drain();
    assert!(ended.iter().all(|(id, result)| match result {
        Ok(_) => *id == beside,
        Err(_) => *id == failing,
    }));
    assert_eq!(rig.device.failing_sectors(), 3, "it was submitted before");
    rig.read(1).unwrap();
    assert_eq!(rig.device.failing_sectors(), 2);

    let fault = ScriptedFault {
        persistent: Some(true),
        at_bytes: Some(0),
        ..ScriptedFault::new(1, FaultKind::ReadError)
    };
    let mut rig = Rig::with_faults(&FaultConfig {
        script: vec![fault],
        ..honest()
    });
    rig.write(0, 2, 1);
    assert!(rig.run(crate::common::read(0, 2)).is_err());
    rig.read(1).unwrap();
    assert!(rig.read(0).is_err());
    assert_eq!(
        rig.device.failing_sectors(),
        1,
        "one of the two can be read"
    );
    let now = rig.now;
    let killed = rig
        .device
        .crash(now, CrashKind::Process, &CrashState::default());
    assert!(killed.is_ok());
    assert_eq!(rig.device.failing_sectors(), 0, "it is another process run");
}

/// Goal: a growth that was acknowledged and is gone shows in the size, without any read. Method: grow, a flush that lies, a cut.
#[test]
fn a_lost_growth_cuts_the_device_short() {
    let mut rig = one(1, FaultKind::FlushLie);
    let new_bytes = 2 * crate::common::SECTORS * SECTOR;
    rig.run(Op::Grow { new_bytes }).unwrap();
    rig.flush();
    assert!(!rig.device.is_cut_short());
    rig.cut_all();
    assert!(rig.device.is_cut_short());
}
