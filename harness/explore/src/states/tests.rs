//! The states of a moment, counted and compared with those that trying everything gives.

use super::*;
use hashbrown::HashSet;
use kvsim_simdisk::{Device, DeviceConfig, FaultConfig, Op};
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

fn device(faults: FaultConfig, writes: &[(u64, usize)]) -> Device {
    let config = DeviceConfig {
        sector_bytes: 512,
        capacity_bytes: 1 << 20,
        ..DeviceConfig::default()
    };
    let mut device = Device::new(&config, &faults, 1).unwrap();
    for (number, &(sector, sectors)) in (1..).zip(writes) {
        let op = Op::Write {
            offset: sector * 512,
            data: vec![number; sectors * 512].into(),
            through: false,
        };
        device.submit(0, u64::from(number), op).unwrap();
    }
    device
}

fn faults(torn: f64) -> FaultConfig {
    FaultConfig {
        torn,
        garbage: 0.0,
        byte_tear: 0.0,
        ..FaultConfig::default()
    }
}

fn bounds() -> ExploreConfig {
    ExploreConfig {
        torn_writes: 1,
        ..ExploreConfig::default()
    }
}

fn images(device: &Device, states: &States) -> Vec<u128> {
    let mut images: Vec<u128> = states
        .taken
        .iter()
        .map(|state| device.image_after(state).expect("it is legal").hash())
        .collect();
    images.sort_unstable();
    images.dedup();
    images
}

/// Goal: all subsets, all tears of one write. Method: three writes of 1, 2 and 3 sectors that do not overlap, counted by hand:
/// 8 subsets; the second is in 4 of them and tears in 2 ways, the third in 4 and tears in 6.
#[test]
fn three_writes_leave_forty_states() {
    let device = device(faults(1.0), &[(0, 1), (8, 2), (16, 3)]);
    let states = states(&device, &bounds(), 1);
    assert_eq!(states.possible, 8 + 4 * 2 + 4 * 6);
    assert_eq!(states.taken.len(), 40);
    assert_eq!(images(&device, &states).len(), 40);
    assert!(states.left_out.several_torn && !states.left_out.sampled);
}

/// Goal: as many writes are torn at once as the bound says, in every way. Method: three writes of 2, 2 and 3 sectors, against all pictures of seven sectors:
/// with three torn writes these are all that there are, with fewer those in which no more writes are there in part.
#[test]
fn several_writes_are_torn_at_once() {
    let device = device(faults(1.0), &[(0, 2), (8, 2), (16, 3)]);
    for torn_writes in 0..=3 {
        let bounds = ExploreConfig {
            torn_writes,
            ..bounds()
        };
        let found = states(&device, &bounds, 1);
        let in_part = |bits: u32| {
            let writes = [bits & 3, bits >> 2 & 3, bits >> 4];
            let torn = writes
                .iter()
                .zip([3, 3, 7])
                .filter(|(new, all)| **new != 0 && *new != all);
            torn.count()
        };
        let expected = (0..1 << 7).filter(|bits| in_part(*bits) <= torn_writes as usize);
        assert_eq!(found.taken.len(), expected.count());
        assert_eq!(found.possible, found.taken.len() as u64);
        assert_eq!(images(&device, &found).len(), found.taken.len());
        assert_eq!(found.left_out.several_torn, torn_writes < 3);
    }
}

/// Goal: barriers leave closed sets only, and tear nothing that another persisted write follows. Method: two writes, a barrier, two writes; counted by hand:
/// four sets of the first two, and all of them with three more; the last two can be torn in two ways each, the first two only where neither of the others is there.
#[test]
fn barriers_bound_what_is_listed() {
    let config = DeviceConfig {
        sector_bytes: 512,
        barrier: true,
        ..DeviceConfig::default()
    };
    let mut device = Device::new(&config, &faults(1.0), 1).unwrap();
    let write = |sector: u64| Op::Write {
        offset: sector * 512,
        data: vec![1 + u8::try_from(sector).unwrap(); 1024].into(),
        through: false,
    };
    for op in [write(0), write(8), Op::Barrier] {
        device.submit(0, 0, op).unwrap();
        while device.complete_next().is_some() {}
    }
    for sector in [16, 24] {
        device.submit(0, 0, write(sector)).unwrap();
    }
    let bounds = ExploreConfig {
        torn_writes: 2,
        ..bounds()
    };
    let found = states(&device, &bounds, 1);
    // Each of two writes is lost, whole or torn in two ways: 16. With the first two whole, 15 more.
    assert_eq!(found.taken.len(), 16 + 15);
    assert_eq!(images(&device, &found).len(), 31);
}

