//! What the policies of a guest allow, and what no policy allows: each with a history that is legal and one beside it that is not.
#![allow(missing_docs, reason = "a test")]

mod support;

use kvsim_oracle::{Ending, OracleConfig, Property, Symptom};
use kvsim_sim::GuestPolicies;
use kvsim_sim::api::{Body, Mutation, Request, Status};
use support::{Lab, State, batch, delete, get, put, relaxed, state};

fn lab(policies: &str) -> Lab {
    Lab::with(OracleConfig {
        policies: GuestPolicies::parse(policies).unwrap(),
        ..OracleConfig::default()
    })
}

/// A kill of the process, and what is thought of a recovery that shows `state`.
fn kill_showing(lab: &mut Lab, state: &State) -> bool {
    lab.now += 1_000;
    lab.oracle.stopped(lab.now, Ending::Kill);
    lab.judge(state).is_ok()
}

/// A kill, and a recovery that shows `state` and is right to.
fn kill(lab: &mut Lab, state: &State) {
    assert!(kill_showing(lab, state));
    let seen = lab.observe(state);
    let recovery = lab.oracle.judge(&seen, &lab.truth).unwrap();
    lab.oracle.adopt(lab.now, &recovery, &seen, &lab.truth);
}

/// Goal: writes that overlap commit in either order, others do not. Method: the later of two is there alone, first while both are with the
/// guest, then after the earlier was answered.
#[test]
fn writes_that_overlap_commit_in_either_order() {
    let overlapping = |policies| {
        let mut lab = lab(policies);
        lab.ask(put("a", 1));
        let later = lab.ask(put("b", 2));
        lab.ack(later);
        lab.crash_showing(&state(&[("b", 2)])).is_ok()
    };
    assert!(!overlapping(""));
    assert!(overlapping("commit_order=any"));
    let mut lab = lab("commit_order=any");
    lab.done(relaxed("a", 1));
    lab.done(put("b", 2));
    let lost = lab.clone().crash_showing(&state(&[("b", 2)])).unwrap_err();
    assert_eq!(lost.property, Property::AcknowledgedDurable);
    assert!(lab.crash_showing(&state(&[("a", 1), ("b", 2)])).is_ok());
}

/// Goal: one order has to explain all keys. Method: two batches that overlap, each of which wins on one key; then one that wins on both.
#[test]
fn one_order_explains_all_keys() {
    let mut lab = lab("commit_order=any");
    let one = lab.ask(batch(&[("a", 1), ("b", 2)]));
    let other = lab.ask(batch(&[("a", 3), ("b", 4)]));
    lab.ack(one);
    lab.ack(other);
    for (shown, legal) in [
        ([("a", 1), ("b", 2)], true),
        ([("a", 3), ("b", 4)], true),
        ([("a", 1), ("b", 4)], false),
        ([("a", 3), ("b", 2)], false),
    ] {
        assert_eq!(
            lab.clone().crash_showing(&state(&shown)).is_ok(),
            legal,
            "{shown:?}"
        );
    }
}

/// Goal: a batch is all or nothing in any order too, and so is a recovery by recovery. Method: half of one that was never answered; then a
/// state that a recovery had shown is taken back.
#[test]
fn any_order_allows_no_half_batch_and_takes_nothing_back() {
    let mut lab = lab("commit_order=any");
    lab.ask(batch(&[("a", 1), ("b", 2)]));
    let half = lab.clone().crash_showing(&state(&[("a", 1)])).unwrap_err();
    assert_eq!(half.property, Property::AtomicWrites);
    lab.recover(&state(&[("a", 1), ("b", 2)]));
    let taken_back = lab.crash_showing(&state(&[])).unwrap_err();
    assert_eq!(taken_back.property, Property::NoResurrection);
}

