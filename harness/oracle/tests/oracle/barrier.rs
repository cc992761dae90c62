//! A device whose flush only orders: a power cut may take back the last commits, and nothing else is excused.

use crate::support::{Lab, State, batch, delete, get, put, state};
use kvsim_oracle::{OracleConfig, Property};
use kvsim_sim::GuestPolicies;
use kvsim_sim::api::{Request, Status};

fn ordering() -> Lab {
    Lab::with(OracleConfig {
        keep_history: true,
        flush_only_orders: true,
        ..OracleConfig::default()
    })
}

/// Three acknowledged writes, and the state after each of them.
fn three(lab: &mut Lab) -> [State; 4] {
    lab.done(put("a", 1));
    lab.done(batch(&[("a", 2), ("b", 3)]));
    lab.done(delete("b"));
    [
        state(&[]),
        state(&[("a", 1)]),
        state(&[("a", 2), ("b", 3)]),
        state(&[("a", 2)]),
    ]
}

/// Goal: a power cut may leave any prefix and nothing else. Method: all four prefixes of three acknowledged writes, a hole, half a batch, and a value
/// that nobody wrote.
#[test]
fn a_power_cut_may_take_back_the_last_commits() {
    let mut lab = ordering();
    let prefixes = three(&mut lab);
    lab.truth.power_cuts = 1;
    for prefix in &prefixes {
        lab.clone().crash_showing(prefix).unwrap();
    }
    for wrong in [
        state(&[("b", 3)]),
        state(&[("a", 1), ("b", 3)]),
        state(&[("a", 7)]),
    ] {
        lab.clone().crash_showing(&wrong).unwrap_err();
    }
    let recovery = lab.recover(&prefixes[1]);
    assert_eq!(recovery.excused_losses(), 2);
}

/// Goal: a killed process loses nothing, and neither does a power cut where flushes make durable. Method: the same prefixes.
#[test]
fn a_killed_process_takes_nothing_back() {
    let mut killed = ordering();
    let prefixes = three(&mut killed);
    let mut durable = Lab::with(OracleConfig {
        keep_history: true,
        ..OracleConfig::default()
    });
    three(&mut durable);
    durable.truth.power_cuts = 1;
    for lab in [killed, durable] {
        lab.clone().crash_showing(&prefixes[3]).unwrap();
        for prefix in &prefixes[..3] {
            let violation = lab.clone().crash_showing(prefix).unwrap_err();
            assert_ne!(violation.property, Property::Prefix);
        }
    }
}

/// Goal: what a recovery after a power cut has shown is on the medium, what one after a kill has shown need not be. Method: a cut, a kill and a cut,
/// with a write before each.
#[test]
fn what_was_shown_after_a_power_cut_stays() {
    let mut lab = ordering();
    lab.done(put("a", 1));
    lab.truth.power_cuts = 1;
    lab.recover(&state(&[("a", 1)]));
    lab.done(put("b", 2));
    lab.recover(&state(&[("a", 1), ("b", 2)]));
    lab.done(put("c", 3));
    lab.truth.power_cuts = 2;
    for shown in [
        &[("a", 1)][..],
        &[("a", 1), ("b", 2)],
        &[("a", 1), ("b", 2), ("c", 3)],
    ] {
        lab.clone().crash_showing(&state(shown)).unwrap();
    }
    lab.clone().crash_showing(&state(&[])).unwrap_err();
    lab.crash_showing(&state(&[("a", 1), ("c", 3)]))
        .unwrap_err();
}

/// Goal: what a power cut took back stays gone. Method: the value that it took back, shown after the next kill.
#[test]
fn what_was_taken_back_does_not_return() {
    let mut lab = ordering();
    lab.done(put("a", 1));
    lab.done(put("a", 2));
    lab.truth.power_cuts = 1;
    lab.recover(&state(&[("a", 1)]));
    lab.clone().crash_showing(&state(&[("a", 1)])).unwrap();
    let violation = lab.crash_showing(&state(&[("a", 2)])).unwrap_err();
    assert_eq!(violation.property, Property::NoResurrection);
}

