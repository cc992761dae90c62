//! What runs and explorations found: as values, as JSON for machines, as text for people. Nothing here runs anything.
//!
//! - [`summary`]: a run of a scenario; its verdict and its failures
//! - [`explore`]: an exploration
//! - [`blame`]: what is missing in a guest
//! - [`left`]: the files as a crash left them, in a real directory
//! - [`failure`]: a failing case, reported and saved; [`story`]: the failing run, if it was recorded
//! - [`error`]: why nothing is said about the guest

pub mod blame;
pub mod error;
pub mod explore;
pub mod failure;
pub mod left;
pub mod story;
pub mod summary;
