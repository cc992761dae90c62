//! What a crash leaves, as a value.
//!
//! Invariant: a state has one form. What is lost entirely is not named, and a torn write names its kept sectors in ascending order.

use serde::{Deserialize, Serialize};

use crate::ranges;

/// What ends a process run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrashKind {
    /// The process dies; the device finishes what was submitted and keeps its cache.
    Process,
    /// The power goes; the device keeps what is durable and what the crash state says.
    Power,
}

/// Which of the pending operations survive a power cut, in the order in which they reached the medium.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrashState {
    /// The persisted writes. What is pending and not named is lost.
    pub persisted: Vec<Persisted>,
}

/// One persisted write.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Persisted {
    /// The number of the operation.
    pub id: u64,
    /// Which of its sectors.
    #[serde(default)]
    pub sectors: Sectors,
}

/// Which sectors of a write survive.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sectors {
    /// All of them.
    #[default]
    All,
    /// It is torn.
    Torn {
        /// Indices, ascending, of the sectors that are new. In a file: pairs `[first, end)`.
        #[serde(with = "ranges")]
        kept: Vec<u64>,
        /// A sector of garbage: its index, and the number the garbage is made from (0: all zeros; 1: all ones; else noise).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        garbage: Option<(u64, u64)>,
        /// A sector torn in the middle: its index, and the first byte that is old.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        torn_at: Option<(u64, u64)>,
        /// A sector that cannot be read until it is rewritten: its index.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unreadable: Option<u64>,
    },
}

impl Persisted {
    /// The operation survives whole.
    #[must_use]
    pub fn whole(id: u64) -> Self {
        Persisted {
            id,
            sectors: Sectors::All,
        }
    }

    /// These of its sectors survive, given in ascending order.
    #[must_use]
    pub fn torn(id: u64, kept: Vec<u64>) -> Self {
        let sectors = Sectors::Torn {
            kept,
            garbage: None,
            torn_at: None,
            unreadable: None,
        };
        Persisted { id, sectors }
    }
}

impl CrashState {
    /// Whether it leaves a sector that cannot be read.
    #[must_use]
    pub fn has_unreadable(&self) -> bool {
        self.persisted
            .iter()
            .any(|persisted_write| persisted_write.sectors.has_unreadable())
    }
}

impl Sectors {
    /// Whether one of them cannot be read.
    #[must_use]
    pub fn has_unreadable(&self) -> bool {
        matches!(
            self,
            Sectors::Torn {
                unreadable: Some(_),
                ..
            }
        )
    }

    /// Whether one of them is torn in the middle.
    #[must_use]
    pub fn has_byte_tear(&self) -> bool {
        matches!(
            self,
            Sectors::Torn {
                torn_at: Some(_),
                ..
            }
        )
    }

    /// What becomes of the sector of this index.
    #[must_use]
    pub fn fate(&self, index: u64) -> Fate {
        match self {
            Sectors::All => Fate::New,
            Sectors::Torn {
                garbage: Some((sector, seed)),
                ..
            } if *sector == index => Fate::Garbage(*seed),
            Sectors::Torn {
                torn_at: Some((sector, byte)),
                ..
            } if *sector == index => Fate::TornAt(*byte),
            Sectors::Torn {
                unreadable: Some(sector),
                ..
            } if *sector == index => Fate::Unreadable,
            Sectors::Torn { kept, .. } if kept.binary_search(&index).is_ok() => Fate::New,
            Sectors::Torn { .. } => Fate::Old,
        }
    }
}

/// What a sector holds after a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// What it held before.
    Old,
    /// What was written.
    New,
    /// Bytes that nobody wrote, made from this number.
    Garbage(u64),
    /// New up to this byte, old after it.
    TornAt(u64),
    /// A read of it fails.
    Unreadable,
}
