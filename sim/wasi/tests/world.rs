//! A file engine in a world: the same trace each time, recoveries that are told the same time, calls traced to their places.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use common::{go_engine, limits};
use kvsim_crash::{CrashKind, CrashState, Persisted};
use kvsim_fs::FileConfig;
use kvsim_sim::api::{Body, Durability, Request, Status};
use kvsim_sim::{Program as _, Step, TraceMode, World, WorldConfig};
use kvsim_simdisk::{DeviceConfig, FaultConfig};
use kvsim_wasi::{LoadOptions, WasiProgram};

fn program(is_command: bool) -> Option<Arc<WasiProgram>> {
    let bytes = go_engine(is_command)?;
    Some(WasiProgram::from_bytes("go", &bytes, LoadOptions::default()).expect("it is an engine"))
}

fn world(program: &Arc<WasiProgram>) -> World {
    let config = WorldConfig {
        seed: 5,
        device: DeviceConfig::default(),
        faults: FaultConfig::default(),
        files: FileConfig::with_profile("posix"),
        limits: limits(),
        fuel_ps: 250,
        options: BTreeMap::new(),
        reopen: Vec::new(),
        db_id: [3; 16],
        trace: TraceMode::Hash,
    };
    World::new(Arc::clone(program) as Arc<_>, config).expect("a world")
}

fn until_reply(world: &mut World, id: u64) -> (Status, Body) {
    loop {
        match world.step().expect("the engine works") {
            Step::Reply(reply) if reply.id == id => return (reply.status, reply.body),
            Step::Quiet => panic!("request {id} has no answer"),
            _ => {}
        }
    }
}

fn open(world: &mut World) {
    world.open().expect("the engine starts");
    assert_eq!(until_reply(world, 0).0, Status::Ok);
}

fn put(world: &mut World, key: &str, value: &str) -> Status {
    let request = Request::Put {
        key: key.into(),
        value: value.into(),
        durability: Durability::Durable,
    };
    let id = world.submit(world.now(), request);
    until_reply(world, id).0
}

fn get(world: &mut World, key: &str) -> (Status, Body) {
    let request = Request::Get {
        key: key.into(),
        snapshot: 0,
    };
    let id = world.submit(world.now(), request);
    until_reply(world, id)
}

/// Goal: a run in a world is deterministic, and what was acknowledged survives. Method: the trace hash of two runs with a kill and a power cut, of a
/// reactor and of a command.
#[test]
fn a_run_has_one_trace() {
    for is_command in [false, true] {
        let Some(program) = program(is_command) else {
            return;
        };
        let run = || {
            let mut world = world(&program);
            open(&mut world);
            assert_eq!(put(&mut world, "a", "1"), Status::Ok);
            for kind in [CrashKind::Process, CrashKind::Power] {
                world.crash(kind);
                open(&mut world);
                let found = get(&mut world, "a");
                assert_eq!(found, (Status::Ok, Body::Value(b"1".to_vec())));
                assert_eq!(put(&mut world, "b", "2"), Status::Ok);
            }
            while world.step().expect("the engine works") != Step::Quiet {}
            (world.trace().hash(), world.events(), world.now())
        };
        assert_eq!(run(), run());
    }
}

/// Goal: what a killed process leaves to be seen can also reach the disk, so no recovery shows what never was. Method: a kill after each event of a
/// write; the files that are seen then are those that a power cut leaves which loses nothing.
#[test]
fn a_kill_shows_what_can_reach_the_disk() {
    let Some(program) = program(false) else {
        return;
    };
    let mut kills_with_pending = 0;
    for events in 0.. {
        let mut world = world(&program);
        open(&mut world);
        let request = Request::Put {
            key: b"a".to_vec(),
            value: vec![7; 5_000],
            durability: Durability::Durable,
        };
        let id = world.submit(world.now(), request);
        let mut is_answered = false;
        for _ in 0..events {
            let step = world.step().expect("the engine works");
            is_answered |= matches!(step, Step::Reply(reply) if reply.id == id);
        }
        world.crash(CrashKind::Process);
        let seen = world.storage().files().expect("the engine uses files");
        let all = CrashState {
            persisted: seen
                .pending()
                .iter()
                .map(|step| Persisted::whole(step.id))
                .collect(),
        };
        kills_with_pending += usize::from(!all.persisted.is_empty());
        let mut left = seen.clone();
        left.crash(world.now(), CrashKind::Power, &all)
            .expect("a cut may lose nothing");
        assert_eq!(
            left.image_hash(),
            seen.image_hash(),
            "after {events} events"
        );
        if is_answered {
            break;
        }
    }
    assert!(kills_with_pending > 1, "no kill met pending steps");
}

/// Goal: two recoveries that read the same are told the same time and the same random numbers, at whatever moment the crash came. Method: the same
/// files after a crash, at two moments; what the process run was told.
#[test]
fn recoveries_are_told_the_same_at_any_moment() {
    let Some(program) = program(false) else {
        return;
    };
    let fresh = LoadOptions {
        use_image: false,
        ..LoadOptions::default()
    };
    let bytes = go_engine(false).expect("it was built before");
    let fresh = WasiProgram::from_bytes("go", &bytes, fresh).expect("it is an engine");
    for program in [&*program, &*fresh] {
        let told = |moment: u64| {
            let mut files = common::files();
            files
                .crash(
                    moment,
                    CrashKind::Power,
                    &kvsim_crash::CrashState::default(),
                )
                .expect("nothing is pending");
            let mut process =
                common::Process::start(program, &limits(), &files).expect("it starts");
            process.now = moment;
            process.open(&[]).expect("it opens");
            process.get("a").expect("it is answered");
            use kvsim_sim::Guest as _;
            assert!(!process.guest.asked_time());
            process.guest.told()
        };
        assert_eq!(told(1_000), told(77_000_000_000));
    }
    assert_eq!(program.needs(), kvsim_sim::Needs::Files);
}

/// Goal: a replay finds the place of a call in the engine's own code, and is the same run. Method: the calls of a whole run, traced in a second world.
#[test]
fn a_replay_traces_calls() {
    let Some(program) = program(false) else {
        return;
    };
    let run = |calls: BTreeSet<u64>| {
        let mut world = world(&program);
        world.trace_calls(calls);
        open(&mut world);
        assert_eq!(put(&mut world, "a", "1"), Status::Ok);
        (
            world.trace().hash(),
            world.storage().next_op(),
            world.traced_calls().clone(),
        )
    };
    let (hash, calls, nothing) = run(BTreeSet::new());
    assert!(nothing.is_empty());
    let (again, _, traced) = run((0..calls).collect());
    assert_eq!(hash, again);
    assert_eq!(traced.len() as u64, calls);
    let last_sync = traced
        .values()
        .rev()
        .find(|it| it.name == "fd_sync")
        .expect("it syncs");
    let functions: Vec<&str> = last_sync
        .frames
        .iter()
        .map(|it| it.function.as_str())
        .collect();
    assert!(
        functions.contains(&"main.(*engine).commit"),
        "{functions:?}"
    );
}
