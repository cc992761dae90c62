//! Brute force: random work from many clients, crashes at random events, also during recovery, checked against a model.
//!
//! The model is the list of writes in the order handed in. After each recovery the state must equal the base plus a prefix
//! of that list that holds every write acknowledged as durable.
#![allow(clippy::cast_possible_truncation, reason = "test sizes are small")]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a failing seed has to be told"
)]

mod common;

use std::collections::BTreeMap;
use std::rc::Rc;

use common::{Disk, FAST, Rng, World, device};
use kvsim_engine::{Direction, Durability, Mutation, Reply, Request};

type Value = Rc<[u8]>;
type State = BTreeMap<Vec<u8>, Value>;

#[derive(Debug, Clone)]
struct Write {
    mutations: Vec<(Vec<u8>, Option<Value>)>,
    durability: Durability,
    /// It must survive.
    owed: bool,
}

struct Case {
    rng: Rng,
    world: World,
    base: State,
    /// The base and all writes.
    current: State,
    writes: Vec<Write>,
    open: BTreeMap<u64, What>,
    snapshots: Vec<(u64, State)>,
    keys: u64,
    large: bool,
}

enum What {
    Write(usize),
    Get(Option<Value>),
    Snapshot(State),
    Scan(State, bool),
    Other,
}

fn apply(state: &mut State, write: &Write) {
    for (key, value) in &write.mutations {
        match value {
            Some(value) => state.insert(key.clone(), value.clone()),
            None => state.remove(key),
        };
    }
}

impl Case {
    fn state_after(&self, upto: usize) -> State {
        let mut state = self.base.clone();
        self.writes[..upto]
            .iter()
            .for_each(|write| apply(&mut state, write));
        state
    }

    fn value(&mut self) -> Value {
        let len = match self.rng.below(if self.large { 40 } else { 36 }) {
            0..12 => self.rng.below(150),
            12..30 => 200 + self.rng.below(1800),
            30..35 => 2000 + self.rng.below(7000),
            35 => 9000 + self.rng.below(30_000),
            _ => 60_000 + self.rng.below(150_000),
        };
        let mut filler = Rng(self.rng.next());
        (0..len).map(|_| filler.next() as u8).collect()
    }

    fn key(&mut self) -> Vec<u8> {
        format!("key{:04}", self.rng.below(self.keys)).into_bytes()
    }

    fn submit(&mut self) {
        match self.rng.below(20) {
            0..12 => self.submit_write(),
            12..16 => {
                let key = self.key();
                let id = self.world.request(Request::Get {
                    snapshot: 0,
                    key: &key,
                });
                self.open
                    .insert(id, What::Get(self.current.get(&key).cloned()));
            }
            16 => {
                let (start, end) = (self.key(), self.key());
                let direction = if self.rng.chance(50) {
                    Direction::Forward
                } else {
                    Direction::Reverse
                };
                let range = kvsim_engine::ScanRange {
                    snapshot: 0,
                    direction,
                    start: Some(&start),
                    end: Some(&end),
                    limit: 1 + self.rng.below(20) as u32,
                    max_bytes: self.rng.below(60_000) as u32,
                };
                let id = self.world.request(Request::Scan(range));
                let within = |key: &[u8]| key >= &start[..] && key < &end[..];
                let expected = self
                    .current
                    .iter()
                    .filter(|(key, _)| within(key))
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect();
                self.open
                    .insert(id, What::Scan(expected, direction == Direction::Forward));
            }
            17 if self.snapshots.len() < 3 => {
                let id = self.world.request(Request::Snapshot);
                self.open.insert(id, What::Snapshot(self.current.clone()));
            }
            18 if !self.snapshots.is_empty() => {
                let at = self.rng.below(self.snapshots.len() as u64) as usize;
                let (snapshot, _) = self.snapshots.swap_remove(at);
                let id = self.world.request(Request::Release { snapshot });
                self.open.insert(id, What::Other);
            }
            _ => {
                let id = self.world.request(Request::Sync);
                self.open.insert(id, What::Other);
            }
        }
    }

