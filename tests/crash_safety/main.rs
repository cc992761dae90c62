//! The crash-safety properties of the built-in engine, in the simulator: random operations and random cuts. Each case
//! has its own crash decisions, and is shrunk to a few steps where one fails.
//!
//! A model judges here, which tries every prefix of the writes. It shares nothing with the harness's oracle, so each is
//! a check on the other.

mod case;
mod machine;
mod model;

use kvsim_harness::minimise::fewer;
use kvsim_harness::oracle::Property;
use kvsim_simdisk::FaultConfig;
use quickcheck::TestResult;

use case::{Action, Case, Cut, Step};

const CASES: u64 = 120;
const STEPS_MAX: usize = 60;

/// The case does not violate `property`. Whatever it violates, it is a failure: there is one engine, and it must be right.
fn holds(property: Property, case: &Case, faults: FaultConfig) -> TestResult {
    match machine::run(case, faults) {
        Ok(()) => TestResult::passed(),
        Err((found, what)) if found == property => TestResult::error(what),
        Err((found, what)) => {
            TestResult::error(format!("while checking {property}: {found}: {what}"))
        }
    }
}

fn check(name: &str, property: Property, prepare: fn(Case) -> Case) {
    let holds = move |case: Case| holds(property, &prepare(case), FaultConfig::default());
    kvsim_tests::check(name, CASES, STEPS_MAX, ByCase(holds));
}

/// A property of one case, for quickcheck, which otherwise takes plain functions only.
struct ByCase<F>(F);

impl<F: Fn(Case) -> TestResult + 'static> quickcheck::Testable for ByCase<F> {
    fn result(&self, generator: &mut quickcheck::Gen) -> TestResult {
        use quickcheck::Arbitrary;
        let case = Case::arbitrary(generator);
        let result = (self.0)(case.clone());
        if result.is_failure() {
            self.shrunk(case, result)
        } else {
            result
        }
    }
}

impl<F: Fn(Case) -> TestResult + 'static> ByCase<F> {
    /// The smallest case found that still fails, printed with what it violates.
    fn shrunk(&self, mut case: Case, mut failure: TestResult) -> TestResult {
        use quickcheck::Arbitrary;
        // Whole steps first, as every failure is made small; then what is in them.
        case.0 = fewer(case.0, &mut |steps| {
            let result = (self.0)(Case(steps.to_vec()));
            let fails = result.is_failure();
            if fails {
                failure = result;
            }
            fails
        });
        'smaller: loop {
            for smaller in case.shrink() {
                let result = (self.0)(smaller.clone());
                if result.is_failure() {
                    (case, failure) = (smaller, result);
                    continue 'smaller;
                }
            }
            return TestResult::error(format!("{failure:?}\nin the case {case:#?}"));
        }
    }
}

/// Goal: an acknowledged durable write is there after any cut. Method: every write is durable and waited for.
#[test]
fn acknowledged_durable() {
    check(
        "acknowledged_durable",
        Property::AcknowledgedDurable,
        |mut case| {
            for step in &mut case.0 {
                if let Action::Write { durable, .. } = &mut step.action {
                    (*durable, step.events) = (true, None);
                }
            }
            case
        },
    );
}

/// Goal: a batch is there as a whole or not at all. Method: every write is a batch of three keys or more, cut right after.
#[test]
fn atomic_writes() {
    check("atomic_writes", Property::AtomicWrites, |mut case| {
        for step in &mut case.0 {
            if let Action::Write { writes, .. } = &mut step.action {
                writes.extend([(1, Some(2)), (4, Some(1)), (6, Some(3))]);
                step.events = step.events.or(Some(9));
            }
        }
        case
    });
}

/// Goal: what survives is a prefix of the commit order. Method: writes overlap, durable and relaxed.
#[test]
fn prefix() {
    check("prefix", Property::Prefix, |mut case| {
        for step in &mut case.0 {
            step.events = step.events.or(Some(3));
        }
        case
    });
}

