//! The table of segments that a checkpoint writes: those of the log before the replay start, and those of extents. All others that are in use hold pages, or are of the log
//! behind the replay start; so an opening knows which are free without reading the runs.
//!
//! | key | payload |
//! | --- | --- |
//! | number of a segment of the log, 8 bytes, big-endian | physical index 4, used bytes 4 |
//! | for a segment of extents: 255, then its physical index, 4 bytes, big-endian | used bytes 4 |
//!
//! Numbers of the log are below 2^62, so the segments of extents come last.

use std::collections::BTreeSet;

use crate::checkpoint::pages::PageSink;
use crate::checkpoint::tree::TreeWriter;
use crate::core::Core;
use crate::format::damage::Mismatch;
use crate::format::get_u32;
use crate::format::page::{PageRef, Tree};
use crate::mutant::{Mutant, mutant};
use crate::segments::usage::Use;

/// The first byte of a key of extents.
const EXTENTS: u8 = 255;

/// The segments that stay, with the bytes used of each.
pub(super) struct Table {
    /// Number in the log, and physical index.
    log: Vec<(u64, u32, u32)>,
    /// Physical index.
    extents: Vec<(u32, u32)>,
}

impl Table {
    /// Of a checkpoint that frees these segments, and behind which a replay starts in the segment of the log with this number.
    pub(super) fn new(core: &Core, first: u64, to_free: &[u32]) -> Table {
        let mut table = Table {
            log: Vec::new(),
            extents: Vec::new(),
        };
        for (logical, physical) in core.segments.log.range(..first) {
            let segment = core.segments.get(*physical);
            // Something may be live in it that is not loaded yet.
            if segment.live_bytes > 0 || core.loading.is_some() {
                table.log.push((*logical, *physical, segment.end));
            }
        }
        if mutant(Mutant::TableIncomplete) {
            table.log.pop();
        }
        let to_free: BTreeSet<u32> = to_free.iter().copied().collect();
        for (physical, segment) in core.segments.iter() {
            if segment.used_as == Use::Extent && !to_free.contains(&physical) {
                table.extents.push((physical, segment.end));
            }
        }
        if mutant(Mutant::TableWithoutExtents) {
            table.extents.clear();
        }
        table
    }

    /// Writes it, and returns its root. `None` if segments ran out.
    pub(super) fn write(&self, core: &mut Core, sink: &mut PageSink) -> Option<PageRef> {
        let mut tree = TreeWriter::new(Tree::Table);
        for (logical, physical, end) in &self.log {
            let (key, payload) = entry_of_log(*logical, *physical, *end);
            tree.push(core, sink, &key, &payload)?;
        }
        for (physical, end) in &self.extents {
            let (key, payload) = entry_of_extents(*physical, *end);
            tree.push(core, sink, &key, &payload)?;
        }
        let root = tree.finish(core, sink)?;
        sink.end_tree();
        Some(root)
    }
}

/// A segment in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listed {
    /// The segment's number in the log; `None` for extents.
    pub(crate) logical: Option<u64>,
    pub(crate) physical: u32,
    /// Bytes written of it.
    pub(crate) end: u32,
}

/// Key and payload of a segment of the log.
fn entry_of_log(logical: u64, physical: u32, end: u32) -> ([u8; 8], [u8; 8]) {
    let mut payload = [0; 8];
    payload[..4].copy_from_slice(&physical.to_le_bytes());
    payload[4..].copy_from_slice(&end.to_le_bytes());
    (logical.to_be_bytes(), payload)
}

/// Key and payload of a segment of extents.
fn entry_of_extents(physical: u32, end: u32) -> ([u8; 5], [u8; 4]) {
    let mut key = [EXTENTS; 5];
    key[1..].copy_from_slice(&physical.to_be_bytes());
    (key, end.to_le_bytes())
}

/// Takes any bytes. Whether the segment is there, and free, is to be checked.
pub(crate) fn decode_table_entry(key: &[u8], payload: &[u8]) -> Result<Listed, Mismatch> {
    let odd = Mismatch {
        what: "table entry length",
        expected: 16,
        found: (key.len() + payload.len()) as u64,
    };
    match (key, payload.len()) {
        ([EXTENTS, physical @ ..], 4) => {
            let physical = physical.try_into().map_err(|_| odd)?;
            Ok(Listed {
                logical: None,
                physical: u32::from_be_bytes(physical),
                end: get_u32(payload, 0),
            })
        }
        (logical, 8) => {
            let logical = logical.try_into().map_err(|_| odd)?;
            Ok(Listed {
                logical: Some(u64::from_be_bytes(logical)),
                physical: get_u32(payload, 0),
                end: get_u32(payload, 4),
            })
        }
        _ => Err(odd),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: entries of both kinds come back, those of extents behind all others, and anything else is refused. Method: extreme numbers, and every other length.
    #[test]
    fn entries_come_back() {
        for (logical, physical, end) in [(1, 0, 0), ((1 << 62) - 1, u32::MAX, u32::MAX)] {
            let (key, payload) = entry_of_log(logical, physical, end);
            let listed = decode_table_entry(&key, &payload);
            let logical = Some(logical);
            let expected = Listed {
                logical,
                physical,
                end,
            };
            assert_eq!(listed, Ok(expected));
            let (behind, payload) = entry_of_extents(physical, end);
            assert!(behind[..] > key[..]);
            let listed = decode_table_entry(&behind, &payload);
            let logical = None;
            let expected = Listed {
                logical,
                physical,
                end,
            };
            assert_eq!(listed, Ok(expected));
            for cut in 0..behind.len() {
                assert!(decode_table_entry(&behind[..cut], &payload).is_err());
            }
            for cut in 0..payload.len() {
                assert!(decode_table_entry(&behind, &payload[..cut]).is_err());
                assert!(decode_table_entry(&key, &payload[..cut]).is_err());
            }
            assert!(decode_table_entry(&key[1..], &[0; 8]).is_err());
        }
    }
}
