//! The results as JUnit XML, which CI servers show: one test case a scenario.

use std::fmt::Display;
use std::fs::File;
use std::path::Path;

use kvsim_harness::summary::text::{Colour, summary};
use kvsim_harness::summary::{Found, RunReport, Unreported, Verdict};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

/// Makes the file, so that a place that cannot be written is known before anything runs.
pub(crate) fn begin(path: &Path) -> Result<(), String> {
    let begun = File::create(path);
    begun.map(|_| ()).map_err(|error| cannot(path, &error))
}

/// Writes the results.
pub(crate) fn write(path: &Path, found: &Found) -> Result<(), String> {
    let xml = document(found).map_err(|error| cannot(path, &error))?;
    std::fs::write(path, xml).map_err(|error| cannot(path, &error))
}

fn cannot(path: &Path, error: &dyn Display) -> String {
    format!("error: cannot write {}: {error}", path.display())
}

fn document(found: &Found) -> Result<String, quick_junit::SerializeError> {
    let mut suite = TestSuite::new("kvsim");
    for report in &found.reports {
        suite.add_test_case(case(report));
    }
    for unreported in &found.unreported {
        suite.add_test_case(error_case(unreported));
    }
    let mut document = Report::new("kvsim");
    document.add_test_suite(suite);
    document.to_string()
}

/// A violation is a failure, an inconclusive run an error: neither lets a build pass.
fn case(report: &RunReport) -> TestCase {
    let mut status = match &report.verdict {
        Verdict::Pass => TestCaseStatus::success(),
        Verdict::Violation => TestCaseStatus::non_success(NonSuccessKind::Failure),
        Verdict::Inconclusive(_) => TestCaseStatus::non_success(NonSuccessKind::Error),
    };
    match (&report.verdict, &report.failure) {
        (Verdict::Violation, Some(failure)) => {
            status.set_type(failure.property.clone());
            let replay = failure.replay.as_deref().unwrap_or_default();
            status.set_message(format!(
                "seed {}: {} {replay}",
                failure.seed, failure.sentence
            ));
        }
        (Verdict::Inconclusive(reasons), _) => {
            status.set_type("inconclusive");
            status.set_message(reasons.join("; "));
        }
        _ => {}
    }
    let mut case = TestCase::new(report.scenario.clone(), status);
    case.set_classname("kvsim")
        .set_time(report.real.elapsed)
        .set_system_out(summary(report, Colour::Off));
    case
}

/// A scenario that gave no report must not look as if it had never been asked for.
fn error_case(unreported: &Unreported) -> TestCase {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
    status.set_type("no report");
    status.set_message(unreported.message.clone());
    let mut case = TestCase::new(unreported.scenario.clone(), status);
    case.set_classname("kvsim");
    case
}
