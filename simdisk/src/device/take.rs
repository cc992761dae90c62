//! What becomes of an operation when it is submitted: whether it is one, what it reads or leaves pending, which faults affect it, and what its completion will
//! do.
//!
//! Invariant: a fault strikes by its kind and the number of the operation alone, so one that is not asked about moves no other.

use std::sync::Arc;

use super::Device;
use super::effect::{Dropped, Effect, Taken};
use super::fail::Done;
use crate::inject::Strike;
use crate::op::{DiskError, Op, OpId, SubmitError};
use crate::persistence::{Cutoff, PendingKind};
use crate::rng::happens;
use crate::timing::Kind;
use crate::{Excerpt, FaultKind, FlushKind, ScriptedFault};

impl Device {
    /// Whether a correct caller submits this.
    pub(super) fn validate(&self, op: &Op) -> Result<(), SubmitError> {
        let sector_bytes = u64::from(self.config.sector_bytes);
        let capacity_bytes = self.persistence.visible().len_bytes();
        let (offset, len_bytes) = match op {
            Op::Flush => return Ok(()),
            Op::Barrier if self.config.barrier => return Ok(()),
            Op::Barrier => return Err(SubmitError::Unsupported("barriers")),
            Op::Grow { new_bytes } => (*new_bytes, 0),
            Op::Read { offset, len_bytes } | Op::Discard { offset, len_bytes } => {
                (*offset, u64::from(*len_bytes))
            }
            Op::Write { offset, data, .. } => (*offset, data.len() as u64),
        };
        if !offset.is_multiple_of(sector_bytes) || !len_bytes.is_multiple_of(sector_bytes) {
            return Err(SubmitError::Misaligned {
                offset,
                len_bytes,
                sector_bytes,
            });
        }
        if matches!(op, Op::Grow { .. }) {
            return Ok(());
        }
        let end = offset.checked_add(len_bytes);
        if len_bytes == 0 || end.is_none_or(|end| end > capacity_bytes) {
            return Err(SubmitError::OutOfRange {
                offset,
                len_bytes,
                capacity_bytes,
            });
        }
        if matches!(op, Op::Write { through: true, .. }) && !self.capabilities().fua {
            return Err(SubmitError::Unsupported("write-through"));
        }
        if matches!(op, Op::Discard { .. }) && !self.config.discard {
            return Err(SubmitError::Unsupported("discard"));
        }
        Ok(())
    }

    pub(super) fn take_read(&mut self, id: OpId, offset: u64, len_bytes: u32) -> Taken {
        self.stats.reads += 1;
        self.stats.read_bytes += u64::from(len_bytes);
        let len = u64::from(len_bytes);
        if let Some(reads) = &mut self.reads {
            reads.push((offset, len));
        }
        let bad = self.medium.bad_sectors(&self.persistence, offset, len);
        let mut failed = bad.is_some();
        let mut failing = bad.unwrap_or_default();
        if self.medium.is_met(&self.persistence, offset, len) {
            self.met.damage += 1;
        }
        if let Some(strike) = self.inject.strikes(FaultKind::ReadError, id) {
            failed = true;
            failing = self.medium.sectors(offset, len).collect();
            let mut record = strike.record();
            if let Some(place) = self.stays(&strike, offset, len) {
                self.medium.make_unreadable(place);
                // It can be told from a torn sector no more than one that went bad at rest.
                let sector = self.config.sector_bytes.into();
                self.medium.damaged_writes.hit(place, sector);
                (record.persistent, record.at_bytes) = (Some(true), Some(place));
            }
            self.inject.fired_as(record);
        }
        let (effect, result) = if failed {
            (Effect::Fail(failing), Err(DiskError::Read))
        } else {
            self.met.succeeds(self.medium.sectors(offset, len));
            (Effect::Nothing, Ok(Some(self.read_or_lie(id, offset, len))))
        };
        Taken {
            kind: Kind::Read,
            len_bytes: len,
            effect,
            result,
        }
    }

    /// Whether the error that strikes an operation stays, and if so at which sector of what that was to read or write.
    pub(super) fn stays(&self, strike: &Strike, offset: u64, len: u64) -> Option<u64> {
        if !strike.says(|fault| fault.persistent, 1, self.faults.persistent) {
            return None;
        }
        let scripted = strike.script.as_ref().and_then(|fault| fault.at_bytes);
        let place = scripted.unwrap_or_else(|| offset + strike.below(2, len));
        Some(self.medium.sector_start(place))
    }

