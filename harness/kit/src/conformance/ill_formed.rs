//! Requests that are ill formed, and those at the edge: each with the answer that the ABI page states.

use kvsim_sim::api::{Durability, Request, Scan, Status};

use super::rule::{Breach, Outcome, Result, Rule, holds};
use super::session::{
    Look, Subject, answer, batch, delete, get, put, relaxed, scan, snapshot, words,
};

/// No guest has given this number.
const NO_SNAPSHOT: u64 = 1 << 40;
/// A longer key or value is not made to be refused.
const LONG_BYTES_MAX: u64 = 16 << 20;

pub(super) const RULES: [(Rule, Look); 9] = [
    (
        Rule {
            name: "empty_key",
            about: "a put or delete of an empty key is answered Invalid",
            help: "check the length of each key before anything is written",
        },
        empty_key,
    ),
    (
        Rule {
            name: "long_key",
            about: "a key longer than max_key_bytes is answered Invalid, and one of that length is taken",
            help: "refuse what is longer, and nothing else; or state another max_key_bytes",
        },
        long_key,
    ),
    (
        Rule {
            name: "long_value",
            about: "a value longer than max_value_bytes is answered Invalid, and one of that length is taken, up to 65,536 bytes",
            help: "refuse what is longer; or state another max_value_bytes",
        },
        long_value,
    ),
    (
        Rule {
            name: "bad_batch",
            about: "a batch with one ill-formed member is answered Invalid, and nothing of it is written",
            help: "check all members first, and apply them then",
        },
        bad_batch,
    ),
    (
        Rule {
            name: "no_snapshot",
            about: "a get, scan or release of a snapshot that there is not, or not any more, is answered Invalid",
            help: "look the number up; 0 is the latest state for reads, and nothing that can be released",
        },
        no_snapshot,
    ),
    (
        Rule {
            name: "empty_batch",
            about: "an empty batch is answered Ok, durable and relaxed",
            help: "a batch of no mutations is a commit like others",
        },
        empty_batch,
    ),
    (
        Rule {
            name: "empty_get",
            about: "a get of an empty key is answered NotFound or Invalid",
            help: "no such key can be there",
        },
        empty_get,
    ),
    (
        Rule {
            name: "scan_limit_zero",
            about: "a scan with the limit 0 is answered as one with the limit 1",
            help: "take the larger of the limit and 1",
        },
        scan_limit_zero,
    ),
    (
        Rule {
            name: "scan_backwards",
            about: "a scan whose start is not before its end is answered Ok, with no entries and no more",
            help: "check the bounds before a range of your map does",
        },
        scan_backwards,
    ),
];

/// A key, and its value unless it is deleted.
type Member<'a> = (&'a [u8], Option<&'a [u8]>);

fn empty_key(subject: &Subject) -> Result<Outcome> {
    let mut session = subject.open()?;
    session.ok(&put(b"a", b"1"))?;
    session.expect(&put(b"", b"value"), Status::Invalid)?;
    session.expect(&relaxed(b"", b"value"), Status::Invalid)?;
    session.expect(&delete(b""), Status::Invalid)?;
    session.scans(&scan(), &[(b"a".to_vec(), b"1".to_vec())], false)?;
    holds("2 puts and a delete")
}

/// The limit that the guest states under this name, if one can be tried.
fn stated(subject: &Subject, name: &str) -> std::result::Result<usize, Outcome> {
    let option = subject.options.get(name).map(String::as_str);
    match subject.policies().number(name, option) {
        None => Err(Outcome::NotAsked(format!("the guest states no {name}"))),
        Some(bytes) if bytes > LONG_BYTES_MAX => Err(Outcome::NotAsked(format!(
            "{name} is {bytes}: too long to be tried"
        ))),
        Some(bytes) => Ok(usize::try_from(bytes).unwrap_or(0)),
    }
}

fn long_key(subject: &Subject) -> Result<Outcome> {
    let most = match stated(subject, "max_key_bytes") {
        Ok(most) => most,
        Err(outcome) => return Ok(outcome),
    };
    let mut session = subject.open()?;
    session.expect(&put(&vec![b'k'; most + 1], b"value"), Status::Invalid)?;
    session.expect(&delete(&vec![b'k'; most + 1]), Status::Invalid)?;
    session.scans(&scan(), &[], false)?;
    session.ok(&put(&vec![b'k'; most], b"value"))?;
    session.shows(&vec![b'k'; most], Some(b"value"))?;
    holds(format!("{most} bytes"))
}

