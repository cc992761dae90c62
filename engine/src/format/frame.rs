//! The commit frame: what one write of the log holds. It starts on a block and never spans a segment.
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 4 | magic `KVFR` |
//! | 4 | 2 | format version |
//! | 6 | 2 | flags: bit 0, some record points to extents |
//! | 8 | 16 | database id |
//! | 24 | 8 | epoch |
//! | 32 | 8 | LSN of this header |
//! | 40 | 4 | body bytes |
//! | 44 | 4 | records |
//! | 48 | 8 | first sequence number: that of its first put or delete, or of the next one if it holds none |
//! | 56 | 8 | header checksum of the frame before |
//! | 64 | 8 | known durable LSN when this was issued |
//! | 72 | 8 | body checksum, seeded by epoch and LSN |
//! | 80 | 8 | header checksum: of bytes 0..80, likewise seeded; it ties the body to the header |
//! | 88 | | body: records, one after the other; then zeroes up to the next block |

use super::{Geometry, VERSION, get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
use crate::format::checksum::{Identity, Kind};
use crate::format::damage::Mismatch;
use crate::mutant::{Mutant, mutant};

const MAGIC: usize = 0;
const FORMAT_VERSION: usize = MAGIC + 4;
const FLAGS: usize = FORMAT_VERSION + 2;
const DB_ID: usize = FLAGS + 2;
const EPOCH: usize = DB_ID + 16;
const LSN: usize = EPOCH + 8;
const BODY_BYTES: usize = LSN + 8;
const RECORDS: usize = BODY_BYTES + 4;
const FIRST_SEQUENCE: usize = RECORDS + 4;
const PREVIOUS_CHECKSUM: usize = FIRST_SEQUENCE + 8;
const DURABLE: usize = PREVIOUS_CHECKSUM + 8;
const BODY_CHECKSUM: usize = DURABLE + 8;
const HEADER_CHECKSUM: usize = BODY_CHECKSUM + 8;
pub(crate) const FRAME_HEADER_BYTES: usize = HEADER_CHECKSUM + 8;
const _: () = assert!(FRAME_HEADER_BYTES == 88 && FRAME_HEADER_BYTES <= 512);

const MAGIC_VALUE: u32 = u32::from_le_bytes(*b"KVFR");
const FLAG_EXTENTS: u16 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) epoch: u64,
    pub(crate) lsn: u64,
    pub(crate) body_bytes: u32,
    pub(crate) records: u32,
    pub(crate) first_sequence: u64,
    pub(crate) previous_checksum: u64,
    pub(crate) durable: u64,
    pub(crate) has_extents: bool,
    pub(crate) body_checksum: u64,
    pub(crate) header_checksum: u64,
}

impl FrameHeader {
    /// Bytes of header and body, without the padding.
    pub(crate) fn total_bytes(&self) -> u64 {
        FRAME_HEADER_BYTES as u64 + u64::from(self.body_bytes)
    }

    /// Writes the header before the body that already stands in `frame`; both checksums are computed here.
    pub(crate) fn seal(mut self, id: &Identity, frame: &mut [u8]) -> FrameHeader {
        let body = &frame[FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + self.body_bytes as usize];
        self.body_checksum = id.checksum(Kind::FrameBody, self.epoch, self.lsn, body);
        put_u32(frame, MAGIC, MAGIC_VALUE);
        put_u16(frame, FORMAT_VERSION, VERSION);
        put_u16(
            frame,
            FLAGS,
            if self.has_extents { FLAG_EXTENTS } else { 0 },
        );
        frame[DB_ID..DB_ID + 16].copy_from_slice(&id.db_id);
        put_u64(frame, EPOCH, self.epoch);
        put_u64(frame, LSN, self.lsn);
        put_u32(frame, BODY_BYTES, self.body_bytes);
        put_u32(frame, RECORDS, self.records);
        put_u64(frame, FIRST_SEQUENCE, self.first_sequence);
        put_u64(frame, PREVIOUS_CHECKSUM, self.previous_checksum);
        put_u64(frame, DURABLE, self.durable);
        put_u64(frame, BODY_CHECKSUM, self.body_checksum);
        self.header_checksum = id.checksum(
            Kind::FrameHeader,
            self.epoch,
            self.lsn,
            &frame[..HEADER_CHECKSUM],
        );
        put_u64(frame, HEADER_CHECKSUM, self.header_checksum);
        self
    }

