//! Guests that use up more than they may: fuel, memory, tables, and what the host has to hold for them.

use kvsim_sim::{Call, GuestError, GuestLimits, Outbox, Program, WasmProgram};

use crate::{LIMITS, breaks_the_abi, doing, module, open, opening, refusal, says, start};

#[track_caller]
fn hangs(error: Option<GuestError>, why: &str) {
    assert!(
        matches!(error, Some(GuestError::OutOfFuel { fuel, .. }) if fuel == LIMITS.fuel_per_call),
        "{why}: {error:?}"
    );
}

/// Grows by one page until that fails.
const GROW: &str = "(loop (br_if 0 (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))";

#[track_caller]
fn outgrew(error: &GuestError) {
    assert!(
        matches!(
            error,
            GuestError::OutOfMemory { limit_bytes, .. } if *limit_bytes == LIMITS.memory_bytes_max
        ),
        "{error:?}"
    );
    assert!(error.is_finding());
    says(error, &["outgrew its memory of 4194304 bytes"]);
}

/// Goal: a call that does not return is stopped, in every export. Method: a loop in each; a long way around, by calls.
#[test]
fn a_call_that_never_returns_is_out_of_fuel() {
    for export in ["kv_open", "kv_buffer"] {
        let mut guest = start(&doing(export, "(loop br 0)")).expect("it starts");
        let error = open(&mut *guest).expect_err("it loops");
        says(&error, &["hangs", "10000000 units of fuel"]);
        hangs(Some(error), export);
    }
    let mut guest = start(&doing("kv_tick", "(loop br 0)")).expect("it starts");
    open(&mut *guest).expect("it opens");
    let ended = guest.call(1, Call::Tick, &mut Outbox::new());
    hangs(ended.err(), "a tick");
    // Work by the byte is work too, else a loop of it would be a hang for days.
    let fill = "(loop (memory.fill (i32.const 0) (i32.const 1) (i32.const 131072)) br 0)";
    hangs(opening(fill).err(), "work by the byte");
}

/// Goal: also what runs at the loading is stopped. Method: a loop in the start function, and in the question for the version.
#[test]
fn a_loading_that_never_returns_is_out_of_fuel() {
    let start = module(&[("start", "(func $start (loop br 0)) (start $start)")]);
    for bytes in [start, doing("kv_abi_version", "(loop br 0)")] {
        let error = refusal(&bytes);
        assert!(matches!(error, GuestError::OutOfFuel { .. }), "{error:?}");
    }
}

/// Goal: each call has its fuel anew, and the same call takes the same. Method: a guest that nearly uses it up, over and over.
#[test]
fn fuel_is_by_the_call() {
    let spend = "(local $n i32) (local.set $n (i32.const 1000000)) \
                 (loop (local.set $n (i32.sub (local.get $n) (i32.const 1))) (br_if 0 (local.get $n)))";
    let mut guest = start(&doing("kv_tick", spend)).expect("it starts");
    open(&mut *guest).expect("it opens");
    let mut tick = |now| {
        let end = guest.call(now, Call::Tick, &mut Outbox::new());
        end.expect("it ends").fuel
    };
    let first = tick(1);
    assert!(
        (5_000_000..LIMITS.fuel_per_call).contains(&first),
        "{first}"
    );
    assert!((2..9).all(|now| tick(now) == first));
}

/// Goal: memory is bounded, and a guest that falls over a refused growth is told that it outgrew it. Method: grow until it fails,
/// then trap, panic, or ask for far too much at once.
#[test]
fn growth_without_end_is_out_of_memory() {
    let panic = "(call $panic (i32.const 0) (i32.const 0))";
    for body in [
        format!("{GROW} unreachable"),
        format!("{GROW} {panic}"),
        "(drop (memory.grow (i32.const -1))) unreachable".to_owned(),
        "(drop (memory.grow (i32.const 63))) unreachable".to_owned(),
    ] {
        outgrew(&opening(&body).expect_err(&body));
    }
    let fits =
        opening("(if (i32.ne (memory.grow (i32.const 62)) (i32.const 2)) (then unreachable))");
    assert!(fits.is_ok(), "all of 4 MiB can be had: {fits:?}");
}

