//! The world: time, traces, forks, crashes; with the built-in engine in it.
#![allow(missing_docs, reason = "a test")]

#[path = "world/builtin.rs"]
mod builtin;
#[path = "world/clerk.rs"]
mod clerk;
#[path = "world/process_runs.rs"]
mod process_runs;
#[path = "world/time.rs"]
mod time;
#[path = "world/trace.rs"]
mod trace;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use kvsim_sim::api::{Body, Durability, Request, Status};
use kvsim_sim::{Program, Step, TraceMode, WasmProgram, World, WorldConfig};
use kvsim_simdisk::CrashKind;

fn engine() -> Arc<dyn Program> {
    static ENGINE: OnceLock<Arc<WasmProgram>> = OnceLock::new();
    let engine = ENGINE.get_or_init(|| WasmProgram::builtin().expect("the engine is a guest"));
    Arc::clone(engine) as Arc<dyn Program>
}

fn config(seed: u64, trace: TraceMode) -> WorldConfig {
    WorldConfig {
        seed,
        trace,
        ..WorldConfig::default()
    }
}

fn world(seed: u64, trace: TraceMode) -> World {
    let mut world = World::new(engine(), config(seed, trace)).expect("a world");
    world.open().expect("the engine starts");
    until_reply(&mut world, 0);
    world
}

/// Steps until this request is answered; panics if it never is.
fn until_reply(world: &mut World, id: u64) -> (Status, Body) {
    loop {
        let before = world.now();
        match world.step().expect("the engine behaves") {
            Step::Reply(reply) if reply.id == id => return (reply.status, reply.body),
            Step::Quiet => panic!("request {id} is never answered"),
            Step::Reply(_) | Step::Event => {}
        }
        assert!(world.now() >= before, "time went back");
    }
}

fn put(world: &mut World, n: u8) {
    let write = Request::Put {
        key: vec![n],
        value: vec![n; 100],
        durability: Durability::Durable,
    };
    let id = world.submit(world.now(), write);
    assert_eq!(until_reply(world, id).0, Status::Ok);
}

fn get(world: &mut World, n: u8) -> Option<Vec<u8>> {
    let id = world.submit(
        world.now(),
        Request::Get {
            snapshot: 0,
            key: vec![n],
        },
    );
    match until_reply(world, id) {
        (Status::Ok, Body::Value(value)) => Some(value),
        (Status::NotFound, _) => None,
        other => panic!("{other:?}"),
    }
}

/// Work, a power cut, a recovery, and more work.
fn process_run(seed: u64, trace: TraceMode) -> World {
    let mut world = world(seed, trace);
    (0..20).for_each(|n| put(&mut world, n));
    world.crash(CrashKind::Power);
    world.open().expect("the engine starts");
    until_reply(&mut world, 0);
    (20..30).for_each(|n| put(&mut world, n));
    world
}

/// Goal: a seed is a history. Method: the same twice, another once, and with every event kept.
#[test]
fn the_same_seed_has_the_same_trace() {
    let hash = |seed, mode| process_run(seed, mode).trace().hash();
    let once = hash(1, TraceMode::Hash);
    assert_eq!(hash(1, TraceMode::Hash), once);
    assert_eq!(hash(1, TraceMode::Full), once, "looking changes nothing");
    assert_ne!(hash(2, TraceMode::Hash), once);
}

/// Goal: a crash ends the instance and nothing that was acknowledged. Method: read everything back, in a later process run.
#[test]
fn a_crash_takes_the_memory_and_leaves_what_is_durable() {
    let mut world = process_run(3, TraceMode::Hash);
    assert_eq!(world.process_run(), 2);
    for n in 0..30 {
        assert_eq!(get(&mut world, n), Some(vec![n; 100]), "{n}");
    }
    assert_eq!(get(&mut world, 31), None);
}

/// Goal: a fork runs on its own, and two of one world are the same. Method: the same work in two forks, then other work in one.
#[test]
fn a_fork_goes_its_own_way() {
    let mut origin = world(4, TraceMode::Hash);
    (0..5).for_each(|n| put(&mut origin, n));
    origin.crash(CrashKind::Power);
    let before = origin.trace().hash();
    let (mut one, mut other) = (origin.fork(), origin.fork());
    for world in [&mut one, &mut other] {
        world.open().expect("the engine starts");
        until_reply(world, 0);
        put(world, 50);
    }
    assert_eq!(one.trace().hash(), other.trace().hash());
    assert_eq!(one.device().image().hash(), other.device().image().hash());
    put(&mut one, 60);
    assert_ne!(one.trace().hash(), other.trace().hash());
    assert_eq!(get(&mut other, 60), None);
    assert_eq!(get(&mut one, 60), Some(vec![60; 100]));
    assert_eq!(origin.trace().hash(), before, "the origin was left alone");
}

/// Goal: a crash may fall into a recovery, again and again. Method: cut after each number of events, then recover in peace.
#[test]
fn a_recovery_can_be_cut_anywhere() {
    let mut crashed = world(5, TraceMode::Hash);
    (0..10).for_each(|n| put(&mut crashed, n));
    crashed.crash(CrashKind::Power);
    for events in 1..40 {
        let mut world = crashed.fork();
        world.open().expect("the engine starts");
        let until = world.events() + events;
        while world.events() < until {
            if world.step().expect("the engine behaves") == Step::Quiet {
                break;
            }
        }
        world.crash(CrashKind::Power);
        world.open().expect("the engine starts");
        until_reply(&mut world, 0);
        for n in 0..10 {
            assert_eq!(
                get(&mut world, n),
                Some(vec![n; 100]),
                "after {events} events, key {n}"
            );
        }
    }
}

/// Goal: work costs time. Method: fuel and time both grow with each request, by the rate that was set.
#[test]
fn fuel_is_time() {
    let mut world = world(6, TraceMode::Hash);
    let (fuel, now) = (world.fuel(), world.now());
    put(&mut world, 1);
    let (burnt, took) = (world.fuel() - fuel, world.now() - now);
    assert!(burnt > 1000, "{burnt}");
    assert!(
        took >= burnt * 250 / 1000,
        "{took} ns for {burnt} units of fuel"
    );
}

/// Goal: each opening after the first has the next table of options on top of its own, in turn, and a fork has the same as its origin. Method: tables of which the
/// second has an option that the engine refuses; three rounds of them.
#[test]
fn each_opening_has_the_next_options() {
    let options = |value: &str| BTreeMap::from([("commit".to_owned(), value.to_owned())]);
    let config = WorldConfig {
        reopen: vec![options("flush"), options("nonsense")],
        ..config(5, TraceMode::Hash)
    };
    let mut world = World::new(engine(), config).expect("a world");
    let open = |world: &mut World| {
        world.open().expect("the engine starts");
        until_reply(world, 0).0
    };
    assert_eq!(open(&mut world), Status::Ok);
    for _ in 0..3 {
        world.crash(CrashKind::Power);
        let mut fork = world.fork();
        assert_eq!(open(&mut world), Status::Ok);
        assert_eq!(open(&mut fork), Status::Ok);
        world.crash(CrashKind::Power);
        let mut fork = world.fork();
        assert_eq!(open(&mut world), Status::Invalid);
        assert_eq!(open(&mut fork), Status::Invalid);
    }
}
