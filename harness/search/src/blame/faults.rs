//! Failures that need a device which does not do as it is told.

use std::collections::BTreeSet;

use kvsim_sim::TraceMode;

use crate::explore::open::Setting;
use kvsim_drive::case::{Course, Driven, Stop, drive_on};
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
    let faults: BTreeSet<String> = fired
        .iter()
        .map(|fault| {
            let kind = fault.name().replace('_', " ");
            format!("the {kind} at operation {}", fault.op())
        })
        .collect();
    Some(Vec::from_iter(faults).join(" and "))
}
