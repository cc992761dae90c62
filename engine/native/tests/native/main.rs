//! The engine as a library: on files, with threads, killed, damaged and repaired. What counts threads, memory or bytes of its process is a program of its own, beside this one.
#![allow(missing_docs, reason = "a test")]

mod common;
mod compact;
mod conditional;
mod database;
mod events;
mod keyspaces;
mod kill;
mod little_index;
mod maintenance;
mod noise;
mod read_only;
mod reading;
mod repair;
mod streams;
mod transaction_ranges;
