//! Sectors that a power cut leaves unreadable, against brute force: three overlapping writes, everything that could be left.

use std::collections::BTreeSet;

use crate::common::{Rig, SECTOR, SECTORS, config, write};
use kvsim_simdisk::{
    CrashKind, CrashState, DeviceConfig, DiskError, FaultConfig, FaultKind, Op, Persisted,
    ScriptedFault, Sectors,
};

/// First sector and count of each of the pending writes, over sectors that hold 9. Number `i` fills with `i + 1`.
const WRITES: [(u64, u64); 3] = [(0, 2), (1, 2), (0, 1)];
const FIRST_ID: u64 = 2;
/// What each sector holds; nothing if it cannot be read.
type Picture = [Option<u8>; 3];

fn faults() -> FaultConfig {
    FaultConfig {
        torn: 0.8,
        torn_unreadable: 0.6,
        ..FaultConfig::default()
    }
}

fn rig(device: &DeviceConfig, faults: &FaultConfig) -> Rig {
    let mut rig = Rig::new(device, faults, 1);
    rig.write(0, 3, 9);
    rig.flush();
    for (fill, (first, count)) in (1..).zip(WRITES) {
        rig.submit_write(first, count, fill);
    }
    rig
}

/// Every way in which a write of so many sectors can be written down to survive, sense or nonsense.
fn fates(id: u64, count: u64) -> Vec<Persisted> {
    let mut all = vec![Persisted::whole(id)];
    for bits in 0..1_u64 << count {
        let kept: Vec<u64> = (0..count).filter(|at| bits >> at & 1 == 1).collect();
        for unreadable in std::iter::once(None).chain((0..=count).map(Some)) {
            let sectors = Sectors::Torn {
                kept: kept.clone(),
                garbage: None,
                torn_at: None,
                unreadable,
            };
            all.push(Persisted { id, sectors });
        }
    }
    all
}

/// Every order of every subset of the writes, with every fate.
fn every_state() -> Vec<CrashState> {
    let mut all = vec![CrashState::default()];
    let mut at = 0;
    while at < all.len() {
        for (id, (_, count)) in (FIRST_ID..).zip(WRITES) {
            if all[at]
                .persisted
                .iter()
                .any(|persisted_write| persisted_write.id == id)
            {
                continue;
            }
            for fate in fates(id, count) {
                let mut longer = all[at].clone();
                longer.persisted.push(fate);
                all.push(longer);
            }
        }
        at += 1;
    }
    all
}

/// The model, said once more and plainly.
fn is_legal(state: &CrashState, allowed: bool) -> bool {
    state
        .persisted
        .iter()
        .all(|persisted_write| match &persisted_write.sectors {
            Sectors::All => true,
            Sectors::Torn {
                kept, unreadable, ..
            } => {
                let number = usize::try_from(persisted_write.id - FIRST_ID).unwrap();
                let count = WRITES[number].1;
                let bad = |at: &u64| allowed && *at < count && !kept.contains(at);
                let can_tear = count > 1 || allowed;
                let is_something = !kept.is_empty() || unreadable.is_some();
                can_tear && is_something && unreadable.as_ref().is_none_or(bad)
            }
        })
}

fn picture(state: &CrashState) -> Picture {
    let mut picture = [Some(9); 3];
    for persisted_write in &state.persisted {
        let number = usize::try_from(persisted_write.id - FIRST_ID).unwrap();
        let (first, count) = WRITES[number];
        for index in 0..count {
            let fill = Some(u8::try_from(number + 1).unwrap());
            let place = &mut picture[usize::try_from(first + index).unwrap()];
            match &persisted_write.sectors {
                Sectors::All => *place = fill,
                Sectors::Torn {
                    unreadable: Some(at),
                    ..
                } if *at == index => *place = None,
                Sectors::Torn { kept, .. } if kept.contains(&index) => *place = fill,
                Sectors::Torn { .. } => {}
            }
        }
    }
    picture
}

fn reads(rig: &mut Rig) -> Picture {
    [0, 1, 2].map(|sector| match rig.read(sector) {
        Ok(fill) => Some(fill),
        Err(error) => {
            assert_eq!(error, DiskError::Read);
            None
        }
    })
}

