//! What goes wrong, as C sees it.

use std::any::Any;
use std::ffi::{CString, c_char};
use std::io::ErrorKind;

use kvsim_native::{
    BackupError, CompactError, Failure, KeyspaceError, OpenError, RepairError, Status,
};

use crate::border::{Kind, border_or, free, shared};

/// What came of a call.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvdbStatus {
    /// It was done.
    KvdbOk = 0,
    /// There is no such key, or it has another value, or the cursor has left its range. No error.
    KvdbNotFound = 1,
    /// The medium holds something else than was written. It is never returned as a value.
    KvdbCorruption = 2,
    /// The device failed. A write may or may not be found after the next opening.
    KvdbIoError = 3,
    /// No space; nothing was written.
    KvdbNoSpace = 4,
    /// A write or a flush has failed before, or the database was opened to be read only. Nothing is written until it is opened anew; nothing was.
    KvdbReadOnly = 5,
    /// The call itself is wrong; nothing was done.
    KvdbInvalid = 6,
    /// The database is closed; nothing was done.
    KvdbClosed = 7,
    /// The database is open already, in this process or another.
    KvdbLocked = 8,
    /// A bug of the library. The database may be given up: then every call is KVDB_CLOSED. What was acknowledged is there at the next opening.
    KvdbPanicked = 9,
}

/// What went wrong, in a sentence.
pub struct KvdbError(());

/// What is behind an error.
pub(crate) struct Told {
    status: KvdbStatus,
    message: CString,
}

impl Kind for KvdbError {
    type Inside = Told;
    const NUMBER: u64 = u64::from_le_bytes(*b"kvdb err");
}

/// Why a call fails.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) status: KvdbStatus,
    pub(crate) message: String,
}

impl Failed {
    pub(crate) fn invalid(message: impl Into<String>) -> Failed {
        Failed {
            status: KvdbStatus::KvdbInvalid,
            message: message.into(),
        }
    }

    /// Somebody panicked with this.
    pub(crate) fn panicked(panic: Box<dyn Any + Send>) -> Failed {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| Some((*panic.downcast_ref::<&str>()?).to_owned()));
        // To drop it could panic once more.
        std::mem::forget(panic);
        Failed {
            status: KvdbStatus::KvdbPanicked,
            message: format!("the library panicked: {}", text.unwrap_or_default()),
        }
    }
}

impl From<Failed> for Told {
    fn from(failed: Failed) -> Told {
        let text = failed.message.replace('\0', "\u{fffd}");
        Told {
            status: failed.status,
            message: CString::new(text).unwrap_or_default(),
        }
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        let status = match failure.status {
            Status::Corruption => KvdbStatus::KvdbCorruption,
            Status::NoSpace => KvdbStatus::KvdbNoSpace,
            Status::ReadOnly => KvdbStatus::KvdbReadOnly,
            Status::Invalid => KvdbStatus::KvdbInvalid,
            Status::Closed => KvdbStatus::KvdbClosed,
            _ => KvdbStatus::KvdbIoError,
        };
        Failed {
            status,
            message: failure.message,
        }
    }
}

impl From<BackupError> for Failed {
    fn from(error: BackupError) -> Failed {
        let message = error.to_string();
        let status = match error {
            BackupError::Read(failure) | BackupError::Write { failure, .. } => {
                Failed::from(failure).status
            }
            BackupError::Create(error) => Failed::from(error).status,
            BackupError::Name { source, .. } if source.kind() == ErrorKind::AlreadyExists => {
                KvdbStatus::KvdbInvalid
            }
            _ => KvdbStatus::KvdbIoError,
        };
        Failed { status, message }
    }
}

impl From<CompactError> for Failed {
    fn from(error: CompactError) -> Failed {
        let message = error.to_string();
        let status = match error {
            CompactError::Open(error) => Failed::from(error).status,
            CompactError::BlockDevice { .. } | CompactError::OtherNames { .. } => {
                KvdbStatus::KvdbInvalid
            }
            CompactError::Read(failure) => Failed::from(failure).status,
            CompactError::Copy(error) => Failed::from(error).status,
            _ => KvdbStatus::KvdbIoError,
        };
        Failed { status, message }
    }
}

impl From<RepairError> for Failed {
    fn from(error: RepairError) -> Failed {
        let message = error.to_string();
        let status = match error {
            RepairError::Open(error) => Failed::from(error).status,
            RepairError::Copy(error) => Failed::from(error).status,
            RepairError::NoDatabase { .. } | RepairError::Options(_) => KvdbStatus::KvdbInvalid,
            _ => KvdbStatus::KvdbIoError,
        };
        Failed { status, message }
    }
}

impl From<KeyspaceError> for Failed {
    fn from(error: KeyspaceError) -> Failed {
        match error {
            KeyspaceError::Failed(failure) => failure.into(),
            other => Failed::invalid(other.to_string()),
        }
    }
}

impl From<OpenError> for Failed {
    fn from(error: OpenError) -> Failed {
        let message = error.to_string();
        let status = match error {
            OpenError::Engine { failure, .. } => Failed::from(failure).status,
            OpenError::Locked { .. } => KvdbStatus::KvdbLocked,
            OpenError::NotAFile { .. } | OpenError::Driver(_) | OpenError::Keyspaces { .. } => {
                KvdbStatus::KvdbInvalid
            }
            _ => KvdbStatus::KvdbIoError,
        };
        Failed { status, message }
    }
}

/// The status that an error came with; KVDB_INVALID if `error` is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_error_status(error: *const KvdbError) -> KvdbStatus {
    border_or(KvdbStatus::KvdbInvalid, || {
        // SAFETY: as the header demands.
        Ok(unsafe { shared(error, "error") }?.status)
    })
}

/// What went wrong, in a sentence that ends with a zero, valid until the error is freed; an empty text if `error` is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_error_message(error: *const KvdbError) -> *const c_char {
    border_or(c"".as_ptr(), || {
        // SAFETY: as the header demands.
        Ok(unsafe { shared(error, "error") }?.message.as_ptr())
    })
}

/// Frees an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_error_free(error: *mut KvdbError) {
    // SAFETY: as the header demands.
    unsafe { free(error) }
}