    fn submit_write(&mut self) {
        let count = if self.rng.chance(20) {
            1 + self.rng.below(6)
        } else {
            1
        };
        let mutations: Vec<(Vec<u8>, Option<Value>)> = (0..count)
            .map(|_| {
                let key = self.key();
                let value = if self.rng.chance(20) {
                    None
                } else {
                    Some(self.value())
                };
                (key, value)
            })
            .collect();
        let durability = if self.rng.chance(25) {
            Durability::Relaxed
        } else {
            Durability::Durable
        };
        let lent: Vec<Mutation<'_>> = mutations
            .iter()
            .map(|(key, value)| match value {
                Some(value) => Mutation::Put { key, value },
                None => Mutation::Delete { key },
            })
            .collect();
        let id = self.world.request(Request::Write {
            mutations: &lent,
            durability,
        });
        self.open.insert(id, What::Write(self.writes.len()));
        let write = Write {
            mutations,
            durability,
            owed: false,
        };
        apply(&mut self.current, &write);
        self.writes.push(write);
    }

    fn answered(&mut self, id: u64, reply: Reply) {
        let what = self
            .open
            .remove(&id)
            .unwrap_or_else(|| panic!("request {id} answered twice or never asked: {reply:?}"));
        match (what, reply) {
            (What::Write(at), Reply::Done) => {
                self.writes[at].owed = self.writes[at].durability == Durability::Durable
            }
            // Which reads saw the refused write coming is not modelled: the cases here never fill their device.
            (What::Get(Some(expected)), Reply::Value(value)) => assert_eq!(value[..], expected[..]),
            (What::Get(None), Reply::NotFound) | (What::Other, Reply::Done) => {}
            (What::Snapshot(state), Reply::Snapshot(snapshot)) => {
                self.snapshots.push((snapshot, state))
            }
            (What::Scan(state, forward), Reply::Entries { entries, more }) => {
                let mut expected: Vec<_> = state.into_iter().collect();
                if !forward {
                    expected.reverse();
                }
                // Writes refused later than the scan arrived would differ; there are none in the model when it arrived.
                assert_eq!(more, entries.len() < expected.len());
                for (entry, (key, value)) in entries.iter().zip(&expected) {
                    assert_eq!((&entry.key[..], &entry.value[..]), (&key[..], &value[..]));
                }
            }
            (_, reply) => panic!("request {id}: {reply:?}; log {:#?}", self.world.log()),
        }
    }

    /// Some steps of work with up to `clients` requests open.
    fn work(&mut self, steps: u64, clients: usize) {
        for _ in 0..steps {
            if self.open.len() < clients && self.rng.chance(30) {
                self.submit();
            }
            if let Some(Some((id, reply))) = self.world.step() {
                self.answered(id, reply);
            }
        }
    }

    fn crash(&mut self) {
        self.world.kill();
        self.open.clear();
        self.snapshots.clear();
        if self.rng.chance(20) {
            self.world.disk.process_crash();
        } else {
            self.world.disk.power_cut();
        }
    }

    fn dump(&mut self, direction: Direction, snapshot: u64) -> State {
        self.world
            .dump(direction, snapshot)
            .into_iter()
            .map(|(key, value)| (key, value.into()))
            .collect()
    }

    /// Opens, perhaps with crashes on the way, and checks the state. Returns whether a tail was cut.
    fn recover(&mut self) -> bool {
        while self.rng.chance(30) {
            self.world.begin_open();
            for _ in 0..self.rng.below(60) {
                self.world.step();
            }
            self.world.kill();
            self.world.disk.power_cut();
        }
        if let Err((status, message)) = self.world.open() {
            panic!("cannot open: {status:?} {message}");
        }
        let state = self.dump(Direction::Forward, 0);
        assert!(
            state == self.dump(Direction::Reverse, 0),
            "both directions agree"
        );
        let least = self
            .writes
            .iter()
            .rposition(|write| write.owed)
            .map_or(0, |at| at + 1);
        let mut candidate = self.state_after(least);
        let mut upto = least;
        while candidate != state {
            assert!(
                upto < self.writes.len(),
                "no prefix from {least} of {} explains what came back",
                self.writes.len()
            );
            apply(&mut candidate, &self.writes[upto]);
            upto += 1;
        }
        self.current = state.clone();
        self.base = state;
        self.writes.clear();
        self.world.engine().stats().cut_tail
    }
}

struct Totals {
    cuts: u64,
    checkpoints: u64,
    cleaned: u64,
    stalls: u64,
}

