//! What lies beyond the end of the chain, and what it says about what should be there.

use crate::error::{Error, Mismatch};
use crate::format::frame::FrameHeader;
use crate::format::segment::SegmentHeader;
use crate::format::to_usize;
use crate::loaded::Loaded;
use crate::replay::Replay;

impl Replay<'_> {
    /// The highest durable position that any whole structure of the current epoch from `lsn` on states. Looks at the rest
    /// of the segment and at those that follow, as far as their headers lead, and one beyond.
    ///
    /// It reads anew what replay has read already: a device that once answered with something else must not decide alone where
    /// the log ends. If now the chain does go on, the device contradicts itself, and that is damage. What was seen beyond the end
    /// when the end was found counts as well, whatever the device answers now.
    pub(crate) async fn evidence_beyond(&mut self, lsn: u64) -> Result<Option<u64>, Error> {
        let mut highest = self.stated_in(&self.segment);
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
        segment.done(self.handle);
        Ok(highest)
    }

    /// The highest durable position that any header of the current epoch states in these bytes of a segment, wherever it was meant
    /// to be: a write that went astray is no part of the log, but what it says was so.
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
        mismatch
            .at(self.geometry.segment_offset(physical) + within)
            .into()
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
