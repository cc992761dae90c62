//! What becomes of frames that replay has read but that nothing states as durable.
//!
//! A frame that was read need not be on the medium. After a failed flush, a volatile cache may show data that the flush
//! dropped, and a later flush does not write them. After a failed write, no device says what is on the medium, whatever
//! cache it has. So of the unproven frames
//! - those that point to extents count only if the extents are there; the chain is cut at the first that does not;
//! - commits are applied, and the frames handed on to `rewrite_tail.rs`, which writes their values anew;
//! - moves are ignored: what garbage collection moves stays where it was until a checkpoint has stated the move as durable;
//! - frames without any commit are cut off, for nothing in them is missed.

use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::core::Core;
use crate::format::checksum::Kind;
use crate::format::damage::{Corruption, Mismatch, unreadable_at};
use crate::format::pointer::{Chunk, Pointer};
use crate::format::record::{Record, RecordKind, tag};
use crate::format::round_up;
use crate::index::place::{Place, Version};
use crate::mutant::{Mutant, mutant};
use crate::recovery::held::Held;
use crate::recovery::replay::{LOOKS, Replay};
use crate::recovery::salvage::{Salvaged, salvage};
use crate::segments::extent::claim_extents;

impl Replay<'_> {
    /// The chain has ended. Returns the frames that count and are not proven, if any of them holds a commit, and
    /// whether something was cut off that may have been one.
    pub(crate) async fn resolve_tail(&mut self) -> Result<(Vec<Held>, bool), Error> {
        let trusted = mutant(Mutant::UnprovenTailTrusted);
        while let Some(held) = self.held.pop_front_if(|held| held.end <= self.durable) {
            self.apply(&held, true)?;
        }
        let mut unproven = Vec::from(std::mem::take(&mut self.held));
        let mut cut = false;
        for at in 0..unproven.len() {
            let held = &unproven[at];
            if let Some(corruption) = self.check_extents(held, !trusted).await? {
                if self.durable > held.header.lsn {
                    return Err(corruption.into());
                }
                self.tail = held.tail;
                unproven.truncate(at);
                cut = true;
                self.handle
                    .with(|core| core.reached(CoveragePoint::ReplayExtentMissing));
                break;
            }
        }
        if !trusted && unproven.iter().all(|held| held.commits == 0) {
            if let Some(first) = unproven.first() {
                self.tail = first.tail;
                self.handle
                    .with(|core| core.reached(CoveragePoint::ReplayMovesCut));
            }
            return Ok((Vec::new(), cut));
        }
        for held in &unproven {
            self.apply(held, trusted)?;
        }
        if trusted {
            unproven.clear();
        }
        if !unproven.is_empty() {
            self.handle
                .with(|core| core.reached(CoveragePoint::ReplayUnproven));
        }
        Ok((unproven, cut))
    }

    /// Brings the frame's effects into the index: all of them, or only those of commits.
    pub(crate) fn apply(&self, held: &Held, moves: bool) -> Result<(), Error> {
        let offset = self.geometry.segment_offset(held.physical);
        let within = match self.geometry.within(held.end) {
            0 => self.geometry.segment_bytes,
            within => within,
        };
        let first = self.geometry.logical(self.superblock.replay.lsn);
        self.handle.with(|core| {
            core.stats.replayed_frames += 1;
            core.stats.replayed_bytes += held.header.total_bytes();
            core.segments.get_mut(held.physical).end =
                u32::try_from(within).expect("a segment is below 4 GiB");
            for record in held.records() {
                let record = record.map_err(|mismatch| mismatch.at(offset))?;
                if record.kind == RecordKind::Delete && self.drops_delete(core, record.key) {
                    continue;
                }
                if moves || record.kind.is_commit() {
                    apply_record(core, &record, first).map_err(|mismatch| {
                        mismatch.at(offset + self.geometry.within(record.lsn))
                    })?;
                }
            }
            Ok(())
        })
    }

    /// Never, but for a mutant.
    fn drops_delete(&self, core: &Core, key: &[u8]) -> bool {
        let older = core.index.newest(key);
        let in_checkpoint = older.is_none_or(|it| it.sequence < self.superblock.replay.sequence);
        mutant(Mutant::DeletesNotReplayed) || (mutant(Mutant::TombstoneDropped) && in_checkpoint)
    }

    /// The first chunk that a record of the frame points to and that is not there.
    async fn check_extents(
        &self,
        held: &Held,
        commits_only: bool,
    ) -> Result<Option<Corruption>, Error> {
        if !held.header.has_extents || mutant(Mutant::ExtentsNotChecked) {
            return Ok(None);
        }
        let segments = self.handle.with(|core| core.segments.count());
        for record in held.records() {
            let offset = self.geometry.segment_offset(held.physical);
            let record = record.map_err(|mismatch| mismatch.at(offset))?;
            let counts = match record.kind {
                RecordKind::PutExtent => true,
                RecordKind::MoveExtent | RecordKind::MoveOlderExtent => !commits_only,
                _ => false,
            };
            if !counts {
                continue;
            }
            let pointer = Pointer::decode(&self.geometry, segments, record.value)
                .map_err(|mismatch| mismatch.at(offset))?;
            for chunk in &pointer.chunks {
                let damage = self.check_chunk(chunk).await?;
                if damage.is_some() {
                    return Ok(damage);
                }
            }
        }
        self.handle
            .with(|core| core.reached(CoveragePoint::ReplayExtentChecked));
        Ok(None)
    }

    /// What is wrong with this chunk, each time that it is read: a read that comes from elsewhere must not decide that a value is missing.
    async fn check_chunk(&self, chunk: &Chunk) -> Result<Option<Corruption>, Error> {
        let len = round_up(chunk.len.into(), self.geometry.sector_bytes);
        let mut damage = None;
        for _ in 0..LOOKS {
            let Salvaged { bytes, unreadable } = salvage(self.handle, chunk.offset, len).await?;
            let data = &bytes[..chunk.len as usize];
            let found = self.id.checksum(Kind::Chunk, 0, chunk.offset, data);
            self.handle.give(bytes);
            let Err(mismatch) = Mismatch::check("chunk checksum", chunk.checksum, found) else {
                return Ok(None);
            };
            let unreadable = unreadable.first().map(|at| unreadable_at(*at));
            damage = Some(unreadable.unwrap_or(mismatch.at(chunk.offset)));
        }
        Ok(damage)
    }
}

