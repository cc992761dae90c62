//! What a device holds for certain although its flush only orders.

use crate::history::Pos;

/// What the medium holds for certain.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OnMedium {
    /// Up to here the medium holds everything.
    pub(crate) pos: Pos,
    /// Power cuts before the base.
    pub(crate) power_cuts: u64,
}
