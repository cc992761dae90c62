//! A set of damaged sectors, each until new content of it is durable.
//!
//! Invariant: a write over a damaged sector does not repair it before the write is durable; a power cut that takes the write away leaves the sector
//! as damaged as it was.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::persistence::Persistence;
use kvsim_crash::CrashState;

/// Damaged sectors of one medium, by number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Damage {
    sectors: BTreeSet<u64>,
    /// Those of them over which a write is on its way.
    rewritten: BTreeSet<u64>,
}

impl Damage {
    /// These sectors are damaged from now on.
    pub(crate) fn add(&mut self, sectors: Range<u64>) {
        for sector in sectors {
            self.sectors.insert(sector);
            self.rewritten.remove(&sector);
        }
    }

    /// These sectors are damaged if what is on its way to them does not become durable.
    pub(crate) fn add_unless_rewritten(&mut self, sectors: Range<u64>) {
        self.sectors.extend(sectors.clone());
        self.rewritten.extend(sectors);
    }

    /// New content is on its way to these sectors.
    pub(crate) fn rewrite(&mut self, sectors: Range<u64>) {
        self.rewritten.extend(self.sectors.range(sectors));
    }

    /// Something may have become durable: a sector that was rewritten and has nothing pending over it is sound.
    pub(crate) fn heal(&mut self, content: &Persistence, sector_bytes: u64) {
        let healed = self.rewritten.extract_if(.., |sector| {
            content.is_at_rest(*sector * sector_bytes, sector_bytes)
        });
        for sector in healed {
            self.sectors.remove(&sector);
        }
    }

    /// The power is cut, and of what was pending `state` survives: that repairs what it lies over.
    pub(crate) fn power_cycle(
        &mut self,
        content: &Persistence,
        state: &CrashState,
        sector_bytes: u64,
    ) {
        for sector in std::mem::take(&mut self.rewritten) {
            if content.is_rewritten_by(state, sector * sector_bytes) {
                self.sectors.remove(&sector);
            }
        }
    }

    /// Whether one of these sectors is damaged on the medium and nothing in the cache lies over it.
    pub(crate) fn is_met(
        &self,
        content: &Persistence,
        sectors: Range<u64>,
        sector_bytes: u64,
    ) -> bool {
        self.met(content, sectors, sector_bytes).next().is_some()
    }

    /// Those of these sectors that are damaged on the medium with nothing in the cache over them.
    pub(crate) fn met<'a>(
        &'a self,
        content: &'a Persistence,
        sectors: Range<u64>,
        sector_bytes: u64,
    ) -> impl Iterator<Item = u64> + 'a {
        let bad = move |sector: &u64| {
            !self.rewritten.contains(sector)
                || content.is_at_rest(sector * sector_bytes, sector_bytes)
        };
        self.sectors.range(sectors).copied().filter(bad)
    }

    pub(crate) fn contains(&self, sector: u64) -> bool {
        self.sectors.contains(&sector)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sectors.is_empty()
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = u64> + '_ {
        self.sectors.iter().copied()
    }

    pub(crate) fn len(&self) -> u64 {
        self.sectors.len() as u64
    }
}
