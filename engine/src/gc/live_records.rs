//! Live records of a log segment, found through the index. Each segment has a list of the index entries in it
//! (`Segments::residents`), so a dead record costs one look and no look-up by key.
//!
//! Memory is asked first, since a segment that is not read takes no time of the device, and commits wait behind each read. The values are in the engine's own
//! cache, or in one that its driver has told it of ([`CachedValues`](crate::CachedValues)).
//!
//! While commits go on, live records go with their frames: a frame ends with a block, and what fits before that end
//! costs no write at all.
//!
//! Invariants:
//! - cached values are checked like bytes from the device: the record, built for its position, must have the tag that
//!   the index has for it. So a value that is not the newest, or was changed in memory, is not moved;
//! - a segment is read as soon as one live record is not in memory, since then the others are read with it;
//! - of what is read, every record that moves is verified by itself, and by what the index has of it. What is dead is not looked at, so damage there stops nothing.

use crate::commit::state::COMMITS_PAUSE_NS;
use crate::core::Core;
use crate::format::damage::Mismatch;
use crate::format::record::{is_value_of, record_bytes};
use crate::format::{len32, to_usize};
use crate::gc::state::Piggyback;
use crate::gc::stop::{RECORDS_PER_STEP, Stop};
use crate::gc::window::Window;
use crate::index::key::Key;
use crate::index::place::Place;
use crate::index::table::Slot;
use crate::log::append::Log;
use crate::read::value::verify_record;
use crate::runtime::handle::Handle;

/// Residents that are looked up in one go: what each look waits for from memory comes at the same time.
const RESIDENTS_PER_STEP: usize = 256;

/// A newest version in the log.
struct LiveRecord {
    slot: Slot,
    key: Key,
    sequence: u64,
    lsn: u64,
    tag: u32,
    value_bytes: usize,
}

/// Where a record is that was found alive.
struct Found {
    lsn: u64,
    slot: Slot,
    bytes: u32,
}

/// What became of the next live record.
enum Step {
    Moved,
    /// It has to wait, and takes so much.
    Waits {
        bytes: usize,
    },
    /// What it holds is not in memory.
    Missing,
    /// There is none.
    NoneLeft,
}

/// Moves live records until one is not in memory; true if nothing is live in the victim any more.
pub(crate) async fn move_cached(handle: &Handle, victim: u32) -> Result<bool, Stop> {
    // Reading goes on beside the clients' work, and what is moved from memory takes their processors: that has to be worth it.
    let reading_is_slow = handle.with(|core| core.commits_go_on() || core.is_pressed());
    if !reading_is_slow {
        return Ok(false);
    }
    let mut from = 0;
    loop {
        if handle.with(|core| core.commits_come_first()) {
            handle.with(|core| core.begin_piggyback(victim, from));
            from = handle.until(Core::end_piggyback).await;
        }
        match handle.with(|core| core.move_some(victim, &mut from))? {
            Step::Moved => handle.give_way().await,
            Step::Waits { bytes } => handle.until(|core| core.may_move(bytes, 0)).await?,
            Step::NoneLeft | Step::Missing => break,
        }
    }
    Ok(handle.with(|core| core.segments.get(victim).live_bytes == 0))
}

/// Moves live records by what the device has of them.
pub(crate) async fn move_read(
    handle: &Handle,
    victim: u32,
    window: &mut Window,
) -> Result<(), Stop> {
    let (mut alive, mut from) = (Vec::new(), 0);
    while handle.with(|core| core.find_alive(victim, &mut from, &mut alive)) {
        handle.give_way().await;
    }
    // An opening notes residents in the order of their keys.
    alive.sort_unstable_by_key(|it| it.lsn);
    let mut next = 0;
    loop {
        match handle.with(|core| core.move_loaded(&alive, &mut next, window))? {
            Step::Moved => handle.give_way().await,
            Step::Waits { bytes } => handle.until(|core| core.may_move(bytes, 0)).await?,
            Step::Missing => {
                let it = &alive[next];
                let at = handle.with(|core| core.geometry.within(it.lsn));
                let to = at + u64::from(it.bytes);
                if to > window.end {
                    let beyond = Mismatch {
                        what: "end of the record",
                        expected: window.end,
                        found: to,
                    };
                    return Err(Stop::Damaged(beyond.at(window.device + at)));
                }
                window.load(handle, at, it.bytes.into()).await?;
            }
            Step::NoneLeft => return Ok(()),
        }
    }
}

