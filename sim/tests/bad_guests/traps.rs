//! Guests that fall over their own feet: traps and panics, in each export.

use kvsim_sim::{Call, GuestError, Outbox, Stack};

use crate::{EXPORTS, doing, module, open, opening, refusal, says, start};

/// Goal: whatever a guest does to itself is a verdict that says what. Method: one of each trap that there is.
#[test]
fn a_trap_is_named() {
    for (body, what) in [
        ("unreachable", "unreachable"),
        (
            "(drop (i32.div_u (i32.const 1) (i32.const 0)))",
            "divide by zero",
        ),
        (
            "(drop (i32.div_s (i32.const 0x80000000) (i32.const -1)))",
            "overflow",
        ),
        (
            "(drop (i32.trunc_f32_s (f32.const nan)))",
            "conversion to integer",
        ),
        ("(drop (i32.load (i32.const -4)))", "out of bounds memory"),
        (
            "(drop (i32.load8_u (i32.const 131072)))",
            "out of bounds memory",
        ),
        (
            "(memory.fill (i32.const 131071) (i32.const 0) (i32.const 2))",
            "out of bounds memory",
        ),
    ] {
        let error = opening(body).expect_err(body);
        assert!(matches!(error, GuestError::Trap(_)), "{body}: {error:?}");
        assert!(error.is_finding());
        says(&error, &["the guest trapped", what]);
    }
}

/// Goal: calls through a table that lead nowhere are traps like the others. Method: out of the table, an empty place, another type.
#[test]
fn a_wild_call_is_named() {
    let table = "(type $other (func (param f64))) (table 3 funcref) (elem (i32.const 1) $open)";
    for (place, what) in [
        (9, "out of bounds"),
        (0, "uninitialized"),
        (1, "type mismatch"),
    ] {
        let call = format!("(call_indirect (type $other) (f64.const 0) (i32.const {place}))");
        let (_, usual) = EXPORTS[3];
        let text = usual.replace("i64.const -1", &format!("{call} i64.const -1"));
        let bytes = module(&[("kv_open", &text), ("table", table)]);
        let error = open(&mut *start(&bytes).expect("it starts")).expect_err("it is wild");
        assert!(matches!(error, GuestError::Trap(_)), "{error:?}");
        says(&error, &[what]);
    }
}

/// Goal: endless recursion ends with the guest's stack, and the host's is left alone. Method: alone, with large frames, in pairs
/// through the table; on the smallest stack that a thread of ours has.
#[test]
fn an_endless_recursion_is_a_stack_overflow() {
    let again = "(drop (call $open (i64.const 0) (i32.const 0) (i32.const 0)))";
    let locals = format!("(local {}) {again}", "i64 ".repeat(5000));
    for body in [again, &locals] {
        let error = opening(body).expect_err("it never ends");
        assert!(matches!(error, GuestError::Trap(_)), "{error:?}");
        says(&error, &["call stack exhausted"]);
    }
    let worker = std::thread::Builder::new()
        .stack_size(1 << 20)
        .spawn(move || opening(again).expect_err("it never ends"))
        .expect("a thread");
    let error = worker.join().expect("the host survives");
    says(&error, &["call stack exhausted"]);
}

