//! A record of the log that is read outside the engine: where it is on the device, and what it has to be.

use std::ops::Range;

use crate::format::checksum::Identity;
use crate::format::record::record_bytes;
use crate::format::{round_up, to_usize};
use crate::index::place::{Place, Version};
use crate::read::value::verify_record;

/// What has to be read failed, or is damaged: the engine has to be asked by a request, which reads again and says what is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CannotRead;

/// A record that has a value, and where it is on the device.
#[derive(Debug)]
pub(super) struct PlacedRecord {
    offset: u64,
    sequence: u64,
    lsn: u64,
    tag: u32,
    value_bytes: usize,
}

impl PlacedRecord {
    /// The record that has the value of this version, if one has, with its offset on the device.
    pub(super) fn new(version: &Version, offset: u64) -> Option<PlacedRecord> {
        let Place::Log {
            lsn,
            value_bytes,
            tag,
        } = version.place
        else {
            return None;
        };
        Some(PlacedRecord {
            offset,
            sequence: version.sequence,
            lsn,
            tag,
            value_bytes: value_bytes as usize,
        })
    }

    /// The sectors of the device that hold it.
    pub(super) fn sectors(&self, key: &[u8], sector_bytes: u64) -> Range<u64> {
        self.offset / sector_bytes * sector_bytes..round_up(self.end(key), sector_bytes)
    }

    /// Where the value lies in what was read of the device from `start` on, if the record is what the index says.
    pub(super) fn find_value(
        &self,
        id: &Identity,
        key: &[u8],
        start: u64,
        read: &[u8],
    ) -> Result<Range<usize>, CannotRead> {
        let from = to_usize(self.offset - start);
        let end = to_usize(self.end(key) - start);
        let record = &read[from..end];
        verify_record(id, self.lsn, key, self.sequence, self.tag, record)
            .map_err(|_| CannotRead)?;
        Ok(end - self.value_bytes..end)
    }

    fn end(&self, key: &[u8]) -> u64 {
        self.offset + record_bytes(key.len(), self.value_bytes) as u64
    }
}
