//! What is legal is let pass: losses that nobody was promised against, and those that a lie excuses.

use std::collections::VecDeque;

use crate::support::{Lab, batch, delete, get, put, relaxed, serve, state};
use kvsim_oracle::{Opening, OracleConfig, Property, Verification};
use kvsim_sim::api::{Body, Direction, Reply, Request, Scan, Status};

/// Goal: what was not acknowledged may be there or not, as a prefix. Method: all four prefixes of three writes in flight.
#[test]
fn writes_in_flight_survive_as_a_prefix() {
    let mut lab = Lab::new();
    lab.ask(put("a", 1));
    lab.ask(batch(&[("a", 2), ("b", 3)]));
    lab.ask(delete("b"));
    for shown in [&[][..], &[("a", 1)], &[("a", 2), ("b", 3)], &[("a", 2)]] {
        lab.clone().crash_showing(&state(shown)).unwrap();
    }
    assert!(lab.crash_showing(&state(&[("a", 1), ("b", 3)])).is_err());
}

/// Goal: relaxed writes may be lost from the end, also within the window. Method: two of them, the second too young.
#[test]
fn relaxed_writes_may_be_lost_from_the_end() {
    let window = OracleConfig {
        relaxed_window_ns: Some(1_900),
        relaxed_slack_ns: 100,
        ..OracleConfig::default()
    };
    let mut lab = Lab::with(window);
    lab.done(relaxed("a", 1));
    lab.now += 1_100;
    lab.done(relaxed("b", 2));
    assert!(lab.clone().crash_showing(&state(&[])).is_err());
    lab.crash_showing(&state(&[("a", 1)])).unwrap();
    let mut lab = Lab::new();
    lab.done(relaxed("a", 1));
    lab.done(relaxed("b", 2));
    assert_eq!(lab.oracle.counts().acknowledged_relaxed, 2);
    lab.recover(&state(&[("a", 1)]));
    assert_eq!(lab.oracle.counts().relaxed_lost, 1);
}

/// Goal: a write that failed with a device error may be missing although later ones are there, until a recovery shows it or not.
#[test]
fn a_write_that_met_an_error_may_go_either_way() {
    let mut lab = Lab::new();
    lab.truth.write_errors = 1;
    lab.truth.this_run.write_failures = 1;
    lab.done(put("a", 1));
    lab.failed(put("a", 2), Status::IoError);
    lab.done(put("b", 3));
    lab.read(get("a"), &state(&[("a", 1)])).unwrap();
    lab.read(get("a"), &state(&[("a", 2)])).unwrap();
    for number in [1, 2] {
        let mut lab = lab.clone();
        lab.recover(&state(&[("a", number), ("b", 3)]));
        let other = state(&[("a", 3 - number), ("b", 3)]);
        assert_eq!(
            lab.crash_showing(&other).unwrap_err().property,
            Property::NoResurrection
        );
    }
}

/// Goal: reads that overtake the answers of writes before them are judged when these come in, and those that race with a
/// crash never. Method: both ways for a write in flight.
#[test]
fn a_read_may_overtake_the_answer_of_a_write() {
    let mut lab = Lab::new();
    let write = lab.ask(put("a", 1));
    lab.read(get("a"), &state(&[("a", 1)])).unwrap();
    lab.ack(write);
    let write = lab.ask(put("a", 2));
    lab.read(get("a"), &state(&[("a", 1)])).unwrap();
    lab.answer(write, Status::NoSpace, Body::Empty).unwrap();
    lab.ask(put("a", 3));
    lab.read(get("a"), &state(&[("a", 1)])).unwrap();
    lab.crash_showing(&state(&[("a", 3)])).unwrap();
}

