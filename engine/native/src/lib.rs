//! The engine on a real disk: one file or block device, drivers for it, and a database for many threads and tasks.
//!
//! The engine itself knows no threads, no clock and no files (see `kvsim-engine`). Here it gets them:
//!
//! - `file` opens, locks, sizes and grows the one file; `device` finds out what the device under it promises;
//! - `driver` carries operations to it: io_uring, or a pool of threads;
//! - `leader` lets many threads share the engine and the waiting for the disk; `waiter` is where they wait;
//! - [`record`] notes everything that is asked of the kernel, for those who want to crash it afterwards;
//! - `rows` answers most reads without the engine;
//! - `database` is what callers see.
#![cfg(unix)]

mod database;
mod device;
mod driver;
mod error;
mod file;
mod leader;
mod options;
pub mod record;
mod rows;
mod waiter;

pub use database::{Database, Entries};
pub use device::DeviceReport;
pub use error::{Failure, OpenError};
pub use kvsim_engine::{Direction, Durability, Entry, Mutation, ScanRange, Stats, Status};
pub use leader::{Counts, IoCounts};
pub use options::{DriverChoice, Kind, OpenOptions};
pub use rows::Value;
