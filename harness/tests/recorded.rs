//! The native engine on the real disk that holds the sources, recorded and crashed. What a recording holds depends on the machine,
//! so nothing here asks for exact numbers.
#![allow(missing_docs, reason = "a test")]

use std::path::Path;

use kvsim_harness::recorded::{Plan, Proof, Watch, prove};
use kvsim_native::DriverChoice;

struct Nobody;

impl Watch for Nobody {
    fn recording(&self, _: u64) {}
    fn judged(&self, _: u64, _: u64) {}
    fn taking_out(&self, _: u64, _: u64) {}
    fn stopped(&self) -> bool {
        false
    }
}

fn proof(driver: DriverChoice) -> Proof {
    let plan = Plan {
        states: 1_500,
        requests: 60,
        taken_out: 8,
        drivers: vec![driver],
        ..Plan::usual(Path::new(env!("CARGO_TARGET_TMPDIR")), 1)
    };
    prove(&plan, &Nobody).expect("the disk can be used")
}

/// Goal: the native path keeps its word through each driver, and a path that does not is caught. Method: two sessions or more, the
/// second on what a crash of the first left; states at every point; then recordings with a flush or write-through left out.
#[test]
fn the_native_path_keeps_its_word() {
    for driver in [DriverChoice::Auto, DriverChoice::Threads] {
        let proof = proof(driver);
        assert!(proof.is_complete(), "{}", proof.text());
        assert!(proof.tally.with_losses > 0, "{}", proof.text());
        assert!(proof.tally.with_tears > 0, "{}", proof.text());
    }
}
