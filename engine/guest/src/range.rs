//! The range of a scan, kept for as long as the scan is not answered.

use kvsim_engine::{Direction, ScanRange};

/// A range of the newest versions that owns its keys.
pub(crate) struct OwnedRange {
    direction: Direction,
    start: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
    limit: u32,
    max_bytes: u32,
}

impl OwnedRange {
    pub(crate) fn of(range: &ScanRange<'_>) -> OwnedRange {
        OwnedRange {
            direction: range.direction,
            start: range.start.map(<[u8]>::to_vec),
            end: range.end.map(<[u8]>::to_vec),
            limit: range.limit,
            max_bytes: range.max_bytes,
        }
    }

    pub(crate) fn borrow(&self) -> ScanRange<'_> {
        ScanRange {
            snapshot: 0,
            direction: self.direction,
            start: self.start.as_deref(),
            end: self.end.as_deref(),
            limit: self.limit,
            max_bytes: self.max_bytes,
        }
    }
}