/// Nothing before this record's position refers to the segment any more, which lies before the first that replay reads.
fn free_logged(core: &mut Core, record: &Record<'_>, first: u64) -> Result<(), Mismatch> {
    let odd = |found: usize| Mismatch {
        what: "length of a segment freed through the log's numbers",
        expected: 12,
        found: found as u64,
    };
    let bytes = record.key.len() + record.value.len();
    let logical = record.key.try_into().map_err(|_| odd(bytes))?;
    let physical = record.value.try_into().map_err(|_| odd(bytes))?;
    let (logical, physical) = (u64::from_be_bytes(logical), u32::from_le_bytes(physical));
    if logical >= first {
        return Err(Mismatch {
            what: "segment that was released while replay needs it",
            expected: first,
            found: logical,
        });
    }
    // The checkpoint may have known that it is none, or be so new that it uses the segment for something else.
    if core.segments.log.get(&logical) == Some(&physical) {
        core.segments.free_logged(physical, record.lsn);
    }
    core.reached(CoveragePoint::ReplaySegmentFreed);
    Ok(())
}

/// Applies one record in log order. `first` is the number of the segment in which replay began.
fn apply_record(core: &mut Core, record: &Record<'_>, first: u64) -> Result<(), Mismatch> {
    if record.kind == RecordKind::FreeSegment {
        return free_logged(core, record, first);
    }
    let in_log = || Place::Log {
        lsn: record.lsn,
        value_bytes: crate::format::len32(record.value.len()),
        tag: tag(record.checksum),
    };
    let sequence = record.sequence;
    let place = match record.kind {
        RecordKind::Delete => Place::Tombstone,
        RecordKind::Put if record.value.len() as u64 <= core.replays_inline_bytes => {
            Place::Inline(record.value.into())
        }
        RecordKind::Put | RecordKind::MoveValue | RecordKind::MoveOlderValue => in_log(),
        RecordKind::PutExtent | RecordKind::MoveExtent | RecordKind::MoveOlderExtent => {
            let pointer = Pointer::decode(&core.geometry, core.segments.count(), record.value)?;
            claim_extents(core, &pointer)?;
            Place::Extent(Box::new(pointer))
        }
        RecordKind::FreeSegment => unreachable!("it is no version"),
    };
    let key = record.key;
    let is_move = matches!(record.kind, RecordKind::MoveValue | RecordKind::MoveExtent);
    // What the runs have of a key is not known here, nor need it be: a record brings the key to the state that it had then.
    let is_newest = !core.index.is_known(key) || core.index.is_newest(key, sequence);
    let counts =
        record.kind.is_commit() || (is_move && is_newest) || mutant(Mutant::MoveOverwritesNewer);
    if counts {
        core.index.set(key, Version { sequence, place });
    }
    if record.kind == RecordKind::Delete {
        core.index.note_deleted(key, sequence);
    }
    Ok(())
}
