//! A database that is divided, and what is known of each of its keyspaces. All handles share both.
//!
//! Invariants:
//! - **A write that could add a key to a keyspace is handed in while `hold` is held and the keyspace is not dropped.** A keyspace is dropped while nobody holds it. So each such
//!   write came before the drop, and the removal that follows finds its key; or the write is refused.
//! - A read is of a keyspace that was not dropped when the read was over: its keys are removed later.
//! - Who takes both locks takes `list` first. Nothing of a caller's runs with either.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use super::error::invalid;
use super::identifier;
use crate::api::error::Failure;
use crate::api::key_prefix::KeyPrefix;
use crate::database::Database;
use crate::lock::lock;

/// A database that is divided.
pub(super) struct Divided {
    pub(super) database: Database,
    /// Held shared by writes while they are handed in, and alone by a drop.
    dropping: RwLock<()>,
    /// Keyspaces that were dropped since the opening.
    drops: AtomicU64,
    pub(super) list: Mutex<List>,
}

/// Which keyspaces there are: what the catalogue in the file says.
pub(super) struct List {
    pub(super) next: u32,
    pub(super) named: BTreeMap<String, std::sync::Arc<State>>,
    pub(super) dropped: BTreeSet<u32>,
}

/// What is known of a keyspace.
pub(super) struct State {
    pub(super) identifier: u32,
    pub(super) prefix: KeyPrefix,
    pub(super) name: Mutex<String>,
    /// The how many-th it was of those that were dropped; 0: it is not.
    dropped: AtomicU64,
}

/// Nothing is dropped as long as this is there.
pub(super) struct Held<'a> {
    _shared: RwLockReadGuard<'a, ()>,
}

impl Divided {
    pub(super) fn new(database: Database, list: List) -> Divided {
        Divided {
            database,
            dropping: RwLock::new(()),
            drops: AtomicU64::new(0),
            list: Mutex::new(list),
        }
    }

    /// Nothing is dropped as long as what this returns is there. A thread that has it does not ask for it again: a drop could wait in between.
    pub(super) fn hold(&self) -> Held<'_> {
        let shared = self.dropping.read();
        Held {
            _shared: shared.unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// How many were dropped before this moment.
    pub(super) fn drops(&self, _moment: &Held<'_>) -> u64 {
        self.drops.load(Ordering::Acquire)
    }

    /// Makes a keyspace a dropped one, at one moment in memory and in the order of writes, by a write that was not refused.
    pub(super) fn drop_by(
        &self,
        state: &State,
        write: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let alone = self.dropping.write();
        let _alone = alone.unwrap_or_else(PoisonError::into_inner);
        write()?;
        let drops = self.drops.load(Ordering::Acquire) + 1;
        state.dropped.store(drops, Ordering::Release);
        self.drops.store(drops, Ordering::Release);
        Ok(())
    }
}

impl State {
    pub(super) fn new(name: &str, number: u32) -> State {
        State {
            identifier: number,
            prefix: identifier::prefix(number),
            name: Mutex::new(name.to_owned()),
            dropped: AtomicU64::new(0),
        }
    }

    pub(super) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire) != 0
    }

    /// Refuses what is done with a dropped keyspace. After a read, it says whether the read counts.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match self.is_dropped() {
            false => Ok(()),
            true => Err(self.gone()),
        }
    }

    /// The same at a moment when so many had been dropped.
    pub(super) fn check_at(&self, drops: u64) -> Result<(), Failure> {
        match self.dropped.load(Ordering::Acquire) {
            0 => Ok(()),
            later if later > drops => Ok(()),
            _ => Err(self.gone()),
        }
    }

    fn gone(&self) -> Failure {
        invalid(format!(
            "the keyspace `{}` was dropped: create it anew, and take the new handle",
            lock(&self.name)
        ))
    }
}
