//! What is pending, what is durable, and what reads see. No timing, no faults: a recorded stream of writes and flushes can be
//! replayed into it as well as a live one.
//!
//! Invariants:
//! - reads see every write that was submitted, latest last, until a power cut;
//! - a flush makes durable exactly what had completed before the flush was submitted;
//! - a durable sector is never taken back: a write made durable out of order masks what older completed writes of the same
//!   sectors could still do to it.

use std::sync::Arc;

use crate::Image;
use crate::crash::{CrashState, Sectors};

/// What a pending operation will do.
#[derive(Debug, Clone)]
pub enum PendingKind {
    /// Bytes at an offset.
    Write {
        /// First byte.
        offset: u64,
        /// What to write; whole sectors.
        data: Arc<[u8]>,
    },
    /// Zeros at an offset.
    Discard {
        /// First byte.
        offset: u64,
        /// How many bytes; whole sectors.
        len_bytes: u64,
    },
    /// A new size.
    Grow {
        /// The new size in bytes.
        new_bytes: u64,
    },
}

/// Something that a power cut may lose.
#[derive(Debug, Clone)]
pub struct PendingWrite {
    /// The number of the operation that submitted it.
    pub id: u64,
    /// What it does.
    pub kind: PendingKind,
    /// Whether its completion was handed out.
    pub completed: bool,
    /// Whether the device has dropped it after a failed flush: reads still see it, no flush will save it.
    pub dropped: bool,
    submitted_at: u64,
    completed_at: u64,
    /// Sectors that a later write has already made durable; empty for none.
    masked: Vec<bool>,
}

impl PendingWrite {
    /// The bytes it touches: offset and length. Nothing for a growth.
    #[must_use]
    pub fn range(&self) -> (u64, u64) {
        match &self.kind {
            PendingKind::Write { offset, data } => (*offset, data.len() as u64),
            PendingKind::Discard { offset, len_bytes } => (*offset, *len_bytes),
            PendingKind::Grow { .. } => (0, 0),
        }
    }

    /// Whether two touch a common byte.
    #[must_use]
    pub fn overlaps(&self, other: &PendingWrite) -> bool {
        let ((a, a_len), (b, b_len)) = (self.range(), other.range());
        a < b + b_len && b < a + a_len
    }
}

/// A point in the order of events; a flush covers what completed before the mark of its submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(u64);

/// The state of a device's content. See the module.
#[derive(Debug, Clone)]
pub struct Persistence {
    sector_bytes: u64,
    durable: Image,
    visible: Image,
    pending: Vec<PendingWrite>,
    events: u64,
}

impl Persistence {
    /// A device of zeros.
    #[must_use]
    pub fn new(sector_bytes: u32, capacity_bytes: u64) -> Self {
        let image = Image::new(capacity_bytes);
        Persistence {
            sector_bytes: u64::from(sector_bytes),
            durable: image.clone(),
            visible: image,
            pending: Vec::new(),
            events: 0,
        }
    }

    /// What a power cut would leave if nothing pending survived.
    #[must_use]
    pub fn durable(&self) -> &Image {
        &self.durable
    }

    /// What reads see.
    #[must_use]
    pub fn visible(&self) -> &Image {
        &self.visible
    }

    /// What a power cut may lose, in the order of submission.
    #[must_use]
    pub fn pending(&self) -> &[PendingWrite] {
        &self.pending
    }

    fn event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    /// Takes an operation in; reads see it from now on.
    pub fn submit(&mut self, id: u64, kind: PendingKind) {
        let submitted_at = self.event();
        apply(
            &mut self.visible,
            &kind,
            &Sectors::All,
            &[],
            self.sector_bytes,
        );
        let (completed, dropped, masked) = (false, false, Vec::new());
        self.pending.push(PendingWrite {
            id,
            kind,
            completed,
            dropped,
            submitted_at,
            completed_at: 0,
            masked,
        });
    }

    /// Hands out a completion. `durable` says that the operation was written through, or that there is no volatile cache.
    pub fn complete(&mut self, id: u64, durable: bool) {
        let completed_at = self.event();
        let Some(at) = self.pending.iter().position(|write| write.id == id) else {
            return;
        };
        self.pending[at].completed = true;
        self.pending[at].completed_at = completed_at;
        if durable {
            let write = self.pending.remove(at);
            for older in &mut self.pending {
                if older.completed
                    && older.completed_at < write.submitted_at
                    && older.overlaps(&write)
                {
                    mask(older, &write, self.sector_bytes);
                }
            }
            self.settle(&write);
        }
    }

    /// Undoes a submission that failed without effect.
    pub fn cancel(&mut self, id: u64) {
        self.pending.retain(|write| write.id != id);
        self.visible = self.durable.clone();
        for write in &self.pending {
            apply(
                &mut self.visible,
                &write.kind,
                &Sectors::All,
                &write.masked,
                self.sector_bytes,
            );
        }
    }

    /// Where a flush that is submitted now stands.
    pub fn mark(&mut self) -> Mark {
        Mark(self.event())
    }

