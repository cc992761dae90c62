//! Crash states against brute force: three overlapping writes, everything that could be left.

use std::collections::BTreeSet;

use crate::common::{Rig, SECTOR, config, fills};
use kvsim_simdisk::{CrashState, DeviceConfig, FaultConfig, Persisted, Sectors};

/// First sector and count of each of the pending writes, over sectors that hold 9. Number `i` fills with `i + 1`.
const WRITES: [(u64, u64); 3] = [(0, 2), (1, 2), (0, 3)];
const FIRST_ID: u64 = 2;
type Picture = [u8; 3];

fn rig(device: &DeviceConfig, faults: &FaultConfig, seed: u64) -> Rig {
    let mut rig = Rig::new(device, faults, seed);
    rig.write(0, 3, 9);
    rig.flush();
    for (number, (first, count)) in WRITES.iter().enumerate() {
        rig.submit_write(*first, *count, u8::try_from(number + 1).unwrap());
    }
    // One complete, two in flight.
    rig.complete();
    rig
}

/// All subsets of `0..count`, as ascending lists.
fn subsets(count: u64) -> Vec<Vec<u64>> {
    (0..1_u64 << count)
        .map(|bits| (0..count).filter(|at| bits >> at & 1 == 1).collect())
        .collect()
}

/// Every sequence of distinct writes.
fn sequences() -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    let mut at = 0;
    while at < all.len() {
        for next in (0..3)
            .filter(|next| !all[at].contains(next))
            .collect::<Vec<_>>()
        {
            let mut longer = all[at].clone();
            longer.push(next);
            all.push(longer);
        }
        at += 1;
    }
    all
}

/// Every state that can be written down for these three writes without damage inside a sector.
fn every_state() -> Vec<CrashState> {
    let mut states = Vec::new();
    for sequence in sequences() {
        let mut partial = vec![Vec::new()];
        for number in sequence {
            let id = FIRST_ID + number as u64;
            let mut choices = vec![Persisted::whole(id)];
            choices.extend(
                subsets(WRITES[number].1)
                    .into_iter()
                    .map(|kept| Persisted::torn(id, kept)),
            );
            partial = partial
                .into_iter()
                .flat_map(|so_far: Vec<Persisted>| {
                    choices
                        .iter()
                        .map(move |choice| [so_far.clone(), vec![choice.clone()]].concat())
                })
                .collect();
        }
        states.extend(
            partial
                .into_iter()
                .map(|persisted| CrashState { persisted }),
        );
    }
    states
}

/// The model, said once more and plainly.
fn is_legal(state: &CrashState, faults: &FaultConfig, atomic: &[usize]) -> bool {
    let numbers: Vec<usize> = state
        .persisted
        .iter()
        .map(|s| usize::try_from(s.id - FIRST_ID).unwrap())
        .collect();
    let torn = |persisted_write: &Persisted| persisted_write.sectors != Sectors::All;
    let tears =
        state.persisted.iter().zip(&numbers).all(
            |(persisted_write, number)| match &persisted_write.sectors {
                Sectors::All => true,
                Sectors::Torn { kept, .. } => {
                    faults.torn > 0.0 && !kept.is_empty() && !atomic.contains(number)
                }
            },
        );
    let loses = faults.loss || numbers.len() == WRITES.len();
    let last = state.persisted.len().saturating_sub(1);
    let ordered = faults.reorder
        || (numbers.iter().enumerate().all(|(at, &number)| at == number)
            && state
                .persisted
                .iter()
                .take(last)
                .all(|persisted_write| !torn(persisted_write)));
    tears && loses && ordered
}

/// What a state leaves, on a plain array.
fn picture(state: &CrashState) -> Picture {
    let mut picture = [9; 3];
    for persisted_write in &state.persisted {
        let number = usize::try_from(persisted_write.id - FIRST_ID).unwrap();
        let (first, count) = WRITES[number];
        for index in 0..count {
            let kept = match &persisted_write.sectors {
                Sectors::All => true,
                Sectors::Torn { kept, .. } => kept.contains(&index),
            };
            if kept {
                picture[usize::try_from(first + index).unwrap()] =
                    u8::try_from(number + 1).unwrap();
            }
        }
    }
    picture
}

fn knobs() -> Vec<FaultConfig> {
    let settings = (0..8).map(|bits: u8| FaultConfig {
        loss: bits & 1 != 0,
        reorder: bits & 2 != 0,
        torn: if bits & 4 == 0 { 0.0 } else { 0.7 },
        ..FaultConfig::default()
    });
    settings.collect()
}