/// Goal: a guest that copes with a refused growth goes on, and what it does later is judged by itself. Method: grow in one call,
/// trap in the next.
#[test]
fn a_refused_growth_is_not_held_against_later_calls() {
    let tick = r#"(func (export "kv_tick") (param i64) (result i64) unreachable)"#;
    let opens = format!(
        r#"(func $open (export "kv_open") (param i64 i32 i32) (result i64) {GROW} i64.const -1)"#
    );
    let mut guest = start(&module(&[("kv_tick", tick), ("kv_open", &opens)])).expect("it starts");
    open(&mut *guest).expect("it copes");
    let error = guest
        .call(1, Call::Tick, &mut Outbox::new())
        .expect_err("it traps");
    assert!(matches!(error, GuestError::Trap(_)), "{error:?}");
}

/// Goal: a guest cannot begin with more than it may have. Method: a least memory of a page too much; another scenario admits it.
#[test]
fn a_minimum_over_the_limit_is_out_of_memory() {
    let bytes = module(&[("memory", r#"(memory (export "memory") 65)"#)]);
    outgrew(&start(&bytes).err().expect("it is too large"));
    let program = WasmProgram::from_bytes("test", &bytes).expect("a guest all the same");
    let limits = GuestLimits {
        memory_bytes_max: 65 << 16,
        ..LIMITS
    };
    assert!(program.start(&limits).is_ok());
}

/// Goal: a guest's own bound is its own affair, and never the host's failure. Method: a memory that admits less than the limit.
#[test]
fn a_bound_of_its_own_is_no_failure_of_the_host() {
    let memory = ("memory", r#"(memory (export "memory") 2 3)"#);
    let opens = format!(
        r#"(func $open (export "kv_open") (param i64 i32 i32) (result i64) {GROW} unreachable)"#
    );
    let mut guest = start(&module(&[memory, ("kv_open", &opens)])).expect("it starts");
    let error = open(&mut *guest).expect_err("it traps");
    assert!(error.is_finding(), "{error:?}");
}

/// Goal: tables are memory too. Method: one that is too large from the start, and some that are only so together.
#[test]
fn tables_are_bounded() {
    let many = "(table 600000 funcref) (table 600000 funcref)";
    for text in ["(table 100000000 funcref)", many] {
        let error = refusal(&module(&[("table", text)]));
        assert!(matches!(error, GuestError::OutOfMemory { .. }), "{error:?}");
        says(&error, &["table"]);
    }
    let grow = "(table $t 1 funcref) (func $grow (export \"grow\") \
                (loop (br_if 0 (i32.ne (table.grow $t (ref.null func) (i32.const 9999)) (i32.const -1)))))";
    let opens = r#"(func $open (export "kv_open") (param i64 i32 i32) (result i64) call $grow unreachable)"#;
    let mut guest = start(&module(&[("table", grow), ("kv_open", opens)])).expect("it starts");
    outgrew(&open(&mut *guest).expect_err("it grows"));
}

/// Goal: a loop around an import ends before the host's memory does. Method: each import that lets something out, for ever, with
/// fuel for several times what one call may let out, and not for so much that a lack of the bound would hurt.
#[test]
fn a_flood_is_stopped() {
    let next = "(global $tag (mut i64) (i64.const 0)) (func $next (result i64) \
                (global.set $tag (i64.add (global.get $tag) (i64.const 1))) global.get $tag)";
    for (fuel_per_call, call) in [
        (
            50_000,
            "(call $submit (call $next) (i32.const 1) (i64.const 0) (i32.const 0) (i32.const 131072))",
        ),
        (
            50_000,
            "(call $submit (call $next) (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 131072))",
        ),
        (
            20_000_000,
            "(call $submit (call $next) (i32.const 3) (i64.const 0) (i32.const 0) (i32.const 0))",
        ),
        (
            50_000,
            "(call $log (i32.const 3) (i32.const 0) (i32.const 131072))",
        ),
        (
            20_000_000,
            "(call $log (i32.const 5) (i32.const 0) (i32.const 0))",
        ),
    ] {
        let opens = format!(
            r#"(func $open (export "kv_open") (param i64 i32 i32) (result i64) (loop {call} br 0) i64.const -1)"#
        );
        let bytes = module(&[("next", next), ("kv_open", &opens)]);
        let program = WasmProgram::from_bytes("test", &bytes).expect("a guest");
        let limits = GuestLimits {
            fuel_per_call,
            ..LIMITS
        };
        let mut guest = program.start(&limits).expect("it starts");
        let error = open(&mut *guest).expect_err("it floods");
        breaks_the_abi(&error, &["one call let out more than 67108864 bytes"]);
    }
}
