//! What an opening has counted of entries that are not in memory. See `forgotten.rs`.

use std::collections::BTreeMap;

use crate::format::damage::Mismatch;

/// Live bytes of the entries that are not in memory.
#[derive(Debug, Default)]
pub(crate) struct Forgotten {
    /// In the log, by the numbers of the segments.
    pub(super) live: BTreeMap<u64, u64>,
    /// The highest sequence number.
    pub(super) sequence: u64,
    /// Where the last value in the log ends.
    pub(super) end: u64,
    /// The first thing that cannot be.
    pub(super) odd: Option<Mismatch>,
}
