//! Compaction: a database's file is replaced by a small one with the same keys and values.
//!
//! Invariants:
//! - the database is open to nobody else meanwhile, and not a byte of its file changes: it is locked alone, and opened to be read;
//! - the new file takes the name of the old one in one step, and only when it is whole and durable, with the same permissions. Until then a crash leaves the old file as it
//!   was, and after that the new one;
//! - whoever waited for the lock of the old file opens the new one (`io/file.rs` looks whether what it has locked still has its name).

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Database;
use super::backup::{BackupError, Progress, partial, sync_folder};
use crate::api::error::{Failure, OpenError};
use crate::api::options::OpenOptions;
use crate::io::file::DataFile;

/// The new file begins with this size, and grows by itself.
const SIZE_BYTES: u64 = 16 << 20;

/// What a compaction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactReport {
    /// Keys, and bytes of keys and values, that were copied: all that there were.
    pub copied: Progress,
    /// Bytes that the file took on the file system before.
    pub bytes_before: u64,
    /// Bytes that it takes now.
    pub bytes_after: u64,
}

/// Why a database was not compacted. Unless it says so, its file is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompactError {
    /// It cannot be opened: it is open already, damaged, or not there.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It is a block device, whose size is what it is.
    #[error("{} is a block device, which cannot be replaced by a smaller file; `backup` copies it into one", path.display())]
    BlockDevice {
        /// Which one.
        path: PathBuf,
    },
    /// The file has other names (hard links), which would go on naming the old one.
    #[error("{} has {names} names (hard links), and only one of them would name the new file; remove the others first", path.display())]
    OtherNames {
        /// Which file.
        path: PathBuf,
        /// How many names it has.
        names: u64,
    },
    /// A value cannot be read. [`Database::check`] names all such keys; those that are written anew or deleted do not stand in the way any more.
    #[error("cannot be copied: {0}")]
    Read(#[source] Failure),
    /// The new file cannot be written, for instance for want of space.
    #[error(transparent)]
    Copy(BackupError),
    /// The system refused something.
    #[error("{}: {what}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// Makes the file of a database that nobody has open as small as it can be: all keys and values are copied into a new file, which then takes the old one's name, owner and
/// permissions. `progress` is told how much was copied, again and again. Meanwhile the file system needs room for both.
///
/// After it the file has room for the live data at a share of `grow_percent` (80 % unless it is said) and for what the engine keeps free, at least 16 MiB, and it grows in
/// steps of at most a quarter of its size or 64 MiB. The segments have the size that they had, unless `options` say another. What `options` say of the size of a new file does not
/// count. Access control lists and other extended attributes are not copied. A link to the file is followed.
///
/// A crash, at any moment, leaves the old database or the new one, whole. It may leave an unfinished file beside it, whose name begins with a dot and ends with `.partial`;
/// that one can be deleted.
///
/// # Errors
/// [`CompactError`]: somebody has it open, a value is damaged, there is no room. Then the file is as it was.
///
/// ```
/// # use kvsim_native::{Durability, OpenOptions, compact};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("database");
/// let options = OpenOptions::new().size_bytes(64 << 20);
/// let database = options.open(&path)?;
/// database.put(b"key", b"value", Durability::Durable)?;
/// database.close()?;
/// let report = compact(&path, &options, |_| ())?;
/// assert_eq!(report.copied.entries, 1);
/// assert!(report.bytes_after < report.bytes_before);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn compact(
    path: impl AsRef<Path>,
    options: &OpenOptions,
    progress: impl FnMut(Progress),
) -> Result<CompactReport, CompactError> {
    let given = path.as_ref();
    let path = std::fs::canonicalize(given).map_err(io_error(given, "cannot be found"))?;
    let before = path
        .metadata()
        .map_err(io_error(&path, "cannot be looked at"))?;
    if before.file_type().is_block_device() {
        return Err(CompactError::BlockDevice { path });
    }
    let old = open_alone(&path, options)?;
    // Nobody else changes it from here on.
    let before = path
        .metadata()
        .map_err(io_error(&path, "cannot be looked at"))?;
    if before.nlink() > 1 {
        let names = before.nlink();
        return Err(CompactError::OtherNames { path, names });
    }
    let partial = partial(&path).map_err(io_error(&path, "cannot be named anew"))?;
    let replaced = make(&old, &partial, options, progress)
        .and_then(|copied| Ok((copied, replace(&path, &partial, &before)?)));
    if replaced.is_err() {
        let removed = std::fs::remove_file(&partial);
        tracing::debug!(?removed, "a file that is not whole");
    }
    let (copied, bytes_after) = replaced?;
    sync_folder(&path).map_err(io_error(
        &path,
        "the new file is there, but its name may not survive a power cut",
    ))?;
    drop(old);
    Ok(CompactReport {
        copied,
        bytes_before: allocated_bytes(&before),
        bytes_after,
    })
}

/// Opens it so that nobody else has it open, and leaves every byte as it is.
fn open_alone(path: &Path, options: &OpenOptions) -> Result<Database, OpenError> {
    // What it is told of here would be of a database that nobody uses.
    let options = OpenOptions {
        on_event: None,
        ..options.clone().read_only(true)
    };
    let file = Arc::new(DataFile::open_alone_to_read(path, &options)?);
    Database::open_file(file, &options, |driver| driver)
}

/// Copies everything into a new file of this name.
fn make(
    old: &Database,
    partial: &Path,
    options: &OpenOptions,
    progress: impl FnMut(Progress),
) -> Result<Progress, CompactError> {
    let mut options = OpenOptions {
        on_event: None,
        size_bytes: SIZE_BYTES,
        ..options.clone()
    };
    let segment_bytes = old.counts().engine.segment_bytes;
    // Of two lines with one name the later counts.
    options
        .engine
        .insert_str(0, &format!("segment_bytes={segment_bytes}\n"));
    let snapshot = old.snapshot().map_err(CompactError::Read)?;
    let copied = snapshot.copy_to(partial, &options, progress);
    copied.map_err(|error| match error {
        BackupError::Read(failure) => CompactError::Read(failure),
        other => CompactError::Copy(other),
    })
}

/// Gives a file that is whole the place of the other one. Returns the bytes that it takes.
fn replace(path: &Path, partial: &Path, before: &Metadata) -> Result<u64, CompactError> {
    let new = File::open(partial).map_err(io_error(partial, "cannot be opened"))?;
    let found = new
        .metadata()
        .map_err(io_error(partial, "cannot be looked at"))?;
    if (found.uid(), found.gid()) != (before.uid(), before.gid()) {
        std::os::unix::fs::fchown(&new, Some(before.uid()), Some(before.gid()))
            .map_err(io_error(path, "its owner cannot be kept"))?;
    }
    new.set_permissions(before.permissions())
        .map_err(io_error(path, "its permissions cannot be kept"))?;
    new.sync_all()
        .map_err(io_error(partial, "cannot be made durable"))?;
    let taken = new
        .metadata()
        .map_err(io_error(partial, "cannot be looked at"))?;
    std::fs::rename(partial, path).map_err(io_error(path, "cannot be replaced"))?;
    Ok(allocated_bytes(&taken))
}

fn allocated_bytes(metadata: &Metadata) -> u64 {
    metadata.blocks() * 512
}

fn io_error(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> CompactError {
    let path = path.to_owned();
    move |source| CompactError::Io { path, what, source }
}
