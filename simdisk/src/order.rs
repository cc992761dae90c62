//! What barriers demand of a crash state.
//!
//! A write follows another if a barrier was submitted after the completion of that one and had completed before the submission of this one. As
//! both are told by moments, so is the whole relation: a write follows all that completed before its `ordered_after`.
//!
//! Invariants: the relation is transitive; a set of persisted writes is *closed* if it holds all that each of them follows.

use kvsim_crash::{CrashError, CrashState, Sectors};

use crate::persistence::{PendingWrite, position};

/// Whether any barrier orders any of these.
pub(crate) fn is_ordered(pending: &[PendingWrite]) -> bool {
    let first = pending
        .iter()
        .filter(|write| write.completed && !write.dropped);
    let first = first.map(|write| write.completed_at).min();
    let last = pending.iter().map(|write| write.ordered_after).max();
    first.is_some_and(|first| last.is_some_and(|last| first < last))
}

/// Whether a state respects the barriers: all that a persisted write follows survives whole, and before it.
pub(crate) fn check(state: &CrashState, pending: &[PendingWrite]) -> Result<(), CrashError> {
    if !is_ordered(pending) {
        return Ok(());
    }
    let mut place = vec![None; pending.len()];
    for (number, persisted_write) in state.persisted.iter().enumerate() {
        if let Some(at) = position(pending, persisted_write.id) {
            let whole = persisted_write.sectors == Sectors::All;
            place[at] = Some((number, whole));
        }
    }
    for (write, own) in pending.iter().zip(&place) {
        let Some((own, _)) = own else { continue };
        for (needed, found) in pending.iter().zip(&place) {
            let before = |&(number, whole): &(usize, bool)| whole && number < *own;
            if write.is_ordered_after(needed) && !found.as_ref().is_some_and(before) {
                return Err(CrashError::BeforeBarrier {
                    id: write.id,
                    needs: needed.id,
                });
            }
        }
    }
    Ok(())
}

/// Makes a choice of what is pending closed: by what is missing, or else without what lacks something.
pub(crate) fn close<'a>(chosen: &mut Vec<&'a PendingWrite>, all: &[&'a PendingWrite], add: bool) {
    let is_chosen = |id: u64| chosen.iter().any(|write| write.id == id);
    if add {
        let needed = chosen
            .iter()
            .map(|write| write.ordered_after)
            .max()
            .unwrap_or(0);
        let is_kept = |write: &&&PendingWrite| {
            is_chosen(write.id) || (write.completed && write.completed_at < needed)
        };
        *chosen = all.iter().filter(is_kept).copied().collect();
        return;
    }
    let missing = all
        .iter()
        .filter(|write| write.completed && !is_chosen(write.id));
    let first_missing = missing
        .map(|write| write.completed_at)
        .min()
        .unwrap_or(u64::MAX);
    chosen.retain(|write| write.ordered_after <= first_missing);
}

/// Moves each write behind those that it follows, and changes the order no more than that takes.
pub(crate) fn sort(chosen: &mut Vec<&PendingWrite>) {
    let mut rest = std::mem::take(chosen);
    while !rest.is_empty() {
        let completed = rest.iter().filter(|write| write.completed);
        let first = completed
            .map(|write| write.completed_at)
            .min()
            .unwrap_or(u64::MAX);
        let next = rest.iter().position(|write| write.ordered_after <= first);
        chosen.push(rest.remove(next.expect("what completed first follows nothing")));
    }
}

/// Whether none of these follows it, so that it may be torn.
pub(crate) fn is_last(write: &PendingWrite, chosen: &[&PendingWrite]) -> bool {
    !chosen.iter().any(|other| other.is_ordered_after(write))
}
