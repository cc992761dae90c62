//! The one file of a database, or a raw block device: opening, locking, sizing and growing it.
//!
//! Invariants:
//! - one opening at a time, or any number of them that only read: a lock is held as long as the file is open, and ends
//!   with it, however the process ends;
//! - every byte within [`DataFile::len_bytes`] is allocated. Where commits need no flush, every byte was written once
//!   as well, so that its extents are marked as written. Then an overwrite changes no metadata, and a completed write
//!   is durable. Where commits flush or write through, writing once saves the file system's metadata, so it is done too
//!   while commits wait. Space for writes that are acknowledged before they are durable is only allocated, and so
//!   written once instead of twice;
//! - a new length is durable before anything lies beyond the old one. The engine follows each growth with a flush.
//!   Where flushes do nothing, the growth syncs itself, and an opening syncs once whatever a killed process may have
//!   left;
//! - a new file gets its name when it is whole. The directory that names it is durable before anything is written that
//!   may be acknowledged.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use kvsim_engine::IoBuf;
use rustix::fs::{FlockOperation, Mode, OFlags};

use crate::api::error::OpenError;
use crate::api::options::{Kind, OpenOptions};
use crate::io::failure::FirstFailure;
use crate::record::{Call, Recorder, noted};

/// Zeroes are written in pieces of this size.
const PIECE_BYTES: u64 = 1 << 20;
/// Direct I/O takes nothing smaller on any device that is supported.
const BLOCK_BYTES: u64 = 4096;
/// How long the lock of a process that has just ended is waited for: so many pauses of this length.
const LOCK_TRIES: u32 = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(10);
/// How a file is locked that is written.
const ALONE: FlockOperation = FlockOperation::NonBlockingLockExclusive;
/// With more than one of so many writes waited for until it is durable, what the file grows by is written at once.
const THROUGH_SHARE: u64 = 8;
#[cfg(target_os = "linux")]
const OPNOTSUPP: i32 = rustix::io::Errno::OPNOTSUPP.raw_os_error();
/// What is left free on the file system, for the file system's own sake.
const SPARE_BYTES: u64 = 64 << 20;

/// How a file is made longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Growth {
    /// Written with zeroes.
    Written,
    /// Allocated only, where the file system can do that; written as far as it cannot.
    Allocated,
}

/// An open and locked database file.
#[derive(Debug)]
pub(crate) struct DataFile {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) kind: Kind,
    /// Whether the page cache is bypassed.
    pub(crate) direct: bool,
    pub(crate) is_block_device: bool,
    len_bytes: AtomicU64,
    grown_bytes: AtomicU64,
    /// Writes since the file grew last.
    writes: AtomicU64,
    /// Those of them that were durable when they ended.
    through_writes: AtomicU64,
    /// A completed write has to be durable without a flush.
    flush_free: AtomicBool,
    max_bytes: u64,
    /// The first write or flush that failed.
    pub(crate) failure: FirstFailure,
    pub(crate) recorder: Option<Recorder>,
}

fn error(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Io { path, what, source }
}

impl DataFile {
    /// Opens and locks the file, or creates it if it is not to be read only.
    pub(crate) fn open(path: &Path, options: &OpenOptions) -> Result<DataFile, OpenError> {
        match options.read_only {
            true => DataFile::open_to_read(path, options),
            false => DataFile::open_or_create(path, options, true),
        }
    }

    /// The same through the page cache.
    #[cfg(feature = "gauge")]
    pub(crate) fn open_buffered(path: &Path, options: &OpenOptions) -> Result<DataFile, OpenError> {
        DataFile::open_or_create(path, options, false)
    }

    /// Opens a file or a device that is there, to read it only. Others may read it at the same time, and nobody writes it.
    pub(crate) fn open_to_read(path: &Path, options: &OpenOptions) -> Result<DataFile, OpenError> {
        DataFile::open_there(path, options, FlockOperation::NonBlockingLockShared)
    }

