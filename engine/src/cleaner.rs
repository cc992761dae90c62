//! Cleaning: what still lives in the emptiest segments is appended to the log again (or, chunks, written to other
//! extents), so that the next checkpoint can free them.
//!
//! Invariants:
//! - a survivor moves only after its bytes were verified against the reference in the index: damage is never given a new,
//!   valid checksum; a segment in which damage is met is left as it is, and reported;
//! - moving is conditional at both ends: here the index must still point to the old place at the very moment of appending, and
//!   in replay the version must still be the key's newest, so a move never overwrites anything newer;
//! - a victim is freed by a checkpoint, like any other dead segment, and only when nothing in it lives.

use std::iter::Peekable;
use std::sync::Arc;

use crate::buffer::IoBuf;
use crate::checksum::Kind;
use crate::core::Core;
use crate::error::{Corruption, Error, Mismatch};
use crate::executor::Handle;
use crate::extent::POINTER_BYTES_MAX;
use crate::format::frame::{FRAME_HEADER_BYTES, FrameHeader};
use crate::format::pointer::{Chunk, Pointer};
use crate::format::record::{Record, RecordKind, Records, record_bytes, tag};
use crate::format::{KEY_BYTES_MAX, round_up, to_usize};
use crate::index::Place;
use crate::mutant::{Mutant, mutant};
use crate::port::{DiskOp, Level};
use crate::segments::Use;

/// As much of a victim is in memory at a time, or a whole frame where that is more.
const WINDOW_BYTES: u64 = 1 << 20;
/// It is read in pieces of this size while clients wait for commits, which wait behind each read at the device.
const PIECE_BYTES: u64 = 64 << 10;
/// More than a record with a moved pointer can take.
const MOVED_POINTER_BYTES: usize = record_bytes(KEY_BYTES_MAX, 2 * POINTER_BYTES_MAX);
/// Records that one step looks at.
const RECORDS_PER_STEP: usize = 32;
/// What cleaning may move before anyone has written anything.
const PACE_BURST_BYTES: u64 = 128 << 10;

/// Why a victim was not finished.
enum Stop {
    /// There is no room to move anything to before the next checkpoint.
    NoRoom,
    /// Damage was met.
    Damaged(Corruption),
    Failed(Error),
}

/// How far a step came.
enum Moved {
    All,
    /// There are more.
    Some,
    /// The next one has to wait, and takes so much.
    UpTo {
        bytes: usize,
    },
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}

/// Empties segments until there is enough for a checkpoint to free.
pub(crate) async fn clean(handle: Handle) {
    let mut futile = false;
    while let Some(victim) = handle.with(|core| {
        if core.cleaned_enough() {
            None
        } else {
            core.choose_victim()
        }
    }) {
        let used_as = handle.with(|core| {
            core.segments.add_reader(victim);
            core.segments.get(victim).used_as
        });
        let result = match used_as {
            Use::Log => clean_log(&handle, victim).await,
            _ => clean_extent(&handle, victim).await,
        };
        handle.with(|core| {
            core.segments.remove_reader(victim);
            core.extents.await_no_more();
        });
        match result {
            Ok(()) => handle.with(|core| {
                if mutant(Mutant::VictimFreedAtOnce) {
                    core.segments.free(victim);
                }
                core.stats.cleaned_segments += 1;
                core.activity += 1;
            }),
            Err(Stop::Damaged(corruption)) => handle.with(|core| {
                core.segments.get_mut(victim).damaged = true;
                core.log_line(
                    Level::Error,
                    format!("segment {victim} is kept as it is: {corruption}"),
                );
            }),
            Err(Stop::NoRoom) => {
                futile = true;
                break;
            }
            Err(Stop::Failed(error)) => {
                handle
                    .with(|core| core.log_line(Level::Error, format!("cleaning stopped: {error}")));
                futile = true;
                break;
            }
        }
    }
    handle.with(|core| {
        core.maintenance.cleaning = false;
        core.maintenance.clean_futile = futile || !core.cleaned_enough();
        core.activity += 1;
    });
}

