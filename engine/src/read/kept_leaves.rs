//! Leaves of the index that scans have read, and gets of values that do not lie in the index. Whoever looks for keys near these finds them in memory.
//!
//! They take what the filters, the first keys of leaves and the entries leave of what the index may have of memory. An entry takes more than twice as much by itself as in a leaf, but those in memory can be
//! the ones that are asked for most. So where most leaves find room, entries leave for them. Else both have the half.

use std::sync::Arc;

use crate::api::coverage::CoveragePoint;
use crate::core::Core;
use crate::format::page::PageRef;
use crate::index::key::Key;
use crate::index::resident::ENTRY_BYTES;
use crate::mutant::{Mutant, mutant};
use crate::read::waiting::LeafKey;

/// Entries leave for leaves where two thirds of these find room.
const LEAVES_ROOM: u64 = 2;
const LEAVES_OF: u64 = 3;

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

    /// Of the leaves that may have a key, those that are kept.
    pub(super) fn kept_leaves_of(&mut self, number: usize, key: &Key) -> Vec<(PageRef, Arc<[u8]>)> {
        if self.lookups.kept_leaves.held_bytes() == 0 {
            return Vec::new();
        }
        let leaves = self.runs.partitions[number].leaves_of(key);
        let leaves: Vec<PageRef> = leaves.collect();
        let leaves = leaves.into_iter();
        leaves
            .filter_map(|leaf| Some((leaf, self.lookups.kept_leaves.get(key_of(&leaf))?)))
            .collect()
    }

    /// Keeps a leaf that has an entry which a get has found.
    pub(super) fn keep_leaf_of_get(&mut self, leaf: &PageRef, bytes: Arc<[u8]>) {
        self.keep_leaf(leaf, bytes);
        let entries = u64::from(leaf.len) / ENTRY_BYTES;
        match self.keeps_leaves_rather() {
            true => self.make_room_for_kept(entries),
            false => self.forget_down_to(self.entries_bytes(), entries),
        }
    }

    /// Whether so many leaves find room that entries which nobody has changed are worth less.
    pub(super) fn keeps_leaves_rather(&self) -> bool {
        let room = self.settings.options.index_bytes;
        let room = room.saturating_sub(self.runs.memory_bytes());
        room / LEAVES_ROOM * LEAVES_OF >= self.runs.bytes()
    }

    /// What the runs or the entries take of memory is something else by now.
    pub(crate) fn bound_kept_leaves(&mut self) {
        let all = self.settings.options.index_bytes;
        let entries = self.index.held_bytes().min(all / 2);
        let bound = all.saturating_sub(entries + self.runs.memory_bytes());
        self.lookups.kept_leaves.set_bound(bound);
    }
}
