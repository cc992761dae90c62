//! A device that says one thing and does another: each lie, and that it does no more than that.

use crate::common::{Rig, SECTOR, config, fills, honest, read, write};
use kvsim_simdisk::{
    Cache, CrashState, DeviceConfig, DiskError, FaultConfig, FaultKind, Op, Persisted,
    ScriptedFault,
};

fn one(fault: ScriptedFault) -> FaultConfig {
    FaultConfig {
        script: vec![fault],
        ..honest()
    }
}

fn at(op: u64, kind: FaultKind) -> ScriptedFault {
    ScriptedFault::new(op, kind)
}

/// Goal: a flush that lies makes nothing durable and drops nothing, so an honest one after it helps.
#[test]
fn a_flush_lie_makes_nothing_durable() {
    let mut rig = Rig::with_faults(&one(at(1, FaultKind::FlushLie)));
    rig.write(0, 1, 7);
    rig.flush();
    assert_eq!(rig.fired(FaultKind::FlushLie), 1);
    let mut fork = Rig {
        device: rig.device.clone(),
        now: rig.now,
    };
    fork.cut_all();
    assert_eq!(fork.read(0), Ok(0));
    rig.flush();
    rig.cut_all();
    assert_eq!(rig.read(0), Ok(7));
}

/// Goal: a flush that had nothing to do told no lie. Method: flush an empty cache, and one behind capacitors.
#[test]
fn a_flush_with_nothing_to_do_cannot_lie() {
    let mut rig = Rig::with_faults(&FaultConfig {
        flush_lie: 1.0,
        ..honest()
    });
    rig.flush();
    rig.submit_write(0, 1, 1);
    rig.submit(Op::Flush);
    rig.drain();
    assert_eq!(
        rig.fired(FaultKind::FlushLie),
        0,
        "neither covered anything"
    );
    rig.flush();
    assert_eq!(rig.fired(FaultKind::FlushLie), 1);
    let protected = DeviceConfig {
        cache: Cache::PowerLossProtected,
        ..config()
    };
    let mut rig = Rig::new(&protected, &one(at(1, FaultKind::FlushLie)), 1);
    rig.write(0, 1, 7);
    rig.flush();
    assert_eq!(rig.fired(FaultKind::FlushLie), 0);
}

/// Goal: a lost write is acknowledged and changes nothing, now or ever. Method: flush and cut after it.
#[test]
fn a_lost_write_never_happens() {
    let mut rig = Rig::with_faults(&one(at(1, FaultKind::LostWrite)));
    rig.write(0, 1, 1);
    assert_eq!(rig.device.made_durable_at(), None);
    assert_eq!(rig.run(write(0, 1, 2, true)), Ok(None));
    assert!(
        rig.device.made_durable_at().is_some(),
        "it was written through, as far as the host was told"
    );
    assert_eq!(rig.read(0), Ok(1));
    assert_eq!(rig.device.pending().len(), 1);
    rig.flush();
    rig.cut_all();
    assert_eq!(rig.read(0), Ok(1));
    assert_eq!(rig.fired(FaultKind::LostWrite), 1);
}

/// Goal: a misdirected write is whole at the wrong place, as durable as any, and the right place is as before.
#[test]
fn a_misdirected_write_lands_at_the_named_place() {
    let fault = ScriptedFault {
        at_bytes: Some(3 * SECTOR),
        ..at(1, FaultKind::MisdirectedWrite)
    };
    let mut rig = Rig::with_faults(&one(fault.clone()));
    rig.write(0, 5, 1);
    rig.write(0, 2, 2);
    assert_eq!(rig.reads(), [1, 1, 1, 2, 2]);
    rig.flush();
    rig.cut_all();
    assert_eq!(rig.reads(), [1, 1, 1, 2, 2]);
    assert_eq!(rig.device.fired_script(), [fault]);
}

/// Goal: by chance it lands on what was written before, where it damages, and never where it was meant.
#[test]
fn a_misdirected_write_damages() {
    let faults = FaultConfig {
        misdirected_write: 1.0,
        after_op: 1,
        ..honest()
    };
    for seed in 0..32 {
        let mut rig = Rig::new(&config(), &faults, seed);
        rig.write(0, 16, 1);
        rig.write(0, 1, 2);
        let hit = fills::<16>(rig.device.image())
            .iter()
            .filter(|&&fill| fill == 2)
            .count();
        let at_home = rig.read(0) == Ok(2);
        assert_eq!(
            (hit, at_home),
            (1, rig.fired(FaultKind::MisdirectedWrite) == 0),
            "seed {seed}"
        );
    }
}

