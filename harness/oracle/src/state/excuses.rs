//! Until when what the device did wrong excuses anything: what came before the process run whose recovery showed the base does not, unless it is on the
//! medium still.

use crate::truth::DeviceTruth;

/// What had affected the device when the guest was started that showed the base.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Before {
    pub(crate) flush_lies: u64,
    pub(crate) lies: u64,
    pub(crate) failures: u64,
    /// Damaged sectors when the base was shown.
    pub(crate) damaged_sectors: u64,
    /// How many writes were damaged when the base before it was shown, and when this one was. Which of them were damaged in this process run is not known.
    pub(crate) damaged: usize,
    pub(crate) damaged_now: usize,
}

impl Before {
    pub(crate) fn next(self, truth: &DeviceTruth) -> Before {
        let run = &truth.this_run;
        Before {
            // Which of the lies of this process run were flushes is not known.
            flush_lies: truth.flush_lies.saturating_sub(run.lies),
            lies: truth.lies().saturating_sub(run.lies),
            failures: truth.failures.saturating_sub(run.failures()),
            damaged_sectors: truth.damaged_sectors,
            damaged: self.damaged_now,
            damaged_now: truth.damaged_ns.len(),
        }
    }
}
