//! Failures that need a device which does not do as it is told.

use std::collections::BTreeSet;

use kvsim_sim::TraceMode;

use crate::explore::open::Setting;
use kvsim_api::units::counted;
use kvsim_drive::case::{Course, Driven, Stop, drive_on};
use kvsim_findings::blame::NAMED_MAX;
use kvsim_oracle::Class;
use kvsim_scenario::case::Case;

/// What affects the device in a case that does not fail in this way without it, in words; nothing if that makes no difference.
pub(super) fn needed(
    setting: Setting<'_>,
    case: &Case,
    class: Class,
    driven: &Driven,
) -> Option<String> {
    let fired = driven.world.storage().fired_script(0).into_iter();
    let fired: Vec<_> = fired
        .filter(|fault| !fault.is_stall() && !fault.is_of_a_cut())
        .collect();
    if fired.is_empty() {
        return None;
    }
    let mut scenario = setting.scenario.clone();
    scenario.script_only(&[]);
    let without = Case {
        faults: Vec::new(),
        ..case.clone()
    };
    // Of what a cut is to keep, there may be less.
    let course = Course {
        landmarks: Some(&driven.landmarks),
        ..Course::default()
    };
    let seed = scenario.run.seeds.start;
    let program = setting.program;
    let ended = drive_on(&scenario, &without, program, seed, TraceMode::Off, course).ok()?;
    if matches!(ended.end, Err(Stop::Violation(violation)) if violation.class() == class) {
        return None;
    }
    let faults = fired.iter().map(|fault| (fault.op(), fault.name()));
    Some(in_words(faults.collect()))
}

/// The first faults, and how many others there are.
fn in_words(faults: BTreeSet<(u64, &'static str)>) -> String {
    let others = faults.len().saturating_sub(NAMED_MAX);
    let first = faults.into_iter().take(NAMED_MAX);
    let mut said: Vec<String> = first
        .map(|(operation, name)| format!("the {} at operation {operation}", name.replace('_', " ")))
        .collect();
    if others > 0 {
        said.push(counted(others as u64, "other fault", "other faults"));
    }
    said.join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a case with many faults is blamed in one line, and no fault of a case with few is left out. Method: four faults, five and six, in the order of their operations.
    #[test]
    fn many_faults_are_counted() {
        let faults = |n: u64| (1..=n).map(|at| (at * 90, "read_error")).collect();
        let few = in_words(faults(NAMED_MAX as u64));
        assert_eq!(
            few.matches("the read error at operation ").count(),
            NAMED_MAX,
            "{few}"
        );
        assert!(few.ends_with("operation 360"), "{few}");
        let one_more = in_words(faults(NAMED_MAX as u64 + 1));
        assert_eq!(one_more, format!("{few} and 1 other fault"));
        let many = in_words(faults(NAMED_MAX as u64 + 2));
        assert_eq!(many, format!("{few} and 2 other faults"));
    }
}
