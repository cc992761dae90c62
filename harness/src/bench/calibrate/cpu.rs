//! What a unit of the guest's fuel is worth on this machine.
//!
//! The same writes, acknowledged when accepted, are made natively and in the sandbox. Natively they are timed, in short batches,
//! of which the quicker quarter counts: a thread that never waits takes the processor's time and nothing else, unless somebody
//! else has the processor. In the sandbox their fuel is counted. The quotient holds for work of this kind: copying, checksums, an
//! index in memory, for values of a kilobyte.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use kvsim_native::record::{Recorder, What};
use kvsim_native::{Database, Durability, OpenOptions};
use kvsim_sim::api::{Durability as SimDurability, Request, Status};
use kvsim_sim::{GuestLimits, Step, TraceMode, World, WorldConfig};
use kvsim_simdisk::{DeviceConfig, FaultConfig};

use xxhash_rust::xxh3::xxh3_64;

use crate::bench::stream::{Key, Values, values};
use crate::guest::Program;
use crate::workload::{WorkloadConfig, WorkloadKind};

const KEYS: u64 = 10_000;
const KEY_BYTES: u32 = 16;
/// Writes that are timed together: few enough for some batches to be left alone by everybody else.
const BATCH: usize = 200;
const BATCHES: usize = 100;
/// Durable writes that show how the engine commits.
const COMMITS: u64 = 50;
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
    /// Natively the engine commits by write-through on this disk, not by write and flush. It decides that itself, by a measurement of
    /// its own at each checkpoint; where the two are close, the simulated one may come to the other result.
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

/// Measures both; `path`: where a database may be made.
///
/// # Errors
/// One of the two engines fails.
pub fn measure(path: &Path, program: &Arc<dyn Program>) -> Result<Cpu, String> {
    let writes = Writes::new();
    let (put_ns, commits_through) = natively(path, &writes)?;
    let fuel_per_put = sandboxed(program, &writes)?;
    Ok(Cpu {
        put_ns,
        fuel_per_put,
        ps_per_fuel: (put_ns * 1_000).div_ceil(fuel_per_put.max(1)),
        commits_through,
        options: options(path)?,
    })
}

fn natively(path: &Path, writes: &Writes) -> Result<(u64, bool), String> {
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
    for nth in 0..COMMITS {
        put_as(&Writes::nth(nth), nth, Durability::Durable)?;
    }
    let after = database.counts().io;
    let through = after.through_writes - before.through_writes;
    let commits_through = through > after.flushes - before.flushes;
    database.close().map_err(|error| failed(&error))?;
    batches_ns.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "nanoseconds of one write"
    )]
    let put_ns = (batches_ns[BATCHES / 4] / BATCH as f64).round() as u64;
    Ok((put_ns, commits_through))
}

/// What the native engine tells itself: the options that it opened the database with.
fn options(path: &Path) -> Result<BTreeMap<String, String>, String> {
    let recorder = Recorder::new();
    let options = OpenOptions {
        recorder: Some(recorder.clone()),
        ..OpenOptions::default()
    };
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let database = Database::open(path, &options).map_err(|error| failed(&error))?;
    database.close().map_err(|error| failed(&error))?;
    let mut found = BTreeMap::new();
    for event in recorder.take() {
        if let What::Opening(config) = event.what {
            let lines = config.options.lines();
            let pairs = lines.filter_map(|line| line.split_once('='));
            found.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
    }
    Ok(found)
}

fn sandboxed(program: &Arc<dyn Program>, writes: &Writes) -> Result<u64, String> {
    let config = WorldConfig {
        seed: 1,
        device: DeviceConfig {
            capacity_bytes: MEMORY_BYTES,
            ..DeviceConfig::default()
        },
        faults: FaultConfig::default(),
        limits: GuestLimits {
            memory_bytes_max: MEMORY_BYTES,
            fuel_per_call: FUEL_PER_CALL,
        },
        fuel_ps: 0,
        options: BTreeMap::new(),
        db_id: [1; 16],
        trace: TraceMode::Hash,
    };
    let failed = |what: &dyn std::fmt::Display| format!("the sandboxed engine: {what}");
    let mut world = World::new(Arc::clone(program), config).map_err(|error| failed(&error))?;
    world.open().map_err(|error| failed(&error))?;
    answered(&mut world, 0).map_err(|error| failed(&error))?;
    let put = |world: &mut World, key: Vec<u8>, nth: u64| {
        let request = Request::Put {
            key,
            value: writes.value(nth).to_vec(),
            durability: SimDurability::Relaxed,
        };
        let id = world.submit(world.now(), request);
        answered(world, id).map_err(|error| failed(&error))
    };
    for key in 0..KEYS {
        put(&mut world, Writes::key(key), key)?;
    }
    let before = world.fuel();
    let count = (BATCH * BATCHES) as u64;
    for nth in 0..count {
        put(&mut world, Writes::nth(nth), nth)?;
    }
    Ok((world.fuel() - before) / count)
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
