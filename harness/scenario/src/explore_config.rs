//! `[explore]`: how far the exhaustive exploration of crash states goes. What a cut can leave at all is up to `[device]` and
//! `[faults]`; these fields bound how much of that is taken.

use kvsim_simdisk::FaultKind;
use serde::{Deserialize, Serialize};

/// How far an exploration goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExploreConfig {
    /// Requests of the clients in the run that is recorded.
    pub operations: u64,
    /// Crashes in a row: 1 judges each state of the recording, 2 also each state of each recovery and of the work after it.
    pub depth: u32,
    /// Of what is pending, every subset that keeps or that loses at most so many writes.
    pub subset_writes: u32,
    /// A write of at most so many sectors is torn in every way; a longer one in simple ways only. 0: no write is torn.
    pub tear_sectors: u32,
    /// At most so many writes are torn at once.
    pub torn_writes: u32,
    /// A torn write may leave garbage in one sector, if the faults allow it.
    pub garbage: bool,
    /// A torn write may leave one sector that cannot be read, if the faults allow it.
    pub unreadable: bool,
    /// Whether a killed process is a state of its own beside the power cuts.
    pub process_crash: bool,
    /// Whether cuts while a flush is under way are taken.
    pub in_flush: bool,
    /// At most so many states are taken of one crash point; of more, a sample drawn from the seed.
    pub states_per_point: u64,
    /// Requests of the clients after a recovery, before the next crash.
    pub work: u64,
    /// Of the states above the last depth, the recovery of one in so many is explored too.
    pub deeper_every: u64,
    /// Of the states at the last depth, one in so many is also worked on, cut once more and recovered again; 0 for none.
    pub again_every: u64,
    /// Each state is also recovered with one operation of the device failing: a read, write or flush of the recovery.
    pub recovery_errors: Vec<RecoveryError>,
    /// Of each of these kinds, the first so many operations of a recovery fail, one at a time.
    pub recovery_errors_max: u64,
    /// The run is also made with one operation of its work failing: a read, write or flush. What a cut after that can
    /// leave is explored too.
    pub work_errors: Vec<RecoveryError>,
    /// Of each of these kinds, the first so many operations of the work fail, one in each run.
    pub work_errors_max: u64,
    /// A flush that fails drops every subset of what it covers if there are at most so many; else the simple ones.
    pub work_errors_drops: u64,
    /// The exploration ends after so many violations.
    pub violations_max: u64,
    /// Of violations alike so many count, and the others are met only: the same property and symptom, both before the first request or both after it.
    pub alike_max: u64,
}

/// What fails in a recovery, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryError {
    /// A read.
    Read,
    /// A write; nothing of it is written.
    Write,
    /// A flush; what it should have made durable is dropped, some or all of it.
    Flush,
}

impl RecoveryError {
    /// The fault of the device.
    #[must_use]
    pub fn fault(self) -> FaultKind {
        match self {
            RecoveryError::Read => FaultKind::ReadError,
            RecoveryError::Write => FaultKind::WriteError,
            RecoveryError::Flush => FaultKind::FlushError,
        }
    }
}

impl Default for ExploreConfig {
    fn default() -> Self {
        ExploreConfig {
            operations: 200,
            depth: 1,
            subset_writes: 4,
            tear_sectors: 8,
            torn_writes: 1,
            garbage: true,
            unreadable: true,
            process_crash: true,
            in_flush: true,
            states_per_point: 20_000,
            work: 8,
            deeper_every: 1,
            again_every: 32,
            recovery_errors: Vec::new(),
            recovery_errors_max: 4,
            work_errors: Vec::new(),
            work_errors_max: 100,
            work_errors_drops: 64,
            violations_max: 1,
            alike_max: 1_000,
        }
    }
}

impl ExploreConfig {
    /// Whether the fields make sense.
    ///
    /// # Errors
    /// The name of the field that does not, and what is wrong with it.
    pub fn validate(&self) -> Result<(), (&'static str, String)> {
        let range = |field, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err((
                    field,
                    format!("is {value}, and must be from {low} to {high}"),
                ))
            }
        };
        range("operations", self.operations, 0, 1_000_000)?;
        range("depth", self.depth.into(), 1, 3)?;
        range("subset_writes", self.subset_writes.into(), 0, 16)?;
        range("tear_sectors", self.tear_sectors.into(), 0, 16)?;
        range("torn_writes", self.torn_writes.into(), 0, 16)?;
        range("states_per_point", self.states_per_point, 1, 100_000_000)?;
        range("work", self.work, 0, 10_000)?;
        range("deeper_every", self.deeper_every, 1, u64::MAX)?;
        range("recovery_errors_max", self.recovery_errors_max, 1, 1_000)?;
        range("work_errors_max", self.work_errors_max, 1, 1_000_000)?;
        range("work_errors_drops", self.work_errors_drops, 1, 65_536)?;
        range("violations_max", self.violations_max, 1, 1_000)?;
        range("alike_max", self.alike_max, 1, 1_000)
    }
}
