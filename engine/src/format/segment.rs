//! The header of a log segment: its first block, written together with the segment's first frame. It is the link from
//! the previous segment (whose header names this one's physical index) and proves that nothing was skipped.
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 4 | magic `KVSG` |
//! | 4 | 2 | format version |
//! | 6 | 2 | class: 1 log |
//! | 8 | 16 | database id |
//! | 24 | 8 | epoch in which it was opened |
//! | 32 | 8 | logical number: LSN of its first byte / segment bytes |
//! | 40 | 4 | physical index of this segment |
//! | 44 | 4 | physical index of the next segment of the log, already reserved |
//! | 48 | 8 | end LSN of the last frame of the segment before |
//! | 56 | 8 | that frame's header checksum |
//! | 64 | 8 | known durable LSN when this was written |
//! | 72 | 8 | checksum of bytes 0..72, seeded by epoch and LSN |
//!
//! Extents and checkpoint pages fill segments without a header. The references to them name their device offset and
//! hold their checksum, so nothing in these segments is ever found by searching.

use super::{VERSION, get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
use crate::format::checksum::{Identity, Kind};
use crate::format::damage::Mismatch;

const MAGIC: usize = 0;
const FORMAT_VERSION: usize = MAGIC + 4;
const CLASS: usize = FORMAT_VERSION + 2;
const DB_ID: usize = CLASS + 2;
const EPOCH: usize = DB_ID + 16;
const LOGICAL: usize = EPOCH + 8;
const PHYSICAL: usize = LOGICAL + 8;
const NEXT: usize = PHYSICAL + 4;
const PREVIOUS_END: usize = NEXT + 4;
const PREVIOUS_CHECKSUM: usize = PREVIOUS_END + 8;
const DURABLE: usize = PREVIOUS_CHECKSUM + 8;
const CHECKSUM: usize = DURABLE + 8;
pub(crate) const SEGMENT_HEADER_BYTES: usize = CHECKSUM + 8;
const _: () = assert!(SEGMENT_HEADER_BYTES == 80);

const MAGIC_VALUE: u32 = u32::from_le_bytes(*b"KVSG");
const CLASS_LOG: u16 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) epoch: u64,
    pub(crate) logical: u64,
    pub(crate) physical: u32,
    pub(crate) next: u32,
    pub(crate) previous_end: u64,
    pub(crate) previous_checksum: u64,
    pub(crate) durable: u64,
}

impl SegmentHeader {
    /// Where the next segment's number stands.
    #[cfg(test)]
    pub(crate) const NEXT_AT: usize = NEXT;

    pub(crate) fn encode(&self, id: &Identity, out: &mut [u8]) {
        put_u32(out, MAGIC, MAGIC_VALUE);
        put_u16(out, FORMAT_VERSION, VERSION);
        put_u16(out, CLASS, CLASS_LOG);
        out[DB_ID..DB_ID + 16].copy_from_slice(&id.db_id);
        put_u64(out, EPOCH, self.epoch);
        put_u64(out, LOGICAL, self.logical);
        put_u32(out, PHYSICAL, self.physical);
        put_u32(out, NEXT, self.next);
        put_u64(out, PREVIOUS_END, self.previous_end);
        put_u64(out, PREVIOUS_CHECKSUM, self.previous_checksum);
        put_u64(out, DURABLE, self.durable);
        let checksum = id.checksum(
            Kind::SegmentHeader,
            self.epoch,
            self.logical,
            &out[..CHECKSUM],
        );
        put_u64(out, CHECKSUM, checksum);
    }

    /// Makes the checksum right again, and names the frame before.
    #[cfg(test)]
    pub(crate) fn reseal(id: &Identity, previous: Option<u64>, out: &mut [u8]) {
        if let Some(previous) = previous {
            put_u64(out, PREVIOUS_CHECKSUM, previous);
        }
        let (epoch, logical) = (get_u64(out, EPOCH), get_u64(out, LOGICAL));
        let checksum = id.checksum(Kind::SegmentHeader, epoch, logical, &out[..CHECKSUM]);
        put_u64(out, CHECKSUM, checksum);
    }

    /// Parses the header of the segment `logical` at `physical`.
    pub(crate) fn decode(
        id: &Identity,
        logical: u64,
        physical: u32,
        bytes: &[u8],
    ) -> Result<SegmentHeader, Mismatch> {
        if bytes.len() < SEGMENT_HEADER_BYTES {
            let found = bytes.len() as u64;
            return Err(Mismatch {
                what: "segment header length",
                expected: SEGMENT_HEADER_BYTES as u64,
                found,
            });
        }
        Mismatch::check(
            "segment magic",
            MAGIC_VALUE.into(),
            get_u32(bytes, MAGIC).into(),
        )?;
        Mismatch::check(
            "segment version",
            VERSION.into(),
            get_u16(bytes, FORMAT_VERSION).into(),
        )?;
        Mismatch::check(
            "segment class",
            CLASS_LOG.into(),
            get_u16(bytes, CLASS).into(),
        )?;
        Mismatch::check(
            "segment database",
            get_u64(&id.db_id, 0),
            get_u64(bytes, DB_ID),
        )?;
        Mismatch::check(
            "segment database",
            get_u64(&id.db_id, 8),
            get_u64(bytes, DB_ID + 8),
        )?;
        Mismatch::check("segment number", logical, get_u64(bytes, LOGICAL))?;
        Mismatch::check(
            "segment index",
            physical.into(),
            get_u32(bytes, PHYSICAL).into(),
        )?;
        let epoch = get_u64(bytes, EPOCH);
        let checksum = id.checksum(Kind::SegmentHeader, epoch, logical, &bytes[..CHECKSUM]);
        Mismatch::check(
            "segment header checksum",
            get_u64(bytes, CHECKSUM),
            checksum,
        )?;
        Ok(SegmentHeader {
            epoch,
            logical,
            physical,
            next: get_u32(bytes, NEXT),
            previous_end: get_u64(bytes, PREVIOUS_END),
            previous_checksum: get_u64(bytes, PREVIOUS_CHECKSUM),
            durable: get_u64(bytes, DURABLE),
        })
    }

    /// Parses the header of whatever part of the log is at `physical`.
    pub(crate) fn decode_any(id: &Identity, physical: u32, bytes: &[u8]) -> Option<SegmentHeader> {
        let logical = get_u64(bytes.get(..SEGMENT_HEADER_BYTES)?, LOGICAL);
        SegmentHeader::decode(id, logical, physical, bytes).ok()
    }
}
