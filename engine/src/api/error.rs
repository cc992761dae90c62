//! What goes wrong: why an opening fails, or a task of the control plane.

use crate::api::port::{DiskError, Status};
use crate::format::damage::{Corruption, is_unreadable};

/// Why an opening or a task of the control plane ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Acknowledged data, or what leads to it, is damaged.
    #[error("{0}")]
    Corruption(Corruption),
    /// What cannot be read is known to have been durable.
    #[error("{0}")]
    Unreadable(Corruption),
    /// The device failed.
    #[error("the device failed: {0}")]
    Disk(#[from] DiskError),
    /// The configuration does not fit the device or the database.
    #[error("{0}")]
    Invalid(String),
    /// The device is too small.
    #[error("{0}")]
    NoSpace(String),
    /// The database takes no writes any more.
    #[error("the database is read-only until it is opened anew, because {0}")]
    Poisoned(DiskError),
    /// The same, since what had been acknowledged ahead could not be written: what could be reclaimed turned out not to be readable.
    #[error(
        "the database is read-only until it is opened anew, because there was no space for what was acknowledged"
    )]
    PromiseBroken,
}

/// Damage as the reason why an opening ends: damaged data, or data that the device does not return.
impl From<Corruption> for Error {
    fn from(damage: Corruption) -> Error {
        match is_unreadable(&damage.mismatch) {
            true => Error::Unreadable(damage),
            false => Error::Corruption(damage),
        }
    }
}

impl Error {
    pub(crate) fn status(&self) -> Status {
        match self {
            Error::Corruption(_) => Status::Corruption,
            Error::PromiseBroken => Status::ReadOnly,
            Error::Unreadable(_) | Error::Disk(_) | Error::Poisoned(_) => Status::IoError,
            Error::Invalid(_) => Status::Invalid,
            Error::NoSpace(_) => Status::NoSpace,
        }
    }
}
