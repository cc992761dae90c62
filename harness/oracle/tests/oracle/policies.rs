//! What the policies of a guest allow, and what no policy allows: each with a history that is legal and one beside it that is not.
#![allow(missing_docs, reason = "a test")]

use crate::support::{Lab, State, batch, delete, get, put, relaxed, state};
use kvsim_oracle::{Ending, Property, Symptom, Violation};
use kvsim_sim::api::{Body, Mutation, Request, Status};

/// A kill, and a recovery that shows `state` and is right to.
fn kill(lab: &mut Lab, state: &State) {
    assert!(lab.kill_showing(state));
    let seen = lab.observe(state);
    let recovery = lab.oracle.judge(&seen, &lab.truth).unwrap();
    lab.oracle.adopt(lab.now, &recovery, &seen, &lab.truth);
}

/// Goal: writes that overlap commit in either order, others do not. Method: the later of two is there alone, first while both are with the
/// guest, then after the earlier was answered.
#[test]
fn writes_that_overlap_commit_in_either_order() {
    let overlapping = |policies| {
        let mut lab = Lab::of(policies);
        lab.ask(put("a", 1));
        let later = lab.ask(put("b", 2));
        lab.ack(later);
        lab.crash_showing(&state(&[("b", 2)])).is_ok()
    };
    assert!(!overlapping(""));
    assert!(overlapping("commit_order=any"));
    let mut lab = Lab::of("commit_order=any");
    lab.done(relaxed("a", 1));
    lab.done(put("b", 2));
    let lost = lab.clone().crash_showing(&state(&[("b", 2)])).unwrap_err();
    assert_eq!(lost.property, Property::AcknowledgedDurable);
    assert!(lab.crash_showing(&state(&[("a", 1), ("b", 2)])).is_ok());
}

/// Goal: where each write stands for itself, a crash may lose one that is not durable and keep later ones, but never one that is durable or that a
/// `sync` covers, nor half a batch, nor let an older value replace a newer one that is there. Method: the same histories with `any` and `each`.
#[test]
fn each_write_stands_for_itself() {
    let later_alone = |policies, first| {
        let mut lab = Lab::of(policies);
        lab.done(first);
        lab.done(relaxed("b", 2));
        lab.crash_showing(&state(&[("b", 2)])).is_ok()
    };
    assert!(!later_alone("commit_order=any", relaxed("a", 1)));
    assert!(later_alone("commit_order=each", relaxed("a", 1)));
    assert!(!later_alone("commit_order=each", put("a", 1)));
    let mut lab = Lab::of("commit_order=each");
    lab.done(relaxed("a", 1));
    lab.done(Request::Sync);
    lab.done(relaxed("b", 2));
    assert!(lab.clone().crash_showing(&state(&[("b", 2)])).is_err());
    assert!(lab.clone().crash_showing(&state(&[("a", 1)])).is_ok());
    lab.done(put("a", 3));
    assert!(lab.clone().crash_showing(&state(&[("a", 1)])).is_err());
    lab.ask(batch(&[("c", 4), ("d", 5)]));
    let half = state(&[("a", 3), ("c", 4)]);
    assert!(lab.clone().crash_showing(&half).is_err());
    let whole = state(&[("a", 3), ("c", 4), ("d", 5)]);
    assert!(lab.crash_showing(&whole).is_ok());
}

/// Goal: one order has to explain all keys. Method: two batches that overlap, each of which wins on one key; then one that wins on both.
#[test]
fn one_order_explains_all_keys() {
    let mut lab = Lab::of("commit_order=any");
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
    let mut lab = Lab::of("commit_order=any");
    lab.ask(batch(&[("a", 1), ("b", 2)]));
    let half = lab.clone().crash_showing(&state(&[("a", 1)])).unwrap_err();
    assert_eq!(half.property, Property::AtomicWrites);
    lab.recover(&state(&[("a", 1), ("b", 2)]));
    let taken_back = lab.crash_showing(&state(&[])).unwrap_err();
    assert_eq!(taken_back.property, Property::NoResurrection);
}

/// Goal: a search that takes too long is undecided, and neither legal nor a violation. Method: two batches that overlap and delete the same keys, each of which wins
/// on one key more: a few keys are tried in every order, many are not.
#[test]
fn a_search_that_takes_too_long_is_undecided() {
    let names: Vec<String> = (0..14).map(|at| format!("k{at}")).collect();
    let judged = |keys: usize| {
        let mut lab = Lab::of("commit_order=any");
        let deletes = names[..keys].iter().map(|name| (&name[..], 0));
        for name in &names[..keys] {
            lab.done(put(name, 1));
        }
        for number in [2, 3] {
            let won = [("x", number), ("y", number)];
            let all: Vec<_> = deletes.clone().chain(won).collect();
            lab.ask(batch(&all));
        }
        lab.crash();
        let seen = lab.observe(&state(&[("x", 2), ("y", 3)]));
        let recovery = lab.oracle.judge(&seen, &lab.truth)?;
        lab.oracle.adopt(lab.now, &recovery, &seen, &lab.truth);
        Ok::<_, Box<Violation>>((recovery.is_undecided(), lab.oracle.counts().undecided))
    };
    assert_eq!(judged(4).unwrap_err().property, Property::Prefix);
    assert_eq!(judged(14).unwrap(), (true, 1));
}

