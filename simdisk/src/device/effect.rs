//! An operation on its way, and what it will do to what is pending when it completes.

use crate::op::{DiskError, OpId};
use crate::persistence::Cutoff;
use crate::timing::Kind;
use crate::{Excerpt, Nanos};

/// An operation that was submitted and has not completed.
#[derive(Debug, Clone)]
pub(super) struct InFlight {
    pub(super) tag: u64,
    pub(super) submitted_at: Nanos,
    pub(super) effect: Effect,
    pub(super) result: Result<Option<Excerpt>, DiskError>,
}

/// What an operation does to what is pending when it completes.
#[derive(Debug, Clone)]
pub(super) enum Effect {
    Nothing,
    /// A read that fails at these sectors; at none of them if only torn sectors are in its way.
    Fail(Vec<u64>),
    /// What it submitted is complete, and durable if so said.
    Complete {
        durable: bool,
    },
    /// What the cutoff covers is durable.
    Flush(Cutoff),
    /// What the cutoff covers comes before what is submitted from now on. With `as_flush` the host has asked for a flush.
    Order {
        cutoff: Cutoff,
        as_flush: bool,
    },
    /// What the cutoff covers is forgotten, all of it or some.
    Drop {
        cutoff: Cutoff,
        which: Dropped,
    },
    /// A flush that does nothing.
    FlushInVain,
    /// A write-through that is lost: only the host is told that it is durable.
    WriteInVain,
}

/// What a failed flush forgets of what it covers.
#[derive(Debug, Clone)]
pub(super) enum Dropped {
    All,
    /// Each on the toss of a coin, though at least one.
    SomeBy(u64),
    /// These operations.
    These(Vec<OpId>),
}

impl Effect {
    /// Whether its completion tells the host that something is durable, be it true or a lie.
    pub(super) fn says_durable(&self) -> bool {
        matches!(
            self,
            Effect::Flush(_)
                | Effect::FlushInVain
                | Effect::WriteInVain
                | Effect::Complete { durable: true }
                | Effect::Order { as_flush: true, .. }
        )
    }
}

/// An operation on its way into the queue.
pub(super) struct Taken {
    pub(super) kind: Kind,
    pub(super) len_bytes: u64,
    pub(super) effect: Effect,
    pub(super) result: Result<Option<Excerpt>, DiskError>,
}
