//! What was gone for good and comes back is told as that, whatever else a recovery gets wrong.
#![allow(missing_docs, reason = "a test")]

use crate::support::{Lab, put, state};
use kvsim_oracle::{Property, Symptom};
use kvsim_sim::api::{Body, Status};

/// Goal: the three ways in which a value can be gone for good have each a sentence of their own. Method: a value that was overwritten before the last recovery, one of
/// a write that this recovery did not show, and one of a write that was refused; each comes back, and a durable write is missing beside it.
#[test]
fn what_comes_back_says_how_it_was_gone() {
    let back = |lab: &mut Lab| {
        lab.done(put("z", 9));
        lab.crash_showing(&state(&[("a", 1)])).unwrap_err()
    };
    let mut replaced = Lab::new();
    replaced.done(put("a", 1));
    replaced.done(put("a", 2));
    replaced.recover(&state(&[("a", 2)]));
    let replaced = back(&mut replaced);

    let mut lost = Lab::new();
    lost.ask(put("a", 1));
    lost.recover(&state(&[]));
    let lost = back(&mut lost);

    let mut refused = Lab::on_a_device();
    let id = refused.ask(put("a", 1));
    refused.truth.this_run.no_space = 1;
    refused.answer(id, Status::NoSpace, Body::Empty).unwrap();
    let refused = back(&mut refused);

    let told = [&replaced, &lost, &refused].map(|it| (it.property, it.symptom));
    assert_eq!(
        told,
        [
            (Property::NoResurrection, Symptom::StaleValue),
            (Property::NoResurrection, Symptom::DeadWriteBack),
            (Property::Prefix, Symptom::FailedWriteApplied),
        ]
    );
    let why = [
        (&replaced, "an earlier recovery had shown the value of op 2"),
        (&lost, "an earlier recovery had not shown"),
        (&refused, "refused for certain"),
    ];
    for (violation, words) in why {
        assert!(violation.sentence.contains(words), "{}", violation.sentence);
    }
}
