//! How much space checkpoints, garbage collection and clients may take, and how much there is to gain.
//!
//! Segments are kept back in tiers. The last free ones are for a checkpoint and for the tail rewrite of a recovery
//! (`recovery/rewrite_tail.rs`). The ones before are for what garbage collection moves. Clients never use either tier,
//! nor what is left of a segment of the log, or of extents, that was begun for garbage collection, once half of its tier is used; but for deletes, where garbage collection gains nothing. So it can always empty segments, and a checkpoint can always free them. A crash at any point leaves
//! the room that an opening takes: what garbage collection moved and a checkpoint wrote counts for nothing after the
//! crash, until something durable refers to it.
//!
//! Live data may fill `usable_percent` of the segments that are left when these are set aside. So at most that share of
//! the average data segment is live, and no more of the emptiest. A round of garbage collection and checkpoint
//! therefore always gains space, and endless overwrites never fill the device. A write that would exceed the share is
//! refused on arrival.

use crate::core::Core;
use crate::format::KEY_BYTES_MAX;
use crate::format::page::{PAGE_ENTRY_HEADER_BYTES_MAX, RUN_ROOTS_BYTES};
use crate::format::record::record_bytes;
use crate::format::to_usize;
use crate::gc::state::Free;
use crate::index::entry::{pages_of, pages_of_new};
use crate::index::place::{Place, Version};
use crate::segments::unproven::RecoveryReserve;
use crate::segments::usage::{Segment, Use};

/// The index is cut into about so many partitions.
const PARTITIONS: u64 = 128;
/// None is cut that is smaller than this: what its pages leave unused has to be little.
const PARTITION_BLOCKS_MIN: u64 = 128;
/// With fewer segments for live data there is none.
const DATA_SEGMENTS_MIN: u64 = 2;
/// What a partition with one run takes in the list of partitions.
const LIST_ENTRY_BYTES_MAX: u64 =
    (PAGE_ENTRY_HEADER_BYTES_MAX + KEY_BYTES_MAX + RUN_ROOTS_BYTES) as u64;

/// Number of the segment in which a replay would begin: those before it are read by none.
pub(crate) fn logical_start(core: &Core) -> u64 {
    let superblock = core.superblock.as_ref();
    superblock.map_or(0, |it| core.geometry.logical(it.replay.lsn))
}

impl Core {
    /// A client waits for so many segments. What makes space, and held back for the clients until now, has to look again: nothing else may ever happen.
    pub(crate) fn note_stall(&mut self, segments: u64, tail_rewrite: u64) {
        self.activity += u64::from(!self.maintenance.stalled);
        self.maintenance.stalled = true;
        self.maintenance.stalled_for = segments;
        self.maintenance.stalled_tail_rewrite = tail_rewrite;
    }

