//! A crash-safe ordered key/value engine as a state machine: no clock, no threads, no randomness, no I/O of its own.
//!
//! [`Engine`] takes requests, completions and time, and lets disk operations, replies and log lines out through a
//! [`Port`]. Everything else is inside, in folders. An arrow between files runs one way only. Each folder keeps its
//! state in files below `core`, which holds one of each; the files that work on the core are above it.
//!
//! - `api`: what a driver and the engine say to each other; `format`: the bytes on the device, which the book's chapter "The file format" describes;
//! - `log`: frames and the order of records; `index`: keys, versions and their places; `segments`: the use of space, and extents;
//! - `commit`: the way of a write to its acknowledgement; `read`: single values and scans;
//! - `checkpoint`, `gc` (garbage collection), `recovery`: `async` procedures, for which `runtime` has the small executor;
//! - `engine`: the order of it all, from a call to the next wake-up;
//! - `repair`: what can be read of a damaged database. It stands beside all this: nothing here knows of it, it needs no engine, and the sandboxed engine does not have it.
//!
//! A write that is acknowledged as durable survives a power cut at any point. A write that was not acknowledged is
//! wholly there or wholly not. What survives is a prefix of the order of requests. Damage is reported, never returned
//! as a value.
//!
//! Invariants:
//!
//! - **Every number of an image is checked before it is used.** A checksum shows that bytes were written so, not that their numbers make sense. `crafted` edits real
//!   images and makes their checksums right again.
//! - **Cached values are checked against the checksum in the index** when garbage collection takes them in place of reading (`gc/live_records.rs`).

#[cfg(test)]
extern crate self as kvsim_engine;

mod api;
mod checkpoint;
mod commit;
mod core;
#[cfg(test)]
mod crafted;
mod engine;
mod format;
mod gc;
mod index;
mod log;
mod mutant;
mod read;
mod recovery;
#[cfg(not(target_family = "wasm"))]
mod repair;
mod runtime;
mod segments;

pub use api::buffer::{ALIGN_BYTES, IoBuf, Shared};
pub use api::cached_values::CachedValues;
pub use api::config::{CommitMode, Config, DeviceInfo, Options};
pub use api::coverage::CoveragePoint;
pub use api::error::Error;
pub use api::event::{Event, StallReason};
pub use api::option_help::{OPTIONS, OptionHelp};
pub use api::port::{
    Direction, DiskError, DiskOp, Durability, Entry, Level, Mutation, Nanos, Port, Reply, Request,
    RequestId, ScanRange, SnapshotId, Status,
};
pub use api::promise::{Promise, Room};
pub use api::stats::Stats;
pub use engine::Engine;
pub use format::damage::{Corruption, Mismatch};
pub use index::key::Key;
pub use mutant::Mutant;
pub use read::find::{Find, Found, Learnt};
pub use read::outside::Join;
pub use read::record::CannotRead;
#[cfg(not(target_family = "wasm"))]
pub use repair::{Image, KeySpan, LogGap, NoDatabase, Outcome, Repair};
pub use runtime::request::{OwnedMutation, OwnedRange};
