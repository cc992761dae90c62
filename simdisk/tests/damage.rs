//! What is wrong on the medium, and until when; and the failures that the host is told of.

mod common;

use common::{Rig, SECTOR, honest};
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
