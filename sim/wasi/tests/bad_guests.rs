//! Each thing that a module or an engine can do wrong, and the one message that it gets.

mod common;

use common::{DESCRIPTION, Process, described, files, limits, load, reactor};
use kvsim_sim::{GuestError, GuestLimits};

fn wat(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("the module is right")
}

/// What loading these bytes says.
fn refused(bytes: &[u8]) -> String {
    load(bytes).expect_err("it is no engine").to_string()
}

/// What the first opening of this engine says.
fn fails(bytes: &[u8], limits: &GuestLimits) -> GuestError {
    let program = load(bytes).expect("it loads");
    let mut process = Process::start(&program, limits, &files()).expect("it starts");
    process.open(&[]).expect_err("it fails")
}

#[test]
fn bytes_that_are_no_module_are_refused() {
    let error = refused(b"\0asm then nothing");
    assert!(error.starts_with("not a WebAssembly module: "), "{error}");
}

#[test]
fn unknown_imports_are_listed_all_at_once() {
    let module = reactor(
        "(import \"env\" \"pthread_create\" (func (param i32) (result i32)))
         (import \"wasi_snapshot_preview1\" \"fd_sync\" (func (param i64) (result i32)))
         (import \"wasi_snapshot_preview1\" \"path_mount\" (func))
         (import \"wasi_snapshot_preview1\" \"fd_close\" (func (param i32) (result i32)))
         (import \"env\" \"table\" (table 1 funcref))",
        "",
        "",
    );
    let expected = "it imports what is not there: env.pthread_create; \
                    wasi_snapshot_preview1.fd_sync with the type (i64) -> (i32) in place of (i32) -> (i32); \
                    wasi_snapshot_preview1.path_mount; env.table (a table); \
                    a file engine may import the functions of `wasi_snapshot_preview1`, and `map` and `unmap` of `kvsim`";
    assert_eq!(refused(&module), expected);
}

#[test]
fn a_module_without_exports_is_no_engine() {
    let error = refused(&wat("(module (memory (export \"memory\") 1))"));
    let expected = "it is no file engine: it exports neither `kv_buffer` and `kv_message` (a reactor) nor `_start` (a command that \
                    speaks over standard input and output)";
    assert_eq!(error, expected);
}

#[test]
fn what_is_missing_or_has_another_type_is_named() {
    let error = refused(&wat("(module (func (export \"kv_message\") (param i32) (result i64) i64.const 0))"));
    assert!(error.contains("it does not export `kv_buffer`"), "{error}");
    let no_memory = "(module (func (export \"kv_message\") (param i32) (result i64) i64.const 0)
                      (func (export \"kv_buffer\") (param i32) (result i32) i32.const 0))";
    let error = refused(&wat(no_memory));
    assert!(error.contains("it does not export `memory`"), "{error}");
    let wrong = "(module (memory (export \"memory\") 1) (func (export \"kv_message\") (result i64) i64.const 0)
                  (func (export \"kv_buffer\") (param i32) (result i32) i32.const 0))";
    let error = refused(&wat(wrong));
    assert!(error.contains("`kv_message` has the type () -> (i64)"), "{error}");
}

#[test]
fn a_module_that_traps_at_once_is_told_where() {
    let start = reactor("", "(func $begin unreachable) (start $begin)", "");
    let error = refused(&start);
    assert!(error.starts_with("in its start: the guest trapped: "), "{error}");
    assert!(error.contains("unreachable") && error.contains("`begin`"), "{error}");
    let initialize = reactor("", "(func $init (export \"_initialize\") (i32.store (i32.const -4) (i32.const 0)))", "");
    let error = refused(&initialize);
    assert!(error.starts_with("in _initialize: the guest trapped: "), "{error}");
    assert!(error.contains("out of bounds"), "{error}");
}

#[test]
fn a_wrong_description_is_refused() {
    let description = DESCRIPTION.replace("order=prefix", "order=any");
    let error = refused(&described(&description, "", "", ""));
    assert!(error.starts_with("in describe: the guest broke the ABI: `order` in the description is `any`"), "{error}");
}

#[test]
fn an_engine_that_never_answers_hangs() {
    let error = fails(&reactor("", "", "(loop $again (br $again))"), &limits());
    assert!(matches!(error, GuestError::OutOfFuel { fuel: 1_000_000_000, .. }), "{error:?}");
    assert!(error.to_string().contains("hangs: a call did not return"), "{error}");
}

/// Goal: a loop around a call of the host ends too, although it burns little fuel. Method: `sched_yield` for ever.
#[test]
fn an_engine_that_calls_the_host_for_ever_is_stopped() {
    let module = reactor(
        "(import \"wasi_snapshot_preview1\" \"sched_yield\" (func $yield (result i32)))",
        "",
        "(loop $again (drop (call $yield)) (br $again))",
    );
    let error = fails(&module, &limits());
    assert!(error.to_string().contains("more than 2000000 calls of the host"), "{error}");
}

#[test]
fn an_engine_that_outgrows_its_memory_is_told() {
    let module = reactor(
        "",
        "",
        "(if (i32.eq (memory.grow (i32.const 2000)) (i32.const -1)) (then unreachable))",
    );
    let error = fails(&module, &limits());
    assert!(matches!(error, GuestError::OutOfMemory { limit_bytes: 67_108_864, .. }), "{error:?}");
    assert!(error.to_string().contains("outgrew its memory of 67108864 bytes"), "{error}");
    let small = GuestLimits {
        memory_bytes_max: 65_536,
        ..limits()
    };
    let program = load(&reactor("", "", "")).expect("it loads");
    let error = Process::start(&program, &small, &files()).err().expect("it needs two pages");
    assert!(matches!(error, GuestError::OutOfMemory { .. }), "{error:?}");
}

#[test]
fn an_engine_that_exits_is_told_with_its_code() {
    let module = reactor(
        "(import \"wasi_snapshot_preview1\" \"proc_exit\" (func $exit (param i32)))
         (import \"wasi_snapshot_preview1\" \"fd_write\" (func $write (param i32 i32 i32 i32) (result i32)))",
        "(data (i32.const 2048) \"\\08\\08\\00\\00\\09\\00\\00\\00no good\\0a?\")",
        "(drop (call $write (i32.const 2) (i32.const 2048) (i32.const 1) (i32.const 512))) (call $exit (i32.const 3))",
    );
    let error = fails(&module, &limits());
    assert!(matches!(error, GuestError::Exited { code: 3, .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.starts_with("the guest ended itself with exit code 3, in `message`; it wrote: no good\n?"), "{text}");
}

#[test]
fn a_trap_after_a_message_is_a_panic_with_that_message() {
    let module = reactor(
        "(import \"wasi_snapshot_preview1\" \"fd_write\" (func $write (param i32 i32 i32 i32) (result i32)))",
        "(data (i32.const 2048) \"\\08\\08\\00\\00\\08\\00\\00\\00bad page\")",
        "(drop (call $write (i32.const 2) (i32.const 2048) (i32.const 1) (i32.const 512))) unreachable",
    );
    let error = fails(&module, &limits());
    assert!(error.to_string().starts_with("the guest panicked: bad page (wasm trap: wasm `unreachable`"), "{error}");
    let GuestError::Panic { stack, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(stack.0, ["message"]);
}

#[test]
fn addresses_outside_memory_are_named() {
    let far = "(module (memory (export \"memory\") 1)
        (func (export \"kv_buffer\") (param i32) (result i32) i32.const 65535)
        (func (export \"kv_message\") (param i32) (result i64) i64.const 0))";
    let error = refused(&wat(far));
    assert!(error.contains("kv_buffer: 4 bytes at 65535 are outside its memory"), "{error}");
    let nowhere = far.replace("65535", "8").replace("i64.const 0", "i64.const 0x7fffffff00000005");
    let error = refused(&wat(&nowhere));
    assert!(error.contains("kv_message: an answer of 5 bytes at 2147483647 is outside"), "{error}");
    let none = far.replace("65535", "0");
    let error = refused(&wat(&none));
    assert!(error.contains("kv_buffer gives no buffer of 4 bytes"), "{error}");
}

#[test]
fn an_answer_that_is_not_of_the_protocol_is_named() {
    let short = reactor("", "", "(return (i64.const 0x20000000002))");
    let error = fails(&short, &limits());
    assert!(error.to_string().contains("an answer of 2 bytes; a status has 4"), "{error}");
    let unknown = reactor("", "(data (i32.const 600) \"\\63\")", "(return (i64.const 0x25800000004))");
    let error = fails(&unknown, &limits());
    assert!(error.to_string().contains("99 is no status"), "{error}");
}

/// A command in the text format that runs this.
fn command(body: &str) -> Vec<u8> {
    wat(&format!(
        "(module
           (import \"wasi_snapshot_preview1\" \"fd_read\" (func $read (param i32 i32 i32 i32) (result i32)))
           (import \"wasi_snapshot_preview1\" \"fd_write\" (func $write (param i32 i32 i32 i32) (result i32)))
           (memory (export \"memory\") 1)
           (data (i32.const 0) \"\\10\\00\\00\\00\\00\\01\\00\\00\")
           (data (i32.const 8) \"\\00\\04\\00\\00\\08\\00\\00\\00\")
           (func $main (export \"_start\") {body}))"
    ))
}

const READ: &str = "(drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 512)))";
const WRITE: &str = "(drop (call $write (i32.const 1) (i32.const 8) (i32.const 1) (i32.const 512)))";

#[test]
fn a_command_that_reads_on_without_an_answer_is_told() {
    let error = refused(&command(&format!("(loop $again {READ} (br $again))")));
    let expected = "in describe: the guest broke the ABI: it waits for the next message and has not answered this one";
    assert_eq!(error, expected);
}

#[test]
fn a_command_that_ends_or_traps_or_hangs_is_told() {
    let error = refused(&command(""));
    assert_eq!(error, "in describe: the guest ended itself with exit code 0");
    let error = refused(&command(&format!("{READ} unreachable")));
    assert!(error.starts_with("in describe: the guest trapped: ") && error.contains("`main`"), "{error}");
    let error = refused(&command("(loop $again (br $again))"));
    assert!(error.starts_with("in describe: the guest hangs"), "{error}");
}

#[test]
fn a_command_whose_answer_is_not_of_the_protocol_is_told() {
    // Its answer says that it has 0 bytes, and four more follow.
    let error = refused(&command(&format!("{READ} {WRITE} {READ} {READ}")));
    assert!(error.contains("4 bytes on standard output beyond the answer"), "{error}");
}
