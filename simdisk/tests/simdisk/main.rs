//! The simulated device: what it keeps and loses at a crash, its faults, and that it does the same again.
#![allow(missing_docs, reason = "a test")]

mod barriers;
mod choices;
mod common;
mod config;
mod crash_model;
mod damage;
mod errors;
mod failed_writes;
mod growth;
mod lies;
mod persistence;
mod replay;
mod scripts;
mod tears;
mod unreadable;
