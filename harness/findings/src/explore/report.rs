//! What an exploration found, as values.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::counts::{ErrorCounts, WorkErrorCounts};
use crate::summary::{FailureReport, Verdict};
use kvsim_api::coverage::Coverage;
use kvsim_drive::tally::as_f64;

/// What bounds left out, as a number of crash points.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LeftOutCounts {
    /// Subsets that keep and lose more writes than `subset_writes`.
    pub subsets: u64,
    /// Orders of many overlapping persisted writes.
    pub orders: u64,
    /// Tears of writes longer than `tear_sectors`, and garbage or tears within other sectors.
    pub tears: u64,
    /// More writes torn at once than `torn_writes`.
    pub several_torn: u64,
    /// States beyond `states_per_point`.
    pub sampled: u64,
}

impl LeftOutCounts {
    fn add(&mut self, other: &LeftOutCounts) {
        self.subsets += other.subsets;
        self.orders += other.orders;
        self.tears += other.tears;
        self.several_torn += other.several_torn;
        self.sampled += other.sampled;
    }
}

/// What was done at one crash point of the recording.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointCount {
    /// World events before it.
    pub event: u64,
    /// Virtual time.
    pub at_ns: u64,
    /// Operations that a cut could lose.
    pub pending: u64,
    /// A flush was under way.
    pub in_flush: bool,
    /// States within the bounds.
    pub possible: u64,
    /// Of these, taken: all but those left out by sampling.
    pub taken: u64,
    /// Of these, never seen before.
    pub distinct: u64,
    /// Of these, judged: all unless the exploration ended early.
    pub checked: u64,
    /// Taken and seen before.
    pub skipped: u64,
    /// What bounds left out.
    pub left_out: LeftOutCounts,
}

/// The sums over all crash points of one depth.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// Crash points.
    pub points: u64,
    /// States within the bounds.
    pub possible: u64,
    /// Of these, taken.
    pub taken: u64,
    /// Of these, never seen before.
    pub distinct: u64,
    /// Of these, judged.
    pub checked: u64,
    /// Taken and seen before.
    pub skipped: u64,
    /// States of which the guest reported damage or a device error, with reason.
    pub reported: u64,
    /// Recoveries that were read back and judged.
    pub recoveries: u64,
    /// Recoveries that are neither legal nor a violation, since the search for an explanation was given up.
    #[serde(default)]
    pub undecided: u64,
    /// Violations that are like so many others that they did not count.
    #[serde(default)]
    pub alike: u64,
    /// Recoveries in which the device failed.
    #[serde(default)]
    pub errors: ErrorCounts,
    /// How many crash points had something left out by a bound.
    pub left_out: LeftOutCounts,
}

impl Level {
    /// Adds what was done at a crash point.
    pub fn add(&mut self, count: &PointCount) {
        self.points += 1;
        self.possible = self.possible.saturating_add(count.possible);
        self.taken += count.taken;
        self.distinct += count.distinct;
        self.checked += count.checked;
        self.skipped += count.skipped;
        self.left_out.add(&count.left_out);
    }

    /// Adds the sums of another shard or depth.
    pub fn add_level(&mut self, other: &Level) {
        self.points += other.points;
        self.possible = self.possible.saturating_add(other.possible);
        self.taken += other.taken;
        self.distinct += other.distinct;
        self.checked += other.checked;
        self.skipped += other.skipped;
        self.reported += other.reported;
        self.recoveries += other.recoveries;
        self.undecided += other.undecided;
        self.alike += other.alike;
        self.errors.add(&other.errors);
        self.left_out.add(&other.left_out);
    }
}

/// Everything there is to say about one exploration.
#[derive(Debug, Clone)]
pub struct ExploreReport {
    /// The scenario's name.
    pub scenario: String,
    /// The profile, if the scenario names one.
    pub profile: Option<String>,
    /// The guest's name.
    pub guest_name: String,
    /// The guest's hash.
    pub guest_hash: String,
    /// The seed of the recording and of samples.
    pub seed: u64,
    /// Requests that clients sent in the recording.
    pub requests: u64,
    /// World events of the recording.
    pub events: u64,
    /// Crash points of the recording.
    pub points_asked: u64,
    /// The crash points that were come to, in order.
    pub points: Vec<PointCount>,
    /// It ended when its time was over, before all was seen.
    pub time_over: bool,
    /// The sums of each depth.
    pub levels: Vec<Level>,
    /// The runs in which an operation failed; their states are in the sums.
    pub work_errors: WorkErrorCounts,
    /// What the guest does not offer, so that nobody asked for it.
    pub not_asked: Vec<String>,
    /// The guest's coverage points.
    pub coverage: Coverage,
    /// How it ended.
    pub verdict: Verdict,
    /// Which part of several this is: its number, and how many there are.
    pub shard: Option<(u64, u64)>,
    /// The violations, in order.
    pub failures: Vec<FailureReport>,
    /// The crash point of the recording that each comes from.
    pub failure_points: Vec<u64>,
    /// Real time, of the states and without the recording.
    pub elapsed: Duration,
    /// Processor time of the same, if the system says.
    pub cpu: Option<Duration>,
    /// Threads.
    pub jobs: usize,
}

impl ExploreReport {
    /// The sums over all depths.
    #[must_use]
    pub fn total(&self) -> Level {
        let mut total = Level::default();
        for level in &self.levels {
            total.add_level(level);
        }
        total
    }

    /// Crashes in a row that its states are the end of.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.levels.len().max(1)
    }

    /// Crash points of the recording of which all states taken were judged.
    #[must_use]
    pub fn points_done(&self) -> usize {
        let is_done = |point: &&PointCount| point.checked == point.distinct;
        self.points.iter().filter(is_done).count()
    }

    /// States judged per second of real time.
    #[must_use]
    pub fn states_per_second(&self) -> f64 {
        per_second(self.total().checked, self.elapsed)
    }

    /// States judged per second of processor time, which is per core.
    #[must_use]
    pub fn states_per_cpu_second(&self) -> Option<f64> {
        let cpu = self.cpu.filter(|cpu| !cpu.is_zero())?;
        Some(per_second(self.total().checked, cpu))
    }
}

fn per_second(count: u64, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if seconds > 0.0 {
        as_f64(count) / seconds
    } else {
        0.0
    }
}
