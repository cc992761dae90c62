//! Entries on their way from the index to a page, a few at a time, so that clients go on between the steps.

use std::ops::Bound;

use crate::core::Core;
use crate::index::entry::encode;
use crate::index::place::{Place, Version};

/// Keys that one step looks at where all of them are written.
pub(super) const ENTRIES_PER_STEP: usize = 128;
/// The same where few have changed.
pub(super) const CHANGES_PER_STEP: usize = 512;

/// The entries of one step, in one piece of memory, since the index holds many.
#[derive(Default)]
pub(super) struct Step {
    bytes: Vec<u8>,
    /// Of each entry where its key begins, where its payload, and where that ends.
    ends: Vec<(usize, usize, usize)>,
}

impl Step {
    /// Takes the next few; see [`Index::to_write`](crate::index::memory::Index::to_write).
    pub(super) fn take(
        &mut self,
        core: &Core,
        start: Bound<&[u8]>,
        end: Option<&[u8]>,
        all: bool,
    ) -> Option<Box<[u8]>> {
        let limit = if all {
            ENTRIES_PER_STEP
        } else {
            CHANGES_PER_STEP
        };
        core.index.to_write(start, end, all, limit, |key, version| {
            self.push(key, version);
        })
    }

    /// Adds an entry, or that there is none any more.
    pub(super) fn push(&mut self, key: &[u8], version: &Version) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let payload = self.bytes.len();
        encode(version, &mut self.bytes);
        self.ends.push((start, payload, self.bytes.len()));
    }

    /// The same if the key is there.
    pub(super) fn push_live(&mut self, key: &[u8], version: &Version) {
        if version.place != Place::Tombstone {
            self.push(key, version);
        }
    }

    /// Adds an entry as it is in a run.
    pub(super) fn push_payload(&mut self, key: &[u8], payload: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let at = self.bytes.len();
        self.bytes.extend_from_slice(payload);
        self.ends.push((start, at, self.bytes.len()));
    }

    /// Hands out key and payload of each; `None` as soon as one finds no room.
    pub(super) fn each(&self, mut push: impl FnMut(&[u8], &[u8]) -> Option<()>) -> Option<()> {
        self.ends.iter().try_for_each(|(key, payload, end)| {
            push(&self.bytes[*key..*payload], &self.bytes[*payload..*end])
        })
    }
}
