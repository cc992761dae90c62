//! What an operation does to an image: all of it, or what survived.

use std::sync::OnceLock;

use kvsim_crash::{Fate, Sectors};

use super::pending::{PendingKind, range};
use crate::rng::{Purpose, draw};
use crate::{Excerpt, Image};

/// Makes an image longer; what was written through to the new part is there at once.
pub(super) fn grow(image: &mut Image, new_bytes: u64, beyond: Option<&Image>) {
    let old_bytes = image.len_bytes();
    image.resize(new_bytes.max(old_bytes));
    if let Some(beyond) = beyond {
        let end = beyond.len_bytes().min(new_bytes);
        if end > old_bytes {
            image.take_over(beyond, old_bytes, end - old_bytes);
        }
    }
}

/// What survived of one operation.
pub(super) struct Applied<'a> {
    pub(super) kind: &'a PendingKind,
    pub(super) sectors: &'a Sectors,
    /// Sectors that it does not touch; empty for none.
    pub(super) masked: &'a [bool],
    /// An image that holds all of the operation's data where that belongs: what is whole is shared with it.
    pub(super) latest: Option<&'a Image>,
}

impl<'a> Applied<'a> {
    /// All of an operation but the masked sectors.
    pub(super) fn whole(kind: &'a PendingKind, masked: &'a [bool]) -> Self {
        Applied {
            kind,
            sectors: &Sectors::All,
            masked,
            latest: None,
        }
    }

    /// Applies it. What lies beyond the end of the image (its growth was lost) is lost too.
    pub(super) fn apply(&self, image: &mut Image, sector_bytes: u64) {
        let (offset, len_bytes) = range(self.kind);
        let fits = image.len_bytes().saturating_sub(offset).min(len_bytes);
        if fits == 0 {
            return;
        }
        if self.masked.is_empty() && *self.sectors == Sectors::All {
            self.put(image, offset, 0, fits);
            return;
        }
        for index in 0..fits / sector_bytes {
            let at = offset + index * sector_bytes;
            let is_masked = self
                .masked
                .get(usize::try_from(index).expect("a sector's index"))
                .copied()
                .unwrap_or(false);
            if is_masked {
                continue;
            }
            let within = index * sector_bytes;
            match self.sectors.fate(index) {
                Fate::Old | Fate::Unreadable => {}
                Fate::New => self.put(image, at, within, sector_bytes),
                Fate::Garbage(seed) => put_noise(image, at, seed, sector_bytes),
                Fate::TornAt(bytes) => self.put(image, at, within, bytes.min(sector_bytes)),
            }
        }
    }

    /// Puts a part of it, `from` bytes after its beginning, where it belongs.
    fn put(&self, image: &mut Image, at: u64, from: u64, len_bytes: u64) {
        let bound = |bytes: u64| usize::try_from(bytes).expect("a write fits memory");
        match (self.latest, self.kind) {
            (Some(latest), _) => image.take_over(latest, at, len_bytes),
            (None, PendingKind::Write { data, .. }) => {
                image.write(at, &data[bound(from)..bound(from + len_bytes)]);
            }
            (None, _) => image.zero(at, len_bytes),
        }
    }
}

/// Puts what nobody wrote into a sector.
fn put_noise(image: &mut Image, at: u64, seed: u64, sector_bytes: u64) {
    const COMMON: usize = 3;
    /// An exploration takes these in thousands of states, so they are made once, and states share them.
    static NOISE: [OnceLock<Excerpt>; COMMON] = [const { OnceLock::new() }; COMMON];
    let common = usize::try_from(seed).ok().and_then(|at| NOISE.get(at));
    match common {
        Some(common) if sector_bytes == NOISE_BYTES => {
            let made = || Excerpt::from(&noise(seed, NOISE_BYTES)[..]);
            image.put(at, common.get_or_init(made));
        }
        _ => image.write(at, &noise(seed, sector_bytes)),
    }
}

/// The length of a sector whose noise is kept.
const NOISE_BYTES: u64 = 4096;

/// What nobody wrote: all zeros, all ones, or noise.
fn noise(seed: u64, len_bytes: u64) -> Vec<u8> {
    let word = |index| match seed {
        0 => 0,
        1 => u64::MAX,
        _ => draw(seed, Purpose::Crash, 0, index, 0),
    };
    (0..len_bytes / 8)
        .map(word)
        .flat_map(u64::to_le_bytes)
        .collect()
}
