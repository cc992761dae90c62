//! Writes that a power cut tears: by sectors, with garbage, in the middle of a sector, and not at all where they are atomic.

use crate::common::{Rig, SECTOR, config, discard};
use kvsim_simdisk::{
    CrashError, CrashState, DeviceConfig, FaultConfig, FaultKind, Persisted, Sectors,
};

fn torn(kept: &[u64], garbage: Option<(u64, u64)>, torn_at: Option<(u64, u64)>) -> CrashState {
    let sectors = Sectors::Torn {
        kept: kept.to_vec(),
        garbage,
        torn_at,
        unreadable: None,
    };
    CrashState {
        persisted: vec![Persisted { id: 2, sectors }],
    }
}

/// Four sectors of 9, durable, and over them a pending write (operation 2) of `count` sectors of 7 from `first` on.
fn rig(device: &DeviceConfig, faults: &FaultConfig, first: u64, count: u64) -> Rig {
    let mut rig = Rig::new(device, faults, 1);
    rig.write(0, 32, 9);
    rig.flush();
    rig.write(first, count, 7);
    rig
}

fn all() -> FaultConfig {
    FaultConfig {
        torn: 1.0,
        garbage: 0.5,
        byte_tear: 0.5,
        ..FaultConfig::default()
    }
}

fn bytes(rig: &Rig, sector: u64) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    rig.device.image().read(sector * SECTOR, &mut bytes);
    bytes
}

/// Goal: any subset of sectors survives a tear, none beside them. Method: keep the two outer ones of four.
#[test]
fn a_torn_write_keeps_the_named_sectors_only() {
    let mut rig = rig(&config(), &FaultConfig::default(), 0, 4);
    let report = rig.cut(&torn(&[0, 3], None, None));
    assert_eq!(
        (report.lost, report.torn, rig.fired(FaultKind::Torn)),
        (0, 1, 1)
    );
    assert_eq!(rig.reads(), [7, 9, 9, 7, 9]);
}

/// Goal: garbage is in one sector of the write, is zeros, ones or noise, and the same for the same number.
#[test]
fn garbage_fills_one_sector_being_written() {
    let whole = rig(&config(), &all(), 0, 4);
    let after = |number| {
        let mut fork = Rig {
            device: whole.device.clone(),
            now: whole.now,
        };
        fork.cut(&torn(&[0], Some((1, number)), None));
        assert_eq!(fork.fired(FaultKind::Garbage), 1);
        let others = [0, 2, 3, 4].map(|sector| crate::common::uniform(&bytes(&fork, sector)));
        assert_eq!(others, [7, 9, 9, 9]);
        bytes(&fork, 1)
    };
    assert_eq!(after(0), [0; 512]);
    assert_eq!(after(1), [0xFF; 512]);
    assert_eq!(after(2), after(2));
    assert_ne!(after(2), after(3));
    assert!(
        after(2)
            .iter()
            .collect::<std::collections::BTreeSet<_>>()
            .len()
            > 100,
        "noise"
    );
}

/// Goal: a byte tear is new up to the byte and old after it, in one sector.
#[test]
fn a_byte_tear_splits_one_sector() {
    let mut rig = rig(&config(), &all(), 0, 4);
    rig.cut(&torn(&[0], None, Some((2, 100))));
    assert_eq!(rig.fired(FaultKind::ByteTear), 1);
    assert_eq!(bytes(&rig, 2), [[7; 100].as_slice(), &[9; 412]].concat());
    let others = [0, 1, 3].map(|sector| crate::common::uniform(&bytes(&rig, sector)));
    assert_eq!(others, [7, 9, 9]);
}

/// Goal: a single sector is atomic unless tears inside sectors are asked for.
#[test]
fn a_single_sector_tears_only_within() {
    let within = torn(&[], None, Some((0, 1)));
    let honest = rig(&config(), &FaultConfig::default(), 1, 1);
    let refusal = honest.device.check_crash(&within);
    assert!(
        matches!(refusal, Err(CrashError::NotTearable { id: 2, .. })),
        "{refusal:?}"
    );
    let mut rig = rig(&config(), &all(), 1, 1);
    rig.cut(&within);
    assert_eq!(bytes(&rig, 1), [[7; 1].as_slice(), &[9; 511]].concat());
}

