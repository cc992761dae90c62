//! What is done with the simulated world: workloads drive a guest, the oracle judges it, scenarios say what to run, and campaigns
//! run it over many seeds.
//!
//! - [`scenario`]: the TOML format: loading, profiles, mistakes shown at their place, `explain`
//! - [`workload`], [`value`], [`zipf`]: what clients do, and values that say whose they are
//! - [`oracle`]: the eleven properties
//! - [`run`]: one seed, through many crashes
//! - [`case`]: one failure step by step, as a file says it
//! - [`minimise`]: a failure made small
//! - [`blame`]: what is missing in the guest, if it is a flush
//! - [`explore`]: one run, and every state that a crash at any moment of it can leave
//! - [`campaign`], [`control`]: many seeds side by side, and how to watch and stop them
//! - [`conformance`]: the rules of the ABI, one after the other
//! - [`suite`]: these, and four scenarios, in one table
//! - [`kit`]: what a guest of one's own begins with
//! - [`coverage`]: which of the guest's marks were reached
//! - [`summary`]: what came of it, for people and for machines
//! - [`report`]: runs and explorations as pages for a browser
//! - [`timeline`]: what happened in one run, in words and in order
//! - [`recorded`]: the native engine on a real disk, recorded and crashed
//! - [`guest`]: which guest is crashed
//!
//! Invariant: what a seed does depends on scenario, guest and seed alone. Threads and clocks are in [`campaign`] only.

pub mod bench;
pub mod blame;
pub mod campaign;
pub mod case;
pub mod conformance;
pub mod control;
pub mod coverage;
pub mod explore;
mod failure;
pub mod guest;
pub mod kit;
pub mod minimise;
pub mod mutants;
pub mod oracle;
mod page;
pub mod recorded;
pub mod report;
pub mod run;
pub mod scenario;
mod setup;
pub mod suite;
pub mod summary;
pub mod timeline;
pub mod value;
pub mod workload;
pub mod zipf;
