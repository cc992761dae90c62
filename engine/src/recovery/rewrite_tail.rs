//! Rewrite of the tail: what recovery does when the log goes beyond what is proven.
//!
//! A failed flush may drop the writes that it covered, while the device's cache still shows them. Another flush then
//! succeeds and writes nothing. A recovery from that cache would read the dropped frames, take them for the log's end,
//! and append commits behind them. At the next power cut those frames would be missing, and the commits lost. So an
//! opening, once acknowledged, neither relies on nor refers to anything between the proven position and the tail. The
//! tail cannot be written again in place either: it may be acknowledged and on the medium, and the rewrite may be torn.
//!
//! Instead, every live value of the unproven range is written anew, in fresh segments. A checkpoint holds their new
//! places, and the log goes on in yet another segment. A superblock that refers to all this starts the new epoch. Until
//! that superblock is published, nothing has been written to any segment that the one before refers to, or that its
//! chain could lead to.
//!
//! Invariants:
//! - nothing is written before the opening has flushed and published: a process that was killed may have written to the same free segments;
//! - the frames written here are never part of a chain: they are of the old epoch and name no predecessor. So an
//!   attempt that was cut short leaves nothing that the next attempt could take for the log, neither of the old epoch
//!   nor of the new one;
//! - of the new epoch nothing exists before its superblock does;
//! - the segment that the chain would have entered next is not used: a replay of the old superblock looks there.

use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::api::port::DiskOp;
use crate::checkpoint::write;
use crate::core::Core;
use crate::format::checksum::Kind;
use crate::format::damage::Mismatch;
use crate::format::pointer::{CHUNK_BYTES_MAX, Pointer};
use crate::format::record::{Record, RecordKind, record_bytes};
use crate::format::superblock::Superblock;
use crate::format::{len32, round_up, to_usize};
use crate::index::place::Place;
use crate::log::tail::Tail;
use crate::mutant::{Mutant, mutant};
use crate::recovery::replay::Recovered;
use crate::runtime::handle::{Handle, Io};
use crate::segments::unproven::RecoveryReserve;
use crate::segments::usage::Use;

/// Writes the unproven values anew and publishes the checkpoint of the new epoch, in which the log goes on.
pub(crate) async fn rewrite_tail(
    handle: &Handle,
    superblock: &Superblock,
    recovered: &Recovered,
) -> Result<(), Error> {
    handle.with(|core| begin(core, superblock, recovered))?;
    let mut writes = Vec::new();
    for held in &recovered.unproven {
        let offset = handle.with(|core| core.geometry.segment_offset(held.physical));
        for record in held.records() {
            let record = record.map_err(|mismatch| mismatch.at(offset))?;
            match record.kind {
                RecordKind::Put => handle.with(|core| rewrite_record(core, &record, offset))?,
                RecordKind::PutExtent => rewrite_extent(handle, &record, &mut writes).await?,
                // A delete is in the checkpoint by its absence; moves and releases were ignored.
                RecordKind::Delete
                | RecordKind::MoveValue
                | RecordKind::MoveExtent
                | RecordKind::MoveOlderValue
                | RecordKind::MoveOlderExtent
                | RecordKind::FreeSegment => {}
            }
        }
    }
    let frames = handle.with(|core| {
        core.log.seal(&mut core.segments);
        std::mem::take(&mut core.log.frames)
    });
    for frame in frames {
        handle.with(|core| core.stats.log_bytes += frame.data.len() as u64);
        writes.push(handle.io(DiskOp::Write {
            offset: frame.offset,
            data: frame.data,
            through: false,
        }));
    }
    let before = handle.with(|core| go_on(core, superblock, recovered));
    if !write::run(handle, before, writes).await? {
        return Err(no_space());
    }
    handle.with(|core| {
        core.segments.free(recovered.tail.next);
        core.stats.tail_rewritten = true;
        core.reached(CoveragePoint::TailRewritten);
    });
    Ok(())
}

fn no_space() -> Error {
    Error::NoSpace("there is no room to write anew what is not known to be durable".into())
}

/// Sets up a log for what is written anew.
fn begin(core: &mut Core, superblock: &Superblock, recovered: &Recovered) -> Result<(), Error> {
    core.claim_next(recovered.tail.next)?;
    if mutant(Mutant::RecoveryReclaimsTooEarly) {
        core.segments.free_pages();
    }
    let first = core.segments.allocate(Use::Log).ok_or_else(no_space)?;
    let tail = Tail {
        lsn: round_up(recovered.tail.lsn, core.geometry.segment_bytes),
        current: first,
        next: first,
        previous_checksum: 0,
        previous_end: recovered.proven,
        next_sequence: recovered.tail.next_sequence,
    };
    core.renew_log(superblock.epoch, &tail);
    core.log.fill_segments();
    Ok(())
}

