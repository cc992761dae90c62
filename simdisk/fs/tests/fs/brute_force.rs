//! The model against a second reading of the rules.

#[path = "common/rules.rs"]
mod reading;

use std::collections::BTreeMap;

use crate::common::{outcomes, with_rules};
use kvsim_crash::rng::{Purpose, Rng};
use kvsim_fs::{
    CallOrder, Fd, FileSystem, OpenHow, Profile, ROOT_FD, Rules, StaleContents, SyncCommits,
    SyncKind,
};
use reading::{Act, Reading, Seen};

const SECTOR: usize = 512;
/// Names of files. The directory `d` is durable from the beginning.
const NAMES: [&str; 5] = ["a", "b", "c", "d/a", "d/b"];
/// More pending steps than this are not enumerated.
const PENDING_MAX: usize = 10;
/// More combinations than this neither.
const COMBINATIONS_MAX: usize = 1 << 13;

/// The model, driven by the same acts.
struct Model {
    files: FileSystem,
    open: BTreeMap<u8, Fd>,
}

impl Model {
    fn open(&mut self, name: u8, how: &OpenHow) -> Fd {
        let path = NAMES[usize::from(name)].as_bytes();
        self.files.open(ROOT_FD, path, how).expect("it is there")
    }

    fn act(&mut self, act: Act) {
        let path = |name: u8| NAMES[usize::from(name)].as_bytes();
        let bytes = |sectors: usize| (sectors * SECTOR) as u64;
        match act {
            Act::Create(name) => {
                if !self.open.contains_key(&name) {
                    let fd = self.open(name, &OpenHow::CREATE);
                    self.open.insert(name, fd);
                }
            }
            Act::Write {
                name,
                sector,
                count,
                value,
            } => {
                let data = vec![value; count * SECTOR];
                let fd = self.open[&name];
                assert_eq!(
                    self.files.write_at(fd, bytes(sector), &data),
                    Ok(data.len())
                );
            }
            Act::Resize { name, sectors } => {
                let fd = self.open[&name];
                assert_eq!(self.files.set_size(fd, bytes(sectors)), Ok(()));
            }
            Act::Rename { from, to } => {
                assert_eq!(
                    self.files.rename(ROOT_FD, path(from), ROOT_FD, path(to)),
                    Ok(())
                );
                // Of two names of one file both stay.
                if !self.files.list().iter().any(|it| it.path == path(from)) {
                    let moved = self.open.remove(&from).expect("it is open");
                    // The file that is replaced is closed: no call reaches it any more.
                    if let Some(replaced) = self.open.insert(to, moved) {
                        self.files.close(replaced).expect("it is open");
                    }
                }
            }
            Act::Unlink(name) => {
                assert_eq!(self.files.unlink(ROOT_FD, path(name)), Ok(()));
                let fd = self.open.remove(&name).expect("it is open");
                self.files.close(fd).expect("it is open");
            }
            Act::SyncFile(name) => {
                let fd = self.open[&name];
                assert_eq!(self.files.sync(fd, SyncKind::Full), Ok(()));
            }
            Act::Link { from, to } => {
                let done = self
                    .files
                    .link(ROOT_FD, path(from), false, ROOT_FD, path(to));
                assert_eq!(done, Ok(()));
                let fd = self.open(to, &OpenHow::READ_WRITE);
                self.open.insert(to, fd);
            }
            Act::SyncDirectory(0) => crate::common::sync(&mut self.files, ROOT_FD),
            Act::SyncDirectory(_) => {
                let how = OpenHow::DIRECTORY;
                let fd = self.files.open(ROOT_FD, b"d", &how).expect("it is there");
                crate::common::sync(&mut self.files, fd);
                self.files.close(fd).expect("it is open");
            }
            Act::Close(name) => {
                let fd = self.open.remove(&name).expect("it is open");
                self.files.close(fd).expect("it is open");
                let fd = self.open(name, &OpenHow::READ_WRITE);
                self.open.insert(name, fd);
            }
        }
    }
}

/// What somebody sees, in sectors.
fn see(files: &mut FileSystem) -> Seen {
    let mut seen = Seen::new();
    for (name, path) in (0..).zip(NAMES) {
        let Some(bytes) = crate::common::read(files, path) else {
            continue;
        };
        let sectors = bytes.chunks(SECTOR).map(|sector| {
            let one = sector.iter().all(|byte| *byte == sector[0]);
            // Noise is what a block held before.
            if one { sector[0] } else { 255 }
        });
        seen.insert(name, sectors.collect());
    }
    seen
}