/// Goal: reads of only committed writes may miss what is with the guest, and nothing else. Method: a get before and after the answer.
#[test]
fn reads_may_miss_what_is_not_answered() {
    let unanswered = |policies| {
        let mut lab = lab(policies);
        let id = lab.ask(put("a", 1));
        lab.read(get("a"), &state(&[])).unwrap();
        lab.answer(id, Status::Ok, Body::Empty).is_ok()
    };
    assert!(
        !unanswered(""),
        "the write did not fail, so the read should have shown it"
    );
    assert!(unanswered("reads=committed"));
    let mut lab = lab("reads=committed");
    lab.done(put("a", 1));
    let stale = lab.read(get("a"), &state(&[])).unwrap_err();
    assert_eq!(stale.property, Property::ReadsAgree);
}

/// Goal: what reads have shown they show again. Method: a write that is with the guest is seen and then not.
#[test]
fn a_write_that_was_seen_stays_seen() {
    for policies in [
        "reads=committed",
        "commit_order=any",
        "reads=committed\ncommit_order=any",
    ] {
        let mut lab = lab(policies);
        lab.ask(put("a", 1));
        lab.read(get("a"), &state(&[("a", 1)])).unwrap();
        assert!(lab.read(get("a"), &state(&[])).is_err(), "{policies}");
    }
    // Of two that overlap the one replaces the other, for good.
    let mut lab = lab("commit_order=any\nreads=committed");
    lab.ask(put("a", 1));
    lab.ask(put("a", 2));
    lab.read(get("a"), &state(&[("a", 2)])).unwrap();
    lab.read(get("a"), &state(&[("a", 1)])).unwrap();
    assert!(lab.read(get("a"), &state(&[("a", 2)])).is_err());
}

/// Goal: the same for a write that failed with a device error. Method: seen, then not; and not seen, then seen, as it may be.
#[test]
fn an_uncertain_write_that_was_seen_stays_seen() {
    let mut lab = lab("");
    lab.truth.write_errors = 1;
    lab.truth.this_run.write_failures = 1;
    lab.failed(put("a", 1), Status::IoError);
    lab.read(get("a"), &state(&[])).unwrap();
    lab.read(get("a"), &state(&[("a", 1)])).unwrap();
    let flicker = lab.clone().read(get("a"), &state(&[])).unwrap_err();
    assert_eq!(
        (flicker.property, flicker.symptom),
        (Property::ReadsAgree, Symptom::WrongRead)
    );
    // A crash may lose it all the same.
    assert!(lab.crash_showing(&state(&[])).is_ok());
}

fn scan(limit: u32, max_bytes: u32, snapshot: u64) -> Request {
    Request::Scan(kvsim_sim::api::Scan {
        snapshot,
        direction: kvsim_sim::api::Direction::Forward,
        start: None,
        end: None,
        limit,
        max_bytes,
    })
}

/// Goal: a scan shows all of a batch or nothing. Method: one that failed with a device error, and one that is with the guest.
#[test]
fn a_scan_shows_no_half_batch() {
    let mut failed = lab("");
    failed.truth.write_errors = 1;
    failed.truth.this_run.write_failures = 1;
    failed.failed(batch(&[("a", 1), ("b", 2)]), Status::IoError);
    let mut waiting = lab("reads=committed");
    waiting.ask(batch(&[("a", 1), ("b", 2)]));
    for lab in [failed, waiting] {
        for (shown, legal) in [
            (&[("a", 1), ("b", 2)][..], true),
            (&[], true),
            (&[("b", 2)], false),
        ] {
            let judged = lab.clone().read(scan(9, 9_999, 0), &state(shown));
            assert_eq!(judged.is_ok(), legal, "{shown:?}: {judged:?}");
            if let Err(half) = judged {
                assert_eq!(half.symptom, Symptom::PartialBatch);
            }
        }
    }
}