/// Goal: scans stop where they may, and pages of the reading back join up. Method: limits of one to four entries, both ways.
#[test]
fn pages_and_limits_are_understood() {
    let mut lab = Lab::new();
    let keys = ["a", "b", "c", "d", "e"];
    keys.iter()
        .zip(1..)
        .for_each(|(key, number)| lab.done(put(key, number)));
    lab.done(delete("c"));
    let shown = state(&[("a", 1), ("b", 2), ("d", 4), ("e", 5)]);
    for limit in 1..=4 {
        for direction in [Direction::Forward, Direction::Reverse] {
            let (start, end) = (Some(b"a".to_vec()), Some(b"e".to_vec()));
            let scan = Scan {
                snapshot: 0,
                direction,
                start,
                end,
                limit,
                // Exactly what so many entries take.
                max_bytes: limit * 65,
            };
            lab.read(Request::Scan(scan), &shown).unwrap();
        }
        lab.check.page_entries = limit;
        let seen = lab.observe(&shown);
        assert_eq!(seen.keys_read(), 5);
        lab.oracle.judge(&seen, &lab.truth).unwrap();
    }
}

/// Goal: however many keys were written, a guest is asked so much at a time that its memory can hold the answers, and all of it in
/// the end. Method: 1,000 keys written and read one by one, by a guest that answers the oldest question when no more are asked.
#[test]
fn a_guest_is_asked_a_bounded_number_of_keys_at_a_time() {
    let mut lab = Lab::new();
    lab.check.scan_keys_max = 10;
    let names: Vec<String> = (0..1_000).map(|at| format!("k{at:04}")).collect();
    let mut shown = crate::support::State::new();
    for (name, number) in names.iter().zip(1..) {
        lab.done(put(name, number));
        shown.extend(state(&[(name, number)]));
    }
    let mut reading = Verification::new(&lab.oracle, &lab.check);
    let mut asked = VecDeque::new();
    let mut most = 0;
    while !reading.is_done() {
        asked.extend(std::iter::from_fn(|| reading.next_request(&lab.oracle)));
        most = most.max(asked.len());
        let (token, request) = asked.pop_front().expect("it waits for answers only");
        reading.reply(&lab.oracle, token, &serve(&shown, 7, &request));
    }
    assert_eq!(reading.finish().keys_read(), 1_000);
    assert!((2..=64).contains(&most), "{most} at a time");
}

/// Goal: a large key space is read in windows that come round, and what was written is always read. Method: 100 keys, windows of 10;
/// after ten recoveries a loss anywhere was found, and a loss of what was written at once.
#[test]
fn windows_move_on_until_all_was_read() {
    let mut lab = Lab::new();
    lab.check.scan_keys_max = 10;
    lab.check.gets_max = 0;
    let names: Vec<String> = (0..100).map(|at| format!("k{at:03}")).collect();
    let mut shown = crate::support::State::new();
    for (name, number) in names.iter().zip(1..) {
        lab.done(put(name, number));
        shown.extend(state(&[(name, number)]));
    }
    assert_eq!(lab.observe(&shown).keys_read(), 100);
    lab.recover(&shown);
    lab.done(put("k077", 500));
    assert!(lab.clone().crash_showing(&shown).is_err());
    shown.extend(state(&[("k077", 500)]));
    lab.recover(&shown);
    assert_eq!(lab.observe(&shown).keys_read(), 10);
    shown.remove(&b"k050"[..]);
    let mut found = 0;
    for _ in 0..10 {
        lab.crash();
        let seen = lab.observe(&shown);
        match lab.oracle.judge(&seen, &lab.truth) {
            Ok(recovery) => lab.oracle.adopt(lab.now, &recovery, &seen, &lab.truth),
            Err(violation) => {
                assert_eq!(violation.facts.key.as_deref(), Some("\"k050\""));
                found += 1;
                shown.extend(state(&[("k050", 51)]));
            }
        }
    }
    assert!(found > 0);
}

/// Goal: with a fault that explains it, a report is accepted and counted. Method: opening, get, scan and write.
#[test]
fn reports_with_a_reason_are_accepted() {
    let mut lab = Lab::lying();
    lab.done(put("a", 1));
    lab.truth.bit_rot = 1;
    lab.truth.damaged_sectors = 1;
    lab.truth.this_run.damaged_reads = 1;
    let damage = |id| Reply {
        id,
        status: Status::Corruption,
        body: Body::Message("bad".into()),
    };
    let id = lab.ask(get("a"));
    lab.answer(id, Status::Corruption, Body::Empty).unwrap();
    lab.crash();
    let seen = lab.observe_with(|_| damage(7));
    lab.oracle.judge(&seen, &lab.truth).unwrap();
    assert_eq!(
        lab.oracle.opened(&damage(0), &lab.truth).unwrap(),
        Opening::Damaged("bad".into())
    );
    lab.truth.read_errors = 1;
    lab.truth.this_run.read_failures = 1;
    lab.truth.failing_sectors = 1;
    let error = Reply {
        id: 0,
        status: Status::IoError,
        body: Body::Message("read".into()),
    };
    assert_eq!(
        lab.oracle.opened(&error, &lab.truth).unwrap(),
        Opening::DeviceError("read".into())
    );
    assert_eq!(lab.oracle.counts().reports_accepted, 3);
}