/// Goal: reads of only committed writes may miss what is with the guest, and nothing else. Method: a get before and after the answer.
#[test]
fn reads_may_miss_what_is_not_answered() {
    let unanswered = |policies| {
        let mut lab = Lab::of(policies);
        let id = lab.ask(put("a", 1));
        lab.read(get("a"), &state(&[])).unwrap();
        lab.answer(id, Status::Ok, Body::Empty).is_ok()
    };
    assert!(
        !unanswered(""),
        "the write did not fail, so the read should have shown it"
    );
    assert!(unanswered("reads=committed"));
    let mut lab = Lab::of("reads=committed");
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
        let mut lab = Lab::of(policies);
        lab.ask(put("a", 1));
        lab.read(get("a"), &state(&[("a", 1)])).unwrap();
        assert!(lab.read(get("a"), &state(&[])).is_err(), "{policies}");
    }
    // Of two that overlap the one replaces the other, for good.
    let mut lab = Lab::of("commit_order=any\nreads=committed");
    lab.ask(put("a", 1));
    lab.ask(put("a", 2));
    lab.read(get("a"), &state(&[("a", 2)])).unwrap();
    lab.read(get("a"), &state(&[("a", 1)])).unwrap();
    assert!(lab.read(get("a"), &state(&[("a", 2)])).is_err());
}

/// Goal: the same for a write that failed with a device error. Method: seen, then not; and not seen, then seen, as it may be.
#[test]
fn an_uncertain_write_that_was_seen_stays_seen() {
    let mut lab = Lab::of("");
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
    let mut failed = Lab::of("");
    failed.truth.write_errors = 1;
    failed.truth.this_run.write_failures = 1;
    failed.failed(batch(&[("a", 1), ("b", 2)]), Status::IoError);
    let mut waiting = Lab::of("reads=committed");
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
    let mut lab = Lab::of("");
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
    let mut lab = Lab::of("");
    for (key, number) in [("a", 1), ("b", 2), ("c", 3)] {
        lab.done(put(key, number));
    }
    let entry = |key: &str, number| (key.as_bytes().to_vec(), crate::support::value(key, number));
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
        let mut lab = Lab::of(policies);
        lab.done(relaxed("a", 1));
        kill(&mut lab, &state(&[("a", 1)]));
        if synced {
            lab.done(Request::Sync);
        }
        let cut = lab.clone().crash_showing(&state(&[])).is_ok();
        (lab.kill_showing(&state(&[])), cut)
    };
    assert_eq!(after("", false), (false, false));
    assert_eq!(after("recovery_survives=power_cut", false), (false, true));
    assert_eq!(after("recovery_survives=power_cut", true), (false, false));
}

