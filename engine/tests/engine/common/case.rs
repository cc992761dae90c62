//! Random work of many clients on one database, and the model that says what it must hold.
//!
//! The model is the list of writes in the order handed in. After each recovery the state must equal the base plus a prefix of
//! that list that holds every write acknowledged as durable; refused writes count as never handed in.

use std::collections::BTreeMap;
use std::rc::Rc;

use kvsim_engine::{Direction, Durability, Mutation, Reply, Request, ScanRange, Stats, Status};

use super::world::Joined;
use super::{Disk, Rng, World};

pub type Value = Rc<[u8]>;
pub type State = BTreeMap<Vec<u8>, Value>;

#[derive(Debug, Clone)]
struct Write {
    mutations: Vec<(Vec<u8>, Option<Value>)>,
    durability: Durability,
    /// It must survive.
    must_survive: bool,
    /// It was told definitely that it did not happen.
    refused: bool,
}

/// A request under way. Reads see all writes before a place in the list.
enum What {
    Write(usize),
    Get(Vec<u8>, usize),
    Snapshot(usize),
    /// With the writes before it, and whether it is done outside the engine.
    Scan(ScanWanted, usize, bool),
    Other,
}

struct ScanWanted {
    start: Vec<u8>,
    end: Vec<u8>,
    forward: bool,
}

impl ScanWanted {
    /// What it finds in a state, if nothing bounds it.
    fn of(&self, state: State) -> Vec<(Vec<u8>, Value)> {
        let within = |key: &[u8]| key >= &self.start[..] && key < &self.end[..];
        let mut found: Vec<_> = state.into_iter().filter(|(key, _)| within(key)).collect();
        if !self.forward {
            found.reverse();
        }
        found
    }
}

pub struct Case {
    pub rng: Rng,
    pub world: World,
    base: State,
    writes: Vec<Write>,
    open: BTreeMap<u64, What>,
    snapshots: Vec<(u64, State)>,
    /// Size of the key space.
    pub keys: u64,
    /// Whether values of up to 200 KB are among them.
    pub large: bool,
    /// A write or flush has failed: what comes after is refused.
    pub failed: bool,
    /// Writes refused for want of space, over all.
    pub full: u64,
    /// Of a hundred crashes, those of the process alone.
    pub process_percent: u64,
}

fn apply(state: &mut State, write: &Write) {
    if write.refused {
        return;
    }
    for (key, value) in &write.mutations {
        match value {
            Some(value) => state.insert(key.clone(), value.clone()),
            None => state.remove(key),
        };
    }
}

impl Case {
    pub fn new(seed: u64, disk: Disk, options: &str, keys: u64, large: bool) -> Case {
        Case {
            rng: Rng(seed),
            world: World::new(disk, options),
            base: State::new(),
            writes: Vec::new(),
            open: BTreeMap::new(),
            snapshots: Vec::new(),
            keys,
            large,
            failed: false,
            full: 0,
            process_percent: 20,
        }
    }

    /// The same database, crashed, on a copy of its device.
    pub fn copy(&self, seed: u64) -> Case {
        let mut world = World::new(self.world.disk.copy(), &self.world.options);
        world.now = self.world.now;
        Case {
            rng: Rng(seed),
            world,
            base: self.base.clone(),
            writes: self.writes.clone(),
            open: BTreeMap::new(),
            snapshots: Vec::new(),
            ..*self
        }
    }

    fn state_after(&self, upto: usize) -> State {
        let mut state = self.base.clone();
        self.writes[..upto]
            .iter()
            .for_each(|write| apply(&mut state, write));
        state
    }

