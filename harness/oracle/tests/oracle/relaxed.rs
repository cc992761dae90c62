//! Relaxed writes: what covers them, and how long they may be lost.
#![allow(missing_docs, reason = "a test")]

use crate::support::{Lab, put, relaxed, state};
use kvsim_oracle::OracleConfig;
use kvsim_sim::api::{Durability, Request};

/// With a window of relaxed writes.
fn windowed(window_ns: u64) -> Lab {
    Lab::with(OracleConfig {
        relaxed_window_ns: Some(window_ns),
        ..OracleConfig::default()
    })
}

/// Goal: a relaxed write that changes nothing is answered at once and covers nothing, however old it is and whatever survives a kill; one that changes something does.
/// Method: a write that was not answered, then an empty batch, a delete of nothing, and a put.
#[test]
fn a_relaxed_write_that_changes_nothing_covers_nothing() {
    let relaxed_batch = |mutations| Request::Batch {
        mutations,
        durability: Durability::Relaxed,
    };
    let nothing = Request::Delete {
        key: b"z".to_vec(),
        durability: Durability::Relaxed,
    };
    let lost = |write: Request| {
        let mut lab = windowed(0);
        lab.ask(put("a", 1));
        lab.done(write);
        lab.now += 1_000_000;
        let cut = lab.clone().crash_showing(&state(&[])).is_ok();
        (cut, lab.kill_showing(&state(&[])))
    };
    assert_eq!(lost(relaxed_batch(Vec::new())), (true, true));
    assert_eq!(lost(nothing.clone()), (true, true));
    assert_eq!(lost(relaxed("b", 2)), (false, false));
    // The same delete changes something where the key may be there.
    let mut lab = windowed(0);
    lab.ask(put("z", 1));
    lab.done(nothing);
    lab.now += 1_000_000;
    assert!(lab.clone().crash_showing(&state(&[])).is_ok());
    assert!(lab.crash_showing(&state(&[("z", 1)])).is_err());
}

/// Goal: relaxed writes survive a kill unless the guest says otherwise, and need not survive a power cut. Method: one, lost by each.
#[test]
fn relaxed_writes_survive_a_kill() {
    let lost = |policies| {
        let mut lab = Lab::of(policies);
        lab.done(relaxed("a", 1));
        let cut = lab.clone().crash_showing(&state(&[])).is_ok();
        (lab.kill_showing(&state(&[])), cut)
    };
    assert_eq!(lost(""), (false, true));
    assert_eq!(lost("relaxed_survives_kill=false"), (true, true));
}

/// Goal: a window leaves the device the time that it takes, and promises nothing once an operation failed. Method: a write that is old, on
/// a quick, a slow and a failing device.
#[test]
fn the_window_is_judged_with_the_time_of_the_device() {
    let mut lab = windowed(5_000);
    lab.now = 10_000;
    lab.done(relaxed("a", 1));
    let acknowledged = lab.now;
    lab.now += 6_000;
    let mut slow = lab.clone();
    // It may come to the write and a flush before its own, so four such operations are granted; one that ended before the write does not count.
    slow.truth
        .slowest
        .note(acknowledged - 500, acknowledged + 500);
    let mut slow_before = lab.clone();
    slow_before.truth.slowest.note(0, acknowledged - 500);
    // Each of these operations is submitted in a call of the guest.
    let mut busy = lab.clone();
    busy.truth
        .slowest_calls
        .note(acknowledged - 500, acknowledged + 500);
    let mut failing = lab.clone();
    failing.truth.failures = 1;
    assert!(lab.crash_showing(&state(&[])).is_err());
    assert!(slow.crash_showing(&state(&[])).is_ok());
    assert!(slow_before.crash_showing(&state(&[])).is_err());
    assert!(busy.crash_showing(&state(&[])).is_ok());
    assert!(failing.crash_showing(&state(&[])).is_ok());
}
