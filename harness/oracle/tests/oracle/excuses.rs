//! Excuses end: what the device did wrong excuses what it can explain, and nothing that comes later.
#![allow(missing_docs, reason = "a test")]

use crate::support::{Lab, get, put, relaxed, state};
use kvsim_oracle::{Limits, Opening, OracleConfig, Property};
use kvsim_sim::api::{Body, Durability, Reply, Request, Status};

/// A get that is answered with an error.
fn failed_get(lab: &mut Lab, status: Status) -> bool {
    let id = lab.ask(get("a"));
    lab.answer(id, status, Body::Empty).is_ok()
}

/// Goal: an error excuses the window of relaxed writes until the next recovery, and not for ever. Method: a flush that failed in this process run, in the one whose
/// recovery came before, and in an earlier one.
#[test]
fn an_error_of_an_earlier_process_run_excuses_no_window() {
    let mut lab = Lab::with(OracleConfig {
        relaxed_window_ns: Some(5_000),
        ..OracleConfig::default()
    });
    let late = |lab: &Lab| {
        let mut lab = lab.clone();
        lab.done(relaxed("a", 1));
        lab.now += 6_000;
        lab.crash_showing(&state(&[])).is_ok()
    };
    assert!(!late(&lab));
    lab.truth.failures = 1;
    lab.truth.this_run.flush_failures = 1;
    assert!(late(&lab));
    lab.recover(&state(&[]));
    assert!(late(&lab), "it may have been in the recovery");
    lab.truth.this_run.flush_failures = 0;
    lab.recover(&state(&[]));
    assert!(!late(&lab));
}

/// Goal: damage excuses the loss of the last write as long as it may be what struck it. Method: a write lost in the process run of a lie, and in a later one, while
/// the medium is damaged and when it is not any more.
#[test]
fn damage_that_is_gone_excuses_no_loss() {
    let mut lab = Lab::lying();
    let lost = |lab: &Lab| {
        let mut lab = lab.clone();
        lab.done(put("a", 1));
        lab.crash_showing(&state(&[])).is_ok()
    };
    assert!(!lost(&lab));
    lab.truth.lost_writes = 1;
    lab.truth.this_run.lies = 1;
    lab.truth.damaged_sectors = 1;
    assert!(lost(&lab));
    lab.truth.this_run.lies = 0;
    lab.recover(&state(&[]));
    assert!(lost(&lab), "it is damaged still");
    lab.truth.damaged_sectors = 0;
    assert!(lost(&lab), "it was when it was opened");
    lab.recover(&state(&[]));
    assert!(!lost(&lab));
    // Nor does it excuse that two recoveries of one image differ.
    lab.done(put("a", 1));
    lab.crash();
    let (one, other) = (lab.observe(&state(&[])), lab.observe(&state(&[("a", 1)])));
    assert!(lab.oracle.same_recovery(&one, &other, &lab.truth).is_err());
}

/// Goal: a flush that lied while clients worked before the reading back excuses what it lost. Method: such a lie, and a loss after it; then the same with the lie
/// before the guest was started.
#[test]
fn a_flush_that_lied_before_the_reading_back_counts() {
    let after = |lied_before: bool| {
        let mut lab = Lab::lying();
        lab.truth.flush_lies = u64::from(lied_before);
        lab.crash();
        lab.oracle.defer(lab.now);
        lab.done(put("a", 1));
        if !lied_before {
            lab.truth.flush_lies = 1;
            lab.truth.this_run.lies = 1;
        }
        lab.judge_late(&state(&[("a", 1)])).unwrap();
        lab.truth.this_run.lies = 0;
        lab.crash_showing(&state(&[])).is_ok()
    };
    assert!(after(false));
    assert!(!after(true));
}

/// Goal: a flush that lied before a cut excuses the loss of a write whose key nobody could read back at once: it was asked to be written again meanwhile. Method: such
/// a request that is refused, so the reading back shows what the recovery found; and one of which nobody knows whether it was done; each without the lie too.
#[test]
fn a_lie_excuses_what_is_read_late() {
    let late = |lied: bool, status: Status| {
        let mut lab = Lab::lying();
        lab.done(put("a", 1));
        lab.done(put("a", 2));
        lab.truth.flush_lies = u64::from(lied);
        lab.truth.this_run.lies = u64::from(lied);
        lab.crash();
        lab.oracle.defer(lab.now);
        lab.truth.this_run.write_failures = 1;
        let id = lab.ask(put("a", 3));
        lab.answer(id, status, Body::Empty).unwrap();
        lab.judge_late(&state(&[("a", 1)])).is_ok()
    };
    for status in [Status::ReadOnly, Status::IoError] {
        assert!(late(true, status), "{status:?}");
        assert!(!late(false, status), "{status:?}");
    }
}

