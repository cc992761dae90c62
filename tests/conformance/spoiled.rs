//! A good guest, spoiled in one way between it and the host: one for each rule that no defect of the naive guest breaks.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use kvsim_harness::conformance::check_running;
use kvsim_sim::api::{Body, Durability, Reply, Request, RequestId, Status};
use kvsim_sim::{
    Call, CallEnd, Guest, GuestError, GuestHash, GuestLimits, GuestPolicies, OutItem, Outbox,
    Program, WasmProgram,
};
use kvsim_simdisk::{Nanos, Op};
use kvsim_tests::naive_guest;

use crate::{broken, options};

/// What a spoiled guest remembers.
#[derive(Default)]
struct Memory {
    /// The requests that were handed in.
    asked: BTreeMap<RequestId, Request>,
    calls: u64,
    failed: bool,
}

/// Changes what a call has let out.
type Spoil = fn(&mut Memory, &Event, &mut Outbox, &mut CallEnd) -> Result<(), GuestError>;

/// What a call was about.
enum Event {
    Open,
    Request,
    Complete(bool),
    Tick,
}

struct Spoiled {
    inner: Arc<WasmProgram>,
    spoil: Spoil,
    policies: GuestPolicies,
}

struct SpoiledGuest {
    inner: Box<dyn Guest>,
    spoil: Spoil,
    memory: Memory,
}

impl Program for Spoiled {
    fn name(&self) -> &str {
        "spoiled"
    }
    fn hash(&self) -> GuestHash {
        self.inner.hash()
    }
    fn file(&self) -> Option<&Path> {
        None
    }
    fn policies(&self) -> GuestPolicies {
        self.policies
    }
    fn start(&self, limits: &GuestLimits) -> Result<Box<dyn Guest>, GuestError> {
        Ok(Box::new(SpoiledGuest {
            inner: self.inner.start(limits)?,
            spoil: self.spoil,
            memory: Memory::default(),
        }))
    }
}

impl Guest for SpoiledGuest {
    fn call(
        &mut self,
        now: Nanos,
        call: Call<'_>,
        out: &mut Outbox,
    ) -> Result<CallEnd, GuestError> {
        let event = match &call {
            Call::Open(_) => Event::Open,
            Call::Request { id, request } => {
                self.memory.asked.insert(*id, (*request).clone());
                Event::Request
            }
            Call::Complete { result, .. } => Event::Complete(result.is_ok()),
            Call::Tick => Event::Tick,
        };
        self.memory.calls += 1;
        // The naive guest takes a tick at any time.
        let mut end = self.inner.call(now, call, out)?;
        (self.spoil)(&mut self.memory, &event, out, &mut end)?;
        Ok(end)
    }
}

/// The rules that a naive guest breaks which is spoiled so.
fn breaks(policies: &str, spoil: Spoil) -> Vec<&'static str> {
    let inner = WasmProgram::from_file(naive_guest()).expect("it loads");
    let mut stated = inner.policies();
    for line in policies.lines() {
        let (name, value) = line.split_once('=').expect("name=value");
        stated.set(name, value).expect("a policy");
    }
    let program = Arc::new(Spoiled {
        inner,
        spoil,
        policies: stated,
    });
    broken(&check_running(program, &options(&[])))
}

fn replies(out: &mut Outbox) -> impl Iterator<Item = &mut Reply> {
    out.iter_mut().filter_map(|item| match item {
        OutItem::Reply(reply) => Some(reply),
        _ => None,
    })
}

/// Changes the answers to some requests.
fn answer(memory: &Memory, out: &mut Outbox, change: impl Fn(&Request, &mut Reply)) {
    for reply in replies(out) {
        if let Some(request) = memory.asked.get(&reply.id) {
            change(request, reply);
        }
    }
}

#[track_caller]
fn breaks_rule(rule: &str, spoil: Spoil) {
    let broken = breaks("", spoil);
    assert!(broken.contains(&rule), "{rule}: broken are {broken:?}");
}

/// Goal: the spoiling itself breaks nothing.
#[test]
fn an_unspoiled_guest_keeps_all_rules() {
    assert_eq!(breaks("", |_, _, _, _| Ok(())), [""; 0]);
}

