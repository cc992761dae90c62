//! The words that the crates of the harness share. It knows of no workload, no oracle and no scenario.
//!
//! - [`value`]: values that say whose they are
//! - [`key`]: keys as a person is shown them
//! - [`limits`]: limits of a guest that are known
//! - [`units`]: ranges of seeds, spans of time, and numbers with their units
//! - [`coverage`]: which of the guest's coverage points were reached

pub mod coverage;
pub mod key;
pub mod limits;
pub mod units;
pub mod value;
