//! What guests hand to the host that no host can take: pointers out of the memory, kinds and levels that there are not, tags and
//! times to call.

use kvsim_sim::{GuestError, LogLevel, OutItem, Outbox};
use kvsim_simdisk::Op;

use crate::{EXPORTS, breaks_the_abi, doing, module, open, opening, refusal, says, start};

/// Places that are not, or not all, in a memory of 131072 bytes.
const WILD: [(i32, i32); 6] = [
    (131_071, 2),
    (131_073, 0),
    (0, 131_073),
    (0, -1),
    (-4096, 8192),
    (-1, -1),
];

fn submit(tag: i64, kind: i32, offset: i64, ptr: i32, len: i32) -> String {
    format!(
        "(call $submit (i64.const {tag}) (i32.const {kind}) (i64.const {offset}) (i32.const {ptr}) (i32.const {len}))"
    )
}

#[track_caller]
fn fails(body: &str) -> GuestError {
    opening(body).expect_err(body)
}

/// Where a place ends up in a message: as the unsigned numbers that they are.
fn place(ptr: i32, len: i32) -> String {
    let (ptr, len) = (ptr.cast_unsigned(), len.cast_unsigned());
    format!("{len} bytes at {ptr} are outside its memory of 131072 bytes")
}

/// Goal: what is right is taken, in its order, and data as it was then. Method: one of each operation, and a buffer that changes.
#[test]
fn every_operation_is_let_out_as_it_was_submitted() {
    let change = "(i32.store8 (i32.const 0) (i32.const 7))";
    let body = [
        submit(1, 1, 4096, 0, 512),
        change.to_owned(),
        submit(2, 2, 8192, 0, 512),
        submit(3, 0, 512, 130_560, 512),
        submit(4, 3, 0, 0, 0),
        submit(-5, 4, 1024, 0, 4096),
        submit(6, 5, 1 << 40, 0, 0),
        "(call $log (i32.const 2) (i32.const 131072) (i32.const 0))".to_owned(),
    ];
    let (_, out) = opening(&body.concat()).expect("all is well");
    let written = |first: u8| {
        let mut data = vec![0; 512];
        data[0] = first;
        data.into()
    };
    let ops = [
        (
            1,
            Op::Write {
                offset: 4096,
                data: written(0),
                through: false,
            },
        ),
        (
            2,
            Op::Write {
                offset: 8192,
                data: written(7),
                through: true,
            },
        ),
        (
            3,
            Op::Read {
                offset: 512,
                len_bytes: 512,
            },
        ),
        (4, Op::Flush),
        (
            -5_i64 as u64,
            Op::Discard {
                offset: 1024,
                len_bytes: 4096,
            },
        ),
        (6, Op::Grow { new_bytes: 1 << 40 }),
    ];
    let mut expected: Outbox = ops
        .into_iter()
        .map(|(tag, op)| OutItem::Submit { tag, op })
        .collect();
    expected.push(OutItem::Log {
        level: LogLevel::Warn,
        text: String::new(),
    });
    assert_eq!(out, expected);
}

/// Goal: a buffer lies within the memory. Method: each import that takes one, with each wild place; the message has the import,
/// the place and the memory.
#[test]
fn a_pointer_out_of_the_memory_is_named() {
    for (ptr, len) in WILD {
        let text = format!("(i32.const {ptr}) (i32.const {len})");
        for (import, call) in [
            ("disk_submit", submit(1, 0, 0, ptr, len)),
            ("disk_submit", submit(1, 1, 0, ptr, len)),
            ("disk_submit", submit(1, 2, 0, ptr, len)),
            (
                "reply",
                format!("(call $reply (i64.const 0) (i32.const 0) {text})"),
            ),
            ("log", format!("(call $log (i32.const 3) {text})")),
            ("panic", format!("(call $panic {text})")),
        ] {
            breaks_the_abi(&fails(&call), &[import, &place(ptr, len)]);
        }
    }
}

/// Goal: the first mistake is the verdict, and nothing after it happens. Method: an operation on either side of a bad one, and a
/// trap behind them.
#[test]
fn a_mistake_ends_the_call() {
    let body = [
        submit(1, 3, 0, 0, 0),
        submit(2, 9, 0, 0, 0),
        submit(3, 3, 0, 0, 0),
    ]
    .concat();
    let panics = format!("{body} unreachable");
    breaks_the_abi(
        &fails(&panics),
        &["disk_submit: 9 is no kind of disk operation"],
    );
}

/// Goal: kinds and levels are those of the page. Method: the neighbours of the known ones, and the ends of the range.
#[test]
fn an_unknown_kind_or_level_is_named() {
    for kind in [7, -1, i32::MAX, i32::MIN] {
        let error = fails(&submit(1, kind, 0, 0, 512));
        breaks_the_abi(&error, &["disk_submit", &format!("{kind} is no kind")]);
    }
    for level in [0, 6, -1, i32::MIN] {
        let call = format!("(call $log (i32.const {level}) (i32.const 0) (i32.const 0))");
        breaks_the_abi(&fails(&call), &["log", &format!("{level} is no level")]);
    }
    for (number, level) in (1..).zip([
        LogLevel::Error,
        LogLevel::Warn,
        LogLevel::Info,
        LogLevel::Debug,
        LogLevel::Trace,
    ]) {
        let call = format!("(call $log (i32.const {number}) (i32.const 0) (i32.const 0))");
        let (_, out) = opening(&call).expect("a level");
        assert!(matches!(&out[..], [OutItem::Log { level: found, .. }] if *found == level));
    }
}

