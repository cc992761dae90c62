//! Scenarios: the TOML format, how one is loaded, drawn for a seed and explained, and the world and the oracle that it asks for.
//!
//! - [`Scenario`]: all fields; [`load`] and [`parse`] make one, mistakes shown at their place
//! - [`explain`](explain()): every field with its meaning
//! - [`case`]: one failure step by step, as a file says it
//! - [`guest`]: which guest is crashed
//! - [`setup`]: the world and the oracle of a seed
//!
//! Nothing here runs anything.

pub mod case;
mod draw;
mod error;
mod explain;
mod explore_config;
mod fields;
pub mod files;
pub mod guest;
mod layers;
mod load;
mod paths;
mod profiles;
mod run_config;
mod scenario;
pub mod setup;
mod shipped;
mod sources;
#[cfg(test)]
mod tests;
mod validate;
mod vary;

pub use error::{Diagnostic, Place, ScenarioError};
pub use explain::explain;
pub use explore_config::{ExploreConfig, RecoveryError};
pub use fields::FIELDS;
pub use kvsim_api::units::{
    OptionText, SeedRange, bytes, nanoseconds, parse_duration, parse_moment, thousands,
};
pub use load::{load, parse};
pub use paths::set_paths;
pub use profiles::BUILTIN as BUILTIN_PROFILES;
pub use run_config::{CrashClock, GuestConfig, HostConfig, OnDamage, RunConfig};
pub use scenario::{Expect, FailureRecord, Scenario};
pub use shipped::{Purpose, SHIPPED, Shipped};
