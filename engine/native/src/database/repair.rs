//! Repair: a new database of all that can be read of a damaged one, and a report of what cannot.
//!
//! Invariants:
//! - not a byte of the damaged file changes: it is locked alone, and opened to be read;
//! - the new file has its name when it is whole and durable, and not before; nothing that has the name already is replaced;
//! - what is copied was written so: a value is copied only if its checksums are right. What is whole in the damaged file is copied exactly;
//! - values are copied one at a time. In memory are the keys of all records and entries that are found, dead ones too, each with its place, and values that lie in the index.

pub(crate) mod report;

use std::path::{Path, PathBuf};

use kvsim_engine::{Corruption, NoDatabase, Options, Outcome, Repair, Status};

use self::report::RepairReport;
use super::backup::{BackupError, Progress, Puts, SIZE_BYTES, VALUE_BYTES_MAX, named_when_whole};
use crate::api::error::{Failure, OpenError};
use crate::api::options::OpenOptions;
use crate::io::file::DataFile;
use crate::io::image::image_of;

/// The new file begins with so many segments at least.
const SEGMENTS: u64 = 16;

/// How far a repair has come. First the whole file is looked at, then values are copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairProgress {
    /// Bytes of the damaged file that were looked at.
    pub looked_at_bytes: u64,
    /// Bytes of the damaged file.
    pub file_bytes: u64,
    /// Keys that were copied, and bytes of keys and values.
    pub copied: Progress,
}

/// Why there is no repaired database. The damaged one is as it was, and nothing is left under the new name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    /// The damaged file cannot be read: somebody has it open, or it is not there.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The options make no sense.
    #[error("{0}")]
    Options(String),
    /// Nothing of a database was found in it.
    #[error("{}: {why}", path.display())]
    NoDatabase {
        /// Which file.
        path: PathBuf,
        /// What was found instead.
        why: NoDatabase,
    },
    /// The new database cannot be written: its name is taken, there is no room.
    #[error(transparent)]
    Copy(#[from] BackupError),
}

/// Makes a new database of what can be read of a damaged one that nobody has open, and says what cannot. The new one is created with these options, but for `read_only`, and with
/// the segments' size of the old one unless they say another. `progress` is told how far it has come, again and again. A path to a block device is read as well.
///
/// All of the damaged file is read, and no more of it is relied on than its checksums prove. Where superblock, index and log are whole, the new database has exactly what
/// an opening would show. [`RepairReport`] says where they are not, and which keys that concerns. Where pages of the index are damaged, all that is found of their keys
/// anywhere counts: then a key that was deleted may come back, if nothing is left of its deletion. If all copies of the superblock are damaged, that goes for all keys, and the size of segments
/// is found in the log.
///
/// Memory: some 200 bytes and the key for each record of the log and entry of the index that the file has, dead ones too, the values in the index, and one value.
///
/// A crash, at any moment, leaves the damaged file as it is. It may leave an unfinished file beside the new one's place, whose name begins with a dot and ends with `.partial`; that one can be deleted.
///
/// # Errors
/// [`RepairError`].
///
/// ```
/// # use kvsim_native::{Durability, OpenOptions, repair};
/// # use std::os::unix::fs::FileExt;
/// # let directory = tempfile::tempdir()?;
/// # let (path, new) = (directory.path().join("database"), directory.path().join("new"));
/// let options = OpenOptions::new().size_bytes(16 << 20);
/// let database = options.open(&path)?;
/// database.put(b"key", b"value", Durability::Durable)?;
/// database.close()?;
/// // All copies of the superblock are overwritten by accident.
/// # let file = std::fs::OpenOptions::new().write(true).open(&path)?;
/// file.write_all_at(&[0xff; 256 << 10], 0)?;
/// assert!(options.open(&path).is_err());
///
/// let report = repair(&path, &new, &options, |_| ())?;
/// assert_eq!(report.copied.entries, 1);
/// assert_eq!(report.damaged_superblocks, [0, 1, 2, 3]);
/// assert_eq!(options.open(&new)?.get(b"key")?.as_deref(), Some(&b"value"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn repair(
    path: impl AsRef<Path>,
    to: impl AsRef<Path>,
    options: &OpenOptions,
    mut progress: impl FnMut(RepairProgress),
) -> Result<RepairReport, RepairError> {
    let (path, to) = (path.as_ref(), to.as_ref());
    let engine = Options::parse(&options.engine).map_err(RepairError::Options)?;
    let read_only = OpenOptions {
        on_event: None,
        ..options.clone().read_only(true)
    };
    let file = DataFile::open_alone_to_read(path, &read_only)?;
    let mut image = image_of(&file);
    let mut told = RepairProgress {
        file_bytes: file.len_bytes(),
        ..RepairProgress::default()
    };
    let segment_bytes = Some(engine.segment_bytes).filter(|bytes| *bytes > 0);
    let found = Repair::of(&mut image, segment_bytes, &mut |bytes| {
        told.looked_at_bytes = bytes;
        progress(told);
    });
    let found = found.map_err(|why| RepairError::NoDatabase {
        path: path.to_owned(),
        why,
    })?;
    told.looked_at_bytes = told.file_bytes;
    let mut report = RepairReport {
        unknown: found.unknown(),
        log_gaps: found.log_gaps().to_vec(),
        missing_bytes: found.missing_bytes(&image),
        cut_off: found.cut_off().map(Into::into).collect(),
        damaged_superblocks: found.damaged_superblocks().to_vec(),
        ..RepairReport::default()
    };
    report.copied = named_when_whole(to, |partial| {
        let options = options_of_copy(options, found.segment_bytes());
        let copy = options.open(partial)?;
        let write_error = |failure| BackupError::Write {
            path: to.to_owned(),
            failure,
        };
        let mut puts = Puts::new(&copy);
        found.each(&mut image, |key, outcome| {
            let value = match outcome {
                Outcome::Value(value) => value,
                Outcome::Older { value, damage } => {
                    report.older.push((key.into(), failure(damage)));
                    value
                }
                Outcome::Lost(damage) => {
                    report.lost.push((key.into(), failure(damage)));
                    return Ok::<(), BackupError>(());
                }
            };
            if let Some(copied) = puts.add(key, &value).map_err(write_error)? {
                told.copied = copied;
                progress(told);
            }
            Ok(())
        })?;
        let copied = puts.end().map_err(write_error)?;
        copy.close().map_err(write_error)?;
        told.copied = copied;
        progress(told);
        Ok(copied)
    })?;
    report.unreadable = image.unreadable();
    Ok(report)
}

/// The options of the new database: the size of its segments is the old one's unless it is said.
fn options_of_copy(options: &OpenOptions, segment_bytes: u64) -> OpenOptions {
    let mut options = OpenOptions {
        on_event: None,
        size_bytes: SIZE_BYTES.max(SEGMENTS * segment_bytes),
        ..options.clone()
    };
    // Of two lines with one name the later counts.
    options
        .engine
        .insert_str(0, &format!("segment_bytes={segment_bytes}\n"));
    options.read_only(false).max_value_bytes(VALUE_BYTES_MAX)
}

fn failure(damage: Corruption) -> Failure {
    Failure {
        status: Status::Corruption,
        message: damage.to_string(),
    }
}
