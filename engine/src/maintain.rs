//! When checkpoints, cleaning and growth are due, and how much space each may take.
//!
//! Segments are kept back in tiers: the last free ones are for a checkpoint and for what a recovery would have to write anew
//! (`evacuate.rs`), the ones before for what cleaning moves. Clients never dip into either, so cleaning can always empty
//! segments, a checkpoint can always free them, and a crash at any point leaves the room that the opening takes: what cleaning
//! moved and a checkpoint wrote is given back by the crash itself, until something durable refers to it.
//!
//! Live data may fill `usable_percent` of the segments that are left when these are set aside. So the average data segment
//! has that share alive at most, the emptiest no more, and a round of cleaning and checkpoint always gains space: a
//! workload that overwrites for ever never fills the device. What would exceed the share is refused on arrival.

use std::cell::Cell;
use std::collections::VecDeque;

use crate::checkpoint::{checkpoint, logical_start};
use crate::cleaner::clean;
use crate::core::{Core, Phase};
use crate::entry::pages_of;
use crate::executor::{Executor, Handle};
use crate::format::record::record_bytes;
use crate::grow::grow;
use crate::index::{Place, Version};
use crate::port::Nanos;
use crate::release::{Leaving, restate_released};
use crate::segments::{Segment, Use};
use crate::survivors::Piggyback;
use crate::unproven::Burden;

/// Full rounds of checkpointing without progress before a stalled write is told that there is no space.
const FUTILE_ROUNDS_MAX: u32 = 4;

/// Work that has given way goes on after this time if nobody has called.
const RESUME_NS: Nanos = 50_000;

#[derive(Debug, Default)]
pub(crate) struct Maintenance {
    /// A checkpoint is being written, or what the superblock states as durable.
    pub(crate) checkpointing: bool,
    /// Segments that hold nothing live, and of what state that was counted.
    dead: Cell<((u64, u64, u64), u64)>,
    /// Segments that the checkpoint under way will free, beside the pages of the one before.
    pub(crate) freeing: u64,
    pub(crate) cleaning: bool,
    pub(crate) piggyback: Option<Piggyback>,
    /// Released segments whose records are not proven, in the order of these.
    pub(crate) leaving: VecDeque<Leaving>,
    /// Where the next record was to stand when the checkpoint under way began; without bound where only the superblock is written.
    pub(crate) began_at_lsn: u64,
    /// There is no room for what would give dead segments back, so a checkpoint has to.
    pub(crate) release_stuck: bool,
    /// Changes of segments up to which everything that could be released was.
    pub(crate) looked_at: u64,
    pub(crate) growing: bool,
    /// The device has refused to grow, and is not asked again before then; and how long it is left alone after the next refusal.
    pub(crate) grow_again_at: Nanos,
    pub(crate) grow_pause_ns: Nanos,
    /// So many bytes a client has to write, and waits until enough of what is not durable yet is; 0 if none does.
    pub(crate) buffer_awaited: u64,
    /// A client waits for space.
    stalled: bool,
    /// How many segments it asks for.
    stalled_for: u64,
    /// How many more an opening would take with it.
    stalled_evacuation: u64,
    /// What checkpoints gained since it began to wait.
    asked: Gain,
    /// What they gained since clients had written so many bytes. On a device that is fuller than what is wished for, cleaning would go on for ever.
    unasked: (u64, Gain),
    /// Cleaning cannot go on before the next checkpoint: nothing to gain, or no room to move anything to.
    pub(crate) clean_futile: bool,
    /// Log position at which the last checkpoint began, in bytes written.
    pub(crate) checkpointed_at: u64,
    pub(crate) checkpoint_size: u64,
    /// Bytes that cleaning moved and that the log took since cleaning began.
    pub(crate) cleaned_bytes: u64,
    pub(crate) clean_began_at: u64,
}

/// What a sequence of checkpoints gained.
#[derive(Debug, Default)]
struct Gain {
    /// Segments free after the best of them.
    most_free: u64,
    /// Those since then.
    futile_rounds: u32,
}

impl Gain {
    /// A checkpoint left so many segments free.
    fn note(&mut self, free: u64) {
        if free > self.most_free {
            self.most_free = free;
            self.futile_rounds = 0;
        } else {
            self.futile_rounds += 1;
        }
    }

