//! Databases that take no writes, and why.

use std::fmt;

use kvsim_engine::Status;

use super::Database;
use crate::api::error::Failure;
use crate::io::failure::DiskFailure;

/// Why a database takes no writes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadOnly {
    /// It was opened so: [`OpenOptions::read_only`](crate::OpenOptions::read_only).
    Opened,
    /// The disk failed. What was acknowledged as durable is there; what else there is is seen when the database is opened anew.
    Failed(DiskFailure),
}

impl fmt::Display for ReadOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadOnly::Opened => f.write_str("the database was opened to be read only"),
            ReadOnly::Failed(failure) => {
                write!(
                    f,
                    "{failure}; nothing is written until the database is opened anew"
                )
            }
        }
    }
}

impl Database {
    /// Why writes are refused with [`Status::ReadOnly`]; `None` as long as they are not.
    ///
    /// ```
    /// # use kvsim_native::{Database, Durability, OpenOptions, ReadOnly};
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("database");
    /// let database = OpenOptions::new().open(&path)?;
    /// database.put(b"key", b"value", Durability::Durable)?;
    /// assert_eq!(database.read_only(), None);
    /// database.close()?;
    ///
    /// let database = OpenOptions::new().read_only(true).open(&path)?;
    /// assert_eq!(database.read_only(), Some(ReadOnly::Opened));
    /// assert!(database.get(b"key")?.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn read_only(&self) -> Option<ReadOnly> {
        if self.0.read_only {
            return Some(ReadOnly::Opened);
        }
        let failure = self.0.file.failure.get()?;
        Some(ReadOnly::Failed(failure.clone()))
    }

    /// Refuses a write if the database was opened to be read. (After a failure of the disk the engine refuses.)
    pub(crate) fn refuse_if_read_only(&self) -> Result<(), Failure> {
        match self.0.read_only {
            false => Ok(()),
            true => Err(Failure {
                status: Status::ReadOnly,
                message: ReadOnly::Opened.to_string(),
            }),
        }
    }
}
