//! Completions: what an operation does to what is pending when it ends, and what a failed flush forgets.

use super::Device;
use super::effect::{Dropped, Effect, InFlight};
use crate::Nanos;
use crate::op::{Completion, OpId};
use crate::persistence::Cutoff;
use crate::rng::happens;

impl Device {
    /// Completes the earliest operation; ties go by number.
    pub fn complete_next(&mut self) -> Option<Completion> {
        let (at, id, op) = self.in_flight.pop()?;
        Some(self.ended(at, id, op))
    }

    /// Completes this operation now, whatever its time and that of others: for replaying what another device was seen to do.
    /// `None` if it is not under way.
    pub fn complete(&mut self, now: Nanos, id: OpId) -> Option<Completion> {
        let op = self.in_flight.take(id)?;
        Some(self.ended(now, id, op))
    }

    fn ended(&mut self, at: Nanos, id: OpId, op: InFlight) -> Completion {
        self.now = self.now.max(at);
        if let Err(error) = &op.result {
            self.failures.count(*error);
        }
        if op.result.is_ok() && op.effect.says_durable() {
            self.made_durable_at = Some(at);
        }
        let changes_nothing = matches!(op.effect, Effect::Nothing | Effect::Fail(_));
        self.changes += u64::from(!changes_nothing);
        self.contents += u64::from(matches!(
            op.effect,
            Effect::Flush(_) | Effect::Drop { .. } | Effect::Complete { durable: true }
        ));
        match op.effect {
            Effect::Nothing | Effect::FlushInVain | Effect::WriteInVain => {}
            Effect::Fail(sectors) => {
                self.failures.torn_reads += u64::from(sectors.is_empty());
                self.met.failed(&sectors);
            }
            Effect::Complete { durable } => {
                self.persistence.complete(id, durable);
            }
            Effect::Flush(cutoff) => {
                self.persistence.flush(cutoff);
            }
            Effect::Order { cutoff, .. } => self.persistence.barrier(cutoff),
            Effect::Drop { cutoff, which } => self.forget(cutoff, &which),
        }
        let cache_bytes = self.config.cache_bytes;
        if cache_bytes > 0 {
            self.contents += u64::from(self.persistence.write_back(cache_bytes));
        }
        self.medium.heal(&self.persistence);
        let InFlight {
            tag,
            submitted_at,
            result,
            ..
        } = op;
        Completion {
            tag,
            id,
            at,
            submitted_at,
            result,
        }
    }

    /// After a failed flush: what it covered is forgotten, or some of it.
    fn forget(&mut self, cutoff: Cutoff, which: &Dropped) {
        let coin = |by: u64, id: OpId| {
            happens(
                crate::rng::draw(by, crate::rng::Purpose::Faults, 0, id, 0),
                0.5,
            )
        };
        let count = match which {
            Dropped::All => 0,
            Dropped::SomeBy(by) => self.persistence.drop_dirty(cutoff, |id| coin(*by, id)),
            Dropped::These(these) => {
                self.persistence
                    .drop_dirty(cutoff, |id| these.contains(&id));
                return;
            }
        };
        if count == 0 {
            self.persistence.drop_dirty(cutoff, |_| true);
        }
    }
}
