//! Garbage collection of segments that hold large values: the chunks that live are written elsewhere, and then pointed to. See `collect.rs` for what holds of
//! garbage collection.

use std::sync::Arc;

use crate::api::buffer::IoBuf;
use crate::api::coverage::CoveragePoint;
use crate::api::port::DiskOp;
use crate::core::Core;
use crate::format::checksum::Kind;
use crate::format::damage::Mismatch;
use crate::format::pointer::{Chunk, Pointer};
use crate::format::record::{RecordKind, record_bytes};
use crate::format::{KEY_BYTES_MAX, round_up};
use crate::gc::stop::{Stop, nothing_left};
use crate::index::place::Place;
use crate::read::lookup::know;
use crate::runtime::handle::Handle;

/// Moves the live chunks of an extent segment.
pub(crate) async fn move_chunks(handle: &Handle, victim: u32) -> Result<(), Stop> {
    let (start, end) = handle.with(|core| {
        let start = core.geometry.segment_offset(victim);
        (start, start + core.geometry.segment_bytes)
    });
    let mut from = start;
    while let Some((offset, key)) = handle.with(|core| {
        core.extents
            .owner_from(from, end)
            .map(|(o, key)| (o, Box::from(key)))
    }) {
        from = offset + 1;
        move_chunk(handle, &key, offset).await?;
    }
    nothing_left(handle, victim, start)
}

impl Core {
    /// More than a record with a moved pointer can take.
    fn moved_pointer_bytes(&self) -> usize {
        record_bytes(KEY_BYTES_MAX, 2 * self.pointer_bytes_max())
    }

    /// Whether there is room to move the smallest chunk to.
    pub(crate) fn has_room_for_chunks(&self) -> bool {
        let chunk = self.extent_segments([self.geometry.block_bytes].into_iter());
        let pointer = u64::from(self.log.needs_segment(self.moved_pointer_bytes()));
        chunk + pointer == 0 || self.leaves_free(self.gc_floor(), chunk + pointer)
    }

    /// The version of `key` that owns the chunk at `offset`.
    fn chunk_owner(&self, key: &[u8], offset: u64) -> Option<(u64, Chunk)> {
        self.index
            .versions(key)
            .find_map(|version| match &version.place {
                Place::Extent(pointer) => {
                    let chunk = pointer.chunks.iter().find(|chunk| chunk.offset == offset)?;
                    Some((version.sequence, *chunk))
                }
                _ => None,
            })
    }

    /// Points the version to the chunk's new place, through the log.
    fn move_pointer(
        &mut self,
        key: &[u8],
        sequence: u64,
        old: u64,
        pieces: &[(Chunk, Arc<IoBuf>)],
    ) {
        let Some(Place::Extent(pointer)) = self
            .index
            .version(key, sequence)
            .map(|version| &version.place)
        else {
            panic!("the version was just found");
        };
        let mut chunks = Vec::with_capacity(pointer.chunks.len() + pieces.len());
        for chunk in &pointer.chunks {
            if chunk.offset == old {
                chunks.extend(pieces.iter().map(|(chunk, _)| *chunk));
            } else {
                chunks.push(*chunk);
            }
        }
        let pointer = Pointer {
            total: pointer.total,
            chunks: chunks.into(),
        };
        let value = pointer.encode();
        self.log
            .make_room(&mut self.segments, record_bytes(key.len(), value.len()));
        let kind = match self.index.is_newest(key, sequence) {
            true => RecordKind::MoveExtent,
            false => RecordKind::MoveOlderExtent,
        };
        self.log.append(kind, sequence, key, &value);
        let open = self.log.open.as_mut().expect("room was made");
        // The chunks that are still to be moved as well: the record refers to them.
        open.referred
            .extend(pointer.chunks.iter().map(|chunk| chunk.offset));
        for (chunk, data) in pieces {
            open.chunks.push(chunk.offset);
            self.log.volatile_bytes += data.len() as u64;
            self.volatile_chunks.insert(chunk.offset, data.clone());
        }
        let place = Place::Extent(Box::new(pointer));
        let moved = self.index.relocate(key, sequence, place.clone());
        let moved = moved.expect("just found");
        self.remove_live(key, &moved.from);
        self.add_live(key, &place);
    }
}

/// Moves one chunk: verified, written elsewhere, and only then pointed to.
async fn move_chunk(handle: &Handle, key: &[u8], offset: u64) -> Result<(), Stop> {
    let awaited = CoveragePoint::CollectionAwaitedEntries;
    let _known = know(handle, [key].into_iter(), awaited).await?;
    let Some((sequence, chunk)) = handle.with(|core| core.chunk_owner(key, offset)) else {
        return Ok(());
    };
    let (id, sector, through) =
        handle.with(|core| (core.id, core.geometry.sector_bytes, core.write_through()));
    let bytes = handle
        .read_retry(offset, round_up(chunk.len.into(), sector))
        .await?;
    let bytes = &bytes[..chunk.len as usize];
    Mismatch::check(
        "chunk checksum",
        chunk.checksum,
        id.checksum(Kind::Chunk, 0, offset, bytes),
    )
    .map_err(|mismatch| Stop::Damaged(mismatch.at(offset)))?;
    handle
        .until(|core| {
            core.may_move(
                core.moved_pointer_bytes(),
                core.extent_segments([u64::from(chunk.len)].into_iter()),
            )
        })
        .await?;
    let mut pieces = Vec::new();
    let mut writes = Vec::new();
    let mut at = 0;
    handle.with(|core| core.keep_whole_if_many(key, sequence, chunk.len));
    while at < bytes.len() {
        let (piece, data) = handle
            .with(|core| core.prepare_chunk(&bytes[at..]))
            .ok_or(Stop::NoRoom)?;
        at += piece.len as usize;
        handle.with(|core| {
            let (physical, _) = core.geometry.locate(piece.offset);
            core.extents.await_pointer(physical);
            core.stats.extent_bytes += data.len() as u64;
        });
        writes.push(handle.io(DiskOp::Write {
            offset: piece.offset,
            data: data.clone(),
            through,
        }));
        pieces.push((piece, data));
    }
    handle.await_writes(writes).await?;
    if !through && handle.with(|core| core.write_through()) {
        // The commits do not flush any more: what was written without write-through has to be flushed here.
        handle.flush().await?;
    }
    handle.with(|core| {
        core.unpoisoned()?;
        // Commits may have filled the segment meanwhile, and what is left free is not for garbage collection.
        if core.log.needs_segment(core.moved_pointer_bytes())
            && !core.leaves_free(core.gc_floor(), 1)
        {
            return Err(Stop::NoRoom);
        }
        // The value may have been overwritten meanwhile: then the new chunks just stay dead.
        if core
            .chunk_owner(key, offset)
            .is_some_and(|(now, _)| now == sequence)
        {
            core.move_pointer(key, sequence, offset, &pieces);
            core.note_moved(bytes.len() as u64);
        }
        core.extents.await_no_more();
        Ok(())
    })
}
