//! What happens in the engine that whoever embeds it may want to be told of, beside replies and log lines.
//!
//! Invariant: an event changes nothing. It leaves through the port like a log line, in the order in which things happened, and a port that does not care drops it.

use crate::api::port::{DiskError, Nanos};
use crate::format::damage::Corruption;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A checkpoint begins.
    CheckpointBegan,
    /// It has ended.
    CheckpointEnded {
        /// Whether it was published; otherwise there was no room for it, or the device failed.
        published: bool,
        /// Bytes of its pages.
        written_bytes: u64,
        /// How long it took.
        took_ns: Nanos,
    },
    /// From here on requests wait.
    StallBegan {
        /// What for.
        reason: StallReason,
    },
    /// None waits any more.
    StallEnded {
        /// How long one did.
        took_ns: Nanos,
    },
    /// Garbage collection has come to an end.
    Collected {
        /// Segments that it emptied.
        segments: u64,
        /// Bytes that it moved.
        moved_bytes: u64,
        /// Whether it found less to gain than is wanted: it falls behind what clients write.
        fell_behind: bool,
    },
    /// The device has grown.
    Grew {
        /// Its size that is used now.
        len_bytes: u64,
    },
    /// The device did not grow. It is asked again later.
    NotGrown,
    /// A write or a flush has failed, and nothing is written any more. Or a part of the index cannot be read, and no new write is taken; then the first may still follow.
    BecameReadOnly {
        /// How it failed.
        error: DiskError,
    },
    /// All of the index is loaded, behind an opening.
    IndexLoaded {
        /// Keys that there are.
        keys: u64,
        /// How long it took behind the opening.
        took_ns: Nanos,
    },
    /// Damage was found.
    Damaged {
        /// The key whose value it is, if it was met by reading one.
        key: Option<Box<[u8]>>,
        /// Where, and what is wrong there.
        damage: Corruption,
    },
}

/// What requests wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StallReason {
    /// Too much is accepted and not durable yet (`write_buffer_bytes`).
    Buffer,
    /// There is no free segment: garbage collection, a checkpoint or a growth has to make room.
    Room,
}
