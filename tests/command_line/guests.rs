//! Files that are no guests, and guests that misbehave: a verdict that names them, never a hang or a crash of the program.

use std::path::{Path, PathBuf};

use crate::{SHORT, ends};

/// Everything a guest must export, doing nothing.
const IDLE: &str = r#"
    (memory (export "memory") 2)
    (func (export "kv_abi_version") (result i32) i32.const 1)
    (func (export "kv_buffer") (param i32) (result i32) i32.const 1024)
    (func (export "kv_open") (param i64 i32 i32) (result i64) OPEN i64.const -1)
    (func (export "kv_request") (param i64 i64 i32 i32) (result i64) i64.const -1)
    (func (export "kv_complete") (param i64 i64 i32 i32) (result i64) i64.const -1)
    (func (export "kv_tick") (param i64) (result i64) i64.const -1)"#;

struct Guest {
    directory: tempfile::TempDir,
    path: PathBuf,
}

fn file(bytes: &[u8]) -> Guest {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("guest.wasm");
    std::fs::write(&path, bytes).expect("it can be written");
    Guest { directory, path }
}

fn module(imports: &str, body: &str) -> Guest {
    file(&wat::parse_str(format!("(module {imports} {body})")).expect("the test's module is right"))
}

/// Running it ends so, and says so, with the file's name.
#[track_caller]
fn run(guest: &Guest, code: i32, parts: &[&str]) {
    let path = guest.path.to_string_lossy();
    let failures = guest.directory.path().to_string_lossy();
    let mut arguments = vec![
        "run",
        "scenarios/torn_write.toml",
        "--guest",
        &path,
        "--failures",
        &failures,
    ];
    arguments.extend(SHORT);
    arguments.extend([
        "--set",
        "guest.fuel_per_call=50000000",
        "--set",
        "guest.memory_bytes_max=4194304",
    ]);
    ends(&arguments, code, parts);
}

/// Goal: a file that is no guest is wrong usage and is named. Method: no wasm, a missing export, a foreign import, another
/// version, a file that is not there.
#[test]
fn what_is_no_guest_is_refused() {
    run(
        &file(b"not a module at all"),
        2,
        &["guest.wasm", "not a WebAssembly module"],
    );
    run(&file(b""), 2, &["guest.wasm", "not a WebAssembly module"]);
    let without_tick = IDLE.replace("kv_tick", "kv_tock").replace("OPEN", "");
    run(&module("", &without_tick), 2, &["guest.wasm", "kv_tick"]);
    let clock = r#"(import "env" "clock_time_get" (func (param i32 i64 i32) (result i32)))"#;
    run(
        &module(clock, &IDLE.replace("OPEN", "")),
        2,
        &["guest.wasm", "clock_time_get"],
    );
    let newer = IDLE.replace(
        "i32.const 1)\n    (func (export \"kv_buffer\")",
        "i32.const 7)\n    (func (export \"kv_buffer\")",
    );
    run(
        &module("", &newer.replace("OPEN", "")),
        2,
        &["guest.wasm", "version 7"],
    );
    let gone = Guest {
        directory: tempfile::tempdir().expect("a directory"),
        path: Path::new("no/such/guest.wasm").to_path_buf(),
    };
    run(&gone, 2, &["no/such/guest.wasm"]);
}

/// Goal: a guest that misbehaves violates `guest_behaves`, and how it did is said. Method: it traps, never returns, grows without
/// end, recurses without end, never answers, submits from beyond its memory, answers a request that nobody made.
#[test]
fn a_guest_that_misbehaves_is_a_violation() {
    let open = |body: &str| IDLE.replace("OPEN", body);
    let misbehaves = |guest: &Guest, part| run(guest, 1, &["guest_behaves", part]);
    misbehaves(&module("", &open("unreachable")), "trapped");
    misbehaves(&module("", &open("(loop br 0)")), "hangs");
    let grow = "(loop (br_if 0 (i32.ne (memory.grow (i32.const 16)) (i32.const -1))) unreachable)";
    misbehaves(&module("", &open(grow)), "memory");
    let recursive = format!("{} (func $deeper call $deeper)", open("call $deeper"));
    misbehaves(&module("", &recursive), "guest");
    misbehaves(&module("", &open("")), "guest");
    let submit = r#"(import "kvsim" "disk_submit" (func $submit (param i64 i32 i64 i32 i32)))"#;
    let beyond = "(call $submit (i64.const 1) (i32.const 1) (i64.const 0) (i32.const 131000) (i32.const 4096))";
    misbehaves(&module(submit, &open(beyond)), "memory");
    let reply = r#"(import "kvsim" "reply" (func $reply (param i64 i32 i32 i32)))"#;
    let unasked = "(call $reply (i64.const 77) (i32.const 0) (i32.const 0) (i32.const 0))";
    misbehaves(&module(reply, &open(unasked)), "77");
}