#[test]
fn answers_that_are_wrong_break_the_rule_of_their_request() {
    breaks_rule("unknown_option", |_, _, out, _| {
        replies(out)
            .filter(|reply| reply.id == 0 && reply.status == Status::Invalid)
            .for_each(|reply| reply.body = Body::Empty);
        Ok(())
    });
    breaks_rule("delete", |memory, _, out, _| {
        answer(memory, out, |request, reply| {
            if matches!(request, Request::Delete { key, .. } if key == b"never") {
                reply.status = Status::NotFound;
            }
        });
        Ok(())
    });
    breaks_rule("batch", |memory, _, out, _| {
        answer(memory, out, |request, reply| {
            if matches!(request, Request::Get { key, .. } if key == b"twice") {
                reply.body = Body::Value(b"first".to_vec());
            }
        });
        Ok(())
    });
    for (rule, spoil) in [
        ("scan_reverse", spoil_reverse as Spoil),
        ("scan_bounds", spoil_bounds),
        ("scan_backwards", spoil_backwards),
        ("scan_limit_zero", spoil_limit),
    ] {
        breaks_rule(rule, spoil);
    }
    breaks_rule("relaxed", |memory, _, out, _| {
        answer(memory, out, |request, reply| {
            let relaxed = matches!(
                request,
                Request::Put {
                    durability: Durability::Relaxed,
                    ..
                }
            );
            if relaxed && reply.status == Status::Ok {
                reply.status = Status::Closed;
            }
        });
        Ok(())
    });
    breaks_rule("sync", |memory, _, out, _| {
        let first = memory.asked.len() == 1;
        answer(memory, out, |request, reply| {
            if first && *request == Request::Sync {
                reply.status = Status::ReadOnly;
            }
        });
        Ok(())
    });
    breaks_rule("limits", |memory, _, out, _| {
        answer(memory, out, |request, reply| {
            if matches!(request, Request::Put { value, .. } if value.len() > 60_000) {
                reply.status = Status::Invalid;
            }
        });
        Ok(())
    });
}

fn entries(
    memory: &Memory,
    out: &mut Outbox,
    change: impl Fn(&kvsim_sim::api::Scan, &mut Vec<(Vec<u8>, Vec<u8>)>),
) {
    answer(memory, out, |request, reply| {
        if let (Request::Scan(scan), Body::Entries { entries, .. }) = (request, &mut reply.body) {
            change(scan, entries);
        }
    });
}

fn spoil_reverse(
    memory: &mut Memory,
    _: &Event,
    out: &mut Outbox,
    _: &mut CallEnd,
) -> Result<(), GuestError> {
    entries(memory, out, |scan, entries| {
        if scan.direction == kvsim_sim::api::Direction::Reverse {
            entries.reverse();
        }
    });
    Ok(())
}

fn spoil_bounds(
    memory: &mut Memory,
    _: &Event,
    out: &mut Outbox,
    _: &mut CallEnd,
) -> Result<(), GuestError> {
    entries(memory, out, |scan, entries| {
        if scan.end.is_none() {
            entries.retain(|(key, _)| Some(key) != scan.start.as_ref());
        }
    });
    Ok(())
}

fn spoil_backwards(
    memory: &mut Memory,
    _: &Event,
    out: &mut Outbox,
    _: &mut CallEnd,
) -> Result<(), GuestError> {
    answer(memory, out, |request, reply| {
        if matches!(request, Request::Scan(scan) if scan.start >= scan.end && scan.end.is_some()) {
            reply.status = Status::Invalid;
        }
    });
    Ok(())
}

fn spoil_limit(
    memory: &mut Memory,
    _: &Event,
    out: &mut Outbox,
    _: &mut CallEnd,
) -> Result<(), GuestError> {
    entries(memory, out, |scan, entries| {
        if scan.limit == 0 {
            entries.clear();
        }
    });
    Ok(())
}

#[test]
fn ill_formed_requests_that_are_taken_break_their_rules() {
    breaks_rule("no_snapshot", |memory, _, out, _| {
        answer(memory, out, |request, reply| {
            if matches!(request, Request::Release { .. }) {
                reply.status = Status::Ok;
                reply.body = Body::Empty;
            }
        });
        Ok(())
    });
    breaks_rule("empty_batch", |memory, _, out, _| {
        answer(memory, out, |request, reply| {
            if matches!(request, Request::Batch { mutations, .. } if mutations.is_empty()) {
                reply.status = Status::Invalid;
            }
        });
        Ok(())
    });
    breaks_rule("empty_get", |memory, _, out, _| {
        answer(memory, out, |request, reply| {
            if matches!(request, Request::Get { key, .. } if key.is_empty()) {
                reply.status = Status::Ok;
                reply.body = Body::Value(Vec::new());
            }
        });
        Ok(())
    });
    breaks_rule("long_key", |memory, _, out, _| {
        answer(memory, out, |request, reply| {
            if matches!(request, Request::Put { key, .. } if key.len() == 1_024) {
                reply.status = Status::Invalid;
            }
        });
        Ok(())
    });
    // The naive guest takes longer values than this policy says.
    let broken = breaks("max_value_bytes=1000", |_, _, _, _| Ok(()));
    assert_eq!(broken, ["long_value"]);
}