    /// The same, and nobody else reads it at the same time.
    pub(crate) fn open_alone_to_read(
        path: &Path,
        options: &OpenOptions,
    ) -> Result<DataFile, OpenError> {
        DataFile::open_there(path, options, ALONE)
    }

    fn open_there(
        path: &Path,
        options: &OpenOptions,
        how: FlockOperation,
    ) -> Result<DataFile, OpenError> {
        loop {
            let opened = open_file(path, OFlags::RDONLY, true);
            let (file, direct) = opened.map_err(error(path, "cannot be opened"))?;
            lock(&file, path, how)?;
            if !was_replaced(&file, path) {
                return DataFile::found(file, direct, path, options);
            }
        }
    }

    /// `direct`: without the page cache, where the file system can do that.
    fn open_or_create(
        path: &Path,
        options: &OpenOptions,
        direct: bool,
    ) -> Result<DataFile, OpenError> {
        match open_file(path, OFlags::RDWR, direct) {
            Ok((file, bypassed)) => {
                lock(&file, path, ALONE)?;
                if was_replaced(&file, path) {
                    drop(file);
                    return DataFile::open_or_create(path, options, direct);
                }
                let opened = DataFile::found(file, bypassed, path, options)?;
                if opened.is_block_device || opened.has_content() {
                    return Ok(opened);
                }
                // The lock of an empty file is held until another has taken its place.
                DataFile::create(path, options, direct)
            }
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
                DataFile::create(path, options, direct)
            }
            Err(source) => Err(error(path, "cannot be opened")(source)),
        }
    }

    /// Writes a new file in full under another name, and renames it only then. So a creation that a crash cut short is
    /// never taken for a database.
    fn create(path: &Path, options: &OpenOptions, direct: bool) -> Result<DataFile, OpenError> {
        let unnamed = unnamed(path);
        let (file, bypassed) = open_file(&unnamed, OFlags::RDWR | OFlags::CREATE, direct)
            .map_err(error(path, "cannot be created"))?;
        lock(&file, path, ALONE)?;
        let named = std::fs::metadata(path).is_ok_and(|named| named.len() > 0);
        if named || !is_called(&file, &unnamed) {
            // Somebody else was quicker.
            drop(file);
            return DataFile::open_or_create(path, options, direct);
        }
        let made = file
            .set_len(0)
            .map_err(error(path, "cannot be created"))
            .and_then(|()| DataFile::found(file, bypassed, path, options))
            .and_then(|made| {
                made.grow(options.size_bytes.min(made.max_bytes), Growth::Written)
                    .and_then(|()| made.take_name(&unnamed))
                    .map_err(error(path, "cannot be written in full"))?;
                Ok(made)
            });
        if made.is_err() {
            let removed = std::fs::remove_file(&unnamed);
            tracing::debug!(?removed, "an unfinished file");
        }
        made
    }

    /// Looks at an open and locked file.
    fn found(
        file: File,
        direct: bool,
        path: &Path,
        options: &OpenOptions,
    ) -> Result<DataFile, OpenError> {
        let metadata = file
            .metadata()
            .map_err(error(path, "cannot be looked at"))?;
        let is_block_device = metadata.file_type().is_block_device();
        if !is_block_device && !metadata.is_file() {
            let what = if metadata.is_dir() {
                "a directory"
            } else {
                "neither of the two"
            };
            return Err(OpenError::NotAFile {
                path: path.to_owned(),
                what,
            });
        }
        let len = if is_block_device {
            rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0))
                .map_err(|errno| error(path, "has no size")(errno.into()))?
        } else {
            // What a crash cut off within a block was never used.
            metadata.len() / BLOCK_BYTES * BLOCK_BYTES
        };
        let max_bytes = match (is_block_device || options.read_only, options.max_bytes) {
            (true, _) => len,
            (false, 0) => len
                .max(options.size_bytes)
                .saturating_add(free_bytes(&file).saturating_sub(SPARE_BYTES)),
            (false, max) => max.max(len).next_multiple_of(PIECE_BYTES),
        };
        Ok(DataFile {
            file,
            path: path.to_owned(),
            kind: options.kind,
            direct,
            is_block_device,
            len_bytes: AtomicU64::new(len),
            grown_bytes: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            through_writes: AtomicU64::new(0),
            flush_free: AtomicBool::new(false),
            max_bytes,
            failure: FirstFailure::default(),
            recorder: options.noting(),
        })
    }

    fn has_content(&self) -> bool {
        self.file
            .metadata()
            .is_ok_and(|metadata| metadata.len() > 0)
    }

    /// The file is whole: from here on it is there.
    fn take_name(&self, unnamed: &Path) -> io::Result<()> {
        let recorder = self.recorder.as_ref();
        let rename = || std::fs::rename(unnamed, &self.path);
        noted(recorder, || Call::Rename, rename)?;
        noted(recorder, || Call::FlushDirectory, || self.sync_directory())
    }

    /// Its present length.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.len_bytes.load(Ordering::Acquire)
    }

    /// How many zeroes were written to make it as long as it is, since it was opened.
    pub(crate) fn grown_bytes(&self) -> u64 {
        self.grown_bytes.load(Ordering::Relaxed)
    }

    /// How long it may become.
    pub(crate) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Writes everything. An interruption is no error; whatever else is, is.
    pub(crate) fn write_all(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let call = || Call::Write {
            offset,
            data: bytes.into(),
            through: false,
        };
        noted(self.recorder.as_ref(), call, || {
            self.file.write_all_at(bytes, offset)
        })
    }

    /// A write is about to begin.
    pub(crate) fn note_write(&self, through: bool) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        if through {
            self.through_writes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// From here on a completed write has to be durable without a flush. So blocks that the file shares with a copy of
    /// it are replaced by its own first. What was allocated and never written, or was left out when the file was
    /// copied, is written. Then everything is synced, with the length that is found here.
    pub(crate) fn go_flush_free(&self) -> io::Result<()> {
        self.flush_free.store(true, Ordering::Relaxed);
        self.unshare()?;
        self.fill_holes()?;
        self.sync()
    }

    /// A shared block would be written elsewhere by the first overwrite, and where that is be durable only with a flush.
    #[cfg(target_os = "linux")]
    fn unshare(&self) -> io::Result<()> {
        use rustix::fs::FallocateFlags;
        use rustix::io::Errno;
        if self.is_block_device || self.len_bytes() == 0 {
            return Ok(());
        }
        let all = FallocateFlags::UNSHARE_RANGE;
        match rustix::fs::fallocate(&self.file, all, 0, self.len_bytes()) {
            // Nothing is ever shared there.
            Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// As [`DataFile::fill_holes`].
    #[cfg(not(target_os = "linux"))]
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "the other version needs it"
    )]
    fn unshare(&self) -> io::Result<()> {
        Ok(())
    }

    /// How what is added next is made, after what was asked of the file since it grew last.
    pub(crate) fn next_growth(&self) -> Growth {
        let writes = self.writes.swap(0, Ordering::Relaxed);
        let through = self.through_writes.swap(0, Ordering::Relaxed);
        let waited_for = through > writes / THROUGH_SHARE;
        if self.flush_free.load(Ordering::Relaxed) || waited_for || self.is_block_device {
            Growth::Written
        } else {
            Growth::Allocated
        }
    }

    /// Makes it longer, to a multiple of a piece, and syncs the file. Nothing is lost if that fails half way.
    pub(crate) fn grow(&self, new_bytes: u64, growth: Growth) -> io::Result<()> {
        if let Some(len_bytes) = self.lengthen(new_bytes, growth)? {
            self.sync()?;
            self.take_length(len_bytes);
        }
        Ok(())
    }

    /// The same for an engine that flushes a growth: a sync only where its flushes do nothing.
    ///
    /// # Errors
    /// The outer one left what was there as it was; the inner one is that of a flush, of whatever was written before.
    pub(crate) fn grow_unsynced(
        &self,
        new_bytes: u64,
        growth: Growth,
    ) -> io::Result<io::Result<()>> {
        let longer = self.lengthen(new_bytes, growth)?;
        Ok(longer.map_or(Ok(()), |len_bytes| {
            if self.flush_free.load(Ordering::Relaxed) {
                self.sync()?;
            }
            self.take_length(len_bytes);
            Ok(())
        }))
    }

    /// A file that has the length already is left as it is. Should a flush have failed to make that durable, the file system's journal has failed, and
    /// takes no more writes.
    fn lengthen(&self, new_bytes: u64, growth: Growth) -> io::Result<Option<u64>> {
        let now = self.len_bytes();
        if new_bytes <= now {
            return Ok(None);
        }
        let new_bytes = new_bytes.next_multiple_of(PIECE_BYTES);
        if new_bytes > self.max_bytes {
            return Err(rustix::io::Errno::NOSPC.into());
        }
        if growth == Growth::Written || !self.extend(now, new_bytes)? {
            self.allocate(now, new_bytes)?;
            self.write_zeroes(now, new_bytes)?;
        }
        Ok(Some(new_bytes))
    }

    fn take_length(&self, len_bytes: u64) {
        self.len_bytes.store(len_bytes, Ordering::Release);
    }

    fn sync(&self) -> io::Result<()> {
        let recorder = self.recorder.as_ref();
        noted(recorder, || Call::Flush, || self.file.sync_all())
    }

    fn write_zeroes(&self, from: u64, to: u64) -> io::Result<()> {
        let zeroes = IoBuf::zeroed(usize::try_from(PIECE_BYTES).expect("a piece is small"));
        let mut at = from;
        while at < to {
            let len = PIECE_BYTES.min(to - at);
            let piece = &zeroes[..usize::try_from(len).expect("a piece is small")];
            self.write_all(piece, at)?;
            self.grown_bytes.fetch_add(len, Ordering::Relaxed);
            at += len;
        }
        Ok(())
    }

    /// Writes zeroes where the file system has nothing written, and nowhere else; a read shows zeroes there too. The
    /// file system's blocks may be smaller than ours, but not smaller than what direct I/O takes, so nothing is
    /// rounded.
    #[cfg(target_os = "linux")]
    fn fill_holes(&self) -> io::Result<()> {
        use rustix::fs::SeekFrom;
        if self.is_block_device {
            return Ok(());
        }
        let len = self.len_bytes();
        let mut at = 0;
        while at < len {
            let from = rustix::fs::seek(&self.file, SeekFrom::Hole(at))?.min(len);
            let to = match rustix::fs::seek(&self.file, SeekFrom::Data(from)) {
                Ok(data) => data.min(len),
                Err(rustix::io::Errno::NXIO) => len,
                Err(errno) => return Err(errno.into()),
            };
            if from < to {
                self.write_zeroes(from, to)?;
            }
            at = to;
        }
        Ok(())
    }

    /// Nowhere else is a device known to have no volatile cache; who vouches for one vouches for the file as well.
    #[cfg(not(target_os = "linux"))]
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "the other version needs it"
    )]
    fn fill_holes(&self) -> io::Result<()> {
        Ok(())
    }

    /// Allocates what is added, which then reads as zeroes; false if the file system cannot.
    #[cfg(target_os = "linux")]
    fn extend(&self, from: u64, to: u64) -> io::Result<bool> {
        let call = || Call::Grow { new_bytes: to };
        let extended = noted(self.recorder.as_ref(), call, || {
            let flags = rustix::fs::FallocateFlags::empty();
            Ok(rustix::fs::fallocate(&self.file, flags, from, to - from)?)
        });
        match extended {
            Err(error) if error.raw_os_error() == Some(OPNOTSUPP) => Ok(false),
            extended => extended.map(|()| true),
        }
    }

    #[cfg(not(target_os = "linux"))]
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "the other version needs it"
    )]
    fn extend(&self, _from: u64, _to: u64) -> io::Result<bool> {
        Ok(false)
    }

    /// Finds out early that there is no room, and asks for extents in one piece.
    #[cfg(target_os = "linux")]
    fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
        match rustix::fs::fallocate(
            &self.file,
            // The length grows with what is written: after a crash, too, all within it was written once.
            rustix::fs::FallocateFlags::KEEP_SIZE,
            from,
            to - from,
        ) {
            // The file system cannot; the zeroes will allocate.
            Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
            result => Ok(result?),
        }
    }

    #[cfg(target_vendor = "apple")]
    fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
        crate::io::apple::preallocate(&self.file, to - from)
    }

    #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
    #[expect(clippy::unused_self, reason = "the other versions use it")]
    fn allocate(&self, _from: u64, _to: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        let parent = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        File::open(parent)?.sync_all()
    }
}