/// Goal: a write is atomic exactly if it is no longer than the unit, aligned to its size, and inside the boundary.
/// Method: ask of each whether it may be torn, with a unit of 8 sectors and a boundary of 4, and see what is drawn.
#[test]
fn an_atomic_write_is_never_torn() {
    let device = DeviceConfig {
        atomic_write_bytes: 8 * SECTOR,
        ..config()
    };
    let bounded = DeviceConfig {
        atomic_boundary_bytes: 4 * SECTOR,
        ..device.clone()
    };
    let cases = [
        (&device, 0, 8, true),
        (&device, 8, 8, true),
        (&device, 2, 2, true),
        (&device, 4, 3, true),
        (&device, 0, 9, false),
        (&device, 1, 2, false),
        (&device, 4, 8, false),
        (&device, 2, 3, false),
        (&bounded, 4, 4, true),
        (&bounded, 8, 3, true),
        (&bounded, 0, 8, false),
    ];
    for (device, first, count, atomic) in cases {
        let mut rig = rig(device, &all(), first, count);
        let refused = rig.device.check_crash(&torn(&[0], None, None)).is_err();
        assert_eq!(refused, atomic, "{count} sectors from {first}");
        let is_torn = |state: CrashState| {
            state
                .persisted
                .iter()
                .any(|persisted_write| persisted_write.sectors != Sectors::All)
        };
        let drawn = (0..200).any(|_| is_torn(rig.device.draw_crash()));
        assert_eq!(drawn, !atomic, "{count} sectors from {first}");
    }
}

/// Goal: the atomic unit is for writes; a discard may be half done, but never holds garbage or half a sector.
#[test]
fn a_discard_tears_by_sectors_only() {
    let device = DeviceConfig {
        atomic_write_bytes: 8 * SECTOR,
        ..config()
    };
    let mut rig = Rig::new(&device, &all(), 1);
    rig.write(0, 4, 9);
    rig.flush();
    rig.run(discard(0, 4)).unwrap();
    assert!(
        rig.device
            .check_crash(&torn(&[0], Some((1, 5)), None))
            .is_err()
    );
    assert!(
        rig.device
            .check_crash(&torn(&[0], None, Some((1, 5))))
            .is_err()
    );
    rig.cut(&torn(&[1, 2], None, None));
    assert_eq!(rig.reads(), [9, 0, 0, 9]);
}

/// Goal: damage inside a sector that cannot be is refused. Method: outside the write, in a kept sector, twice, at the edges.
#[test]
fn impossible_damage_is_refused() {
    let rig = rig(&config(), &all(), 0, 4);
    let states = [
        torn(&[0], Some((4, 5)), None),
        torn(&[0], Some((0, 5)), None),
        torn(&[0], None, Some((4, 5))),
        torn(&[0], None, Some((0, 5))),
        torn(&[0], None, Some((1, 0))),
        torn(&[0], None, Some((1, 512))),
        torn(&[0], Some((1, 5)), Some((1, 5))),
    ];
    for state in states {
        let refusal = rig.device.check_crash(&state);
        assert!(
            matches!(refusal, Err(CrashError::NotTearable { id: 2, .. })),
            "{state:?}"
        );
    }
    rig.device
        .check_crash(&torn(&[0], Some((1, 5)), Some((2, 5))))
        .expect("this one can be");
}

/// Goal: all kinds of damage are drawn, what is drawn is legal, and it is counted when it happens. Method: many cuts.
#[test]
fn every_kind_of_tear_is_drawn() {
    let whole = rig(&config(), &all(), 0, 4);
    let mut drawer = whole.device.clone();
    let mut fired = [0; 3];
    for _ in 0..300 {
        let state = drawer.draw_crash();
        let mut fork = Rig {
            device: whole.device.clone(),
            now: whole.now,
        };
        fork.cut(&state);
        let kinds = [FaultKind::Torn, FaultKind::Garbage, FaultKind::ByteTear];
        for (sum, kind) in fired.iter_mut().zip(kinds) {
            *sum += fork.fired(kind);
        }
    }
    assert!(fired.iter().all(|&count| count > 20), "{fired:?}");
}

/// Goal: a crash state means the same after it went through a file. Method: TOML, with all parts of a state.
#[test]
fn a_crash_state_survives_a_file() {
    let mut states = vec![
        torn(&[0, 1, 3], Some((2, 1 << 32)), None),
        torn(&[], None, Some((0, 1))),
    ];
    let mut drawer = rig(&config(), &all(), 0, 20).device;
    states.extend((0..100).map(|_| drawer.draw_crash()));
    for state in states {
        let text = toml::to_string(&state).expect("a state can be written");
        assert_eq!(
            toml::from_str::<CrashState>(&text).expect("and read"),
            state,
            "{text}"
        );
    }
    let backwards = "persisted = [{ id = 1, sectors = { torn = { kept = [[3, 1]] } } }]";
    assert!(toml::from_str::<CrashState>(backwards).is_err());
}