/// Goal: a misdirected read returns another place and changes nothing.
#[test]
fn a_misdirected_read_returns_another_place_once() {
    let fault = ScriptedFault {
        at_bytes: Some(SECTOR),
        ..at(2, FaultKind::MisdirectedRead)
    };
    let mut rig = Rig::with_faults(&one(fault.clone()));
    rig.write(0, 1, 1);
    rig.write(1, 1, 2);
    assert_eq!(rig.read(0), Ok(2));
    assert_eq!(rig.read(0), Ok(1));
    assert_eq!(rig.device.fired_script(), [fault]);
}

/// Goal: a lie that nobody could tell from the truth is not counted. Method: both places hold the same.
#[test]
fn a_misdirected_read_of_equal_bytes_is_no_lie() {
    let fault = ScriptedFault {
        at_bytes: Some(SECTOR),
        ..at(1, FaultKind::MisdirectedRead)
    };
    let mut rig = Rig::with_faults(&one(fault.clone()));
    rig.write(0, 2, 1);
    assert_eq!(rig.read(0), Ok(1));
    let kind = FaultKind::MisdirectedRead;
    assert_eq!((rig.possible(kind), rig.fired(kind)), (1, 0));
}

/// Goal: a stale read returns, sector by sector, what was there before the last overwrite, once. Method: overwrite a part.
#[test]
fn a_stale_read_returns_what_was_overwritten() {
    let mut rig = Rig::with_faults(&one(at(3, FaultKind::StaleRead)));
    rig.write(0, 3, 1);
    rig.write(1, 2, 2);
    rig.write(2, 1, 3);
    let bytes = rig.run(read(0, 3)).unwrap().unwrap();
    let seen: Vec<u8> = bytes.chunks(512).map(crate::common::uniform).collect();
    assert_eq!(seen, [0, 1, 2]);
    assert_eq!(rig.reads(), [1, 2, 3]);
    assert_eq!(rig.fired(FaultKind::StaleRead), 1);
}

/// Goal: what was given back is stale too. Method: discard, then read.
#[test]
fn a_stale_read_returns_what_was_discarded() {
    let mut rig = Rig::with_faults(&one(at(2, FaultKind::StaleRead)));
    rig.write(0, 1, 1);
    rig.run(crate::common::discard(0, 1)).unwrap();
    assert_eq!(rig.read(0), Ok(1));
    assert_eq!(rig.read(0), Ok(0));
}

/// Goal: rot flips one bit of what is durable, and reads and cuts see it from then on. Method: script byte and bit.
#[test]
fn bit_rot_flips_one_bit_for_good() {
    let fault = ScriptedFault {
        at_bytes: Some(700),
        bit: Some(3),
        ..at(2, FaultKind::BitRot)
    };
    let mut rig = Rig::with_faults(&one(fault.clone()));
    rig.write(0, 2, 0xF0);
    rig.flush();
    rig.write(5, 1, 1);
    rig.cut_all();
    let bytes = rig.run(read(0, 2)).unwrap().unwrap();
    let changed: Vec<_> = bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte != 0xF0)
        .collect();
    assert_eq!(changed, [(700, &0xF8)]);
    assert_eq!(rig.device.fired_script(), [fault]);
}

/// Goal: rot that would be under a pending write, or on a blank medium, neither happens nor counts.
#[test]
fn bit_rot_strikes_only_what_is_at_rest() {
    let mut rig = Rig::with_faults(&FaultConfig {
        bit_rot: 1.0,
        ..honest()
    });
    rig.write(0, 1, 1);
    assert_eq!(rig.possible(FaultKind::BitRot), 0, "the medium is blank");
    let fault = ScriptedFault {
        at_bytes: Some(0),
        bit: Some(0),
        ..at(2, FaultKind::BitRot)
    };
    let mut rig = Rig::with_faults(&one(fault.clone()));
    rig.write(0, 1, 1);
    rig.flush();
    rig.write(0, 1, 2);
    assert_eq!(
        (
            rig.possible(FaultKind::BitRot),
            rig.fired(FaultKind::BitRot)
        ),
        (1, 0)
    );
    rig.flush();
    assert_eq!(rig.read(0), Ok(2));
}

