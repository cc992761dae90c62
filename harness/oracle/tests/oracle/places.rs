//! An excuse belongs to a process run, an operation and a place: for each, a guest that is reported and one that is not.
#![allow(missing_docs, reason = "a test")]

use crate::support::{Judged, Lab, batch, delete, get, put, state, value};
use kvsim_oracle::{Limits, Opening, OracleConfig, Property, RunFaults, Symptom};
use kvsim_sim::GuestPolicies;
use kvsim_sim::api::{Body, Durability, Reply, Request, Status};

/// What is thought of an opening that is answered so.
fn opening(lab: &Lab, status: Status) -> Judged<Opening> {
    let reply = Reply {
        id: 0,
        status,
        body: Body::Message("why".into()),
    };
    lab.oracle.opening(&reply, &lab.truth)
}

/// A guest that has been opened before, on a device of 1 MiB.
fn reopened(policies: &str) -> Lab {
    let policies = GuestPolicies::parse(policies).unwrap();
    let mut lab = Lab::with(OracleConfig {
        policies,
        limits: Limits::of(&policies, 4_096, |_| None),
        ..OracleConfig::default()
    });
    lab.truth.capacity_bytes = 1 << 20;
    lab.recover(&state(&[]));
    lab
}

/// Goal: damage that nothing has read explains no report, and damage that was read does, in its process run. Method: a get, a write and an opening, with bit rot
/// that lies elsewhere, that was read, and that was read by the process before.
#[test]
fn damage_excuses_who_has_read_it() {
    let answered = |lab: &Lab, request: Request, status| {
        let mut lab = lab.clone();
        let id = lab.ask(request);
        lab.answer(id, status, Body::Empty)
    };
    let all = |lab: &Lab| {
        [
            answered(lab, get("a"), Status::Corruption),
            answered(lab, put("a", 2), Status::ReadOnly),
            opening(lab, Status::Corruption).map(|_| ()),
        ]
    };
    let mut lab = Lab::lying();
    lab.done(put("a", 1));
    lab.truth.bit_rot = 1;
    lab.truth.damaged_sectors = 1;
    for judged in all(&lab) {
        judged.unwrap_err();
    }
    let violation = opening(&lab, Status::Corruption).unwrap_err();
    let why = "although nothing that it has read since it was started is damaged";
    assert!(violation.sentence.ends_with(why), "{violation}");
    lab.truth.this_run.damaged_reads = 1;
    for judged in all(&lab) {
        judged.unwrap();
    }
    lab.truth.this_run = RunFaults::default();
    for judged in all(&lab) {
        judged.unwrap_err();
    }
}

/// Goal: a device that is smaller than it said needs no read to be seen. Method: an opening that reports damage.
#[test]
fn a_device_that_shrank_is_damaged() {
    let mut lab = reopened("");
    opening(&lab, Status::Corruption).unwrap_err();
    lab.truth.cut_short = true;
    opening(&lab, Status::Corruption).unwrap();
}

/// Goal: an opening fails by a read only if that read fails still, and not because of torn sectors. Method: no failure; torn sectors; a read that failed and was
/// repeated; one that was not; a write.
#[test]
fn an_opening_fails_by_what_fails_still() {
    let mut lab = reopened("");
    let refused = |lab: &Lab, why: &str| {
        let violation = opening(lab, Status::IoError).unwrap_err();
        assert_eq!(violation.property, Property::NoFalseRefusal);
        assert!(violation.sentence.contains(why), "{violation}");
    };
    refused(&lab, "no operation of the device has failed");
    lab.truth.this_run.torn_reads = 5;
    refused(&lab, "sectors that a power cut has torn");
    lab.truth.this_run.read_failures = 2;
    refused(&lab, "was read since");
    lab.truth.failing_sectors = 1;
    opening(&lab, Status::IoError).unwrap();
    lab.truth.failing_sectors = 0;
    lab.truth.this_run.write_failures = 1;
    opening(&lab, Status::IoError).unwrap();
}

/// Goal: that a guest states that a full device opens holds it to that, and a fault of the opening excuses it. Method: a full device, with and without the policy, a
/// growth that a fault refuses, and an error.
#[test]
fn a_guest_that_opens_full_devices_is_held_to_it() {
    let full = |policies: &str| {
        let mut lab = reopened(policies);
        (0..400).for_each(|number| lab.done(put(&format!("key {number}"), number)));
        lab
    };
    opening(&full(""), Status::NoSpace).unwrap();
    let mut strict = full("opens_when_full=true");
    let violation = opening(&strict, Status::NoSpace).unwrap_err();
    assert_eq!(violation.symptom, Symptom::RefusedToOpen);
    assert!(
        violation.sentence.contains("`opens_when_full`"),
        "{violation}"
    );
    let mut refused = strict.clone();
    refused.truth.this_run.no_space = 1;
    opening(&refused, Status::NoSpace).unwrap();
    strict.truth.this_run.read_failures = 1;
    opening(&strict, Status::NoSpace).unwrap();
}

