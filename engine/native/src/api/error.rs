//! What goes wrong: at the opening, and with a request.

use std::io;
use std::path::PathBuf;

use kvsim_engine::Status;

/// Why a database could not be opened. Nothing was changed, except that a file may have been created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file cannot be opened, created or sized.
    #[error("{}: {what}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Another process, or another part of this one, has it open.
    #[error("{} is open already; a database is opened by one process at a time", path.display())]
    Locked {
        /// Which file.
        path: PathBuf,
    },
    /// It is neither a regular file nor a block device.
    #[error("{} is {what}; a database is a regular file or a block device", path.display())]
    NotAFile {
        /// Which file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// The driver that was asked for cannot be used.
    #[error("{0}")]
    Driver(String),
    /// It is to be opened as keyspaces, and what it holds is not divided into keyspaces that this version knows.
    #[error("{}: {what}", path.display())]
    Keyspaces {
        /// Which file.
        path: PathBuf,
        /// What it holds instead, and what to do.
        what: String,
    },
    /// The engine refused: damage, another format, no space, a wrong option.
    #[error("{}: {failure}", path.display())]
    Engine {
        /// Which file.
        path: PathBuf,
        /// What it said.
        failure: Failure,
    },
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What kind of failure it is, and so what it says about the request's effect.
    pub status: Status,
    /// What happened, in a sentence.
    pub message: String,
}

/// Of the kind that fits best, with the failure inside: `get_ref` and `downcast_ref` give it back.
impl From<Failure> for io::Error {
    fn from(failure: Failure) -> io::Error {
        let kind = match failure.status {
            Status::Corruption => io::ErrorKind::InvalidData,
            Status::NoSpace => io::ErrorKind::StorageFull,
            Status::ReadOnly => io::ErrorKind::ReadOnlyFilesystem,
            Status::Invalid => io::ErrorKind::InvalidInput,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, failure)
    }
}
