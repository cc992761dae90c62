//! The engine on a real disk: one file or block device, drivers for it, and a database for many threads and tasks.
//!
//! The engine itself knows no threads, no clock and no files (see `kvsim-engine`). Here it gets them:
//!
//! - `api`: what callers choose, and why an opening fails;
//! - `io`: `file` opens, locks, sizes and grows the one file; `device` finds out what the device under it promises; `image` reads a file that may be damaged; `driver` carries operations to it: io_uring,
//!   or a pool of threads;
//! - `cache` answers most reads without the engine: `rows` by key (`shard`), and ranges of keys in order (`ranges`, `leaf`). `draft` is what a writer makes of
//!   its rows before it takes any lock, and `entries` is what readers borrow;
//! - `sync`: `leader` lets many threads share the engine and the waiting for the disk; `waiter` is where they wait; `intake` is where small relaxed writes wait,
//!   acknowledged, for the engine, and `leader/combining` hands them in for one thread that writes on and on; `events` is where what happened waits for a listener;
//! - `record`, a feature, notes everything that is asked of the kernel, for those who want to crash it afterwards;
//! - `gauge`, a feature, measures a disk through all that, for the simulator;
//! - `scan` answers scans, and `database` is what callers see. Both lie above the others. The folder `database` has a file for each thing that callers do with
//!   one beyond single reads and writes: `snapshot`, `range` and `cursor`; `batch` and `many`;
//!   `conditional` and `transaction`; `keys` for what needs no values; `read_only`; `backup`, `check`, `compact`, `dump`, `repair`; `metrics`;
//!   `tasks` and `writing` for those who do not block;
//! - `keyspaces` divides one database into named parts. It lies above `database`, and nothing knows of it;
//! - `streams`, above `database`, is for values that are too large to be in memory as a whole. A database keeps what its process knows of them (`live`), and nothing else of it.
//!
//! Invariants:
//!
//! - **One lock, and no thread sleeps with it.** The engine is touched only with its lock held. A thread that waits for
//!   the disk waits without the lock. A read or a scan that finds its values in the cache does not take it. If its
//!   holder panics, or the thread that waits for the disk on behalf of all, the engine is never called again, and all
//!   waiting threads are told (`sync/leader/held.rs`).
//! - **A writer makes its rows before it takes any lock, and frees the rows that leave after it** (`cache/draft.rs`). Under the lock they only change places.
//! - **The engine has promised room for what is acknowledged before it has it** (`sync/intake.rs`). These writes come before anything that is handed in later:
//!   rows and engine see writes in one order.
//! - **A scan from memory is of one moment.** `cache/ranges` keeps ranges of keys of which every key is in memory. A
//!   scan takes whole leaves under one lock, and reads them without it. A write to such a leaf goes to a copy. Rows
//!   change there and in the hash table of `rows` under that same lock, so no thread sees a write in one and not in the
//!   other.
#![cfg(unix)]

mod api;
mod cache;
mod database;
#[cfg(feature = "gauge")]
pub mod gauge;
mod io;
mod keyspaces;
mod lock;
#[cfg(feature = "record")]
pub mod record;
#[cfg(not(feature = "record"))]
#[expect(dead_code, unreachable_pub, reason = "nobody can make a recorder")]
mod record;
mod scan;
mod streams;
mod sync;

pub use api::error::{Failure, OpenError};
pub use api::event::{Event, Listener, StallReason};
pub use api::key_range::{KeyRange, Prefix};
pub use api::options::{DriverChoice, Kind, OpenOptions};
pub use cache::borrowed::Value;
pub use cache::entries::{Entries, Entry, Iter};
pub use database::backup::{BackupError, Progress};
pub use database::batch::WriteBatch;
pub use database::check::CheckReport;
pub use database::compact::{CompactError, CompactReport, compact};
pub use database::conditional::{Checked, Conditions};
pub use database::cursor::Cursor;
pub use database::dump::DumpError;
pub use database::metrics::{Metric, Metrics};
pub use database::range::{OwnedEntry, Range};
pub use database::read_only::ReadOnly;
pub use database::repair::report::RepairReport;
pub use database::repair::{RepairError, RepairProgress, repair};
pub use database::snapshot::Snapshot;
pub use database::transaction::{Transaction, TransactionRange};
pub use database::{Database, ENGINE_MEMORY_BYTES};
pub use io::device::DeviceReport;
pub use io::failure::{DiskFailure, DiskOperation};
pub use keyspaces::Keyspaces;
pub use keyspaces::batch::KeyspaceBatch;
pub use keyspaces::conditional::{KeyspaceChecked, KeyspaceConditions};
pub use keyspaces::error::{KEYSPACE_KEY_BYTES_MAX, KEYSPACE_NAME_BYTES_MAX, KeyspaceError};
pub use keyspaces::keyspace::Keyspace;
pub use keyspaces::snapshot::KeyspacesSnapshot;
pub use keyspaces::transaction::KeyspaceTransaction;
pub use kvsim_engine::{
    CommitMode, Direction, Durability, KeySpan, LogGap, Mutation, NoDatabase, ScanRange, Stats,
    Status,
};
pub use streams::handle::{StreamInfo, Streams};
pub use streams::list::{StreamEntry, StreamList};
pub use streams::reader::StreamReader;
pub use streams::writer::StreamWriter;
pub use sync::effects::IoCounts;
pub use sync::leader::Counts;
