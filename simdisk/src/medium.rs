//! What is wrong with the medium: sectors that cannot be read or written, bits that rot, what was there before.
//!
//! Invariants: rot and latent errors strike only what is at rest, so that what they did can be told from what a cache does;
//! a rewrite that becomes durable makes a sector readable again; the old content of sectors is kept only where stale reads are asked for.

use std::collections::BTreeSet;
use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::damage::Damage;
use crate::damaged_writes::DamagedWrites;
use crate::inject::{Injector, Strike};
use crate::persistence::{PendingKind, PendingWrite, Persistence};
use crate::{FaultKind, Image, OpId};
use kvsim_crash::CrashState;

/// The wear of a device.
#[derive(Debug, Clone)]
pub(crate) struct Medium {
    sector_bytes: u64,
    /// Sectors that cannot be read.
    unreadable: Damage,
    /// Those of them that a power cut has torn, and that hold nothing that was durable.
    torn: BTreeSet<u64>,
    /// Sectors that do not hold what the device said that they hold.
    wrong: Damage,
    unwritable: BTreeSet<u64>,
    /// What sectors held before their last overwrite. Like all contents shared with forks until written.
    before: Image,
    /// A byte per sector: 1 where `before` says something.
    overwritten: Image,
    /// No flush succeeds until the power is cycled.
    pub(crate) flush_is_broken: bool,
    /// What lies have done to the last writes.
    pub(crate) damaged_writes: DamagedWrites,
}

impl Medium {
    pub(crate) fn new(sector_bytes: u32) -> Self {
        Medium {
            sector_bytes: u64::from(sector_bytes),
            unreadable: Damage::default(),
            torn: BTreeSet::new(),
            wrong: Damage::default(),
            unwritable: BTreeSet::new(),
            before: Image::default(),
            overwritten: Image::default(),
            flush_is_broken: false,
            damaged_writes: DamagedWrites::default(),
        }
    }

    pub(crate) fn sectors(&self, offset: u64, len_bytes: u64) -> Range<u64> {
        offset / self.sector_bytes..(offset + len_bytes).div_ceil(self.sector_bytes)
    }

    /// Where the sector of this byte begins.
    pub(crate) fn sector_start(&self, byte: u64) -> u64 {
        byte - byte % self.sector_bytes
    }

    /// Whether a read of this fails: what a write in the cache lies over is read from there.
    pub(crate) fn is_unreadable(&self, content: &Persistence, offset: u64, len_bytes: u64) -> bool {
        let sectors = self.sectors(offset, len_bytes);
        self.unreadable.is_met(content, sectors, self.sector_bytes)
    }

    /// The sectors on which a read of this fails, torn ones left out; `None` if it does not fail.
    pub(crate) fn bad_sectors(
        &self,
        content: &Persistence,
        offset: u64,
        len_bytes: u64,
    ) -> Option<Vec<u64>> {
        if !self.is_unreadable(content, offset, len_bytes) {
            return None;
        }
        let sectors = self.sectors(offset, len_bytes);
        let met = self.unreadable.met(content, sectors, self.sector_bytes);
        Some(met.filter(|sector| !self.torn.contains(sector)).collect())
    }

    /// Whether a read of this meets damage: a sector that does not hold what it should, or one that cannot be read and is not merely torn.
    pub(crate) fn is_met(&self, content: &Persistence, offset: u64, len_bytes: u64) -> bool {
        if self.wrong.is_empty() && self.unreadable.is_empty() {
            return false;
        }
        let sectors = self.sectors(offset, len_bytes);
        let bad = self.bad_sectors(content, offset, len_bytes);
        self.wrong.is_met(content, sectors, self.sector_bytes)
            || bad.is_some_and(|bad| !bad.is_empty())
    }

    /// Whether a sector beyond this end does not hold what it should: it is not there.
    pub(crate) fn is_wrong_beyond(&self, end_bytes: u64) -> bool {
        self.wrong
            .iter()
            .next_back()
            .is_some_and(|last| last * self.sector_bytes >= end_bytes)
    }

    pub(crate) fn is_unwritable(&self, offset: u64, len_bytes: u64) -> bool {
        self.unwritable
            .range(self.sectors(offset, len_bytes))
            .next()
            .is_some()
    }

    pub(crate) fn make_unreadable(&mut self, byte: u64) {
        let sector = byte / self.sector_bytes;
        self.torn.remove(&sector);
        self.unreadable.add(sector..sector + 1);
    }

