//! The report of a whole exploration from those of its shards.
//!
//! Invariant: what comes out is, but for times, what one exploration without shards reports, in any order of the parts. A part that is
//! missing, double or of something else is an error. (Where a property is violated each shard stops by itself, so the counts are
//! then those of what the shards came to.)

use std::collections::BTreeSet;

use super::report::{ExploreReport, Level, PointCount};
use crate::summary::part::grouped;
use crate::summary::{FailureReport, Verdict};

/// Merges the parts of any number of explorations; these come out in the order of their first parts. `strict`: a coverage point of the guest that
/// no part reached makes the whole inconclusive.
///
/// # Errors
/// What does not fit together, in a sentence.
pub fn merge(parts: Vec<ExploreReport>, strict: bool) -> Result<Vec<ExploreReport>, String> {
    let mut wholes = grouped(parts, |part| &part.scenario)
        .into_iter()
        .map(merge_one)
        .collect::<Result<Vec<_>, _>>()?;
    for whole in wholes.iter_mut().filter(|_| strict) {
        let Some(shortfall) = whole.coverage.shortfall() else {
            continue;
        };
        match &mut whole.verdict {
            Verdict::Violation => {}
            Verdict::Inconclusive(reasons) => reasons.push(shortfall),
            Verdict::Pass if whole.failures.is_empty() => {
                whole.verdict = Verdict::Inconclusive(vec![shortfall]);
            }
            Verdict::Pass => {}
        }
    }
    Ok(wholes)
}

fn merge_one(mut parts: Vec<ExploreReport>) -> Result<ExploreReport, String> {
    let name = parts[0].scenario.clone();
    let wrong = |what: &str| Err(format!("{name}: {what}"));
    let of = |part: &ExploreReport| part.shard.unwrap_or((0, 1));
    let count = of(&parts[0]).1;
    let mut numbers = BTreeSet::new();
    for part in &parts {
        let first = &parts[0];
        if of(part).1 != count {
            return wrong("its parts are of explorations in different numbers of shards");
        }
        if (part.seed, &part.guest_hash) != (first.seed, &first.guest_hash) {
            return wrong("its parts differ in seed or guest");
        }
        if !numbers.insert(of(part).0) {
            return wrong(&format!("shard {}/{count} is there twice", of(part).0));
        }
    }
    if let Some(missing) = (0..count).find(|number| !numbers.contains(number)) {
        return wrong(&format!("shard {missing}/{count} is missing"));
    }
    parts.sort_by_key(|part| of(part).0);
    let recorded = |part: &ExploreReport| (part.requests, part.events, part.points_asked);
    if parts
        .iter()
        .any(|part| recorded(part) != recorded(&parts[0]))
    {
        return wrong("its parts recorded different runs");
    }
    let verdict = verdict(&parts);
    let mut parts = parts.into_iter();
    let Some(mut whole) = parts.next() else {
        return wrong("it has no parts");
    };
    for part in parts {
        add_points(&mut whole.points, part.points)?;
        add_levels(&mut whole.levels, part.levels);
        whole.work_errors.add_shard(&part.work_errors);
        whole.coverage.add(&part.coverage)?;
        whole.time_over |= part.time_over;
        whole.elapsed = whole.elapsed.max(part.elapsed);
        whole.cpu = whole.cpu.zip(part.cpu).map(|(one, other)| one + other);
        whole.jobs += part.jobs;
        whole.failures.extend(part.failures);
        whole.failure_points.extend(part.failure_points);
    }
    let mut failures: Vec<(u64, FailureReport)> = whole
        .failure_points
        .into_iter()
        .zip(whole.failures)
        .collect();
    failures.sort_by_key(|(point, _)| *point);
    (whole.failure_points, whole.failures) = failures.into_iter().unzip();
    whole.shard = None;
    whole.verdict = verdict;
    Ok(whole)
}

/// Each shard lists the states of all points and judges its own.
fn add_points(whole: &mut Vec<PointCount>, part: Vec<PointCount>) -> Result<(), String> {
    for (at, point) in part.into_iter().enumerate() {
        let Some(same) = whole.get_mut(at) else {
            whole.push(point);
            continue;
        };
        let checked = same.checked + point.checked;
        let listed = |point: &PointCount| PointCount {
            checked: 0,
            ..point.clone()
        };
        if listed(same) != listed(&point) {
            return Err(format!(
                "crash point {at} differs between two shards: they are of different versions, guests or scenarios"
            ));
        }
        same.checked = checked;
    }
    Ok(())
}

/// Below the first depth each shard has points of its own.
fn add_levels(whole: &mut Vec<Level>, part: Vec<Level>) {
    for (at, level) in part.into_iter().enumerate() {
        let Some(sum) = whole.get_mut(at) else {
            whole.push(level);
            continue;
        };
        if at == 0 {
            sum.checked += level.checked;
            sum.reported += level.reported;
            sum.recoveries += level.recoveries;
            sum.undecided += level.undecided;
            sum.errors.add(&level.errors);
        } else {
            sum.add_level(&level);
        }
    }
}

/// That of the first violation; else a doubt of one is a doubt of all.
fn verdict(parts: &[ExploreReport]) -> Verdict {
    let first = parts
        .iter()
        .filter(|part| !part.failures.is_empty())
        .min_by_key(|part| part.failure_points.first().copied());
    if let Some(part) = first {
        return part.verdict.clone();
    }
    let mut reasons: Vec<String> = Vec::new();
    for part in parts {
        if let Verdict::Inconclusive(why) = &part.verdict {
            for reason in why {
                if !reasons.contains(reason) {
                    reasons.push(reason.clone());
                }
            }
        }
    }
    if reasons.is_empty() {
        Verdict::Pass
    } else {
        Verdict::Inconclusive(reasons)
    }
}
