//! Modules that are no guests, and guests that do what no guest may: each gets the verdict that names what it did, and the host
//! survives all of them.
#![allow(missing_docs, reason = "a test")]

use std::collections::BTreeMap;

use kvsim_sim::{
    Call, CallEnd, GuestError, GuestLimits, OpenConfig, OutItem, Outbox, Program, WasmProgram,
};
use kvsim_simdisk::{Device, DeviceConfig, FaultConfig};

const MEMORY_BYTES_MAX: u64 = 4 << 20;
const FUEL_PER_CALL: u64 = 10_000_000;

/// All exports of a guest that does nothing, by name.
const EXPORTS: [(&str, &str); 7] = [
    ("memory", r#"(memory (export "memory") 2)"#),
    (
        "kv_abi_version",
        r#"(func (export "kv_abi_version") (result i32) i32.const 1)"#,
    ),
    (
        "kv_buffer",
        r#"(func (export "kv_buffer") (param i32) (result i32) i32.const 1024)"#,
    ),
    (
        "kv_open",
        r#"(func (export "kv_open") (param i64 i32 i32) (result i64) i64.const -1)"#,
    ),
    (
        "kv_request",
        r#"(func (export "kv_request") (param i64 i64 i32 i32) (result i64) i64.const -1)"#,
    ),
    (
        "kv_complete",
        r#"(func (export "kv_complete") (param i64 i64 i32 i32) (result i64) i64.const -1)"#,
    ),
    (
        "kv_tick",
        r#"(func (export "kv_tick") (param i64) (result i64) i64.const -1)"#,
    ),
];

/// A module with some exports written anew.
fn module(imports: &str, anew: &[(&str, &str)]) -> Vec<u8> {
    let mut text = format!("(module {imports}\n");
    for (name, usual) in EXPORTS {
        let text_of = anew
            .iter()
            .find(|(other, _)| *other == name)
            .map_or(usual, |(_, text)| text);
        text.push_str(text_of);
        text.push('\n');
    }
    text.push(')');
    wat::parse_str(&text).unwrap_or_else(|error| panic!("the test's own module: {error}\n{text}"))
}

fn refusal(bytes: &[u8]) -> GuestError {
    match WasmProgram::from_bytes("test", bytes) {
        Ok(_) => panic!("it was taken for a guest"),
        Err(error) => error,
    }
}

/// Opens the guest; what it let out, or what it did wrong.
fn open(bytes: &[u8]) -> Result<(CallEnd, Outbox), GuestError> {
    let program =
        WasmProgram::from_bytes("test", bytes).unwrap_or_else(|error| panic!("no guest: {error}"));
    let limits = GuestLimits {
        memory_bytes_max: MEMORY_BYTES_MAX,
        fuel_per_call: FUEL_PER_CALL,
    };
    let device = Device::new(&DeviceConfig::default(), &FaultConfig::default(), 1)
        .expect("the usual device");
    let config = OpenConfig {
        device: device.capabilities(),
        memory_bytes_max: MEMORY_BYTES_MAX,
        db_id: [7; 16],
        options: BTreeMap::new(),
    };
    let mut guest = program.start(&limits)?;
    let mut out = Outbox::new();
    let end = guest.call(0, Call::Open(&config), &mut out)?;
    Ok((end, out))
}

/// Opens a guest whose `kv_open` does this first.
fn opening(imports: &str, body: &str) -> Result<(CallEnd, Outbox), GuestError> {
    let text = format!(
        r#"(func $open (export "kv_open") (param i64 i32 i32) (result i64) {body} i64.const -1)"#
    );
    open(&module(imports, &[("kv_open", &text)]))
}

#[track_caller]
fn says(error: &GuestError, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{text}` does not say `{part}`");
    }
}

/// Goal: only WebAssembly is taken. Method: nothing, garbage, half a module, a component's header.
#[test]
fn what_is_not_wasm_is_refused() {
    let whole = module("", &[]);
    let component = b"\0asm\x0d\0\x01\0";
    for bytes in [&b""[..], b"#!/bin/sh", &whole[..whole.len() / 2], component] {
        let error = refusal(bytes);
        assert!(matches!(error, GuestError::NotWasm(_)), "{error:?}");
    }
}

/// Goal: a guest that does nothing is a guest. Method: load it, open it; nothing comes out.
#[test]
fn an_idle_guest_is_a_guest() {
    let (end, out) = open(&module("", &[])).expect("it does nothing wrong");
    assert_eq!((end.wake_at, out.len()), (None, 0));
}

/// Goal: each export is asked for by name, and with its type. Method: leave each out, give each another type.
#[test]
fn every_export_is_needed_with_its_type() {
    for (name, _) in EXPORTS {
        let error = refusal(&module("", &[(name, "")]));
        assert_eq!(error, GuestError::MissingExport(name.to_owned()));
        let other = format!(r#"(func (export "{name}") (param f32))"#);
        let error = refusal(&module("", &[(name, &other)]));
        let of_type =
            matches!(&error, GuestError::WrongSignature { name: wrong, .. } if wrong == name);
        assert!(
            of_type || error == GuestError::MissingExport(name.to_owned()),
            "{name}: {error:?}"
        );
    }
    let memory = r#"(memory (export "memory") i64 2)"#;
    assert!(!matches!(
        refusal(&module("", &[("memory", memory)])),
        GuestError::Host(_)
    ));
}

/// Goal: a guest can have nothing but the four imports, with their types. Method: a clock, a name of ours that is not there, a
/// memory, one with another type.
#[test]
fn a_foreign_import_is_named() {
    for (import, name) in [
        (
            r#"(import "wasi_snapshot_preview1" "clock_time_get" (func (param i32 i64 i32) (result i32)))"#,
            "clock_time_get",
        ),
        (r#"(import "kvsim" "now" (func (result i64)))"#, "now"),
        (r#"(import "env" "table" (table 1 funcref))"#, "table"),
    ] {
        let error = refusal(&module(import, &[]));
        assert!(
            matches!(error, GuestError::ForbiddenImport { .. }),
            "{error:?}"
        );
        says(&error, &[name]);
    }
    let error = refusal(&module(
        r#"(import "kvsim" "reply" (func (param i32)))"#,
        &[],
    ));
    assert!(
        matches!(&error, GuestError::WrongSignature { name, .. } if name == "reply"),
        "{error:?}"
    );
}

/// Goal: another version of the ABI is refused with both numbers. Method: a guest from the future.
#[test]
fn another_version_is_refused() {
    let newer = r#"(func (export "kv_abi_version") (result i32) i32.const 9)"#;
    let error = refusal(&module("", &[("kv_abi_version", newer)]));
    assert_eq!(
        error,
        GuestError::AbiVersion {
            found: 9,
            expected: 1
        }
    );
}

/// Goal: a guest that does not return is stopped. Method: a loop, also in a start function.
#[test]
fn a_guest_that_never_returns_is_out_of_fuel() {
    let error = opening("", "(loop br 0)").expect_err("it loops");
    assert_eq!(
        error,
        GuestError::OutOfFuel {
            fuel: FUEL_PER_CALL
        }
    );
    let start = "(func $start (loop br 0)) (start $start)";
    let idle = module("", &[("kv_tick", &format!("{}{start}", EXPORTS[6].1))]);
    let error = WasmProgram::from_bytes("test", &idle).err();
    assert!(
        matches!(error, Some(GuestError::OutOfFuel { .. })),
        "{error:?}"
    );
}

/// Goal: memory is bounded. Method: grow until it fails and trap, grow and go on, begin with too much.
#[test]
fn a_guest_that_outgrows_its_memory_is_told_so() {
    let grow = "(loop (br_if 0 (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))";
    let error = opening("", &format!("{grow} unreachable")).expect_err("it grows");
    assert!(
        matches!(
            error,
            GuestError::OutOfMemory {
                limit_bytes: MEMORY_BYTES_MAX,
                ..
            }
        ),
        "{error:?}"
    );
    let large = module("", &[("memory", r#"(memory (export "memory") 1000)"#)]);
    let error = open(&large).expect_err("it begins with more than it may have");
    assert!(matches!(error, GuestError::OutOfMemory { .. }), "{error:?}");
}

/// Goal: whatever a guest does to itself is a verdict. Method: a trap, a division, an endless recursion, a wild pointer.
#[test]
fn a_trap_is_a_verdict() {
    for body in [
        "unreachable",
        "(drop (i32.div_u (i32.const 1) (i32.const 0)))",
        "(drop (call $open (i64.const 0) (i32.const 0) (i32.const 0)))",
        "(drop (i32.load (i32.const -4)))",
    ] {
        let error = opening("", body).expect_err(body);
        assert!(matches!(error, GuestError::Trap(_)), "{body}: {error:?}");
    }
}

/// Goal: a panic is reported with its message. Method: the import, with text, and with a pointer that leads nowhere.
#[test]
fn a_panic_is_reported_with_its_message() {
    let import = r#"(import "kvsim" "panic" (func $panic (param i32 i32)))"#;
    let memory =
        r#"(memory (export "memory") 2) (data (i32.const 64) "it is broken at engine.c:7")"#;
    let text = r#"(func (export "kv_open") (param i64 i32 i32) (result i64) (call $panic (i32.const 64) (i32.const 26)) i64.const -1)"#;
    let error =
        open(&module(import, &[("memory", memory), ("kv_open", text)])).expect_err("it panicked");
    assert_eq!(
        error,
        GuestError::Panic("it is broken at engine.c:7".to_owned())
    );
    let wild =
        opening(import, "(call $panic (i32.const -8) (i32.const 64))").expect_err("it panicked");
    assert!(wild.is_finding(), "{wild:?}");
}

/// Goal: what a guest hands to the host lies within its memory and is of a kind that there is. Method: each import with each mistake.
#[test]
fn the_host_takes_nothing_that_is_not_there() {
    let submit = r#"(import "kvsim" "disk_submit" (func $submit (param i64 i32 i64 i32 i32)))"#;
    let submits = |kind: i32, offset: i64, at: i32, len: i32| {
        opening(
            submit,
            &format!(
                "(call $submit (i64.const 1) (i32.const {kind}) (i64.const {offset}) (i32.const {at}) (i32.const {len}))"
            ),
        )
    };
    let (_, out) = submits(1, 0, 0, 4096).expect("a write of one block");
    assert!(
        matches!(out[..], [OutItem::Submit { tag: 1, .. }]),
        "{out:?}"
    );
    for (kind, at, len) in [
        (1, 131_000, 4096),
        (0, 131_000, 4096),
        (1, -4096, 8192),
        (77, 0, 4096),
        (1, 0, -1),
    ] {
        let error = submits(kind, 0, at, len).expect_err("it is wrong");
        assert!(
            matches!(error, GuestError::Abi(_)),
            "kind {kind} at {at}+{len}: {error:?}"
        );
    }
    let reply = r#"(import "kvsim" "reply" (func $reply (param i64 i32 i32 i32)))"#;
    let wild = opening(
        reply,
        "(call $reply (i64.const 0) (i32.const 0) (i32.const 131000) (i32.const 4096))",
    );
    assert!(matches!(wild, Err(GuestError::Abi(_))), "{wild:?}");
    let unknown = opening(
        reply,
        "(call $reply (i64.const 0) (i32.const 99) (i32.const 0) (i32.const 0))",
    );
    assert!(matches!(unknown, Err(GuestError::Abi(_))), "{unknown:?}");
    let unasked = opening(
        reply,
        "(call $reply (i64.const 5) (i32.const 0) (i32.const 0) (i32.const 0))",
    );
    assert!(matches!(unasked, Err(GuestError::Abi(_))), "{unasked:?}");
    let log = r#"(import "kvsim" "log" (func $log (param i32 i32 i32)))"#;
    let wild = opening(
        log,
        "(call $log (i32.const 3) (i32.const 131000) (i32.const 4096))",
    );
    assert!(matches!(wild, Err(GuestError::Abi(_))), "{wild:?}");
}

/// Goal: a buffer that does not fit into the guest's memory is its mistake, and no buffer is a lack of memory. Method: both.
#[test]
fn a_buffer_has_to_be_there() {
    let at = |place: i32| {
        format!(r#"(func (export "kv_buffer") (param i32) (result i32) i32.const {place})"#)
    };
    let error = open(&module("", &[("kv_buffer", &at(131_070))])).expect_err("it ends too soon");
    assert!(matches!(error, GuestError::Abi(_)), "{error:?}");
    let error = open(&module("", &[("kv_buffer", &at(0))])).expect_err("there is none");
    assert!(matches!(error, GuestError::OutOfMemory { .. }), "{error:?}");
}
