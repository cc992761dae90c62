//! Garbage collection: appends the live data of the emptiest segments to the log again, or writes chunks to other
//! extents. Then the next checkpoint can free these segments.
//!
//! How live records are found and moved is in `live_records.rs`, what becomes of large values in `move_chunks.rs`. Here frames are walked for what is left: versions that
//! only snapshots hold, and those whose entries are not in memory.
//!
//! Invariants:
//! - a live record moves only after its bytes were verified against the reference in the index, so damage never gets a
//!   new, valid checksum. A segment in which damage is met is left as it is, and reported;
//! - moving is conditional at both ends. Here the index must still point to the old place at the moment of appending.
//!   In replay the version must still be the key's newest. So a move never overwrites anything newer;
//! - a victim is freed by a checkpoint, like any other dead segment, and only when nothing in it is live.

use std::iter::Peekable;

use crate::api::config::FRAME_BLOCKS_MIN;
use crate::api::coverage::CoveragePoint;
use crate::api::event::Event;
use crate::api::port::Level;
use crate::core::Core;
use crate::format::damage::Mismatch;
use crate::format::frame::{FRAME_HEADER_BYTES, FrameHeader};
use crate::format::record::{Record, RecordKind, Records, record_bytes, tag};
use crate::gc::live_records::{move_cached, move_read};
use crate::gc::move_chunks::move_chunks;
use crate::gc::stop::{RECORDS_PER_STEP, Stop, nothing_left};
use crate::gc::window::Window;
use crate::index::place::Place;
use crate::mutant::{Mutant, mutant};
use crate::read::lookup::know;
use crate::runtime::handle::Handle;
use crate::segments::usage::Use;

/// What garbage collection may move before anyone has written anything.
const PACE_BURST_BYTES: u64 = 128 << 10;

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

/// Empties segments until there is enough for a checkpoint to free.
pub(crate) async fn collect_garbage(handle: Handle) {
    let mut futile = false;
    let before = handle.with(|core| core.stats);
    while let Some(victim) = handle.with(|core| {
        // What garbage collection moves, it may have to move again: without an end to that, it would go on for ever.
        let enough = core.collected_enough() || core.maintenance.gc_idle(core.stats.user_bytes);
        match enough {
            true => None,
            false => core.choose_victim(),
        }
    }) {
        let used_as = handle.with(|core| {
            core.segments.add_reader(victim);
            core.segments.get(victim).used_as
        });
        let result = match used_as {
            Use::Log => collect_log(&handle, victim).await,
            _ => move_chunks(&handle, victim).await,
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
                core.stats.collected_segments += 1;
                core.activity += 1;
            }),
            Err(Stop::Damaged(corruption)) => handle.with(|core| {
                core.segments.get_mut(victim).damaged = true;
                core.happened(Event::Damaged {
                    key: None,
                    damage: corruption,
                });
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
                handle.with(|core| {
                    core.log_line(Level::Error, format!("garbage collection stopped: {error}"))
                });
                futile = true;
                break;
            }
        }
    }
    handle.with(|core| {
        core.maintenance.collecting = false;
        core.maintenance.gc_futile = futile || !core.collected_enough();
        core.activity += 1;
        core.happened(Event::Collected {
            segments: core.stats.collected_segments - before.collected_segments,
            moved_bytes: core.stats.relocated_bytes - before.relocated_bytes,
            fell_behind: core.maintenance.gc_futile,
        });
    });
}

impl Core {
    /// Whether what is dead by now gives the clients their ease, or a checkpoint something to free.
    pub(crate) fn collected_enough(&self) -> bool {
        self.shortage() <= self.coming_free() || self.reclaimable() >= self.worth_a_checkpoint()
    }

