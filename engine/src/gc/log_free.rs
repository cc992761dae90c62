//! Freeing through the log: a record of the log frees a segment in which nothing is live any more, between checkpoints.
//! A checkpoint frees such segments too, but has to write the whole index.
//!
//! Invariants:
//! - only segments before the replay start of the published superblock are freed, so no replay reads them;
//! - the record follows, in the log, all records that overwrote, deleted or moved the segment's contents. A replay that sees
//!   the record has seen those, and nothing refers to the segment;
//! - the segment is used again only when its record is proven: something durable states a position beyond the record. Before
//!   that, a recovery would ignore the moves of garbage collection and need the moved records at their old places;
//! - an opening does not use the segment before a superblock states that position. The proof of the record may be in
//!   the device's cache only, and vanish. So the segments that are kept for openings are others
//!   (`Segments::free_above`). Where these run short, the superblock is republished with the present durable position:
//!   a few blocks, where a checkpoint writes the index;
//! - the segment is not used while a checkpoint is being written that began before the record, since that checkpoint
//!   lists it as part of the log.

use crate::api::coverage::CoveragePoint;
use crate::api::port::Level;
use crate::checkpoint::superblocks::republish;
use crate::core::{Core, Phase};
use crate::format::record::{RecordKind, record_bytes};
use crate::gc::state::Leaving;
use crate::mutant::{Mutant, mutant};
use crate::runtime::handle::Handle;
use crate::segments::space::logical_start;
use crate::segments::usage::Use;

/// With fewer blocks for records in a segment it is left to checkpoints: the record, and what proves it, take a block each.
const SEGMENT_BLOCKS_MIN: u64 = 15;

/// Bytes of the record.
const FREE_SEGMENT_BYTES: usize = record_bytes(8, 4);

impl Core {
    /// Dead segments that can be released, or are on their way.
    pub(crate) fn coming_free(&self) -> u64 {
        self.maintenance.leaving.len() as u64 + self.log_freeable().count() as u64
    }

    /// Dead segments before the replay start, which no checkpoint under way will free.
    fn log_freeable(&self) -> impl Iterator<Item = (u32, u64)> {
        let first = logical_start(self);
        let is_worth_it =
            self.geometry.payload_bytes() >= SEGMENT_BLOCKS_MIN * self.geometry.block_bytes;
        self.segments
            .dead(Use::Log)
            .filter(move |(_, it)| {
                is_worth_it && it.logical != 0 && it.logical < first && !it.free_pending
            })
            .map(|(physical, it)| (physical, it.logical))
    }

    /// Frees what has become provably free, and releases more if space is wanted.
    pub(crate) fn log_free(&mut self) {
        if self.phase != Phase::Running || self.poisoned.is_some() {
            return;
        }
        while let Some(leaving) = self.maintenance.leaving.front().copied()
            && self.may_be_used_again(leaving)
        {
            self.maintenance.leaving.pop_front();
            self.segments.free_logged(leaving.physical, leaving.lsn);
            self.stats.log_freed_segments += 1;
            // There is room again to move something to.
            self.maintenance.gc_futile = false;
            self.activity += 1;
        }
        if self.shortage() == 0 || self.maintenance.looked_at == self.segments.changes {
            return;
        }
        for (physical, logical) in self.log_freeable().collect::<Vec<_>>() {
            if self.log.needs_segment(FREE_SEGMENT_BYTES) && !self.leaves_free(self.gc_floor(), 1) {
                self.maintenance.log_free_stuck = !self.maintenance.checkpointing;
                return;
            }
            self.log.make_room(&mut self.segments, FREE_SEGMENT_BYTES);
            let (key, value) = (logical.to_be_bytes(), physical.to_le_bytes());
            let (lsn, _) = self.log.append(RecordKind::FreeSegment, 0, &key, &value);
            self.segments.get_mut(physical).leaving = true;
            self.maintenance
                .leaving
                .push_back(Leaving { lsn, physical });
            self.note_relaxed();
        }
        self.maintenance.looked_at = self.segments.changes;
    }

    fn may_be_used_again(&self, leaving: Leaving) -> bool {
        let proven = self.log.proven > leaving.lsn || mutant(Mutant::LogFreedUnproven);
        proven && (!self.maintenance.checkpointing || leaving.lsn < self.maintenance.began_at_lsn)
    }

    /// Whether an opening would have what it needs if it could use what is released.
    pub(crate) fn log_freed_would_last(&self) -> bool {
        self.segments.log_freed_count() > 0 && !self.leaves_free(self.wanted_floor(), 0)
    }

    /// Nothing is published beside it. It frees nothing, so releases go on.
    pub(crate) fn begin_republishing(&mut self) {
        self.maintenance.checkpointing = true;
        self.maintenance.began_at_lsn = u64::MAX;
        self.activity += 1;
    }

    /// Has the records of segments freed through the log proven soon, where clients may have to wait for space.
    pub(crate) fn hurry_log_free(&mut self) {
        let Some(last) = self.maintenance.leaving.back().copied() else {
            return;
        };
        if self.log.proven > last.lsn || self.poisoned.is_some() || !self.is_pressed() {
            return;
        }
        if !self.log.is_durable_to(last.lsn) {
            return self.want_durable(last.lsn);
        }
        // Whatever is sealed from now on states that.
        let idle = self.log.open.is_none() && self.log.frames.is_empty();
        if !idle || (self.may_mark() && self.log.mark(&mut self.segments)) {
            self.want_durable(self.log.end() - 1);
        } else if !self.maintenance.checkpointing && !self.maintenance.log_free_stuck {
            self.maintenance.log_free_stuck = true;
            self.activity += 1;
        }
    }
}

/// Has the superblock state what is durable by now, so that openings can use what the log has released.
pub(crate) async fn republish_log_freed(handle: Handle) {
    let result = republish(&handle).await;
    handle.with(|core| {
        core.maintenance.checkpointing = false;
        core.activity += 1;
        match result {
            Ok(()) => {
                core.stats.republications += 1;
                core.reached(CoveragePoint::SuperblockRepublished);
            }
            Err(error) => core.log_line(
                Level::Error,
                format!("what is durable could not be stated: {error}"),
            ),
        }
    });
}
