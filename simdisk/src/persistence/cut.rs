//! A power cut: what the medium holds after one that leaves a given state.

use std::collections::BTreeSet;

use kvsim_crash::{CrashState, Fate};

use super::Persistence;
use super::apply::{Applied, grow};
use super::pending::{PendingKind, PendingWrite, is_latest};
use crate::Image;

impl Persistence {
    /// What the medium holds after a power cut that leaves `state`: persisted writes in their order over what is durable, growths
    /// first. What lies beyond the end (the growth that it needs was lost) is lost too.
    #[must_use]
    pub fn image_after(&self, state: &CrashState) -> Image {
        let mut image = self.durable.clone();
        self.apply_state(&mut image, state);
        image
    }

    /// A power cut: the persisted writes reach the medium; all else that was pending is gone.
    pub fn cut(&mut self, state: &CrashState) {
        let mut durable = std::mem::take(&mut self.durable);
        self.apply_state(&mut durable, state);
        self.durable = durable;
        self.beyond = None;
        self.pending.clear();
        self.aside = None;
        self.visible = self.durable.clone();
    }

    /// Whether one of the persisted writes brings new content to the whole of this sector.
    pub(crate) fn is_rewritten_by(&self, state: &CrashState, sector_start: u64) -> bool {
        state.persisted.iter().any(|persisted_write| {
            let Some(at) = self.position(persisted_write.id) else {
                return false;
            };
            let write = &self.pending[at];
            let (offset, len_bytes) = write.range();
            if !(offset..offset + len_bytes).contains(&sector_start) {
                return false;
            }
            let index = (sector_start - offset) / self.sector_bytes;
            !write.is_masked(index)
                && matches!(
                    persisted_write.sectors.fate(index),
                    Fate::New | Fate::Garbage(_)
                )
        })
    }

    fn apply_state(&self, image: &mut Image, state: &CrashState) {
        let persisted = || {
            let found = state
                .persisted
                .iter()
                .map(|persisted_write| (persisted_write, self.position(persisted_write.id)));
            found.filter_map(|(persisted_write, at)| Some((persisted_write, &self.pending[at?])))
        };
        let is_growth = |write: &PendingWrite| matches!(write.kind, PendingKind::Grow { .. });
        for growths in [true, false] {
            for (persisted_write, write) in
                persisted().filter(|(_, write)| is_growth(write) == growths)
            {
                if let PendingKind::Grow { new_bytes } = write.kind {
                    grow(image, new_bytes, self.beyond.as_ref());
                    continue;
                }
                let latest = is_latest(write, &self.pending).then_some(&self.visible);
                let survived = Applied {
                    kind: &write.kind,
                    sectors: &persisted_write.sectors,
                    masked: &write.masked,
                    latest,
                };
                survived.apply(image, self.sector_bytes);
            }
        }
        if let Some(aside) = &self.aside {
            image.take_over(&aside.durable, aside.offset, aside.len_bytes);
        }
    }

    /// The sectors that cannot be read after a power cut that leaves `state`, because they were being written.
    pub(crate) fn unreadable_after(&self, state: &CrashState) -> BTreeSet<u64> {
        let mut unreadable = BTreeSet::new();
        let end = self.image_after(state).len_bytes() / self.sector_bytes;
        for persisted_write in &state.persisted {
            let Some(at) = self.position(persisted_write.id) else {
                continue;
            };
            let write = &self.pending[at];
            let (offset, len_bytes) = write.range();
            for index in 0..len_bytes / self.sector_bytes {
                let sector = offset / self.sector_bytes + index;
                if write.is_masked(index) {
                    continue;
                }
                match persisted_write.sectors.fate(index) {
                    Fate::Unreadable if sector < end => drop(unreadable.insert(sector)),
                    Fate::New | Fate::Garbage(_) => drop(unreadable.remove(&sector)),
                    Fate::Unreadable | Fate::Old | Fate::TornAt(_) => {}
                }
            }
        }
        unreadable
    }
}
