//! The results as JUnit XML, which CI servers show: one test case a scenario.

use std::path::Path;

use kvsim_harness::summary::text::{Colour, summary};
use kvsim_harness::summary::{RunReport, Verdict};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

/// Writes the results.
pub(crate) fn write(path: &Path, reports: &[RunReport]) -> Result<(), String> {
    let xml =
        document(reports).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    std::fs::write(path, xml).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn document(reports: &[RunReport]) -> Result<String, quick_junit::SerializeError> {
    let mut suite = TestSuite::new("kvsim");
    for report in reports {
        suite.add_test_case(case(report));
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