impl Core {
    /// Whether what is dead by now gives the clients their ease, or a checkpoint something to free.
    pub(crate) fn cleaned_enough(&self) -> bool {
        self.shortage() <= self.coming_free() || self.reclaimable() >= self.worth_a_checkpoint()
    }

    /// The segment with the least alive, if emptying any gains something.
    fn choose_victim(&self) -> Option<u32> {
        let durable_before = self
            .geometry
            .logical(self.log.durable)
            .min(self.log.segment_now());
        let payload = self.geometry.payload_bytes();
        let eligible = |physical: u32, segment: &crate::segments::Segment| match segment.used_as {
            Use::Log => segment.logical != 0 && segment.logical < durable_before,
            Use::Extent => {
                let start = self.geometry.segment_offset(physical);
                let end = start + self.geometry.segment_bytes;
                Some(physical) != self.extents.current()
                    && self.volatile_chunks.range(start..end).next().is_none()
            }
            _ => false,
        };
        self.segments
            .iter()
            .filter(|(_, segment)| {
                segment.live_bytes > 0 && segment.live_bytes < payload * 19 / 20 && !segment.damaged
            })
            .filter(|(physical, segment)| eligible(*physical, segment))
            .min_by_key(|(physical, segment)| (segment.live_bytes, *physical))
            .map(|(physical, _)| physical)
    }

    /// Whether cleaning may append so much now: `None` to wait.
    fn may_move(&self, record: usize, segments: u64) -> Option<Result<(), Stop>> {
        if let Some(error) = self.poisoned {
            return Some(Err(Error::Poisoned(error).into()));
        }
        if !self.is_serving() {
            return Some(Err(Stop::NoRoom));
        }
        let wanted = segments + u64::from(self.log.needs_segment(record));
        if wanted > 0 && !self.leaves_free(self.cleaner_floor(), wanted) {
            return Some(Err(Stop::NoRoom));
        }
        let waiting = self.maintenance.is_stalled();
        if !waiting && self.log.volatile_bytes > self.settings.options.write_buffer_bytes / 4 * 3 {
            return None;
        }
        let written = self.log.written_bytes - self.maintenance.clean_began_at;
        let by_clients = written.saturating_sub(self.maintenance.cleaned_bytes);
        let pace = if !self.leaves_free(self.user_floor(), 1) {
            8
        } else {
            2
        };
        let allowed =
            waiting || self.maintenance.cleaned_bytes <= pace * by_clients + PACE_BURST_BYTES;
        allowed.then_some(Ok(()))
    }

    fn note_moved(&mut self, bytes: u64) {
        self.maintenance.cleaned_bytes += bytes;
        if self.log.volatile_bytes > self.settings.options.write_buffer_bytes / 2 {
            self.group.force = true;
        }
        self.note_relaxed();
    }

    /// Moves the live ones among the next of these records, up to the first that has to wait.
    fn move_alive(
        &mut self,
        records: &mut Peekable<Records<'_>>,
        damaged: impl Fn(Mismatch) -> Stop,
    ) -> Result<Moved, Stop> {
        let ahead = records.clone().take(RECORDS_PER_STEP).flatten();
        self.index.look_ahead(ahead.map(|record| record.key));
        for _ in 0..RECORDS_PER_STEP {
            let Some(record) = records.peek() else {
                return Ok(Moved::All);
            };
            let record = (*record).map_err(&damaged)?;
            if self.is_alive(&record).map_err(&damaged)? {
                let bytes = record_bytes(record.key.len(), record.value.len());
                match self.may_move(bytes, 0) {
                    Some(allowed) => allowed?,
                    None => return Ok(Moved::UpTo { bytes }),
                }
                self.move_record(&record);
                self.stats.relocated_bytes += bytes as u64;
                self.note_moved(bytes as u64);
            } else if mutant(Mutant::MoveOverwritesNewer) && self.index.newest(record.key).is_some()
            {
                self.move_overwritten(&record);
            }
            records.next();
        }
        Ok(Moved::Some)
    }