/// Goal: a snapshot does not move, and has a number of its own. Method: two reads of one that differ in what failed; a number given twice.
#[test]
fn a_snapshot_stands_still() {
    let mut lab = lab("");
    lab.truth.write_errors = 1;
    lab.truth.this_run.write_failures = 1;
    lab.failed(put("a", 1), Status::IoError);
    let id = lab.ask(Request::Snapshot);
    lab.answer(id, Status::Ok, Body::Snapshot(5)).unwrap();
    lab.read(scan(9, 9_999, 5), &state(&[])).unwrap();
    let moved = lab
        .clone()
        .read(scan(9, 9_999, 5), &state(&[("a", 1)]))
        .unwrap_err();
    assert_eq!(moved.symptom, Symptom::ReadsDiffer);
    lab.done(Request::Release { snapshot: 5 });
    let id = lab.ask(Request::Snapshot);
    let reused = lab
        .clone()
        .answer(id, Status::Ok, Body::Snapshot(5))
        .unwrap_err();
    assert_eq!(reused.symptom, Symptom::SnapshotReused);
    lab.crash();
    let id = lab.ask(Request::Snapshot);
    lab.answer(id, Status::Ok, Body::Snapshot(5)).unwrap();
}

/// Goal: pages end where they must, and say rightly whether there is more. Method: pages of three keys, each wrong in one way.
#[test]
fn pages_end_where_they_must() {
    let mut lab = lab("");
    for (key, number) in [("a", 1), ("b", 2), ("c", 3)] {
        lab.done(put(key, number));
    }
    let entry = |key: &str, number| (key.as_bytes().to_vec(), support::value(key, number));
    let all = [entry("a", 1), entry("b", 2), entry("c", 3)];
    let page = |limit, max_bytes, count: usize, more| {
        let mut lab = lab.clone();
        let id = lab.ask(scan(limit, max_bytes, 0));
        let entries = all[..count].to_vec();
        lab.answer(id, Status::Ok, Body::Entries { entries, more })
            .is_ok()
    };
    assert!(page(2, 9_999, 2, true));
    assert!(page(3, 9_999, 3, false));
    assert!(page(9, 130, 2, true), "the third does not fit");
    assert!(page(9, 10, 1, true), "one at least");
    assert!(!page(9, 130, 3, false), "more bytes than asked for");
    assert!(!page(9, 9_999, 2, true), "no reason to end");
    assert!(!page(3, 9_999, 3, true), "nothing more");
    assert!(!page(2, 9_999, 2, false), "there is more");
}

/// Goal: what a recovery after a kill shows may be lost in a power cut, not in a kill, and not if it is durable. Method: one relaxed write,
/// lost by both, with and without the policy and a sync.
#[test]
fn what_a_kill_leaves_may_be_lost_in_a_power_cut() {
    let after = |policies, synced: bool| {
        let mut lab = lab(policies);
        lab.done(relaxed("a", 1));
        kill(&mut lab, &state(&[("a", 1)]));
        if synced {
            lab.done(Request::Sync);
        }
        let cut = lab.clone().crash_showing(&state(&[])).is_ok();
        (kill_showing(&mut lab, &state(&[])), cut)
    };
    assert_eq!(after("", false), (false, false));
    assert_eq!(after("recovery_survives=power_cut", false), (false, true));
    assert_eq!(after("recovery_survives=power_cut", true), (false, false));
}

/// Goal: what such a recovery did not show stays gone, and work on top of it is judged. Method: a write that was lost comes back; a durable
/// write covers the recovered one.
#[test]
fn what_a_kill_has_lost_does_not_come_back() {
    let mut lab = lab("recovery_survives=power_cut\nrelaxed_survives_kill=false");
    lab.done(relaxed("a", 1));
    lab.ask(relaxed("b", 2));
    kill(&mut lab, &state(&[("a", 1)]));
    assert!(
        lab.clone()
            .crash_showing(&state(&[("a", 1), ("b", 2)]))
            .is_err()
    );
    lab.done(put("c", 3));
    assert!(lab.clone().crash_showing(&state(&[("c", 3)])).is_err());
    assert!(lab.clone().crash_showing(&state(&[])).is_err());
    lab.recover(&state(&[("a", 1), ("c", 3)]));
    assert!(lab.crash_showing(&state(&[("c", 3)])).is_err());
}