    /// These bytes are not what the device said that they are.
    pub(crate) fn make_wrong(&mut self, offset: u64, len_bytes: u64) {
        let sectors = self.sectors(offset, len_bytes);
        self.forget_torn_in(&sectors);
        self.wrong.add(sectors);
    }

    /// The device says that these sectors hold something new. One that was torn cannot be read for that reason alone no more.
    fn forget_torn_in(&mut self, sectors: &Range<u64>) {
        self.torn.retain(|sector| !sectors.contains(sector));
    }

    /// A flush was acknowledged and has made nothing of this durable: a power cut may leave something else there.
    pub(crate) fn make_wrong_unless_saved(&mut self, write: &PendingWrite) {
        let (offset, len_bytes) = match write.kind {
            // What lies beyond the old end is gone with a growth; its last sector stands for it.
            PendingKind::Grow { new_bytes } => (new_bytes.saturating_sub(1), 1),
            PendingKind::Write { .. } | PendingKind::Discard { .. } => write.range(),
        };
        let sectors = self.sectors(offset, len_bytes);
        self.forget_torn_in(&sectors);
        self.wrong.add_unless_rewritten(sectors);
    }

    /// Sectors that cannot be read, or do not hold what the device said that they hold; torn ones left out.
    pub(crate) fn damaged_sectors(&self) -> u64 {
        self.unreadable.len() - self.torn.len() as u64 + self.wrong.len()
    }

    pub(crate) fn make_unwritable(&mut self, byte: u64) {
        self.unwritable.insert(byte / self.sector_bytes);
    }

    /// New data is on its way to these sectors, which repairs those that are damaged.
    pub(crate) fn rewritten(&mut self, offset: u64, len_bytes: u64) {
        let sectors = self.sectors(offset, len_bytes);
        self.unreadable.rewrite(sectors.clone());
        self.wrong.rewrite(sectors);
    }

    /// Something may have become durable: what was rewritten and has nothing pending over it any more is sound again.
    pub(crate) fn heal(&mut self, content: &Persistence) {
        self.unreadable.heal(content, self.sector_bytes);
        self.wrong.heal(content, self.sector_bytes);
        self.forget_torn();
    }

    /// Torn sectors that can be read again are torn no more.
    fn forget_torn(&mut self) {
        if !self.torn.is_empty() {
            let unreadable = &self.unreadable;
            self.torn.retain(|sector| unreadable.contains(*sector));
        }
    }

    /// The power is cut, and of what was pending `state` survives: that repairs what it lies over, and makes unreadable what it says.
    pub(crate) fn power_cycle(&mut self, content: &Persistence, state: &CrashState) {
        self.flush_is_broken = false;
        let sector_bytes = self.sector_bytes;
        let mut lost = Vec::new();
        if state.has_unreadable() {
            let sectors = content.unreadable_after(state).into_iter();
            // If a lie put the write there, what lay there was durable.
            lost.extend(sectors.map(|sector| (sector, self.wrong.contains(sector))));
        }
        self.unreadable.power_cycle(content, state, sector_bytes);
        self.wrong.power_cycle(content, state, sector_bytes);
        self.forget_torn();
        for (sector, is_spoilt) in lost {
            if !is_spoilt && !self.unreadable.contains(sector) {
                self.torn.insert(sector);
            }
            self.unreadable.add(sector..sector + 1);
        }
    }

    /// Keeps what these sectors hold before they are overwritten.
    pub(crate) fn remember(&mut self, image: &Image, offset: u64, len_bytes: u64) {
        if self.before.len_bytes() < image.len_bytes() {
            self.before.resize(image.len_bytes());
            let sectors = image.len_bytes().div_ceil(self.sector_bytes);
            self.overwritten.resize(sectors);
        }
        let mut old = vec![0; to_usize(len_bytes)];
        image.read(offset, &mut old);
        self.before.write(offset, &old);
        let sectors = self.sectors(offset, len_bytes);
        let flags = vec![1; to_usize(sectors.end - sectors.start)];
        self.overwritten.write(sectors.start, &flags);
    }

    /// Which of these sectors were overwritten.
    fn overwritten(&self, offset: u64, len_bytes: u64) -> Vec<bool> {
        let sectors = self.sectors(offset, len_bytes);
        let known = sectors.start..sectors.end.min(self.overwritten.len_bytes());
        let mut flags = vec![0; to_usize(known.end.saturating_sub(known.start))];
        if !flags.is_empty() {
            self.overwritten.read(known.start, &mut flags);
        }
        flags.resize(to_usize(sectors.end - sectors.start), 0);
        flags.into_iter().map(|flag| flag == 1).collect()
    }

