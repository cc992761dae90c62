//! Whether what the device did wrong excuses anything still.

use crate::oracle::Oracle;
use crate::truth::DeviceTruth;

impl Oracle {
    /// A recovery has become the base.
    pub(crate) fn note_excuses(&mut self, truth: &DeviceTruth) {
        self.before = self.before.next(truth);
    }

    /// Whether a flush has lied since the base: anything that was written since may be gone, and what stood on it.
    pub(crate) fn flush_lied(&self, truth: &DeviceTruth) -> bool {
        truth.flush_lies > self.before.flush_lies
    }

    /// Whether the device has lied since the base, or is damaged from before: two recoveries may show different things then.
    #[must_use]
    pub fn lied(&self, truth: &DeviceTruth) -> bool {
        truth.lies() > self.before.lies
            || self.before.damaged_sectors + truth.damaged_sectors > 0
            || truth.damaged_ns.len() > self.before.damaged
    }

    /// Whether an operation has failed since the base.
    pub(crate) fn failed(&self, truth: &DeviceTruth) -> bool {
        truth.failures > self.before.failures
    }
}
