//! What is measured: one engine behind an interface that costs next to nothing.
//!
//! A crate of its own, so that the engines that ours is measured against are built without the simulator and its sandbox.

//!
//! - [`Store`] and [`Engine`]: an engine of this process
//! - [`process`]: an engine in a process of its own, its clients with it; [`memory`]: what that takes
//! - [`script`]: what the clients do; [`sequence`]: writes without end, each of which can be told from all others; [`seen`]: how they come, and what was seen of them
//! - [`counters`]: what the process and the device say that was read and written
//! - [`wait_until_quiet`]: the pause between two turns

mod confined;
pub mod counters;
pub mod memory;
pub mod process;
pub mod script;
pub mod seen;
pub mod sequence;
pub mod wait_until_quiet;

use std::future::Future;
use std::path::Path;
use std::pin::Pin;

/// When a write of a benchmark may be acknowledged. Figures of different kinds never share a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Each commit is on the medium before it is acknowledged, the drive's own cache flushed.
    Full,
    /// Each commit is where `fsync` puts it on this platform.
    Os,
    /// Acknowledged when accepted: each engine's own default without a flush for each commit.
    Relaxed,
}

impl std::fmt::Display for Durability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Durability::Full => "full",
            Durability::Os => "os",
            Durability::Relaxed => "relaxed",
        })
    }
}

/// How an engine is to be opened.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Settings {
    /// When a write may be acknowledged.
    pub durability: Durability,
    /// Memory for caches.
    pub cache_bytes: u64,
    /// Memory for the entries of our engine's index; 0: all of them are in memory. The others have theirs in their caches.
    pub index_bytes: u64,
    /// Further options of our engine, `name=value` each.
    pub engine_options: Vec<String>,
    /// About how much data there will be.
    pub data_bytes: u64,
    /// Keys that there are before clients insert further ones, numbered from 0.
    pub keys: u64,
    /// Threads that use it.
    pub threads: usize,
    /// The file that an engine writes in full beforehand, in percent of the data. One that grows its files as it goes has no use for it.
    pub space_percent: u64,
    /// All that its process may take, what the system caches of its files included; `None`: what there is.
    pub memory_bytes: Option<u64>,
    /// The caller's word that the drive's cache survives a power cut.
    pub assume_power_loss_protection: bool,
}

/// What an engine could not do, in its own words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{engine}: {what}")]
pub struct StoreError {
    /// Which engine.
    pub engine: &'static str,
    /// What happened.
    pub what: String,
}

/// The future of a write.
pub type Writing<'a> = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send + 'a>>;

/// An open database, shared by all clients. Its durability was decided when it was opened.
pub trait Store: Send + Sync {
    /// Sets a key.
    ///
    /// # Errors
    /// The engine's own.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError>;

    /// Removes a key.
    ///
    /// # Errors
    /// The engine's own.
    fn delete(&self, key: &[u8]) -> Result<(), StoreError>;

    /// Reads a key, and calls back with the value if there is one; says whether there was.
    ///
    /// # Errors
    /// The engine's own.
    fn get(&self, key: &[u8], take: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError>;

    /// Reads up to `limit` entries from `start` upwards, and calls back with each; says how many there were.
    ///
    /// # Errors
    /// The engine's own, or that it has no order.
    fn scan(
        &self,
        start: &[u8],
        limit: usize,
        take: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, StoreError>;

    /// Makes everything durable.
    ///
    /// # Errors
    /// The engine's own.
    fn sync(&self) -> Result<(), StoreError>;

    /// Sets a key for a task that does not block; `None` if the engine has no such thing.
    fn put_async<'a>(&'a self, _key: &[u8], _value: &[u8]) -> Option<Writing<'a>> {
        None
    }

    /// What the engine counted itself.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Why its figures are worth less than the others' of the table, if they are.
    fn caveat(&self) -> Option<&'static str> {
        None
    }

    /// What it found out about the disk, in a few lines.
    fn device(&self) -> Option<String> {
        None
    }
}

/// An engine that can be opened.
pub trait Engine: Send + Sync {
    /// What it is called on the command line and in tables.
    fn name(&self) -> &'static str;

    /// Which version.
    fn version(&self) -> String;

    /// Whether it has an order, and so scans.
    fn is_ordered(&self) -> bool;

    /// Whether an acknowledged write is as durable as was asked for. Where it is not, the figures say so and are compared with
    /// nobody's.
    fn keeps(&self, _durability: Durability) -> bool {
        true
    }

    /// How it is set up, for print beside its figures.
    fn configuration(&self, settings: &Settings) -> Vec<(String, String)>;

    /// Opens a new database in an empty directory.
    ///
    /// # Errors
    /// The engine's own.
    fn open(&self, directory: &Path, settings: &Settings) -> Result<Box<dyn Store>, StoreError>;

    /// An engine that comes with a program of its own; `None` for those that are built into this one.
    fn remote(&self) -> Option<&dyn process::Remote> {
        None
    }
}
