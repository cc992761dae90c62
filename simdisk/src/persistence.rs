//! What is pending, what is durable, and what reads see. No timing, no faults: a recorded stream of writes and flushes can be
//! replayed into it as well as a live one.
//!
//! Invariants:
//! - reads see every write that was submitted, latest last, until a power cut;
//! - a flush makes durable exactly what had completed before the flush was submitted;
//! - what a barrier covers reaches the medium no later than anything that was submitted after the barrier's completion;
//! - a durable sector is never taken back: a write that becomes durable masks what older pending writes of the same sectors
//!   could still do to it, so that what reads see and what becomes durable never part ways;
//! - what is written through beyond the durable end is durable together with the growth that it needs, and not before;
//! - pending operations stand in the order of their numbers, which is that of submission.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use kvsim_crash::{CrashState, Fate, Sectors};

use crate::rng::{Purpose, draw};
use crate::{Excerpt, Image};

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
    masked: Vec<bool>,
}

/// The bytes that an operation touches: offset and length. Nothing for a growth.
fn range(kind: &PendingKind) -> (u64, u64) {
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

    fn is_covered(&self, cutoff: Cutoff) -> bool {
        self.completed && !self.dropped && self.completed_at < cutoff.0
    }

    /// Whether it does not touch the sector of this number.
    fn is_masked(&self, index: u64) -> bool {
        let at = usize::try_from(index).expect("a sector's index");
        self.masked.get(at).copied().unwrap_or(false)
    }

    /// Whether newer durable writes lie over all of it.
    fn is_gone(&self) -> bool {
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
pub struct Cutoff(u64);

/// The state of a device's content. See the module.
#[derive(Debug, Clone)]
pub struct Persistence {
    sector_bytes: u64,
    durable: Image,
    /// What was written through beyond the end of `durable`: it takes effect with the growth that makes room for it.
    beyond: Option<Image>,
    visible: Image,
    pending: Vec<PendingWrite>,
    /// An empty list whose memory the next flush uses.
    spare: Vec<PendingWrite>,
    events: u64,
    /// The latest cutoff of a barrier that has completed.
    barrier: u64,
    aside: Option<Aside>,
}

/// What a write has overwritten, to be there again after the next power cut.
#[derive(Debug, Clone)]
struct Aside {
    before: Image,
    offset: u64,
    len_bytes: u64,
}

impl Persistence {
    /// A device of zeros.
    #[must_use]
    pub fn new(sector_bytes: u32, capacity_bytes: u64) -> Self {
        Persistence::with_image(sector_bytes, Image::new(capacity_bytes))
    }

    /// A device that holds this and has nothing pending.
    #[must_use]
    pub fn with_image(sector_bytes: u32, image: Image) -> Self {
        Persistence {
            sector_bytes: u64::from(sector_bytes),
            durable: image.clone(),
            beyond: None,
            visible: image,
            pending: Vec::new(),
            spare: Vec::new(),
            events: 0,
            barrier: 0,
            aside: None,
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

    /// Takes an operation in; reads see it from now on. A growth is seen once it is complete.
    ///
    /// # Panics
    /// If the number is not above those of all operations before.
    pub fn submit(&mut self, id: u64, kind: PendingKind) {
        self.take_in(id, kind, Vec::new());
    }

    /// Takes a write in of which only these sectors were written, given in ascending order. The others keep what they hold.
    ///
    /// # Panics
    /// As [`Persistence::submit`], or if there are no such sectors.
    pub fn submit_part(&mut self, id: u64, kind: PendingKind, written: &[u64]) {
        let (_, len_bytes) = range(&kind);
        let sectors = 0..len_bytes / self.sector_bytes;
        let missing: Vec<bool> = sectors
            .map(|at| written.binary_search(&at).is_err())
            .collect();
        assert!(
            missing.contains(&false),
            "operation {id} has written nothing"
        );
        self.take_in(id, kind, missing);
    }

    fn take_in(&mut self, id: u64, kind: PendingKind, masked: Vec<bool>) {
        let last = self.pending.last().map(|write| write.id);
        assert!(
            last.is_none_or(|last| last < id),
            "operation {id} comes after {last:?}"
        );
        if !matches!(kind, PendingKind::Grow { .. }) {
            let all = Applied {
                kind: &kind,
                sectors: &Sectors::All,
                masked: &masked,
                latest: None,
            };
            all.apply(&mut self.visible, self.sector_bytes);
        }
        self.pending.push(PendingWrite {
            id,
            kind,
            completed: false,
            dropped: false,
            completed_at: 0,
            ordered_after: self.barrier,
            masked,
        });
    }

    fn position(&self, id: u64) -> Option<usize> {
        position(&self.pending, id)
    }

    /// Hands out a completion. `durable` says that the operation was written through, or that there is no volatile cache.
    /// An operation that is not pending (any more) is passed over.
    pub fn complete(&mut self, id: u64, durable: bool) {
        let completed_at = self.event();
        let Some(at) = self.position(id) else {
            return;
        };
        let ordered_after = Cutoff(self.pending[at].ordered_after);
        if durable && self.covered(ordered_after) > 0 {
            self.flush(ordered_after);
        }
        let Some(at) = self.position(id) else {
            return;
        };
        if let PendingKind::Grow { new_bytes } = self.pending[at].kind {
            let new_bytes = new_bytes.max(self.visible.len_bytes());
            self.visible.resize(new_bytes);
        }
        if durable {
            let write = self.pending.remove(at);
            mask_older(&mut self.pending, at, &write, self.sector_bytes);
            let latest = is_latest(&write, &self.pending);
            self.make_durable(&write, latest);
        } else {
            self.pending[at].completed = true;
            self.pending[at].completed_at = completed_at;
        }
    }

    /// Where a flush that is submitted now stands.
    pub fn cutoff(&mut self) -> Cutoff {
        Cutoff(self.event())
    }

    /// A barrier has completed: what had completed before its cutoff reaches the medium before anything that is submitted from now on.
    pub fn barrier(&mut self, cutoff: Cutoff) {
        self.barrier = self.barrier.max(cutoff.0);
    }

    /// Makes durable what completed first, until no more than so many bytes are pending that have completed. Says whether there was anything.
    pub fn write_back(&mut self, most_bytes: u64) -> bool {
        let completed = |write: &&PendingWrite| write.completed && !write.dropped;
        let waiting = self.pending.iter().filter(completed);
        let mut waiting: Vec<(u64, u64)> = waiting
            .map(|write| (write.completed_at, write.range().1))
            .collect();
        let mut bytes: u64 = waiting.iter().map(|(_, bytes)| bytes).sum();
        if bytes <= most_bytes {
            return false;
        }
        waiting.sort_unstable();
        let mut cutoff = 0;
        for (completed_at, len_bytes) in waiting {
            if bytes <= most_bytes {
                break;
            }
            bytes -= len_bytes;
            cutoff = completed_at + 1;
        }
        self.flush(Cutoff(cutoff));
        true
    }

    /// A flush has completed: what had completed before its cutoff is durable.
    pub fn flush(&mut self, cutoff: Cutoff) {
        let mut before = std::mem::take(&mut self.pending);
        let mut rest = std::mem::take(&mut self.spare);
        // Sharing is for small lists: each is held against each.
        let latest: Vec<bool> = match before.len() {
            0..=SHARED_MAX => before
                .iter()
                .map(|write| is_latest(write, &before))
                .collect(),
            _ => Vec::new(),
        };
        for (at, write) in before.drain(..).enumerate() {
            if write.is_covered(cutoff) {
                let older = rest.len();
                mask_older(&mut rest, older, &write, self.sector_bytes);
                self.make_durable(&write, latest.get(at).copied().unwrap_or(false));
            } else {
                rest.push(write);
            }
        }
        self.pending = rest;
        self.spare = before;
    }

    /// Makes durable at once what has completed; with `submitted` also what is still under way, growths aside. What was dropped
    /// stays so. Says whether there was anything.
    pub fn make_durable_now(&mut self, submitted: bool) -> bool {
        for write in &mut self.pending {
            let is_growth = matches!(write.kind, PendingKind::Grow { .. });
            write.completed |= submitted && !is_growth;
        }
        let cutoff = self.cutoff();
        let any = self.covered(cutoff) > 0;
        self.flush(cutoff);
        any
    }

    /// Lets the next power cut leave what is durable now where this write goes, as if it had gone elsewhere; or zeroes, if it is
    /// to be `erased`. Nothing if there is nothing to overwrite; says whether there is.
    pub fn set_aside(&mut self, id: u64, erased: bool) -> bool {
        let Some(at) = self.position(id) else {
            return false;
        };
        let (offset, len_bytes) = self.pending[at].range();
        let before = self.durable.clone();
        let is_blank = before
            .excerpt(offset, len_bytes)
            .parts()
            .flatten()
            .all(|byte| *byte == 0);
        if is_blank {
            return false;
        }
        self.aside = Some(Aside {
            before: if erased {
                Image::new(before.len_bytes())
            } else {
                before
            },
            offset,
            len_bytes,
        });
        true
    }

    /// The operations that a flush submitted now drops if it fails.
    pub(crate) fn droppable(&self) -> impl Iterator<Item = u64> + '_ {
        let covered = self.pending.iter().filter(|write| {
            write.completed && !write.dropped && write.completed_at >= self.barrier
        });
        covered.map(|write| write.id)
    }

    /// How many operations a flush of this cutoff covers.
    #[must_use]
    pub fn covered(&self, cutoff: Cutoff) -> usize {
        self.pending
            .iter()
            .filter(|write| write.is_covered(cutoff))
            .count()
    }

    /// What a flush of this cutoff covers, in the order of submission.
    pub(crate) fn covered_by(&self, cutoff: Cutoff) -> impl Iterator<Item = &PendingWrite> {
        self.pending
            .iter()
            .filter(move |write| write.is_covered(cutoff))
    }

    /// A flush has failed, and of what it covered the device forgets those for which `forget` holds: reads still see them, no
    /// flush will save them. What an earlier barrier has ordered is kept: others may rely on it. Says how many.
    pub fn drop_dirty(&mut self, cutoff: Cutoff, mut forget: impl FnMut(u64) -> bool) -> usize {
        let mut count = 0;
        let ordered = self.barrier;
        let covered = self
            .pending
            .iter_mut()
            .filter(|write| write.is_covered(cutoff));
        for write in covered.filter(|write| write.completed_at >= ordered) {
            write.dropped = forget(write.id);
            count += usize::from(write.dropped);
        }
        count
    }

    /// Whether no pending write lies over this range, so that reads see what is on the medium.
    #[must_use]
    pub fn is_at_rest(&self, offset: u64, len_bytes: u64) -> bool {
        let over = |write: &PendingWrite| {
            let (start, len) = write.range();
            start < offset + len_bytes && offset < start + len
        };
        offset + len_bytes <= self.durable.len_bytes() && !self.pending.iter().any(over)
    }

    /// Flips a bit of the medium. The byte is to be [at rest](Persistence::is_at_rest).
    ///
    /// # Panics
    /// If it is not.
    pub fn rot(&mut self, byte: u64, bit: u8) {
        assert!(self.is_at_rest(byte, 1), "byte {byte} is not at rest");
        for image in [&mut self.durable, &mut self.visible] {
            let mut value = [0];
            image.read(byte, &mut value);
            image.write(byte, &[value[0] ^ (1 << (bit % 8))]);
        }
    }

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
            image.take_over(&aside.before, aside.offset, aside.len_bytes);
        }
    }

    fn make_durable(&mut self, write: &PendingWrite, is_latest: bool) {
        if let PendingKind::Grow { new_bytes } = write.kind {
            grow(&mut self.durable, new_bytes, self.beyond.as_ref());
            let end = self.durable.len_bytes();
            self.beyond.take_if(|beyond| beyond.len_bytes() <= end);
            return;
        }
        let all = Applied {
            kind: &write.kind,
            sectors: &Sectors::All,
            masked: &write.masked,
            latest: is_latest.then_some(&self.visible),
        };
        let (offset, len_bytes) = write.range();
        if offset + len_bytes > self.durable.len_bytes() {
            let beyond = self.beyond.get_or_insert_with(|| self.durable.clone());
            beyond.resize(beyond.len_bytes().max(offset + len_bytes));
            all.apply(beyond, self.sector_bytes);
        }
        all.apply(&mut self.durable, self.sector_bytes);
    }

    /// A hash of what does not depend on what is pending.
    pub(crate) fn durable_hash(&self) -> u128 {
        match &self.beyond {
            None => self.durable.hash(),
            Some(beyond) => self.durable.hash() ^ beyond.hash().rotate_left(1),
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

/// Makes an image longer; what was written through to the new part is there at once.
fn grow(image: &mut Image, new_bytes: u64, beyond: Option<&Image>) {
    let old_bytes = image.len_bytes();
    image.resize(new_bytes.max(old_bytes));
    if let Some(beyond) = beyond {
        let end = beyond.len_bytes().min(new_bytes);
        if end > old_bytes {
            image.take_over(beyond, old_bytes, end - old_bytes);
        }
    }
}

/// In lists of pending operations up to this long it is found out which of them are the latest at their places.
const SHARED_MAX: usize = 64;

/// Whether reads see all of this operation's data: nothing that was submitted later lies over it.
fn is_latest(write: &PendingWrite, pending: &[PendingWrite]) -> bool {
    let newer_first = pending.iter().rev();
    let mut newer = newer_first.take_while(|other| other.id > write.id);
    write.masked.is_empty() && !newer.any(|other| other.overlaps(write))
}

/// Where an operation stands among the pending ones, which are in the order of their numbers.
pub(crate) fn position(pending: &[PendingWrite], id: u64) -> Option<usize> {
    pending.binary_search_by_key(&id, |write| write.id).ok()
}

/// Takes from the first `count` pending writes what a newer one, now durable, lies over; those with nothing left are gone.
fn mask_older(
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

/// What survived of one operation.
struct Applied<'a> {
    kind: &'a PendingKind,
    sectors: &'a Sectors,
    /// Sectors that it does not touch; empty for none.
    masked: &'a [bool],
    /// An image that holds all of the operation's data where that belongs: what is whole is shared with it.
    latest: Option<&'a Image>,
}

impl Applied<'_> {
    /// Applies it. What lies beyond the end of the image (its growth was lost) is lost too.
    fn apply(&self, image: &mut Image, sector_bytes: u64) {
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
