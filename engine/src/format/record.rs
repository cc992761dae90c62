//! The record: one put, delete, relocation or release. Every record can be verified alone, so that a read of a value needs no frame.
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 8 | checksum of the rest of the record, seeded by its LSN |
//! | 8 | 8 | sequence number |
//! | 16 | 1 | kind: 1 put, 2 delete, 3 put of a pointer to extents, 4 relocated value, 5 relocated pointer, 6 release; of a version that was not the newest of its key: 7 relocated value, 8 relocated pointer |
//! | 17 | 1 | zero |
//! | 18 | 2 | key bytes |
//! | 20 | 4 | value bytes (of the pointer, for kinds 3, 5 and 8) |
//! | 24 | | key, value |
//!
//! A record of kind 6 frees a segment of the log: its key is the segment's number, big-endian, its value the physical
//! one, little-endian. Its sequence number is zero. See `log_free.rs`.
//!
//! A relocation carries the sequence number of the version it moves. One of a version that only a snapshot reads has a kind
//! of its own: no snapshot outlives its process run, so replay does nothing with it. All others are of the newest version
//! that the key had at that position of the log. So replay makes that the newest version, whether it knows of the key or not.

use super::{KEY_BYTES_MAX, get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
use crate::format::checksum::{Identity, Kind};
use crate::format::damage::Mismatch;

const CHECKSUM: usize = 0;
const SEQUENCE: usize = CHECKSUM + 8;
const KIND: usize = SEQUENCE + 8;
const KEY_BYTES: usize = KIND + 2;
const VALUE_BYTES: usize = KEY_BYTES + 2;
pub(crate) const RECORD_HEADER_BYTES: usize = VALUE_BYTES + 4;
const _: () = assert!(RECORD_HEADER_BYTES == 24);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RecordKind {
    Put = 1,
    Delete = 2,
    PutExtent = 3,
    MoveValue = 4,
    MoveExtent = 5,
    FreeSegment = 6,
    MoveOlderValue = 7,
    MoveOlderExtent = 8,
}

impl RecordKind {
    fn from_byte(byte: u8) -> Option<RecordKind> {
        Some(match byte {
            1 => RecordKind::Put,
            2 => RecordKind::Delete,
            3 => RecordKind::PutExtent,
            4 => RecordKind::MoveValue,
            5 => RecordKind::MoveExtent,
            6 => RecordKind::FreeSegment,
            7 => RecordKind::MoveOlderValue,
            8 => RecordKind::MoveOlderExtent,
            _ => return None,
        })
    }

    /// Whether it is a commit, with a sequence number of its own.
    pub(crate) fn is_commit(self) -> bool {
        matches!(
            self,
            RecordKind::Put | RecordKind::Delete | RecordKind::PutExtent
        )
    }

    /// Whether the value lies in the record.
    pub(crate) fn has_value(self) -> bool {
        matches!(
            self,
            RecordKind::Put | RecordKind::MoveValue | RecordKind::MoveOlderValue
        )
    }

    /// Whether it points to extents.
    pub(crate) fn has_pointer(self) -> bool {
        matches!(
            self,
            RecordKind::PutExtent | RecordKind::MoveExtent | RecordKind::MoveOlderExtent
        )
    }
}

/// Bytes of a record with a key and a value of these lengths.
pub(crate) const fn record_bytes(key_bytes: usize, value_bytes: usize) -> usize {
    RECORD_HEADER_BYTES + key_bytes + value_bytes
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) lsn: u64,
    pub(crate) checksum: u64,
    pub(crate) sequence: u64,
    pub(crate) kind: RecordKind,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// The part of a record's checksum that a reference to it holds.
pub(crate) fn tag(checksum: u64) -> u32 {
    u32::try_from(checksum & 0xffff_ffff).expect("masked")
}

/// Writes a record for `lsn` at the start of `out`; returns its checksum.
pub(crate) fn encode(
    id: &Identity,
    lsn: u64,
    kind: RecordKind,
    sequence: u64,
    key: &[u8],
    value: &[u8],
    out: &mut [u8],
) -> u64 {
    let end = record_bytes(key.len(), value.len());
    let out = &mut out[..end];
    put_u64(out, SEQUENCE, sequence);
    out[KIND] = kind as u8;
    out[KIND + 1] = 0;
    put_u16(
        out,
        KEY_BYTES,
        u16::try_from(key.len()).expect("keys are at most 1024 bytes"),
    );
    put_u32(out, VALUE_BYTES, super::len32(value.len()));
    out[RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + key.len()].copy_from_slice(key);
    out[RECORD_HEADER_BYTES + key.len()..].copy_from_slice(value);
    let checksum = id.checksum(Kind::Record, 0, lsn, &out[SEQUENCE..]);
    put_u64(out, CHECKSUM, checksum);
    checksum
}

/// Whether the record at `lsn` with this tag holds this version of this key: as it was put, or as it was moved. `scratch` is used for it, whatever it
/// holds.
pub(crate) fn is_value_of(
    id: &Identity,
    (lsn, expected): (u64, u32),
    sequence: u64,
    key: &[u8],
    value: &[u8],
    scratch: &mut Vec<u8>,
) -> bool {
    scratch.resize(record_bytes(key.len(), value.len()), 0);
    let kinds = [
        RecordKind::Put,
        RecordKind::MoveValue,
        RecordKind::MoveOlderValue,
    ];
    kinds
        .into_iter()
        .any(|kind| tag(encode(id, lsn, kind, sequence, key, value, scratch)) == expected)
}

/// Parses the record at the start of `bytes`, without its checksum: for records of a frame whose body was checked.
pub(crate) fn parse(lsn: u64, bytes: &[u8]) -> Result<(Record<'_>, usize), Mismatch> {
    let short = |expected: usize| Mismatch {
        what: "record length",
        expected: expected as u64,
        found: bytes.len() as u64,
    };
    if bytes.len() < RECORD_HEADER_BYTES {
        return Err(short(RECORD_HEADER_BYTES));
    }
    let kind = RecordKind::from_byte(bytes[KIND]).ok_or(Mismatch {
        what: "record kind",
        expected: RecordKind::Put as u64,
        found: bytes[KIND].into(),
    })?;
    let key_bytes = usize::from(get_u16(bytes, KEY_BYTES));
    if key_bytes == 0 || key_bytes > KEY_BYTES_MAX {
        return Err(Mismatch {
            what: "record key length",
            expected: KEY_BYTES_MAX as u64,
            found: key_bytes as u64,
        });
    }
    let value_bytes = get_u32(bytes, VALUE_BYTES) as usize;
    let value_start = RECORD_HEADER_BYTES + key_bytes;
    let end = value_start
        .checked_add(value_bytes)
        .filter(|end| *end <= bytes.len());
    let end = end.ok_or_else(|| short(value_start.saturating_add(value_bytes)))?;
    let record = Record {
        lsn,
        checksum: get_u64(bytes, CHECKSUM),
        sequence: get_u64(bytes, SEQUENCE),
        kind,
        key: &bytes[RECORD_HEADER_BYTES..value_start],
        value: &bytes[value_start..end],
    };
    Ok((record, end))
}

/// Parses and verifies the record that must be the whole of `bytes`.
pub(crate) fn verify<'a>(id: &Identity, lsn: u64, bytes: &'a [u8]) -> Result<Record<'a>, Mismatch> {
    let (record, end) = parse(lsn, bytes)?;
    Mismatch::check("record length", bytes.len() as u64, end as u64)?;
    Mismatch::check(
        "record checksum",
        record.checksum,
        id.checksum(Kind::Record, 0, lsn, &bytes[SEQUENCE..end]),
    )?;
    Ok(record)
}

/// Makes the checksum of a record right again.
#[cfg(test)]
pub(crate) fn reseal(id: &Identity, lsn: u64, record: &mut [u8]) {
    let checksum = id.checksum(Kind::Record, 0, lsn, &record[SEQUENCE..]);
    put_u64(record, CHECKSUM, checksum);
}

/// The records of a frame's body. Ends after the first error.
#[derive(Clone)]
pub(crate) struct Records<'a> {
    body: &'a [u8],
    at: usize,
    lsn: u64,
}

impl<'a> Records<'a> {
    /// `lsn` is the position of the body's first byte.
    pub(crate) fn new(lsn: u64, body: &'a [u8]) -> Self {
        Records { body, at: 0, lsn }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Mismatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.body.len() {
            return None;
        }
        match parse(self.lsn + self.at as u64, &self.body[self.at..]) {
            Ok((record, bytes)) => {
                self.at += bytes;
                Some(Ok(record))
            }
            Err(mismatch) => {
                self.at = self.body.len();
                Some(Err(mismatch))
            }
        }
    }
}
