//! The rule for a device whose flush only orders: what may be lost although it was acknowledged.
//!
//! A power cut may lose any end of the commit order, back to the state that the first recovery after the power cut before showed: that state was read
//! from a device whose cache was empty. Nothing else is excused: what is left is a prefix, a batch is whole, the guest opens, and a killed process
//! loses nothing, since the device keeps its cache.

use crate::history::Pos;
use crate::oracle::Oracle;
use crate::state::medium::OnMedium;
use crate::truth::DeviceTruth;

impl Oracle {
    /// Whether flushes only order.
    #[must_use]
    pub fn flush_only_orders(&self) -> bool {
        self.config.flush_only_orders
    }

    /// The prefix below which nothing may be lost, if the end of the commit order may be at all.
    pub(crate) fn kept_behind_barriers(&self, truth: &DeviceTruth) -> Option<Pos> {
        let was_cut = truth.power_cuts > self.on_medium.power_cuts;
        (self.config.flush_only_orders && was_cut).then_some(self.on_medium.pos)
    }

    /// A recovery has become the base.
    pub(crate) fn note_medium(&mut self, truth: &DeviceTruth) {
        if truth.power_cuts > self.on_medium.power_cuts {
            self.on_medium = OnMedium {
                pos: self.history.base_pos,
                power_cuts: truth.power_cuts,
            };
        }
    }

    /// What tells apart moments at which the same must survive and different ends may be lost.
    pub(crate) fn feed_medium(&self, mut take: impl FnMut(u64)) {
        if self.config.flush_only_orders {
            take(u64::from(self.on_medium.pos));
            take(self.on_medium.power_cuts);
        }
    }
}
