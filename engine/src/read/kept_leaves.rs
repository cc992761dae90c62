//! Leaves of the index that scans have read, and that scans of keys near these find in memory. Gets and writes keep entries instead, or the driver
//! keeps values: they take far less.
//!
//! They take of what the index may have of memory, but never of the half that is kept for entries.

use std::sync::Arc;

use crate::api::coverage::CoveragePoint;
use crate::core::Core;
use crate::format::page::PageRef;
use crate::mutant::{Mutant, mutant};
use crate::read::waiting::LeafKey;

fn key_of(leaf: &PageRef) -> LeafKey {
    let checksum = match mutant(Mutant::LeafKeptByPlace) {
        true => 0,
        false => leaf.checksum,
    };
    (leaf.offset, checksum)
}

impl Core {
    /// The bytes of a leaf, if they are kept.
    pub(crate) fn kept_leaf(&mut self, leaf: &PageRef) -> Option<Arc<[u8]>> {
        let bytes = self.lookups.kept_leaves.get(key_of(leaf))?;
        self.reached(CoveragePoint::LeafKept);
        Some(bytes)
    }

    /// Keeps the bytes of a leaf that was read, and found to be whole.
    pub(crate) fn keep_leaf(&mut self, leaf: &PageRef, bytes: impl AsRef<[u8]> + Into<Arc<[u8]>>) {
        self.bound_kept_leaves();
        if self.lookups.kept_leaves.takes(bytes.as_ref().len()) {
            self.lookups.kept_leaves.insert(key_of(leaf), bytes.into());
        }
    }

    /// What the runs take of memory is something else by now.
    pub(crate) fn bound_kept_leaves(&mut self) {
        let half = self.settings.options.index_bytes / 2;
        let bound = half.saturating_sub(self.runs.memory_bytes());
        self.lookups.kept_leaves.set_bound(bound);
    }
}
