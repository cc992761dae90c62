//! What goes wrong with keyspaces as such, and what is refused.

use kvsim_engine::Status;

use crate::api::error::Failure;

/// The longest key of a keyspace, in bytes. The prefix that it has in the file takes up to four more.
pub const KEYSPACE_KEY_BYTES_MAX: usize = 1020;
/// The longest name of a keyspace, in bytes.
pub const KEYSPACE_NAME_BYTES_MAX: usize = 255;

/// Why a keyspace was not created, opened, renamed or dropped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyspaceError {
    /// There is one of this name.
    #[error("there is a keyspace `{name}` already: open it, or take another name")]
    Exists {
        /// The name.
        name: String,
    },
    /// There is none of this name.
    #[error("there is no keyspace `{name}`: create it first")]
    Missing {
        /// The name.
        name: String,
    },
    /// No keyspace can have this name.
    #[error("a name of {bytes} bytes{}: names are 1..={KEYSPACE_NAME_BYTES_MAX} bytes of UTF-8 without the character of number 0", if *.has_zero { ", with the character of number 0 in it" } else { "" })]
    Name {
        /// How long it is.
        bytes: usize,
        /// Whether it has the character of number 0.
        has_zero: bool,
    },
    /// 268,435,455 keyspaces have been created in this file.
    #[error(
        "no keyspace can be created in this file any more, since 268,435,455 were: copy what it holds to a new one"
    )]
    Exhausted,
    /// The database failed.
    #[error(transparent)]
    Failed(#[from] Failure),
}

pub(super) fn missing(name: &str) -> KeyspaceError {
    KeyspaceError::Missing {
        name: name.to_owned(),
    }
}

/// That of a keyspace where there should be one of another database.
pub(super) fn other() -> Failure {
    invalid("a keyspace of another database: what is done at once is done in one")
}

/// Refuses a key that cannot be written.
pub(super) fn check_key(key: &[u8]) -> Result<(), Failure> {
    match (1..=KEYSPACE_KEY_BYTES_MAX).contains(&key.len()) {
        true => Ok(()),
        false => Err(invalid(format!(
            "a key of {} bytes: keys of a keyspace are 1..={KEYSPACE_KEY_BYTES_MAX} bytes",
            key.len()
        ))),
    }
}

pub(super) fn invalid(message: impl Into<String>) -> Failure {
    Failure {
        status: Status::Invalid,
        message: message.into(),
    }
}