/// Goal: a read that failed excuses the requests that it may have been for. Method: gets that are refused before it, in which it fails, and that are handed in later.
#[test]
fn a_failed_read_excuses_no_later_request() {
    let mut lab = Lab::new();
    let opened = Reply {
        id: 0,
        status: Status::Ok,
        body: Body::Empty,
    };
    lab.truth.this_run.read_failures = 1;
    assert_eq!(
        lab.oracle.opened(&opened, &lab.truth).unwrap(),
        Opening::Ready
    );
    assert!(!failed_get(&mut lab.clone(), Status::IoError), "before it");
    let mut cannot_write = lab.clone();
    cannot_write.truth.this_run.write_failures = 1;
    cannot_write.truth.this_run.flush_failures = 1;
    assert!(
        !failed_get(&mut cannot_write, Status::IoError),
        "a read is no write"
    );
    let id = lab.ask(get("a"));
    let other = lab.ask(get("b"));
    lab.truth.this_run.read_failures = 2;
    lab.answer(id, Status::IoError, Body::Empty).unwrap();
    lab.answer(other, Status::IoError, Body::Empty).unwrap();
    let id = lab.ask(get("a"));
    let late = lab.answer(id, Status::IoError, Body::Empty).unwrap_err();
    assert_eq!(late.property, Property::NoFalseRefusal);
}

/// Goal: who has an index on the device is not accused where it cannot be read for a write, and nobody else is excused. Method: puts before the first failed read, with it, and behind it.
#[test]
fn a_failed_read_excuses_the_writes_that_may_need_it() {
    let mut lab = Lab::new();
    for status in [Status::IoError, Status::ReadOnly] {
        let mut sound = lab.clone();
        let id = sound.ask(put("a", 1));
        let refused = sound.answer(id, status, Body::Empty).unwrap_err();
        assert_eq!(refused.property, Property::NoFalseRefusal, "{status:?}");
    }
    let id = lab.ask(put("a", 1));
    lab.truth.this_run.read_failures = 1;
    lab.answer(id, Status::IoError, Body::Empty).unwrap();
    let later = lab.ask(put("a", 2));
    let late = lab.clone().answer(later, Status::IoError, Body::Empty);
    assert_eq!(late.unwrap_err().property, Property::NoFalseRefusal);
    lab.answer(later, Status::ReadOnly, Body::Empty).unwrap();
}

/// Goal: a request of the device that failed for want of space excuses the writes that were under way, and nothing else. Method: a put and a get with such a failure
/// between question and answer, and a put after it.
#[test]
fn a_device_without_space_excuses_the_writes_under_way() {
    let mut lab = Lab::on_a_device();
    let (write, read) = (lab.ask(put("a", 1)), lab.ask(get("b")));
    lab.truth.this_run.no_space = 1;
    lab.answer(write, Status::NoSpace, Body::Empty).unwrap();
    let of_read = lab.clone().answer(read, Status::NoSpace, Body::Empty);
    assert_eq!(of_read.unwrap_err().property, Property::NoFalseRefusal);
    let later = lab.ask(put("a", 2));
    let of_later = lab.answer(later, Status::NoSpace, Body::Empty);
    assert_eq!(of_later.unwrap_err().property, Property::NoFalseRefusal);
}

/// Goal: `NoSpace` is excused from the share of the device on that the guest says it can hold, and not before. Method: two fifths of half of a MiB; values of a tenth of
/// the device each, one, and three.
#[test]
fn a_full_device_is_one_that_holds_what_it_can() {
    let holding = |values: u64| {
        let mut lab = Lab::with(OracleConfig {
            limits: Limits {
                data_percent: 50,
                usable_percent: 40,
                ..Limits::default()
            },
            ..OracleConfig::default()
        });
        lab.truth.capacity_bytes = 1 << 20;
        for number in 1..=values {
            lab.done(Request::Put {
                key: format!("key {number}").into_bytes(),
                value: vec![0; 104_857],
                durability: Durability::Durable,
            });
        }
        assert!(!failed_get(&mut lab, Status::NoSpace), "a read takes none");
        let id = lab.ask(put("a", 1));
        lab.answer(id, Status::NoSpace, Body::Empty)
    };
    assert_eq!(holding(1).unwrap_err().property, Property::NoFalseRefusal);
    holding(3).unwrap();
}