/// Goal: a trap is caught in whichever export it happens. Method: call each of them by an event of its own.
#[test]
fn a_trap_is_caught_in_every_export() {
    for export in ["kv_buffer", "kv_open"] {
        let mut guest = start(&doing(export, "unreachable")).expect("it starts");
        let error = open(&mut *guest).expect_err("it traps");
        assert!(matches!(error, GuestError::Trap(_)), "{export}: {error:?}");
    }
    let mut guest = start(&doing("kv_tick", "unreachable")).expect("it starts");
    open(&mut *guest).expect("it opens");
    let error = guest
        .call(5, Call::Tick, &mut Outbox::new())
        .expect_err("it traps");
    assert!(matches!(error, GuestError::Trap(_)), "{error:?}");

    let submit =
        "(call $submit (i64.const 9) (i32.const 3) (i64.const 0) (i32.const 0) (i32.const 0))";
    let open_text = EXPORTS[3]
        .1
        .replace("i64.const -1", &format!("{submit} i64.const -1"));
    let complete = EXPORTS[5].1.replace("i64.const -1", "unreachable");
    let bytes = module(&[("kv_open", &open_text), ("kv_complete", &complete)]);
    let mut guest = start(&bytes).expect("it starts");
    open(&mut *guest).expect("it opens");
    let end = Call::Complete {
        tag: 9,
        result: Ok(None),
    };
    let error = guest
        .call(5, end, &mut Outbox::new())
        .expect_err("it traps");
    assert!(matches!(error, GuestError::Trap(_)), "{error:?}");

    let error = refusal(&doing("kv_abi_version", "unreachable"));
    assert!(matches!(error, GuestError::Trap(_)), "{error:?}");
}

/// Goal: a module that cannot even start is told so. Method: a start function that traps, data that does not fit the memory.
#[test]
fn a_start_that_traps_is_a_verdict() {
    for text in [
        "(func $start unreachable) (start $start)",
        r#"(data (i32.const 131070) "abc")"#,
        "(table 1 funcref) (elem (i32.const 1) $open)",
    ] {
        let error = refusal(&module(&[("start", text)]));
        assert!(matches!(error, GuestError::Trap(_)), "{text}: {error:?}");
        assert!(error.is_finding());
    }
}

/// Goal: a panic is reported with its message and place. Method: the import, with a text in the memory.
#[test]
fn a_panic_is_reported_with_its_message_and_place() {
    let text = "the index is broken at engine.c:7:1 – über";
    let data = format!(r#"(data (i32.const 64) "{text}")"#);
    let call = format!("(call $panic (i32.const 64) (i32.const {}))", text.len());
    let body = EXPORTS[3]
        .1
        .replace("i64.const -1", &format!("{call} i64.const -1"));
    let bytes = module(&[("kv_open", &body), ("data", &data)]);
    let error = open(&mut *start(&bytes).expect("it starts")).expect_err("it panics");
    says(&error, &["panicked", text]);
    let GuestError::Panic { message, stack } = error else {
        panic!("{error:?}");
    };
    assert_eq!(message, text);
    assert_eq!(stack.0, ["open"]);
}

/// Goal: a trap and a hang name the functions that were running, innermost first; a module without names has none. Method: a function
/// that another one calls and that traps, one that loops, and an export that nobody named.
#[test]
fn the_functions_of_a_trap_are_named() {
    let deeper = |body: &str| {
        let open = EXPORTS[3]
            .1
            .replace("i64.const -1", "call $outer i64.const -1");
        let functions = format!("(func $outer call $inner) (func $inner {body})");
        let bytes = module(&[("kv_open", &open), ("functions", &functions)]);
        open_error(&bytes)
    };
    let named = |stack: &Stack| assert_eq!(stack.0, ["inner", "outer", "open"]);
    match deeper("unreachable") {
        GuestError::Trap(trapped) => named(&trapped.stack),
        other => panic!("{other:?}"),
    }
    match deeper("(loop br 0)") {
        GuestError::OutOfFuel { stack, .. } => named(&stack),
        other => panic!("{other:?}"),
    }
    says(&deeper("unreachable"), &["trapped", "in `inner`"]);
    let mut guest = start(&doing("kv_tick", "unreachable")).expect("it starts");
    open(&mut *guest).expect("it opens");
    let error = guest.call(1, Call::Tick, &mut Outbox::new());
    match error.expect_err("it traps") {
        GuestError::Trap(trapped) => assert_eq!(trapped.stack, Stack::default()),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn open_error(bytes: &[u8]) -> GuestError {
    open(&mut *start(bytes).expect("it starts")).expect_err("it fails")
}
