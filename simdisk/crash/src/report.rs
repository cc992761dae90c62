//! What is said of a crash state: why it is impossible, what it did, and how operations can be torn.

use serde::{Deserialize, Serialize};

use crate::{CrashKind, CrashState};

/// Why a crash state is impossible on this device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CrashError {
    /// It names an operation that is not pending, or twice.
    #[error("operation {0} is not pending, or named twice")]
    NotPending(u64),
    /// It keeps what the device had dropped after a failed flush.
    #[error("operation {0} was dropped after a failed flush")]
    Dropped(u64),
    /// It loses something, and the device loses nothing.
    #[error("the device loses nothing (faults.loss = false)")]
    NothingIsLost,
    /// It is not a prefix in the order of submission, and the device keeps order.
    #[error("the device keeps order (faults.reorder = false), and operation {0} is out of it")]
    OutOfOrder(u64),
    /// It keeps a write that a barrier orders after another one, and not all of that one before it.
    #[error(
        "operation {id} follows operation {needs} behind a barrier, which does not survive whole before it"
    )]
    BeforeBarrier {
        /// The operation that is kept.
        id: u64,
        /// The one that has to be there.
        needs: u64,
    },
    /// It keeps something without what that needs.
    #[error("step {id} needs step {needs}, which does not persist with it")]
    Needs {
        /// The step that is kept.
        id: u64,
        /// The one that has to be there.
        needs: u64,
    },
    /// It tears what cannot be torn.
    #[error("operation {id} cannot be torn so: {why}")]
    NotTearable {
        /// The operation.
        id: u64,
        /// Why not.
        why: &'static str,
    },
}

/// What a cut did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrashReport {
    /// What kind of cut it was.
    pub kind: CrashKind,
    /// How many operations were pending.
    pub pending: u64,
    /// How many of them were lost entirely.
    pub lost: u64,
    /// How many survived torn.
    pub torn: u64,
    /// Whether a flush was in flight.
    pub in_flush: bool,
    /// What was decided.
    pub state: CrashState,
}

/// How a pending operation can be torn: what to choose from when crash states are enumerated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tears {
    /// How many sectors it has; any of them may survive.
    pub sectors: u64,
    /// Bytes of a sector.
    pub sector_bytes: u32,
    /// Whether one of its sectors may be left as garbage.
    pub garbage: bool,
    /// Whether one of its sectors may be torn in the middle.
    pub within_sector: bool,
    /// Whether one of its sectors may become unreadable.
    pub unreadable: bool,
}
