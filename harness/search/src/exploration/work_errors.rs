//! The recorded run once more, with one operation of its work failing: each read, each write and each flush, in every way within the bounds; and
//! all that a cut after that can leave.
//!
//! A write fails with nothing of it written, all of it, or its first half; a cut can take away any sectors of what was written. A flush fails and drops every
//! subset of what it covers.
//!
//! Invariant: up to the operation that fails the run is the recorded one, event for event, so what was seen before that is not looked at again.

use kvsim_sim::StorageFault;
use kvsim_simdisk::{FaultKind, OpNote, ScriptedFault};

use super::Exploration;
use crate::explore::judge;
use crate::explore::level::{Ended, Walk};
use crate::explore::point::Point;
use crate::explore::record::{Recording, Stopped, record_failing};
use kvsim_explore::parallel::map;
use kvsim_findings::explore::WorkErrorCounts;

/// Runs that are recorded before their points are walked.
const RUNS_AT_ONCE: usize = 16;

/// Makes the runs, and walks the points of each.
pub(super) fn walk_failing(
    exploration: &Exploration,
    recording: &Recording,
    walk: &mut Walk<'_>,
    counts: &mut WorkErrorCounts,
) -> Result<(), Ended> {
    let scripts = scripts(exploration, recording, counts);
    let checked = |walk: &Walk<'_>| -> u64 { walk.levels.iter().map(|level| level.checked).sum() };
    let before = checked(walk);
    let ended = walk_all(exploration, recording, walk, counts, &scripts);
    counts.states = checked(walk) - before;
    ended
}

fn walk_all(
    exploration: &Exploration,
    recording: &Recording,
    walk: &mut Walk<'_>,
    counts: &mut WorkErrorCounts,
    scripts: &[Vec<StorageFault>],
) -> Result<(), Ended> {
    let mut first = recording.points.len() as u64;
    for part in scripts.chunks(RUNS_AT_ONCE) {
        if walk.control.stopped().is_some() {
            return Err(Ended::Stopped);
        }
        let recorded = map(exploration.jobs, 1, part, |script| {
            record_failing(
                &exploration.scenario,
                &exploration.program,
                exploration.seed,
                script,
            )
        });
        for (script, recorded) in part.iter().zip(recorded) {
            let fault = &script[0];
            *if fault.is_failure(FaultKind::ReadError) {
                &mut counts.reads
            } else if fault.is_failure(FaultKind::WriteError) {
                &mut counts.writes
            } else {
                &mut counts.flushes
            } += 1;
            let recorded = match recorded {
                Ok(recorded) => recorded,
                Err(Stopped::Found(mut found)) => {
                    found.origin = first;
                    walk.found.push(*found);
                    if walk.found.len() as u64 >= walk.scenario.explore.violations_max {
                        return Err(Ended::Enough);
                    }
                    continue;
                }
                Err(Stopped::Failed(failed)) => return Err(Ended::Failed(failed)),
                Err(Stopped::Reported(what)) => {
                    return Err(Ended::Failed(judge::Failed::Invalid(format!(
                        "a run in which operation {} fails does not come to its work: {what}",
                        fault.op()
                    ))));
                }
            };
            let is_after = |point: &Point| point.moment.storage().next_op() > fault.op();
            let from = recorded.points.partition_point(|point| !is_after(point));
            let points = &recorded.points[from..];
            counts.points += points.len() as u64;
            let walked = walk.points_from(first, &recorded.process_run, points);
            first += points.len() as u64;
            walked.map_err(|(_, ended)| ended)?;
        }
    }
    Ok(())
}