    fn is_futile(&self) -> bool {
        self.futile_rounds >= FUTILE_ROUNDS_MAX
    }
}

impl Maintenance {
    pub(crate) fn note_progress(&mut self) {
        self.stalled = false;
        self.stalled_for = 0;
        self.stalled_evacuation = 0;
        self.asked = Gain::default();
    }

    /// Something lives no more that nobody has overwritten.
    pub(crate) fn note_let_go(&mut self) {
        self.unasked = Default::default();
    }

    /// A checkpoint has been published, after which so many segments are free, and clients have written so many bytes.
    pub(crate) fn note_round(&mut self, free: u64, user_bytes: u64) {
        self.clean_futile = false;
        if self.unasked.0 != user_bytes {
            self.unasked = (user_bytes, Gain::default());
        }
        self.unasked.1.note(free);
        if self.stalled {
            self.asked.note(free);
        }
    }

    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled
    }

    pub(crate) fn is_hopeless(&self) -> bool {
        self.asked.is_futile()
    }

    /// Nobody waits for space, and making it has gained nothing since clients last changed anything.
    pub(crate) fn rests(&self, user_bytes: u64) -> bool {
        let (changed_at, gain) = &self.unasked;
        gain.is_futile() && !self.stalled && *changed_at == user_bytes
    }
}

impl Core {
    /// A client waits for so many segments. What makes space, and held back for the clients until now, has to look again: nothing else may ever happen.
    pub(crate) fn note_stall(&mut self, segments: u64, evacuation: u64) {
        self.activity += u64::from(!self.maintenance.stalled);
        self.maintenance.stalled = true;
        self.maintenance.stalled_for = segments;
        self.maintenance.stalled_evacuation = evacuation;
    }

    /// Segments the device can have at most.
    pub(crate) fn segments_max(&self) -> u64 {
        let now = self.segments.count();
        if self.now < self.maintenance.grow_again_at {
            return now.into();
        }
        now.max(
            self.geometry
                .segments_in(self.settings.device.max_capacity_bytes),
        )
        .into()
    }

    fn clean_reserve(&self) -> u64 {
        (u64::from(self.segments.count()) / 32).max(4)
    }

    /// Segments that a checkpoint with so many bytes of the index's pages takes at most.
    pub(crate) fn checkpoint_segments(&self, pages_bytes: u64) -> u64 {
        let table = u64::from(self.segments.count()) * 32;
        (pages_bytes + table + 6 * self.geometry.block_bytes).div_ceil(self.geometry.segment_bytes)
    }

    /// Segments that a recovery takes for writing this anew, and for the log to go on in.
    pub(crate) fn evacuation_segments(&self, burden: Burden) -> u64 {
        // A record is at most an eighth of a segment (or hardly more), and never split: a quarter covers what it leaves unused.
        let log = (burden.log_bytes * 4 / 3).div_ceil(self.geometry.payload_bytes());
        1 + log + burden.extent_bytes.div_ceil(self.geometry.segment_bytes)
    }

    /// How many more segments a recovery would take if this were written now.
    pub(crate) fn evacuation_of(&self, burden: Burden) -> u64 {
        let now = self.log.unproven.total();
        self.evacuation_segments(now.plus(burden)) - self.evacuation_segments(now)
    }

    /// Cleaning leaves this many segments free.
    pub(crate) fn cleaner_floor(&self) -> u64 {
        self.checkpoint_segments(self.index.pages_bytes())
            + self.evacuation_segments(self.log.unproven.total())
    }

    /// Clients leave this many segments free.
    pub(crate) fn user_floor(&self) -> u64 {
        self.cleaner_floor() + self.clean_reserve()
    }

    /// How much live data there may be, with so many bytes of the index's pages, when so much is written at once; `None`: not
    /// even a little.
    pub(crate) fn live_bytes_max(&self, pages_bytes: u64, burden: Burden) -> Option<u64> {
        self.live_bytes_in(self.segments_max(), pages_bytes, burden)
    }

