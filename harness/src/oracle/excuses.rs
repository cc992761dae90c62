//! Until when what the device did wrong excuses anything: what came before the process run whose recovery showed the base does not, unless it is on the
//! medium still.

use super::{DeviceTruth, Oracle, RunFaults};

/// What had befallen the device when the guest was started that showed the base.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Before {
    flush_lies: u64,
    lies: u64,
    failures: u64,
    /// Damaged sectors when the base was shown.
    damaged_sectors: u64,
    /// How many writes had come to harm when the base before it was shown, and when this one was: which of them did in this process run is not known.
    harmed: usize,
    harmed_now: usize,
}

impl Before {
    fn next(self, truth: &DeviceTruth) -> Before {
        let run = &truth.this_run;
        Before {
            // Which of the lies of this process run were flushes is not known.
            flush_lies: truth.flush_lies.saturating_sub(run.lies),
            lies: truth.lies().saturating_sub(run.lies),
            failures: truth.failures.saturating_sub(run.failures()),
            damaged_sectors: truth.damaged_sectors,
            harmed: self.harmed_now,
            harmed_now: truth.harmed_ns.len(),
        }
    }
}

impl RunFaults {
    /// Operations of which the guest was told that they failed.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.read_failures + self.write_failures + self.flush_failures + self.no_space
    }
}

impl Oracle {
    /// A recovery has become the base.
    pub(super) fn note_excuses(&mut self, truth: &DeviceTruth) {
        self.before = self.before.next(truth);
    }

    /// Whether a flush has lied since the base: anything that was written since may be gone, and what stood on it.
    pub(super) fn flush_lied(&self, truth: &DeviceTruth) -> bool {
        truth.flush_lies > self.before.flush_lies
    }

    /// Whether the device has lied since the base, or is damaged from before.
    pub(super) fn lied(&self, truth: &DeviceTruth) -> bool {
        truth.lies() > self.before.lies
            || self.before.damaged_sectors + truth.damaged_sectors > 0
            || truth.harmed_ns.len() > self.before.harmed
    }

    /// Whether an operation has failed since the base.
    pub(super) fn failed(&self, truth: &DeviceTruth) -> bool {
        truth.failures > self.before.failures
    }
}
