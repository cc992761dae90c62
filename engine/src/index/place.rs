//! A version of a key as the index has it, and where its value is.

use crate::format::pointer::Pointer;

/// Where a value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Deleted.
    Tombstone,
    /// In the index itself.
    Inline(Box<[u8]>),
    /// In a record of the log.
    Log {
        /// The record's position.
        lsn: u64,
        /// Bytes of the value.
        value_bytes: u32,
        /// Low half of the record's checksum.
        tag: u32,
    },
    /// In extents.
    Extent(Box<Pointer>),
}

impl Place {
    /// Bytes of the value.
    pub(crate) fn value_bytes(&self) -> usize {
        match self {
            Place::Tombstone => 0,
            Place::Inline(value) => value.len(),
            Place::Log { value_bytes, .. } => *value_bytes as usize,
            Place::Extent(pointer) => pointer.total as usize,
        }
    }

    /// The position of the record that holds the value, if one does.
    pub(crate) fn lsn(&self) -> Option<u64> {
        match self {
            Place::Log { lsn, .. } => Some(*lsn),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) sequence: u64,
    pub(crate) place: Place,
}