    /// Whether any of these sectors was overwritten.
    pub(crate) fn remembers(&self, offset: u64, len_bytes: u64) -> bool {
        !self.overwritten.is_blank() && self.overwritten(offset, len_bytes).contains(&true)
    }

    /// `bytes` at `offset` as they were before the last overwrite of each sector.
    pub(crate) fn stale(&self, offset: u64, bytes: &[u8]) -> Vec<u8> {
        let mut stale = bytes.to_vec();
        let sectors = stale.chunks_mut(to_usize(self.sector_bytes));
        let overwritten = self.overwritten(offset, bytes.len() as u64);
        for (index, (sector, overwritten)) in sectors.zip(overwritten).enumerate() {
            if overwritten {
                self.before
                    .read(offset + index as u64 * self.sector_bytes, sector);
            }
        }
        stale
    }

    /// Another place that an operation of this length could hit: one that the script names, else one that was written to,
    /// where it damages something.
    pub(crate) fn elsewhere(
        &self,
        strike: &Strike,
        persistence: &Persistence,
        offset: u64,
        len_bytes: u64,
    ) -> Option<u64> {
        let image = persistence.visible();
        let place = match strike.script.as_ref().and_then(|fault| fault.at_bytes) {
            Some(place) => place,
            None => self.sector_start(pick_written(image, strike)?),
        };
        let fits = place
            .checked_add(len_bytes)
            .is_some_and(|end| end <= image.len_bytes());
        (place != offset && fits).then_some(place)
    }

    /// Rot and wear, which strike somewhere while the device is written.
    pub(crate) fn decay(&mut self, op: OpId, inject: &mut Injector, content: &mut Persistence) {
        for kind in [FaultKind::BitRot, FaultKind::LatentSectorError] {
            if !inject.asked(kind) || content.durable().is_blank() {
                continue;
            }
            let Some(strike) = inject.strikes(kind, op) else {
                continue;
            };
            let drawn = || pick_written(content.durable(), &strike);
            let Some(byte) = strike
                .script
                .as_ref()
                .and_then(|fault| fault.at_bytes)
                .or_else(drawn)
            else {
                continue;
            };
            let sector = self.sector_start(byte);
            let at_rest = content.is_at_rest(sector, self.sector_bytes);
            if !at_rest || self.is_unreadable(content, sector, self.sector_bytes) {
                continue;
            }
            let mut record = strike.record();
            if kind == FaultKind::BitRot {
                let drawn = u8::try_from(strike.below(2, 8)).expect("below 8");
                let bit = strike
                    .script
                    .as_ref()
                    .and_then(|fault| fault.bit)
                    .unwrap_or(drawn);
                content.rot(byte, bit);
                self.make_wrong(sector, self.sector_bytes);
                (record.at_bytes, record.bit) = (Some(byte), Some(bit));
            } else {
                self.make_unreadable(sector);
                record.at_bytes = Some(sector);
            }
            self.damaged_writes.hit(sector, self.sector_bytes);
            inject.fired_as(record);
        }
    }

    /// A hash of what reads and writes fail on; nothing where nothing does.
    pub(crate) fn hash(&self) -> Option<u64> {
        if self.unreadable.is_empty() && self.unwritable.is_empty() && !self.flush_is_broken {
            return None;
        }
        let unwritable: Vec<u64> = self.unwritable.iter().copied().collect();
        let torn: Vec<u64> = self.torn.iter().copied().collect();
        let sets = [self.unreadable.iter().collect(), unwritable, torn].map(|sectors| {
            let bytes: Vec<u8> = sectors.iter().flat_map(|it| it.to_le_bytes()).collect();
            xxh3_64_with_seed(&bytes, sectors.len() as u64)
        });
        let bytes: Vec<u8> = sets.iter().flat_map(|hash| hash.to_le_bytes()).collect();
        Some(xxh3_64_with_seed(&bytes, u64::from(self.flush_is_broken)))
    }
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).expect("the length of an operation fits the host")
}

/// A byte of the blocks that were ever written to, all equally likely.
fn pick_written(image: &Image, strike: &Strike) -> Option<u64> {
    let written = image.written_bytes();
    (written > 0)
        .then(|| image.nth_written(strike.below(1, written)))
        .flatten()
}