/// Goal: overlapping persisted writes are taken in every order. Method: two writes of the same sector: neither, one, the other, and
/// both in two orders, which leave three different images.
#[test]
fn overlapping_writes_are_taken_in_both_orders() {
    let device = device(faults(0.0), &[(0, 1), (0, 1)]);
    let states = states(&device, &bounds(), 1);
    assert_eq!((states.possible, states.taken.len()), (5, 5));
    assert_eq!(images(&device, &states).len(), 3);
}

/// Goal: persisted writes that do not touch each other do not multiply the orders of those that do, so nothing is left out. Method: two pairs of
/// overlapping writes and two others: each pair leaves one of three contents, each other write one of two.
#[test]
fn only_what_overlaps_is_put_in_other_orders() {
    let writes = [(0, 1), (0, 1), (8, 1), (16, 1), (16, 1), (24, 1)];
    let device = device(faults(0.0), &writes);
    let all = ExploreConfig {
        subset_writes: 6,
        ..bounds()
    };
    let found = states(&device, &all, 1);
    assert!(!found.left_out.orders);
    assert_eq!(images(&device, &found).len(), 3 * 3 * 2 * 2);
}

/// Goal: what the device cannot do is not listed. Method: order kept, then nothing lost.
#[test]
fn a_device_that_keeps_order_leaves_prefixes() {
    let in_order = FaultConfig {
        reorder: false,
        ..faults(1.0)
    };
    let device_in_order = device(in_order.clone(), &[(0, 1), (8, 2), (16, 1)]);
    let found = states(&device_in_order, &bounds(), 1);
    assert_eq!(found.possible, 4 + 2, "four prefixes, one with two tears");
    assert_eq!(images(&device_in_order, &found).len(), 6);
    let lossless = FaultConfig {
        loss: false,
        torn: 0.0,
        ..in_order
    };
    let device = device(lossless, &[(0, 1), (8, 2), (16, 1)]);
    assert_eq!(states(&device, &bounds(), 1).possible, 1);
}

/// Goal: a bound that cuts something off says so. Method: more writes than subsets are taken of; a limit below the count.
#[test]
fn bounds_say_what_they_leave_out() {
    let writes: Vec<(u64, usize)> = (0..10).map(|at| (at * 8, 2)).collect();
    let device = device(faults(1.0), &writes);
    let narrow = ExploreConfig {
        subset_writes: 2,
        ..bounds()
    };
    let found = states(&device, &narrow, 1);
    let subsets = 2 * (1 + 10 + 45);
    let torn = 2 * 10 * (1 + 9) + 2 * 10 * (1 + 9 + 36);
    assert_eq!(found.possible, subsets + torn);
    assert!(found.left_out.subsets && !found.left_out.sampled);
    let few = ExploreConfig {
        states_per_point: 150,
        ..narrow.clone()
    };
    let sampled = states(&device, &few, 1);
    assert_eq!(sampled.taken.len(), 150);
    assert_eq!(sampled.possible, found.possible);
    assert!(sampled.left_out.sampled);
    assert_eq!(images(&device, &sampled).len(), 150, "no state twice");
    let again = states(&device, &few, 1);
    assert_eq!(sampled.taken, again.taken, "the seed decides");
}

/// Goal: few states of a moment are of all sizes, torn or not, and listing them costs no more than they are worth. Method: eight of forty pending writes, and of
/// five, whose subsets are all listed.
#[test]
fn few_states_are_of_all_sizes() {
    for writes in [5, 40] {
        let places: Vec<(u64, usize)> = (0..writes).map(|at| (at, 1)).collect();
        let device = device(faults(0.0), &places);
        let few = ExploreConfig {
            states_per_point: 8,
            ..bounds()
        };
        let found = states(&device, &few, 1);
        let mut sizes: Vec<usize> = found.taken.iter().map(|it| it.persisted.len()).collect();
        assert_eq!(sizes.len(), 8);
        assert!(found.left_out.sampled);
        sizes.dedup();
        assert_eq!(sizes.first(), Some(&0), "nothing persists");
        assert_eq!(sizes.last(), Some(&places.len()), "all persists");
        assert!(sizes.len() > 3 && sizes.is_sorted(), "{sizes:?}");
    }
}

