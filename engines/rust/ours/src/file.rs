//! The one file of a database, and the operations on it, each done at once by the thread that calls.
//!
//! As `engine/native` does it: a new file is written in full under another name, synced, and renamed; every byte within its length was written
//! once; a growth writes zeroes. The directory is synced by each opening, so that a name that a killed process gave is durable too.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

use kvsim_engine::{DiskError, DiskOp, IoBuf};

const NAME: &str = "kv.ours";
/// What the file grows by, and is written in.
const PIECE_BYTES: u64 = 256 << 10;

pub(crate) struct DataFile {
    file: File,
    len_bytes: u64,
}

impl DataFile {
    /// Opens the file below a directory, or creates it with this size.
    pub(crate) fn open(directory: &Path, size_bytes: u64) -> io::Result<Self> {
        let path = directory.join(NAME);
        let found = match File::options().read(true).write(true).open(&path) {
            Ok(file) if file.metadata()?.len() > 0 => Some(file),
            Ok(_) => None,
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let opened = match found {
            // What a crash cut off within a block was never used.
            Some(file) => DataFile { len_bytes: file.metadata()?.len() / 4096 * 4096, file },
            None => {
                let unnamed = directory.join(format!("{NAME}.new"));
                let file = File::options().read(true).write(true).create(true).truncate(true).open(&unnamed)?;
                let mut created = DataFile { file, len_bytes: 0 };
                created.grow(size_bytes)?;
                created.file.sync_all()?;
                std::fs::rename(&unnamed, &path)?;
                created
            }
        };
        File::open(directory)?.sync_all()?;
        Ok(opened)
    }

    pub(crate) fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Does an operation to its end. A read brings its buffer.
    pub(crate) fn execute(&mut self, op: DiskOp) -> Result<Option<IoBuf>, DiskError> {
        match op {
            DiskOp::Read { offset, mut buffer } => {
                let read = self.file.seek(SeekFrom::Start(offset)).and_then(|_| self.file.read_exact(&mut buffer));
                read.map(|()| Some(buffer)).map_err(|_| DiskError::Read)
            }
            DiskOp::Write { offset, data, through } => {
                self.write(offset, &data).map_err(|error| write_error(&error))?;
                if through {
                    self.file.sync_data().map_err(|_| DiskError::Write)?;
                }
                Ok(None)
            }
            DiskOp::Flush => self.file.sync_data().map(|()| None).map_err(|_| DiskError::Flush),
            // Nothing is promised of what a discard leaves.
            DiskOp::Discard { .. } => Ok(None),
            DiskOp::Grow { new_bytes } => self.grow(new_bytes).map(|()| None).map_err(|error| write_error(&error)),
        }
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.write_all(bytes)
    }

    /// Makes it longer; the engine follows it with a flush.
    fn grow(&mut self, new_bytes: u64) -> io::Result<()> {
        let new_bytes = new_bytes.next_multiple_of(PIECE_BYTES);
        let zeroes = vec![0; PIECE_BYTES as usize];
        let mut at = self.len_bytes;
        while at < new_bytes {
            let len = PIECE_BYTES.min(new_bytes - at);
            self.write(at, &zeroes[..len as usize])?;
            at += len;
        }
        self.len_bytes = at.max(self.len_bytes);
        Ok(())
    }
}

/// Only a lack of space is told apart: everything else may have left anything.
fn write_error(error: &io::Error) -> DiskError {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => DiskError::NoSpace,
        _ => DiskError::Write,
    }
}
