//! Online backups: a database of its own that has what this one had at one moment.
//!
//! Invariants:
//! - the copy is of one moment, that of a snapshot; writers go on meanwhile;
//! - a copy has its name when it is whole and durable, and not before; nothing that has the name already is replaced.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use kvsim_engine::Durability;

use super::Database;
use super::batch::WriteBatch;
use super::range::OwnedEntry;
use super::snapshot::Snapshot;
use crate::api::error::{Failure, OpenError};
use crate::api::options::OpenOptions;

/// Entries and bytes that are written at once, at most. They have to fit into one frame of the log, and so into a segment.
const BATCH_ENTRIES: usize = 512;
const BATCH_BYTES: usize = 128 << 10;
/// What an entry takes of a frame beside its key and value.
const ENTRY_BYTES: usize = 24;
/// A new file of a backup grows by itself; this is where it begins.
pub(super) const SIZE_BYTES: u64 = 16 << 20;
/// The largest value that any database can have.
pub(super) const VALUE_BYTES_MAX: u64 = 64 << 20;

/// How much was copied, checked, dumped or loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Keys.
    pub entries: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
}

impl Progress {
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) {
        self.entries += 1;
        self.bytes += (key.len() + value.len()) as u64;
    }
}

/// Why there is no backup. Nothing is left under its name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// What is to be copied cannot be read.
    #[error("cannot be copied: {0}")]
    Read(#[source] Failure),
    /// The copy cannot be written.
    #[error("{}: {failure}", path.display())]
    Write {
        /// The copy.
        path: PathBuf,
        /// What it said.
        failure: Failure,
    },
    /// The copy cannot be created.
    #[error(transparent)]
    Create(#[from] OpenError),
    /// There is something of this name, which is left as it is; or the copy cannot be given its name.
    #[error("{}: {source}", path.display())]
    Name {
        /// The copy.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Database {
    /// Makes a copy of everything as it is now, in a new file, while others read and write. The copy is a database with the same keys and values, and is durable when this
    /// returns. Says how much was copied.
    ///
    /// It is written under another name in the same folder, which begins with a dot and ends with `.partial`, and gets its name when it is whole. If this process ends before
    /// that, the unfinished file can be deleted. What is overwritten in this database meanwhile keeps its space until the copy is done.
    ///
    /// # Errors
    /// [`BackupError`]: the name is taken; what cannot be read or written.
    ///
    /// ```
    /// # use kvsim_native::{Database, Durability, OpenOptions};
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("database");
    /// # let database = OpenOptions::new().size_bytes(16 << 20).open(&path)?;
    /// # let copy = directory.path().join("copy");
    /// database.put(b"key", b"value", Durability::Relaxed)?;
    /// let copied = database.backup(&copy)?;
    /// assert_eq!(copied.entries, 1);
    /// let copy = OpenOptions::new().read_only(true).open(&copy)?;
    /// assert!(copy.contains(b"key")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<Progress, BackupError> {
        let snapshot = self.snapshot().map_err(BackupError::Read)?;
        let options = OpenOptions::new().size_bytes(SIZE_BYTES);
        snapshot.backup(path, &options, |_| ())
    }
}

impl Snapshot {
    /// Makes a copy of everything as it was: see [`Database::backup`]. The copy's file is created with these options, but for `read_only`, and `progress` is told how much
    /// was copied, again and again.
    ///
    /// # Errors
    /// As for [`Database::backup`].
    pub fn backup(
        &self,
        path: impl AsRef<Path>,
        options: &OpenOptions,
        progress: impl FnMut(Progress),
    ) -> Result<Progress, BackupError> {
        let path = path.as_ref();
        named_when_whole(path, |partial| self.copy_to(partial, options, progress))
    }

    pub(super) fn copy_to(
        &self,
        path: &Path,
        options: &OpenOptions,
        mut progress: impl FnMut(Progress),
    ) -> Result<Progress, BackupError> {
        let options = options
            .clone()
            .read_only(false)
            .max_value_bytes(VALUE_BYTES_MAX);
        let copy = options.open(path)?;
        let write_error = |failure| BackupError::Write {
            path: path.to_owned(),
            failure,
        };
        let mut puts = Puts::new(&copy);
        for entry in self.iter() {
            let OwnedEntry { key, value } = entry.map_err(BackupError::Read)?;
            if let Some(copied) = puts.add(&key, &value).map_err(write_error)? {
                progress(copied);
            }
        }
        let copied = puts.end().map_err(write_error)?;
        copy.close().map_err(write_error)?;
        progress(copied);
        Ok(copied)
    }
}

/// Has a file made under another name, which it loses for this one when it is whole. Nothing that has the name already is replaced.
pub(super) fn named_when_whole<T>(
    path: &Path,
    make: impl FnOnce(&Path) -> Result<T, BackupError>,
) -> Result<T, BackupError> {
    let name_error = |source| BackupError::Name {
        path: path.to_owned(),
        source,
    };
    if path.symlink_metadata().is_ok() {
        return Err(name_error(io::ErrorKind::AlreadyExists.into()));
    }
    let partial = partial(path).map_err(name_error)?;
    let named = make(&partial).and_then(|made| {
        // Unlike a renaming this replaces nothing.
        std::fs::hard_link(&partial, path).map_err(name_error)?;
        Ok(made)
    });
    let removed = std::fs::remove_file(&partial);
    tracing::debug!(?removed, "the name of a copy that is not whole");
    let made = named?;
    sync_folder(path).map_err(name_error)?;
    Ok(made)
}

/// Puts that are made many at a time. The last ones are made by `end`.
pub(super) struct Puts<'a> {
    database: &'a Database,
    batch: WriteBatch,
    batch_bytes: usize,
    /// How much was added so far.
    pub(super) added: Progress,
}

impl Puts<'_> {
    pub(super) fn new(database: &Database) -> Puts<'_> {
        let segment_bytes = database.counts().engine.segment_bytes;
        let quarter = usize::try_from(segment_bytes / 4).unwrap_or(BATCH_BYTES);
        Puts {
            database,
            batch: WriteBatch::new(),
            batch_bytes: quarter.min(BATCH_BYTES),
            added: Progress::default(),
        }
    }

    /// Adds a put. If all before it were made for that, gives how much these were.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<Option<Progress>, Failure> {
        let beside = (self.batch.len() + 1) * ENTRY_BYTES;
        let bytes = self.batch.bytes() + key.len() + value.len() + beside;
        let is_full = self.batch.len() == BATCH_ENTRIES || bytes > self.batch_bytes;
        let before = self.added;
        if is_full {
            self.database.apply(&self.batch, Durability::Relaxed)?;
            self.batch.clear();
        }
        self.batch.put(key, value);
        self.added.add(key, value);
        Ok(is_full.then_some(before))
    }

    /// Makes what is left, and gives how much all was.
    pub(super) fn end(self) -> Result<Progress, Failure> {
        self.database.apply(&self.batch, Durability::Relaxed)?;
        Ok(self.added)
    }
}

/// What a copy is called until it is whole: no other copy is called so.
pub(super) fn partial(path: &Path) -> io::Result<PathBuf> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    hidden.push(format!(".{}-{number}.partial", std::process::id()));
    Ok(path.with_file_name(hidden))
}

/// Makes the names in a file's folder durable.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    File::open(folder)?.sync_all()
}
