//! Survivors of a log segment that are in memory, which is what cleaning asks for first: a segment that is not read takes no time of the device, and
//! commits wait behind each read.
//!
//! Which entries of the index lie in a segment is kept for each (`Segments::residents`). Their values are in the engine's own cache, or in one that its driver
//! has told it of ([`CachedValues`]).
//!
//! While several clients share commits, survivors piggyback on their frames: a frame ends with a block, and what fits before that end costs no write at all.
//!
//! Invariants:
//! - what memory holds is believed as far as what a device returns: the record that it would be, at the position where the index has it, has to have the
//!   tag that the index has. So a value that is not the newest, or was changed in memory, is not moved;
//! - a segment is read as soon as one survivor is not in memory, since then the others are read with it.

use crate::cleaner::{RECORDS_PER_STEP, Stop};
use crate::core::Core;
use crate::executor::Handle;
use crate::format::record::{is_value_of, record_bytes};
use crate::group::COMMITS_PAUSE_NS;
use crate::index::Place;
use crate::key::Key;
use crate::log::Log;
use crate::mutant::{Mutant, mutant};
use crate::table::Slot;

/// Values that the engine's driver keeps in memory.
pub trait CachedValues: Send + Sync {
    /// Lends the value of a key, if it is there; nothing is called back otherwise. It may be any that the key has had: the engine knows which it wants.
    fn lend(&self, key: &[u8], take: &mut dyn FnMut(&[u8]));
}

/// A newest version in the log.
struct Survivor {
    key: Key,
    sequence: u64,
    lsn: u64,
    tag: u32,
    value_bytes: usize,
}

/// What became of the next survivor.
enum Step {
    Moved,
    /// It has to wait, and takes so much.
    Waits {
        bytes: usize,
    },
    NotCached,
    /// There is none.
    NoneLeft,
}

/// A victim whose survivors go with the commits.
#[derive(Debug)]
pub(crate) struct Piggyback {
    victim: u32,
    /// The first of its residents that was not looked at.
    from: usize,
    /// No more of them can go this way.
    ended: bool,
}

/// Moves survivors until one is not in memory; true if nothing lives in the victim any more.
pub(crate) async fn move_cached(handle: &Handle, victim: u32) -> Result<bool, Stop> {
    // Reading goes on beside the clients' work, and what is moved from memory takes their processors: that has to be worth it.
    let reading_is_slow = handle.with(|core| core.commits_go_on() || core.is_pressed());
    // What that mutant moves is dead, and only reading meets it.
    if !reading_is_slow || mutant(Mutant::MoveOverwritesNewer) {
        return Ok(false);
    }
    let mut from = 0;
    loop {
        if handle.with(|core| core.may_piggyback()) {
            handle.with(|core| core.begin_piggyback(victim, from));
            from = handle.until(Core::end_piggyback).await;
        }
        match handle.with(|core| core.move_some(victim, &mut from))? {
            Step::Moved => handle.give_way().await,
            Step::Waits { bytes } => handle.until(|core| core.may_move(bytes, 0)).await?,
            Step::NoneLeft | Step::NotCached => break,
        }
    }
    Ok(handle.with(|core| core.segments.get(victim).live_bytes == 0))
}

impl Core {
    /// Whether survivors go with the commits. A client that commits alone does nothing while its frame is written: then they are moved meanwhile, by whoever
    /// minds the engine's wishes, and do not make the client wait.
    fn may_piggyback(&self) -> bool {
        self.commits_come_first() && self.group.is_shared()
    }

    /// From now on commits take survivors of this victim along.
    fn begin_piggyback(&mut self, victim: u32, from: usize) {
        self.maintenance.piggyback = Some(Piggyback {
            victim,
            from,
            ended: false,
        });
    }

    /// Where to go on when the commits do not take them any more, or do not come first.
    fn end_piggyback(&mut self) -> Option<usize> {
        let ended = self.maintenance.piggyback.as_ref()?.ended;
        if ended || !self.may_piggyback() {
            return self.maintenance.piggyback.take().map(|it| it.from);
        }
        self.resume_at = Some(self.now + COMMITS_PAUSE_NS);
        None
    }

