//! Openings, closes and restarts; what an answer is worth; what a guest says when its device fails.

use kvsim_sim::api::{Durability, Request, Scan, Status};
use kvsim_simdisk::{CrashKind, DiskError};

use super::rule::{Breach, Outcome, Result, Rule, holds};
use super::session::{
    CAPACITY_BYTES, Look, Session, Subject, answer, delete, get, put, relaxed, scan, snapshot,
    words,
};

/// A name that no guest has for an option.
const NO_OPTION: &str = "no_such_option_of_any_guest";

pub(super) const OPENING: [(Rule, Look); 2] = [
    (
        Rule {
            name: "open_blank",
            about: "the opening of a blank device of 4 MiB is answered Ok, by a reply to request 0",
            help: "reply(0, Ok) when the guest is ready; have an operation in flight or a next wake-up until then",
        },
        open_blank,
    ),
    (
        Rule {
            name: "unknown_option",
            about: "an option that the guest does not know is answered Invalid, with its name",
            help: "go through the lines name=value of the opening, and refuse what is none of yours",
        },
        unknown_option,
    ),
];

pub(super) const RULES: [(Rule, Look); 13] = [
    (
        Rule {
            name: "durable_put",
            about: "a durable write is answered Ok only when it is durable: a power cut that loses all else leaves it",
            help: "write, wait for the completion, flush, wait for that completion, and answer then",
        },
        durable_put,
    ),
    (
        Rule {
            name: "durable_sync",
            about: "a sync is answered Ok only when every write answered before it is durable",
            help: "write what waits, flush after its completion, and answer then",
        },
        durable_sync,
    ),
    (
        Rule {
            name: "durable_close",
            about: "a close is answered Ok only when every write answered before it is durable",
            help: "a close is a sync that ends the process run",
        },
        durable_close,
    ),
    (
        Rule {
            name: "empty_commit_covers",
            about: "a durable write that changes nothing makes the relaxed writes before it durable",
            help: "let it flush as any other; or state empty_commit_covers=false",
        },
        empty_commit_covers,
    ),
    (
        Rule {
            name: "relaxed_survives_kill",
            about: "a relaxed write that was answered Ok is with the device: a killed process loses nothing of it",
            help: "answer when the write has been submitted; or state relaxed_survives_kill=false",
        },
        relaxed_survives_kill,
    ),
    (
        Rule {
            name: "reopen",
            about: "a fresh instance finds what was there, once and again",
            help: "read the log to its end, and to the same end every time",
        },
        reopen,
    ),
    (
        Rule {
            name: "after_close",
            about: "after a close was handed in, every request is answered Closed",
            help: "keep a flag; a closed database answers, it does not stay silent",
        },
        after_close,
    ),
    (
        Rule {
            name: "write_error",
            about: "when every write of the device fails, a durable write is answered IoError, ReadOnly or NoSpace, and reads go on",
            help: "answer all that waits, take no further write, and keep what reads see",
        },
        write_error,
    ),
    (
        Rule {
            name: "flush_error",
            about: "when every flush of the device fails, a durable write, a sync and a close are not answered Ok",
            help: "never answer Ok after a failed flush, and never flush again to make up for it",
        },
        flush_error,
    ),
    (
        Rule {
            name: "no_space_error",
            about: "when the device has no space for a write, it is answered NoSpace, IoError or ReadOnly",
            help: "status 4 of a completion is a failure like others",
        },
        no_space_error,
    ),
    (
        Rule {
            name: "read_error",
            about: "an opening whose reads fail is answered IoError, not Ok and not Corruption",
            help: "an error of the device is no damage; the next opening may do better",
        },
        read_error,
    ),
    (
        Rule {
            name: "open_error",
            about: "after such an opening a fresh instance finds everything",
            help: "write nothing before you know what is there",
        },
        open_after_error,
    ),
    (
        Rule {
            name: "space",
            about: "the space of what is overwritten, deleted or held by a released snapshot becomes usable again",
            help: "begin a new log from what is live before the old one is full",
        },
        space,
    ),
];

fn open_blank(subject: &Subject) -> Result<Outcome> {
    subject.open()?;
    holds("")
}

fn unknown_option(subject: &Subject) -> Result<Outcome> {
    let mut options = subject.options.clone();
    options.insert(NO_OPTION.to_owned(), "1".to_owned());
    let other = Subject::new(subject.program.clone(), options);
    let reply = other.start(&other.device())?.opening()?;
    let due = format!("Invalid, with a message that names `{NO_OPTION}`");
    match reply.status {
        Status::Invalid if answer(&reply).contains(NO_OPTION) => holds(""),
        _ => Err(Breach::new(due, answer(&reply))),
    }
}