/// Goal: exactly the states of the model are accepted, a cut leaves what the model says, and drawing comes to every picture and no other. Method: all states
/// of three overlapping writes, with the fault asked for and without.
#[test]
fn drawn_accepted_and_modelled_states_agree() {
    for allowed in [true, false] {
        let faults = FaultConfig {
            torn_unreadable: if allowed { 0.6 } else { 0.0 },
            ..faults()
        };
        let whole = rig(&config(), &faults);
        let mut reachable = BTreeSet::new();
        for state in every_state() {
            let legal = is_legal(&state, allowed);
            let checked = whole.device.check_crash(&state);
            assert_eq!(checked.is_ok(), legal, "{state:?}: {checked:?}");
            if !legal {
                continue;
            }
            let mut fork = Rig {
                device: whole.device.clone(),
                now: whole.now,
            };
            let announced = fork.device.image_hash_after(&state);
            fork.cut(&state);
            assert_eq!(announced, Ok(fork.device.image_hash()));
            let found = reads(&mut fork);
            assert_eq!(found, picture(&state), "{state:?}");
            reachable.insert(found);
        }
        let mut drawn = BTreeSet::new();
        let mut device = whole.device;
        for _ in 0..60_000 {
            let state = device.draw_crash();
            device.check_crash(&state).expect("what is drawn is legal");
            drawn.insert(picture(&state));
        }
        assert_eq!(drawn, reachable);
    }
}

fn torn(unreadable: u64) -> CrashState {
    torn_of(FIRST_ID, unreadable)
}

/// Of this write nothing survives but a sector that cannot be read.
fn torn_of(id: u64, unreadable: u64) -> CrashState {
    let sectors = Sectors::Torn {
        kept: Vec::new(),
        garbage: None,
        torn_at: None,
        unreadable: Some(unreadable),
    };
    CrashState {
        persisted: vec![Persisted { id, sectors }],
    }
}

/// Goal: an unreadable sector stays so over kills and cuts until a rewrite is durable. Method: a kill, a rewrite that a cut takes away, and one that is flushed.
#[test]
fn only_a_durable_rewrite_heals_it() {
    let mut rig = rig(&config(), &faults());
    rig.cut(&torn(1));
    assert_eq!(rig.fired(FaultKind::TornUnreadable), 1);
    assert_eq!(reads(&mut rig), [Some(9), None, Some(9)]);
    rig.device
        .crash(rig.now, CrashKind::Process, &CrashState::default())
        .unwrap();
    assert_eq!(rig.read(1), Err(DiskError::Read));
    rig.write(1, 1, 4);
    assert_eq!(rig.read(1), Ok(4));
    rig.cut_all();
    assert_eq!(rig.read(1), Err(DiskError::Read));
    rig.write(1, 1, 4);
    rig.flush();
    rig.cut_all();
    assert_eq!(reads(&mut rig), [Some(9), Some(4), Some(9)]);
}

/// Goal: no sector of an atomic write becomes unreadable, since the device says so. Method: an atomic unit as long as the first write.
#[test]
fn an_atomic_write_leaves_no_unreadable_sector() {
    let device = DeviceConfig {
        atomic_write_bytes: 2 * SECTOR,
        ..config()
    };
    let rig = rig(&device, &faults());
    assert!(rig.device.check_crash(&torn(0)).is_err());
    let write = &rig.device.pending()[0];
    assert!(rig.device.tears(write).is_none());
}

/// Goal: what lies beyond a lost growth is not unreadable, since it is not there. Method: a torn write in a grown part, with its growth and without.
#[test]
fn a_lost_growth_takes_its_unreadable_sector_with_it() {
    let mut rig = Rig::with_faults(&faults());
    let growth = rig.submit(Op::Grow {
        new_bytes: 2 * SECTORS * SECTOR,
    });
    rig.drain();
    let id = rig.submit(write(SECTORS, 2, 1, false));
    let clean = Rig::with_faults(&faults()).device.image_hash();
    let mut state = torn(1);
    state.persisted[0].id = id;
    assert_eq!(rig.device.image_hash_after(&state), Ok(clean));
    state.persisted.push(Persisted::whole(growth));
    rig.cut(&state);
    assert_eq!(rig.read(SECTORS), Ok(0));
    assert_eq!(rig.read(SECTORS + 1), Err(DiskError::Read));
}