fn random_act(rng: &mut Rng, value: u8) -> Act {
    let mut below = |n: u64| usize::try_from(rng.below(n)).expect("small");
    let name = [0, 0, 0, 1, 1, 2, 3, 4][below(8)];
    match below(17) {
        0..=2 => Act::Create(name),
        3..=7 => {
            let count = [1, 1, 2, 3, 8][below(5)];
            // Around the border of two pages most often.
            let sector = [0, 1, 6, 7, 8, 14][below(6)];
            Act::Write {
                name,
                sector,
                count,
                value,
            }
        }
        8..=9 => Act::Resize {
            name,
            sectors: [0, 0, 1, 3, 7, 8, 9, 12][below(8)],
        },
        10..=11 => Act::Rename {
            from: name,
            to: [0, 1, 2, 3, 4][below(5)],
        },
        12 => Act::Unlink(name),
        13 => Act::SyncFile(name),
        14 => Act::SyncDirectory([0, 0, 1][below(3)]),
        15 => Act::Link {
            from: name,
            to: [0, 1, 2, 3, 4][below(5)],
        },
        _ => Act::Close(name),
    }
}

/// Runs random acts on both and compares all that a power cut can leave after each. Says how many sets were compared and how many outcomes these
/// had.
fn compare(rules: &Rules, seed: u64, label: &str) -> (usize, usize) {
    let mut rng = Rng::new(seed, Purpose::Test);
    let mut model = Model {
        files: with_rules(rules),
        open: BTreeMap::new(),
    };
    model
        .files
        .create_directory(ROOT_FD, b"d")
        .expect("it is free");
    crate::common::make_durable(&mut model.files);
    let mut reading = Reading::new(rules);
    let (mut acts, mut compared, mut found) = (Vec::new(), 0, 0);
    for number in 0..9_u8 {
        let act = random_act(&mut rng, number + 1);
        if !reading.act(usize::from(number), act) {
            continue;
        }
        acts.push(act);
        model.act(act);
        if reading.pending() > PENDING_MAX {
            break;
        }
        let tears = if reading.combinations(3) <= COMBINATIONS_MAX {
            3
        } else {
            0
        };
        if reading.combinations(tears) > COMBINATIONS_MAX {
            break;
        }
        let expected = reading.outcomes(tears);
        let ours = outcomes(&model.files, tears as u64, see);
        if ours != expected {
            let extra: Vec<_> = ours.difference(&expected).collect();
            let missing: Vec<_> = expected.difference(&ours).collect();
            let pending: Vec<String> = model
                .files
                .pending()
                .iter()
                .map(|step| {
                    format!(
                        "{} {step} needs {:?}",
                        step.id,
                        model.files.needs(step.id).collect::<Vec<_>>()
                    )
                })
                .collect();
            panic!(
                "{label}, seed {seed}: {acts:?}\nthe model alone: {extra:?}\nthe reading alone: {missing:?}\n{pending:#?}"
            );
        }
        compared += 1;
        found += ours.len();
    }
    (compared, found)
}

/// Goal: the model allows the crash states of each profile, no more and no fewer. Method: short random runs; after each act, all subsets of
/// events by a second reading of the rules against all crash states that the model accepts.
#[test]
fn profiles_allow_what_their_rules_say() {
    for name in Profile::names() {
        let rules = crate::common::rules(name);
        let (mut compared, mut found) = (0, 0);
        for seed in 0..300 {
            let (sets, states) = compare(&rules, seed, name);
            compared += sets;
            found += states;
        }
        assert!(
            compared > 800,
            "{name}: only {compared} sets of states were compared"
        );
        let loses = name != "process_kill";
        assert!(
            !loses || found > 2 * compared,
            "{name}: {found} states in {compared} sets"
        );
    }
}

/// Goal: each rule means what it says in any company. Method: as above, with rules drawn at random.
#[test]
fn any_mix_of_rules_means_what_it_says() {
    for seed in 0..1_500 {
        let mut rng = Rng::new(seed, Purpose::Faults);
        let mut coin = || rng.chance(0.5);
        let rules = Rules {
            rename_atomic: coin(),
            rename_over_flushes: coin(),
            close_after_truncate_flushes: coin(),
            delayed_allocation: coin(),
            data_before_size: coin(),
            stale_contents: match coin() {
                true => StaleContents::Noise,
                false => StaleContents::None,
            },
            unwritten_extents: coin(),
            zero_tail: coin(),
            torn_page: coin(),
            fsync_file_persists_entry: coin(),
            call_order: match (coin(), coin()) {
                (true, _) => CallOrder::Metadata,
                (false, true) => CallOrder::None,
                (false, false) => CallOrder::Everything,
            },
            sync_commits: match (coin(), coin()) {
                (true, _) => SyncCommits::WhatIsBefore,
                (false, true) => SyncCommits::OwnNames,
                (false, false) => SyncCommits::AllNames,
            },
            ..crate::common::rules("posix")
        };
        compare(&rules, seed, &format!("{rules:?}"));
    }
}
