//! Each property is fired by small histories made by hand, and by nothing but what breaks it.
//!
//! It is long because it is a list: each history is a few lines, and is read beside those that differ from it in one step.

use crate::support::{Judged, Lab, batch, delete, get, put, relaxed, serve, state, value};
use kvsim_oracle::{DeviceTruth, Ending, OracleConfig, Property, RunFaults, Symptom};
use kvsim_sim::api::{Body, Direction, Reply, Request, Scan, Status};

fn scan(direction: Direction, snapshot: u64) -> Request {
    Request::Scan(Scan {
        snapshot,
        direction,
        start: None,
        end: None,
        limit: 100,
        max_bytes: 1 << 20,
    })
}

/// Ten acknowledged writes of ten keys.
fn ten() -> (Lab, Vec<(&'static str, u64)>) {
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let entries: Vec<_> = keys.into_iter().zip(1..).collect();
    let mut lab = Lab::new();
    entries
        .iter()
        .for_each(|(key, number)| lab.done(put(key, *number)));
    (lab, entries)
}

fn lost_write() -> Judged {
    let (mut lab, entries) = ten();
    lab.crash_showing(&state(&entries[..9]))
}

fn lost_all() -> Judged {
    ten().0.crash_showing(&state(&[]))
}

fn lost_one_of_many() -> Judged {
    let (mut lab, mut entries) = ten();
    entries.remove(4);
    lab.crash_showing(&state(&entries))
}

fn lost_overwrite() -> Judged {
    let (mut lab, entries) = ten();
    lab.done(put("a", 20));
    lab.done(put("b", 21));
    let mut shown = state(&entries);
    shown.insert(b"b".to_vec(), value("b", 21));
    lab.crash_showing(&shown)
}

fn lost_synced() -> Judged {
    let mut lab = Lab::new();
    lab.done(relaxed("a", 1));
    lab.done(Request::Sync);
    lab.done(relaxed("b", 2));
    lab.crash_showing(&state(&[]))
}

fn lost_before_a_durable_one() -> Judged {
    let mut lab = Lab::new();
    lab.done(relaxed("a", 1));
    lab.done(put("b", 2));
    lab.crash_showing(&state(&[("b", 2)]))
}

fn lost_after_the_window() -> Judged {
    let window = OracleConfig {
        relaxed_window_ns: Some(500),
        relaxed_slack_ns: 100,
        ..OracleConfig::default()
    };
    let mut lab = Lab::with(window);
    lab.done(relaxed("a", 1));
    lab.crash_showing(&state(&[]))
}

fn lost_after_a_close() -> Judged {
    let mut lab = Lab::new();
    lab.done(relaxed("a", 1));
    lab.done(Request::Close);
    lab.crash_showing(&state(&[]))
}

fn false_alarm_at_opening() -> Judged {
    let mut lab = Lab::new();
    let reply = Reply {
        id: 0,
        status: Status::Corruption,
        body: Body::Message("bad frame".into()),
    };
    lab.oracle
        .opened(&reply, &DeviceTruth::default())
        .map(|_| ())
}

/// An opening that is answered so, after a recovery.
fn reopened(lab: &mut Lab, status: Status) -> Judged {
    lab.oracle.stopped(lab.now, Ending::Crash);
    let reply = Reply {
        id: 0,
        status,
        body: Body::Empty,
    };
    lab.oracle.opened(&reply, &lab.truth).map(|_| ())
}

fn refused_for_nothing() -> Judged {
    let mut lab = Lab::on_a_device();
    lab.done(put("a", 1));
    reopened(&mut lab, Status::NoSpace)
}

fn reopening_is_invalid() -> Judged {
    let mut lab = Lab::new();
    lab.recover(&state(&[]));
    reopened(&mut lab, Status::Invalid)
}

fn io_error_after_its_process_run() -> Judged {
    let mut lab = Lab::new();
    lab.truth.write_errors = 1;
    lab.truth.this_run.write_failures = 1;
    lab.failed(put("a", 1), Status::IoError);
    lab.truth.this_run = RunFaults::default();
    lab.recover(&state(&[]));
    let id = lab.ask(put("a", 2));
    lab.answer(id, Status::IoError, Body::Empty)
}

fn damage_after_it_was_overwritten() -> Judged {
    let mut lab = Lab::lying();
    lab.done(put("a", 1));
    lab.truth.bit_rot = 1;
    lab.truth.damaged_sectors = 1;
    lab.truth.this_run.damaged_reads = 1;
    let id = lab.ask(get("a"));
    lab.answer(id, Status::Corruption, Body::Empty)?;
    lab.truth.damaged_sectors = 0;
    lab.truth.this_run = RunFaults::default();
    lab.recover(&state(&[("a", 1)]));
    let id = lab.ask(get("a"));
    lab.answer(id, Status::Corruption, Body::Empty)
}

fn answered(request: Request, status: Status) -> Judged {
    let mut lab = Lab::on_a_device();
    let id = lab.ask(request);
    lab.answer(id, status, Body::Empty)
}

fn a_put_is_invalid() -> Judged {
    answered(put("a", 1), Status::Invalid)
}

fn no_space_on_an_empty_device() -> Judged {
    answered(put("a", 1), Status::NoSpace)
}

fn read_only_without_a_failure() -> Judged {
    answered(put("a", 1), Status::ReadOnly)
}

fn closed_without_a_close() -> Judged {
    answered(put("a", 1), Status::Closed)
}

fn a_get_is_read_only() -> Judged {
    let mut lab = Lab::new();
    lab.truth.this_run.write_failures = 1;
    let id = lab.ask(get("a"));
    lab.answer(id, Status::ReadOnly, Body::Empty)
}

fn a_write_fails_by_an_older_read() -> Judged {
    let mut lab = Lab::new();
    let id = lab.ask(get("a"));
    lab.truth.this_run.read_failures = 1;
    lab.answer(id, Status::IoError, Body::Empty)?;
    let id = lab.ask(put("a", 1));
    lab.answer(id, Status::IoError, Body::Empty)
}

fn a_release_is_invalid() -> Judged {
    let mut lab = Lab::new();
    let id = lab.ask(Request::Snapshot);
    lab.answer(id, Status::Ok, Body::Snapshot(1))?;
    let id = lab.ask(Request::Release { snapshot: 1 });
    lab.answer(id, Status::Invalid, Body::Empty)
}

fn an_empty_key_is_taken() -> Judged {
    answered(put("", 1), Status::Ok)
}

fn an_unknown_snapshot_is_read() -> Judged {
    let mut lab = Lab::new();
    let id = lab.ask(scan(Direction::Forward, 9));
    let body = Body::Entries {
        entries: Vec::new(),
        more: false,
    };
    lab.answer(id, Status::Ok, body)
}

fn a_released_snapshot_is_released() -> Judged {
    let mut lab = Lab::new();
    let id = lab.ask(Request::Snapshot);
    lab.answer(id, Status::Ok, Body::Snapshot(1))?;
    lab.done(Request::Release { snapshot: 1 });
    let id = lab.ask(Request::Release { snapshot: 1 });
    lab.answer(id, Status::Ok, Body::Empty)
}

fn half_a_batch_with_a_bad_member() -> Judged {
    let mut lab = Lab::new();
    lab.failed(batch(&[("a", 1), ("", 2)]), Status::Invalid);
    lab.crash_showing(&state(&[("a", 1)]))
}

fn dead_data_takes_all_space() -> Judged {
    let mut lab = Lab::on_a_device();
    (1..=1_000).for_each(|number| lab.done(put("a", number)));
    let id = lab.ask(put("a", 1_001));
    lab.answer(id, Status::NoSpace, Body::Empty)
}

fn a_read_is_refused_after_recovery() -> Judged {
    let (mut lab, _) = ten();
    lab.crash();
    let seen = lab.observe_with(|_| Reply {
        id: 7,
        status: Status::Invalid,
        body: Body::Empty,
    });
    lab.oracle.judge(&seen, &lab.truth).map(|_| ())
}

fn false_alarm_of_a_read() -> Judged {
    let mut lab = Lab::new();
    let id = lab.ask(get("a"));
    lab.answer(id, Status::IoError, Body::Empty)
}

fn false_alarm_after_recovery() -> Judged {
    let (mut lab, _) = ten();
    lab.crash();
    let seen = lab.observe_with(|_| Reply {
        id: 7,
        status: Status::Corruption,
        body: Body::Empty,
    });
    lab.oracle.judge(&seen, &lab.truth).map(|_| ())
}

fn half_a_batch() -> Judged {
    let mut lab = Lab::new();
    lab.ask(batch(&[("a", 1), ("b", 2), ("c", 3)]));
    lab.crash_showing(&state(&[("a", 1), ("c", 3)]))
}

fn half_an_acknowledged_batch() -> Judged {
    let mut lab = Lab::new();
    lab.done(put("a", 1));
    lab.done(batch(&[("a", 2), ("b", 3)]));
    lab.crash_showing(&state(&[("a", 1), ("b", 3)]))
}

fn half_a_batch_with_a_delete() -> Judged {
    let mut lab = Lab::new();
    lab.done(put("a", 1));
    lab.ask(batch(&[("a", 0), ("b", 3)]));
    lab.crash_showing(&state(&[("a", 1), ("b", 3)]))
}

fn half_a_failed_batch() -> Judged {
    let mut lab = Lab::new();
    lab.truth.write_errors = 1;
    lab.truth.this_run.write_failures = 1;
    lab.failed(batch(&[("a", 1), ("b", 2)]), Status::IoError);
    lab.done(put("c", 3));
    lab.crash_showing(&state(&[("a", 1), ("c", 3)]))
}

fn half_a_value() -> Judged {
    let mut lab = Lab::new();
    lab.ask(put("a", 1));
    let mut shown = state(&[("a", 1)]);
    shown.get_mut(&b"a"[..]).unwrap().truncate(50);
    lab.crash_showing(&shown)
}

fn hole() -> Judged {
    let mut lab = Lab::new();
    lab.done(put("a", 1));
    lab.ask(put("b", 2));
    lab.ask(put("c", 3));
    lab.crash_showing(&state(&[("a", 1), ("c", 3)]))
}

fn hole_among_relaxed() -> Judged {
    let mut lab = Lab::new();
    (2..9).for_each(|number| {
        lab.done(relaxed(
            "abcdefghi".get(number..=number).unwrap(),
            number as u64,
        ))
    });
    lab.crash_showing(&state(&[("c", 2), ("e", 4), ("f", 5), ("g", 6)]))
}

fn refused_write_is_there() -> Judged {
    let mut lab = Lab::new();
    lab.failed(put("a", 1), Status::NoSpace);
    lab.crash_showing(&state(&[("a", 1)]))
}

fn unknown_key() -> Judged {
    Lab::new().crash_showing(&state(&[("x", 1)]))
}

fn deleted_is_back() -> Judged {
    let mut lab = Lab::new();
    lab.done(put("a", 1));
    lab.done(delete("a"));
    lab.done(put("b", 2));
    lab.crash_showing(&state(&[("a", 1), ("b", 2)]))
}

fn the_last_delete_is_lost() -> Judged {
    let mut lab = Lab::new();
    lab.done(put("a", 1));
    lab.done(delete("a"));
    lab.crash_showing(&state(&[("a", 1)]))
}

fn much_older_value() -> Judged {
    let mut lab = Lab::new();
    (1..=3).for_each(|number| lab.done(put("a", number)));
    lab.done(put("b", 4));
    lab.crash_showing(&state(&[("a", 1), ("b", 4)]))
}

fn older_than_the_base() -> Judged {
    let mut lab = Lab::new();
    lab.done(put("a", 1));
    lab.done(put("a", 2));
    lab.recover(&state(&[("a", 2)]));
    lab.crash_showing(&state(&[("a", 1)]))
}

fn deleted_before_the_base_is_back() -> Judged {
    let mut lab = Lab::new();
    lab.done(put("a", 1));
    lab.done(delete("a"));
    lab.recover(&state(&[]));
    lab.crash_showing(&state(&[("a", 1)]))
}

fn forgotten_for_long_is_back() -> Judged {
    let mut lab = Lab::new();
    for number in 1..=30 {
        lab.done(put("a", number));
        lab.recover(&state(&[("a", number)]));
    }
    lab.crash_showing(&state(&[("a", 2)]))
}

fn lost_unacknowledged_is_back() -> Judged {
    let mut lab = Lab::new();
    lab.ask(put("a", 1));
    lab.recover(&state(&[]));
    lab.done(put("b", 2));
    lab.crash_showing(&state(&[("a", 1), ("b", 2)]))
}

fn shown_is_taken_back() -> Judged {
    let mut lab = Lab::new();
    lab.ask(put("a", 1));
    lab.recover(&state(&[("a", 1)]));
    lab.crash_showing(&state(&[]))
}

fn running_get_of_a_dead_write() -> Judged {
    let mut lab = Lab::new();
    lab.ask(put("a", 1));
    lab.recover(&state(&[]));
    lab.read(get("a"), &state(&[("a", 1)]))
}

fn get_shows_an_older_value() -> Judged {
    let mut lab = Lab::new();
    lab.done(put("a", 1));
    lab.done(put("a", 2));
    lab.read(get("a"), &state(&[("a", 1)]))
}

fn get_misses_a_write_in_flight_that_succeeds() -> Judged {
    let mut lab = Lab::new();
    let write = lab.ask(put("a", 1));
    lab.read(get("a"), &state(&[])).unwrap();
    lab.answer(write, Status::Ok, Body::Empty)
}

fn get_shows_a_write_that_is_then_refused() -> Judged {
    let mut lab = Lab::new();
    let write = lab.ask(put("a", 1));
    lab.read(get("a"), &state(&[("a", 1)])).unwrap();
    lab.answer(write, Status::NoSpace, Body::Empty)
}

fn get_shows_another_keys_value() -> Judged {
    let mut lab = Lab::new();
    lab.done(put("a", 1));
    lab.done(put("b", 2));
    let mut mixed = state(&[("a", 1)]);
    mixed.insert(b"a".to_vec(), value("b", 2));
    lab.read(get("a"), &mixed)
}

fn scan_misses_a_key() -> Judged {
    let (mut lab, mut entries) = ten();
    entries.remove(9);
    lab.read(scan(Direction::Reverse, 0), &state(&entries))
}

fn scan_shows_a_deleted_key() -> Judged {
    let (mut lab, entries) = ten();
    lab.done(delete("c"));
    lab.read(scan(Direction::Forward, 0), &state(&entries))
}

fn scan_is_out_of_order() -> Judged {
    let (mut lab, entries) = ten();
    let request = scan(Direction::Forward, 0);
    let id = lab.ask(request.clone());
    let Reply {
        status,
        body: Body::Entries { mut entries, more },
        ..
    } = serve(&state(&entries), id, &request)
    else {
        panic!("a scan gives entries")
    };
    entries.swap(3, 4);
    lab.answer(id, status, Body::Entries { entries, more })
}

fn snapshot_moves() -> Judged {
    let mut lab = Lab::new();
    lab.done(put("a", 1));
    let id = lab.ask(Request::Snapshot);
    lab.answer(id, Status::Ok, Body::Snapshot(5)).unwrap();
    lab.done(put("a", 2));
    lab.read(scan(Direction::Forward, 5), &state(&[("a", 1)]))
        .unwrap();
    lab.read(scan(Direction::Forward, 5), &state(&[("a", 2)]))
}

fn snapshot_vanishes() -> Judged {
    let mut lab = Lab::new();
    let id = lab.ask(Request::Snapshot);
    lab.answer(id, Status::Ok, Body::Snapshot(5)).unwrap();
    let id = lab.ask(Request::Get {
        key: b"a".to_vec(),
        snapshot: 5,
    });
    lab.answer(id, Status::Invalid, Body::Empty)
}

fn get_and_scan_differ_after_recovery() -> Judged {
    let (mut lab, entries) = ten();
    lab.done(put("a", 20));
    lab.crash();
    let (scanned, mut got) = (state(&entries), state(&entries));
    got.insert(b"a".to_vec(), value("a", 20));
    let seen = lab.observe_with(|request| {
        serve(
            if matches!(request, Request::Get { .. }) {
                &got
            } else {
                &scanned
            },
            7,
            request,
        )
    });
    lab.oracle.judge(&seen, &lab.truth).map(|_| ())
}

fn reverse_scan_differs_after_recovery() -> Judged {
    let (mut lab, entries) = ten();
    lab.check.gets_max = 0;
    lab.crash();
    let seen = lab.observe_with(|request| match request {
        Request::Scan(scan) if scan.direction == Direction::Reverse => {
            serve(&state(&entries[..9]), 7, request)
        }
        _ => serve(&state(&entries), 7, request),
    });
    lab.oracle.judge(&seen, &lab.truth).map(|_| ())
}

fn two_recoveries_differ() -> Judged {
    let mut lab = Lab::new();
    lab.ask(put("a", 1));
    lab.crash();
    let (first, second) = (lab.observe(&state(&[("a", 1)])), lab.observe(&state(&[])));
    lab.oracle.judge(&first, &lab.truth).unwrap();
    lab.oracle.judge(&second, &lab.truth).unwrap();
    lab.oracle.same_recovery(&first, &second, &lab.truth)
}

fn a_cut_recovery_showed_more() -> Judged {
    let mut lab = Lab::new();
    lab.ask(put("a", 1));
    lab.crash();
    let seen = lab.observe(&state(&[("a", 1)]));
    lab.oracle.interrupted(&seen);
    lab.crash_showing(&state(&[]))
}

fn later_work_is_lost() -> Judged {
    let mut lab = Lab::new();
    lab.done(put("a", 1));
    lab.recover(&state(&[("a", 1)]));
    lab.done(put("b", 2));
    lab.crash_showing(&state(&[("a", 1)]))
}

fn later_work_without_a_flush_is_lost() -> Judged {
    let mut lab = Lab::new();
    lab.recover(&state(&[]));
    lab.truth.last_flush_completed_ns = Some(1);
    lab.done(put("b", 2));
    lab.crash_showing(&state(&[]))
}

fn damaged_value() -> Judged {
    let mut lab = Lab::lying();
    lab.done(put("a", 1));
    lab.truth.bit_rot = 1;
    let mut shown = state(&[("a", 1)]);
    shown.get_mut(&b"a"[..]).unwrap()[40] ^= 1;
    lab.crash_showing(&shown)
}

fn damaged_value_without_any_lie() -> Judged {
    let mut lab = Lab::new();
    lab.done(put("a", 1));
    let mut shown = state(&[("a", 1)]);
    shown.get_mut(&b"a"[..]).unwrap()[40] ^= 1;
    lab.crash_showing(&shown)
}

fn foreign_value_under_misdirected_reads() -> Judged {
    let mut lab = Lab::lying();
    lab.done(put("a", 1));
    lab.done(put("b", 2));
    lab.truth.misdirected_reads = 1;
    let mut shown = state(&[("b", 2)]);
    shown.insert(b"a".to_vec(), value("b", 2));
    lab.crash_showing(&shown)
}

fn silent_loss_in_the_middle_under_rot() -> Judged {
    let mut lab = Lab::lying();
    lab.done(put("a", 1));
    lab.done(put("b", 2));
    lab.truth.bit_rot = 1;
    lab.crash_showing(&state(&[("b", 2)]))
}

fn silent_loss_before_the_tail_under_rot() -> Judged {
    let mut lab = Lab::lying();
    lab.done(put("a", 1));
    lab.done(put("b", 2));
    lab.truth.bit_rot = 1;
    lab.crash_showing(&state(&[]))
}

fn stale_get_under_stale_reads() -> Judged {
    let mut lab = Lab::lying();
    lab.done(put("a", 1));
    lab.done(put("a", 2));
    lab.truth.stale_reads = 1;
    lab.read(get("a"), &state(&[("a", 1)]))
}

fn answers_what_was_not_asked() -> Judged {
    Lab::new().answer(99, Status::Ok, Body::Empty)
}

fn answers_a_get_with_a_snapshot() -> Judged {
    let mut lab = Lab::new();
    let id = lab.ask(get("a"));
    lab.answer(id, Status::Ok, Body::Snapshot(1))
}

/// Goal: every way to break a property is that property and is called by its name. Method: one history each.
#[test]
fn each_property_is_fired_by_what_breaks_it() {
    use Property::{
        AcknowledgedDurable, AtomicWrites, DamageReported, GuestBehaves, NoFalseRefusal,
        NoResurrection, Prefix, ReadsAgree, RecoveryIdempotent, SpaceReturns, WorkAfterRecovery,
    };
    type Case = (&'static str, fn() -> Judged, Property, Symptom);
    let cases: &[Case] = &[
        (
            "lost_write",
            lost_write,
            AcknowledgedDurable,
            Symptom::LostWrite,
        ),
        (
            "lost_all",
            lost_all,
            AcknowledgedDurable,
            Symptom::LostWrite,
        ),
        (
            "lost_one_of_many",
            lost_one_of_many,
            AcknowledgedDurable,
            Symptom::LostWrite,
        ),
        (
            "lost_overwrite",
            lost_overwrite,
            AcknowledgedDurable,
            Symptom::LostWrite,
        ),
        (
            "lost_synced",
            lost_synced,
            AcknowledgedDurable,
            Symptom::LostWrite,
        ),
        (
            "lost_before_a_durable_one",
            lost_before_a_durable_one,
            AcknowledgedDurable,
            Symptom::LostWrite,
        ),
        (
            "lost_after_the_window",
            lost_after_the_window,
            AcknowledgedDurable,
            Symptom::LostWrite,
        ),
        (
            "lost_after_a_close",
            lost_after_a_close,
            AcknowledgedDurable,
            Symptom::LostWrite,
        ),
        (
            "false_alarm_at_opening",
            false_alarm_at_opening,
            AcknowledgedDurable,
            Symptom::FalseAlarm,
        ),
        (
            "refused_for_nothing",
            refused_for_nothing,
            NoFalseRefusal,
            Symptom::RefusedToOpen,
        ),
        (
            "reopening_is_invalid",
            reopening_is_invalid,
            NoFalseRefusal,
            Symptom::RefusedToOpen,
        ),
        (
            "io_error_after_its_process_run",
            io_error_after_its_process_run,
            NoFalseRefusal,
            Symptom::FalseAlarm,
        ),
        (
            "damage_after_it_was_overwritten",
            damage_after_it_was_overwritten,
            AcknowledgedDurable,
            Symptom::FalseAlarm,
        ),
        (
            "a_put_is_invalid",
            a_put_is_invalid,
            NoFalseRefusal,
            Symptom::FalseRefusal,
        ),
        (
            "no_space_on_an_empty_device",
            no_space_on_an_empty_device,
            NoFalseRefusal,
            Symptom::FalseRefusal,
        ),
        (
            "read_only_without_a_failure",
            read_only_without_a_failure,
            NoFalseRefusal,
            Symptom::FalseRefusal,
        ),
        (
            "closed_without_a_close",
            closed_without_a_close,
            NoFalseRefusal,
            Symptom::FalseRefusal,
        ),
        (
            "a_get_is_read_only",
            a_get_is_read_only,
            NoFalseRefusal,
            Symptom::FalseRefusal,
        ),
        (
            "a_write_fails_by_an_older_read",
            a_write_fails_by_an_older_read,
            NoFalseRefusal,
            Symptom::FalseAlarm,
        ),
        (
            "a_release_is_invalid",
            a_release_is_invalid,
            NoFalseRefusal,
            Symptom::FalseRefusal,
        ),
        (
            "an_empty_key_is_taken",
            an_empty_key_is_taken,
            NoFalseRefusal,
            Symptom::IllFormedTaken,
        ),
        (
            "an_unknown_snapshot_is_read",
            an_unknown_snapshot_is_read,
            NoFalseRefusal,
            Symptom::IllFormedTaken,
        ),
        (
            "a_released_snapshot_is_released",
            a_released_snapshot_is_released,
            NoFalseRefusal,
            Symptom::IllFormedTaken,
        ),
        (
            "half_a_batch_with_a_bad_member",
            half_a_batch_with_a_bad_member,
            Prefix,
            Symptom::FailedWriteApplied,
        ),
        (
            "dead_data_takes_all_space",
            dead_data_takes_all_space,
            SpaceReturns,
            Symptom::SpaceKept,
        ),
        (
            "a_read_is_refused_after_recovery",
            a_read_is_refused_after_recovery,
            NoFalseRefusal,
            Symptom::FalseRefusal,
        ),
        (
            "false_alarm_of_a_read",
            false_alarm_of_a_read,
            NoFalseRefusal,
            Symptom::FalseAlarm,
        ),
        (
            "false_alarm_after_recovery",
            false_alarm_after_recovery,
            AcknowledgedDurable,
            Symptom::FalseAlarm,
        ),
        (
            "half_a_batch",
            half_a_batch,
            AtomicWrites,
            Symptom::PartialBatch,
        ),
        (
            "half_an_acknowledged_batch",
            half_an_acknowledged_batch,
            AtomicWrites,
            Symptom::PartialBatch,
        ),
        (
            "half_a_batch_with_a_delete",
            half_a_batch_with_a_delete,
            AtomicWrites,
            Symptom::PartialBatch,
        ),
        (
            "half_a_failed_batch",
            half_a_failed_batch,
            AtomicWrites,
            Symptom::PartialBatch,
        ),
        (
            "half_a_value",
            half_a_value,
            AtomicWrites,
            Symptom::ResizedValue,
        ),
        ("hole", hole, Prefix, Symptom::Hole),
        (
            "hole_among_relaxed",
            hole_among_relaxed,
            Prefix,
            Symptom::Hole,
        ),
        (
            "refused_write_is_there",
            refused_write_is_there,
            Prefix,
            Symptom::FailedWriteApplied,
        ),
        ("unknown_key", unknown_key, Prefix, Symptom::UnknownKey),
        (
            "deleted_is_back",
            deleted_is_back,
            NoResurrection,
            Symptom::DeletedKeyBack,
        ),
        (
            "the_last_delete_is_lost",
            the_last_delete_is_lost,
            NoResurrection,
            Symptom::DeletedKeyBack,
        ),
        (
            "much_older_value",
            much_older_value,
            NoResurrection,
            Symptom::StaleValue,
        ),
        (
            "older_than_the_base",
            older_than_the_base,
            NoResurrection,
            Symptom::StaleValue,
        ),
        (
            "deleted_before_the_base_is_back",
            deleted_before_the_base_is_back,
            NoResurrection,
            Symptom::DeletedKeyBack,
        ),
        (
            "forgotten_for_long_is_back",
            forgotten_for_long_is_back,
            NoResurrection,
            Symptom::StaleValue,
        ),
        (
            "lost_unacknowledged_is_back",
            lost_unacknowledged_is_back,
            NoResurrection,
            Symptom::DeadWriteBack,
        ),
        (
            "shown_is_taken_back",
            shown_is_taken_back,
            NoResurrection,
            Symptom::TakenBack,
        ),
        (
            "running_get_of_a_dead_write",
            running_get_of_a_dead_write,
            NoResurrection,
            Symptom::DeadWriteBack,
        ),
        (
            "get_shows_an_older_value",
            get_shows_an_older_value,
            ReadsAgree,
            Symptom::WrongRead,
        ),
        (
            "get_misses_a_write_in_flight",
            get_misses_a_write_in_flight_that_succeeds,
            ReadsAgree,
            Symptom::WrongRead,
        ),
        (
            "get_shows_a_refused_write",
            get_shows_a_write_that_is_then_refused,
            NoResurrection,
            Symptom::FailedWriteApplied,
        ),
        (
            "get_shows_another_keys_value",
            get_shows_another_keys_value,
            ReadsAgree,
            Symptom::ForeignValue,
        ),
        (
            "scan_misses_a_key",
            scan_misses_a_key,
            ReadsAgree,
            Symptom::WrongRead,
        ),
        (
            "scan_shows_a_deleted_key",
            scan_shows_a_deleted_key,
            ReadsAgree,
            Symptom::WrongRead,
        ),
        (
            "scan_is_out_of_order",
            scan_is_out_of_order,
            ReadsAgree,
            Symptom::MalformedScan,
        ),
        (
            "snapshot_moves",
            snapshot_moves,
            ReadsAgree,
            Symptom::WrongRead,
        ),
        (
            "snapshot_vanishes",
            snapshot_vanishes,
            ReadsAgree,
            Symptom::SnapshotGone,
        ),
        (
            "get_and_scan_differ",
            get_and_scan_differ_after_recovery,
            ReadsAgree,
            Symptom::ReadsDiffer,
        ),
        (
            "reverse_scan_differs",
            reverse_scan_differs_after_recovery,
            ReadsAgree,
            Symptom::ReadsDiffer,
        ),
        (
            "two_recoveries_differ",
            two_recoveries_differ,
            RecoveryIdempotent,
            Symptom::RecoveriesDiffer,
        ),
        (
            "a_cut_recovery_showed_more",
            a_cut_recovery_showed_more,
            RecoveryIdempotent,
            Symptom::RecoveriesDiffer,
        ),
        (
            "later_work_is_lost",
            later_work_is_lost,
            WorkAfterRecovery,
            Symptom::LostWrite,
        ),
        (
            "later_work_without_a_flush",
            later_work_without_a_flush_is_lost,
            AcknowledgedDurable,
            Symptom::LostWrite,
        ),
        (
            "damaged_value",
            damaged_value,
            DamageReported,
            Symptom::DamagedValue,
        ),
        (
            "damaged_value_without_any_lie",
            damaged_value_without_any_lie,
            DamageReported,
            Symptom::DamagedValue,
        ),
        (
            "foreign_value_under_lies",
            foreign_value_under_misdirected_reads,
            DamageReported,
            Symptom::ForeignValue,
        ),
        (
            "silent_loss_in_the_middle",
            silent_loss_in_the_middle_under_rot,
            DamageReported,
            Symptom::LostWrite,
        ),
        (
            "silent_loss_before_the_tail",
            silent_loss_before_the_tail_under_rot,
            DamageReported,
            Symptom::LostWrite,
        ),
        (
            "stale_get_under_stale_reads",
            stale_get_under_stale_reads,
            DamageReported,
            Symptom::WrongRead,
        ),
        (
            "answers_what_was_not_asked",
            answers_what_was_not_asked,
            GuestBehaves,
            Symptom::WrongReply,
        ),
        (
            "answers_a_get_with_a_snapshot",
            answers_a_get_with_a_snapshot,
            GuestBehaves,
            Symptom::WrongReply,
        ),
    ];
    let (mut wrong, mut told) = (Vec::new(), String::new());
    for (name, case, property, symptom) in cases {
        match case() {
            Ok(()) => wrong.push(format!("{name}: no violation")),
            Err(found) if (found.property, found.symptom) == (*property, *symptom) => {
                let json = serde_json::to_string(&found).unwrap();
                told.push_str(&format!("{name} {json}\n"));
            }
            Err(found) => wrong.push(format!(
                "{name}: {:?} {:?} {found}",
                found.property, found.symptom
            )),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        Property::ALL
            .iter()
            .all(|property| cases.iter().any(|case| case.2 == *property))
    );
    // What a person reads of each, and what a program does.
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/told.txt");
    if std::env::var_os("KVSIM_UPDATE").is_some() {
        std::fs::write(path, &told).unwrap();
    }
    let before = std::fs::read_to_string(path).unwrap();
    assert!(
        told == before,
        "what is told of a violation has changed; if that is meant: KVSIM_UPDATE=1 cargo test -p kvsim-oracle, and read the difference"
    );
}

/// Goal: the sentence has what a person needs. Method: the plainest loss; its key, op and time, and the facts beside it.
#[test]
fn the_sentence_names_key_op_and_time() {
    let (mut lab, entries) = ten();
    let violation = lab.crash_showing(&state(&entries[..7])).unwrap_err();
    let expected = "the write of key \"h\" (op 8, acknowledged at 0.000160 ms) did not survive crash 1: it is lost, with 2 writes after it";
    assert_eq!(violation.sentence, expected);
    assert_eq!(violation.facts.op, Some(8));
    assert_eq!(violation.facts.key.as_deref(), Some("\"h\""));
    assert_eq!(violation.facts.acknowledged_lost, 3);
    let json = serde_json::to_string(&violation).unwrap();
    assert_eq!(
        serde_json::from_str::<kvsim_oracle::Violation>(&json).unwrap(),
        *violation
    );
}
