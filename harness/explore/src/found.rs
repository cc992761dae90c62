//! A violation that was found, before it is confirmed.

use kvsim_oracle::Violation;
use kvsim_scenario::case::Case;

/// A violation and the steps to it.
#[derive(Debug, Clone)]
pub struct Found {
    /// What it violates.
    pub violation: Box<Violation>,
    /// Each step that leads there.
    pub case: Box<Case>,
    /// How many crashes deep it lies, from 1.
    pub depth: u32,
    /// The number of the point of the recording that it comes from.
    pub origin: u64,
}
