//! The native engine on the real disk that holds the sources, recorded and crashed. What a recording holds depends on the machine,
//! so nothing here asks for exact numbers.
#![allow(missing_docs, reason = "a test")]

use std::path::Path;

use kvsim_native::DriverChoice;
use kvsim_recorded::{Kind, Plan, Proof, Setting, Watch, prove};

struct Nobody;

impl Watch for Nobody {
    fn recording(&self, _: u64) {}
    fn judged(&self, _: u64, _: u64) {}
    fn taking_out(&self, _: u64, _: u64) {}
    fn stopped(&self) -> bool {
        false
    }
}

/// Two sessions, the second on what a crash of the first left; states at every point; then recordings with a call left out.
fn proof(driver: DriverChoice, engine: &'static str) -> Proof {
    let plan = Plan {
        states: 600,
        states_at_a_point: 4,
        requests: 60,
        taken_out: 4,
        sessions: 2,
        settings: vec![Setting {
            engine,
            size_bytes: 2 << 20,
        }],
        drivers: vec![driver],
        ..Plan::usual(Path::new(env!("CARGO_TARGET_TMPDIR")), 1)
    };
    let proof = prove(&plan, &Nobody).expect("the disk can be used");
    assert!(proof.is_complete(), "{}", proof.text());
    assert!(proof.tally.with_losses > 0, "{}", proof.text());
    assert!(proof.tally.with_tears > 0, "{}", proof.text());
    proof
}

/// Goal: commits by write-through keep their word through each driver, and a path that forgets one is caught.
#[test]
fn write_through_commits_keep_their_word() {
    for driver in [DriverChoice::Auto, DriverChoice::Threads] {
        let engine = "segment_bytes=65536\ncheckpoint_bytes=131072\n";
        let proof = proof(driver, engine);
        let through = |one: &kvsim_recorded::TakenOut| one.kind == Kind::WriteThrough;
        assert!(proof.taken_out.iter().any(through), "{}", proof.text());
    }
}

/// Goal: the same of commits by a write and a flush.
#[test]
fn flushed_commits_keep_their_word() {
    for driver in [DriverChoice::Auto, DriverChoice::Threads] {
        let engine = "segment_bytes=65536\ncheckpoint_bytes=131072\ncommit=flush\n";
        let proof = proof(driver, engine);
        let flush = |one: &kvsim_recorded::TakenOut| one.kind == Kind::Flush;
        assert!(proof.taken_out.iter().any(flush), "{}", proof.text());
    }
}