fn durable_put(subject: &Subject) -> Result<Outcome> {
    let mut session = subject.open()?;
    session.ok(&put(b"a", b"1"))?;
    let mut session = subject.restart(session, CrashKind::Power)?;
    session.shows(b"a", Some(b"1"))?;
    session.ok(&put(b"b", &[2; 9_000]))?;
    session.ok(&delete(b"a"))?;
    session.ok(&super::session::batch(&[
        (b"c", Some(b"3")),
        (b"d", Some(b"4")),
    ]))?;
    let mut session = subject.restart(session, CrashKind::Power)?;
    session.shows(b"a", None)?;
    session.shows(b"b", Some(&[2; 9_000]))?;
    session.shows(b"c", Some(b"3"))?;
    session.shows(b"d", Some(b"4"))?;
    holds("2 puts, a delete and a batch")
}

fn durable_sync(subject: &Subject) -> Result<Outcome> {
    let mut session = subject.open()?;
    for round in 0..5_u8 {
        session.ok(&relaxed(&[b'k', round], &[round; 700]))?;
    }
    session.ok(&Request::Sync)?;
    let mut session = subject.restart(session, CrashKind::Power)?;
    for round in 0..5_u8 {
        session.shows(&[b'k', round], Some(&[round; 700]))?;
    }
    holds("5 relaxed writes")
}

fn durable_close(subject: &Subject) -> Result<Outcome> {
    let mut session = subject.open()?;
    for round in 0..5_u8 {
        session.ok(&relaxed(&[b'k', round], &[round; 700]))?;
    }
    session.ok(&Request::Close)?;
    let mut session = subject.restart(session, CrashKind::Power)?;
    for round in 0..5_u8 {
        session.shows(&[b'k', round], Some(&[round; 700]))?;
    }
    session.ok(&put(b"after", b"the close"))?;
    holds("5 relaxed writes")
}

fn empty_commit_covers(subject: &Subject) -> Result<Outcome> {
    if !subject.policies().empty_commit_covers {
        return Ok(Outcome::NotAsked(
            "the guest states empty_commit_covers=false".to_owned(),
        ));
    }
    let mutations = Vec::new();
    let durability = Durability::Durable;
    for empty in [
        Request::Batch {
            mutations,
            durability,
        },
        delete(b"never there"),
    ] {
        let mut session = subject.open()?;
        session.ok(&relaxed(b"a", b"1"))?;
        session.ok(&empty)?;
        subject
            .restart(session, CrashKind::Power)?
            .shows(b"a", Some(b"1"))?;
    }
    holds("an empty batch, and a delete of what is not there")
}

fn relaxed_survives_kill(subject: &Subject) -> Result<Outcome> {
    if !subject.policies().relaxed_survives_kill {
        return Ok(Outcome::NotAsked(
            "the guest states relaxed_survives_kill=false".to_owned(),
        ));
    }
    let mut session = subject.open()?;
    for round in 0..5_u8 {
        session.ok(&relaxed(b"a", &[round; 30]))?;
    }
    subject
        .restart(session, CrashKind::Process)?
        .shows(b"a", Some(&[4; 30]))?;
    holds("5 relaxed writes of a key")
}

fn reopen(subject: &Subject) -> Result<Outcome> {
    let mut session = subject.open()?;
    let mut due = Vec::new();
    for round in 0..60_u8 {
        let key = vec![b'k', round % 20];
        session.ok(&put(&key, &[round; 100]))?;
        if round >= 40 {
            due.push((key, vec![round; 100]));
        }
    }
    for round in 0..4 {
        let kind = [CrashKind::Process, CrashKind::Power][round % 2];
        if round == 2 {
            session.ok(&Request::Close)?;
        }
        session = subject.restart(session, kind)?;
        session.scans(&scan(), &due, false)?;
    }
    holds("4 openings, one of them after a close")
}

fn after_close(subject: &Subject) -> Result<Outcome> {
    let mut session = subject.open()?;
    session.ok(&put(b"a", b"1"))?;
    let snapshot = snapshot(&mut session)?;
    let close = session.send(&Request::Close)?;
    let late = session.send(&put(b"a", b"2"))?;
    session.run_until_idle()?;
    super::session::expected(&Request::Close, &session.taken(close)?, Status::Ok)?;
    super::session::expected(&put(b"a", b"2"), &session.taken(late)?, Status::Closed)?;
    for request in [
        put(b"a", b"3"),
        relaxed(b"a", b"3"),
        delete(b"a"),
        get(b"a", 0),
        get(b"a", snapshot),
        Request::Scan(scan()),
        Request::Snapshot,
        Request::Release { snapshot },
        Request::Sync,
        Request::Close,
    ] {
        session.expect(&request, Status::Closed)?;
    }
    subject
        .restart(session, CrashKind::Process)?
        .shows(b"a", Some(b"1"))?;
    holds("11 requests of every kind")
}

