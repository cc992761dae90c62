//! Judges what a guest says against what it must keep. Begin with [`Oracle`].
//!
//! - `oracle.rs`, `state/`: all that one oracle knows
//! - `history.rs`, `keys.rs`: what was asked for, in the order in which it was handed in
//! - `answers/`: what a running guest answers
//! - `recoveries/`: what a recovery showed, and whether that can be explained

mod answers;
mod config;
mod guest_fault;
mod history;
mod keys;
mod oracle;
mod property;
mod recoveries;
mod shared;
mod state;
mod symptoms;
mod truth;
mod violation;
mod words;

pub use answers::limits::Limits;
pub use config::CheckConfig;
pub use guest_fault::{GuestFault, misbehaved};
pub use oracle::{Counts, Ending, Oracle, OracleConfig};
pub use property::Property;
pub use recoveries::observation::Observation;
pub use recoveries::opening::Opening;
pub use recoveries::recovery::Recovery;
pub use recoveries::verify::{Token, Verification};
pub use truth::{DeviceTruth, RunFaults};
pub use violation::{Class, Classes, Facts, Likeness, Symptom, Violation};