    /// Makes the checksums of a frame at `lsn` right again, and names the one before; returns its own.
    #[cfg(test)]
    pub(crate) fn reseal(id: &Identity, lsn: u64, previous: u64, frame: &mut [u8]) -> u64 {
        put_u64(frame, PREVIOUS_CHECKSUM, previous);
        let epoch = get_u64(frame, EPOCH);
        let body = &frame[FRAME_HEADER_BYTES..];
        let body = &body[..body.len().min(get_u32(frame, BODY_BYTES) as usize)];
        let body = id.checksum(Kind::FrameBody, epoch, lsn, body);
        put_u64(frame, BODY_CHECKSUM, body);
        let checksum = id.checksum(Kind::FrameHeader, epoch, lsn, &frame[..HEADER_CHECKSUM]);
        put_u64(frame, HEADER_CHECKSUM, checksum);
        checksum
    }

    /// What is written where the length of header and body would be; nothing of it was checked.
    pub(crate) fn claimed_bytes(bytes: &[u8]) -> u64 {
        FRAME_HEADER_BYTES as u64 + u64::from(get_u32(bytes, BODY_BYTES))
    }

    /// The same wherever it lies, at the position that it names itself.
    pub(crate) fn decode_misplaced(id: &Identity, bytes: &[u8]) -> Option<FrameHeader> {
        let lsn = get_u64(bytes.get(..FRAME_HEADER_BYTES)?, LSN);
        FrameHeader::decode(id, lsn, u64::MAX, bytes).ok()
    }

    /// Parses the header of a frame at `lsn`; `room` is what is left of its segment from there.
    pub(crate) fn decode(
        id: &Identity,
        lsn: u64,
        room: u64,
        bytes: &[u8],
    ) -> Result<FrameHeader, Mismatch> {
        if bytes.len() < FRAME_HEADER_BYTES {
            let found = bytes.len() as u64;
            return Err(Mismatch {
                what: "frame header length",
                expected: FRAME_HEADER_BYTES as u64,
                found,
            });
        }
        Mismatch::check(
            "frame magic",
            MAGIC_VALUE.into(),
            get_u32(bytes, MAGIC).into(),
        )?;
        Mismatch::check(
            "frame version",
            VERSION.into(),
            get_u16(bytes, FORMAT_VERSION).into(),
        )?;
        Mismatch::check(
            "frame database",
            get_u64(&id.db_id, 0),
            get_u64(bytes, DB_ID),
        )?;
        Mismatch::check(
            "frame database",
            get_u64(&id.db_id, 8),
            get_u64(bytes, DB_ID + 8),
        )?;
        Mismatch::check("frame position", lsn, get_u64(bytes, LSN))?;
        let epoch = get_u64(bytes, EPOCH);
        let checksum = id.checksum(Kind::FrameHeader, epoch, lsn, &bytes[..HEADER_CHECKSUM]);
        Mismatch::check(
            "frame header checksum",
            get_u64(bytes, HEADER_CHECKSUM),
            checksum,
        )?;
        let header = FrameHeader {
            epoch,
            lsn,
            body_bytes: get_u32(bytes, BODY_BYTES),
            records: get_u32(bytes, RECORDS),
            first_sequence: get_u64(bytes, FIRST_SEQUENCE),
            previous_checksum: get_u64(bytes, PREVIOUS_CHECKSUM),
            durable: get_u64(bytes, DURABLE),
            has_extents: get_u16(bytes, FLAGS) & FLAG_EXTENTS != 0,
            body_checksum: get_u64(bytes, BODY_CHECKSUM),
            header_checksum: checksum,
        };
        if header.total_bytes() > room {
            return Err(Mismatch {
                what: "frame length",
                expected: room,
                found: header.total_bytes(),
            });
        }
        if header.durable > lsn {
            return Err(Mismatch {
                what: "frame durable position",
                expected: lsn,
                found: header.durable,
            });
        }
        Ok(header)
    }

    /// Checks the body that follows the header in `frame`.
    pub(crate) fn check_body<'a>(
        &self,
        id: &Identity,
        frame: &'a [u8],
    ) -> Result<&'a [u8], Mismatch> {
        let end = FRAME_HEADER_BYTES + self.body_bytes as usize;
        let body = frame.get(FRAME_HEADER_BYTES..end).ok_or(Mismatch {
            what: "frame body length",
            expected: end as u64,
            found: frame.len() as u64,
        })?;
        let found = id.checksum(Kind::FrameBody, self.epoch, self.lsn, body);
        if !mutant(Mutant::BodyNotTied) {
            Mismatch::check("frame body checksum", self.body_checksum, found)?;
        }
        Ok(body)
    }
}

/// A record of so many bytes at this position lies in one frame of its segment. Whatever an entry of the index says, no more is read.
pub(crate) fn check_record_place(
    geometry: &Geometry,
    lsn: u64,
    record_bytes: u64,
) -> Result<(), Mismatch> {
    let within = geometry.within(lsn);
    let first = geometry.block_bytes + FRAME_HEADER_BYTES as u64;
    match within >= first && within + record_bytes <= geometry.segment_bytes {
        true => Ok(()),
        false => Err(Mismatch {
            what: "value beyond its segment",
            expected: first,
            found: within,
        }),
    }
}