/// Goal: that a guest states what a full device takes holds it to that, and a fault or a snapshot excuses it. Method: on a full device a delete, a put of the same
/// length and others, refused with and without each value of the policy, after a fault, and under a snapshot.
#[test]
fn a_guest_that_takes_some_writes_when_full_is_held_to_it() {
    let full = |policies: &str| {
        let mut lab = reopened(policies);
        let keys: Vec<String> = (0..400).map(|number| format!("key {number}")).collect();
        let entries: Vec<(&str, u64)> = keys.iter().map(|key| (&key[..], 1)).collect();
        entries
            .iter()
            .for_each(|(key, number)| lab.done(put(key, *number)));
        lab.recover(&state(&entries));
        lab
    };
    let shorter = Request::Put {
        key: b"key 2".to_vec(),
        value: vec![1; 60],
        durability: Durability::Durable,
    };
    let deletes = [
        delete("key 1"),
        delete("not there"),
        batch(&[("key 1", 0), ("key 2", 0)]),
    ];
    let overwrites = [put("key 2", 7)];
    let others = [
        put("new", 7),
        shorter,
        batch(&[("key 2", 7)]),
        batch(&[("key 1", 0), ("key 2", 7)]),
        batch(&[]),
    ];
    let refused = |lab: &Lab, request: &Request| {
        let mut lab = lab.clone();
        let id = lab.ask(request.clone());
        lab.answer(id, Status::NoSpace, Body::Empty)
    };
    for (policies, held) in [
        ("", [false, false]),
        ("full_takes=deletes", [true, false]),
        ("full_takes=overwrites", [true, true]),
    ] {
        let mut lab = full(policies);
        let groups = [
            (&deletes[..], held[0]),
            (&overwrites[..], held[1]),
            (&others[..], false),
        ];
        for (requests, is_held) in groups {
            for request in requests {
                let judged = refused(&lab, request);
                assert_eq!(judged.is_err(), is_held, "{policies}: {request:?}");
                let Err(violation) = judged else { continue };
                assert_eq!(violation.property, Property::SpaceReturns);
                assert!(violation.sentence.contains("`full_takes`"), "{violation}");
            }
        }
        let all = || deletes.iter().chain(&overwrites).chain(&others);
        let mut failed = lab.clone();
        failed.truth.this_run.write_failures = 1;
        all().for_each(|request| refused(&failed, request).unwrap());
        let id = lab.ask(Request::Snapshot);
        all().for_each(|request| refused(&lab, request).unwrap());
        lab.answer(id, Status::Ok, Body::Snapshot(9)).unwrap();
        all().for_each(|request| refused(&lab, request).unwrap());
    }
}

/// Goal: a fault that says that there is no space excuses the request that it may have been for; other errors excuse no shortage that garbage collection cannot be the reason
/// of. Method: writes on a nearly empty device after each, and on one on which much was overwritten.
#[test]
fn no_space_needs_a_reason_of_its_own() {
    let answered = |lab: &Lab| {
        let mut lab = lab.clone();
        let id = lab.ask(put("a", 1));
        lab.answer(id, Status::NoSpace, Body::Empty)
    };
    let mut lab = reopened("");
    let id = lab.ask(put("a", 1));
    lab.truth.this_run.no_space = 1;
    let mut later = lab.clone();
    lab.answer(id, Status::NoSpace, Body::Empty).unwrap();
    later.ack(id);
    answered(&later).unwrap_err();

    let mut failed = reopened("");
    failed.truth.this_run.read_failures = 1;
    let violation = answered(&failed).unwrap_err();
    assert!(
        violation.sentence.contains("were ever written"),
        "{violation}"
    );
    (0..400).for_each(|number| failed.done(put("a", number)));
    answered(&failed).unwrap();
    failed.truth.this_run = RunFaults::default();
    answered(&failed).unwrap_err();
}

/// Goal: a get of a key that no guest takes finds nothing, refused or not. Method: each answer, for an empty key and for one that is too long, and then a recovery,
/// which asks for no such key.
#[test]
fn nothing_is_there_under_a_key_that_no_guest_takes() {
    for key in ["", "longer"] {
        let mut lab = reopened("max_key_bytes=5");
        for status in [Status::NotFound, Status::Invalid] {
            let id = lab.ask(get(key));
            lab.answer(id, status, Body::Empty).unwrap();
        }
        let id = lab.ask(get(key));
        let found = Body::Value(value("a", 1));
        let violation = lab.clone().answer(id, Status::Ok, found).unwrap_err();
        assert_eq!(violation.property, Property::ReadsAgree);
        let refused = lab.answer(id, Status::ReadOnly, Body::Empty).unwrap_err();
        assert_eq!(refused.property, Property::NoFalseRefusal);
        let seen = lab.observe_with(|request| match request {
            Request::Get { key: asked, .. } => panic!("asked for {asked:?}"),
            _ => crate::support::serve(&state(&[]), 7, request),
        });
        lab.oracle.judge(&seen, &lab.truth).unwrap();
    }
}