impl Drop for DataFile {
    /// A ring that the kernel takes down later still refers to the file, and the lock would outlive the database.
    fn drop(&mut self) {
        let unlocked = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        debug_assert!(unlocked.is_ok(), "a lock that is held can be let go");
    }
}

/// What a file is called until it is whole.
fn unnamed(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

/// Whether this file still has this name.
fn is_called(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(found)) = (file.metadata(), std::fs::metadata(path)) else {
        return false;
    };
    (open.dev(), open.ino()) == (found.dev(), found.ino())
}

/// Whether this name is another file's by now: while the lock was waited for, a compaction has put a new file in its place.
fn was_replaced(file: &File, path: &Path) -> bool {
    path.exists() && !is_called(file, path)
}

/// Takes the lock. If the process that had it was killed, the kernel takes its ring down a little later, and the lock
/// with it. So an opening right after a kill, as by a supervisor, waits for the lock.
fn lock(file: &File, path: &Path, how: FlockOperation) -> Result<(), OpenError> {
    for try_number in 0..=LOCK_TRIES {
        match rustix::fs::flock(file, how) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::WOULDBLOCK) if try_number < LOCK_TRIES => {
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(rustix::io::Errno::WOULDBLOCK) => break,
            Err(errno) => return Err(error(path, "cannot be locked")(errno.into())),
        }
    }
    Err(OpenError::Locked {
        path: path.to_owned(),
    })
}

/// Opens, without the page cache if that is wanted and the file system can do it; says whether it is bypassed.
fn open_file(path: &Path, flags: OFlags, direct: bool) -> io::Result<(File, bool)> {
    let flags = flags | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP;
    #[cfg(target_os = "linux")]
    if direct {
        match rustix::fs::open(path, flags | OFlags::DIRECT, mode) {
            Ok(fd) => {
                let file = File::from(fd);
                if crate::io::driver::linux::does_direct_io(&file) != Some(false) {
                    return Ok((file, true));
                }
            }
            Err(rustix::io::Errno::INVAL) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    let file = File::from(rustix::fs::open(path, flags, mode)?);
    let bypassed = direct && bypass_cache(&file);
    Ok((file, bypassed))
}

#[cfg(target_vendor = "apple")]
fn bypass_cache(file: &File) -> bool {
    rustix::fs::fcntl_nocache(file, true).is_ok()
}

/// Where a file is opened for direct I/O or not at all.
#[cfg(not(target_vendor = "apple"))]
fn bypass_cache(_: &File) -> bool {
    false
}

fn free_bytes(file: &File) -> u64 {
    rustix::fs::fstatvfs(file).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}