/// Goal: a tag names one operation in flight. Method: the same twice, of all kinds; and again once the first has ended.
#[test]
fn a_tag_in_use_is_named() {
    for kind in 0..6 {
        let body = [submit(77, kind, 0, 0, 512), submit(77, 3, 0, 0, 0)].concat();
        breaks_the_abi(&fails(&body), &["disk_submit", "tag 77 is in use"]);
    }
    let again = |export: usize| {
        let call = submit(77, 3, 0, 0, 0);
        EXPORTS[export]
            .1
            .replace("i64.const -1", &format!("{call} i64.const -1"))
    };
    let bytes = module(&[("kv_open", &again(3)), ("kv_complete", &again(5))]);
    let mut guest = start(&bytes).expect("it starts");
    open(&mut *guest).expect("the tag is free");
    let end = kvsim_sim::Call::Complete {
        tag: 77,
        result: Ok(None),
    };
    let mut out = Outbox::new();
    guest.call(1, end, &mut out).expect("the tag is free again");
    assert_eq!(
        out,
        [OutItem::Submit {
            tag: 77,
            op: Op::Flush
        }]
    );
}

/// Goal: texts are UTF-8. Method: a lone byte, as a log line and as a panic's message.
#[test]
fn a_text_that_is_none_is_named() {
    let byte = "(i32.store8 (i32.const 0) (i32.const 0xff))";
    for (import, call) in [
        (
            "log",
            "(call $log (i32.const 3) (i32.const 0) (i32.const 1))",
        ),
        ("panic", "(call $panic (i32.const 0) (i32.const 1))"),
    ] {
        let error = fails(&format!("{byte} {call}"));
        breaks_the_abi(&error, &[import, "not UTF-8"]);
    }
}

/// Goal: imports are for exported calls, not for starting; nothing that was tried there is kept. Method: each import from a start
/// function, also those operations that need no memory.
#[test]
fn an_import_called_while_starting_is_named() {
    for (import, call) in [
        ("disk_submit", submit(1, 1, 0, 0, 512)),
        ("disk_submit", submit(1, 3, 0, 0, 0)),
        ("disk_submit", submit(1, 4, 0, 0, 512)),
        ("disk_submit", submit(1, 5, 4096, 0, 0)),
        (
            "reply",
            "(call $reply (i64.const 0) (i32.const 0) (i32.const 0) (i32.const 0))".to_owned(),
        ),
        (
            "log",
            "(call $log (i32.const 3) (i32.const 0) (i32.const 0))".to_owned(),
        ),
        (
            "panic",
            "(call $panic (i32.const 0) (i32.const 0))".to_owned(),
        ),
    ] {
        let text = format!("(func $start {call}) (start $start)");
        let error = refusal(&module(&[("start", &text)]));
        breaks_the_abi(&error, &[import, "start function"]);
    }
}

/// Goal: `kv_buffer` is an exported call like the others. Method: a log line from within; an answer to what is not asked yet.
#[test]
fn imports_work_from_within_kv_buffer() {
    let log = "(call $log (i32.const 3) (i32.const 0) (i32.const 0))";
    let mut guest = start(&doing("kv_buffer", log)).expect("it starts");
    let (_, out) = open(&mut *guest).expect("it may");
    assert!(matches!(out[..], [OutItem::Log { .. }]), "{out:?}");
    let early = "(call $reply (i64.const 0) (i32.const 0) (i32.const 0) (i32.const 0))";
    let mut guest = start(&doing("kv_buffer", early)).expect("it starts");
    let error = open(&mut *guest).expect_err("it has not been asked");
    breaks_the_abi(&error, &["reply", "request 0 is unknown"]);
}

/// Goal: a payload goes where the guest says, if that is in its memory; no buffer is a lack of memory. Method: the last place at
/// which it fits, the next, some that are not there at all, and 0.
#[test]
fn a_buffer_has_to_be_there() {
    let at = |ptr: i32| {
        let text =
            format!(r#"(func (export "kv_buffer") (param i32) (result i32) i32.const {ptr})"#);
        open(&mut *start(&module(&[("kv_buffer", &text)])).expect("it starts"))
    };
    at(131_072 - 68).expect("68 bytes of an opening without options");
    for ptr in [131_072 - 67, 131_072, -1, -68, i32::MIN] {
        let error = at(ptr).expect_err("it is outside");
        let place = format!("68 bytes at {}", ptr.cast_unsigned());
        breaks_the_abi(&error, &["kv_buffer", &place, "outside its memory"]);
    }
    let error = at(0).expect_err("there is none");
    assert!(matches!(error, GuestError::OutOfMemory { .. }), "{error:?}");
    says(&error, &["no buffer of 68 bytes"]);
}
