//! What the oracle is told of the device is what happened to it, each fault under its own name.
#![allow(missing_docs, reason = "a test")]

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use kvsim_oracle::{DeviceTruth, RunFaults};
use kvsim_sim::api::{Durability, Request};
use kvsim_sim::{Program, Step, WasmProgram, World, WorldConfig};
use kvsim_simdisk::{CrashKind, DeviceConfig, FaultConfig};

/// A fault, its name among the counts, and what it counts as in the process run that it happens in.
struct Row {
    count: &'static str,
    set: fn(&mut FaultConfig),
    in_this_run: fn(RunFaults) -> u64,
    /// It is one of reads, which an opening makes.
    of_reads: bool,
    is_lie: bool,
    is_damage: bool,
}

const fn error(
    count: &'static str,
    set: fn(&mut FaultConfig),
    in_this_run: fn(RunFaults) -> u64,
) -> Row {
    Row {
        count,
        set,
        in_this_run,
        of_reads: false,
        is_lie: false,
        is_damage: false,
    }
}

const fn lie(count: &'static str, set: fn(&mut FaultConfig)) -> Row {
    Row {
        is_lie: true,
        is_damage: true,
        ..error(count, set, |run| run.lies)
    }
}

const fn reads(row: Row) -> Row {
    Row {
        of_reads: true,
        ..row
    }
}

const ROWS: [Row; 11] = [
    Row {
        is_damage: false,
        ..lie("flush_lies", |faults| faults.flush_lie = 1.0)
    },
    lie("lost_writes", |faults| faults.lost_write = 1.0),
    lie("misdirected_writes", |faults| {
        faults.misdirected_write = 1.0
    }),
    reads(lie("misdirected_reads", |faults| {
        faults.misdirected_read = 1.0
    })),
    reads(lie("stale_reads", |faults| faults.stale_read = 1.0)),
    lie("bit_rot", |faults| faults.bit_rot = 1.0),
    lie("latent_errors", |faults| faults.latent_sector_error = 1.0),
    reads(error(
        "read_errors",
        |faults| faults.read_error = 1.0,
        |run| run.read_failures,
    )),
    error(
        "write_errors",
        |faults| faults.write_error = 1.0,
        |run| run.write_failures,
    ),
    error(
        "flush_errors",
        |faults| faults.flush_error = 1.0,
        |run| run.flush_failures,
    ),
    error(
        "no_space",
        |faults| faults.no_space = 1.0,
        |run| run.no_space,
    ),
];

fn engine() -> Arc<dyn Program> {
    static ENGINE: OnceLock<Arc<WasmProgram>> = OnceLock::new();
    let engine = ENGINE.get_or_init(|| WasmProgram::builtin().expect("the engine is a guest"));
    Arc::clone(engine) as Arc<dyn Program>
}

fn world(faults: FaultConfig) -> World {
    let config = WorldConfig {
        seed: 5,
        faults,
        ..WorldConfig::default()
    };
    let mut world = World::new(engine(), config).expect("a world");
    open(&mut world);
    world
}

/// Until nothing happens any more: what a fault does to the engine is no matter here.
fn until_quiet(world: &mut World) {
    while !matches!(world.step(), Ok(Step::Quiet) | Err(_)) {}
}

fn open(world: &mut World) {
    world.open().expect("the engine starts");
    until_quiet(world);
}

fn write(world: &mut World) {
    for n in 0..4 {
        let write = Request::Put {
            key: vec![b'k', n],
            value: vec![n; 3_000],
            durability: Durability::Durable,
        };
        world.submit(world.now(), write);
        until_quiet(world);
    }
}

/// Work, a kill, an opening and more work; gives the number of the first operation of the work, and of the opening.
fn history(world: &mut World) -> (u64, u64) {
    let work = world.storage().next_op();
    write(world);
    world.crash(CrashKind::Process);
    let opening = world.storage().next_op();
    open(world);
    (work, opening)
}

/// Each count by its name.
fn counts(truth: &DeviceTruth) -> BTreeMap<&'static str, u64> {
    let document = serde_json::to_value(truth).expect("it is JSON");
    let count = |row: &Row| (row.count, document[row.count].as_u64().expect("a count"));
    ROWS.iter().map(count).collect()
}

/// Goal: each fault is counted under its own name and no other, in the process run that it happened in and no later one. Method: a history with one fault of
/// one kind, for each kind.
#[test]
fn each_fault_counts_as_itself() {
    let (work, opening) = history(&mut world(FaultConfig::default()));
    for row in &ROWS {
        let mut faults = FaultConfig {
            after_op: if row.of_reads { opening } else { work },
            max_fired: 1,
            ..FaultConfig::default()
        };
        (row.set)(&mut faults);
        let mut world = world(faults);
        let before = RunFaults::of(world.storage());
        assert_eq!(before, RunFaults::default(), "{}", row.count);
        history(&mut world);
        let truth = DeviceTruth::of(&world, before);
        for (name, count) in counts(&truth) {
            assert_eq!(count, u64::from(name == row.count), "{}: {name}", row.count);
        }
        assert_eq!((row.in_this_run)(truth.this_run), 1, "{}", row.count);
        assert_eq!(truth.this_run.lies, u64::from(row.is_lie), "{}", row.count);
        assert_eq!(truth.lies(), u64::from(row.is_lie), "{}", row.count);
        assert_eq!(truth.damage(), u64::from(row.is_damage), "{}", row.count);
        assert_eq!(truth.errors(), u64::from(!row.is_lie), "{}", row.count);
        assert!(!truth.is_clean(), "{}", row.count);
        let later = DeviceTruth::of(&world, RunFaults::of(world.storage()));
        assert_eq!(later.this_run, RunFaults::default(), "{}", row.count);
        assert_eq!(counts(&later), counts(&truth), "{}", row.count);
    }
}

/// Goal: a device that does as it is told is called clean, and its size, its cuts and its flushes are known. Method: the history without a fault, and a power cut.
#[test]
fn a_clean_device_is_called_clean() {
    let mut world = world(FaultConfig::default());
    history(&mut world);
    let killed = DeviceTruth::of(&world, RunFaults::default());
    assert!(killed.is_clean() && killed.this_run == RunFaults::default());
    assert_eq!(killed.power_cuts, 0);
    assert_eq!(
        killed.capacity_bytes,
        DeviceConfig::default().capacity_bytes
    );
    let flushed = killed.last_flush_completed_ns.expect("a flush");
    assert!(flushed <= world.now());
    world.crash(CrashKind::Power);
    open(&mut world);
    assert_eq!(DeviceTruth::of(&world, RunFaults::default()).power_cuts, 1);
}
