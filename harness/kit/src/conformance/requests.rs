//! Each kind of request, with an answer that is known.

use kvsim_sim::api::{Direction, Request, Scan, Status};

use super::rule::{Outcome, Result, Rule, holds};
use super::session::{Look, Subject, batch, delete, get, put, relaxed, scan, snapshot};

pub(super) const RULES: [(Rule, Look); 14] = [
    (
        Rule {
            name: "put_get",
            about: "a get returns the bytes that the last put gave the key, whatever bytes they are",
            help: "take lengths from the payload, and no byte for an end",
        },
        put_get,
    ),
    (
        Rule {
            name: "get_missing",
            about: "a get of a key that is not there is answered NotFound",
            help: "NotFound is status 1, with no body or a message",
        },
        get_missing,
    ),
    (
        Rule {
            name: "delete",
            about: "a delete removes its key; of a key that is not there it is Ok",
            help: "never answer a delete NotFound",
        },
        deletes,
    ),
    (
        Rule {
            name: "batch",
            about: "a batch applies its mutations in order, so a later one of a key wins",
            help: "apply puts and deletes of one batch one after the other",
        },
        batches,
    ),
    (
        Rule {
            name: "scan",
            about: "a scan returns all entries in the order of their bytes, and says that there are no more",
            help: "order keys as unsigned bytes; a prefix comes before what it begins",
        },
        scans,
    ),
    (
        Rule {
            name: "scan_reverse",
            about: "a scan with direction 1 returns the same entries from the last to the first",
            help: "the bounds keep their meaning: the start is the smaller key",
        },
        scans_in_reverse,
    ),
    (
        Rule {
            name: "scan_bounds",
            about: "a scan includes its start and excludes its end",
            help: "a bound counts only if its bit is set; keys that are no entries may be bounds",
        },
        scan_bounds,
    ),
    (
        Rule {
            name: "scan_limit",
            about: "a scan ends at its limit, and says `more` if the range holds another entry",
            help: "look for the next entry before you say that there is none",
        },
        scan_limit,
    ),
    (
        Rule {
            name: "scan_bytes",
            about: "a scan ends before keys and values exceed its most bytes, but returns at least one entry",
            help: "count keys and values alone, and never return nothing from a range with entries",
        },
        scan_bytes,
    ),
    (
        Rule {
            name: "snapshot",
            about: "a snapshot shows the state at its place in the order, in gets and in scans",
            help: "keep what a later write replaces while a snapshot needs it",
        },
        snapshots,
    ),
    (
        Rule {
            name: "release",
            about: "a release is answered Ok, leaves other snapshots as they are, and its number is not given again",
            help: "count snapshots up, and never down",
        },
        releases,
    ),
    (
        Rule {
            name: "relaxed",
            about: "a relaxed write is answered Ok and seen by every read after it",
            help: "relaxed changes when a write is answered, and nothing else",
        },
        relaxed_writes,
    ),
    (
        Rule {
            name: "sync",
            about: "a sync is answered Ok, with and without anything to make durable",
            help: "answer a sync although nothing waits",
        },
        syncs,
    ),
    (
        Rule {
            name: "limits",
            about: "keys of 1,024 bytes, values of 65,536 and batches of 8,192 are taken, unless a policy states less",
            help: "size kv_buffer by its argument; state max_key_bytes or max_value_bytes if you take less",
        },
        limits,
    ),
];

/// The start and the end of a scan, and which keys lie between them.
type Bounds<'a> = (Option<&'a [u8]>, Option<&'a [u8]>, std::ops::Range<usize>);

fn put_get(subject: &Subject) -> Result<Outcome> {
    let mut session = subject.open()?;
    let every_byte: Vec<u8> = (0..=255).collect();
    let values: [&[u8]; 4] = [b"one", b"", &every_byte, &[0; 5_000]];
    for (at, value) in values.into_iter().enumerate() {
        let key = [b"key\0\xff".as_slice(), &[u8::try_from(at).unwrap_or(0)]].concat();
        session.ok(&put(&key, value))?;
        session.shows(&key, Some(value))?;
        session.ok(&put(&key, b"another"))?;
        session.shows(&key, Some(b"another"))?;
        session.ok(&put(&key, value))?;
    }
    for (at, value) in values.into_iter().enumerate() {
        let key = [b"key\0\xff".as_slice(), &[u8::try_from(at).unwrap_or(0)]].concat();
        session.shows(&key, Some(value))?;
    }
    holds("4 values, of 0 to 5,000 bytes")
}

fn get_missing(subject: &Subject) -> Result<Outcome> {
    let mut session = subject.open()?;
    session.shows(b"k", None)?;
    session.ok(&put(b"key", b"value"))?;
    for key in [&b"k"[..], b"ke", b"key0", b"kez"] {
        session.shows(key, None)?;
    }
    holds("5 keys")
}