/// Goal: a latent sector error is found by the read, stays over a cut, and is healed by a rewrite that becomes durable.
#[test]
fn a_latent_sector_error_is_healed_by_a_rewrite() {
    let fault = ScriptedFault {
        at_bytes: Some(SECTOR),
        ..at(2, FaultKind::LatentSectorError)
    };
    let mut rig = Rig::with_faults(&one(fault.clone()));
    rig.write(0, 3, 1);
    rig.flush();
    rig.write(5, 1, 1);
    assert_eq!(rig.device.fired_script(), [fault]);
    rig.cut_all();
    assert_eq!(
        [rig.read(0), rig.read(1), rig.read(2)],
        [Ok(1), Err(DiskError::Read), Ok(1)]
    );
    rig.write(1, 1, 2);
    assert_eq!(rig.read(1), Ok(2), "from the cache");
    rig.flush();
    rig.cut_all();
    assert_eq!(rig.read(1), Ok(2));
}

/// Goal: a rewrite that a cut takes away has healed nothing, and one that survives has. Method: both, from one state.
#[test]
fn a_lost_rewrite_heals_nothing() {
    let fault = ScriptedFault {
        at_bytes: Some(0),
        ..at(2, FaultKind::LatentSectorError)
    };
    let mut rig = Rig::with_faults(&one(fault.clone()));
    rig.write(0, 1, 1);
    rig.flush();
    rig.write(5, 1, 1);
    rig.write(0, 1, 2);
    assert_eq!(rig.read(0), Ok(2), "from the cache");
    let id = rig.device.pending().last().unwrap().id;
    let mut fork = Rig {
        device: rig.device.clone(),
        now: rig.now,
    };
    fork.cut(&CrashState {
        persisted: vec![Persisted::whole(id)],
    });
    assert_eq!(fork.read(0), Ok(2));
    rig.cut_all();
    assert_eq!(rig.read(0), Err(DiskError::Read));
}

/// Goal: decay by chance strikes written sectors, and each strike is in the script. Method: one written sector of many.
#[test]
fn decay_by_chance_strikes_what_was_written() {
    let faults = FaultConfig {
        bit_rot: 1.0,
        latent_sector_error: 1.0,
        ..honest()
    };
    let mut rig = Rig::with_faults(&faults);
    rig.write(8, 8, 1);
    rig.flush();
    rig.write(100, 1, 1);
    assert_eq!(
        (
            rig.fired(FaultKind::BitRot),
            rig.fired(FaultKind::LatentSectorError)
        ),
        (1, 1)
    );
    let places = rig
        .device
        .fired_script()
        .iter()
        .map(|fault| fault.at_bytes.unwrap() / SECTOR);
    assert!(
        places.clone().all(|sector| (8..16).contains(&sector)),
        "{:?}",
        places.collect::<Vec<_>>()
    );
}

/// Goal: it is known which writes were damaged, by when they were submitted. Method: one is lost, one is misdirected over another, a bit of a third rots;
/// each at a time of its own, beside one that is only read wrongly.
#[test]
fn the_damaged_writes_are_known() {
    let at_bytes = |fault: ScriptedFault, place: u64| ScriptedFault {
        at_bytes: Some(place * SECTOR),
        ..fault
    };
    let mut rig = Rig::with_faults(&FaultConfig {
        script: vec![
            at(3, FaultKind::LostWrite),
            at_bytes(at(4, FaultKind::MisdirectedWrite), 1),
            at_bytes(at(6, FaultKind::BitRot), 0),
            at(7, FaultKind::StaleRead),
        ],
        ..honest()
    });
    let mut times = Vec::new();
    for place in [0, 1, 2, 3, 4] {
        times.push(rig.now);
        rig.write(place, 1, 1);
    }
    rig.flush();
    rig.write(2, 1, 2);
    assert_eq!(rig.read(2), Ok(1));
    let damaged = [times[3], times[4], times[1], times[0]];
    assert_eq!(rig.device.damaged(), damaged);
}
