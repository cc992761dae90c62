//! The same scenario, guest and seed give the same run, whatever runs beside it.
//!
//! That builds of the host with other profiles agree too is shown by `.ci/determinism`, which needs both.

use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};

use kvsim_harness::summary::Verdict;
use kvsim_tests::{Program, builtin_guest, naive_guest, run, scenario};

fn engine() -> &'static Arc<dyn Program> {
    static ENGINE: OnceLock<Arc<dyn Program>> = OnceLock::new();
    ENGINE.get_or_init(builtin_guest)
}

/// The trace hash of three or so short seeds.
fn hash_of(file: &str, seeds: &str, program: &Arc<dyn Program>, jobs: usize) -> String {
    let seeds = format!("run.seeds={seeds}");
    let sets = [
        &seeds,
        "run.crashes=12",
        "run.recover_twice=0.3",
        "run.crash_in_recovery=0.3",
    ];
    let report = run(
        scenario(file, &sets),
        program,
        NonZeroUsize::new(jobs).expect("at least one"),
    );
    assert_eq!(report.verdict, Verdict::Pass, "{:?}", report.failure);
    report.trace_hash
}

/// Goal: neither the number of workers nor repetition changes anything. Method: everything at once, with 1, 2, 2 and 5 workers.
#[test]
fn any_number_of_workers_gives_the_same_trace_hash() {
    let first = hash_of("scenarios/kitchen_sink.toml", "1..5", engine(), 1);
    for jobs in [2, 2, 5] {
        assert_eq!(
            hash_of("scenarios/kitchen_sink.toml", "1..5", engine(), jobs),
            first,
            "{jobs} jobs"
        );
    }
}

/// Goal: what a seed draws depends on nothing but the seed. Method: a scenario that varies, by one worker and by three.
#[test]
fn a_scenario_that_varies_gives_the_same_trace_hash() {
    let file = "scenarios/swarm.toml";
    let hash = |jobs| hash_of(file, "1..13", engine(), jobs);
    assert_eq!(hash(1), hash(3));
}

/// Goal: a guest that is not ours is run as deterministically. Method: the naive guest, loaded twice, so compiled twice.
#[test]
fn a_guest_loaded_anew_gives_the_same_trace_hash() {
    let load = || kvsim_harness::guest::load(Some(naive_guest())).expect("the naive guest loads");
    let (one, other) = (load(), load());
    assert_eq!(one.hash(), other.hash());
    let file = "scenarios/torn_write.toml";
    assert_eq!(
        hash_of(file, "3..5", &one, 2),
        hash_of(file, "3..5", &other, 1)
    );
}

/// Goal: a seed is worth something. Method: other seeds, and the same in another order of the run.
#[test]
fn another_seed_gives_another_trace_hash() {
    let file = "scenarios/powercut.toml";
    let hashes = ["1..3", "2..4", "1..2"].map(|seeds| hash_of(file, seeds, engine(), 2));
    assert_ne!(hashes[0], hashes[1]);
    assert_ne!(hashes[0], hashes[2]);
    assert_ne!(hashes[1], hashes[2]);
}

/// Goal: another guest is another run. Method: the engine and the naive guest under the same seed.
#[test]
fn another_guest_gives_another_trace_hash() {
    let naive = kvsim_harness::guest::load(Some(naive_guest())).expect("the naive guest loads");
    let file = "scenarios/reorder.toml";
    assert_ne!(
        hash_of(file, "1..2", engine(), 1),
        hash_of(file, "1..2", &naive, 1)
    );
}
