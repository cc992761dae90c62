//! The list of pending steps: which steps a step needs, and what a set of steps brings with it.

use std::sync::Arc;

use crate::step::{PendingStep, StepKind, is_covered};
use crate::tree::node::Ino;

/// Steps, oldest first.
pub(crate) type Steps = Arc<Vec<Arc<PendingStep>>>;

/// Where a step stands in the list.
pub(crate) fn position(steps: &[Arc<PendingStep>], id: u64) -> Option<usize> {
    steps.binary_search_by_key(&id, |step| step.id).ok()
}

/// The step before it in the order of calls, if that order counts for it.
pub(crate) fn before_in_order(steps: &[Arc<PendingStep>], at: usize) -> Option<usize> {
    if !steps[at].ordered && !steps[at].late {
        return None;
    }
    (0..at)
        .rev()
        .find(|&other| steps[other].ordered && !steps[other].dropped)
}

/// Whether a step that persists whole makes its page what it was then. `whole` says it of the steps before.
pub(crate) fn completes_page(steps: &[Arc<PendingStep>], at: usize, whole: &[bool]) -> bool {
    let step = &steps[at];
    let before = step.before.and_then(|id| position(steps, id));
    !step.in_part && before.is_none_or(|before| whole[before])
}

/// The steps that a step needs by version and size: without barriers and without the order of calls.
pub(crate) fn version_needs(
    steps: &[Arc<PendingStep>],
    at: usize,
) -> impl Iterator<Item = usize> + '_ {
    let ids = steps[at].needs.iter().copied();
    ids.filter_map(|id| position(steps, id))
        .filter(|&at| !steps[at].dropped)
}

/// The steps that a step needs, without the order of calls.
pub(crate) fn explicit_needs(
    steps: &[Arc<PendingStep>],
    at: usize,
) -> impl Iterator<Item = usize> + '_ {
    let step = &steps[at];
    let older = if step.barriers > 0 { at } else { 0 };
    let behind = (0..older).filter(|&other| step.is_behind(&steps[other]));
    version_needs(steps, at).chain(behind)
}

/// The steps that a step needs.
pub(crate) fn needs(steps: &[Arc<PendingStep>], at: usize) -> impl Iterator<Item = usize> + '_ {
    explicit_needs(steps, at).chain(before_in_order(steps, at))
}

/// Adds to a set all that its steps need, the order of calls included or not.
pub(crate) fn close(steps: &[Arc<PendingStep>], set: &mut [bool], with_order: bool) {
    // A step needs only older ones, so one pass from the newest suffices. The order of calls is a chain: once it has begun, it holds for all. Of barriers
    // the last one holds for all.
    let mut in_order = false;
    let mut barriers = 0;
    for at in (0..steps.len()).rev() {
        let step = &steps[at];
        if step.dropped {
            set[at] = false;
            continue;
        }
        set[at] |= (in_order && step.ordered) || is_covered(step.covered_by, barriers);
        if set[at] {
            in_order |= with_order && (step.ordered || step.late);
            barriers = barriers.max(step.barriers);
            for needed in version_needs(steps, at) {
                set[needed] = true;
            }
        }
    }
}

/// Removes from a set the steps that lack what they need.
pub(crate) fn open(steps: &[Arc<PendingStep>], set: &mut [bool]) {
    // The first barrier that covers what is not in the set.
    let mut missing: Option<u64> = None;
    for at in 0..steps.len() {
        let step = &steps[at];
        set[at] = set[at]
            && !is_covered(missing, step.barriers)
            && version_needs(steps, at).all(|needed| set[needed])
            && before_in_order(steps, at).is_none_or(|before| set[before]);
        if !set[at] && !step.dropped {
            missing = missing.into_iter().chain(step.covered_by).min();
        }
    }
}

/// Which steps of a set another one of it needs.
pub(crate) fn needed_by(steps: &[Arc<PendingStep>], set: &[bool]) -> Vec<bool> {
    let mut needed = vec![false; steps.len()];
    let mut barriers = 0;
    for at in (0..steps.len()).rev() {
        needed[at] |= is_covered(steps[at].covered_by, barriers);
        if !set[at] {
            continue;
        }
        barriers = barriers.max(steps[at].barriers);
        for other in version_needs(steps, at).chain(before_in_order(steps, at)) {
            needed[other] = true;
        }
    }
    needed
}

/// The last step of a file that sets its size.
pub(crate) fn last_size(steps: &[Arc<PendingStep>], ino: Ino) -> Option<&Arc<PendingStep>> {
    let is_size =
        |kind: &StepKind| matches!(kind, StepKind::Size { .. } | StepKind::Truncate { .. });
    let mut newest = steps.iter().rev();
    newest.find(|step| step.ino == ino && is_size(&step.kind))
}