/// Goal: a moment with far more subsets than can be listed is sampled at once. Method: forty writes pending.
#[test]
fn countless_subsets_are_drawn() {
    let writes: Vec<(u64, usize)> = (0..60).map(|at| (at * 8, 1)).collect();
    let device = device(faults(1.0), &writes);
    let few = ExploreConfig {
        states_per_point: 1_000,
        ..bounds()
    };
    let found = states(&device, &few, 1);
    assert!(found.possible > 1_000_000 && found.left_out.sampled);
    assert!(
        (500..=1_000).contains(&found.taken.len()),
        "{}",
        found.taken.len()
    );
    assert_eq!(images(&device, &found).len(), found.taken.len());
}

/// A file system of this profile in which a file was made and written twice, renamed over another one, and a second file made; nothing was synced.
fn files(profile: &str) -> kvsim_fs::FileSystem {
    use kvsim_fs::{FileConfig, FileSystem, OpenHow, ROOT_FD, SyncKind};
    let mut files = FileSystem::new(&FileConfig::with_profile(profile), 1).unwrap();
    let old = files.open(ROOT_FD, b"data", &OpenHow::CREATE).unwrap();
    files.write(old, &[1; 100]).unwrap();
    files.sync(old, SyncKind::Full).unwrap();
    files.sync(ROOT_FD, SyncKind::Full).unwrap();
    let new = files.open(ROOT_FD, b"data.new", &OpenHow::CREATE).unwrap();
    files.write(new, &[2; 100]).unwrap();
    files.write(new, &[3; 600]).unwrap();
    files
        .rename(ROOT_FD, b"data.new", ROOT_FD, b"data")
        .unwrap();
    files.open(ROOT_FD, b"wal", &OpenHow::CREATE).unwrap();
    files
}

/// Goal: of steps that need others every possible set is listed once, and none that is not; and where a bound leaves some out, it says so. Method: three
/// profiles, against all subsets that the file system accepts.
#[test]
fn every_closed_set_of_steps_is_listed_once() {
    for profile in ["posix", "ext4_ordered", "btrfs"] {
        let files = files(profile);
        let ids: Vec<u64> = files.pending().iter().map(|step| step.id).collect();
        assert!((4..=16).contains(&ids.len()), "{profile}: {ids:?}");
        let subset = |bits: u32| CrashState {
            persisted: (0..)
                .zip(&ids)
                .filter(|(at, _)| bits >> at & 1 == 1)
                .map(|(_, id)| Persisted::whole(*id))
                .collect(),
        };
        let possible: HashSet<Vec<u64>, Xxh3DefaultBuilder> = (0..1_u32 << ids.len())
            .map(subset)
            .filter(|state| files.check_crash(state).is_ok())
            .map(|state| state.persisted.iter().map(|it| it.id).collect())
            .collect();
        let listed = |subset_writes| {
            let bounds = ExploreConfig {
                subset_writes,
                torn_writes: 0,
                ..ExploreConfig::default()
            };
            states(&files, &bounds, 1)
        };
        let all = listed(16);
        let sets = |states: &States| -> Vec<Vec<u64>> {
            let taken = states.taken.iter();
            let ids = |state: &CrashState| state.persisted.iter().map(|it| it.id).collect();
            taken.map(ids).collect()
        };
        let mut found = sets(&all);
        assert_eq!(found.len(), possible.len(), "{profile}");
        assert!(found.iter().all(|set| possible.contains(set)), "{profile}");
        found.sort();
        found.dedup();
        assert_eq!(found.len(), possible.len(), "{profile}: each once");
        assert!(!all.left_out.subsets);
        let few = sets(&listed(1));
        assert!(few.len() <= possible.len() && few.iter().all(|set| possible.contains(set)));
        assert!(few.len() == possible.len() || listed(1).left_out.subsets);
    }
}

/// Goal: a torn page is listed only where nothing that is kept needs it, and every state that is listed is possible. Method: all states of each profile,
/// with pages torn.
#[test]
fn every_torn_state_of_files_is_possible() {
    for profile in ["posix", "ext4_ordered", "xfs", "process_kill"] {
        let files = files(profile);
        let bounds = ExploreConfig {
            torn_writes: 2,
            ..ExploreConfig::default()
        };
        let found = states(&files, &bounds, 1);
        for state in &found.taken {
            let checked = files.check_crash(state);
            assert!(checked.is_ok(), "{profile}: {state:?}: {checked:?}");
        }
        let torn = |state: &&CrashState| {
            let mut persisted = state.persisted.iter();
            persisted.any(|it| it.sectors != Sectors::All)
        };
        let count = found.taken.iter().filter(torn).count();
        match profile {
            "posix" => assert!(count > 0, "nothing is torn"),
            "process_kill" => assert_eq!(count, 0),
            _ => {}
        }
    }
}

