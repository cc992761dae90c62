//! Why garbage collection stops, and what all its ways share.

use crate::api::error::Error;
use crate::format::damage::{Corruption, Mismatch};
use crate::runtime::handle::Handle;

/// Records that one step looks at.
pub(crate) const RECORDS_PER_STEP: usize = 32;

/// Why a victim was not finished.
pub(crate) enum Stop {
    /// There is no room to move anything to before the next checkpoint.
    NoRoom,
    /// Damage was met.
    Damaged(Corruption),
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}

/// A victim that was gone through and still holds something live would be chosen for ever: it is damaged in some way.
pub(crate) fn nothing_left(handle: &Handle, victim: u32, device: u64) -> Result<(), Stop> {
    let left = handle.with(|core| core.segments.get(victim).live_bytes);
    Mismatch::check("live bytes left in the segment", 0, left)
        .map_err(|mismatch| Stop::Damaged(mismatch.at(device)))
}
