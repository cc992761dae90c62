//! A deliberately naive storage engine, and a second guest of kvsim: a log, one flush for each commit, everything in memory.
//!
//! - `engine` serves requests strictly one after the other, as one straight `async` function;
//! - `recovery` finds the end of the log and reads it into memory;
//! - `record` is the log's format, `request` what the host hands in, `port` the way to the disk;
//! - `manner` names other correct ways of working, by the option `manner=<name>`;
//! - `flaw` names the defects that the option `break=<name>` switches on, one for each property that kvsim checks;
//! - `abi` holds imports, exports and all that is unsafe about them. Everything else is tested on the host.
//!
//! Invariants of the engine as it is without a defect:
//! - a record is written only when the one before it is durable, so at most the last record of a log can be torn;
//! - a block that holds an acknowledged record is never rewritten while that record counts;
//! - a bad record with a later one of the same generation behind it is damage; without one it is the torn end.

#[cfg(target_family = "wasm")]
mod abi;
pub(crate) mod engine;
pub(crate) mod flaw;
pub(crate) mod manner;
pub(crate) mod port;
pub(crate) mod record;
mod recovery;
pub(crate) mod request;