#[test]
fn a_guest_that_loses_its_way_breaks_a_rule_of_order() {
    breaks_rule("at_once", |memory, _, out, _| {
        // While others wait, the fourth is forgotten.
        out.retain(|item| !matches!(item, OutItem::Reply(reply) if reply.id == 4 && memory.asked.len() > 40));
        Ok(())
    });
    breaks_rule("completion_order", |memory, event, out, _| {
        // After so many requests the answers that a completion brings are forgotten.
        if matches!(event, Event::Complete(_)) && memory.asked.len() > 43 {
            out.retain(|item| !matches!(item, OutItem::Reply(_)));
        }
        Ok(())
    });
    breaks_rule("tick", |_, event, _, end| {
        end.wake_at = Some(1);
        match event {
            Event::Tick => Err(GuestError::Panic {
                message: "a tick that was not expected".to_owned(),
                stack: kvsim_sim::Stack::default(),
            }),
            _ => Ok(()),
        }
    });
    breaks_rule("sectors_4096", |_, _, out, _| {
        // As if the sector had 512 bytes: one write more, in the middle of the device.
        if let Some(OutItem::Submit {
            tag,
            op: Op::Write { offset, .. },
        }) = out.first()
        {
            let data = Arc::from(&[0; 512][..]);
            let op = Op::Write {
                offset: *offset,
                data,
                through: false,
            };
            let again = OutItem::Submit { tag: *tag, op };
            out[0] = again;
        }
        Ok(())
    });
    breaks_rule("determinism", |memory, _, _, end| {
        use std::sync::atomic::{AtomicU64, Ordering};
        static CALLS: AtomicU64 = AtomicU64::new(0);
        memory.calls += CALLS.fetch_add(1, Ordering::Relaxed);
        end.fuel += memory.calls;
        Ok(())
    });
}

#[test]
fn answers_that_promise_too_much_break_a_rule_of_durability() {
    breaks_rule("durable_sync", |memory, _, out, _| {
        spoil_flushes(memory, out, false)
    });
    breaks_rule("durable_close", |memory, _, out, _| {
        spoil_flushes(memory, out, true)
    });
    breaks_rule("after_close", |memory, _, out, _| {
        answer(memory, out, |request, reply| {
            if reply.status == Status::Closed && matches!(request, Request::Get { .. }) {
                reply.status = Status::NotFound;
            }
        });
        Ok(())
    });
}

/// Of a process run that has only relaxed writes no flush reaches the device; a growth to nothing stands in for it. `closes`: those that a close ends, else those of a sync.
fn spoil_flushes(memory: &Memory, out: &mut Outbox, closes: bool) -> Result<(), GuestError> {
    let only_relaxed = memory.asked.values().all(|request| match request {
        Request::Put { durability, .. } => *durability == Durability::Relaxed,
        Request::Sync => !closes,
        Request::Close => closes,
        _ => false,
    });
    if only_relaxed && !memory.asked.is_empty() {
        for item in out.iter_mut() {
            if let OutItem::Submit { op, .. } = item
                && *op == Op::Flush
            {
                *op = Op::Grow { new_bytes: 0 };
            }
        }
    }
    Ok(())
}

#[test]
fn answers_that_hide_an_error_break_a_rule_of_errors() {
    fn hides(
        memory: &mut Memory,
        event: &Event,
        out: &mut Outbox,
        _: &mut CallEnd,
    ) -> Result<(), GuestError> {
        memory.failed |= matches!(event, Event::Complete(false));
        let failed = memory.failed;
        for reply in replies(out) {
            if failed && reply.status != Status::Ok && reply.status != Status::NotFound {
                (reply.status, reply.body) = (Status::Ok, Body::Empty);
            }
        }
        Ok(())
    }
    let broken = breaks("", hides);
    for rule in ["write_error", "flush_error", "no_space_error", "read_error"] {
        assert!(broken.contains(&rule), "{rule}: broken are {broken:?}");
    }
    breaks_rule("open_error", |memory, event, out, _| {
        // An opening that fails writes over what it could not read.
        memory.failed |= matches!(event, Event::Complete(false));
        if memory.failed && memory.asked.is_empty() {
            let blank = Op::Write {
                offset: 0,
                data: Arc::from(vec![0; 4 << 20]),
                through: false,
            };
            out.push(OutItem::Submit {
                tag: u64::MAX,
                op: blank,
            });
            memory.failed = false;
        }
        Ok(())
    });
}