    /// Appends a put anew although the index points elsewhere by now.
    fn move_overwritten(&mut self, record: &Record<'_>) {
        let bytes = record_bytes(record.key.len(), record.value.len());
        if record.kind == RecordKind::Put && matches!(self.may_move(bytes, 0), Some(Ok(()))) {
            self.log.make_room(&mut self.segments, bytes);
            let (sequence, key, value) = (record.sequence, record.key, record.value);
            self.log.append(RecordKind::MoveValue, sequence, key, value);
        }
    }

    /// Whether the index points to this very record.
    pub(crate) fn is_alive(&self, record: &Record<'_>) -> Result<bool, Mismatch> {
        if !matches!(record.kind, RecordKind::Put | RecordKind::MoveValue) {
            return Ok(false);
        }
        match self
            .index
            .version(record.key, record.sequence)
            .map(|version| &version.place)
        {
            Some(Place::Log {
                lsn, tag: expected, ..
            }) if *lsn == record.lsn => {
                Mismatch::check(
                    "record tag",
                    (*expected).into(),
                    tag(record.checksum).into(),
                )?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Appends a verified record anew and points the index there. The log has the room.
    pub(crate) fn move_record(&mut self, record: &Record<'_>) {
        let bytes = record_bytes(record.key.len(), record.value.len());
        self.log.make_room(&mut self.segments, bytes);
        let (lsn, checksum) = self.log.append(
            RecordKind::MoveValue,
            record.sequence,
            record.key,
            record.value,
        );
        let place = Place::Log {
            lsn,
            value_bytes: crate::format::len32(record.value.len()),
            tag: tag(checksum),
        };
        self.add_live(record.key, &place);
        let old = self
            .index
            .relocate(record.key, record.sequence, place)
            .expect("it was just found alive");
        self.remove_live(record.key, &old);
    }
}

/// Walks the frames of a log segment and moves what lives.
async fn clean_log(handle: &Handle, victim: u32) -> Result<(), Stop> {
    let (geometry, id, segment) =
        handle.with(|core| (core.geometry, core.id, core.segments.get(victim).clone()));
    let base = segment.logical * geometry.segment_bytes;
    let end = u64::from(segment.end);
    let device = geometry.segment_offset(victim);
    let mut at = geometry.block_bytes;
    let mut window = Window {
        start: 0,
        bytes: IoBuf::zeroed(0),
    };
    while at < end {
        if handle.with(|core| core.segments.get(victim).live_bytes == 0) {
            return Ok(());
        }
        let damaged = |mismatch: Mismatch| Stop::Damaged(mismatch.at(device + at));
        window
            .load(handle, device, at, FRAME_HEADER_BYTES as u64, end)
            .await?;
        let header =
            FrameHeader::decode(&id, base + at, end - at, window.from(at)).map_err(damaged)?;
        window
            .load(handle, device, at, header.total_bytes(), end)
            .await?;
        let body = header.check_body(&id, window.from(at)).map_err(damaged)?;
        let mut records = Records::new(base + at + FRAME_HEADER_BYTES as u64, body).peekable();
        loop {
            match handle.with(|core| core.move_alive(&mut records, damaged))? {
                Moved::All => break,
                Moved::Some => handle.give_way().await,
                Moved::UpTo { bytes } => handle.until(|core| core.may_move(bytes, 0)).await?,
            }
        }
        at += geometry.block_up(header.total_bytes());
    }
    handle.give(window.bytes);
    nothing_left(handle, victim, device)
}

/// A piece of the victim in memory.
struct Window {
    start: u64,
    bytes: IoBuf,
}

impl Window {
    /// Makes sure that `len` bytes from `at` are loaded, or all up to `end`.
    async fn load(
        &mut self,
        handle: &Handle,
        device: u64,
        at: u64,
        len: u64,
        end: u64,
    ) -> Result<(), Error> {
        let wanted = (at + len).min(end);
        let have = self.start + self.bytes.len() as u64;
        if at < self.start || wanted > have {
            let to = end.min(at + len.max(WINDOW_BYTES));
            let sector = handle.with(|core| core.geometry.sector_bytes);
            let bytes = read_in_pieces(handle, device + at, round_up(to - at, sector)).await?;
            let before = std::mem::replace(&mut self.bytes, bytes);
            handle.give(before);
            self.start = at;
        }
        Ok(())
    }

    fn from(&self, at: u64) -> &[u8] {
        &self.bytes[to_usize(at - self.start)..]
    }
}

/// One read, or many small ones if somebody waits for the device.
async fn read_in_pieces(handle: &Handle, offset: u64, len: u64) -> Result<IoBuf, Error> {
    if len <= PIECE_BYTES || !handle.with(|core| core.commits_come_first()) {
        return handle.read_retry(offset, len).await;
    }
    let mut bytes = handle.with(|core| core.log.pool.take(to_usize(len)));
    for start in (0..len).step_by(to_usize(PIECE_BYTES)) {
        let piece = handle
            .read_retry(offset + start, PIECE_BYTES.min(len - start))
            .await?;
        bytes[to_usize(start)..][..piece.len()].copy_from_slice(&piece);
        handle.give(piece);
    }
    Ok(bytes)
}

/// Moves the live chunks of an extent segment.
async fn clean_extent(handle: &Handle, victim: u32) -> Result<(), Stop> {
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

/// A victim that was gone through and still holds something live would be chosen for ever: it is damaged in some way.
fn nothing_left(handle: &Handle, victim: u32, device: u64) -> Result<(), Stop> {
    let left = handle.with(|core| core.segments.get(victim).live_bytes);
    Mismatch::check("live bytes left in the segment", 0, left)
        .map_err(|mismatch| Stop::Damaged(mismatch.at(device)))
}

impl Core {
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
        self.log
            .append(RecordKind::MoveExtent, sequence, key, &value);
        let open = self.log.open.as_mut().expect("room was made");
        // The chunks that are still to be moved as well: the record refers to them.
        open.referred
            .extend(pointer.chunks.iter().map(|chunk| chunk.offset));
        for (chunk, data) in pieces {
            open.chunks.push(chunk.offset);
            self.log.volatile_bytes += data.len() as u64;
            self.volatile_chunks.insert(chunk.offset, data.clone());
        }
        let old = self
            .index
            .relocate(key, sequence, Place::Extent(Box::new(pointer.clone())))
            .expect("just found");
        self.remove_live(key, &old);
        self.add_live(key, &Place::Extent(Box::new(pointer)));
    }
}

/// Moves one chunk: verified, written elsewhere, and only then pointed to.
async fn move_chunk(handle: &Handle, key: &[u8], offset: u64) -> Result<(), Stop> {
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
                MOVED_POINTER_BYTES,
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
    handle.settle(writes).await?;
    if !through && handle.with(|core| core.write_through()) {
        // The commits do not flush any more: what was written without write-through has to be flushed here.
        handle.flush().await?;
    }
    handle.with(|core| {
        if let Some(error) = core.poisoned {
            return Err(Error::Poisoned(error).into());
        }
        if core.log.needs_segment(MOVED_POINTER_BYTES) && core.segments.free_count() == 0 {
            return Err(Stop::NoRoom);
        }
        // The value may have been overwritten meanwhile: then the new chunks just stay dead.
        if core
            .chunk_owner(key, offset)
            .is_some_and(|(now, _)| now == sequence)
        {
            core.move_pointer(key, sequence, offset, &pieces);
            core.stats.relocated_bytes += bytes.len() as u64;
            core.note_moved(bytes.len() as u64);
        }
        core.extents.await_no_more();
        Ok(())
    })
}