/// Goal: a key that could not be read keeps all its possibilities, and what is read next decides. Method: a report for one key of
/// two, then either value.
#[test]
fn a_key_that_could_not_be_read_stays_open() {
    for keep in [false, true] {
        let mut lab = if keep { Lab::lying() } else { Lab::new() };
        lab.done(put("a", 1));
        lab.done(put("b", 2));
        lab.ask(put("a", 3));
        lab.truth.read_errors = 1;
        lab.truth.this_run.read_failures = 1;
        lab.crash();
        let shown = state(&[("b", 2)]);
        let seen = lab.observe_with(|request| match request {
            Request::Get { key, .. } if key == b"b" => serve(&shown, 7, request),
            _ => Reply {
                id: 7,
                status: Status::IoError,
                body: Body::Empty,
            },
        });
        let recovery = lab.oracle.judge(&seen, &lab.truth).unwrap();
        lab.oracle.adopt(lab.now, &recovery, &seen, &lab.truth);
        for number in [1, 3] {
            let mut lab = lab.clone();
            lab.recover(&state(&[("a", number), ("b", 2)]));
            assert!(
                lab.clone()
                    .crash_showing(&state(&[("a", 4 - number), ("b", 2)]))
                    .is_err()
            );
            assert!(lab.crash_showing(&state(&[("b", 2)])).is_err());
        }
        assert!(lab.crash_showing(&state(&[("b", 2)])).is_err());
    }
}

/// Goal: with a flush that did nothing, any older prefix of the history is legal, over recoveries too, and each excused loss is
/// counted; without one since the last recovery, none is. Method: two process runs.
#[test]
fn a_lying_flush_excuses_any_older_prefix() {
    let mut lab = Lab::lying();
    lab.done(put("a", 1));
    lab.done(put("b", 2));
    lab.truth.flush_lies = 1;
    let recovery = lab.recover(&state(&[("a", 1)]));
    assert_eq!(recovery.excused_losses(), 1);
    lab.done(put("c", 3));
    assert!(lab.clone().crash_showing(&state(&[("a", 1)])).is_err());
    lab.truth.flush_lies = 2;
    lab.clone().crash_showing(&state(&[("a", 1)])).unwrap();
    assert!(
        lab.clone()
            .crash_showing(&state(&[("a", 1), ("b", 2)]))
            .is_err()
    );
    assert!(lab.clone().crash_showing(&state(&[("c", 3)])).is_err());
    let recovery = lab.recover(&state(&[]));
    assert_eq!(recovery.excused_losses(), 2);
    assert_eq!(lab.oracle.counts().excused_losses, 3);
    assert!(lab.crash_showing(&state(&[("a", 1)])).is_err());
}

/// Goal: with damage, a write without a later proof may be silently gone. Method: two writes, of which the second was handed in when the first
/// had been acknowledged; then something written before, at, and after the second is damaged.
#[test]
fn damage_excuses_the_tail() {
    let mut lab = Lab::lying();
    lab.done(put("a", 1));
    let between = lab.now + 1;
    lab.done(put("b", 2));
    lab.truth.lost_writes = 1;
    for damaged in [None, Some(between - 2), Some(lab.now + 1)] {
        let mut lab = lab.clone();
        lab.truth.damaged_ns.extend(damaged);
        assert_eq!(lab.clone().recover(&state(&[("a", 1)])).excused_losses(), 1);
        assert!(lab.crash_showing(&state(&[])).is_err(), "{damaged:?}");
    }
    lab.truth.damaged_ns.push(lab.now);
    assert_eq!(lab.recover(&state(&[])).excused_losses(), 2);
}

