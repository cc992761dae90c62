//! Operations that no device takes, as seen in a world: the verdict comes when they reach the device, and the process run is over.

use kvsim_sim::{
    Call, GuestError, Outbox, Step, TraceEvent, TraceMode, WasmProgram, World, WorldConfig,
};
use kvsim_simdisk::{CrashKind, DeviceConfig, DiskError};

use crate::{EXPORTS, LIMITS, breaks_the_abi, doing, module, open, start};

fn world(bytes: &[u8], device: DeviceConfig) -> World {
    let program = WasmProgram::from_bytes("test", bytes).expect("a guest");
    let config = WorldConfig {
        device,
        limits: LIMITS,
        trace: TraceMode::Full,
        ..WorldConfig::default()
    };
    World::new(program, config).expect("a world")
}

fn submit(kind: i32, offset: i64, len: i32) -> String {
    format!(
        "(call $submit (i64.const 1) (i32.const {kind}) (i64.const {offset}) (i32.const 0) (i32.const {len}))"
    )
}

/// Goal: what a device does not take is a breach that says why, and ends the process run. Method: each kind, misaligned, empty, out
/// of range, around the end of all numbers, and not supported.
#[test]
fn an_operation_that_no_device_takes_is_named() {
    let sizes = DeviceConfig {
        capacity_bytes: 1 << 20,
        discard: false,
        ..DeviceConfig::default()
    };
    let end = sizes.capacity_bytes.cast_signed();
    let [misaligned, outside] = ["multiples of the sector", "empty or outside"];
    for (name, kind, offset, len, why) in [
        ("read", 0, 1, 512, misaligned),
        ("read", 0, 0, 511, misaligned),
        ("write", 1, 256, 512, misaligned),
        ("write", 1, 0, 1, misaligned),
        ("grow", 5, 4097, 0, misaligned),
        ("grow", 5, -1, 0, misaligned),
        ("read", 0, 0, 0, outside),
        ("write", 1, 0, 0, outside),
        ("discard", 4, 0, 0, outside),
        ("read", 0, end, 512, outside),
        ("write", 1, end - 512, 1024, outside),
        ("discard", 4, 512, -512, outside),
        ("read", 0, -512, 512, outside),
        ("write", 1, -512, 1024, outside),
        ("write", 1, i64::MIN, 512, outside),
        ("write_through", 2, 0, 512, "not support write-through"),
        ("discard", 4, 0, 512, "not support discard"),
    ] {
        let mut world = world(&doing("kv_open", &submit(kind, offset, len)), sizes.clone());
        world.open().expect("the call itself is well");
        let error = world.step().expect_err(why);
        breaks_the_abi(&error, &[&format!("a {name} that no device takes"), why]);
        let last = world.trace().events().last().map(|record| &record.event);
        let verdict = error.to_string();
        assert_eq!(last, Some(&TraceEvent::Fault { verdict }));
        assert_eq!(world.step(), Ok(Step::Quiet), "it is over");
        assert_eq!(world.device().in_flight(), 0);
    }
}

/// Goal: what a device takes is not a breach, even if it then fails. Method: the edges of what is allowed, a growth without end.
#[test]
fn an_operation_at_the_edge_is_taken() {
    let device = DeviceConfig {
        capacity_bytes: 1 << 20,
        ..DeviceConfig::default()
    };
    for (kind, offset, len) in [
        (0, (1 << 20) - 512, 512),
        (1, (1 << 20) - 512, 512),
        (4, 0, 1 << 20),
        (3, -7, -7),
        (5, 0, 0),
        (5, -512, 0),
    ] {
        let mut world = world(
            &doing("kv_open", &submit(kind, offset, len)),
            device.clone(),
        );
        world.open().expect("the call itself is well");
        while world.step().expect("it is allowed") != Step::Quiet {}
        assert_eq!(world.device().in_flight(), 0, "kind {kind} at {offset}");
    }
}

/// Goal: a call that ends with a verdict lets nothing out. Method: a write, then a trap; the device never sees the write.
#[test]
fn what_a_failed_call_had_submitted_is_dropped() {
    let body = format!("{} unreachable", submit(1, 0, 512));
    let mut world = world(&doing("kv_open", &body), DeviceConfig::default());
    let error = world.open().expect_err("it traps");
    assert!(error.to_string().contains("trapped"), "{error}");
    assert_eq!(world.step(), Ok(Step::Quiet));
    assert!(world.device().pending().is_empty());
    assert_eq!(world.device().stats().writes, 0);
}

/// Goal: after a verdict the world can go on with a fresh instance. Method: a guest that traps in its second tick, three times over.
#[test]
fn a_crash_ends_what_a_verdict_left() {
    let count = "(global $n (mut i32) (i32.const 0))";
    let tick = r#"(func (export "kv_tick") (param i64) (result i64)
        (if (global.get $n) (then unreachable))
        (global.set $n (i32.const 1))
        (i64.add (local.get 0) (i64.const 1000)))"#;
    let opens = EXPORTS[3].1.replace("i64.const -1", "i64.const 0");
    let bytes = module(&[("n", count), ("kv_tick", tick), ("kv_open", &opens)]);
    let mut world = world(&bytes, DeviceConfig::default());
    for process_run in 1..4 {
        world.open().expect("it opens");
        assert_eq!(world.step(), Ok(Step::Event), "the first tick");
        let error = world.step().expect_err("the second");
        assert!(matches!(error, GuestError::Trap(_)), "{error:?}");
        assert_eq!(world.step(), Ok(Step::Quiet));
        assert_eq!(world.process_run(), process_run);
        world.crash(CrashKind::Power);
    }
}

/// Goal: a completion says what happened, in the page's numbers. Method: each result, for a read, to a guest whose next wake-up is made of
/// the status, the length and the first byte that it finds.
#[test]
fn a_completion_has_the_status_and_length_of_the_page() {
    let complete = r#"(func (export "kv_complete") (param i64 i64 i32 i32) (result i64)
        (i64.extend_i32_u (i32.add (i32.mul (local.get 2) (i32.const 1000000))
            (i32.add (i32.mul (local.get 3) (i32.const 256)) (i32.load8_u (i32.const 0))))))"#;
    let reads = EXPORTS[3].1.replace(
        "i64.const -1",
        &format!("{} i64.const -1", submit(0, 0, 512)),
    );
    let bytes = module(&[("kv_open", &reads), ("kv_complete", complete)]);
    let data = kvsim_simdisk::Excerpt::from(&[9; 512][..]);
    for (result, said) in [
        (Ok(Some(&data)), 512 * 256 + 9),
        (Err(DiskError::Read), 1_000_000),
        (Err(DiskError::Write), 2_000_000),
        (Err(DiskError::Flush), 3_000_000),
        (Err(DiskError::NoSpace), 4_000_000),
    ] {
        let mut guest = start(&bytes).expect("it starts");
        open(&mut *guest).expect("it opens");
        let end = guest.call(1, Call::Complete { tag: 1, result }, &mut Outbox::new());
        assert_eq!(end.expect("it returns").wake_at, Some(said), "{result:?}");
    }
}

/// Goal: a completion of what the guest never submitted is the host's mistake, not the guest's. Method: one out of nowhere.
#[test]
fn a_completion_out_of_nowhere_is_no_finding() {
    let mut guest = start(&module(&[])).expect("it starts");
    let call = Call::Complete {
        tag: 4,
        result: Ok(None),
    };
    let error = guest
        .call(1, call, &mut Outbox::new())
        .expect_err("nobody waits for it");
    assert!(matches!(error, GuestError::Host(_)), "{error:?}");
    assert!(!error.is_finding());
}
