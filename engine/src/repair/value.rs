//! Reading one value, with all its checksums.

use std::collections::{BTreeMap, BTreeSet};

use super::layout::Layout;
use super::{Found, Image};
use crate::format::checksum::Kind;
use crate::format::damage::{Corruption, Mismatch};
use crate::format::frame::FRAME_HEADER_BYTES;
use crate::format::pointer::Pointer;
use crate::format::record::record_bytes;
use crate::format::to_usize;
use crate::index::place::Place;
use crate::read::value::verify_record;

/// The value of a version; `None` if that is a deletion. `parts` says which segments hold which part of the log.
pub(super) fn read(
    image: &mut dyn Image,
    layout: &Layout,
    parts: &BTreeMap<u64, BTreeSet<u32>>,
    found: &Found,
) -> Result<Option<Vec<u8>>, Corruption> {
    match &found.place {
        Place::Tombstone => Ok(None),
        Place::Inline(value) => Ok(Some(value.to_vec())),
        Place::Log {
            lsn,
            value_bytes,
            tag,
        } => {
            let in_log = InLog {
                lsn: *lsn,
                value_bytes: *value_bytes,
                tag: *tag,
            };
            in_log.read(image, layout, parts, found).map(Some)
        }
        Place::Extent(pointer) => chunks(image, layout, pointer).map(Some),
    }
}

/// The value that a pointer leads to.
pub(super) fn chunks(
    image: &mut dyn Image,
    layout: &Layout,
    pointer: &Pointer,
) -> Result<Vec<u8>, Corruption> {
    let mut value = Vec::new();
    for chunk in &pointer.chunks {
        let from = value.len();
        value.resize(from + chunk.len as usize, 0);
        let bytes = &mut value[from..];
        image.read(chunk.offset, bytes);
        let sum = layout.id.checksum(Kind::Chunk, 0, chunk.offset, bytes);
        Mismatch::check("chunk checksum", chunk.checksum, sum)
            .map_err(|mismatch| mismatch.at(chunk.offset))?;
    }
    Ok(value)
}

struct InLog {
    lsn: u64,
    value_bytes: u32,
    tag: u32,
}

impl InLog {
    fn read(
        &self,
        image: &mut dyn Image,
        layout: &Layout,
        parts: &BTreeMap<u64, BTreeSet<u32>>,
        found: &Found,
    ) -> Result<Vec<u8>, Corruption> {
        let geometry = &layout.geometry;
        let (logical, within) = (geometry.logical(self.lsn), geometry.within(self.lsn));
        let key = found.key.bytes();
        let bytes = record_bytes(key.len(), self.value_bytes as usize) as u64;
        let first = geometry.block_bytes + FRAME_HEADER_BYTES as u64;
        let odd = |what, expected, found| Mismatch {
            what,
            expected,
            found,
        };
        if within < first || within + bytes > geometry.segment_bytes {
            return Err(odd("value beyond its segment", first, within).at(0));
        }
        let mut damage = odd("segment of the log that was not found", logical, 0).at(0);
        for physical in parts.get(&logical).into_iter().flatten() {
            let offset = geometry.segment_offset(*physical) + within;
            let mut record = vec![0; to_usize(bytes)];
            image.read(offset, &mut record);
            match verify_record(&layout.id, self.lsn, key, found.sequence, self.tag, &record) {
                Ok(()) => {
                    let value = record.split_off(record.len() - self.value_bytes as usize);
                    return Ok(value);
                }
                Err(mismatch) => damage = mismatch.at(offset),
            }
        }
        Err(damage)
    }
}