    /// What is free, for garbage collection that has made space. What is still being read is free as soon as that has ended.
    pub(crate) fn free_now(&self) -> Free {
        let segments = self.segments.free_count() + self.segments.draining_count();
        let begun = self.log.room_in_segment() + self.extent_room();
        Free {
            segments,
            sixteenths: 16 * segments + 16 * begun / self.geometry.segment_bytes,
        }
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

    fn gc_reserve(&self) -> u64 {
        (u64::from(self.segments.count()) / 32).max(4)
    }

    /// A base of the index is closed when it has come to this size, where the index has so many bytes of pages at most.
    pub(crate) fn partition_bytes(&self, pages_bytes: u64) -> u64 {
        (pages_bytes / PARTITIONS).max(PARTITION_BLOCKS_MIN * self.geometry.block_bytes)
    }

    /// Segments that a checkpoint with so many bytes of the index's pages takes at most, if it writes everything anew.
    pub(crate) fn checkpoint_segments(&self, pages_bytes: u64) -> u64 {
        let block = self.geometry.block_bytes;
        let table = u64::from(self.segments.count()) * 32;
        // Of each tree the last page of each level is not full. The list of partitions has an entry for each.
        let partitions = pages_bytes / self.partition_bytes(pages_bytes);
        let beside = 6 * block
            + (block + LIST_ENTRY_BYTES_MAX)
            + partitions * (4 * block + LIST_ENTRY_BYTES_MAX);
        (pages_bytes + table + beside).div_ceil(self.geometry.segment_bytes)
    }

    /// Segments that the runs of the index may take, where everything written anew would have so many bytes of pages at most: a quarter more than that.
    pub(crate) fn index_segments(&self, pages_bytes: u64) -> u64 {
        self.checkpoint_segments(pages_bytes + pages_bytes / 4)
    }

    /// Segments that a recovery takes for writing this anew, and for the log to go on in.
    pub(crate) fn tail_rewrite_segments(&self, reserve: RecoveryReserve) -> u64 {
        // A record is at most an eighth of a segment (or hardly more), and never split: a quarter covers what it leaves unused.
        let log = (reserve.log_bytes * 4 / 3).div_ceil(self.geometry.payload_bytes());
        1 + log + reserve.extent_bytes.div_ceil(self.geometry.segment_bytes)
    }

    /// How many more segments a recovery would take if this were written now.
    pub(crate) fn tail_rewrite_of(&self, reserve: RecoveryReserve) -> u64 {
        let now = self.log.unproven.total();
        self.tail_rewrite_segments(now.plus(reserve)) - self.tail_rewrite_segments(now)
    }

    /// Garbage collection leaves this many segments free.
    pub(crate) fn gc_floor(&self) -> u64 {
        self.checkpoint_segments(self.index.pages_bytes())
            + self.tail_rewrite_segments(self.log.unproven.total())
    }

    /// Clients leave this many segments free.
    pub(crate) fn user_floor(&self) -> u64 {
        self.gc_floor() + self.gc_reserve()
    }

    /// Clients go on in a segment that was begun for garbage collection as long as so many are free. To wait for more would cost a twentieth of all
    /// overwrites; not to wait at all leaves none to garbage collection where it is slow.
    pub(crate) fn shared_floor(&self) -> u64 {
        self.gc_floor() + self.gc_reserve() / 2
    }

    /// How much live data there may be, with so many bytes of the index's pages, when so much is written at once; `None`: not
    /// even a little.
    pub(crate) fn live_bytes_max(&self, pages_bytes: u64, reserve: RecoveryReserve) -> Option<u64> {
        self.live_bytes_in(self.segments_max(), pages_bytes, reserve)
    }

    /// The same without what the device may still grow by, which it may refuse.
    pub(crate) fn live_bytes_now(&self, pages_bytes: u64, reserve: RecoveryReserve) -> Option<u64> {
        self.live_bytes_in(self.segments.count().into(), pages_bytes, reserve)
    }

    /// The same for a device of so many segments.
    pub(crate) fn live_bytes_in(
        &self,
        segments: u64,
        pages_bytes: u64,
        reserve: RecoveryReserve,
    ) -> Option<u64> {
        let aside = self.set_aside(pages_bytes, reserve);
        let left = segments
            .checked_sub(aside)
            .filter(|left| *left >= DATA_SEGMENTS_MIN)?;
        Some(left * self.geometry.payload_bytes() / 100 * self.settings.options.usable_percent)
    }

    /// Segments that no live data may take, with so many bytes of the index's pages, when so much is written at once.
    fn set_aside(&self, pages_bytes: u64, reserve: RecoveryReserve) -> u64 {
        let usual = RecoveryReserve {
            log_bytes: self.settings.options.write_buffer_bytes,
            extent_bytes: 0,
        };
        let tail_rewrite = self
            .tail_rewrite_segments(usual)
            .max(self.tail_rewrite_segments(reserve));
        let index = self.index_segments(pages_bytes) + self.checkpoint_segments(pages_bytes);
        2 + self.gc_reserve() + index + tail_rewrite
    }

    /// Segments that a blank device needs so that a database on it takes a write: one of the longest key, whose value is in the index.
    pub(crate) fn segments_min(&self) -> u64 {
        let value = to_usize(self.settings.options.inline_bytes);
        let pages_bytes = pages_of_new(KEY_BYTES_MAX, u64::MAX, value);
        let reserve = RecoveryReserve {
            log_bytes: record_bytes(KEY_BYTES_MAX, value) as u64,
            extent_bytes: 0,
        };
        self.set_aside(pages_bytes, reserve) + DATA_SEGMENTS_MIN
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
        let needs_checkpoint = |it: &Segment| it.free_pending || (first..now).contains(&it.logical);
        let log = self
            .segments
            .dead(Use::Log)
            .filter(|(_, segment)| segment.logical != 0 && needs_checkpoint(segment))
            .count();
        let dead = (log + self.dead_extents().count()) as u64;
        self.maintenance.dead.set((key, dead));
        dead.saturating_sub(self.maintenance.freeing)
    }

    /// Segments beyond their floor that are kept free for clients while space is made. Each lies idle that could have kept a victim of garbage collection
    /// for longer, and what is idle decides how much garbage collection moves.
    pub(crate) fn free_target(&self) -> u64 {
        (u64::from(self.segments.count()) / 16).max(2)
    }

    /// How many segments fewer than the target are free for clients, or will be when those are done who read them; 0 if enough are.
    pub(crate) fn shortage(&self) -> u64 {
        let free_target = self.free_target().max(self.maintenance.stalled_for);
        let floor = self.wanted_floor();
        let short = match self.segments.free_above(floor) {
            Some(free) => free_target.saturating_sub(free),
            None => free_target + floor - self.segments.lasting_count(),
        };
        short.saturating_sub(self.segments.draining_count())
    }

    /// What an opening after a crash has to find, with what a client waits to write.
    pub(crate) fn wanted_floor(&self) -> u64 {
        self.user_floor() + self.maintenance.stalled_tail_rewrite
    }

    /// Whether so many segments may be taken so that an opening after a crash has so many.
    pub(crate) fn leaves_free(&self, floor: u64, taken: u64) -> bool {
        self.segments
            .free_above(floor)
            .is_some_and(|free| free >= taken)
    }

    /// A checkpoint may write the whole index, so it has to free this many segments to be worth its cost. Garbage
    /// collection goes on until it can. Where there is little room beside the live data, half of that is enough.
    pub(crate) fn worth_a_checkpoint(&self) -> u64 {
        let count = u64::from(self.segments.count());
        let live = self.live_bytes();
        let taken = self.user_floor() + live.div_ceil(self.geometry.payload_bytes());
        let room = count.saturating_sub(taken);
        self.shortage().max(count / 8).min((room / 2).max(2))
    }

    /// Whether clients may soon have to wait for space: of what is kept free for them a quarter is left.
    pub(crate) fn is_pressed(&self) -> bool {
        let left = self.free_target().div_ceil(4);
        self.maintenance.is_stalled() || !self.leaves_free(self.user_floor(), left)
    }
}
