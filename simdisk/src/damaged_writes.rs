//! Which writes are not where they should be, or not any more: what an engine would have to find there is gone.
//!
//! Kept for as many of the last writes as may matter to a judge: what a guest can still know about its last acknowledgements depends
//! on what it wrote since, and on whether that is whole.

use std::collections::VecDeque;

use crate::Nanos;

/// Writes that are remembered.
const WRITES: usize = 256;

#[derive(Debug, Clone, Copy)]
struct Write {
    submitted_at: Nanos,
    offset: u64,
    len_bytes: u64,
}

/// The last writes, and when the damaged ones were submitted.
#[derive(Debug, Clone, Default)]
pub(crate) struct DamagedWrites {
    writes: VecDeque<Write>,
    damaged: Vec<Nanos>,
}

impl DamagedWrites {
    /// A write is where it should be.
    pub(crate) fn wrote(&mut self, submitted_at: Nanos, offset: u64, len_bytes: u64) {
        if self.writes.len() == WRITES {
            self.writes.pop_front();
        }
        self.writes.push_back(Write {
            submitted_at,
            offset,
            len_bytes,
        });
    }

    /// A write that was submitted then is not.
    pub(crate) fn lost(&mut self, submitted_at: Nanos) {
        self.damaged.push(submitted_at);
    }

    /// These bytes are no longer what was written there.
    pub(crate) fn hit(&mut self, offset: u64, len_bytes: u64) {
        let overlaps = |write: &&Write| {
            write.offset < offset + len_bytes && offset < write.offset + write.len_bytes
        };
        let hit = self.writes.iter().filter(overlaps);
        self.damaged.extend(hit.map(|write| write.submitted_at));
    }

    pub(crate) fn damaged(&self) -> &[Nanos] {
        &self.damaged
    }
}