    /// Adds survivors to the frame that is about to be sealed, up to the end of a block: of the last one, which would be padding otherwise, or of one behind
    /// it, the further behind the scarcer space is.
    pub(crate) fn take_survivors(&mut self) {
        let Some(mut riding) = self.maintenance.piggyback.take() else {
            return;
        };
        let len = self.log.open_bytes();
        let more = len * self.shortage() * 2 / self.comfort();
        let limit = self.geometry.block_up(len + more.min(len));
        let fits = |log: &Log, bytes: usize| {
            log.open_bytes() + bytes as u64 <= limit && log.takes_now(bytes)
        };
        while !riding.ended {
            match self.move_next(riding.victim, &mut riding.from, fits) {
                Ok(Step::Moved) => {}
                Ok(Step::Waits { .. }) => break,
                // Whoever cleans meets an error again.
                Ok(Step::NoneLeft | Step::NotCached) | Err(_) => riding.ended = true,
            }
        }
        self.maintenance.piggyback = Some(riding);
    }

    /// Moves the next few, as far as they need not wait and are in memory.
    fn move_some(&mut self, victim: u32, from: &mut usize) -> Result<Step, Stop> {
        for _ in 0..RECORDS_PER_STEP {
            match self.move_next(victim, from, |_, _| true)? {
                Step::Moved => {}
                other => return Ok(other),
            }
        }
        Ok(Step::Moved)
    }

    /// Moves the next one, if a record of its size fits.
    fn move_next(
        &mut self,
        victim: u32,
        from: &mut usize,
        fits: impl Fn(&Log, usize) -> bool,
    ) -> Result<Step, Stop> {
        let Some(survivor) = self.next_survivor(victim, from) else {
            return Ok(Step::NoneLeft);
        };
        let bytes = record_bytes(survivor.key.bytes().len(), survivor.value_bytes);
        match self.may_move(bytes, 0) {
            Some(allowed) => allowed?,
            None => return Ok(Step::Waits { bytes }),
        }
        if !fits(&self.log, bytes) {
            return Ok(Step::Waits { bytes });
        }
        if !self.move_survivor(&survivor) {
            return Ok(Step::NotCached);
        }
        self.stats.relocated_from_cache_bytes += bytes as u64;
        self.note_moved(bytes as u64);
        *from += 1;
        Ok(Step::Moved)
    }

    /// The next resident that still lies in its segment.
    fn next_survivor(&self, victim: u32, from: &mut usize) -> Option<Survivor> {
        let logical = self.segments.get(victim).logical;
        let residents = self.segments.residents(victim);
        let survivor = |slot: &Slot| {
            let (key, version) = self.index.entry(*slot)?;
            match version.place {
                Place::Log {
                    lsn,
                    value_bytes,
                    tag,
                } if self.geometry.logical(lsn) == logical => Some(Survivor {
                    key: key.clone(),
                    sequence: version.sequence,
                    lsn,
                    tag,
                    value_bytes: value_bytes as usize,
                }),
                _ => None,
            }
        };
        while let Some(slot) = residents.get(*from) {
            if let Some(found) = survivor(slot) {
                return Some(found);
            }
            *from += 1;
        }
        None
    }

    /// Appends it anew, if its value is in memory.
    fn move_survivor(&mut self, it: &Survivor) -> bool {
        if let Some(value) = self.cache.peek(it.lsn) {
            let lsn = self.move_if_right(it, &value);
            if let Some(lsn) = lsn {
                self.cache.insert(lsn, value);
            }
            return lsn.is_some();
        }
        let Some(values) = self.values.clone() else {
            return false;
        };
        let mut moved = false;
        values.lend(it.key.bytes(), &mut |value| {
            moved = self.move_if_right(it, value).is_some();
        });
        moved
    }

    /// Returns the position that it has now.
    fn move_if_right(&mut self, it: &Survivor, value: &[u8]) -> Option<u64> {
        let (key, at) = (it.key.bytes(), (it.lsn, it.tag));
        let scratch = &mut self.scratch;
        let right = value.len() == it.value_bytes
            && is_value_of(&self.id, at, it.sequence, key, value, scratch);
        right.then(|| self.move_version(it.sequence, key, value))
    }
}