    fn value_after(&self, key: &[u8], upto: usize) -> Option<Value> {
        let written = self.writes[..upto].iter().rev().filter(|w| !w.refused);
        for write in written {
            if let Some((_, value)) = write.mutations.iter().rev().find(|(k, _)| k == key) {
                return value.clone();
            }
        }
        self.base.get(key).cloned()
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
        let upto = self.writes.len();
        match self.rng.below(20) {
            0..12 => self.submit_write(),
            12..16 => {
                let key = self.key();
                let outside = match self.rng.chance(50) {
                    true => self.world.begin_find(&key),
                    false => None,
                };
                match outside {
                    Some(id) => {
                        self.open.insert(id, What::Get(key, upto));
                    }
                    None => self.get(key),
                }
            }
            16 if self.rng.chance(20) => {
                let (start, end) = (self.key(), self.key());
                let id = self.world.request(Request::Know(ScanRange {
                    snapshot: 0,
                    direction: Direction::Forward,
                    start: Some(&start),
                    end: Some(&end),
                    limit: 20,
                    max_bytes: u32::MAX,
                }));
                self.open.insert(id, What::Other);
            }
            16 => self.submit_scan(upto),
            17 if self.snapshots.len() < 3 => {
                let id = self.world.request(Request::Snapshot);
                self.open.insert(id, What::Snapshot(upto));
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

    fn get(&mut self, key: Vec<u8>) {
        let id = self.world.request(Request::Get {
            snapshot: 0,
            key: &key,
        });
        self.open.insert(id, What::Get(key, self.writes.len()));
    }

    fn submit_scan(&mut self, upto: usize) {
        let wanted = ScanWanted {
            start: self.key(),
            end: self.key(),
            forward: self.rng.chance(50),
        };
        let range = ScanRange {
            snapshot: 0,
            direction: if wanted.forward {
                Direction::Forward
            } else {
                Direction::Reverse
            },
            start: Some(&wanted.start),
            end: Some(&wanted.end),
            limit: 1 + self.rng.below(20) as u32,
            max_bytes: self.rng.below(60_000) as u32,
        };
        let outside = match self.rng.chance(50) {
            true => self.world.begin_join(&range),
            false => None,
        };
        let id = outside.unwrap_or_else(|| self.world.request(Request::Scan(range)));
        self.open
            .insert(id, What::Scan(wanted, upto, outside.is_some()));
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
                let value = (!self.rng.chance(20)).then(|| self.value());
                (key, value)
            })
            .collect();
        let durability = if self.rng.chance(25) {
            Durability::Relaxed
        } else {
            Durability::Durable
        };
        self.write(mutations, durability);
    }

    fn write(&mut self, mutations: Vec<(Vec<u8>, Option<Value>)>, durability: Durability) -> u64 {
        let borrowed: Vec<Mutation<'_>> = mutations
            .iter()
            .map(|(key, value)| match value {
                Some(value) => Mutation::Put { key, value },
                None => Mutation::Delete { key },
            })
            .collect();
        let id = self.world.request(Request::Write {
            mutations: &borrowed,
            durability,
        });
        self.open.insert(id, What::Write(self.writes.len()));
        self.writes.push(Write {
            mutations,
            durability,
            must_survive: false,
            refused: false,
        });
        id
    }

    fn answered(&mut self, id: u64, reply: Reply) {
        let what = self
            .open
            .remove(&id)
            .unwrap_or_else(|| panic!("request {id} answered twice or never asked: {reply:?}"));
        let may_fail = self.world.disk.flush_errors_percent > 0;
        match (what, reply) {
            (What::Write(at), Reply::Done) => {
                self.writes[at].must_survive = self.writes[at].durability == Durability::Durable;
            }
            (What::Write(at), Reply::Failed(Status::NoSpace, _)) => {
                self.writes[at].refused = true;
                self.full += 1;
            }
            (What::Write(at), Reply::Failed(Status::ReadOnly, _)) if may_fail => {
                self.writes[at].refused = true;
                self.failed = true;
            }
            (What::Write(_) | What::Other, Reply::Failed(Status::IoError, _)) if may_fail => {
                self.failed = true;
            }
            (What::Get(key, upto), reply) => match (self.value_after(&key, upto), reply) {
                (Some(expected), Reply::Value(value)) => assert_eq!(value[..], expected[..]),
                (None, Reply::NotFound) => {}
                (_, reply) => panic!("request {id}: {reply:?}; log {:#?}", self.world.log()),
            },
            (What::Snapshot(upto), Reply::Snapshot(snapshot)) => {
                let state = self.state_after(upto);
                self.snapshots.push((snapshot, state));
            }
            (What::Scan(wanted, upto, outside), Reply::Entries { entries, more }) => {
                // One that is done outside may have begun anew since.
                let last = if outside { self.writes.len() } else { upto };
                let shown = (upto..=last).any(|upto| {
                    let expected = wanted.of(self.state_after(upto));
                    let mut both = entries.iter().zip(&expected);
                    more == (entries.len() < expected.len())
                        && both.all(|(entry, (key, value))| {
                            entry.key[..] == key[..] && entry.value[..] == value[..]
                        })
                });
                assert!(shown, "a scan shows one moment");
            }
            (What::Other, Reply::Done) => {}
            (_, reply) => panic!("request {id}: {reply:?}; log {:#?}", self.world.log()),
        }
    }

    /// Some steps of work with up to `clients` requests open.
    pub fn work(&mut self, steps: u64, clients: usize) {
        for _ in 0..steps {
            if self.open.len() < clients && !self.failed && self.rng.chance(30) {
                self.submit();
            }
            if !self.step() {
                assert!(
                    self.open.is_empty(),
                    "never answered; log {:#?}",
                    self.world.log()
                );
            }
        }
    }

    /// Whether anything happened.
    fn step(&mut self) -> bool {
        if self.rng.chance(2) && self.go_on() {
            return true;
        }
        match self.world.step() {
            Some(Some((id, reply))) => self.answered(id, reply),
            Some(None) => {}
            None => return self.go_on(),
        }
        true
    }

    /// Goes on with a get or a scan outside the engine. Whether there is one.
    fn go_on(&mut self) -> bool {
        if let Some(id) = self.world.next_find() {
            match self.world.end_find(id) {
                Some(reply) => self.answered(id, reply),
                None => match self.open.remove(&id) {
                    Some(What::Get(key, _)) => self.get(key),
                    _ => panic!("it was a get"),
                },
            }
            return true;
        }
        let Some(id) = self.world.next_join() else {
            return false;
        };
        match self.world.go_on(id) {
            Joined::Reply(reply) => self.answered(id, reply),
            Joined::Open => {}
            Joined::Dropped => {
                let disk = &self.world.disk;
                let may_fail = disk.fail_reads || !disk.unreadable.is_empty();
                assert!(may_fail, "what a scan may read stays as it is");
                self.open.remove(&id);
            }
        }
        true
    }

    /// Steps until these requests are answered, or can never be.
    fn finish(&mut self, mut until: impl FnMut(&Case) -> bool) {
        for _ in 0..1_000_000 {
            if until(self) {
                return;
            }
            if !self.step() {
                panic!("never answered; log {:#?}", self.world.log());
            }
        }
        panic!("takes for ever; log {:#?}", self.world.log());
    }

    /// Hands in one large value.
    pub fn submit_large(&mut self, bytes: u64) {
        let key = self.key();
        let value = Value::from(vec![self.rng.next() as u8; bytes as usize]);
        self.write(vec![(key, Some(value))], Durability::Durable);
    }

    /// A value for every key, and all of it durable.
    pub fn fill(&mut self) {
        for n in 0..self.keys {
            let key = format!("key{n:04}").into_bytes();
            let value = self.value();
            self.write(vec![(key, Some(value))], Durability::Relaxed);
        }
        self.write_durably();
        self.finish(|case| case.open.is_empty());
    }

    /// One durable write of a value that goes to the log, acknowledged.
    pub fn write_durably(&mut self) {
        let key = self.key();
        let value = Value::from(vec![self.rng.next() as u8; 1000]);
        let id = self.write(vec![(key, Some(value))], Durability::Durable);
        self.finish(|case| !case.open.contains_key(&id));
    }

    /// Deletes every other key, durably, one by one.
    pub fn delete_half(&mut self) {
        let keys: Vec<Vec<u8>> = self.base.keys().step_by(2).cloned().collect();
        for key in keys {
            let id = self.write(vec![(key, None)], Durability::Durable);
            self.finish(|case| !case.open.contains_key(&id));
        }
    }

    /// Waits for all answers, then looks at what some of the snapshots show.
    pub fn check_snapshots(&mut self) {
        for (snapshot, state) in std::mem::take(&mut self.snapshots) {
            if self.rng.chance(30) {
                self.finish(|case| case.open.is_empty());
                assert!(
                    self.dump(Direction::Forward, snapshot) == state,
                    "a snapshot does not move"
                );
            }
        }
        self.snapshots.clear();
    }

    pub fn crash(&mut self) {
        self.world.kill();
        self.open.clear();
        self.snapshots.clear();
        self.failed = false;
        self.crash_device();
    }

    fn crash_device(&mut self) {
        self.world.kill();
        if self.rng.chance(self.process_percent) {
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

    /// Opens, perhaps with crashes on the way, and checks the state.
    pub fn recover(&mut self) -> Stats {
        while self.rng.chance(30) {
            let steps = self.rng.below(60);
            self.open_and_crash(steps);
        }
        self.open_and_check()
    }

    /// Opens for so many steps; true if it was answered before that. Then it crashes.
    pub fn open_and_crash(&mut self, steps: u64) -> bool {
        self.world.begin_open();
        let answered = (0..steps).any(|_| matches!(self.world.step(), None | Some(Some(_))));
        self.crash_device();
        answered
    }

    /// Opens, again after a failure of the device, and checks the state.
    pub fn open_and_check(&mut self) -> Stats {
        while let Err((status, message)) = self.world.open() {
            let may_fail = self.world.disk.flush_errors_percent > 0;
            assert!(
                may_fail && status == Status::IoError,
                "cannot open: {status:?} {message}"
            );
            self.crash_device();
        }
        let state = self.dump(Direction::Forward, 0);
        assert!(
            state == self.dump(Direction::Reverse, 0),
            "both directions agree"
        );
        let least = self
            .writes
            .iter()
            .rposition(|write| write.must_survive)
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
        self.base = state;
        self.writes.clear();
        self.world.engine().stats()
    }
}