    /// The same without what the device may still grow by, which it may refuse.
    pub(crate) fn live_bytes_now(&self, pages_bytes: u64, burden: Burden) -> Option<u64> {
        self.live_bytes_in(self.segments.count().into(), pages_bytes, burden)
    }

    /// The same for a device of so many segments.
    fn live_bytes_in(&self, segments: u64, pages_bytes: u64, burden: Burden) -> Option<u64> {
        let usual = Burden {
            log_bytes: self.settings.options.write_buffer_bytes,
            extent_bytes: 0,
        };
        let evacuation = self
            .evacuation_segments(usual)
            .max(self.evacuation_segments(burden));
        let checkpoints = 2 * self.checkpoint_segments(pages_bytes);
        let aside = 2 + self.clean_reserve() + checkpoints + evacuation;
        let left = segments.checked_sub(aside).filter(|left| *left >= 2)?;
        Some(left * self.geometry.payload_bytes() / 100 * self.settings.options.usable_percent)
    }

    /// Live bytes of a version, and what it takes of a checkpoint's pages.
    pub(crate) fn weight(&self, key: &[u8], version: &Version) -> (u64, u64) {
        let live = match &version.place {
            Place::Tombstone | Place::Inline(_) => 0,
            Place::Log { value_bytes, .. } => record_bytes(key.len(), *value_bytes as usize) as u64,
            Place::Extent(pointer) => pointer
                .chunks
                .iter()
                .map(|chunk| self.geometry.block_up(chunk.len.into()))
                .sum(),
        };
        (live, pages_of(key, version))
    }

    /// Segments that a checkpoint would free that began now, or as soon as the one under way has ended.
    pub(crate) fn reclaimable(&self) -> u64 {
        // Asked at every request when space is short, and it rarely changes.
        let now = self.log.segment_now();
        let key = (self.segments.changes, now, self.extents.changes());
        let (known, dead) = self.maintenance.dead.get();
        if known == key {
            return dead.saturating_sub(self.maintenance.freeing);
        }
        let first = logical_start(self);
        let needs_checkpoint = |it: &Segment| it.condemned || (first..now).contains(&it.logical);
        let log = self
            .segments
            .dead(Use::Log)
            .filter(|(_, segment)| segment.logical != 0 && needs_checkpoint(segment))
            .count();
        let dead = (log + self.dead_extents().count()) as u64;
        self.maintenance.dead.set((key, dead));
        dead.saturating_sub(self.maintenance.freeing)
    }

    /// Segments beyond their floor that are kept free for clients while space is made. Each lies idle that could have kept a victim of cleaning
    /// for longer, and what is idle decides how much cleaning moves.
    pub(crate) fn comfort(&self) -> u64 {
        (u64::from(self.segments.count()) / 16).max(2)
    }

    /// How many segments short of comfort the clients are; 0 if they are not.
    pub(crate) fn shortage(&self) -> u64 {
        let comfort = self.comfort().max(self.maintenance.stalled_for);
        let floor = self.wanted_floor();
        match self.segments.free_above(floor) {
            Some(free) => comfort.saturating_sub(free),
            None => comfort + floor - self.segments.lasting_count(),
        }
    }

    /// What an opening after a crash has to find, with what a client waits to write.
    pub(crate) fn wanted_floor(&self) -> u64 {
        self.user_floor() + self.maintenance.stalled_evacuation
    }

    /// Whether so many segments may be taken so that an opening after a crash has so many.
    pub(crate) fn leaves_free(&self, floor: u64, taken: u64) -> bool {
        self.segments
            .free_above(floor)
            .is_some_and(|free| free >= taken)
    }

    /// A checkpoint writes the whole index, so it has to free so many segments to be worth that, and cleaning goes on until it
    /// does. Where there is little room beside the live data, the half of that has to do.
    pub(crate) fn worth_a_checkpoint(&self) -> u64 {
        let count = u64::from(self.segments.count());
        let live = self.segments.live_log_bytes + self.segments.live_extent_bytes;
        let taken = self.user_floor() + live.div_ceil(self.geometry.payload_bytes());
        let room = count.saturating_sub(taken);
        self.shortage().max(count / 8).min((room / 2).max(2))
    }