fn run(
    seed: u64,
    options: &str,
    volatile: bool,
    through: bool,
    capacity: u64,
    keys: u64,
    large: bool,
) -> Totals {
    let mut rng = Rng(seed);
    let mut info = device(capacity);
    info.volatile_cache = volatile;
    info.write_through = through;
    info.sector_bytes = if rng.chance(50) { 512 } else { 4096 };
    info.physical_block_bytes = if info.sector_bytes == 512 && rng.chance(50) {
        512
    } else {
        4096
    };
    let world = World::new(Disk::new(info, FAST, rng.next()), options);
    let mut case = Case {
        rng,
        world,
        base: State::new(),
        current: State::new(),
        writes: Vec::new(),
        open: BTreeMap::new(),
        snapshots: Vec::new(),
        keys,
        large,
    };
    let mut totals = Totals {
        cuts: 0,
        checkpoints: 0,
        cleaned: 0,
        stalls: 0,
    };
    case.recover();
    for _ in 0..12 {
        let clients = 1 + case.rng.below(10) as usize;
        let steps = if case.rng.chance(8) {
            8000
        } else {
            20 + case.rng.below(1500)
        };
        case.work(steps, clients);
        for (snapshot, state) in std::mem::take(&mut case.snapshots) {
            // Other replies that come meanwhile are not the test's business here.
            if case.rng.chance(30) {
                let mut known = BTreeMap::new();
                std::mem::swap(&mut known, &mut case.open);
                while !known.is_empty() {
                    if let Some(Some((id, reply))) = case.world.step()
                        && let Some(what) = known.remove(&id)
                    {
                        case.open.insert(id, what);
                        case.answered(id, reply);
                    }
                }
                assert!(
                    case.dump(Direction::Forward, snapshot) == state,
                    "a snapshot does not move"
                );
            }
        }
        let stats = case.world.engine().stats();
        totals.checkpoints += stats.checkpoints;
        totals.cleaned += stats.cleaned_segments;
        totals.stalls += stats.stalls;
        case.crash();
        totals.cuts += u64::from(case.recover());
    }
    totals
}

/// Goal: nothing acknowledged is lost, whatever the device keeps. Method: the brute force above over seeds, on devices with a
/// volatile cache, with write-through, and without a cache; small enough that cleaning and checkpoints are always at work.
#[test]
fn what_comes_back_is_a_prefix_with_everything_owed() {
    let seeds: u64 = std::env::var("KVSIM_ENGINE_SEEDS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(60);
    let first: u64 = std::env::var("KVSIM_ENGINE_FIRST")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    let mut sum = Totals {
        cuts: 0,
        checkpoints: 0,
        cleaned: 0,
        stalls: 0,
    };
    for seed in first..first + seeds {
        let options = [
            "",
            "checkpoint_bytes=65536\ncache_bytes=0",
            "commit=write_through",
            "segment_bytes=65536\nlarge_value_bytes=4096",
            "segment_bytes=65536\nlarge_value_bytes=1024\ninline_bytes=0",
        ];
        let (volatile, through) =
            [(true, false), (true, true), (false, false), (true, true)][seed as usize % 4];
        let option = options[(seed / 4) as usize % 5];
        let option = if volatile && !through && option.starts_with("commit") {
            "inline_bytes=0"
        } else {
            option
        };
        let (capacity, keys, large) = [
            (2 << 20, 60, false),
            (8 << 20, 40, true),
            (16 << 20, 300, true),
        ][(seed / 20) as usize % 3];
        let result = std::panic::catch_unwind(|| {
            run(seed, option, volatile, through, capacity, keys, large)
        });
        match result {
            Ok(totals) => {
                sum.cuts += totals.cuts;
                sum.checkpoints += totals.checkpoints;
                sum.cleaned += totals.cleaned;
                sum.stalls += totals.stalls;
            }
            Err(panic) => {
                eprintln!(
                    "seed {seed}, options {option:?}, volatile {volatile}, through {through}, capacity {capacity}"
                );
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!(
        "{} cuts, {} checkpoints, {} segments cleaned, {} stalls",
        sum.cuts, sum.checkpoints, sum.cleaned, sum.stalls
    );
    assert!(
        sum.cuts > 0 && sum.checkpoints > 0,
        "the test tests something: {} cuts, {} checkpoints",
        sum.cuts,
        sum.checkpoints
    );
    assert!(seeds < 60 || sum.cleaned > 0, "cleaning was at work");
}