impl Core {
    /// Whether there is room for a checkpoint, and for what has to be written anew.
    pub(crate) fn has_room_for(&self, recovered: &Recovered) -> Result<bool, Error> {
        let mut reserve = RecoveryReserve::default();
        for held in &recovered.unproven {
            let offset = self.geometry.segment_offset(held.physical);
            for record in held.records() {
                let record = record.map_err(|mismatch| mismatch.at(offset))?;
                reserve = reserve.plus(self.reserve_of(&record).map_err(|it| it.at(offset))?);
            }
        }
        let checkpoint = self.checkpoint_segments(self.index.pages_bytes());
        let tail_rewrite = match recovered.unproven.is_empty() {
            true => 0,
            false => self.tail_rewrite_segments(reserve),
        };
        // The log takes one more in either case, the one that it would have entered next.
        Ok(checkpoint + tail_rewrite < self.segments.allocatable_count())
    }

    fn reserve_of(&self, record: &Record<'_>) -> Result<RecoveryReserve, Mismatch> {
        let mut reserve = RecoveryReserve::default();
        if record.kind == RecordKind::Put && self.is_alive(record)? {
            reserve.log_bytes = record_bytes(record.key.len(), record.value.len()) as u64;
        }
        if record.kind == RecordKind::PutExtent
            && let Some(version) = self.index.newest(record.key)
            && version.sequence == record.sequence
        {
            reserve.extent_bytes = self.weight(record.key, version).0;
        }
        Ok(reserve)
    }
}

/// Writes the value of a record anew if it is still live.
fn rewrite_record(core: &mut Core, record: &Record<'_>, offset: u64) -> Result<(), Error> {
    let is_live = core
        .is_alive(record)
        .map_err(|mismatch| mismatch.at(offset))?;
    if !is_live {
        return Ok(());
    }
    let bytes = record_bytes(record.key.len(), record.value.len());
    if core.log.needs_segment(bytes) && core.segments.allocatable_count() == 0 {
        return Err(no_space());
    }
    core.move_record(record);
    core.stats.tail_rewrite_bytes += bytes as u64;
    Ok(())
}

/// Writes a large value anew if it is still live; the writes are only begun.
async fn rewrite_extent(
    handle: &Handle,
    record: &Record<'_>,
    writes: &mut Vec<Io>,
) -> Result<(), Error> {
    let (id, sector) = handle.with(|core| (core.id, core.geometry.sector_bytes));
    let pointer = handle.with(|core| {
        let newest = core.index.newest(record.key)?;
        match &newest.place {
            Place::Extent(pointer) if newest.sequence == record.sequence => Some(pointer.clone()),
            _ => None,
        }
    });
    let Some(old) = pointer else {
        return Ok(());
    };
    let mut chunks = Vec::new();
    let mut bytes: Vec<u8> = Vec::new();
    for (at, chunk) in old.chunks.iter().enumerate() {
        let read = handle
            .read_retry(chunk.offset, round_up(chunk.len.into(), sector))
            .await?;
        let read = &read[..chunk.len as usize];
        let found = id.checksum(Kind::Chunk, 0, chunk.offset, read);
        Mismatch::check("chunk checksum", chunk.checksum, found)
            .map_err(|mismatch| mismatch.at(chunk.offset))?;
        bytes.extend_from_slice(read);
        let last = at + 1 == old.chunks.len();
        while bytes.len() >= to_usize(CHUNK_BYTES_MAX) || (last && !bytes.is_empty()) {
            let (chunk, data) = handle
                .with(|core| core.prepare_chunk(&bytes))
                .ok_or_else(no_space)?;
            bytes.drain(..chunk.len as usize);
            handle.with(|core| core.stats.extent_bytes += data.len() as u64);
            writes.push(handle.io(DiskOp::Write {
                offset: chunk.offset,
                data,
                through: false,
            }));
            chunks.push(chunk);
        }
    }
    let new = Place::Extent(Box::new(Pointer {
        total: old.total,
        chunks: chunks.into(),
    }));
    handle.with(|core| {
        core.reached(CoveragePoint::TailRewrittenExtent);
        core.stats.tail_rewrite_bytes += u64::from(old.total);
        core.relocate(record.key, record.sequence, new);
    });
    Ok(())
}

/// Lets the log go on in a segment of its own, and cuts it at the proven position. Returns the new epoch's first superblock, but
/// for the checkpoint.
fn go_on(core: &mut Core, superblock: &Superblock, recovered: &Recovered) -> Superblock {
    let within = core.geometry.within(recovered.proven);
    if within != 0
        && let Some(physical) = core.segments.of_lsn(recovered.proven)
    {
        core.segments.get_mut(physical).end = len32(to_usize(within));
    }
    let (lsn, physical) = core.log.next_segment();
    let tail = Tail {
        lsn,
        current: physical,
        next: physical,
        previous_checksum: core.id.chain_start(),
        previous_end: lsn,
        next_sequence: recovered.tail.next_sequence,
    };
    let epoch = superblock.epoch + u64::from(!mutant(Mutant::TailNotFenced));
    core.renew_log(epoch, &tail);
    Superblock {
        epoch,
        epoch_start: lsn,
        epoch_checksum: tail.previous_checksum,
        ..*superblock
    }
}
