//! Failing operations of an exploration, counted.

use serde::{Deserialize, Serialize};

/// Recoveries in which the device failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorCounts {
    /// So many.
    pub tried: u64,
    /// In which the guest refused to open.
    pub refused: u64,
    /// In which it opened, and showed what it had to.
    pub opened: u64,
}

impl ErrorCounts {
    /// Adds others.
    pub fn add(&mut self, other: &ErrorCounts) {
        self.tried += other.tried;
        self.refused += other.refused;
        self.opened += other.opened;
    }
}

/// Runs in which an operation failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkErrorCounts {
    /// In which a read did.
    pub reads: u64,
    /// In which a write did.
    pub writes: u64,
    /// In which a flush did.
    pub flushes: u64,
    /// Crash points from the failing operation on, of all these runs.
    pub points: u64,
    /// States judged of them.
    pub states: u64,
    /// Operations that never failed, beyond `work_errors_max`.
    pub ops_left_out: u64,
    /// Flushes that failed and did not drop every subset, beyond `work_errors_drops`.
    pub drops_left_out: u64,
}

impl WorkErrorCounts {
    /// How many runs there were.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.reads + self.writes + self.flushes
    }

    /// Adds what another shard of the same exploration judged; it has made the same runs.
    pub fn add_shard(&mut self, other: &WorkErrorCounts) {
        self.states += other.states;
    }
}