/// A file system of this profile with so many files, of which each was made, written twice and renamed; every fourth is synced.
fn many_files(profile: &str, count: usize) -> kvsim_fs::FileSystem {
    use kvsim_fs::{FileConfig, FileSystem, OpenHow, ROOT_FD, SyncKind};
    let mut files = FileSystem::new(&FileConfig::with_profile(profile), 1).unwrap();
    for number in 0..count {
        let (begun, named) = (format!("{number}.new"), format!("{number}"));
        let file = files
            .open(ROOT_FD, begun.as_bytes(), &OpenHow::CREATE)
            .unwrap();
        files.write(file, &[1; 3_000]).unwrap();
        files.write(file, &[2; 6_000]).unwrap();
        if number % 4 == 3 {
            files.sync(file, SyncKind::Full).unwrap();
        }
        files
            .rename(ROOT_FD, begun.as_bytes(), ROOT_FD, named.as_bytes())
            .unwrap();
    }
    files
}

/// Holds the states of a storage against their plain definition, with bounds that list all subsets and some, with room for tears and none. Says
/// how many of these moments had more subsets than are listed.
fn compare_with_plain(storage: &impl CrashStates, what: &str) -> usize {
    let mut some_listed = 0;
    for states_per_point in [1, 8, 40] {
        for (subset_writes, torn_writes) in [(1, 0), (2, 1), (3, 1), (3, 2)] {
            for seed in [1, 77] {
                let bounds = ExploreConfig {
                    subset_writes,
                    torn_writes,
                    states_per_point,
                    tear_sectors: 2,
                    ..ExploreConfig::default()
                };
                let found = states(storage, &bounds, seed);
                let plain = plainly::states(storage, &bounds, seed);
                let case = format!(
                    "{what}, {states_per_point} states, {subset_writes} of a subset, {torn_writes} torn, seed {seed}"
                );
                assert_eq!(found.possible, plain.possible, "{case}");
                assert_eq!(found.left_out, plain.left_out, "{case}");
                assert!(found.taken == plain.taken, "{case}: other states");
                let cuts = Cuts::new(storage.effects(), &bounds, seed);
                let subsets = Subsets {
                    effects: &cuts.effects,
                    needs: &cuts.needs,
                    bounds: &bounds,
                    seed,
                };
                some_listed += usize::from(!subsets.list(&mut LeftOut::default()).1);
            }
        }
    }
    some_listed
}

/// Goal: the states are those of the plain definition, in its order, with its counts, whether all subsets are listed or some. Method: files of
/// three profiles with few steps pending and with many; devices on which writes overlap or do not, are in order, or follow a barrier.
#[test]
fn states_are_those_of_the_plain_definition() {
    for profile in ["posix", "ext4_ordered", "btrfs"] {
        for count in [1, 2, 12] {
            let files = many_files(profile, count);
            let steps = files.effects().list.len();
            let some = compare_with_plain(&files, &format!("{profile}, {steps} steps"));
            assert!(some < 24, "{profile}: {steps} steps");
            assert!(some > 0 || count < 12, "{profile}: {steps} steps");
        }
    }
    let sectors = |at: u64| 1 + usize::try_from(at % 3).expect("it is small");
    let apart: Vec<(u64, usize)> = (0..30).map(|at| (at * 8, sectors(at))).collect();
    let over: Vec<(u64, usize)> = (0..10).map(|at| (at % 7 * 2, sectors(at))).collect();
    assert!(compare_with_plain(&device(faults(1.0), &apart), "apart") > 0);
    assert!(compare_with_plain(&device(faults(1.0), &over), "over each other") > 0);
    compare_with_plain(&device(faults(1.0), &apart[..4]), "few, apart");
    compare_with_plain(&device(faults(1.0), &over[..6]), "few, over each other");
    let in_order = FaultConfig {
        reorder: false,
        ..faults(1.0)
    };
    compare_with_plain(&device(in_order, &apart), "in order");
    let lossless = FaultConfig {
        loss: false,
        ..faults(0.0)
    };
    compare_with_plain(&device(lossless, &apart), "nothing is lost");
}
