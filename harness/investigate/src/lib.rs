//! Many runs towards one answer.
//!
//! - [`campaign`]: many seeds of a scenario side by side, and a failing one confirmed
//! - [`mutants`]: mutants, and whether crashes find them
//! - [`syncs`]: the syncs of an engine that uses files, left out one place at a time

pub mod campaign;
pub mod mutants;
pub mod syncs;
