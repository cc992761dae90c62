//! A deterministic model of a file system: POSIX for its callers, and a persistence profile for what a crash leaves.
//!
//! Modelled is what persists, not the blocks of some file system. Every call is split into *steps*: the data of a page, a size, a truncation,
//! space, a name. A step is *pending* until something makes it durable. A *persistence profile* is a table of rules: which steps need which, what a
//! sync makes durable, what a failed sync leaves. A crash state is any set of pending steps that is closed under what they need, with pages torn
//! where the profile allows it.
//!
//! Background write-back may make any step durable early. No event stands for it: the crash states say it.
//!
//! Invariants:
//! - pure: no clock, no thread, no I/O; time comes in as a number;
//! - each decision is drawn from the seed, the purpose and the number of the call alone, so that switching one fault off does not move
//!   another;
//! - what is durable changes only by syncs, by background write-back beyond the configured number of steps, by interventions that were
//!   asked for, and by faults that were asked for and counted;
//! - no path leads out of the root directory.

mod calls;
mod config;
mod counts;
mod crash;
mod descriptors;
mod effects;
mod errno;
mod file_system;
mod host;
mod inject;
mod intervene;
mod notes;
mod observe;
mod path;
mod pending;
mod persist;
mod plant;
mod sink;
mod step;
mod sync;
mod tree;

pub use calls::{DirectoryEntry, Stat};
pub use config::{
    AfterFailedSync, CallOrder, DurableAt, FailedContent, FailedMetadata, FailedPages, FileConfig,
    FileFaults, LeftOutSyncs, Profile, Reach, Reported, Rules, ScriptedFileFault, StaleBlocks,
    StaleContents, SyncCommits,
};
pub use counts::{FileFault, FileFaultCount, FileFaultCounts, FileStats};
pub use descriptors::{Fd, OpenHow, ROOT_FD};
pub use errno::Errno;
pub use file_system::{FileSystem, Moment};
pub use kvsim_crash::{
    ConfigError, CrashError, CrashKind, CrashReport, CrashState, Nanos, Persisted, Sectors, Tears,
};
pub use notes::{CallKind, Observation, OpNote, StepNote};
pub use plant::{Intervention, LeftOut, Target};
pub use sink::{Listed, Sink};
pub use step::{EntryChange, PendingStep, StepKind};
pub use sync::SyncKind;
pub use tree::node::{FileKind, Ino, PAGE_BYTES, SECTOR_BYTES};