impl Core {
    /// From now on commits take live records of this victim along.
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
        if ended || !self.commits_come_first() {
            return self.maintenance.piggyback.take().map(|it| it.from);
        }
        self.resume_at = Some(self.now + COMMITS_PAUSE_NS);
        None
    }

    /// Adds live records to the frame that is about to be sealed, up to the end of a block. That is the last block,
    /// which would else be padding, or a later one: the scarcer space is, the later.
    pub(crate) fn take_live_records(&mut self) {
        let Some(mut riding) = self.maintenance.piggyback.take() else {
            return;
        };
        let len = self.log.open_bytes();
        let more = len * self.shortage() * 2 / self.free_target();
        let limit = self.geometry.block_up(len + more.min(len));
        let fits = |log: &Log, bytes: usize| {
            log.open_bytes() + bytes as u64 <= limit && log.takes_now(bytes)
        };
        while !riding.ended {
            match self.move_next(riding.victim, &mut riding.from, fits) {
                Ok(Step::Moved) => {}
                Ok(Step::Waits { .. }) => break,
                // Whoever collects garbage meets an error again.
                Ok(Step::NoneLeft | Step::Missing) | Err(_) => riding.ended = true,
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
        let Some(live_record) = self.next_live_record(victim, from) else {
            return Ok(Step::NoneLeft);
        };
        let bytes = record_bytes(live_record.key.bytes().len(), live_record.value_bytes);
        match self.may_move(bytes, 0) {
            Some(allowed) => allowed?,
            None => return Ok(Step::Waits { bytes }),
        }
        if !fits(&self.log, bytes) {
            return Ok(Step::Waits { bytes });
        }
        if !self.move_live_record(&live_record) {
            return Ok(Step::Missing);
        }
        self.stats.relocated_from_cache_bytes += bytes as u64;
        self.note_moved(bytes as u64);
        *from += 1;
        Ok(Step::Moved)
    }

    /// Adds to `alive` which of the next residents still lie in their segment; false if there are no more.
    fn find_alive(&self, victim: u32, from: &mut usize, alive: &mut Vec<Found>) -> bool {
        let logical = self.segments.get(victim).logical;
        let residents = &self.segments.residents(victim)[*from..];
        let next = &residents[..residents.len().min(RESIDENTS_PER_STEP)];
        alive.extend(next.iter().filter_map(|slot| {
            let (key, version) = self.index.entry(*slot)?;
            let lsn = version.place.lsn()?;
            let bytes = record_bytes(key.bytes().len(), version.place.value_bytes());
            (self.geometry.logical(lsn) == logical).then(|| Found {
                lsn,
                slot: *slot,
                bytes: len32(bytes),
            })
        }));
        *from += next.len();
        next.len() < residents.len()
    }

    /// Moves the next few that are loaded and need not wait.
    fn move_loaded(
        &mut self,
        alive: &[Found],
        next: &mut usize,
        window: &Window,
    ) -> Result<Step, Stop> {
        for _ in 0..RECORDS_PER_STEP {
            let Some(it) = alive.get(*next) else {
                return Ok(Step::NoneLeft);
            };
            let bytes = to_usize(it.bytes.into());
            let at = self.geometry.within(it.lsn);
            let damaged = |mismatch: Mismatch| Stop::Damaged(mismatch.at(window.device + at));
            if let Some((key, version)) = self.index.entry(it.slot)
                && let Place::Log { lsn, tag, .. } = version.place
                && lsn == it.lsn
            {
                let Some(loaded) = window.get(at, bytes) else {
                    return Ok(Step::Missing);
                };
                match self.may_move(bytes, 0) {
                    Some(allowed) => allowed?,
                    None => return Ok(Step::Waits { bytes }),
                }
                let (key, sequence) = (key.clone(), version.sequence);
                let key = key.bytes();
                verify_record(&self.id, it.lsn, key, sequence, tag, loaded).map_err(damaged)?;
                let value = &loaded[record_bytes(key.len(), 0)..];
                let place = self.append_newest(sequence, key, value);
                self.relocate_newest(it.slot, key, place);
                self.note_moved(bytes as u64);
            }
            *next += 1;
        }
        Ok(Step::Moved)
    }

    /// The next resident that still lies in its segment.
    fn next_live_record(&self, victim: u32, from: &mut usize) -> Option<LiveRecord> {
        let logical = self.segments.get(victim).logical;
        let residents = self.segments.residents(victim);
        let live_record = |slot: &Slot| {
            let (key, version) = self.index.entry(*slot)?;
            match version.place {
                Place::Log {
                    lsn,
                    value_bytes,
                    tag,
                } if self.geometry.logical(lsn) == logical => Some(LiveRecord {
                    slot: *slot,
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
            if let Some(found) = live_record(slot) {
                return Some(found);
            }
            *from += 1;
        }
        None
    }

    /// Appends it anew, if its value is in memory.
    fn move_live_record(&mut self, it: &LiveRecord) -> bool {
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
        values.with_value(it.key.bytes(), &mut |value| {
            moved = self.move_if_right(it, value).is_some();
        });
        moved
    }

    /// Returns the position that it has now.
    fn move_if_right(&mut self, it: &LiveRecord, value: &[u8]) -> Option<u64> {
        let (key, at) = (it.key.bytes(), (it.lsn, it.tag));
        let scratch = &mut self.scratch;
        let right = value.len() == it.value_bytes
            && is_value_of(&self.id, at, it.sequence, key, value, scratch);
        right.then(|| {
            let place = self.append_newest(it.sequence, key, value);
            let lsn = place.lsn().expect("it was appended to the log");
            self.relocate_newest(it.slot, key, place);
            lsn
        })
    }
}