/// Goal: what such a recovery did not show stays gone, and work on top of it is judged. Method: a write that was lost comes back; a durable
/// write covers the recovered one.
#[test]
fn what_a_kill_has_lost_does_not_come_back() {
    let mut lab = Lab::of("recovery_survives=power_cut\nrelaxed_survives_kill=false");
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

/// Goal: the same where commits come in any order. Method: two writes that overlap, of which a kill leaves the later one; then a cut or another kill, with and
/// without a durable write on top.
#[test]
fn what_a_kill_leaves_in_any_order_may_be_lost_in_a_power_cut() {
    let mut lab = Lab::of("commit_order=any\nrecovery_survives=power_cut");
    lab.ask(put("a", 1));
    lab.ask(put("b", 2));
    kill(&mut lab, &state(&[("b", 2)]));
    assert!(lab.clone().crash_showing(&state(&[])).is_ok());
    assert!(lab.clone().crash_showing(&state(&[("b", 2)])).is_ok());
    for back in [&[("a", 1)][..], &[("a", 1), ("b", 2)]] {
        assert!(lab.clone().crash_showing(&state(back)).is_err(), "{back:?}");
    }
    assert!(lab.clone().kill_showing(&state(&[("b", 2)])));
    assert!(!lab.clone().kill_showing(&state(&[])));
    lab.done(put("c", 3));
    assert!(lab.clone().crash_showing(&state(&[("c", 3)])).is_err());
    assert!(!lab.clone().kill_showing(&state(&[("c", 3)])));
    assert!(
        lab.crash_showing(&state(&[("b", 2), ("c", 3)])).is_ok(),
        "all that was shown is there"
    );
}

/// Goal: which of two writes comes last is known once a recovery has shown it, and reads go by it. Method: two of one key that overlap; a kill shows the one, a cut
/// or a read the other, where the first need not survive and where it must.
#[test]
fn a_recovery_shows_which_of_two_writes_comes_last() {
    let after = |answered: bool| {
        let mut lab = Lab::of("commit_order=any\nrecovery_survives=power_cut");
        let first = lab.ask(put("a", 1));
        lab.ask(put("a", 2));
        if answered {
            lab.ack(first);
        }
        kill(&mut lab, &state(&[("a", 1)]));
        assert!(lab.clone().read(get("a"), &state(&[("a", 1)])).is_ok());
        assert!(lab.clone().read(get("a"), &state(&[("a", 2)])).is_err());
        assert!(lab.clone().crash_showing(&state(&[("a", 1)])).is_ok());
        lab.crash_showing(&state(&[("a", 2)])).is_ok()
    };
    assert!(
        after(false),
        "the cut may take the first back and leave the second"
    );
    assert!(!after(true), "both are there, and the first is the last");
}

/// Goal: a write of which a recovery leaves open whether it took effect is not taken to be there. Method: three that overlap in pairs, such that there is no order
/// of all of them; kills and a durable write on top.
#[test]
fn a_write_in_doubt_need_not_be_there() {
    let mut lab = Lab::of("commit_order=any\nrecovery_survives=power_cut");
    lab.ask(batch(&[("a", 1), ("c", 1)]));
    lab.done(put("c", 2));
    // It comes after the write of c, which comes after the batch: so the batch is not the last of a if this one is there.
    lab.ask(put("a", 3));
    let mut shown = state(&[("a", 1), ("c", 2)]);
    kill(&mut lab, &shown);
    kill(&mut lab, &shown);
    lab.done(put("d", 4));
    shown.extend(state(&[("d", 4)]));
    assert!(lab.clone().crash_showing(&shown).is_ok());
    kill(&mut lab, &shown);
    lab.recover(&shown);
    assert!(lab.crash_showing(&state(&[("d", 4)])).is_err());
}

/// Goal: an empty durable write covers what the policy says. Method: a relaxed write, then an empty batch, a delete of nothing, and a
/// delete of something.
#[test]
fn an_empty_commit_covers_what_the_guest_says() {
    let lost = |policies, commit: Request| {
        let mut lab = Lab::of(policies);
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
    let mut lab = Lab::of(lax);
    lab.done(put("b", 9));
    lab.done(Request::Delete {
        key: b"b".to_vec(),
        durability: kvsim_sim::api::Durability::Relaxed,
    });
    lab.done(delete("b"));
    assert!(lab.crash_showing(&state(&[("b", 9)])).is_err());
}

/// Goal: a snapshot that was taken before the reading back may be read there. Method: a get of a key that nobody writes, in a snapshot of which whoever
/// reads back knows nothing, then writes.
#[test]
fn a_snapshot_before_the_reading_back_changes_nothing() {
    let mut lab = Lab::of("");
    lab.done(put("a", 1));
    lab.crash();
    lab.oracle.defer(lab.now);
    let snapshot = lab.ask(Request::Snapshot);
    lab.answer(snapshot, Status::Ok, Body::Snapshot(1)).unwrap();
    let missing = lab.ask(Request::Get {
        key: b"never".to_vec(),
        snapshot: 1,
    });
    lab.answer(missing, Status::NotFound, Body::Empty).unwrap();
    lab.done(put("b", 2));
    lab.done(put("c", 3));
    lab.judge_late(&state(&[("a", 1), ("b", 2), ("c", 3)]))
        .unwrap();
}

/// Goal: work before a reading back is judged by what it finds at last. Method: a write that was lost or not, then one on top of it; reads
/// that fit each other, a read of a state that the reading back contradicts, and a write that is not there.
#[test]
fn work_before_the_reading_back_is_judged_late() {
    let late = |middle: &[(&str, u64)], end: &[(&str, u64)]| {
        let mut lab = Lab::of("");
        lab.done(put("a", 1));
        lab.ask(put("b", 2));
        lab.crash();
        lab.oracle.defer(lab.now);
        lab.read(get("b"), &state(middle)).unwrap();
        lab.done(put("c", 3));
        assert_eq!(lab.oracle.outstanding(), 0);
        lab.judge_late(&state(end)).map(|_| lab)
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

/// Goal: a write that was under way when the process was killed may be there or not, also where its key is written again before anything is read back, and
/// a power cut may take back what the recovery shows. Method: a delete under way; then a read of either state, a write of the key and the reading back; a
/// read of a third state is wrong.
#[test]
fn a_write_under_way_stays_open_until_it_is_read() {
    let late = |middle: &[(&str, u64)]| {
        let mut lab = Lab::of("recovery_survives=power_cut");
        lab.done(put("a", 1));
        lab.ask(delete("a"));
        lab.now += 1_000;
        lab.oracle.stopped(lab.now, Ending::Kill);
        lab.oracle.defer(lab.now);
        lab.read(get("a"), &state(middle)).unwrap();
        lab.done(put("a", 3));
        lab.judge_late(&state(&[("a", 3)])).is_ok()
    };
    assert!(late(&[("a", 1)]));
    assert!(late(&[]));
    assert!(!late(&[("a", 3)]));
}
