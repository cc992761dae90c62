//! The world around the clerk, a guest so small that every event of it can be told beforehand.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use kvsim_sim::api::{Body, Durability, Request, Status};
use kvsim_sim::{GuestLimits, Step, TraceMode, WasmProgram, World, WorldConfig};
use kvsim_simdisk::{DeviceConfig, FaultConfig};

pub(crate) fn program() -> Arc<WasmProgram> {
    static CLERK: OnceLock<Arc<WasmProgram>> = OnceLock::new();
    let clerk = CLERK.get_or_init(|| {
        let bytes = wat::parse_str(include_str!("clerk.wat")).expect("it parses");
        WasmProgram::from_bytes("clerk", &bytes).expect("a guest")
    });
    Arc::clone(clerk)
}

pub(crate) fn config(seed: u64, fuel_ps: u64, trace: TraceMode) -> WorldConfig {
    WorldConfig {
        seed,
        device: DeviceConfig {
            capacity_bytes: 1 << 20,
            ..DeviceConfig::default()
        },
        faults: FaultConfig::default(),
        files: Default::default(),
        limits: GuestLimits {
            memory_bytes_max: 1 << 20,
            fuel_per_call: 1_000_000,
            events_per_answer: 1_000,
            idle_ns_per_answer: 10_000_000_000,
        },
        fuel_ps,
        options: BTreeMap::new(),
        reopen: Vec::new(),
        db_id: [0; 16],
        trace,
    }
}

/// A world with a blank device that has not been opened.
pub(crate) fn closed(seed: u64, fuel_ps: u64, trace: TraceMode) -> World {
    World::new(program(), config(seed, fuel_ps, trace)).expect("a world")
}

pub(crate) fn opened(seed: u64, fuel_ps: u64, trace: TraceMode) -> World {
    let mut world = closed(seed, fuel_ps, trace);
    reopen(&mut world);
    world
}

pub(crate) fn reopen(world: &mut World) {
    world.open().expect("it starts");
    assert_eq!(until_reply(world, 0), Body::Empty);
}

pub(crate) fn until_reply(world: &mut World, id: u64) -> Body {
    loop {
        match world.step().expect("the clerk behaves") {
            Step::Reply(reply) => {
                assert_eq!((reply.id, reply.status), (id, Status::Ok));
                return reply.body;
            }
            Step::Event => {}
            Step::Quiet => panic!("request {id} is never answered"),
        }
    }
}

pub(crate) fn put() -> Request {
    Request::Put {
        key: b"k".to_vec(),
        value: b"v".to_vec(),
        durability: Durability::Durable,
    }
}

pub(crate) fn get() -> Request {
    Request::Get {
        key: b"k".to_vec(),
        snapshot: 0,
    }
}

/// Hands in a request now and waits for its answer.
pub(crate) fn ask(world: &mut World, request: Request) -> Body {
    let id = world.submit(world.now(), request);
    until_reply(world, id)
}

/// What was put in this process run, and what is on the device.
pub(crate) fn counts(world: &mut World) -> (u32, u32) {
    let Body::Value(bytes) = ask(world, get()) else {
        panic!("a get has a value")
    };
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    (number(0), number(4))
}