/// Goal: what was deleted, overwritten or once lost does not come back. Method: two cuts in a row after each step of four.
#[test]
fn no_resurrection() {
    check("no_resurrection", Property::NoResurrection, |case| {
        let cut = |survive| {
            Action::Cut(Cut {
                process: false,
                survive,
                torn: survive >> 7,
                reversed: false,
                again_after: None,
            })
        };
        let mut steps = Vec::new();
        for (at, step) in (0_u64..).zip(case.0) {
            steps.push(step);
            if at % 4 == 3 {
                steps.push(Step {
                    action: cut(at.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
                    events: None,
                });
                steps.push(Step {
                    action: cut(0),
                    events: None,
                });
            }
        }
        Case(steps)
    });
}

/// Goal: gets, scans both ways and snapshots agree with each other and with what was written. Method: reads among overlapping
/// writes, each held against the state at its place in the order.
#[test]
fn reads_agree() {
    check("reads_agree", Property::ReadsAgree, |case| {
        let mut steps = Vec::new();
        for (at, step) in (0_u8..).zip(case.0) {
            steps.push(step);
            let action = match at % 4 {
                0 => Action::Scan {
                    reverse: at % 8 == 4,
                    limit: 3 + at % 7,
                },
                1 => Action::Snapshot,
                2 => Action::ReadSnapshot(at % 5),
                _ => Action::Get(at % case::KEYS),
            };
            steps.push(Step {
                action,
                events: Some(at % 6),
            });
        }
        Case(steps)
    });
}

/// Goal: a second recovery, and one after a recovery that was cut short, show the same. Method: every recovery is cut.
#[test]
fn recovery_idempotent() {
    check(
        "recovery_idempotent",
        Property::RecoveryIdempotent,
        |mut case| {
            for (at, step) in (0_u8..).zip(&mut case.0) {
                if let Action::Cut(cut) = &mut step.action {
                    cut.again_after = cut.again_after.or(Some(at.wrapping_mul(37) % 80));
                }
            }
            case
        },
    );
}

/// Goal: work after a recovery survives the next crash. Method: after each cut a durable write, then a cut that leaves nothing.
#[test]
fn work_after_recovery() {
    check("work_after_recovery", Property::WorkAfterRecovery, |case| {
        let mut steps = Vec::new();
        for (at, step) in (0_u8..).zip(case.0) {
            let is_cut = matches!(step.action, Action::Cut(_));
            steps.push(step);
            if is_cut {
                let writes = vec![(at % case::KEYS, Some(at % 4))];
                steps.push(Step {
                    action: Action::Write {
                        writes,
                        durable: true,
                    },
                    events: None,
                });
                let nothing = Cut {
                    process: false,
                    survive: 0,
                    torn: 0,
                    reversed: false,
                    again_after: None,
                };
                steps.push(Step {
                    action: Action::Cut(nothing),
                    events: None,
                });
            }
        }
        Case(steps)
    });
}

/// Goal: damaged data is never returned as a value. Method: bits rot, writes are lost and are misdirected, reads come from elsewhere.
#[test]
fn damage_reported() {
    let faults = FaultConfig {
        bit_rot: 0.05,
        latent_sector_error: 0.01,
        lost_write: 0.01,
        misdirected_write: 0.01,
        misdirected_read: 0.02,
        stale_read: 0.02,
        after_op: 40,
        ..FaultConfig::default()
    };
    let holds = move |case: Case| holds(Property::DamageReported, &case, faults.clone());
    kvsim_tests::check("damage_reported", CASES, STEPS_MAX, ByCase(holds));
}

/// Goal: the engine answers whatever it is asked, and neither traps nor hangs. Method: cases as they come, with killed
/// processes and cuts at any event.
#[test]
fn guest_behaves() {
    check("guest_behaves", Property::GuestBehaves, |case| case);
}
