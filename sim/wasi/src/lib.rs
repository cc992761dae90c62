//! The WASI preview 1 host: storage engines that use files, above the simulated file system.
//!
//! An engine is compiled by its own toolchain for WASI preview 1 and speaks one small protocol, in which each request is one message and each
//! answer another ([`message`]). What it does with files goes to a [`kvsim_fs::FileSystem`], and each step of that is let out as an event, so that
//! a crash can fall between any two steps of one call. Invariants:
//! - an engine can do only what preview 1 has: no sockets, no other directory than `/db`, no real clock, no real chance;
//! - the same engine on the same files with the same messages does the same, whatever the machine;
//! - whatever an engine does (trap, exit, loop, grow, fill the disk) is a verdict that names it, and changes nothing else.

mod calls;
mod clock;
mod command;
mod compact;
mod engines;
mod exchange;
mod guest;
mod host;
mod image;
mod imports;
mod mapping;
mod message;
mod preview1;
mod program;
mod reactor;
mod stdin;
mod table;
mod verdict;

pub use clock::{EPOCH_NS, Told};
pub use guest::{IDLE_AFTER_NS, WasiGuest};
pub use imports::{Form, is_file_engine};
pub use message::{Description, PROTOCOL_VERSION};
pub use program::{LoadOptions, WasiProgram};
