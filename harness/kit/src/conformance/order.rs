//! Many requests at once, completions in any order, wake-ups, and the same calls twice.

use kvsim_sim::api::{Request, RequestId, Status};
use kvsim_sim::{CommitOrder, ReadsSee};
use kvsim_simdisk::{Device, DeviceConfig, FaultConfig};

use super::rule::{Breach, Outcome, Result, Rule, holds};
use super::session::{
    Look, Order, Session, Subject, batch, delete, expected, get, put, relaxed, scan, snapshot,
};

pub(super) const RULES: [(Rule, Look); 7] = [
    (
        Rule {
            name: "at_once",
            about: "requests that come while others are unanswered are each answered, exactly once",
            help: "keep what waits in a queue of your own; the host hands in requests at any time",
        },
        at_once,
    ),
    (
        Rule {
            name: "arrival_order",
            about: "of two writes of a key that are with the guest at once, the one handed in later wins",
            help: "commit in the order of arrival; or state commit_order=any",
        },
        arrival_order,
    ),
    (
        Rule {
            name: "reads_accepted",
            about: "a read sees every write handed in before it, answered or not",
            help: "apply a write to what reads see when it is handed in; or state reads=committed",
        },
        reads_accepted,
    ),
    (
        Rule {
            name: "completion_order",
            about: "operations may complete in any order, and the answers stay right",
            help: "go by the tag of a completion, never by its turn",
        },
        completion_order,
    ),
    (
        Rule {
            name: "tick",
            about: "kv_tick is called when a wake-up is due, and keeps the rules",
            help: "take a tick as a hint: look at the time, and do what is due",
        },
        ticks,
    ),
    (
        Rule {
            name: "sectors_4096",
            about: "a device with sectors of 4,096 bytes is used in whole sectors",
            help: "take the sector from the opening; pad every offset and length to it",
        },
        large_sectors,
    ),
    (
        Rule {
            name: "determinism",
            about: "the same calls give the same operations, answers, wake-ups and fuel",
            help: "use no address, no uninitialised memory and no order of a hash table in what you do",
        },
        determinism,
    ),
];

fn key(number: u8) -> Vec<u8> {
    vec![b'k', number % 7, number]
}

/// Sends a mix of writes of different keys without waiting for any.
fn send_many(session: &mut Session, count: u8) -> Result<Vec<(Request, RequestId)>> {
    let requests = (0..count).map(|number| match number % 4 {
        0 | 1 => put(&key(number), &[number; 300]),
        2 => relaxed(&key(number), &[number; 3_000]),
        _ => batch(&[(&key(number), Some(&[number; 40])), (b"absent", None)]),
    });
    let sent = requests.map(|request| {
        let id = session.send(&request)?;
        Ok((request, id))
    });
    sent.collect()
}

fn all_ok(session: &mut Session, sent: Vec<(Request, RequestId)>) -> Result<()> {
    session.run_until_idle()?;
    for (request, id) in sent {
        expected(&request, &session.taken(id)?, Status::Ok)?;
    }
    Ok(())
}

fn shows_many(session: &mut Session, count: u8) -> Result<()> {
    for number in 0..count {
        let bytes = match number % 4 {
            0 | 1 => 300,
            2 => 3_000,
            _ => 40,
        };
        session.shows(&key(number), Some(&vec![number; bytes]))?;
    }
    Ok(())
}

fn at_once(subject: &Subject) -> Result<Outcome> {
    let mut session = subject.open()?;
    let sent = send_many(&mut session, 48)?;
    all_ok(&mut session, sent)?;
    shows_many(&mut session, 48)?;
    // And while an opening or a flush is under way.
    let first = session.send(&put(b"a", b"1"))?;
    session.step()?;
    let second = session.send(&delete(b"a"))?;
    let third = session.send(&Request::Sync)?;
    session.run_until_idle()?;
    for id in [first, second, third] {
        expected(&Request::Sync, &session.taken(id)?, Status::Ok)?;
    }
    session.shows(b"a", None)?;
    holds("48 writes without an answer between them")
}

fn arrival_order(subject: &Subject) -> Result<Outcome> {
    if subject.policies().commit_order != CommitOrder::Arrival {
        return Ok(Outcome::NotAsked(
            "the guest states commit_order=any".to_owned(),
        ));
    }
    let mut session = subject.open()?;
    let mut sent = Vec::new();
    for round in 0..10_u8 {
        let requests = [
            put(b"a", &[round]),
            relaxed(b"b", &[round]),
            batch(&[(b"a", Some(b"in a batch")), (b"c", Some(&[round]))]),
            delete(b"b"),
            relaxed(b"a", &[round; 2]),
        ];
        for request in requests {
            let id = session.send(&request)?;
            sent.push((request, id));
        }
    }
    all_ok(&mut session, sent)?;
    session.shows(b"a", Some(&[9; 2]))?;
    session.shows(b"b", None)?;
    session.shows(b"c", Some(&[9]))?;
    let mut session = subject.restart(session, kvsim_simdisk::CrashKind::Process)?;
    session.shows(b"a", Some(&[9; 2]))?;
    session.shows(b"b", None)?;
    holds("50 writes of 3 keys")
}

