//! What a unit of the guest's fuel is worth on this machine.
//!
//! The same writes, acknowledged when accepted, are made natively and in the sandbox. Natively they are timed, in short
//! batches, of which the quicker quarter counts. A thread that never waits takes only processor time, unless another
//! program has the processor. In the sandbox their fuel is counted. The quotient holds for work of this kind: copying,
//! checksums, an index in memory, for values of a kilobyte.
//!
//! A client that has waited for the disk does the same work slower: its processor slept or did something else, and its
//! caches are cold. So a write is timed right after a commit too. Of commits, one at a time, all is timed but the
//! kernel's call: from the request until the kernel has the write, and from its end until the client has its answer.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kvsim_native::record::{Event, Recorder, What};
use kvsim_native::{Database, Durability, OpenOptions};
use kvsim_sim::api::{Durability as SimDurability, Request, Status};
use kvsim_sim::{GuestLimits, Step, World, WorldConfig};
use kvsim_simdisk::DeviceConfig;

use xxhash_rust::xxh3::xxh3_64;

use super::super::numbers::{float, whole};
use crate::stream::{Key, Values, values};
use kvsim_scenario::guest::Program;
use kvsim_workload::{WorkloadConfig, WorkloadKind};

const KEYS: u64 = 10_000;
const KEY_BYTES: u32 = 16;
/// Writes that are timed together: few enough for some batches to be left alone by everybody else.
const BATCH: usize = 200;
const BATCHES: usize = 100;
/// Durable writes, one at a time: they show how the engine commits, and what it takes.
const COMMITS: u64 = 300;
const MEMORY_BYTES: u64 = 256 << 20;
const FUEL_PER_CALL: u64 = 20_000_000_000;

/// The worth of fuel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpu {
    /// A write natively, in nanoseconds.
    pub put_ns: u64,
    /// The same write in the sandbox, in fuel.
    pub fuel_per_put: u64,
    /// A unit of fuel, in picoseconds.
    pub ps_per_fuel: u64,
    /// A write natively that waits for nothing, by a client that has just waited for the disk, in nanoseconds.
    pub woken_put_ns: u64,
    /// A commit natively of a client alone, but for the kernel's calls, in nanoseconds.
    pub commit_ns: u64,
    /// The same commit in the sandbox, in fuel.
    pub fuel_per_commit: u64,
    /// Natively the engine commits by write-through on this disk, not by write and flush. The engine decides that by
    /// its own measurement at each checkpoint. Where the two are close, the simulated engine may decide otherwise.
    pub commits_through: bool,
    /// The options that the native engine opens a database with, by their names.
    pub options: BTreeMap<String, String>,
}

#[expect(clippy::disallowed_methods, reason = "a measurement is about time")]
fn now() -> Instant {
    Instant::now()
}

/// The keys and values, the same for both.
struct Writes {
    values: Values,
}

impl Writes {
    fn new() -> Writes {
        let workload = WorkloadConfig::of_kind(WorkloadKind::Durable);
        Writes {
            values: values(&workload, 1),
        }
    }

    fn key(number: u64) -> Vec<u8> {
        Key::new(KEY_BYTES).of(number).to_vec()
    }

    fn value(&self, nth: u64) -> &[u8] {
        self.values.nth(nth * 7919)
    }

    /// The key of the `nth` measured write.
    fn nth(nth: u64) -> Vec<u8> {
        Writes::key(xxh3_64(&nth.to_le_bytes()) % KEYS)
    }
}

impl Cpu {
    /// What a client that has slept takes longer than one that has not, for the same work.
    #[must_use]
    pub fn woken_ns(&self) -> u64 {
        self.woken_put_ns.saturating_sub(self.put_ns)
    }

    /// What a commit takes natively beyond what its fuel is worth, and beyond the kernel's calls.
    #[must_use]
    pub fn commit_beyond_fuel_ns(&self) -> u64 {
        let known_ns = self.fuel_per_commit.saturating_mul(self.ps_per_fuel) / 1_000;
        self.commit_ns.saturating_sub(known_ns)
    }
}

/// Measures both; `path`: where a database may be made.
///
/// # Errors
/// One of the two engines fails.
pub fn measure(path: &Path, program: &Arc<dyn Program>) -> Result<Cpu, String> {
    let writes = Writes::new();
    let natively = natively(path, &writes)?;
    let (options, commit_ns) = commits(path, &writes)?;
    let (fuel_per_put, fuel_per_commit) = sandboxed(program, &writes, &options)?;
    Ok(Cpu {
        put_ns: natively.put_ns,
        fuel_per_put,
        ps_per_fuel: (natively.put_ns * 1_000).div_ceil(fuel_per_put.max(1)),
        woken_put_ns: natively.woken_put_ns,
        commit_ns,
        fuel_per_commit,
        commits_through: natively.commits_through,
        options,
    })
}

/// What was measured natively.
struct Natively {
    put_ns: u64,
    woken_put_ns: u64,
    commits_through: bool,
}

