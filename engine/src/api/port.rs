//! The engine's only way out: disk operations, replies and log lines leave through a [`Port`], and nothing else does.
//!
//! Invariants:
//! - every operation submitted is completed exactly once, through `Engine::complete` with its tag;
//! - every request is answered exactly once; request 0 is the opening itself;
//! - the port owns a buffer that comes with an operation until the operation completes. A write's buffer is shared and
//!   immutable (the engine may still read it); a read's buffer is owned and comes back filled.

use std::sync::Arc;

use crate::api::buffer::{IoBuf, Shared};
use crate::api::coverage::CoveragePoint;
use crate::api::event::Event;

/// Virtual or real time in nanoseconds, from any fixed origin; it never goes backwards.
pub type Nanos = u64;

/// Names one request of one process run. 0 is the opening; the largest number is none.
pub type RequestId = u64;

/// Stands for the request of a write that was acknowledged before.
pub(crate) const PROMISED: RequestId = RequestId::MAX;

/// Names a snapshot within one process run. 0 stands for the latest state.
pub type SnapshotId = u64;

/// Where the engine's effects go.
pub trait Port {
    /// Starts a disk operation. Offsets and lengths are multiples of the sector. A tag is a small number, and is used again once the operation has
    /// ended.
    fn submit(&mut self, tag: u64, op: DiskOp);
    /// Answers a request.
    fn reply(&mut self, id: RequestId, reply: Reply);
    /// Says something to whoever runs the engine.
    fn log(&mut self, level: Level, text: &str);
    /// A named point was reached. Only those who test the engine want to know.
    fn reached(&mut self, _point: CoveragePoint) {}
    /// Something happened that whoever embeds the engine may want to know.
    fn happened(&mut self, _event: Event) {}
}

/// One operation on the disk.
#[derive(Debug)]
pub enum DiskOp {
    /// Fill the buffer from `offset`.
    Read {
        /// Where on the device.
        offset: u64,
        /// Its length says how much; handed back at completion.
        buffer: IoBuf,
    },
    /// Write the buffer at `offset`.
    Write {
        /// Where on the device.
        offset: u64,
        /// What; unchanged until completion and after.
        data: Arc<IoBuf>,
        /// Whether it must be durable by itself when it completes.
        through: bool,
    },
    /// Make durable what completed before this was submitted.
    Flush,
    /// Forget the contents of a range.
    Discard {
        /// Where on the device.
        offset: u64,
        /// How much.
        len: u64,
    },
    /// Make the device at least this large.
    Grow {
        /// The new size.
        new_bytes: u64,
    },
}

/// How an operation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DiskError {
    /// A read failed.
    #[error("read error")]
    Read,
    /// A write failed; any part of it may be on the medium.
    #[error("write error")]
    Write,
    /// A flush failed; nothing may be assumed of what it should have covered.
    #[error("flush error")]
    Flush,
    /// The device cannot hold it.
    #[error("no space on the device")]
    NoSpace,
}

/// How an operation ended: reads bring their buffer.
pub(crate) type IoResult = Result<Option<IoBuf>, DiskError>;

/// The severity of a log line. The numbers are the guest ABI's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Level {
    /// Data is lost, damaged or out of reach.
    Error = 1,
    /// Something is wrong but contained.
    Warn = 2,
    /// Once per opening, checkpoint or the like.
    Info = 3,
    /// For those who debug the engine.
    Debug = 4,
}

/// When a write may be acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Only once it survives a power cut.
    Durable,
    /// As soon as it is accepted; it is made durable within the relaxed window, or by a later durable write or sync.
    Relaxed,
}

/// One write of a batch.
#[derive(Debug, Clone, Copy)]
pub enum Mutation<'a> {
    /// Set a key.
    Put {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// Remove a key; removing what is not there is no error.
    Delete {
        /// The key.
        key: &'a [u8],
    },
}

impl<'a> Mutation<'a> {
    /// The key it writes.
    #[must_use]
    pub fn key(&self) -> &'a [u8] {
        match self {
            Mutation::Put { key, .. } | Mutation::Delete { key } => key,
        }
    }

    /// Bytes of the value it sets.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        match self {
            Mutation::Put { value, .. } => value.len(),
            Mutation::Delete { .. } => 0,
        }
    }

    /// Bytes of key and value together.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.key().len() + self.value_bytes()
    }
}

/// Which way a scan walks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the smallest key of the range upwards.
    Forward,
    /// From the largest key of the range downwards.
    Reverse,
}

/// A range scan over `start <= key < end`; a missing bound is open.
#[derive(Debug, Clone, Copy)]
pub struct ScanRange<'a> {
    /// The snapshot to read, or 0.
    pub snapshot: SnapshotId,
    /// Which way.
    pub direction: Direction,
    /// Inclusive lower bound.
    pub start: Option<&'a [u8]>,
    /// Exclusive upper bound.
    pub end: Option<&'a [u8]>,
    /// At most so many entries; at least one.
    pub limit: u32,
    /// Stop before keys and values exceed this, but return at least one entry.
    pub max_bytes: u32,
}

/// One request of a client.
#[derive(Debug, Clone, Copy)]
pub enum Request<'a> {
    /// Write all or nothing, in order; one mutation is the ordinary put or delete.
    Write {
        /// What to write.
        mutations: &'a [Mutation<'a>],
        /// When to acknowledge.
        durability: Durability,
    },
    /// Read one key.
    Get {
        /// The snapshot to read, or 0.
        snapshot: SnapshotId,
        /// The key.
        key: &'a [u8],
    },
    /// Read a range.
    Scan(ScanRange<'a>),
    /// Have the keys of a range in memory, without their values, until the next request of this kind: for a driver that asks for them then
    /// ([`Engine::scan_keys`](crate::Engine::scan_keys)). Whatever was handed in behind it waits for it.
    Know(ScanRange<'a>),
    /// Take a snapshot of everything handed in before.
    Snapshot,
    /// Let a snapshot go.
    Release {
        /// Which.
        snapshot: SnapshotId,
    },
    /// Acknowledged once everything handed in before is durable.
    Sync,
    /// Make everything durable and end cleanly.
    Close,
}

/// Why a request failed. The numbers are the guest ABI's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
#[non_exhaustive]
pub enum Status {
    /// The medium holds something else than was written; never returned as a value.
    Corruption = 2,
    /// The device failed, or the engine did; a write may or may not be found after the next opening.
    IoError = 3,
    /// No space; nothing was written.
    NoSpace = 4,
    /// Nothing is written until the database is opened anew; nothing was.
    ReadOnly = 5,
    /// The request itself is wrong; nothing was written.
    Invalid = 6,
    /// Closed, or not open yet; nothing was written.
    Closed = 7,
}

/// One entry of a scan.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key.
    pub key: Shared,
    /// The value.
    pub value: Shared,
}

/// The answer to one request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Done; nothing to tell.
    Done,
    /// A get found this. Shared, not copied: it may be kept.
    Value(Shared),
    /// A get found nothing.
    NotFound,
    /// A scan's entries in its direction, and whether a bound cut it short.
    Entries {
        /// Keys and values.
        entries: Vec<Entry>,
        /// The range holds more.
        more: bool,
    },
    /// A new snapshot.
    Snapshot(SnapshotId),
    /// It failed.
    Failed(Status, String),
}