/// Goal: an empty durable write covers what the policy says. Method: a relaxed write, then an empty batch, a delete of nothing, and a
/// delete of something.
#[test]
fn an_empty_commit_covers_what_the_guest_says() {
    let lost = |policies, commit: Request| {
        let mut lab = lab(policies);
        lab.done(put("b", 9));
        lab.done(relaxed("a", 1));
        lab.done(commit);
        lab.crash_showing(&state(&[("b", 9)])).is_ok()
    };
    let empty = Request::Batch {
        mutations: Vec::<Mutation>::new(),
        durability: kvsim_sim::api::Durability::Durable,
    };
    let lax = "empty_commit_covers=false";
    for commit in [empty, delete("z")] {
        assert!(!lost("", commit.clone()));
        assert!(lost(lax, commit));
    }
    assert!(!lost(lax, delete("b")));
    // A key whose delete was relaxed is not there because of that.
    let mut lab = lab(lax);
    lab.done(put("b", 9));
    lab.done(Request::Delete {
        key: b"b".to_vec(),
        durability: kvsim_sim::api::Durability::Relaxed,
    });
    lab.done(delete("b"));
    assert!(lab.crash_showing(&state(&[("b", 9)])).is_err());
}

/// Goal: relaxed writes survive a kill unless the guest says otherwise, and need not survive a power cut. Method: one, lost by each.
#[test]
fn relaxed_writes_survive_a_kill() {
    let lost = |policies| {
        let mut lab = lab(policies);
        lab.done(relaxed("a", 1));
        let cut = lab.clone().crash_showing(&state(&[])).is_ok();
        (kill_showing(&mut lab, &state(&[])), cut)
    };
    assert_eq!(lost(""), (false, true));
    assert_eq!(lost("relaxed_survives_kill=false"), (true, true));
}

/// Goal: a window leaves the device the time that it takes, and promises nothing once an operation failed. Method: a write that is old, on
/// a quick, a slow and a failing device.
#[test]
fn the_window_is_judged_with_the_time_of_the_device() {
    let mut lab = Lab::with(OracleConfig {
        relaxed_window_ns: Some(5_000),
        ..OracleConfig::default()
    });
    lab.done(relaxed("a", 1));
    lab.now += 6_000;
    let mut slow = lab.clone();
    slow.truth.slowest_ns = 1_000;
    let mut failing = lab.clone();
    failing.truth.flush_errors = 1;
    assert!(lab.crash_showing(&state(&[])).is_err());
    assert!(slow.crash_showing(&state(&[])).is_ok());
    assert!(failing.crash_showing(&state(&[])).is_ok());
}

/// Goal: work before a reading back is judged by what it finds at last. Method: a write that was lost or not, then one on top of it; reads
/// that fit each other, a read of a state that the reading back contradicts, and a write that is not there.
#[test]
fn work_before_the_reading_back_is_judged_late() {
    let late = |middle: &[(&str, u64)], end: &[(&str, u64)]| {
        let mut lab = lab("");
        lab.done(put("a", 1));
        lab.ask(put("b", 2));
        lab.crash();
        lab.oracle.defer(lab.now);
        lab.read(get("b"), &state(middle)).unwrap();
        lab.done(put("c", 3));
        assert_eq!(lab.oracle.outstanding(), 0);
        let known = lab.oracle.for_late_reading();
        let mut reader = lab.clone();
        reader.oracle = known;
        let seen = reader.observe(&state(end));
        lab.oracle.judge_late(&seen, &lab.truth).map(|_| lab)
    };
    assert!(late(&[], &[("a", 1), ("c", 3)]).is_ok());
    let lab = late(&[("b", 2)], &[("a", 1), ("b", 2), ("c", 3)]).unwrap();
    assert!(
        late(&[("b", 2)], &[("a", 1), ("c", 3)]).is_err(),
        "the get has shown b"
    );
    assert!(late(&[], &[("a", 1), ("b", 2)]).is_err(), "c is not there");
    assert!(late(&[], &[("c", 3)]).is_err(), "a is lost");
    // From then on it is as if it had been read at once.
    let mut after = lab.clone();
    assert!(
        after
            .crash_showing(&state(&[("a", 1), ("b", 2), ("c", 3)]))
            .is_ok()
    );
    assert!(
        lab.clone()
            .crash_showing(&state(&[("a", 1), ("c", 3)]))
            .is_err()
    );
}
