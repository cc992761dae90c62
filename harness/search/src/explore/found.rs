//! A violation that was found, before it is confirmed.

use kvsim_oracle::Violation;
use kvsim_scenario::case::Case;

/// A violation and the steps to it.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) violation: Box<Violation>,
    pub(crate) case: Box<Case>,
    pub(crate) depth: u32,
    /// The number of the point of the recording that it comes from.
    pub(crate) origin: u64,
}