    /// Growing is for live data that comes near to what the present size can hold, and for when rounds of cleaning gained nothing. Everything
    /// else is what cleaning is for: a file that grew instead would never shrink.
    fn should_grow(&self, shortage: u64) -> bool {
        let now = u64::from(self.segments.count());
        let live = self.segments.live_log_bytes + self.segments.live_extent_bytes;
        // Asked in every call, and most devices are not even half full.
        let is_half_full = 2 * live > now * self.geometry.payload_bytes();
        if (shortage == 0 && !is_half_full) || now >= self.segments_max() {
            return false;
        }
        let options = &self.settings.options;
        let percent = options.grow_percent.min(options.usable_percent);
        let fits = self.live_bytes_in(now, self.index.pages_bytes(), Burden::default());
        self.maintenance.asked.futile_rounds >= FUTILE_ROUNDS_MAX / 2
            || fits.is_none_or(|max| live > max / options.usable_percent * percent)
    }

    /// Whether clients may soon have to wait for space: of what is kept free for them a quarter is left.
    pub(crate) fn is_pressed(&self) -> bool {
        let left = self.comfort().div_ceil(4);
        self.maintenance.is_stalled() || !self.leaves_free(self.user_floor(), left)
    }

    /// Whether commits that go on are to be held up as little as can be by what makes space.
    pub(crate) fn commits_come_first(&self) -> bool {
        self.commits_go_on() && !self.is_pressed()
    }

    /// Whether work that gave way in that call may go on: in the next one, or now, if no commit would be held up, or clients wait for space.
    pub(crate) fn may_go_on(&mut self, gave_way_in: u64) -> bool {
        let running = self.phase == Phase::Running && self.poisoned.is_none();
        let on = self.calls != gave_way_in || !running || !self.commits_come_first();
        if !on {
            self.resume_at = Some(self.now + RESUME_NS);
        }
        on
    }

    /// Starts what is due.
    pub(crate) fn maintain(&mut self, executor: &mut Executor, handle: &Handle) {
        if self.phase != Phase::Running || self.poisoned.is_some() {
            return;
        }
        self.release();
        let shortage = self.shortage();
        if !self.maintenance.growing && self.should_grow(shortage) {
            self.maintenance.growing = true;
            self.activity += 1;
            executor.spawn(grow(handle.clone()));
        }
        let shortage = match self.maintenance.rests(self.stats.user_bytes) {
            true => 0,
            false => shortage,
        };
        let checkpointing = self.maintenance.checkpointing;
        let since = self.log.written_bytes - self.maintenance.checkpointed_at;
        let threshold = self
            .settings
            .options
            .checkpoint_bytes
            .max(2 * self.maintenance.checkpoint_size);
        let stalled = self.maintenance.stalled;
        // What the log gives back comes sooner than what a checkpoint would, and would have to wait for that.
        let releases = !self.maintenance.leaving.is_empty();
        let mut due = !checkpointing && since >= threshold;
        if !due && shortage > 0 && !self.maintenance.growing {
            let (reclaimable, worth) = (self.reclaimable(), self.worth_a_checkpoint());
            due = reclaimable >= worth
                || (self.is_pressed() && reclaimable >= worth.div_ceil(2))
                || (reclaimable > 0 && stalled && !releases)
                || self.maintenance.release_stuck;
            let maintenance = &self.maintenance;
            let idle = !maintenance.cleaning && !maintenance.clean_futile;
            if !due && idle && !self.cleaned_enough() {
                self.maintenance.cleaning = true;
                self.maintenance.cleaned_bytes = 0;
                self.maintenance.clean_began_at = self.log.written_bytes;
                self.activity += 1;
                executor.spawn(clean(handle.clone()));
            }
            // Even with nothing to free: a new checkpoint may be smaller than the old one.
            due |= self.maintenance.clean_futile && !releases && (reclaimable > 0 || stalled);
        }
        if due && !checkpointing {
            self.maintenance.checkpointing = true;
            self.maintenance.release_stuck = false;
            self.activity += 1;
            executor.spawn(checkpoint(handle.clone()));
        } else if !checkpointing && shortage > 0 && self.released_would_last() {
            self.begin_restating();
            executor.spawn(restate_released(handle.clone()));
        }
    }
}
