//! What a user gets of a bug: a scenario that ships is run, and its first failure is shrunk and blamed. All mutants: `kvsim mutants --shipped`.

use std::time::Duration;

use kvsim_harness::control::Control;
use kvsim_harness::mutants::catalogue::SHIPPED;
use kvsim_harness::mutants::shipped::{REQUESTS_MAX, totals};
use kvsim_harness::mutants::{Hunt, Mutant, Report};

use super::hunt;

/// The first failure of each of these in a scenario that ships, shrunk and blamed.
fn shrunk(mutants: &[Mutant]) -> Report {
    let directory = tempfile::tempdir().expect("a directory");
    let hunt = Hunt {
        failures: Some(directory.path().to_path_buf()),
        minimise: true,
        limit: Some(Duration::from_secs(600)),
        ..hunt()
    };
    let mut report = Report::default();
    for mutant in mutants {
        let hunted = hunt
            .hunt(*mutant, SHIPPED, &Control::default())
            .unwrap_or_else(|error| panic!("{mutant:?}: {error}"));
        report.hunted.push(hunted);
    }
    report
}

/// Goal: from the run of a scenario that ships to a handful of requests and the right thing to blame. Method: a write that is acknowledged too early, of which
/// one request is enough; one that is acknowledged on a timer; a torn frame.
#[test]
fn a_handful_of_mutants_become_small_and_are_blamed() {
    let report = shrunk(&[
        Mutant::AcknowledgedBeforeFlush,
        Mutant::FlushOnATimer,
        Mutant::TornTailRefused,
    ]);
    let totals = totals(&report);
    let all = (totals.caught, totals.small, totals.blamed_right);
    assert_eq!(all, (3, 3, 3), "at most {REQUESTS_MAX}: {report:#?}");
}

/// Goal: what no few of the requests of a case lead to, a small program of the same kinds does. Method: a torn frame that is left where it is, which takes a write longer than a
/// sector and one more after the crash, of values shorter than that; and a close beside a write that then waits for ever, where clients are closed when all is answered.
#[test]
fn what_few_requests_do_not_lead_to_a_program_drawn_anew_does() {
    let report = shrunk(&[Mutant::AppendAfterTornTail, Mutant::CloseDoesNotFlush]);
    let totals = totals(&report);
    let all = (totals.caught, totals.small, totals.blamed_right);
    assert_eq!(all, (2, 2, 2), "at most {REQUESTS_MAX}: {report:#?}");
}
