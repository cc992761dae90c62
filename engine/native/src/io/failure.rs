//! What the system said when a write or a flush failed for the first time: the reason why a database takes no more writes.

use std::fmt;
use std::io;
use std::sync::OnceLock;

/// A write or a flush that failed. After it nothing is written until the database is opened anew.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiskFailure {
    /// What was to be done.
    pub operation: DiskOperation,
    /// The system's error number; `None` if it gave none, as where it wrote less than it was asked to.
    pub os_error: Option<i32>,
}

/// What a disk is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DiskOperation {
    /// A write.
    Write {
        /// Where in the file, in bytes.
        offset: u64,
        /// How many bytes.
        len_bytes: u64,
    },
    /// A flush of everything that was written before.
    Flush,
}

impl fmt::Display for DiskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operation {
            DiskOperation::Write { offset, len_bytes } => {
                write!(f, "a write of {len_bytes} bytes at {offset} failed")
            }
            DiskOperation::Flush => f.write_str("a flush failed"),
        }?;
        match self.os_error {
            Some(number) => write!(f, ": {}", io::Error::from_raw_os_error(number)),
            None => Ok(()),
        }
    }
}

/// The first failure of a file.
#[derive(Debug, Default)]
pub(crate) struct FirstFailure(OnceLock<DiskFailure>);

impl FirstFailure {
    pub(crate) fn note(&self, operation: DiskOperation, os_error: Option<i32>) {
        let failure = DiskFailure {
            operation,
            os_error,
        };
        tracing::error!(target: "kvsim_native", "{failure}");
        // A later one is a consequence, or changes nothing.
        let _ = self.0.set(failure);
    }

    pub(crate) fn get(&self) -> Option<&DiskFailure> {
        self.0.get()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kvsim_engine::{DiskError, DiskOp, IoBuf};

    use super::*;
    use crate::api::options::{DriverChoice, OpenOptions};
    use crate::io::driver;
    use crate::io::file::DataFile;

    /// Goal: the first write that fails is remembered with what the system said, by every driver, also as a lone one; a read that fails is not. Method: operations on a
    /// file that was opened to be read, for which the system refuses writes; a read beyond its end.
    #[test]
    fn the_first_failure_is_remembered() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        let path = directory.path().join("file");
        let options = OpenOptions::new().size_bytes(1 << 20);
        drop(DataFile::open(&path, &options).expect("it is created"));
        for choice in [DriverChoice::Auto, DriverChoice::Threads] {
            for through in [false, true] {
                let file = DataFile::open_to_read(&path, &options).expect("it is there");
                let file = Arc::new(file);
                let (driver, _) = driver::choose(&file, choice).expect("a driver");
                let mut done = Vec::new();
                let mut end = |op: DiskOp| {
                    driver.queue(1, op);
                    while done.is_empty() {
                        driver.wait(None);
                        driver.reap(&mut done);
                    }
                    done.pop().expect("it has ended").result.map(|_| ())
                };
                let write = |offset| DiskOp::Write {
                    offset,
                    data: Arc::new(IoBuf::zeroed(4096)),
                    through,
                };
                let buffer = IoBuf::zeroed(4096);
                let offset = 1 << 30;
                assert_eq!(end(DiskOp::Read { offset, buffer }), Err(DiskError::Read));
                assert_eq!(file.failure.get(), None, "{choice:?}");
                assert_eq!(end(write(8192)), Err(DiskError::Write));
                assert_eq!(end(write(0)), Err(DiskError::Write));
                let failure = file.failure.get().expect("it failed");
                let operation = DiskOperation::Write {
                    offset: 8192,
                    len_bytes: 4096,
                };
                let bad_file = rustix::io::Errno::BADF.raw_os_error();
                assert_eq!(
                    (failure.operation, failure.os_error),
                    (operation, Some(bad_file))
                );
                let text = failure.to_string();
                assert!(
                    text.starts_with("a write of 4096 bytes at 8192 failed: "),
                    "{text}"
                );
            }
        }
    }
}
