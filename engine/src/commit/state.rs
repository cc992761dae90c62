//! What group commit knows: the group under way, the one that gathers, and who waits for which position. How it goes on is in `group.rs`.

use crate::api::port::{Nanos, RequestId};

/// Clients who do not come back within this time after a commit do something else.
pub(crate) const COMMITS_PAUSE_NS: Nanos = 1_000_000;

/// Someone who is answered when a position is durable.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) lsn: u64,
    pub(crate) id: RequestId,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct FlushUnderWay {
    pub(super) covers: u64,
    pub(super) submitted_at: Nanos,
}

/// The wait of the group that gathers now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gather {
    pub(super) started_at: Nanos,
    pub(super) waiting_then: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Group {
    /// A group is under way (only where groups end with a flush).
    pub(super) active: bool,
    pub(super) flush: Option<FlushUnderWay>,
    /// A flush of a task is under way.
    pub(super) task_flush: bool,
    /// The last position that a task waits for.
    pub(super) wanted: u64,
    /// When the oldest write was accepted that is in a frame which needs a flush.
    pub(super) unflushed_since: Option<Nanos>,
    /// Positions before this belong to a group that has started.
    pub(super) covered: u64,
    /// Clients waiting for durability beyond `covered`.
    pub(super) waiting: u32,
    /// Start without gathering: the buffer is full, or a checkpoint needs the log durable.
    pub(crate) force: bool,
    /// When the oldest relaxed write beyond `covered` was accepted.
    pub(super) relaxed_since: Option<Nanos>,
    /// Smoothed time that making a group durable takes: a flush, or a write-through.
    pub(crate) flush_ns: Nanos,
    pub(super) concurrent: u32,
    /// When clients were last told that something is durable.
    pub(super) acknowledged_at: Option<Nanos>,
    pub(super) gather: Option<Gather>,
    pub(super) backoff: u32,
    pub(super) skip: u32,
    pub(super) mark_at: Option<Nanos>,
}