/// What affects the device in each run.
fn scripts(
    exploration: &Exploration,
    recording: &Recording,
    counts: &mut WorkErrorCounts,
) -> Vec<Vec<StorageFault>> {
    let on_files = exploration.scenario.files.is_some();
    let explore = &exploration.scenario.explore;
    let mut scripts = Vec::new();
    for error in &explore.work_errors {
        let such = recording.ops.iter().filter(|op| op.fault == error.fault());
        let most = usize::try_from(explore.work_errors_max).unwrap_or(usize::MAX);
        counts.ops_left_out += such.clone().skip(most).count() as u64;
        for op in such.take(most) {
            if on_files {
                scripts.extend(StorageFault::failed_call(op.id, op.fault).map(|fault| vec![fault]));
                continue;
            }
            match op.fault {
                FaultKind::WriteError => {
                    scripts.extend(failed_writes(op).into_iter().map(of_device))
                }
                FaultKind::FlushError => {
                    let (drops, all) = drops(&op.covered, explore.work_errors_drops);
                    counts.drops_left_out += u64::from(!all);
                    let failed = |dropped| of_device(failed_flush(op, dropped));
                    scripts.extend(drops.into_iter().map(failed));
                }
                kind => scripts.push(vec![ScriptedFault::new(op.id, kind).into()]),
            }
        }
    }
    scripts
}

fn of_device(script: Vec<ScriptedFault>) -> Vec<StorageFault> {
    script.into_iter().map(StorageFault::from).collect()
}

/// Nothing of it written, all of it, and the first half.
fn failed_writes(op: &OpNote) -> Vec<Vec<ScriptedFault>> {
    let nothing = ScriptedFault::new(op.id, FaultKind::WriteError);
    let all = ScriptedFault {
        written: Some(true),
        ..nothing.clone()
    };
    let half = ScriptedFault {
        sectors: (0..op.sectors / 2).collect(),
        ..all.clone()
    };
    let mut ways = vec![vec![nothing], vec![all]];
    if op.sectors > 1 {
        ways.push(vec![half]);
    }
    ways
}

fn failed_flush(op: &OpNote, dropped: Vec<u64>) -> Vec<ScriptedFault> {
    let mut script = vec![ScriptedFault::new(op.id, FaultKind::FlushError)];
    script.push(ScriptedFault {
        dropped: Some(dropped),
        ..ScriptedFault::new(op.id, FaultKind::DirtyDropped)
    });
    script
}

/// Every subset, if there are no more than so many; else all, none, each alone and all but each. And whether these are all.
fn drops(covered: &[u64], most: u64) -> (Vec<Vec<u64>>, bool) {
    let count = u32::try_from(covered.len()).unwrap_or(u32::MAX);
    let subsets = 1_u64.checked_shl(count).filter(|subsets| *subsets <= most);
    if let Some(subsets) = subsets {
        let subset = |bits: u64| {
            let kept = (0..).zip(covered).filter(|(at, _)| bits >> at & 1 == 1);
            kept.map(|(_, id)| *id).collect()
        };
        return ((0..subsets).map(subset).collect(), true);
    }
    let mut simple = vec![Vec::new(), covered.to_vec()];
    for id in covered {
        simple.push(vec![*id]);
        simple.push(
            covered
                .iter()
                .copied()
                .filter(|other| other != id)
                .collect(),
        );
    }
    (simple, false)
}

#[cfg(test)]
mod tests {
    use super::drops;

    /// Goal: every subset is dropped once where there are few, and where there are many it is said that some are left out. Method: three operations, with a bound
    /// that is just enough and one that is not; and far more than can be counted.
    #[test]
    fn a_failed_flush_drops_every_subset() {
        let (mut all, complete) = drops(&[3, 5, 9], 8);
        assert!(complete);
        assert_eq!(all.len(), 8);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 8);
        let (simple, complete) = drops(&[3, 5, 9], 7);
        assert!(!complete);
        assert_eq!(simple.len(), 8);
        let many: Vec<u64> = (0..100).collect();
        let (simple, complete) = drops(&many, u64::MAX);
        assert!(!complete);
        assert_eq!(simple.len(), 202);
        assert_eq!(drops(&[], 1), (vec![Vec::new()], true));
    }
}