/// Goal: what a key may have held before work that went on unread stays possible, whatever that work wrote over it, for the next power cut may bring it back.
/// Method: a write that the first cut may have taken, an overwrite or a delete of the same key before anything is read, a kill, and a cut that takes the overwrite back.
#[test]
fn what_was_never_read_may_come_back_with_the_next_cut() {
    for last in [put("k", 7), delete("k")] {
        let mut lab = ordering();
        lab.done(put("a", 1));
        lab.truth.power_cuts = 1;
        lab.recover(&state(&[("a", 1)]));
        lab.done(delete("k"));
        lab.done(put("k", 2));
        lab.truth.power_cuts = 2;
        lab.crash();
        lab.oracle.defer(lab.now);
        lab.done(put("k", 5));
        lab.done(last.clone());
        let after = match &last {
            Request::Delete { .. } => state(&[("a", 1)]),
            _ => state(&[("a", 1), ("k", 7)]),
        };
        lab.judge_late(&after).unwrap();
        // A killed process takes nothing back, and shows it.
        lab.recover(&after);
        lab.truth.power_cuts = 3;
        for before in [&[("a", 1)][..], &[("a", 1), ("k", 2)]] {
            lab.clone().crash_showing(&state(before)).unwrap();
        }
        lab.crash_showing(&state(&[("k", 2)])).unwrap_err();
    }
}

/// Goal: a write of which nobody knows whether it took effect stays possible under work that goes on unread, for a power cut may go back to it. Method: a write that
/// fails with a device error, one of another key behind it, a kill, an unread overwrite, and a cut that takes the overwrite back.
#[test]
fn an_uncertain_write_under_unread_work_stays_possible() {
    let mut lab = ordering();
    lab.done(put("k", 1));
    lab.truth.this_run.flush_failures = 1;
    lab.failed(put("k", 2), Status::IoError);
    lab.failed(put("b", 3), Status::IoError);
    lab.crash();
    lab.oracle.defer(lab.now);
    lab.done(put("k", 9));
    lab.judge_late(&state(&[("k", 9), ("b", 3)])).unwrap();
    lab.truth.this_run.flush_failures = 0;
    lab.truth.power_cuts = 1;
    for legal in [
        &[][..],
        &[("k", 1)],
        &[("k", 2)],
        &[("k", 2), ("b", 3)],
        &[("k", 9), ("b", 3)],
    ] {
        lab.clone().crash_showing(&state(legal)).unwrap();
    }
    for wrong in [&[("b", 3)][..], &[("k", 4)]] {
        lab.clone().crash_showing(&state(wrong)).unwrap_err();
    }
}

/// Goal: of a write of which nobody knows whether it took effect, a later one of the same key that did says nothing, and a power cut may bring it back. Method: two
/// writes that fail with a device error, a kill after which the second is there, and a cut that takes it back.
#[test]
fn an_uncertain_write_under_another_stays_possible() {
    let mut lab = ordering();
    lab.done(put("k", 1));
    lab.truth.this_run.flush_failures = 1;
    lab.failed(put("k", 2), Status::IoError);
    lab.failed(put("k", 3), Status::IoError);
    assert!(lab.kill_showing(&state(&[("k", 3)])));
    let shown = lab.observe(&state(&[("k", 3)]));
    let recovery = lab.oracle.judge(&shown, &lab.truth).unwrap();
    lab.oracle.adopt(lab.now, &recovery, &shown, &lab.truth);
    lab.truth.this_run.flush_failures = 0;
    lab.truth.power_cuts = 1;
    for legal in [&[][..], &[("k", 1)], &[("k", 2)], &[("k", 3)]] {
        lab.clone().crash_showing(&state(legal)).unwrap();
    }
    lab.crash_showing(&state(&[("k", 4)])).unwrap_err();
}

/// Goal: what reads have shown before a power cut does not bind those after it, also if these come before the recovery is read back. Method: a guest whose reads see what is
/// answered; reads of a value and of what overwrites it, which a cut takes back together with a write before it, and a read of the value.
#[test]
fn reads_before_a_power_cut_say_nothing_of_those_after_it() {
    let mut lab = Lab::with(OracleConfig {
        keep_history: true,
        flush_only_orders: true,
        policies: GuestPolicies::parse("reads=committed").unwrap(),
        ..OracleConfig::default()
    });
    lab.done(put("k", 1));
    lab.read(get("k"), &state(&[("k", 1)])).unwrap();
    lab.done(put("b", 5));
    lab.done(put("k", 2));
    lab.read(get("k"), &state(&[("k", 2)])).unwrap();
    let wrong = lab.clone().read(get("k"), &state(&[("k", 1)]));
    assert_eq!(wrong.unwrap_err().property, Property::ReadsAgree);
    lab.truth.power_cuts = 1;
    lab.crash();
    lab.oracle.defer(lab.now);
    let judge = |shown: u64, b: &[(&str, u64)]| {
        let mut lab = lab.clone();
        lab.read(get("k"), &state(&[("k", shown)])).unwrap();
        lab.done(put("k", 9));
        lab.judge_late(&state(&[&[("k", 9)], b].concat()))
    };
    judge(1, &[]).unwrap();
    judge(1, &[("b", 5)]).unwrap();
    judge(2, &[("b", 5)]).unwrap();
    judge(3, &[("b", 5)]).unwrap_err();
}
