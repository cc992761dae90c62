//! Extents: large values, cut into chunks that fill segments of their own. The chunks are written beside the log, and
//! the flush that covers the record which points to them covers them too.
//!
//! Invariants: a chunk takes whole blocks in one segment and is never rewritten. Every live chunk has an owner, so that
//! garbage collection finds the pointers into a segment. A chunk's bytes stay in memory until the frame that points to
//! it is durable. A segment is not dead while a pointer into it is on its way.

use std::sync::Arc;

use crate::api::buffer::IoBuf;
use crate::api::port::DiskOp;
use crate::core::Core;
use crate::format::checksum::Kind;
use crate::format::damage::Mismatch;
use crate::format::pointer::{CHUNK_BYTES_MAX, Chunk, Pointer};
use crate::format::{len32, to_usize};
use crate::index::place::Place;
use crate::runtime::flight::Owner;
use crate::segments::usage::Use;

impl Core {
    pub(crate) fn extent_room(&self) -> u64 {
        let used = self
            .extents
            .current
            .map(|physical| u64::from(self.segments.get(physical).end));
        used.map_or(0, |used| self.geometry.segment_bytes - used)
    }

    /// Extent segments that hold nothing live and never will.
    pub(crate) fn dead_extents(&self) -> impl Iterator<Item = u32> {
        self.segments
            .dead(Use::Extent)
            .map(|(physical, _)| physical)
            .filter(|physical| !self.extents.needs(*physical))
    }

    /// Frees a segment of extents that holds nothing live, without asking what still refers to it.
    pub(crate) fn free_if_dead(&mut self, physical: u32) {
        let dead = self.segments.get(physical).live_bytes == 0;
        if dead && !self.extents.needs(physical) {
            self.segments.free(physical);
        }
    }

    /// How many more segments values of these sizes take, written one after the other.
    pub(crate) fn extent_segments(&self, sizes: impl Iterator<Item = u64>) -> u64 {
        let mut room = self.extent_room();
        let mut segments = 0;
        for size in sizes {
            let mut left = self.geometry.block_up(size);
            while left > 0 {
                if room == 0 {
                    room = self.geometry.segment_bytes;
                    segments += 1;
                }
                let taken = left.min(room);
                left -= taken;
                room -= taken;
            }
        }
        segments
    }

    /// How many chunks a value of this size can have at most when it is written.
    pub(crate) fn chunks_max(&self, size: u64) -> usize {
        let segment = self.geometry.segment_bytes;
        let by_size = if segment > CHUNK_BYTES_MAX {
            size.div_ceil(CHUNK_BYTES_MAX)
        } else {
            0
        };
        to_usize(by_size + size / segment + 2)
    }

    /// See [`Pointer::bytes_max`].
    pub(crate) fn pointer_bytes_max(&self) -> usize {
        Pointer::bytes_max(&self.geometry)
    }

    /// Garbage collection splits a chunk where a segment ends, unless the value is in many chunks already.
    pub(crate) fn keep_whole_if_many(&mut self, key: &[u8], sequence: u64, chunk_bytes: u32) {
        let Some(Place::Extent(pointer)) = self
            .index
            .version(key, sequence)
            .map(|version| &version.place)
        else {
            return;
        };
        let many =
            pointer.encoded_bytes() * 4 > self.pointer_bytes_max() * 5 && pointer.chunks.len() > 8;
        if many && self.extent_room() < self.geometry.block_up(chunk_bytes.into()) {
            self.extents.changes += 1;
            self.extents.current = None;
        }
    }

    /// Finds room for one chunk and returns its device offset and length. The segments were asked for before.
    fn place_chunk(&mut self, left: u64) -> Option<(u64, u64)> {
        if self.extent_room() == 0 {
            self.extents.changes += 1;
            self.extents.current = Some(self.segments.allocate(Use::Extent)?);
            self.extents.is_clients = false;
        }
        let physical = self.extents.current.expect("just made sure of");
        let used = u64::from(self.segments.get(physical).end);
        let len = left
            .min(self.geometry.segment_bytes - used)
            .min(CHUNK_BYTES_MAX);
        let end = used + self.geometry.block_up(len);
        self.segments.get_mut(physical).end = u32::try_from(end).expect("a segment is below 4 GiB");
        Some((self.geometry.segment_offset(physical) + used, len))
    }

    /// Prepares one chunk: its place, its checksum, its padded bytes.
    pub(crate) fn prepare_chunk(&mut self, bytes: &[u8]) -> Option<(Chunk, Arc<IoBuf>)> {
        let (offset, len) = self.place_chunk(bytes.len() as u64)?;
        let bytes = &bytes[..to_usize(len)];
        let mut buffer = IoBuf::zeroed(to_usize(self.geometry.block_up(len)));
        buffer[..bytes.len()].copy_from_slice(bytes);
        let checksum = self.id.checksum(Kind::Chunk, 0, offset, bytes);
        Some((
            Chunk {
                offset,
                len: len32(bytes.len()),
                checksum,
            },
            Arc::new(buffer),
        ))
    }

    /// Writes a client's value to extents on behalf of the open frame.
    pub(crate) fn write_extents(&mut self, value: &[u8]) -> Pointer {
        let lsn = self.log.open.as_ref().expect("room was made").lsn;
        let through = self.write_through();
        let mut chunks = Vec::new();
        let mut at = 0;
        while at < value.len() {
            let begins = self.extent_room() == 0;
            let (chunk, data) = self
                .prepare_chunk(&value[at..])
                .expect("admission left the segments");
            self.extents.is_clients |= begins;
            at += chunk.len as usize;
            chunks.push(chunk);
            self.volatile_chunks.insert(chunk.offset, data.clone());
            self.stats.extent_bytes += data.len() as u64;
            let open = self.log.open.as_mut().expect("room was made");
            open.chunks.push(chunk.offset);
            open.referred.push(chunk.offset);
            open.chunk_writes += 1;
            self.log.volatile_bytes += data.len() as u64;
            self.submit(
                Owner::Chunk { lsn },
                DiskOp::Write {
                    offset: chunk.offset,
                    data,
                    through,
                },
            );
        }
        Pointer {
            total: len32(value.len()),
            chunks: chunks.into(),
        }
    }
}

/// The segments of a pointer hold extents from now on, whether the version survives replay or not.
pub(crate) fn claim_extents(core: &mut Core, pointer: &Pointer) -> Result<(), Mismatch> {
    for chunk in &pointer.chunks {
        let (physical, within) = core.geometry.locate(chunk.offset);
        if !core.segments.claim(physical, Use::Extent) {
            return Err(Mismatch {
                what: "extent in a segment of another use",
                expected: Use::Extent as u64,
                found: physical.into(),
            });
        }
        let end = u32::try_from(core.geometry.block_up(within + u64::from(chunk.len)))
            .expect("it lies in its segment");
        let segment = core.segments.get_mut(physical);
        segment.end = segment.end.max(end);
    }
    Ok(())
}
