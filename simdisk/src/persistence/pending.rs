//! One pending operation, what it touches, and what newer durable ones mask of it.

use std::sync::Arc;

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
    pub(crate) completed_at: u64,
    /// It reaches the medium after all that completed before this; 0 where no barrier orders it.
    pub(crate) ordered_after: u64,
    /// Sectors that it does not touch: a later write has already made them durable, or it failed before it came to them. Empty for none.
    pub(super) masked: Vec<bool>,
}

/// The bytes that an operation touches: offset and length. Nothing for a growth.
pub(super) fn range(kind: &PendingKind) -> (u64, u64) {
    match kind {
        PendingKind::Write { offset, data } => (*offset, data.len() as u64),
        PendingKind::Discard { offset, len_bytes } => (*offset, *len_bytes),
        PendingKind::Grow { .. } => (0, 0),
    }
}

impl PendingWrite {
    /// The bytes it touches: offset and length. Nothing for a growth.
    #[must_use]
    pub fn range(&self) -> (u64, u64) {
        range(&self.kind)
    }

    /// Whether a barrier lets it reach the medium only after that one. What was dropped waits for nobody and nobody for it.
    #[must_use]
    pub fn is_ordered_after(&self, other: &PendingWrite) -> bool {
        other.completed && !other.dropped && other.completed_at < self.ordered_after
    }

    pub(super) fn is_covered(&self, cutoff: Cutoff) -> bool {
        self.completed && !self.dropped && self.completed_at < cutoff.0
    }

    /// Whether it does not touch the sector of this number.
    pub(super) fn is_masked(&self, index: u64) -> bool {
        let at = usize::try_from(index).expect("a sector's index");
        self.masked.get(at).copied().unwrap_or(false)
    }

    /// Whether newer durable writes lie over all of it.
    pub(super) fn is_gone(&self) -> bool {
        !self.masked.is_empty() && self.masked.iter().all(|&masked| masked)
    }

    /// Whether two touch a common byte.
    #[must_use]
    pub fn overlaps(&self, other: &PendingWrite) -> bool {
        let ((a, a_len), (b, b_len)) = (self.range(), other.range());
        a < b + b_len && b < a + a_len
    }
}

/// A point in the order of events; a flush covers what completed before the cutoff of its submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cutoff(pub(super) u64);

/// In lists of pending operations up to this long it is found out which of them are the latest at their places.
pub(super) const SHARED_MAX: usize = 64;

/// Whether reads see all of this operation's data: nothing that was submitted later lies over it.
pub(super) fn is_latest(write: &PendingWrite, pending: &[PendingWrite]) -> bool {
    let newer_first = pending.iter().rev();
    let mut newer = newer_first.take_while(|other| other.id > write.id);
    write.masked.is_empty() && !newer.any(|other| other.overlaps(write))
}

/// Where an operation stands among the pending ones, which are in the order of their numbers.
pub(crate) fn position(pending: &[PendingWrite], id: u64) -> Option<usize> {
    pending.binary_search_by_key(&id, |write| write.id).ok()
}

/// Takes from the first `count` pending writes what a newer one, now durable, lies over; those with nothing left are gone.
pub(super) fn mask_older(
    pending: &mut Vec<PendingWrite>,
    count: usize,
    newer: &PendingWrite,
    sector_bytes: u64,
) {
    let mut any_gone = false;
    for older in &mut pending[..count] {
        if older.overlaps(newer) {
            mask(older, newer, sector_bytes);
            any_gone |= older.is_gone();
        }
    }
    if any_gone {
        pending.retain(|write| !write.is_gone());
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
