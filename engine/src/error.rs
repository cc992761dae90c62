//! What goes wrong: damage on the medium with offset, expected and found, and why an opening fails.

use crate::port::{DiskError, Status};

/// Two values that should agree and do not: what a parser found wrong, before anyone knows where on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch {
    /// What was compared.
    pub what: &'static str,
    /// What it should have been.
    pub expected: u64,
    /// What it is.
    pub found: u64,
}

impl Mismatch {
    pub(crate) fn check(what: &'static str, expected: u64, found: u64) -> Result<(), Mismatch> {
        if expected == found {
            Ok(())
        } else {
            Err(Mismatch {
                what,
                expected,
                found,
            })
        }
    }

    pub(crate) fn at(self, offset: u64) -> Corruption {
        Corruption {
            offset,
            mismatch: self,
        }
    }
}

/// Damage on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("damage at byte {offset}: {what}: expected {expected}, found {found}",
    what = mismatch.what, expected = mismatch.expected, found = mismatch.found)]
pub struct Corruption {
    /// Where on the device.
    pub offset: u64,
    /// What is wrong there.
    pub mismatch: Mismatch,
}

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
}

/// Damage as the reason why an opening ends: damaged data, or data that the device does not return.
impl From<Corruption> for Error {
    fn from(damage: Corruption) -> Error {
        match crate::salvage::is_unreadable(&damage.mismatch) {
            true => Error::Unreadable(damage),
            false => Error::Corruption(damage),
        }
    }
}

impl Error {
    pub(crate) fn status(&self) -> Status {
        match self {
            Error::Corruption(_) => Status::Corruption,
            Error::Unreadable(_) | Error::Disk(_) | Error::Poisoned(_) => Status::IoError,
            Error::Invalid(_) => Status::Invalid,
            Error::NoSpace(_) => Status::NoSpace,
        }
    }
}
