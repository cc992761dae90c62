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

mod apply;
mod cut;
mod pending;

use kvsim_crash::Sectors;

use crate::Image;
use apply::{Applied, grow};
pub(crate) use pending::Cutoff;
pub(crate) use pending::position;
pub use pending::{PendingKind, PendingWrite};
use pending::{SHARED_MAX, is_latest, mask_older, range};

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

/// What a write has overwritten, to be there again after the next crash.
#[derive(Debug, Clone)]
struct Aside {
    /// The write.
    id: u64,
    /// What was durable there.
    durable: Image,
    /// What reads saw there.
    visible: Image,
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
            Applied::whole(&kind, &masked).apply(&mut self.visible, self.sector_bytes);
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

    /// Lets the next crash leave what was there before this write, as if it had gone elsewhere: what is durable now after a power cut, and what reads saw after a
    /// kill of the process; or zeroes, if it is to be `erased`. Nothing if there is nothing to overwrite; says whether there is.
    pub fn set_aside(&mut self, id: u64, erased: bool) -> bool {
        let Some(at) = self.position(id) else {
            return false;
        };
        let (offset, len_bytes) = self.pending[at].range();
        let durable = self.durable.clone();
        if offset + len_bytes > durable.len_bytes() {
            return false;
        }
        let visible = self.visible_before(at);
        let is_blank = |image: &Image| {
            let excerpt = image.excerpt(offset, len_bytes);
            excerpt.parts().flatten().all(|byte| *byte == 0)
        };
        if is_blank(&durable) && is_blank(&visible) {
            return false;
        }
        let kept = |image: Image| match erased {
            true => Image::new(image.len_bytes()),
            false => image,
        };
        self.aside = Some(Aside {
            id,
            durable: kept(durable),
            visible: kept(visible),
            offset,
            len_bytes,
        });
        true
    }

    /// What reads saw before this of the pending operations, within what is durable: what is there, with all older ones.
    fn visible_before(&self, at: usize) -> Image {
        let mut image = self.durable.clone();
        for write in &self.pending[..at] {
            if !matches!(write.kind, PendingKind::Grow { .. }) {
                Applied::whole(&write.kind, &write.masked).apply(&mut image, self.sector_bytes);
            }
        }
        image
    }

    /// The process is killed: the device keeps what it has, but for what is to be set aside. Says whether there was anything.
    pub fn kill(&mut self) -> bool {
        let Some(aside) = self.aside.take() else {
            return false;
        };
        let (before, offset, len_bytes) = (&aside.visible, aside.offset, aside.len_bytes);
        match self.position(aside.id) {
            Some(at) => drop(self.pending.remove(at)),
            // It is durable, so what was pending there is superseded: that counts as durable too.
            None => self.durable.take_over(before, offset, len_bytes),
        }
        self.visible.take_over(before, offset, len_bytes);
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
}