/// Goal: only what was acknowledged as durable, and handed in afterwards, is a later proof. Method: a second write that was under way already, one
/// without an answer, and a relaxed one before and after a sync.
#[test]
fn what_is_not_acknowledged_proves_nothing() {
    let gone = |lab: &Lab| lab.clone().crash_showing(&state(&[])).is_ok();
    let mut lab = Lab::lying();
    lab.truth.lost_writes = 1;
    let (first, second) = (lab.ask(put("a", 1)), lab.ask(put("b", 2)));
    lab.ack(first);
    lab.ack(second);
    assert!(gone(&lab));
    lab.ask(put("c", 3));
    assert!(gone(&lab));
    lab.done(relaxed("d", 4));
    assert!(gone(&lab));
    lab.done(Request::Sync);
    assert!(!gone(&lab));
}

/// Goal: a relaxed write is a later proof too once it must survive by its age. Method: two of them, and a crash before and after the second is old.
#[test]
fn an_old_relaxed_write_is_a_later_proof() {
    let mut lab = Lab::with(OracleConfig {
        relaxed_window_ns: Some(5_000),
        relaxed_slack_ns: 0,
        keep_history: true,
        ..OracleConfig::default()
    });
    lab.truth.lost_writes = 1;
    lab.done(relaxed("a", 1));
    lab.now += 5_000;
    lab.done(relaxed("b", 2));
    let gone = |lab: &Lab| lab.clone().crash_showing(&state(&[])).is_ok();
    assert!(gone(&lab));
    lab.now += 5_000;
    assert!(!gone(&lab));
    lab.truth.damaged_ns.push(lab.now - 1_000);
    assert!(gone(&lab));
}

/// Goal: an opening is a later proof of what it showed. Method: a write, an opening that shows it, and a later one that does not; then what was
/// written before, in and after the first opening is damaged.
#[test]
fn an_opening_proves_what_it_showed() {
    let mut lab = Lab::lying();
    lab.truth.lost_writes = 1;
    lab.done(relaxed("a", 1));
    let before = lab.now;
    lab.recover(&state(&[("a", 1)]));
    let after = lab.now + 1;
    for (damaged, excused) in [(before, false), (after - 500, true), (after, false)] {
        let mut lab = lab.clone();
        lab.truth.damaged_ns.push(damaged);
        assert_eq!(lab.crash_showing(&state(&[])).is_ok(), excused);
    }
}

/// Goal: a sync counts also after a recovery in which something was damaged. Method: of two relaxed writes, each followed by a sync, the second proves
/// the first, but not itself.
#[test]
fn what_was_synced_before_an_opening_is_a_later_proof() {
    let mut lab = Lab::lying();
    lab.truth.lost_writes = 1;
    for (key, number) in [("a", 1), ("b", 2)] {
        lab.done(relaxed(key, number));
        lab.done(Request::Sync);
    }
    lab.truth.damaged_ns.push(lab.now + 1_000);
    lab.recover(&state(&[("a", 1), ("b", 2)]));
    assert!(lab.clone().crash_showing(&state(&[("a", 1)])).is_ok());
    assert!(lab.crash_showing(&state(&[])).is_err());
}

/// Goal: a request that writes nothing is no later proof. Method: after a write, an empty batch, and a write during which the device made nothing durable.
#[test]
fn what_takes_no_writing_proves_nothing() {
    let mut lab = Lab::lying();
    lab.truth.lost_writes = 1;
    lab.done(put("a", 1));
    lab.done(batch(&[]));
    lab.truth.last_flush_completed_ns = Some(lab.now - 15);
    lab.done(delete("b"));
    assert!(lab.clone().crash_showing(&state(&[])).is_ok());
    lab.truth.last_flush_completed_ns = Some(lab.now + 15);
    lab.done(delete("b"));
    assert!(lab.crash_showing(&state(&[])).is_err());
}