    /// The segment with the least alive, if emptying any gains something.
    fn choose_victim(&self) -> Option<u32> {
        let durable_before = self
            .geometry
            .logical(self.log.durable)
            .min(self.log.segment_now());
        let payload = self.geometry.payload_bytes();
        // To move a chunk takes room for it and for the pointer. Where there is too little, emptying segments of the log makes some.
        let chunks_fit = self.has_room_for_chunks();
        let eligible =
            |physical: u32, segment: &crate::segments::usage::Segment| match segment.used_as {
                Use::Log => segment.logical != 0 && segment.logical < durable_before,
                Use::Extent => {
                    let start = self.geometry.segment_offset(physical);
                    let end = start + self.geometry.segment_bytes;
                    chunks_fit
                        && Some(physical) != self.extents.current()
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

    /// Whether garbage collection may append so much now: `None` to wait.
    pub(crate) fn may_move(&self, record: usize, segments: u64) -> Option<Result<(), Stop>> {
        if let Err(error) = self.unpoisoned() {
            return Some(Err(error.into()));
        }
        if !self.is_serving() {
            return Some(Err(Stop::NoRoom));
        }
        let wanted = segments + u64::from(self.log.needs_segment(record));
        if wanted > 0 && !self.leaves_free(self.gc_floor(), wanted) {
            return Some(Err(Stop::NoRoom));
        }
        let volatile = self.log.volatile_bytes;
        let buffer = self.settings.options.write_buffer_bytes;
        // Garbage collection would fill what a flush has emptied, and a client with much to write wait for ever.
        let awaited = self.maintenance.buffer_awaited;
        if awaited > 0 && volatile + awaited > buffer {
            return None;
        }
        let waiting = self.maintenance.is_stalled();
        if !waiting && volatile > self.moved_bytes_max() / 2 * 3 {
            return None;
        }
        let written = self.log.written_bytes - self.maintenance.gc_began_at;
        let by_clients = written.saturating_sub(self.maintenance.gc_bytes);
        let pace = if !self.leaves_free(self.user_floor(), 1) {
            8
        } else {
            2
        };
        let allowed = waiting || self.maintenance.gc_bytes <= pace * by_clients + PACE_BURST_BYTES;
        allowed.then_some(Ok(()))
    }

    pub(crate) fn note_moved(&mut self, bytes: u64) {
        self.stats.relocated_bytes += bytes;
        self.maintenance.gc_bytes += bytes;
        if self.log.volatile_bytes > self.moved_bytes_max() {
            self.group.force = true;
        }
        self.note_relaxed();
    }

    /// As soon as more than this is not durable yet, what was moved is written. A frame takes whole blocks, so little ones would give back what is gained.
    fn moved_bytes_max(&self) -> u64 {
        let half_a_buffer = self.settings.options.write_buffer_bytes / 2;
        half_a_buffer.max(FRAME_BLOCKS_MIN * self.geometry.block_bytes)
    }

    /// Moves the live ones among the next of these records, up to the first that has to wait.
    fn move_alive(
        &mut self,
        records: &mut Peekable<Records<'_>>,
        damaged: impl Fn(Mismatch) -> Stop,
    ) -> Result<Moved, Stop> {
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
        if !record.kind.has_value() {
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
        let (sequence, key, value) = (record.sequence, record.key, record.value);
        let kind = match self.index.is_newest(key, sequence) {
            true => RecordKind::MoveValue,
            false => RecordKind::MoveOlderValue,
        };
        let place = self.append_moved(kind, sequence, key, value);
        self.relocate(key, sequence, place);
    }

    /// Appends the newest version of a key anew, and returns where it is now.
    pub(crate) fn append_newest(&mut self, sequence: u64, key: &[u8], value: &[u8]) -> Place {
        self.append_moved(RecordKind::MoveValue, sequence, key, value)
    }

    fn append_moved(&mut self, kind: RecordKind, sequence: u64, key: &[u8], value: &[u8]) -> Place {
        let bytes = record_bytes(key.len(), value.len());
        self.log.make_room(&mut self.segments, bytes);
        let (lsn, checksum) = self.log.append(kind, sequence, key, value);
        Place::Log {
            lsn,
            value_bytes: crate::format::len32(value.len()),
            tag: tag(checksum),
        }
    }
}

/// Moves what is live in a log segment: the newest versions, which the index knows of, and then what snapshots hold.
async fn collect_log(handle: &Handle, victim: u32) -> Result<(), Stop> {
    // What that mutant moves is dead, and only a walk meets it.
    let only_walks = mutant(Mutant::MoveOverwritesNewer);
    if !only_walks && move_cached(handle, victim).await? {
        return Ok(());
    }
    let mut window = Window::of(handle, victim);
    let device = window.device;
    let newest = match only_walks {
        true => Ok(()),
        false => move_read(handle, victim, &mut window).await,
    };
    let moved = match newest {
        Ok(()) => walk(handle, victim, &mut window).await,
        error => error,
    };
    window.close(handle);
    moved?;
    nothing_left(handle, victim, device)
}

/// Moves what is live in a log segment by walking its frames, as far as there is anything.
async fn walk(handle: &Handle, victim: u32, window: &mut Window) -> Result<(), Stop> {
    let (geometry, id) = handle.with(|core| (core.geometry, core.id));
    let logical = handle.with(|core| core.segments.get(victim).logical);
    let base = logical * geometry.segment_bytes;
    let (device, end) = (window.device, window.end);
    let mut at = geometry.block_bytes;
    while at < end && handle.with(|core| core.segments.get(victim).live_bytes > 0) {
        let damaged = |mismatch: Mismatch| Stop::Damaged(mismatch.at(device + at));
        window.load(handle, at, FRAME_HEADER_BYTES as u64).await?;
        let header =
            FrameHeader::decode(&id, base + at, end - at, window.from(at)).map_err(damaged)?;
        window.load(handle, at, header.total_bytes()).await?;
        let body = header.check_body(&id, window.from(at)).map_err(damaged)?;
        let mut records = Records::new(base + at + FRAME_HEADER_BYTES as u64, body).peekable();
        loop {
            let next = records.clone().take(RECORDS_PER_STEP).flatten();
            let next = next.filter(|it| it.kind.has_value()).map(|it| it.key);
            let known = know(handle, next, CoveragePoint::CollectionAwaitedEntries).await?;
            let moved = handle.with(|core| core.move_alive(&mut records, damaged));
            drop(known);
            match moved? {
                Moved::All => break,
                Moved::Some => handle.give_way().await,
                Moved::UpTo { bytes } => handle.until(|core| core.may_move(bytes, 0)).await?,
            }
        }
        at += geometry.block_up(header.total_bytes());
    }
    Ok(())
}
