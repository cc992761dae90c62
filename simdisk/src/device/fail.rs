//! A write that fails: what of it reaches the cache all the same.
//!
//! Invariant: a write that is atomic on this device is all there or not at all, failed or not.

use super::Device;
use crate::crash::is_atomic;
use crate::inject::Strike;
use crate::rng::happens;
use crate::{FaultKind, OpId};

/// What a failed write has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Done {
    Nothing,
    All,
    /// These of its sectors, ascending: some and not all.
    Part(Vec<u64>),
}

impl Device {
    /// Whether a write fails, and if so how much of it reaches the cache all the same.
    pub(super) fn write_fails(&mut self, id: OpId, offset: u64, len: u64) -> Option<Done> {
        let bad = self.medium.is_unwritable(offset, len);
        let strike = self.inject.strikes(FaultKind::WriteError, id);
        let Some(strike) = strike else {
            return bad.then_some(Done::Nothing);
        };
        let mut record = strike.record();
        let done = if bad {
            Done::Nothing
        } else {
            self.done(&strike, offset, len)
        };
        record.written = (done != Done::Nothing).then_some(true);
        if let Done::Part(sectors) = &done {
            record.sectors.clone_from(sectors);
        }
        if let Some(place) = self.stays(&strike, offset, len) {
            self.medium.make_unwritable(place);
            (record.persistent, record.at_bytes) = (Some(true), Some(place));
        }
        self.inject.fired_as(record);
        Some(done)
    }

    /// What the script says; else nothing in one of two cases, all in one of four, and some sectors in the rest.
    fn done(&self, strike: &Strike, offset: u64, len: u64) -> Done {
        let count = len / u64::from(self.config.sector_bytes);
        let scripted = strike.script.as_ref().map(|fault| &fault.sectors);
        let says_sectors = scripted.is_some_and(|sectors| !sectors.is_empty());
        if !says_sectors && !strike.says(|fault| fault.written, 3, 0.5) {
            return Done::Nothing;
        }
        let is_whole = match scripted {
            Some(sectors) => sectors.is_empty(),
            None => happens(strike.number(4), 0.5),
        };
        if is_whole || count == 1 || is_atomic(offset, len, &self.config) {
            return Done::All;
        }
        let mut sectors = match scripted {
            Some(sectors) => sectors.clone(),
            None => drawn(strike, count),
        };
        sectors.retain(|sector| *sector < count);
        sectors.sort_unstable();
        sectors.dedup();
        match sectors.len() as u64 {
            0 => Done::Nothing,
            all if all == count => Done::All,
            _ => Done::Part(sectors),
        }
    }
}

/// The first so many sectors, the last so many, one, all but one, or each on the toss of a coin.
fn drawn(strike: &Strike, count: u64) -> Vec<u64> {
    let (way, at) = (strike.below(5, 5), strike.below(6, count));
    let split = 1 + strike.below(7, count - 1);
    let keeps = |sector: &u64| match way {
        0 => *sector < split,
        1 => *sector >= split,
        2 => *sector == at,
        3 => *sector != at,
        _ => happens(strike.number(8 + sector), 0.5),
    };
    (0..count).filter(keeps).collect()
}