/// Goal: what a recovery that was itself cut short did does not age relaxed writes. Method: a crash long after the first.
#[test]
fn the_first_cut_is_what_counts() {
    let window = OracleConfig {
        relaxed_window_ns: Some(5_000),
        keep_history: true,
        ..OracleConfig::default()
    };
    let mut lab = Lab::with(window);
    lab.done(put("a", 1));
    lab.done(put("b", 2));
    lab.done(relaxed("c", 3));
    lab.truth.lost_writes = 1;
    lab.crash();
    lab.now += 1_000_000;
    assert_eq!(lab.recover(&state(&[("a", 1)])).excused_losses(), 1);
}

/// Goal: two crash states of moments after which the same must survive are told to be the same, others not. Method: the fingerprint.
#[test]
fn the_fingerprint_follows_what_must_survive() {
    let mut lab = Lab::new();
    let write = lab.ask(put("a", 1));
    let unanswered = lab.oracle.fingerprint();
    lab.read(get("zz"), &state(&[])).unwrap();
    let mut other = lab.clone();
    assert_eq!(lab.oracle.fingerprint(), other.oracle.fingerprint());
    lab.ack(write);
    other.answer(write, Status::NoSpace, Body::Empty).unwrap();
    let prints = [
        unanswered,
        lab.oracle.fingerprint(),
        other.oracle.fingerprint(),
    ];
    assert!(prints[0] != prints[1] && prints[1] != prints[2] && prints[0] != prints[2]);
}

/// Goal: a refusal with a reason is right, whatever the request. Method: each reason, and a request that it excuses.
#[test]
fn refusals_with_a_reason_are_accepted() {
    let answered = |lab: &mut Lab, request: Request, status| {
        let id = lab.ask(request);
        lab.answer(id, status, Body::Empty).unwrap();
    };
    let mut lab = Lab::on_a_device();
    answered(&mut lab, put("", 1), Status::Invalid);
    answered(&mut lab, batch(&[("a", 1), ("", 2)]), Status::Invalid);
    answered(&mut lab, Request::Release { snapshot: 4 }, Status::Invalid);
    let mut full = lab.clone();
    // Two per cent of 1 MiB are 20,971 bytes, and each record counts 64 bytes beside its own.
    for number in 0..200 {
        full.done(put(&format!("key {number}"), number));
    }
    answered(&mut full, put("one more", 1), Status::NoSpace);
    let mut failed = lab.clone();
    failed.truth.this_run.flush_failures = 1;
    answered(&mut failed, put("a", 1), Status::IoError);
    answered(&mut failed, delete("a"), Status::ReadOnly);
    answered(&mut failed, Request::Sync, Status::IoError);
    let mut damaged = lab.clone();
    damaged.truth.damaged_sectors = 1;
    damaged.truth.this_run.damaged_reads = 1;
    answered(&mut damaged, get("a"), Status::Corruption);
    // Nothing of it can be given back.
    (0..200).for_each(|number| damaged.done(put("a", number)));
    answered(&mut damaged, put("a", 1), Status::NoSpace);
    lab.done(Request::Close);
    answered(&mut lab, put("a", 1), Status::Closed);
    answered(&mut lab, get("a"), Status::Closed);
    assert_eq!(lab.oracle.counts().ill_formed_refused, 3);
}

/// Goal: a request whose snapshot is being made or released may be refused or not. Method: ask in between, and let either answer come.
#[test]
fn a_snapshot_on_its_way_is_open() {
    for status in [Status::NotFound, Status::Invalid] {
        let mut lab = Lab::new();
        lab.ask(Request::Snapshot);
        let read = Request::Get {
            key: b"a".to_vec(),
            snapshot: 1,
        };
        let id = lab.ask(read);
        lab.answer(id, status, Body::Empty).unwrap();
    }
}

/// Goal: a refused batch leaves nothing, and a guest that shows nothing of it is right.
#[test]
fn an_ill_formed_batch_leaves_nothing() {
    let mut lab = Lab::new();
    lab.done(put("a", 1));
    lab.failed(batch(&[("a", 2), ("", 3)]), Status::Invalid);
    lab.read(get("a"), &state(&[("a", 1)])).unwrap();
    // One that nobody has answered leaves nothing either.
    lab.ask(batch(&[("a", 4), ("", 5)]));
    lab.recover(&state(&[("a", 1)]));
}
