//! What is done with the simulated world: workloads drive a guest, the oracle judges it, scenarios say what to run, and campaigns
//! run it over many seeds.
//!
//! - [`scenario`]: the TOML format: loading, profiles, mistakes shown at their place, `explain`
//! - [`workload`], [`value`], [`zipf`]: what clients do, and values that say whose they are
//! - [`oracle`]: the nine properties
//! - [`run`]: one seed, through many crashes
//! - [`campaign`], [`control`]: many seeds side by side, and how to watch and stop them
//! - [`summary`]: what came of it, for people and for machines
//! - [`recorded`]: the native engine on a real disk, recorded and crashed
//! - [`guest`]: which guest is crashed
//!
//! Invariant: what a seed does depends on scenario, guest and seed alone. Threads and clocks are in [`campaign`] only.

pub mod bench;
pub mod campaign;
pub mod control;
mod failure;
pub mod guest;
pub mod oracle;
pub mod recorded;
pub mod run;
pub mod scenario;
pub mod summary;
pub mod value;
pub mod workload;
pub mod zipf;
