//! Many runs towards one answer.
//!
//! - [`campaign`]: many seeds of a scenario side by side, and a failing one confirmed
//! - [`mutants`]: mutants, and whether crashes find them

pub mod campaign;
pub mod mutants;
