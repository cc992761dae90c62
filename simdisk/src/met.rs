//! What the reads of a host have met: damage, and sectors that fail. It tells an error that a host must pass on from one that it must not.
//!
//! Invariants:
//! - a sector is *failing* from the moment at which the host is told of a failed read of it until a read that is submitted later succeeds, and no
//!   longer than the process run;
//! - a sector that a power cut has torn and made unreadable is never failing and never damage: nothing that was durable lies there, so every
//!   host has to do without it.

use std::collections::BTreeSet;
use std::ops::Range;

/// What reads have met.
#[derive(Debug, Clone, Default)]
pub(crate) struct Met {
    /// Reads whose answer a damaged sector or a lie has made, since the device was made.
    pub(crate) damage: u64,
    failing: BTreeSet<u64>,
}

impl Met {
    /// The host is told that a read of these sectors has failed.
    pub(crate) fn failed(&mut self, sectors: &[u64]) {
        self.failing.extend(sectors);
    }

    /// A read of these sectors is submitted and will succeed.
    pub(crate) fn succeeds(&mut self, sectors: Range<u64>) {
        if !self.failing.is_empty() {
            self.failing.retain(|sector| !sectors.contains(sector));
        }
    }

    /// The process run is over.
    pub(crate) fn stopped(&mut self) {
        self.failing.clear();
    }

    pub(crate) fn failing(&self) -> u64 {
        self.failing.len() as u64
    }
}