fn deletes(subject: &Subject) -> Result<Outcome> {
    let mut session = subject.open()?;
    session.ok(&delete(b"never"))?;
    session.ok(&put(b"a", b"1"))?;
    session.ok(&put(b"b", b"2"))?;
    session.ok(&delete(b"a"))?;
    session.shows(b"a", None)?;
    session.shows(b"b", Some(b"2"))?;
    session.ok(&delete(b"a"))?;
    session.ok(&put(b"a", b"3"))?;
    session.shows(b"a", Some(b"3"))?;
    holds("4 deletes, 2 of what is not there")
}

fn batches(subject: &Subject) -> Result<Outcome> {
    let mut session = subject.open()?;
    session.ok(&put(b"old", b"1"))?;
    session.ok(&batch(&[
        (b"new", Some(b"2")),
        (b"old", None),
        (b"twice", Some(b"first")),
        (b"twice", Some(b"second")),
        (b"gone", Some(b"3")),
        (b"gone", None),
        (b"back", None),
        (b"back", Some(b"4")),
        (b"absent", None),
    ]))?;
    for (key, value) in [
        (&b"new"[..], Some(&b"2"[..])),
        (b"old", None),
        (b"twice", Some(b"second")),
        (b"gone", None),
        (b"back", Some(b"4")),
        (b"absent", None),
    ] {
        session.shows(key, value)?;
    }
    holds("9 mutations of 6 keys")
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Entries whose order is easily got wrong, in the order of their bytes.
fn some() -> Entries {
    let keys: [&[u8]; 7] = [b"\0", b"a", b"a\0", b"ab", b"b", b"\x7f", b"\xff\xff"];
    let value = |at: usize| vec![u8::try_from(at).unwrap_or(0); 10 * (at + 1)];
    let entries = keys.into_iter().enumerate();
    entries.map(|(at, key)| (key.to_vec(), value(at))).collect()
}

/// A session that holds [`some`], written in another order.
fn with_some(subject: &Subject) -> Result<super::session::Session> {
    let mut session = subject.open()?;
    session.scans(&scan(), &[], false)?;
    for at in [3, 0, 6, 5, 1, 4, 2] {
        let (key, value) = &some()[at];
        session.ok(&put(key, value))?;
    }
    Ok(session)
}

fn scans(subject: &Subject) -> Result<Outcome> {
    with_some(subject)?.scans(&scan(), &some(), false)?;
    holds("7 entries, and none of an empty database")
}

fn reversed(mut entries: Entries) -> Entries {
    entries.reverse();
    entries
}

fn scans_in_reverse(subject: &Subject) -> Result<Outcome> {
    let direction = Direction::Reverse;
    let mut session = with_some(subject)?;
    session.scans(
        &Scan {
            direction,
            ..scan()
        },
        &reversed(some()),
        false,
    )?;
    let bounded = Scan {
        direction,
        start: Some(b"a".to_vec()),
        end: Some(b"b".to_vec()),
        ..scan()
    };
    session.scans(&bounded, &reversed(some()[1..4].to_vec()), false)?;
    let cut = Scan {
        limit: 2,
        ..bounded
    };
    session.scans(&cut, &reversed(some()[2..4].to_vec()), true)?;
    holds("7 entries, a range, and its last two")
}

fn scan_bounds(subject: &Subject) -> Result<Outcome> {
    let mut session = with_some(subject)?;
    let cases: [Bounds<'_>; 6] = [
        (Some(b"a"), None, 1..7),
        (None, Some(b"a"), 0..1),
        (Some(b"a\0"), Some(b"b"), 2..4),
        (Some(b"aa"), Some(b"c"), 3..5),
        (Some(b"c"), Some(b"d"), 5..5),
        (None, Some(b"\xff\xff\0"), 0..7),
    ];
    for (start, end, due) in cases {
        let range = Scan {
            start: start.map(<[u8]>::to_vec),
            end: end.map(<[u8]>::to_vec),
            ..scan()
        };
        session.scans(&range, &some()[due], false)?;
    }
    holds("6 ranges")
}

fn scan_limit(subject: &Subject) -> Result<Outcome> {
    let mut session = with_some(subject)?;
    for (limit, more) in [
        (1, true),
        (6, true),
        (7, false),
        (8, false),
        (u32::MAX, false),
    ] {
        let due = &some()[..(limit as usize).min(7)];
        session.scans(&Scan { limit, ..scan() }, due, more)?;
    }
    let end = Some(b"b".to_vec());
    session.scans(
        &Scan {
            limit: 4,
            end,
            ..scan()
        },
        &some()[..4],
        false,
    )?;
    holds("5 limits, and one at the end of a range")
}

fn scan_bytes(subject: &Subject) -> Result<Outcome> {
    let mut session = with_some(subject)?;
    let size = |count: usize| -> usize {
        let entries = some();
        let sizes = entries[..count]
            .iter()
            .map(|(key, value)| key.len() + value.len());
        sizes.sum()
    };
    for (max_bytes, count) in [
        (0, 1),
        (1, 1),
        (size(1), 1),
        (size(3), 3),
        (size(3) - 1, 2),
        (size(7), 7),
    ] {
        let max_bytes = u32::try_from(max_bytes).unwrap_or(u32::MAX);
        session.scans(
            &Scan {
                max_bytes,
                ..scan()
            },
            &some()[..count],
            count < 7,
        )?;
    }
    holds("6 bounds, one of them 0")
}

fn snapshots(subject: &Subject) -> Result<Outcome> {
    let mut session = subject.open()?;
    session.ok(&put(b"a", b"1"))?;
    session.ok(&put(b"b", b"1"))?;
    let first = snapshot(&mut session)?;
    session.ok(&put(b"a", b"2"))?;
    session.ok(&delete(b"b"))?;
    session.ok(&put(b"c", b"2"))?;
    let second = snapshot(&mut session)?;
    session.ok(&put(b"a", b"3"))?;
    session.ok(&batch(&[(b"b", Some(b"3")), (b"c", None)]))?;
    let entry = |key: &[u8], value: &[u8]| (key.to_vec(), value.to_vec());
    for (number, due) in [
        (first, vec![entry(b"a", b"1"), entry(b"b", b"1")]),
        (second, vec![entry(b"a", b"2"), entry(b"c", b"2")]),
        (0, vec![entry(b"a", b"3"), entry(b"b", b"3")]),
    ] {
        session.scans(
            &Scan {
                snapshot: number,
                ..scan()
            },
            &due,
            false,
        )?;
        for key in [b"a", b"b", b"c"] {
            let value = due.iter().find(|(name, _)| name == key);
            session.shows_at(number, key, value.map(|(_, value)| &value[..]))?;
        }
    }
    holds("2 snapshots and the latest state")
}

fn releases(subject: &Subject) -> Result<Outcome> {
    let mut session = subject.open()?;
    session.ok(&put(b"a", b"1"))?;
    let mut given = Vec::new();
    for round in 0..4_u8 {
        let number = snapshot(&mut session)?;
        if given.contains(&number) {
            return Err(super::Breach::new(
                "a number that was not given before",
                format!("snapshot {number} once more"),
            ));
        }
        given.push(number);
        session.ok(&put(b"a", &[round; 3]))?;
        if round % 2 == 1 {
            let snapshot = given[usize::from(round)];
            session.ok(&Request::Release { snapshot })?;
        }
    }
    session.shows_at(given[0], b"a", Some(b"1"))?;
    session.shows_at(given[2], b"a", Some(&[1; 3]))?;
    session.shows(b"a", Some(&[3; 3]))?;
    holds("4 snapshots, 2 of them released")
}

fn relaxed_writes(subject: &Subject) -> Result<Outcome> {
    let mut session = subject.open()?;
    for round in 0..10_u8 {
        session.ok(&relaxed(&[b'k', round % 3], &[round; 20]))?;
        session.shows(&[b'k', round % 3], Some(&[round; 20]))?;
    }
    session.ok(&put(b"durable", b"behind them"))?;
    session.shows(&[b'k', 0], Some(&[9; 20]))?;
    holds("10 relaxed writes")
}

fn syncs(subject: &Subject) -> Result<Outcome> {
    let mut session = subject.open()?;
    session.ok(&Request::Sync)?;
    session.ok(&relaxed(b"a", b"1"))?;
    session.ok(&Request::Sync)?;
    session.ok(&Request::Sync)?;
    session.shows(b"a", Some(b"1"))?;
    holds("3 syncs")
}

fn limits(subject: &Subject) -> Result<Outcome> {
    let policies = subject.policies();
    let option = |name: &str| subject.options.get(name).map(String::as_str);
    let bound = |name, sure| {
        policies
            .number(name, option(name))
            .map_or(sure, |most| most.min(sure))
    };
    let bytes = |count: u64| usize::try_from(count).unwrap_or(0);
    let key_bytes = bytes(bound("max_key_bytes", kvsim_api::limits::KEY_BYTES_SURE));
    let value_bytes = bytes(bound(
        "max_value_bytes",
        kvsim_api::limits::VALUE_BYTES_SURE,
    ));
    let mut session = subject.open()?;
    let (key, value) = (vec![b'k'; key_bytes], vec![b'v'; value_bytes]);
    session.ok(&put(&key, &value))?;
    session.shows(&key, Some(&value))?;
    session.ok(&put(b"k", b""))?;
    // As many members as fit: each counts 64 bytes beside its key and value.
    let keys: Vec<Vec<u8>> = (0..100_u8).map(|at| vec![b'm', at]).collect();
    let members: Vec<(&[u8], Option<&[u8]>)> = keys
        .iter()
        .map(|key| (&key[..], Some(&b"fifteen bytes.."[..])))
        .collect();
    session.ok(&batch(&members))?;
    session.shows(&keys[99], Some(b"fifteen bytes.."))?;
    let large = Scan {
        max_bytes: u32::MAX,
        limit: 1,
        ..scan()
    };
    session.expect(&Request::Scan(large), Status::Ok)?;
    session.expect(&get(&key, 0), Status::Ok)?;
    holds(format!(
        "a key of {key_bytes} bytes, a value of {value_bytes}, a batch of 100 members"
    ))
}
