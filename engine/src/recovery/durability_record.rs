//! What lies beyond the end of the chain, and what it says about what should be there.
//!
//! A statement that something is durable is true wherever it is found, so a look at more places can only find more
//! damage. The places are those where the log would have gone on. First, behind the end, as far as headers lead. Then,
//! since the next header may be the missing one, the segments that were next to be used.

use std::collections::BTreeSet;

use crate::api::error::Error;
use crate::format::damage::Mismatch;
use crate::format::frame::FrameHeader;
use crate::format::segment::SegmentHeader;
use crate::format::to_usize;
use crate::recovery::loaded::Loaded;
use crate::recovery::replay::{LOOKS, Replay};
use crate::runtime::handle::Io;

/// How many free segments of each kind are looked at. The kinds: the lowest that only the log says are free, which are
/// used first; the lowest of all, which are used next; and the lowest behind the missing part of the log. The last were
/// the lowest when that part was written, if a checkpoint has freed others since.
const FREE_SEGMENTS: usize = 8;

impl Replay<'_> {
    /// The highest durable position that any whole structure of the current epoch from `lsn` on states. Looks at the rest
    /// of the segment and at those that follow, as far as their headers lead, and one beyond.
    ///
    /// It reads anew what replay has read already, and more than once ([`LOOKS`]): a device that answered with something else must not
    /// decide where the log ends. If now the chain does go on, the device contradicts itself, and that is damage, unless it had not returned what is there now.
    /// What was seen beyond the end when the end was found counts as well, whatever the device answers now.
    pub(crate) async fn durability_record_beyond(
        &mut self,
        lsn: u64,
    ) -> Result<Option<u64>, Error> {
        let mut highest = self.stated_in(&self.segment);
        let mut missing = 0;
        for _ in 1..LOOKS {
            let stated;
            (stated, missing) = self.look_beyond(lsn).await?;
            highest = highest.max(stated);
        }
        if highest.is_none_or(|durable| durable <= self.tail.previous_end) {
            highest = highest.max(self.stated_in_free(missing).await?);
        }
        Ok(highest)
    }

    /// One look, and the segment where nothing leads further; see `durability_record_beyond`.
    async fn look_beyond(&mut self, lsn: u64) -> Result<(Option<u64>, u32), Error> {
        let mut highest = None;
        let mut logical = self.geometry.logical(lsn);
        let mut within = self.geometry.within(lsn);
        let mut next = self.tail.next;
        let count = self.handle.with(|core| core.segments.count());
        let mut segment = Loaded::new(if within == 0 { next } else { self.tail.current });
        let last = logical + u64::from(count);
        while logical < last {
            segment
                .load(self.handle, &self.geometry, self.geometry.segment_bytes)
                .await?;
            highest = highest.max(self.stated_in(&segment));
            let base = logical * self.geometry.segment_bytes;
            let mut linked = within != 0;
            if within == 0
                && let Ok(header) =
                    SegmentHeader::decode(&self.id, logical, segment.physical, segment.from(0))
                && header.epoch >= self.superblock.epoch
            {
                self.check_superblock_epoch(header.epoch, segment.physical, 0)?;
                if header.previous_end == self.tail.previous_end
                    && header.previous_checksum == self.tail.previous_checksum
                {
                    return Err(self.contradiction(base, segment.physical, 0));
                }
                highest = highest.max(Some(header.durable));
                next = header.next;
                linked = true;
            }
            while within < self.geometry.segment_bytes {
                let room = self.geometry.segment_bytes - within;
                if let Ok(header) =
                    FrameHeader::decode(&self.id, base + within, room, segment.from(within))
                    && header.epoch >= self.superblock.epoch
                {
                    self.check_superblock_epoch(header.epoch, segment.physical, within)?;
                    if base + within == self.tail.lsn && self.goes_on(&header, segment.from(within))
                    {
                        return Err(self.contradiction(header.lsn, segment.physical, within));
                    }
                }
                within += self.geometry.block_bytes;
            }
            if !linked || next >= count {
                break;
            }
            std::mem::replace(&mut segment, Loaded::new(next)).done(self.handle);
            logical += 1;
            within = 0;
        }
        let missing = segment.physical;
        segment.done(self.handle);
        Ok((highest, missing))
    }

    /// The highest durable position that parts of the log in free segments state. These parts lie behind a missing part
    /// that would lead to them, or are reachable from others behind it.
    async fn stated_in_free(&self, missing: u32) -> Result<Option<u64>, Error> {
        let (geometry, handle) = (&self.geometry, self.handle);
        let (count, mut looked_at): (u32, BTreeSet<u32>) = handle.with(|core| {
            let log_freed = core.segments.log_freed().take(FREE_SEGMENTS);
            let lowest = |from| core.segments.free_from(from).take(FREE_SEGMENTS);
            let all = log_freed.chain(lowest(0)).chain(lowest(missing + 1));
            (core.segments.count(), all.collect())
        });
        let first_block =
            |physical: &u32| handle.read(geometry.segment_offset(*physical), geometry.block_bytes);
        let reads: Vec<Io> = looked_at.iter().map(first_block).collect();
        let mut parts = Vec::new();
        for (physical, read) in looked_at.iter().zip(reads) {
            parts.extend(self.part_behind_tail(*physical, read).await?);
        }
        let mut highest = None;
        while let Some(part) = parts.pop() {
            let mut segment = Loaded::new(part.physical);
            segment
                .load(handle, geometry, geometry.segment_bytes)
                .await?;
            highest = highest
                .max(Some(part.durable))
                .max(self.stated_in(&segment));
            segment.done(handle);
            if part.next < count && looked_at.insert(part.next) {
                let read = first_block(&part.next);
                parts.extend(self.part_behind_tail(part.next, read).await?);
            }
        }
        Ok(highest)
    }

    /// The header of the part of the log in this segment, if there is one and it belongs behind the tail. `read` reads its first block.
    async fn part_behind_tail(
        &self,
        physical: u32,
        read: Io,
    ) -> Result<Option<SegmentHeader>, Error> {
        let (geometry, handle) = (&self.geometry, self.handle);
        let offset = geometry.segment_offset(physical);
        let Ok(block) = handle.retry(read, offset, geometry.block_bytes).await else {
            return Ok(None);
        };
        let header = SegmentHeader::decode_any(&self.id, physical, &block);
        handle.give(block);
        let header = header.filter(|header| header.epoch >= self.superblock.epoch);
        if let Some(header) = &header {
            self.check_superblock_epoch(header.epoch, physical, 0)?;
        }
        // Where the log ends with its segment, the part that is missing is the one that begins there.
        let tail = geometry.logical(self.tail.lsn.saturating_sub(1));
        Ok(header.filter(|header| header.logical > tail))
    }

    /// The highest durable position that any header of the current epoch states in these bytes of a segment, wherever
    /// the header was meant to be. A misdirected write is no part of the log, but its statement was true.
    fn stated_in(&self, segment: &Loaded) -> Option<u64> {
        let sectors = (0..segment.len()).step_by(to_usize(self.geometry.sector_bytes));
        let headers =
            sectors.filter_map(|at| FrameHeader::decode_misplaced(&self.id, segment.from(at)));
        headers
            .filter(|header| header.epoch == self.superblock.epoch)
            .map(|header| header.durable)
            .max()
    }

    fn contradiction(&self, lsn: u64, physical: u32, within: u64) -> Error {
        let mismatch = Mismatch {
            what: "a part of the log that was not there when it was read before",
            expected: 0,
            found: lsn,
        };
        self.refusal(mismatch.at(self.geometry.segment_offset(physical) + within))
    }

    /// Whether this is the whole next frame of the chain.
    fn goes_on(&self, header: &FrameHeader, bytes: &[u8]) -> bool {
        self.check_chain(header).is_ok() && header.check_body(&self.id, bytes).is_ok()
    }

    /// An epoch beyond the superblock's means that every copy of a later superblock is gone.
    fn check_superblock_epoch(&self, epoch: u64, physical: u32, within: u64) -> Result<(), Error> {
        let offset = self.geometry.segment_offset(physical) + within;
        Mismatch::check(
            "epoch, later than every superblock's",
            self.superblock.epoch,
            epoch,
        )
        .map_err(|mismatch| mismatch.at(offset).into())
    }
}
