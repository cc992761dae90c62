//! What a client asks of a storage engine and what it is told: the requests and replies of the guest ABI, as values.
//!
//! Invariants every guest promises (and the oracle in `harness` holds it to):
//! - requests take effect in the order in which they are handed in, so that order is the commit order;
//! - a write is acknowledged once, with [`Status::Ok`], when it is durable or when it is accepted, as it asked;
//! - [`Status::is_definite_failure`] tells whether a write that failed is known to have had no effect.

use serde::{Deserialize, Serialize};

/// Names one request of one process run of a guest. Never reused within a world; 0 is the opening itself.
pub type RequestId = u64;

/// Names a snapshot within one process run. 0 stands for "no snapshot: the latest state".
pub type SnapshotId = u64;

/// When a write may be acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Only once it survives a power cut.
    Durable,
    /// As soon as it is accepted; a later durable write or `sync` makes it durable too.
    Relaxed,
}

/// One write inside a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mutation {
    /// Sets `key` to `value`.
    Put {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// Removes `key`; removing what is not there is no error.
    Delete {
        /// The key.
        key: Vec<u8>,
    },
}

/// Which way a scan walks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the smallest key of the range upwards.
    Forward,
    /// From the largest key of the range downwards.
    Reverse,
}

/// A range scan over `start <= key < end`; a missing bound is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// The snapshot to read, or 0 for the latest state.
    pub snapshot: SnapshotId,
    /// Which way.
    pub direction: Direction,
    /// Inclusive lower bound.
    pub start: Option<Vec<u8>>,
    /// Exclusive upper bound.
    pub end: Option<Vec<u8>>,
    /// At most so many entries (at least 1).
    pub limit: u32,
    /// The guest stops before the reply's keys and values exceed this many bytes, but returns at least one entry.
    pub max_bytes: u32,
}

/// One request of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Writes one key.
    Put {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
        /// When to acknowledge.
        durability: Durability,
    },
    /// Removes one key.
    Delete {
        /// The key.
        key: Vec<u8>,
        /// When to acknowledge.
        durability: Durability,
    },
    /// Writes all or nothing. A later mutation of the same key wins.
    Batch {
        /// What to write, in order.
        mutations: Vec<Mutation>,
        /// When to acknowledge.
        durability: Durability,
    },
    /// Reads one key. Replies [`Body::Value`] or [`Status::NotFound`].
    Get {
        /// The key.
        key: Vec<u8>,
        /// The snapshot to read, or 0.
        snapshot: SnapshotId,
    },
    /// Reads a range. Replies [`Body::Entries`].
    Scan(Scan),
    /// Takes a snapshot of all requests before this one. Replies [`Body::Snapshot`].
    Snapshot,
    /// Lets a snapshot go.
    Release {
        /// Which.
        snapshot: SnapshotId,
    },
    /// Acknowledged once everything accepted before it is durable.
    Sync,
    /// Makes everything durable and ends the process run cleanly.
    Close,
}

/// How a request ended. The numbers are the ABI's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u32)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// A get found nothing.
    NotFound = 1,
    /// The guest found damage and says so; the body is a sentence with offset, expected and found.
    Corruption = 2,
    /// The device failed. A write may or may not be found after the next opening.
    IoError = 3,
    /// No space; nothing was written.
    NoSpace = 4,
    /// The database takes no writes until it is opened anew; nothing was written.
    ReadOnly = 5,
    /// The request itself is wrong (empty key, too large, unknown snapshot); nothing was written.
    Invalid = 6,
    /// The process run is closed or not open yet; nothing was written.
    Closed = 7,
}

impl Status {
    /// Whether a write that ended so is known to have had no effect, now and after any crash.
    #[must_use]
    pub fn is_definite_failure(self) -> bool {
        matches!(
            self,
            Status::NoSpace | Status::ReadOnly | Status::Invalid | Status::Closed
        )
    }
}

/// What a reply carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Nothing.
    Empty,
    /// A get's value.
    Value(Vec<u8>),
    /// A scan's entries, in the direction of the scan, and whether the range holds more.
    Entries {
        /// Keys and values.
        entries: Vec<(Vec<u8>, Vec<u8>)>,
        /// The limit or the byte bound cut the scan short.
        more: bool,
    },
    /// A new snapshot.
    Snapshot(SnapshotId),
    /// What went wrong, for a person.
    Message(String),
}

/// The answer to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Which request.
    pub id: RequestId,
    /// How it ended.
    pub status: Status,
    /// What it carries.
    pub body: Body,
}
