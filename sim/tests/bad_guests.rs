//! Modules that are no guests, and guests that do what no guest may: each gets the verdict that names what it did, and the host
//! survives all of them. Here is what the parts share; each is about one way of being bad.
#![allow(missing_docs, reason = "a test")]

#[path = "bad_guests/coverage.rs"]
mod coverage;
#[path = "bad_guests/device.rs"]
mod device;
#[path = "bad_guests/imports.rs"]
mod imports;
#[path = "bad_guests/limits.rs"]
mod limits;
#[path = "bad_guests/load.rs"]
mod load;
#[path = "bad_guests/policies.rs"]
mod policies;
#[path = "bad_guests/replies.rs"]
mod replies;
#[path = "bad_guests/traps.rs"]
mod traps;

use std::collections::BTreeMap;

use kvsim_sim::{
    Call, CallEnd, Guest, GuestError, GuestLimits, OpenConfig, Outbox, Program, WasmProgram,
};
use kvsim_simdisk::{Device, DeviceConfig, FaultConfig};

const LIMITS: GuestLimits = GuestLimits {
    memory_bytes_max: 4 << 20,
    fuel_per_call: 10_000_000,
    events_per_answer: 1_000,
    idle_ns_per_answer: 10_000_000_000,
};

/// What a guest may import.
const IMPORTS: [(&str, &str); 5] = [
    (
        "disk_submit",
        r#"(import "kvsim" "disk_submit" (func $submit (param i64 i32 i64 i32 i32)))"#,
    ),
    (
        "reply",
        r#"(import "kvsim" "reply" (func $reply (param i64 i32 i32 i32)))"#,
    ),
    (
        "log",
        r#"(import "kvsim" "log" (func $log (param i32 i32 i32)))"#,
    ),
    (
        "panic",
        r#"(import "kvsim" "panic" (func $panic (param i32 i32)))"#,
    ),
    (
        "mark",
        r#"(import "kvsim" "mark" (func $mark (param i32)))"#,
    ),
];

/// The exports of a guest that does nothing, with two pages of memory.
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
        r#"(func $open (export "kv_open") (param i64 i32 i32) (result i64) i64.const -1)"#,
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

/// The guest that does nothing, with some imports and exports written anew, and what has another name put at the end.
fn module(anew: &[(&str, &str)]) -> Vec<u8> {
    let mut text = "(module\n".to_owned();
    for (name, usual) in IMPORTS.iter().chain(&EXPORTS) {
        let written = anew.iter().find(|(other, _)| other == name);
        text.push_str(written.map_or(usual, |(_, text)| text));
        text.push('\n');
    }
    let known = |name: &str| IMPORTS.iter().chain(&EXPORTS).any(|(own, _)| *own == name);
    for (_, more) in anew.iter().filter(|(name, _)| !known(name)) {
        text.push_str(more);
    }
    text.push(')');
    wat::parse_str(&text).unwrap_or_else(|error| panic!("the test's own module: {error}\n{text}"))
}

/// The guest that does nothing, but this in one of its exports.
fn doing(export: &str, body: &str) -> Vec<u8> {
    let (_, usual) = EXPORTS
        .iter()
        .find(|(name, _)| *name == export)
        .expect("an export");
    let (head, result) = usual.rsplit_once(" i").expect("it ends in a constant");
    module(&[(export, &format!("{head} {body} i{result}"))])
}

/// Why these bytes are no guest.
#[track_caller]
fn refusal(bytes: &[u8]) -> GuestError {
    match WasmProgram::from_bytes("test", bytes) {
        Ok(_) => panic!("it was taken for a guest"),
        Err(error) => error,
    }
}

fn start(bytes: &[u8]) -> Result<Box<dyn Guest>, GuestError> {
    let program =
        WasmProgram::from_bytes("test", bytes).unwrap_or_else(|error| panic!("no guest: {error}"));
    program.start(&LIMITS)
}

/// Opens the guest; what it let out, or what it did wrong.
fn open(guest: &mut dyn Guest) -> Result<(CallEnd, Outbox), GuestError> {
    let device = Device::new(&DeviceConfig::default(), &FaultConfig::default(), 1)
        .expect("the usual device");
    let config = OpenConfig {
        device: device.capabilities(),
        memory_bytes_max: LIMITS.memory_bytes_max,
        db_id: [7; 16],
        options: BTreeMap::new(),
    };
    let mut out = Outbox::new();
    let end = guest.call(0, Call::Open(&config), &mut out)?;
    Ok((end, out))
}

/// What becomes of a guest that does this when it is opened.
fn opening(body: &str) -> Result<(CallEnd, Outbox), GuestError> {
    open(&mut *start(&doing("kv_open", body))?)
}

#[track_caller]
fn says(error: &GuestError, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{text}` does not say `{part}`");
    }
}

/// It is a breach of the ABI, and a finding, and says so in these words.
#[track_caller]
fn breaks_the_abi(error: &GuestError, parts: &[&str]) {
    assert!(matches!(error, GuestError::Abi(_)), "{error:?}");
    assert!(error.is_finding(), "{error:?}");
    says(error, parts);
}

/// Goal: the guest from which all bad ones are made is a good one. Method: load it, open it; nothing comes out.
#[test]
fn an_idle_guest_is_a_guest() {
    let mut guest = start(&module(&[])).expect("it starts");
    let (end, out) = open(&mut *guest).expect("it does nothing wrong");
    assert_eq!((end.wake_at, out.len()), (None, 0));
    assert!(end.fuel > 0, "even nothing is work");
}