fn natively(path: &Path, writes: &Writes) -> Result<Natively, String> {
    let options = OpenOptions {
        size_bytes: MEMORY_BYTES,
        ..OpenOptions::default()
    };
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let database = Database::open(path, &options).map_err(|error| failed(&error))?;
    let put_as = |key: &[u8], nth, durability| {
        let put = database.put(key, writes.value(nth), durability);
        put.map_err(|error| failed(&error))
    };
    let put = |key: &[u8], nth| put_as(key, nth, Durability::Relaxed);
    for key in 0..KEYS {
        put(&Writes::key(key), key)?;
    }
    let mut batches_ns = Vec::with_capacity(BATCHES);
    for batch in 0..BATCHES {
        let numbers = (batch * BATCH) as u64..((batch + 1) * BATCH) as u64;
        let keys: Vec<Vec<u8>> = numbers.map(Writes::nth).collect();
        let began = now();
        for (nth, key) in keys.iter().enumerate() {
            put(key, (batch * BATCH + nth) as u64)?;
        }
        batches_ns.push(began.elapsed().as_nanos() as f64);
    }
    let before = database.counts().io;
    let mut woken_ns = Vec::new();
    for nth in 0..COMMITS {
        put_as(&Writes::nth(nth), nth, Durability::Durable)?;
        let key = Writes::nth(nth + COMMITS);
        let began = now();
        put(&key, nth)?;
        woken_ns.push(nanos(began.elapsed()));
    }
    let after = database.counts().io;
    let through = after.through_writes - before.through_writes;
    let commits_through = through > after.flushes - before.flushes;
    database.close().map_err(|error| failed(&error))?;
    batches_ns.sort_by(f64::total_cmp);
    let put_ns = whole(batches_ns[BATCHES / 4] / float(BATCH as u64));
    Ok(Natively {
        put_ns,
        woken_put_ns: median(woken_ns),
        commits_through,
    })
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn median(mut all: Vec<u64>) -> u64 {
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or(0)
}

/// What the native engine tells itself, which is the options that it opened the database with; and what its commits take beside the
/// kernel's calls.
fn commits(path: &Path, writes: &Writes) -> Result<(BTreeMap<String, String>, u64), String> {
    let recorder = Recorder::new();
    let options = OpenOptions {
        recorder: Some(recorder.clone()),
        ..OpenOptions::default()
    };
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let database = Database::open(path, &options).map_err(|error| failed(&error))?;
    let mut told = BTreeMap::new();
    for event in recorder.take() {
        if let What::Opening(config) = event.what {
            let lines = config.options.lines();
            let pairs = lines.filter_map(|line| line.split_once('='));
            told.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
    }
    let mut commits_ns = Vec::new();
    for nth in 0..COMMITS {
        let key = Writes::nth(nth);
        let began = now();
        let put = database.put(&key, writes.value(nth), Durability::Durable);
        put.map_err(|error| failed(&error))?;
        let took_ns = nanos(began.elapsed());
        commits_ns.push(took_ns.saturating_sub(kernel_ns(&recorder.take())));
    }
    database.close().map_err(|error| failed(&error))?;
    Ok((told, median(commits_ns)))
}

/// How long the kernel was at work, for calls that do not overlap.
fn kernel_ns(events: &[Event]) -> u64 {
    let mut begun = BTreeMap::new();
    let mut sum_ns = 0;
    for event in events {
        match &event.what {
            What::Begun(call, _) => {
                begun.insert(*call, event.at_ns);
            }
            What::Ended(call, _) => {
                let began_ns = begun.remove(call).unwrap_or(event.at_ns);
                sum_ns += event.at_ns - began_ns;
            }
            _ => {}
        }
    }
    sum_ns
}

/// Fuel of a write that waits for nothing, and of a commit.
fn sandboxed(
    program: &Arc<dyn Program>,
    writes: &Writes,
    options: &BTreeMap<String, String>,
) -> Result<(u64, u64), String> {
    let config = WorldConfig {
        device: DeviceConfig {
            capacity_bytes: MEMORY_BYTES,
            // The options may ask for write-throughs.
            fua: true,
            ..DeviceConfig::default()
        },
        limits: GuestLimits {
            memory_bytes_max: MEMORY_BYTES,
            fuel_per_call: FUEL_PER_CALL,
            events_per_answer: u64::MAX,
            idle_ns_per_answer: u64::MAX,
        },
        fuel_ps: 0,
        options: options.clone(),
        ..WorldConfig::default()
    };
    let failed = |what: &dyn std::fmt::Display| format!("the sandboxed engine: {what}");
    let mut world = World::new(Arc::clone(program), config).map_err(|error| failed(&error))?;
    world.open().map_err(|error| failed(&error))?;
    answered(&mut world, 0).map_err(|error| failed(&error))?;
    let put_as = |world: &mut World, key: Vec<u8>, nth: u64, durability| {
        let request = Request::Put {
            key,
            value: writes.value(nth).to_vec(),
            durability,
        };
        let id = world.submit(world.now(), request);
        answered(world, id).map_err(|error| failed(&error))
    };
    let put = |world: &mut World, key, nth| put_as(world, key, nth, SimDurability::Relaxed);
    for key in 0..KEYS {
        put(&mut world, Writes::key(key), key)?;
    }
    let before = world.fuel();
    let count = (BATCH * BATCHES) as u64;
    for nth in 0..count {
        put(&mut world, Writes::nth(nth), nth)?;
    }
    let fuel_per_put = (world.fuel() - before) / count;
    // The first one takes with it what the others left.
    put_as(&mut world, Writes::nth(0), 0, SimDurability::Durable)?;
    let before = world.fuel();
    for nth in 0..COMMITS {
        put_as(&mut world, Writes::nth(nth), nth, SimDurability::Durable)?;
    }
    Ok((fuel_per_put, (world.fuel() - before) / COMMITS))
}

/// Lets the world go on until a request is answered.
fn answered(world: &mut World, id: u64) -> Result<(), String> {
    loop {
        match world.step().map_err(|error| error.to_string())? {
            Step::Reply(reply) if reply.id == id && reply.status == Status::Ok => return Ok(()),
            Step::Reply(reply) if reply.id == id => return Err(format!("{:?}", reply.status)),
            Step::Quiet => return Err("it answers no more".to_owned()),
            Step::Reply(_) | Step::Event => {}
        }
    }
}
