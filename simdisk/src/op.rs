//! What a host asks of a device, how it ends, and what the device says of itself.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Excerpt, FaultKind, Nanos};

/// The number of an operation, from 0 over all process runs.
pub type OpId = u64;

/// An operation on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Reads whole sectors, as they are at the moment of submission.
    Read {
        /// First byte.
        offset: u64,
        /// How many.
        len_bytes: u32,
    },
    /// Writes whole sectors.
    Write {
        /// First byte.
        offset: u64,
        /// What.
        data: Arc<[u8]>,
        /// Durable when complete, also on a device with a volatile cache.
        through: bool,
    },
    /// Makes durable what has completed.
    Flush,
    /// Orders and makes nothing durable: what had completed before its submission reaches the medium before anything that is submitted after
    /// its completion.
    Barrier,
    /// Gives whole sectors back; they read as zeros. No more durable than a write.
    Discard {
        /// First byte.
        offset: u64,
        /// How many.
        len_bytes: u32,
    },
    /// Makes the device larger; the new part reads as zeros. Not larger than it is: nothing happens.
    Grow {
        /// The new size.
        new_bytes: u64,
    },
}

/// Why an operation was not taken: a fault of the one who submitted it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// Not whole sectors.
    #[error(
        "offset {offset} and length {len_bytes} are not multiples of the sector ({sector_bytes})"
    )]
    Misaligned {
        /// Where.
        offset: u64,
        /// How much.
        len_bytes: u64,
        /// The sector.
        sector_bytes: u64,
    },
    /// Nothing to do, or beyond the end.
    #[error(
        "offset {offset} and length {len_bytes} are empty or outside the device of {capacity_bytes} bytes"
    )]
    OutOfRange {
        /// Where.
        offset: u64,
        /// How much.
        len_bytes: u64,
        /// The size of the device.
        capacity_bytes: u64,
    },
    /// The device told that it cannot do this.
    #[error("the device does not support {0}")]
    Unsupported(&'static str),
}

/// How an operation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum DiskError {
    /// A read failed.
    #[error("read error")]
    Read,
    /// A write failed; whether it is on the medium is unknown.
    #[error("write error")]
    Write,
    /// A flush failed, and what is durable is unknown; or a barrier did, and it orders nothing.
    #[error("flush error")]
    Flush,
    /// There is no space.
    #[error("no space")]
    NoSpace,
}

/// What is noted of a read, write, flush or barrier when it is submitted, for a host that asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpNote {
    /// Its number.
    pub id: OpId,
    /// What may affect it.
    pub fault: FaultKind,
    /// Sectors that it reads or writes; 0 for a flush.
    pub sectors: u64,
    /// The pending operations that it may drop if it is a flush and fails.
    pub covered: Vec<OpId>,
}

/// The end of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The tag it was submitted with.
    pub tag: u64,
    /// Its number.
    pub id: OpId,
    /// When it completed.
    pub at: Nanos,
    /// When it was submitted.
    pub submitted_at: Nanos,
    /// A read's bytes; nothing for the others.
    pub result: Result<Option<Excerpt>, DiskError>,
}

/// What a device says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Logical sector.
    pub sector_bytes: u32,
    /// What it rewrites internally.
    pub physical_block_bytes: u32,
    /// Present size.
    pub capacity_bytes: u64,
    /// How far it can grow.
    pub max_capacity_bytes: u64,
    /// Whether a completed write needs a flush to be durable.
    pub volatile_cache: bool,
    /// Whether a write can be written through.
    pub fua: bool,
    /// Whether discard is supported.
    pub discard: bool,
    /// Whether there is a barrier that orders writes.
    pub barrier: bool,
    /// An aligned write up to this size is all or nothing.
    pub atomic_write_bytes: u64,
    /// Unless it crosses a multiple of this; 0 for no such boundary.
    pub atomic_boundary_bytes: u64,
}
