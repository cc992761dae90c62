//! What is pending on a device, as crash states are made of it.

use kvsim_crash::{CrashError, CrashState, CrashStates, Effect, Effects, Role};

use crate::{Device, PendingKind, PendingWrite, order};

impl CrashStates for Device {
    fn effects(&self) -> Effects {
        let kept: Vec<&PendingWrite> = self
            .pending()
            .iter()
            .filter(|write| !write.dropped)
            .collect();
        let is_ordered = order::is_ordered(self.pending());
        let effect = |write: &&PendingWrite| {
            let needed = |other: &&PendingWrite| is_ordered && write.is_ordered_after(other);
            let needs = (0..).zip(&kept).filter(|(_, other)| needed(other));
            Effect {
                id: write.id,
                needs: needs.map(|(at, _)| at).collect(),
                tears: self.tears(write),
                lies_over: lies_over(write),
            }
        };
        Effects {
            list: kept.iter().map(effect).collect(),
            loss: self.faults().loss,
            reorder: self.faults().reorder,
        }
    }

    fn roles(&self, most: usize) -> Vec<(u64, Role)> {
        let pending = self.pending();
        let latest = &pending[pending.len().saturating_sub(most)..];
        latest.iter().map(|write| (write.id, role(write))).collect()
    }

    fn is_syncing(&self) -> bool {
        self.is_flushing()
    }

    fn check_crash(&self, state: &CrashState) -> Result<(), CrashError> {
        Device::check_crash(self, state)
    }

    fn image_hash_after(&self, state: &CrashState) -> Result<u128, CrashError> {
        Device::image_hash_after(self, state)
    }
}

/// Growths come first in any case.
fn lies_over(write: &PendingWrite) -> Option<(u64, u64)> {
    let (offset, len_bytes) = write.range();
    let is_growth = matches!(write.kind, PendingKind::Grow { .. });
    (!is_growth).then(|| (offset, offset + len_bytes))
}

fn role(write: &PendingWrite) -> Role {
    let (offset, len_bytes) = write.range();
    let kind = match write.kind {
        PendingKind::Write { .. } => 0,
        PendingKind::Discard { .. } => 1,
        PendingKind::Grow { .. } => 2,
    };
    Role {
        kind,
        file: None,
        offset,
        len_bytes,
        is_complete: write.completed,
    }
}
