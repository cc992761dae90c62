//! Where the log ends, and goes on.

use crate::format::Geometry;
use crate::format::checksum::Identity;

/// Where appending goes on after recovery.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tail {
    pub(crate) lsn: u64,
    pub(crate) current: u32,
    pub(crate) next: u32,
    pub(crate) previous_checksum: u64,
    pub(crate) previous_end: u64,
    pub(crate) next_sequence: u64,
}

/// The tail of a log to which nothing was ever appended: logical segment 1, to be entered at physical 0.
pub(crate) fn first_tail(geometry: &Geometry, id: &Identity) -> Tail {
    Tail {
        lsn: geometry.segment_bytes,
        current: 0,
        next: 0,
        previous_checksum: id.chain_start(),
        previous_end: geometry.segment_bytes,
        next_sequence: 1,
    }
}
