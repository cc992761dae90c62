//! What a power cut chooses: loss, order, bias, and how often it tears.

use crate::common::{Rig, config, discard};
use kvsim_simdisk::{
    CrashBias, CrashState, DeviceConfig, FaultConfig, FaultKind, Persisted, Sectors,
};

const NO_BIAS: CrashBias = CrashBias {
    none: 0,
    all: 0,
    all_but_one: 0,
    one: 0,
    prefix: 0,
    subset: 0,
};

/// A device with these pending writes: first sector and count, number `i` filled with `i + 1`.
fn pending(device: &DeviceConfig, faults: &FaultConfig, seed: u64, writes: &[(u64, u64)]) -> Rig {
    let mut rig = Rig::new(device, faults, seed);
    for (number, (first, count)) in writes.iter().enumerate() {
        rig.submit_write(*first, *count, u8::try_from(number + 1).unwrap());
    }
    rig
}

fn ids(state: &CrashState) -> Vec<u64> {
    state
        .persisted
        .iter()
        .map(|persisted_write| persisted_write.id)
        .collect()
}

/// Draws many states for five single-sector writes, none torn.
fn drawn(faults: &FaultConfig) -> Vec<CrashState> {
    let mut rig = pending(
        &config(),
        faults,
        1,
        &[(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)],
    );
    (0..300).map(|_| rig.device.draw_crash()).collect()
}

fn biased(bias: CrashBias) -> Vec<CrashState> {
    drawn(&FaultConfig {
        bias,
        ..FaultConfig::default()
    })
}

/// Goal: `loss`. Method: with it a completed write goes; without it every drawn state keeps all, and a loss is refused.
#[test]
fn loss_loses_and_its_absence_does_not() {
    let mut rig = pending(&config(), &FaultConfig::default(), 1, &[(0, 1)]);
    rig.drain();
    rig.cut_all();
    assert_eq!(rig.read(0), Ok(0));
    assert_eq!(
        (rig.possible(FaultKind::Loss), rig.fired(FaultKind::Loss)),
        (1, 1)
    );

    let faults = FaultConfig {
        loss: false,
        ..FaultConfig::default()
    };
    assert!(
        drawn(&faults)
            .iter()
            .all(|state| state.persisted.len() == 5)
    );
    let rig = pending(&config(), &faults, 1, &[(0, 1)]);
    assert!(rig.device.check_crash(&CrashState::default()).is_err());
}

/// Goal: `reorder`. Method: with it a later write survives an earlier one, and overlapping ones swap; without it only prefixes.
#[test]
fn reorder_leaves_holes_and_its_absence_prefixes() {
    let mut rig = pending(&config(), &FaultConfig::default(), 1, &[(0, 1), (0, 1)]);
    rig.cut(&CrashState {
        persisted: vec![Persisted::whole(1), Persisted::whole(0)],
    });
    assert_eq!(rig.read(0), Ok(1), "the older reached the medium last");
    assert_eq!(rig.fired(FaultKind::Reorder), 1);
    assert!(
        drawn(&FaultConfig::default())
            .iter()
            .any(|state| !ids(state).is_sorted())
    );

    let faults = FaultConfig {
        reorder: false,
        ..FaultConfig::default()
    };
    let states = drawn(&faults);
    assert!(states.iter().all(|state| {
        ids(state)
            .iter()
            .copied()
            .eq(0..state.persisted.len() as u64)
    }));
    let lengths: std::collections::BTreeSet<_> = states.iter().map(|s| s.persisted.len()).collect();
    assert_eq!(lengths, (0..=5).collect(), "and every prefix");
}