    /// The bytes that a read returns. A lie counts only if it makes a difference.
    fn read_or_lie(&mut self, id: OpId, offset: u64, len: u64) -> Excerpt {
        let bytes = self.persistence.visible().excerpt(offset, len);
        if let Some(strike) = self.inject.strikes(FaultKind::MisdirectedRead, id)
            && let Some(place) = self
                .medium
                .elsewhere(&strike, &self.persistence, offset, len)
        {
            let other = self.persistence.visible().excerpt(place, len);
            if other != bytes {
                let record = ScriptedFault {
                    at_bytes: Some(place),
                    ..strike.record()
                };
                self.inject.fired_as(record);
                self.met.damage += 1;
                return other;
            }
        }
        if self.medium.remembers(offset, len)
            && let Some(strike) = self.inject.strikes(FaultKind::StaleRead, id)
        {
            let bytes = bytes.to_vec();
            let stale = self.medium.stale(offset, &bytes);
            if stale != bytes {
                self.inject.fired_as(strike.record());
                self.met.damage += 1;
                return Excerpt::from(&stale[..]);
            }
        }
        bytes
    }

    pub(super) fn take_write(
        &mut self,
        id: OpId,
        offset: u64,
        data: Arc<[u8]>,
        through: bool,
    ) -> Taken {
        let len = data.len() as u64;
        self.stats.writes += 1;
        self.stats.written_bytes += len;
        self.stats.write_throughs += u64::from(through);
        let kind = if through {
            Kind::WriteThrough
        } else {
            Kind::Write
        };
        let left_out = self.left_out == Some(id) && self.is_volatile();
        let durable = (through || !self.is_volatile()) && !left_out;
        let taken = |effect, result| Taken {
            kind,
            len_bytes: len,
            effect,
            result,
        };
        if self.inject.fires(FaultKind::NoSpace, id) {
            return taken(Effect::Nothing, Err(DiskError::NoSpace));
        }
        if let Some(done) = self.write_fails(id, offset, len) {
            let effect = match done {
                Done::Nothing => Effect::Nothing,
                // Its data is in the cache all the same, and no more durable than any.
                Done::All => {
                    self.put(id, offset, data);
                    Effect::Complete { durable: false }
                }
                Done::Part(sectors) => {
                    self.put_part(id, offset, data, &sectors);
                    Effect::Complete { durable: false }
                }
            };
            return taken(effect, Err(DiskError::Write));
        }
        if self.inject.fires(FaultKind::LostWrite, id) {
            self.medium.damaged_writes.lost(self.now);
            self.medium.make_wrong(offset, len);
            let effect = if durable {
                Effect::WriteInVain
            } else {
                Effect::Nothing
            };
            return taken(effect, Ok(None));
        }
        let mut place = offset;
        if let Some(strike) = self.inject.strikes(FaultKind::MisdirectedWrite, id)
            && let Some(other) = self
                .medium
                .elsewhere(&strike, &self.persistence, offset, len)
        {
            place = other;
            let record = ScriptedFault {
                at_bytes: Some(place),
                ..strike.record()
            };
            self.inject.fired_as(record);
            self.medium.damaged_writes.lost(self.now);
            self.medium.damaged_writes.hit(place, len);
        } else if self.inject.spoils() {
            self.medium.damaged_writes.wrote(self.now, offset, len);
        }
        self.put(id, place, data);
        if place != offset {
            self.medium.make_wrong(offset, len);
            self.medium.make_wrong(place, len);
        }
        self.medium
            .decay(id, &mut self.inject, &mut self.persistence);
        taken(Effect::Complete { durable }, Ok(None))
    }

    fn put(&mut self, id: OpId, offset: u64, data: Arc<[u8]>) {
        let len = data.len() as u64;
        self.remember(offset, len);
        self.persistence
            .submit(id, PendingKind::Write { offset, data });
        self.medium.rewritten(offset, len);
    }

    /// Some sectors of a write reach the cache.
    fn put_part(&mut self, id: OpId, offset: u64, data: Arc<[u8]>, sectors: &[u64]) {
        let sector_bytes = u64::from(self.config.sector_bytes);
        self.remember(offset, data.len() as u64);
        self.persistence
            .submit_part(id, PendingKind::Write { offset, data }, sectors);
        for sector in sectors {
            self.medium
                .rewritten(offset + sector * sector_bytes, sector_bytes);
        }
    }

