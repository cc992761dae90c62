//! What is known of victims whose live records go with the commits, and of released segments.

/// A victim whose survivors go with the commits.
#[derive(Debug)]
pub(crate) struct Piggyback {
    pub(super) victim: u32,
    /// The first of its residents that was not looked at.
    pub(super) from: usize,
    /// No more of them can go this way.
    pub(super) ended: bool,
}

/// A released segment that waits for its record to be proven.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leaving {
    /// Position of the record.
    pub(super) lsn: u64,
    pub(super) physical: u32,
}