/// Goal: each weight of `bias` gives its shape. Method: one weight alone at a time.
#[test]
fn each_bias_gives_its_shape() {
    let sizes = |bias| {
        biased(bias)
            .iter()
            .map(|s| s.persisted.len())
            .collect::<Vec<_>>()
    };
    assert!(
        sizes(CrashBias { none: 1, ..NO_BIAS })
            .iter()
            .all(|&size| size == 0)
    );
    assert!(
        sizes(CrashBias { all: 1, ..NO_BIAS })
            .iter()
            .all(|&size| size == 5)
    );
    assert!(
        sizes(CrashBias {
            all_but_one: 1,
            ..NO_BIAS
        })
        .iter()
        .all(|&size| size == 4)
    );
    assert!(
        sizes(CrashBias { one: 1, ..NO_BIAS })
            .iter()
            .all(|&size| size == 1)
    );
    for state in biased(CrashBias {
        prefix: 1,
        ..NO_BIAS
    }) {
        let mut ids = ids(&state);
        ids.sort_unstable();
        assert!(ids.iter().copied().eq(0..ids.len() as u64));
    }
    let subsets: std::collections::BTreeSet<Vec<u64>> = biased(CrashBias {
        subset: 1,
        ..NO_BIAS
    })
    .iter()
    .map(|state| {
        let mut ids = ids(state);
        ids.sort_unstable();
        ids
    })
    .collect();
    assert_eq!(subsets.len(), 32, "every subset of five");
}

/// Goal: `torn` is the share of power cuts that tear. Method: count among many with one tearable write that survives.
#[test]
fn torn_is_a_share_of_power_cuts() {
    let faults = FaultConfig {
        torn: 0.4,
        loss: false,
        ..FaultConfig::default()
    };
    let mut rig = pending(&config(), &faults, 1, &[(0, 8)]);
    let torn = (0..4000).filter(|_| rig.device.draw_crash().persisted[0].sectors != Sectors::All);
    // One persisted write or, as often, all of them or each with the toss of a coin: seven eighths of 0.4.
    let share = torn.count();
    assert!((1280..1520).contains(&share), "{share}");
}

/// Goal: what is written side by side may be torn all at once and hold zeros throughout, as both copies of a thing may. Method: count such states of four writes.
#[test]
fn all_writes_may_be_torn_at_once_and_hold_zeros() {
    let faults = FaultConfig {
        loss: false,
        torn: 1.0,
        garbage: 1.0,
        ..FaultConfig::default()
    };
    let writes = [(0, 1), (1, 1), (2, 1), (3, 1)];
    let mut rig = pending(&config(), &faults, 1, &writes);
    let is_zeros = |persisted: &Persisted| match persisted.sectors {
        Sectors::All => false,
        Sectors::Torn { garbage, .. } => garbage == Some((0, 0)),
    };
    let all = (0..4000).filter(|_| rig.device.draw_crash().persisted.iter().all(is_zeros));
    // All are torn in a quarter of the states, and hold zeros in a quarter of these.
    let share = all.count();
    assert!((200..340).contains(&share), "{share}");
}

/// Goal: a sector is atomic unless garbage or byte tears are asked for. Method: tear everything made of single sectors.
#[test]
fn a_single_sector_is_never_torn_by_an_honest_device() {
    let faults = FaultConfig {
        torn: 1.0,
        ..FaultConfig::default()
    };
    let mut rig = pending(&config(), &faults, 1, &[(0, 1), (1, 1)]);
    rig.run(discard(7, 1)).unwrap();
    for _ in 0..300 {
        assert!(
            rig.device
                .draw_crash()
                .persisted
                .iter()
                .all(|s| s.sectors == Sectors::All)
        );
    }
    rig.cut_all();
    assert_eq!(
        rig.possible(FaultKind::Torn),
        0,
        "so it does not count as possible either"
    );
}

/// Goal: the cut in a flush is counted. Method: one cut with a flush in flight, one without.
#[test]
fn a_cut_in_a_flush_is_counted() {
    let mut rig = Rig::with_faults(&FaultConfig::default());
    rig.submit(kvsim_simdisk::Op::Flush);
    rig.cut_all();
    rig.cut_all();
    assert_eq!(
        (
            rig.possible(FaultKind::CutInFlush),
            rig.fired(FaultKind::CutInFlush)
        ),
        (2, 1)
    );
}
