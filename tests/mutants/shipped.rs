//! What a user gets of a bug: a scenario that ships is run, and its first failure is shrunk and blamed. All mutants: `kvsim mutants --shipped`.

use std::time::Duration;

use kvsim_harness::control::Control;
use kvsim_harness::mutants::catalogue::SHIPPED;
use kvsim_harness::mutants::shipped::{REQUESTS_MAX, totals};
use kvsim_harness::mutants::{Hunt, Mutant, Report};

use super::hunt;

/// Goal: from the run of a scenario that ships to a handful of requests and the right thing to blame. Method: a write that is acknowledged too early, of which
/// one request is enough; one that is acknowledged on a timer; a torn frame.
#[test]
fn a_handful_of_mutants_become_small_and_are_blamed() {
    let directory = tempfile::tempdir().expect("a directory");
    let hunt = Hunt {
        failures: Some(directory.path().to_path_buf()),
        minimise: true,
        limit: Some(Duration::from_secs(600)),
        ..hunt()
    };
    let mut report = Report::default();
    for mutant in [
        Mutant::AcknowledgedBeforeFlush,
        Mutant::FlushOnATimer,
        Mutant::TornTailRefused,
    ] {
        let hunted = hunt
            .hunt(mutant, SHIPPED, &Control::default())
            .unwrap_or_else(|error| panic!("{mutant:?}: {error}"));
        report.hunted.push(hunted);
    }
    let totals = totals(&report);
    let all = (totals.caught, totals.small, totals.blamed_right);
    assert_eq!(all, (3, 3, 3), "at most {REQUESTS_MAX}: {report:#?}");
}
