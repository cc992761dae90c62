//! Answers that are none: to what was not asked, twice, with a status that there is not, with bodies that are not of the form.

use std::fmt::Write;

use kvsim_sim::api::{Body, Direction, Durability, Reply, Request, Scan, Status};
use kvsim_sim::{Call, Guest, GuestError, OutItem, Outbox};

use crate::{EXPORTS, breaks_the_abi, module, open, start};

fn put() -> Request {
    Request::Put {
        key: b"k".to_vec(),
        value: b"v".to_vec(),
        durability: Durability::Durable,
    }
}

fn get() -> Request {
    Request::Get {
        key: b"k".to_vec(),
        snapshot: 0,
    }
}

fn scan() -> Request {
    Request::Scan(Scan {
        snapshot: 0,
        direction: Direction::Forward,
        start: None,
        end: None,
        limit: 10,
        max_bytes: 1000,
    })
}

/// A guest that, when asked, does this.
fn asked(body: &str, data: &[u8]) -> Box<dyn Guest> {
    let mut text = String::new();
    for byte in data {
        write!(text, "\\{byte:02x}").expect("a string takes all");
    }
    let data = format!(r#"(data (i32.const 4096) "{text}")"#);
    let request = EXPORTS[4]
        .1
        .replace("i64.const -1", &format!("{body} i64.const -1"));
    start(&module(&[("kv_request", &request), ("data", &data)])).expect("it starts")
}

/// A reply to `request`, which is wasm that leaves an i64.
fn reply(request: &str, status: i64, len: usize) -> String {
    format!("(call $reply {request} (i32.const {status}) (i32.const 4096) (i32.const {len}))")
}

fn ask(guest: &mut dyn Guest, id: u64, request: &Request) -> Result<Outbox, GuestError> {
    let mut out = Outbox::new();
    let call = Call::Request { id, request };
    guest.call(0, call, &mut out)?;
    Ok(out)
}

/// The reply of a guest that answers with this status and body.
fn answer(request: &Request, status: i64, body: &[u8]) -> Result<Reply, GuestError> {
    let mut guest = asked(&reply("(local.get 1)", status, body.len()), body);
    match &ask(&mut *guest, 6, request)?[..] {
        [OutItem::Reply(reply)] => Ok(reply.clone()),
        other => panic!("{other:?}"),
    }
}

/// Goal: what is of the form is taken for what it says. Method: each kind of request with the body that it asks for.
#[test]
fn a_reply_of_the_form_is_taken() {
    let entries = b"\x01\0\0\0\x01\0\0\0\x01\0\0\0\x02\0\0\0abb";
    for (request, bytes, body) in [
        (put(), &b""[..], Body::Empty),
        (Request::Sync, b"", Body::Empty),
        (get(), b"\xff\0", Body::Value(vec![0xff, 0])),
        (get(), b"", Body::Value(Vec::new())),
        (
            Request::Snapshot,
            b"\0\x01\0\0\0\0\0\0",
            Body::Snapshot(256),
        ),
        (
            scan(),
            entries,
            Body::Entries {
                entries: vec![(b"a".to_vec(), b"bb".to_vec())],
                more: true,
            },
        ),
    ] {
        let found = answer(&request, 0, bytes).expect("it is of the form");
        let expected = Reply {
            id: 6,
            status: Status::Ok,
            body,
        };
        assert_eq!(found, expected, "{request:?}");
    }
    let found = answer(&get(), 1, b"").expect("it is of the form");
    assert_eq!((found.status, found.body), (Status::NotFound, Body::Empty));
    let found = answer(&put(), 2, "kaputt, für immer".as_bytes()).expect("it is of the form");
    let message = Body::Message("kaputt, für immer".to_owned());
    assert_eq!((found.status, found.body), (Status::Corruption, message));
}

/// Goal: what is not of the form is a breach that names the request and what is wrong. Method: each way in which a body can be wrong.
#[test]
fn a_malformed_body_is_named() {
    let huge = b"\xff\xff\xff\xff\0\0\0\0";
    for (request, bytes, what) in [
        (put(), &b"x"[..], "1 bytes where the reply has none"),
        (Request::Close, b"xy", "2 bytes where the reply has none"),
        (
            Request::Release { snapshot: 1 },
            b"x",
            "where the reply has none",
        ),
        (Request::Snapshot, b"", "8 bytes, not 0"),
        (Request::Snapshot, b"\x01\0\0\0\0\0\0", "8 bytes, not 7"),
        (Request::Snapshot, b"\x01\0\0\0\0\0\0\0\0", "8 bytes, not 9"),
        (Request::Snapshot, &[0; 8], "number 0"),
        (scan(), b"", "ends after 0 of 4 bytes"),
        (scan(), b"\0\0\0\0\0", "ends after 1 of 4 bytes"),
        (scan(), b"\0\0\0\0\x02\0\0\0", "flags"),
        (scan(), b"\0\0\0\0\x01\0\0\x01", "flags"),
        (
            scan(),
            b"\0\0\0\0\0\0\0\0\0",
            "1 bytes after a scan's last entry",
        ),
        (
            scan(),
            b"\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0",
            "ends after 0 of 1 bytes",
        ),
        (
            scan(),
            b"\x01\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xffab",
            "ends after 2 of 4294967295",
        ),
        (scan(), huge, "ends after 0 of 4 bytes"),
    ] {
        let error = answer(&request, 0, bytes).expect_err(what);
        breaks_the_abi(&error, &["reply: request 6: ", what]);
    }
}

/// Goal: a status is one of the eight. Method: the first after them, the last number, a negative one.
#[test]
fn an_unknown_status_is_named() {
    for status in [8, 0x7fff_ffff, -1] {
        let error = answer(&put(), status, b"").expect_err("there is none");
        let number = u32::from_le_bytes(status.to_le_bytes()[..4].try_into().expect("four"));
        breaks_the_abi(&error, &["request 6", &format!("{number} is no status")]);
    }
    for status in 0..8 {
        answer(&put(), status, b"").expect("there is one");
    }
}

/// Goal: a message is UTF-8, whatever the status that it explains. Method: half a character with each.
#[test]
fn a_message_that_is_no_text_is_named() {
    for status in 1..8 {
        let error = answer(&get(), status, b"\xc3").expect_err("half a character");
        breaks_the_abi(&error, &["request 6", "not UTF-8"]);
    }
}

/// Goal: a request is answered once. Method: twice in one call; in a later call; before it is asked; one that never was.
#[test]
fn a_reply_to_what_is_not_open_is_named() {
    let twice = reply("(local.get 1)", 0, 0).repeat(2);
    let error = ask(&mut *asked(&twice, b""), 6, &put()).expect_err("twice");
    breaks_the_abi(
        &error,
        &["reply: request 6 is unknown or was answered before"],
    );

    let first = reply("(i64.const 6)", 0, 0);
    let mut guest = asked(&first, b"");
    ask(&mut *guest, 6, &put()).expect("the first time");
    let error = ask(&mut *guest, 7, &put()).expect_err("the second time");
    breaks_the_abi(&error, &["request 6 is unknown"]);

    let error = ask(&mut *asked(&first, b""), 5, &put()).expect_err("too early");
    breaks_the_abi(&error, &["request 6 is unknown"]);

    let never = reply("(i64.const -1)", 0, 0);
    let error = ask(&mut *asked(&never, b""), 5, &put()).expect_err("never asked");
    breaks_the_abi(&error, &["request 18446744073709551615 is unknown"]);
}

/// Goal: answers may come late and in any order. Method: two requests, each answered in the call for the next.
#[test]
fn a_reply_may_come_in_a_later_call() {
    let late = format!(
        "(if (i64.gt_u (local.get 1) (i64.const 1)) (then {}))",
        reply("(i64.sub (local.get 1) (i64.const 1))", 0, 0)
    );
    let mut guest = asked(&late, b"");
    assert_eq!(ask(&mut *guest, 1, &put()), Ok(Outbox::new()));
    for id in 2..5 {
        let out = ask(&mut *guest, id, &put()).expect("the one before");
        assert!(matches!(&out[..], [OutItem::Reply(reply)] if reply.id == id - 1));
    }
}

/// Goal: the opening is a request like the others. Method: answered twice; with a body that it does not have.
#[test]
fn the_opening_is_answered_once_and_in_form() {
    let opens = |body: &str| {
        let text = EXPORTS[3]
            .1
            .replace("i64.const -1", &format!("{body} i64.const -1"));
        open(&mut *start(&module(&[("kv_open", &text)])).expect("it starts"))
    };
    let zero = "(i64.const 0)";
    let (_, out) = opens(&reply(zero, 0, 0)).expect("once");
    assert!(matches!(&out[..], [OutItem::Reply(reply)] if reply.id == 0));
    let error = opens(&reply(zero, 0, 0).repeat(2)).expect_err("twice");
    breaks_the_abi(&error, &["request 0 is unknown or was answered before"]);
    let error = opens(&reply(zero, 0, 1)).expect_err("with a body");
    breaks_the_abi(&error, &["request 0", "where the reply has none"]);
}