/// Goal: for every setting of the knobs, exactly the states of the model are accepted, each leaves what the model says, and
/// drawing reaches every image the model allows and no other. Method: enumerate all, draw many.
#[test]
fn drawn_accepted_and_modelled_states_agree() {
    // Without an atomic unit, and with one that covers the first write: two sectors, aligned, inside the boundary.
    for (atomic_write_bytes, atomic) in [(0, vec![]), (2 * SECTOR, vec![0])] {
        let device = DeviceConfig {
            atomic_write_bytes,
            ..config()
        };
        for faults in knobs() {
            let mut reachable = BTreeSet::new();
            let rig = rig(&device, &faults, 1);
            for state in every_state() {
                let legal = is_legal(&state, &faults, &atomic);
                let image = rig.device.image_after(&state);
                assert_eq!(
                    image.is_ok(),
                    legal,
                    "{state:?} under {faults:?}: {image:?}"
                );
                if let Ok(image) = image {
                    assert_eq!(fills(&image), picture(&state), "{state:?}");
                    reachable.insert(picture(&state));
                }
            }
            let mut drawn = BTreeSet::new();
            let mut device = rig.device;
            for _ in 0..40_000 {
                let state = device.draw_crash();
                drawn.insert(fills::<3>(
                    &device.image_after(&state).expect("what is drawn is legal"),
                ));
            }
            assert_eq!(drawn, reachable, "under {faults:?}");
        }
    }
}

/// Goal: with every sector on its own, the model is as wide as it can be. Method: count what each sector could hold.
#[test]
fn each_sector_holds_any_of_what_was_on_its_way() {
    let faults = FaultConfig::default();
    let mut device = rig(&config(), &faults, 2).device;
    let mut seen = BTreeSet::new();
    for _ in 0..6000 {
        let state = device.draw_crash();
        seen.insert(fills::<3>(&device.image_after(&state).unwrap()));
    }
    // Sector 0: old, 1 or 3; sector 1: old, 1, 2 or 3; sector 2: old, 2 or 3.
    assert_eq!(seen.len(), 3 * 4 * 3);
}

/// Goal: applying a state does what looking at it said. Method: cut for real, for every legal state.
#[test]
fn a_cut_leaves_the_image_that_was_announced() {
    let faults = FaultConfig::default();
    let whole = rig(&config(), &faults, 3);
    for state in every_state() {
        let Ok(announced) = whole.device.image_after(&state) else {
            continue;
        };
        let mut fork = Rig {
            device: whole.device.clone(),
            now: whole.now,
        };
        let report = fork.cut(&state);
        assert_eq!(fork.device.image().hash(), announced.hash());
        assert_eq!(fork.device.durable().hash(), announced.hash());
        assert_eq!(report.lost, 3 - state.persisted.len() as u64);
        assert!(fork.device.pending().is_empty() && fork.device.in_flight() == 0);
        assert_eq!(fork.reads(), picture(&state));
    }
}

/// Goal: nonsense is refused with its reason, and changes nothing. Method: one of each.
#[test]
fn illegal_states_are_refused() {
    let rig = rig(&config(), &FaultConfig::default(), 1);
    let refused = |persisted: Vec<Persisted>| {
        rig.device
            .check_crash(&CrashState { persisted })
            .unwrap_err()
            .to_string()
    };
    let torn = |kept: &[u64], garbage, torn_at| Persisted {
        id: FIRST_ID,
        sectors: Sectors::Torn {
            kept: kept.to_vec(),
            garbage,
            torn_at,
            unreadable: None,
        },
    };
    assert!(
        refused(vec![Persisted::whole(0)]).contains("not pending"),
        "it is durable"
    );
    assert!(refused(vec![Persisted::whole(99)]).contains("not pending"));
    let twice = vec![Persisted::whole(FIRST_ID), Persisted::whole(FIRST_ID)];
    assert!(refused(twice).contains("named twice"));
    assert!(refused(vec![torn(&[0, 2], None, None)]).contains("inside it"));
    assert!(refused(vec![torn(&[1, 0], None, None)]).contains("ascending"));
    assert!(refused(vec![torn(&[], None, None)]).contains("nothing of it survives"));
    assert!(refused(vec![torn(&[0], Some((1, 5)), None)]).contains("garbage is off"));
    assert!(refused(vec![torn(&[0], None, Some((1, 5)))]).contains("byte tears are off"));
}