fn reads_accepted(subject: &Subject) -> Result<Outcome> {
    if subject.policies().reads == ReadsSee::Committed {
        return Ok(Outcome::NotAsked(
            "the guest states reads=committed".to_owned(),
        ));
    }
    let mut session = subject.open()?;
    for round in 0..10_u8 {
        let write = session.send(&put(b"a", &[round; 9]))?;
        let read = session.send(&get(b"a", 0))?;
        let gone = session.send(&delete(b"a"))?;
        let missing = session.send(&get(b"a", 0))?;
        session.run_until_idle()?;
        let request = get(b"a", 0);
        let reply = session.taken(read)?;
        if reply.body != kvsim_sim::api::Body::Value(vec![round; 9]) {
            let came = super::session::answer(&reply);
            return Err(Breach::new(
                "a get right behind a put shows what was put",
                came,
            ));
        }
        expected(&request, &session.taken(missing)?, Status::NotFound)?;
        for id in [write, gone] {
            expected(&request, &session.taken(id)?, Status::Ok)?;
        }
    }
    holds("20 gets right behind a write")
}

fn new_device(config: &DeviceConfig) -> Result<Device> {
    Device::new(config, &FaultConfig::default(), 1)
        .map_err(|error| Breach::new("a device", error.to_string()))
}

fn completion_order(subject: &Subject) -> Result<Outcome> {
    let orders = [
        Order::First,
        Order::Last,
        Order::Mixed(1),
        Order::Mixed(2),
        Order::Mixed(3),
    ];
    for order in orders {
        let mut session = subject.start_with(new_device(&subject.device())?, order)?;
        session.opened()?;
        let mut sent = send_many(&mut session, 40)?;
        // Some complete before the next come.
        for _ in 0..3 {
            session.step()?;
        }
        let more = [
            put(b"a", b"1"),
            Request::Sync,
            relaxed(b"b", b"2"),
            Request::Sync,
        ];
        for request in more {
            let id = session.send(&request)?;
            sent.push((request, id));
        }
        all_ok(&mut session, sent)?;
        shows_many(&mut session, 40)?;
        let mut session = subject.restart(session, kvsim_simdisk::CrashKind::Process)?;
        shows_many(&mut session, 40)?;
    }
    holds("first, last and mixed, 44 requests each")
}

fn ticks(subject: &Subject) -> Result<Outcome> {
    let mut session = subject.open()?;
    let sent = send_many(&mut session, 12)?;
    all_ok(&mut session, sent)?;
    // What the guest still does in the background, with its wake-ups, for a while.
    for _ in 0..200 {
        if !session.step()? {
            break;
        }
    }
    shows_many(&mut session, 12)?;
    session.ok(&Request::Sync)?;
    holds(match session.ticks {
        0 => "it never asks for one".to_owned(),
        ticks => format!("{ticks} ticks"),
    })
}

fn large_sectors(subject: &Subject) -> Result<Outcome> {
    let device = DeviceConfig {
        sector_bytes: 4_096,
        ..subject.device()
    };
    let mut session = subject.open_on(&device)?;
    let sent = send_many(&mut session, 24)?;
    all_ok(&mut session, sent)?;
    let mut session = subject.restart(session, kvsim_simdisk::CrashKind::Process)?;
    shows_many(&mut session, 24)?;
    holds("24 writes and another opening")
}

fn script(subject: &Subject) -> Result<(u64, usize)> {
    let mut session = subject.start_with(new_device(&subject.device())?, Order::Mixed(9))?;
    session.opened()?;
    let sent = send_many(&mut session, 30)?;
    all_ok(&mut session, sent)?;
    let number = snapshot(&mut session)?;
    session.ok(&delete(&key(0)))?;
    session.ok(&Request::Scan(scan()))?;
    session.ok(&get(&key(0), number))?;
    session.ok(&Request::Release { snapshot: number })?;
    session.ok(&Request::Sync)?;
    let before = session.transcript();
    let mut session = subject.restart(session, kvsim_simdisk::CrashKind::Process)?;
    session.ok(&Request::Scan(scan()))?;
    session.ok(&Request::Close)?;
    let after = session.transcript();
    Ok((before.0 ^ after.0.rotate_left(1), before.1 + after.1))
}

fn determinism(subject: &Subject) -> Result<Outcome> {
    let (one, other) = (script(subject)?, script(subject)?);
    match one == other {
        true => holds(format!("{} calls, twice", one.1)),
        false => Err(Breach::new(
            "two fresh instances do the same when they are called in the same way",
            format!(
                "{} calls and {} calls, with other operations, answers, wake-ups or fuel",
                one.1, other.1
            ),
        )),
    }
}