    fn remember(&mut self, offset: u64, len: u64) {
        if self.inject.asked(FaultKind::StaleRead) {
            self.medium
                .remember(self.persistence.visible(), offset, len);
        }
    }

    pub(super) fn take_barrier(&mut self, id: OpId) -> Taken {
        let mut taken = self.take_flush(id, FlushKind::Barrier);
        if let Effect::Order { as_flush, .. } = &mut taken.effect {
            *as_flush = false;
        }
        taken
    }

    pub(super) fn take_flush(&mut self, id: OpId, worth: FlushKind) -> Taken {
        self.stats.flushes += 1;
        let cutoff = self.persistence.cutoff();
        let mut failed = self.medium.flush_is_broken;
        if let Some(strike) = self.inject.strikes(FaultKind::FlushError, id) {
            failed = true;
            let mut record = strike.record();
            if strike.says(|fault| fault.persistent, 1, self.faults.persistent) {
                self.medium.flush_is_broken = true;
                record.persistent = Some(true);
            }
            self.inject.fired_as(record);
        }
        let taken = |effect, result| Taken {
            kind: Kind::Flush,
            len_bytes: 0,
            effect,
            result,
        };
        if failed {
            return taken(self.drops(id, cutoff), Err(DiskError::Flush));
        }
        let can_lie =
            self.inject.asked(FaultKind::FlushLie) && self.persistence.covered(cutoff) > 0;
        if can_lie && self.inject.fires(FaultKind::FlushLie, id) {
            for write in self.persistence.covered_by(cutoff) {
                self.medium.make_wrong_unless_saved(write);
            }
            return taken(Effect::FlushInVain, Ok(None));
        }
        if self.left_out == Some(id) {
            return taken(Effect::FlushInVain, Ok(None));
        }
        let effect = match worth {
            FlushKind::Durable => Effect::Flush(cutoff),
            FlushKind::Barrier => Effect::Order {
                cutoff,
                as_flush: true,
            },
        };
        taken(effect, Ok(None))
    }

    /// What a failed flush does to what it covers.
    fn drops(&mut self, id: OpId, cutoff: Cutoff) -> Effect {
        if self.persistence.covered(cutoff) == 0 {
            return Effect::FlushInVain;
        }
        let Some(strike) = self.inject.strikes(FaultKind::DirtyDropped, id) else {
            return Effect::FlushInVain;
        };
        let dropped = strike
            .script
            .as_ref()
            .and_then(|fault| fault.dropped.clone());
        self.inject.fired_as(ScriptedFault {
            dropped: dropped.clone(),
            ..strike.record()
        });
        let which = match dropped {
            Some(these) => Dropped::These(these),
            None if happens(strike.number(1), 0.5) => Dropped::SomeBy(strike.number(2)),
            None => Dropped::All,
        };
        Effect::Drop { cutoff, which }
    }

    pub(super) fn take_discard(&mut self, id: OpId, offset: u64, len_bytes: u32) -> Taken {
        self.stats.discards += 1;
        let len_bytes = u64::from(len_bytes);
        self.remember(offset, len_bytes);
        self.persistence
            .submit(id, PendingKind::Discard { offset, len_bytes });
        self.medium.rewritten(offset, len_bytes);
        let effect = Effect::Complete {
            durable: !self.is_volatile(),
        };
        Taken {
            kind: Kind::Discard,
            len_bytes: 0,
            effect,
            result: Ok(None),
        }
    }

    pub(super) fn take_grow(&mut self, id: OpId, new_bytes: u64) -> Taken {
        self.stats.grows += 1;
        let full = new_bytes > self.config.limit_bytes();
        let refused = self.inject.fires(FaultKind::NoSpace, id);
        let (effect, result) = if full || refused {
            (Effect::Nothing, Err(DiskError::NoSpace))
        } else {
            self.persistence.submit(id, PendingKind::Grow { new_bytes });
            (
                Effect::Complete {
                    durable: !self.is_volatile(),
                },
                Ok(None),
            )
        };
        Taken {
            kind: Kind::Grow,
            len_bytes: 0,
            effect,
            result,
        }
    }
}