/// Goal: a sector that is merely torn is no damage, and a read that fails only there counts as such; one that goes bad at rest there is damage. Method: a torn
/// write whose sector is read alone and with its neighbours, and an error that stays.
#[test]
fn a_torn_sector_is_no_damage() {
    let mut rig = rig(&config(), &faults());
    rig.cut(&torn(0));
    assert_eq!(rig.device.damaged_sectors(), 0);
    assert_eq!(rig.read(0), Err(DiskError::Read));
    assert!(rig.run(crate::common::read(0, 3)).is_err());
    let failures = rig.device.failures();
    assert_eq!((failures.reads, failures.torn_reads), (2, 2));
    assert_eq!(
        (rig.device.failing_sectors(), rig.device.damaged_reads()),
        (0, 0)
    );
    rig.write(0, 1, 5);
    rig.flush();
    assert_eq!(rig.read(0), Ok(5));

    let mut worn = Rig::new(
        &config(),
        &FaultConfig {
            read_error: 1.0,
            persistent: 1.0,
            ..faults()
        },
        1,
    );
    worn.write(0, 3, 9);
    worn.flush();
    for (fill, (first, count)) in (1..).zip(WRITES) {
        worn.submit_write(first, count, fill);
    }
    worn.cut(&torn(0));
    assert_eq!(worn.device.damaged_sectors(), 0);
    assert_eq!(worn.read(0), Err(DiskError::Read));
    assert_eq!(worn.device.damaged_sectors(), 1, "it went bad once more");
    assert_eq!(worn.device.failures().torn_reads, 0);
    assert_eq!(worn.device.failing_sectors(), 1);
}

/// Goal: a sector that a power cut leaves unreadable is damaged if a lie had put the write there, and merely torn otherwise. Method: the same write, torn at home and
/// over what was durable elsewhere.
#[test]
fn a_misdirected_write_that_is_torn_damages() {
    for elsewhere in [false, true] {
        let mut faults = faults();
        if elsewhere {
            faults.script.push(ScriptedFault {
                at_bytes: Some(4 * SECTOR),
                ..ScriptedFault::new(2, FaultKind::MisdirectedWrite)
            });
        }
        let mut rig = Rig::new(&config(), &faults, 1);
        rig.write(0, 6, 9);
        rig.flush();
        let id = rig.submit_write(1, 1, 1);
        rig.cut(&torn_of(id, 0));
        let place = if elsewhere { 4 } else { 1 };
        rig.read(place).unwrap_err();
        assert_eq!(rig.device.failing_sectors(), u64::from(elsewhere));
    }
}

/// Goal: a torn sector is torn until the device has taken what repairs it: if a lie loses that, the sector is damaged. Method: a torn sector is written anew, and the write is done, lost, or
/// dropped by a power cut after a flush that did nothing.
#[test]
fn a_lie_makes_a_torn_sector_damaged() {
    for lie in [
        None,
        Some((3, FaultKind::LostWrite)),
        Some((4, FaultKind::FlushLie)),
    ] {
        let mut faults = faults();
        let strikes = lie.map(|(op, kind)| ScriptedFault::new(op, kind));
        faults.script.extend(strikes);
        let mut rig = Rig::new(&config(), &faults, 1);
        rig.write(0, 1, 9);
        rig.flush();
        let id = rig.submit_write(0, 1, 1);
        rig.cut(&torn_of(id, 0));
        rig.write(0, 1, 5);
        rig.flush();
        rig.cut(&CrashState::default());
        assert_eq!(rig.read(0).ok(), lie.is_none().then_some(5), "{lie:?}");
        let failures = rig.device.failures();
        let read_failures = u64::from(lie.is_some());
        assert_eq!((failures.reads, failures.torn_reads), (read_failures, 0));
        assert_eq!(rig.device.failing_sectors(), read_failures);
    }
}