/// A session whose device fails from now on, with something durable in it.
fn failing(subject: &Subject, kind: DiskError, error: DiskError) -> Result<Session> {
    let mut session = subject.open()?;
    session.ok(&put(b"a", b"1"))?;
    session.fails = Some((kind, error));
    Ok(session)
}

/// The answer has to be an error that the failure explains.
fn refused(session: &mut Session, request: &Request) -> Result<Status> {
    let before = session.failed;
    let reply = session.ask(request)?;
    let explained = matches!(
        reply.status,
        Status::IoError | Status::ReadOnly | Status::NoSpace
    );
    if explained && (session.failed > before || before > 0) {
        return Ok(reply.status);
    }
    Err(Breach::new(
        format!("{}: IoError, ReadOnly or NoSpace", words(request)),
        answer(&reply),
    ))
}

/// What holds after any failure: the first write is refused, reads go on, a sync and a close are answered, and the next
/// opening finds what was durable.
fn fails(subject: &Subject, kind: DiskError, error: DiskError) -> Result<Outcome> {
    let mut session = failing(subject, kind, error)?;
    let first = refused(&mut session, &put(b"b", b"2"))?;
    session.shows(b"a", Some(b"1"))?;
    let second = refused(&mut session, &put(b"c", b"3"))?;
    let sync = session.ask(&Request::Sync)?;
    let close = session.ask(&Request::Close)?;
    for (request, reply) in [(Request::Sync, &sync), (Request::Close, &close)] {
        let explained = matches!(
            reply.status,
            Status::Ok | Status::IoError | Status::ReadOnly | Status::NoSpace
        );
        // What was answered Ok before is durable already, so Ok is right too.
        if !explained {
            return Err(Breach::new(
                format!("{}: Ok, IoError, ReadOnly or NoSpace", words(&request)),
                answer(reply),
            ));
        }
    }
    session.fails = None;
    subject
        .restart(session, CrashKind::Process)?
        .shows(b"a", Some(b"1"))?;
    holds(format!(
        "{first:?}, then {second:?}; a sync {:?}, a close {:?}",
        sync.status, close.status
    ))
}

fn write_error(subject: &Subject) -> Result<Outcome> {
    fails(subject, DiskError::Write, DiskError::Write)
}

fn flush_error(subject: &Subject) -> Result<Outcome> {
    for request in [Request::Sync, Request::Close] {
        let mut session = failing(subject, DiskError::Flush, DiskError::Flush)?;
        let reply = session.ask(&relaxed(b"b", b"2"))?;
        // A guest that flushes relaxed writes too has refused this one, and then nothing is left to make durable.
        if reply.status == Status::Ok {
            refused(&mut session, &request)?;
        }
    }
    fails(subject, DiskError::Flush, DiskError::Flush)
}

fn no_space_error(subject: &Subject) -> Result<Outcome> {
    fails(subject, DiskError::Write, DiskError::NoSpace)
}

/// What came of an opening all of whose reads fail.
fn opening_that_fails(subject: &Subject) -> Result<(Session, Option<Status>)> {
    let mut session = subject.open()?;
    session.ok(&put(b"a", b"1"))?;
    let mut session = subject.restart_failing(session, (DiskError::Read, DiskError::Read))?;
    let reply = session.opening()?;
    let status = (session.failed > 0).then_some(reply.status);
    Ok((session, status))
}

fn read_error(subject: &Subject) -> Result<Outcome> {
    match opening_that_fails(subject)? {
        (_, None) => Ok(Outcome::NotAsked("its opening reads nothing".to_owned())),
        (_, Some(Status::IoError)) => holds(""),
        (_, Some(status)) => Err(Breach::new(
            "the opening is answered IoError",
            format!("{status:?}"),
        )),
    }
}

fn open_after_error(subject: &Subject) -> Result<Outcome> {
    let (mut session, _) = opening_that_fails(subject)?;
    session.fails = None;
    subject
        .restart(session, CrashKind::Process)?
        .shows(b"a", Some(b"1"))?;
    holds("")
}

fn space(subject: &Subject) -> Result<Outcome> {
    let mut session = subject.open()?;
    let value = vec![7; 8_000];
    let rounds = 3 * CAPACITY_BYTES / 8_000;
    for round in 0..rounds {
        let key = [b'k', u8::try_from(round % 3).unwrap_or(0)];
        let held = match round % 100 {
            50 => Some(snapshot(&mut session)?),
            _ => None,
        };
        let request = match round % 10 {
            9 => delete(&key),
            _ => put(&key, &value),
        };
        session.ok(&request)?;
        if let Some(snapshot) = held {
            session.ok(&Request::Release { snapshot })?;
        }
    }
    session.expect(&Request::Scan(Scan { limit: 3, ..scan() }), Status::Ok)?;
    holds(format!(
        "{rounds} writes of 8,000 bytes to 3 keys: three times the device"
    ))
}