    /// A flush has completed: what had completed before its mark is durable.
    pub fn flush(&mut self, mark: Mark) {
        let (covered, rest) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|write| write.completed && !write.dropped && write.completed_at < mark.0);
        self.pending = rest;
        for write in Vec::from_iter::<Vec<PendingWrite>>(covered) {
            self.settle(&write);
        }
    }

    /// A flush has failed and the device forgets what it covered. Says whether there was anything.
    pub fn drop_dirty(&mut self, mark: Mark) -> bool {
        let covered = self
            .pending
            .iter_mut()
            .filter(|write| write.completed && write.completed_at < mark.0);
        covered.map(|write| write.dropped = true).count() > 0
    }

    /// Flips a bit of the medium, if no pending write lies over it. Says whether it did.
    pub fn rot(&mut self, byte: u64, bit: u8) -> bool {
        let over = |write: &PendingWrite| {
            let (offset, len_bytes) = write.range();
            (offset..offset + len_bytes).contains(&byte)
        };
        if byte >= self.durable.len_bytes() || self.pending.iter().any(over) {
            return false;
        }
        for image in [&mut self.durable, &mut self.visible] {
            let mut value = [0];
            image.read(byte, &mut value);
            image.write(byte, &[value[0] ^ (1 << (bit % 8))]);
        }
        true
    }

    /// A power cut: the survivors reach the medium in their order; all else that was pending is gone.
    pub fn cut(&mut self, state: &CrashState) {
        for survivor in &state.survivors {
            let Some(write) = self.pending.iter().find(|write| write.id == survivor.id) else {
                continue;
            };
            apply(
                &mut self.durable,
                &write.kind,
                &survivor.sectors,
                &write.masked,
                self.sector_bytes,
            );
        }
        self.pending.clear();
        self.visible = self.durable.clone();
    }

    fn settle(&mut self, write: &PendingWrite) {
        let (offset, len_bytes) = write.range();
        if offset + len_bytes > self.durable.len_bytes() {
            // Synchronised data includes the size that is needed to reach it, as with O_DSYNC.
            self.durable.resize(offset + len_bytes);
        }
        apply(
            &mut self.durable,
            &write.kind,
            &Sectors::All,
            &write.masked,
            self.sector_bytes,
        );
    }
}

fn mask(older: &mut PendingWrite, newer: &PendingWrite, sector_bytes: u64) {
    let ((offset, len_bytes), (from, by)) = (older.range(), newer.range());
    let sectors = usize::try_from(len_bytes / sector_bytes).expect("a write fits memory");
    older.masked.resize(sectors, false);
    for (sector, masked) in older.masked.iter_mut().enumerate() {
        let at = offset + sector as u64 * sector_bytes;
        *masked |= from <= at && at < from + by;
    }
}

/// Applies what survived of one operation. What lies beyond the end of the image (its growth was lost) is lost too.
fn apply(
    image: &mut Image,
    kind: &PendingKind,
    sectors: &Sectors,
    masked: &[bool],
    sector_bytes: u64,
) {
    let (offset, len_bytes, data) = match kind {
        PendingKind::Grow { new_bytes } => {
            image.resize((*new_bytes).max(image.len_bytes()));
            return;
        }
        PendingKind::Write { offset, data } => (*offset, data.len() as u64, Some(data)),
        PendingKind::Discard { offset, len_bytes } => (*offset, *len_bytes, None),
    };
    if offset + len_bytes > image.len_bytes() || (masked.is_empty() && *sectors == Sectors::All) {
        let fits = image.len_bytes().saturating_sub(offset).min(len_bytes);
        if *sectors == Sectors::All && masked.is_empty() {
            put(image, offset, data, 0, fits);
            return;
        }
    }
    for index in 0..len_bytes / sector_bytes {
        let at = offset + index * sector_bytes;
        let is_masked = masked
            .get(usize::try_from(index).expect("a sector's index"))
            .copied()
            .unwrap_or(false);
        if is_masked || at + sector_bytes > image.len_bytes() {
            continue;
        }
        match sectors.fate(index) {
            Fate::Old => {}
            Fate::New => put(image, at, data, index * sector_bytes, sector_bytes),
            Fate::Garbage(seed) => image.write(at, &noise(seed, sector_bytes)),
            Fate::TornAt(bytes) => put(
                image,
                at,
                data,
                index * sector_bytes,
                bytes.min(sector_bytes),
            ),
        }
    }
}

/// What a sector holds after a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Old,
    New,
    /// Bytes that nobody wrote, made from this number.
    Garbage(u64),
    /// New up to this byte, old after it.
    TornAt(u64),
}

fn put(image: &mut Image, at: u64, data: Option<&Arc<[u8]>>, from: u64, len_bytes: u64) {
    let bound = |bytes: u64| usize::try_from(bytes).expect("a write fits memory");
    match data {
        Some(data) => image.write(at, &data[bound(from)..bound(from + len_bytes)]),
        None => image.zero(at, len_bytes),
    }
}

fn noise(seed: u64, len_bytes: u64) -> Vec<u8> {
    let words = (0..len_bytes / 8)
        .map(|index| crate::rng::draw(seed, crate::rng::Purpose::Crash, 0, index, 0));
    words.flat_map(u64::to_le_bytes).collect()
}
