//! Snapshots that free themselves.
//!
//! Invariant: the engine's snapshot is released once, when the last of whatever reads it has gone; nobody waits for that.

use std::sync::Arc;

use kvsim_engine::{Direction, Reply, Request, ScanRange};

use super::{Database, failed, value};
use crate::api::error::Failure;
use crate::api::key_range::Bounds;
use crate::cache::borrowed::Value;
use crate::cache::entries::Entries;
use crate::sync::leader::Beside;

/// One moment of a database, which later writes do not change.
///
/// Clones, and the iterators and cursors made of it, share it; when the last of them goes, it is released. Until then versions that have been overwritten or deleted
/// since keep their space. It keeps the database open too, unless somebody calls [`Database::close`]: then every read of it fails with
/// [`Status::Closed`](crate::Status::Closed).
///
/// ```
/// # use kvsim_native::{Database, Durability, OpenOptions};
/// # let directory = tempfile::tempdir()?;
/// # let database = Database::open(&directory.path().join("database"), &OpenOptions::default())?;
/// database.put(b"key", b"old", Durability::Relaxed)?;
/// let snapshot = database.snapshot()?;
/// database.put(b"key", b"new", Durability::Relaxed)?;
/// assert_eq!(snapshot.get(b"key")?.as_deref(), Some(&b"old"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Snapshot(Arc<Taken>);

struct Taken {
    database: Database,
    number: u64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        let snapshot = self.number;
        // If it is closed by now, the snapshot went with it.
        drop(
            self.database
                .send(Request::Release { snapshot }, &Beside::default()),
        );
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("number", &self.0.number)
            .finish_non_exhaustive()
    }
}

impl Database {
    /// Takes a snapshot of everything accepted so far. It costs space until it goes.
    ///
    /// # Errors
    /// [`Failure`]: the database is closed.
    pub fn snapshot(&self) -> Result<Snapshot, Failure> {
        match self.call(Request::Snapshot) {
            Reply::Snapshot(number) => Ok(Snapshot::new(self, number)),
            other => Err(failed(other)),
        }
    }
}

impl Snapshot {
    /// That of this number, which was just taken.
    pub(super) fn new(database: &Database, number: u64) -> Snapshot {
        let database = database.clone();
        Snapshot(Arc::new(Taken { database, number }))
    }

    /// The database that this is a moment of.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.0.database
    }

    pub(super) fn number(&self) -> u64 {
        self.0.number
    }

    /// Reads a key as it was.
    ///
    /// # Errors
    /// As for [`Database::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>, Failure> {
        let snapshot = self.0.number;
        value(self.database().call(Request::Get { snapshot, key }))
    }

    /// Reads a range as it was; the snapshot that the range names does not count.
    ///
    /// # Errors
    /// As for [`Database::get`].
    pub fn scan(&self, range: &ScanRange<'_>) -> Result<Entries, Failure> {
        let snapshot = self.0.number;
        self.database().scan(&ScanRange { snapshot, ..*range })
    }

    /// Reads so many entries of a range at most, and not many more bytes than that.
    pub(super) fn read(
        &self,
        bounds: &Bounds,
        direction: Direction,
        limit: u32,
    ) -> Result<(Vec<kvsim_engine::Entry>, bool), Failure> {
        let range = bounds.scan(self.0.number, direction, limit, READ_BYTES_MAX);
        match self.database().call(Request::Scan(range)) {
            Reply::Entries { entries, more } => Ok((entries, more)),
            other => Err(failed(other)),
        }
    }
}

/// Keys and values that an iterator or a cursor reads at once; one entry may be larger.
const READ_BYTES_MAX: u32 = 1 << 20;