fn long_value(subject: &Subject) -> Result<Outcome> {
    let most = match stated(subject, "max_value_bytes") {
        Ok(most) => most,
        Err(outcome) => return Ok(outcome),
    };
    let mut session = subject.open()?;
    session.expect(&put(b"k", &vec![1; most + 1]), Status::Invalid)?;
    session.shows(b"k", None)?;
    // What is longer than a guest has to take may be refused below its limit too.
    if most as u64 <= kvsim_api::limits::VALUE_BYTES_SURE {
        session.ok(&put(b"k", &vec![2; most]))?;
        session.shows(b"k", Some(&vec![2; most]))?;
    }
    holds(format!("{most} bytes"))
}

fn bad_batch(subject: &Subject) -> Result<Outcome> {
    let mut session = subject.open()?;
    session.ok(&put(b"a", b"1"))?;
    let bad: [&[Member<'_>]; 3] = [
        &[(b"a", Some(b"2")), (b"", Some(b"2"))],
        &[(b"", None), (b"a", Some(b"2"))],
        &[
            (b"a", None),
            (b"b", Some(b"2")),
            (b"", Some(b"2")),
            (b"c", Some(b"2")),
        ],
    ];
    for members in bad {
        session.expect(&batch(members), Status::Invalid)?;
    }
    let due = [(b"a".to_vec(), b"1".to_vec())];
    session.scans(&scan(), &due, false)?;
    let mut session = subject.restart(session, kvsim_simdisk::CrashKind::Process)?;
    session.scans(&scan(), &due, false)?;
    holds("3 batches, and the state after another opening")
}

fn no_snapshot(subject: &Subject) -> Result<Outcome> {
    let mut session = subject.open()?;
    session.ok(&put(b"a", b"1"))?;
    let released = snapshot(&mut session)?;
    let kept = snapshot(&mut session)?;
    session.ok(&Request::Release { snapshot: released })?;
    for snapshot in [NO_SNAPSHOT, released] {
        session.expect(&get(b"a", snapshot), Status::Invalid)?;
        session.expect(&Request::Scan(Scan { snapshot, ..scan() }), Status::Invalid)?;
        session.expect(&Request::Release { snapshot }, Status::Invalid)?;
    }
    session.expect(&Request::Release { snapshot: 0 }, Status::Invalid)?;
    session.shows_at(kept, b"a", Some(b"1"))?;
    let mut session = subject.restart(session, kvsim_simdisk::CrashKind::Process)?;
    session.expect(&get(b"a", kept), Status::Invalid)?;
    holds("one never given, one released, one of the process run before, and 0")
}

fn empty_batch(subject: &Subject) -> Result<Outcome> {
    let mut session = subject.open()?;
    for durability in [Durability::Durable, Durability::Relaxed] {
        let mutations = Vec::new();
        session.ok(&Request::Batch {
            mutations,
            durability,
        })?;
    }
    session.scans(&scan(), &[], false)?;
    holds("one durable, one relaxed")
}

fn empty_get(subject: &Subject) -> Result<Outcome> {
    let mut session = subject.open()?;
    session.ok(&put(b"a", b"1"))?;
    let request = get(b"", 0);
    let reply = session.ask(&request)?;
    match reply.status {
        Status::NotFound | Status::Invalid => holds(format!("{:?}", reply.status)),
        _ => Err(Breach::new(
            format!("{}: NotFound or Invalid", words(&request)),
            answer(&reply),
        )),
    }
}

fn scan_limit_zero(subject: &Subject) -> Result<Outcome> {
    let mut session = subject.open()?;
    let none = Scan { limit: 0, ..scan() };
    session.scans(&none, &[], false)?;
    session.ok(&put(b"a", b"1"))?;
    session.scans(&none, &[(b"a".to_vec(), b"1".to_vec())], false)?;
    session.ok(&put(b"b", b"2"))?;
    session.scans(&none, &[(b"a".to_vec(), b"1".to_vec())], true)?;
    holds("of none, one and two entries")
}

fn scan_backwards(subject: &Subject) -> Result<Outcome> {
    let mut session = subject.open()?;
    for key in [b"a", b"b", b"c"] {
        session.ok(&put(key, b"1"))?;
    }
    for (start, end) in [(&b"c"[..], &b"a"[..]), (b"b", b"b"), (b"b", b"")] {
        for direction in [
            kvsim_sim::api::Direction::Forward,
            kvsim_sim::api::Direction::Reverse,
        ] {
            let (start, end) = (Some(start.to_vec()), Some(end.to_vec()));
            session.scans(
                &Scan {
                    start,
                    end,
                    direction,
                    ..scan()
                },
                &[],
                false,
            )?;
        }
    }
    holds("3 ranges, in both directions")
}
