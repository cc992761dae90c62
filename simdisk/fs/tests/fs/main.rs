//! The simulated file system: its profiles and rules against the literature, a second reading of them, and a real directory.
#![allow(missing_docs, reason = "a test")]

mod against_directory;
mod alice;
mod brute_force;
mod common;
mod cuttlefs;
mod faults;
mod kill;
mod plant;
mod profiles;
mod rules;
mod tears;
mod versions;
