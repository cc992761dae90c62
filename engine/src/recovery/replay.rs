//! Replay: follows the log from the checkpoint to its tail, and decides what the end of the chain means.
//!
//! A frame belongs to the chain if it is whole, is at its place, names its predecessor's checksum, and has the right
//! epoch. From the superblock's epoch start on, that is exactly the superblock's epoch; before it, none newer, and
//! never going back. Where the chain ends, one of two things holds. Which one is never guessed:
//!
//! - **torn tail**: nothing says that anything from there on was ever durable. It is cut off.
//! - **damage**: something states a durable position beyond the end of the chain. That may be the superblock, a frame
//!   of the chain, or any frame or segment header of the current epoch there or further on. The database is refused.
//!
//! Frames that nothing states as durable are held back until something does, or until the chain has ended; `resolve_tail.rs` then
//! says what becomes of them.

use std::collections::VecDeque;

use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::format::checksum::Identity;
use crate::format::damage::{Corruption, Mismatch, is_unreadable, unreadable_at};
use crate::format::frame::{FRAME_HEADER_BYTES, FrameHeader};
use crate::format::record::{self, Records};
use crate::format::segment::SegmentHeader;
use crate::format::superblock::Superblock;
use crate::format::{Geometry, round_up, to_usize};
use crate::log::tail::Tail;
use crate::mutant::{Mutant, mutant};
use crate::recovery::held::Held;
use crate::recovery::loaded::Loaded;
use crate::runtime::handle::Handle;
use crate::segments::usage::Use;

/// What replay found.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) tail: Tail,
    /// Whether something was cut off.
    pub(crate) cut: bool,
    /// Everything before this is known to be durable.
    pub(crate) proven: u64,
    /// The frames between there and the tail, if any of them holds a commit: they were read, and may yet vanish.
    pub(crate) unproven: Vec<Held>,
}

pub(crate) struct Replay<'a> {
    pub(crate) handle: &'a Handle,
    pub(crate) superblock: &'a Superblock,
    pub(crate) geometry: Geometry,
    pub(crate) id: Identity,
    /// Where the next frame is expected.
    pub(crate) tail: Tail,
    /// The tail before the present segment was entered, as long as no frame was found in it.
    unentered: Option<Tail>,
    epoch: u64,
    /// The highest position that anything states as durable.
    pub(crate) durable: u64,
    pub(crate) held: VecDeque<Held>,
    pub(crate) segment: Loaded,
    /// The one that the present segment leads to, of which the first read is under way.
    next_segment: Option<Loaded>,
    /// What the device did not return where the chain ended. It may return it when it is asked again.
    unread: Option<Corruption>,
}

/// How often the log's end is read, and a value to which a frame there points. A read that comes from elsewhere, or from before, may show that
/// more of the log, or the value, is not there, and it is cut off then.
pub(crate) const LOOKS: usize = 3;

/// Replays the log; what it says is applied to the core's index and segments.
pub(crate) async fn replay(handle: &Handle, superblock: &Superblock) -> Result<Recovered, Error> {
    Replay::new(handle, superblock).run().await
}

impl<'a> Replay<'a> {
    fn new(handle: &'a Handle, superblock: &'a Superblock) -> Replay<'a> {
        let (geometry, id) = handle.with(|core| (core.geometry, core.id));
        let start = &superblock.replay;
        Replay {
            handle,
            superblock,
            geometry,
            id,
            tail: Tail {
                lsn: start.lsn,
                current: start.physical,
                next: start.physical,
                previous_checksum: start.previous_checksum,
                previous_end: start.previous_end,
                next_sequence: start.sequence,
            },
            unentered: None,
            epoch: 0,
            durable: superblock.durable.max(superblock.log_minimum),
            held: VecDeque::new(),
            segment: Loaded::new(start.physical),
            next_segment: None,
            unread: None,
        }
    }

    async fn run(&mut self) -> Result<Recovered, Error> {
        let (at, mismatch) = match self.enter_first().await? {
            Some(mismatch) => {
                self.note_unread(mismatch);
                (self.tail.lsn, mismatch)
            }
            None => self.follow().await?,
        };
        let damage = self.damage_at(at, mismatch);
        if mutant(Mutant::GapIsTheEnd) {
            self.durable = self.durable.min(self.tail.previous_end);
        }
        if self.durable > self.tail.previous_end {
            return Err(self.refusal(damage));
        }
        self.check_before_epoch()
            .map_err(|mismatch| self.damage_at(self.tail.lsn, mismatch))?;
        let durability_record = if mutant(Mutant::GapIsTheEnd) {
            None
        } else {
            self.durability_record_beyond(at).await?
        };
        if durability_record.is_some_and(|durable| durable > self.tail.previous_end) {
            return Err(self.refusal(damage));
        }
        self.durable = self.durable.max(durability_record.unwrap_or(0));
        if durability_record.is_some() {
            self.handle
                .with(|core| core.reached(CoveragePoint::ReplayStrayDurabilityRecord));
        }
        if let Some(unentered) = self.unentered.take() {
            self.tail = unentered;
            self.handle
                .with(|core| core.reached(CoveragePoint::ReplayEmptySegment));
        }
        let (unproven, cut_extents) = self.resolve_tail().await?;
        let from = self.geometry.logical(self.tail.lsn.saturating_sub(1)) + 1;
        self.handle.with(|core| core.segments.cut_log(from));
        let torn = mismatch.found != 0 && mismatch.what != "segment number";
        if torn && mutant(Mutant::TornTailRefused) {
            return Err(damage.into());
        }
        if torn && mutant(Mutant::AppendAfterTornTail) {
            self.skip_block();
        }
        if mutant(Mutant::SequencesStartAgain) {
            self.tail.next_sequence = 1;
        }
        Ok(Recovered {
            tail: self.tail,
            cut: cut_extents || torn,
            proven: self.durable,
            unproven,
        })
    }

    /// Follows the chain to its end; returns why it ends there. Where the segment had no room for another frame, that is why
    /// the next segment does not follow.
    async fn follow(&mut self) -> Result<(u64, Mismatch), Error> {
        loop {
            let at = self.tail.lsn;
            let missing = self.frame().await?;
            if missing.is_some() && self.skips_bad_frame() {
                self.skip_block();
                continue;
            }
            if let Some(mismatch) = missing
                && let Some(unlinked) = self.link().await?
            {
                self.note_unread(mismatch);
                self.note_unread(unlinked);
                let full = self.geometry.within(at) == 0;
                return Ok(if full { (at, unlinked) } else { (at, mismatch) });
            }
        }
    }

    /// The chain ends for this reason: notes it if the device did not return what should be there.
    fn note_unread(&mut self, mismatch: Mismatch) {
        if is_unreadable(&mismatch) {
            self.unread = Some(unreadable_at(mismatch.found));
        }
    }

    /// Why the opening is refused where the chain ends too early: what the device did not return comes first, since nothing may be damaged then.
    pub(crate) fn refusal(&self, damage: Corruption) -> Error {
        self.unread.unwrap_or(damage).into()
    }

    /// Never, but for a mutant: whether to look for a whole frame behind this block.
    fn skips_bad_frame(&self) -> bool {
        let within = self.geometry.within(self.tail.lsn);
        let block = || {
            self.segment
                .from(within)
                .iter()
                .take(to_usize(self.geometry.block_bytes))
        };
        within != 0
            && (mutant(Mutant::BadFrameSkipped)
                || mutant(Mutant::ZeroesPassAsFrame) && block().all(|byte| *byte == 0))
    }

    /// Goes on one block further in the segment.
    fn skip_block(&mut self) {
        if self.geometry.within(self.tail.lsn) != 0 {
            self.tail.lsn += self.geometry.block_bytes;
        }
    }

    /// A log that has nothing of the superblock's epoch ends with the frame that the superblock says was the last before it, and not with one
    /// that was cut off at the same place in an epoch before.
    fn check_before_epoch(&self) -> Result<(), Mismatch> {
        let superblock = self.superblock;
        if self.epoch == superblock.epoch
            || superblock.replay.lsn > superblock.epoch_start
            || mutant(Mutant::GapIsTheEnd)
            || mutant(Mutant::RecycledSegmentReplays)
            || self.is_untied()
        {
            return Ok(());
        }
        Mismatch::check(
            "checksum of the last frame before the epoch",
            superblock.epoch_checksum,
            self.tail.previous_checksum,
        )
    }

    fn damage_at(&self, lsn: u64, mismatch: Mismatch) -> Corruption {
        let physical = if self.geometry.within(lsn) == 0 {
            self.tail.next
        } else {
            self.tail.current
        };
        mismatch.at(self.geometry.segment_offset(physical) + self.geometry.within(lsn))
    }

    /// Whether a structure at `lsn` may be of `epoch`.
    fn check_epoch(&self, lsn: u64, epoch: u64) -> Result<(), Mismatch> {
        let current = self.superblock.epoch;
        if lsn >= self.superblock.epoch_start {
            return Mismatch::check("epoch", current, epoch);
        }
        if epoch > current || epoch < self.epoch {
            return Err(Mismatch {
                what: "epoch",
                expected: self.epoch,
                found: epoch,
            });
        }
        Ok(())
    }

    /// Reads the header of the first segment. `Some`: the log ends right there, since nothing was ever written to it.
    async fn enter_first(&mut self) -> Result<Option<Mismatch>, Error> {
        if self.geometry.within(self.tail.lsn) == 0 {
            return self.enter(self.tail.next).await;
        }
        let logical = self.geometry.logical(self.tail.lsn);
        let physical = self.tail.current;
        self.segment
            .load(self.handle, &self.geometry, self.geometry.block_bytes)
            .await?;
        let offset = self.geometry.segment_offset(physical);
        let header = SegmentHeader::decode(&self.id, logical, physical, self.segment.from(0))
            .map_err(|it| self.explain_header(&self.segment, it).at(offset))?;
        if header.epoch > self.superblock.epoch {
            return Err(Mismatch {
                what: "epoch",
                expected: self.superblock.epoch,
                found: header.epoch,
            }
            .at(offset)
            .into());
        }
        // No frame is tied to this header: an older one of the same segment may lead elsewhere.
        let next = self.superblock.replay.next;
        Mismatch::check("next segment", next.into(), header.next.into())
            .map_err(|mismatch| mismatch.at(offset))?;
        self.tail.next = next;
        self.claim(logical, physical)?;
        let end =
            u32::try_from(self.geometry.within(self.tail.lsn)).expect("a segment is below 4 GiB");
        self.handle
            .with(|core| core.segments.get_mut(physical).end = end);
        Ok(None)
    }

    /// Goes on to the segment that follows, if its header says that the log does. `Some`: why it does not.
    async fn link(&mut self) -> Result<Option<Mismatch>, Error> {
        let before = self.tail.lsn;
        self.tail.lsn = round_up(before, self.geometry.segment_bytes);
        let missing = self.enter(self.tail.next).await?;
        if missing.is_some() {
            self.tail.lsn = before;
        } else {
            self.handle
                .with(|core| core.reached(CoveragePoint::ReplayLink));
        }
        Ok(missing)
    }

    /// Enters the segment at the tail, which is at its start.
    async fn enter(&mut self, physical: u32) -> Result<Option<Mismatch>, Error> {
        let lsn = self.tail.lsn;
        let logical = self.geometry.logical(lsn);
        let begun = self.next_segment.take();
        let begun = begun.filter(|segment| segment.physical == physical);
        let mut segment = begun.unwrap_or_else(|| Loaded::new(physical));
        segment
            .load(self.handle, &self.geometry, self.geometry.block_bytes)
            .await?;
        let header = SegmentHeader::decode(&self.id, logical, physical, segment.from(0)).and_then(
            |header| {
                self.check_epoch(lsn, header.epoch)?;
                Mismatch::check(
                    "end of the segment before",
                    self.tail.previous_end,
                    header.previous_end,
                )?;
                Mismatch::check(
                    "checksum of the frame before",
                    self.tail.previous_checksum,
                    header.previous_checksum,
                )?;
                Ok(header)
            },
        );
        let header = match header {
            Ok(header) => header,
            Err(mismatch) => {
                let mismatch = self.explain_header(&segment, mismatch);
                segment.done(self.handle);
                return Ok(Some(mismatch));
            }
        };
        self.check_next(physical, header.next)?;
        self.claim(logical, physical)?;
        let end = u32::try_from(self.geometry.block_bytes).expect("blocks are small");
        self.handle
            .with(|core| core.segments.get_mut(physical).end = end);
        self.epoch = header.epoch;
        self.durable = self.durable.max(header.durable);
        std::mem::replace(&mut self.segment, segment).done(self.handle);
        let next = Loaded::begun(self.handle, &self.geometry, header.next);
        self.next_segment = Some(next);
        // A header without a frame behind it proves nothing: it is written again, with the frame that will come.
        self.unentered = Some(self.tail);
        self.tail.current = physical;
        self.tail.next = header.next;
        self.tail.lsn = lsn + self.geometry.block_bytes;
        Ok(None)
    }

    /// A segment's header names one that the device has.
    fn check_next(&self, physical: u32, next: u32) -> Result<(), Error> {
        let count = self.handle.with(|core| core.segments.count());
        if next < count {
            return Ok(());
        }
        let mismatch = Mismatch {
            what: "next segment",
            expected: count.into(),
            found: next.into(),
        };
        Err(mismatch.at(self.geometry.segment_offset(physical)).into())
    }

    fn claim(&self, logical: u64, physical: u32) -> Result<(), Error> {
        let claimed = self.handle.with(|core| {
            let fresh = core.segments.get(physical).used_as == Use::Free
                && core.segments.claim(physical, Use::Log);
            if fresh {
                core.segments.enter_log(logical, physical);
            }
            fresh
        });
        if claimed {
            return Ok(());
        }
        let mismatch = Mismatch {
            what: "log segment of another use",
            expected: logical,
            found: physical.into(),
        };
        Err(mismatch.at(self.geometry.segment_offset(physical)).into())
    }

    /// Takes the frame at the tail. `Some`: why there is none.
    async fn frame(&mut self) -> Result<Option<Mismatch>, Error> {
        let within = self.geometry.within(self.tail.lsn);
        let room = self.geometry.segment_bytes - within;
        if within == 0 || room < self.geometry.block_bytes {
            return Ok(Some(Mismatch {
                what: "end of the segment",
                expected: 0,
                found: 0,
            }));
        }
        self.segment
            .load(
                self.handle,
                &self.geometry,
                within + self.geometry.block_bytes,
            )
            .await?;
        let bytes = self.segment.from(within);
        if mutant(Mutant::LengthTrustedUnchecked) {
            let end = within + FrameHeader::claimed_bytes(bytes);
            self.segment.load(self.handle, &self.geometry, end).await?;
        }
        let bytes = self.segment.from(within);
        let decoded = FrameHeader::decode(&self.id, self.tail.lsn, room, bytes);
        let mut header = match decoded.or_else(|it| self.recycled(room, bytes).ok_or(it)) {
            Ok(header) => header,
            Err(mismatch) => return Ok(Some(self.explain(self.geometry.block_bytes, mismatch))),
        };
        if header.records == 0 && mutant(Mutant::EmptyFrameEndsReplay) {
            return Ok(Mismatch::check("records", 1, 0).err());
        }
        if let Err(mismatch) = self.check_chain(&header) {
            return Ok(Some(mismatch));
        }
        self.segment
            .load(self.handle, &self.geometry, within + header.total_bytes())
            .await?;
        let body = match header.check_body(&self.id, self.segment.from(within)) {
            Ok(body) => body.to_vec(),
            Err(mismatch) => match self.whole_records(&mut header) {
                Some(body) => body,
                None => return Ok(Some(self.explain(header.total_bytes(), mismatch))),
            },
        };
        if mutant(Mutant::RecycledSegmentReplays) {
            (header.lsn, header.first_sequence) = (self.tail.lsn, self.tail.next_sequence);
        }
        self.accept(header, body).await?;
        Ok(None)
    }

    /// Why there is no frame in so many bytes at the tail.
    fn explain(&self, len: u64, mismatch: Mismatch) -> Mismatch {
        let within = self.geometry.within(self.tail.lsn);
        self.segment.explain(&self.geometry, within, len, mismatch)
    }

    /// Why a segment has no header.
    fn explain_header(&self, segment: &Loaded, mismatch: Mismatch) -> Mismatch {
        let block = self.geometry.block_bytes;
        segment.explain(&self.geometry, 0, block, mismatch)
    }

    /// Nothing, but for a mutant: a frame that was written here when the segment was another part of the log.
    fn recycled(&self, room: u64, bytes: &[u8]) -> Option<FrameHeader> {
        if !mutant(Mutant::RecycledSegmentReplays) {
            return None;
        }
        let header = FrameHeader::decode_misplaced(&self.id, bytes)?;
        (header.total_bytes() <= room).then_some(header)
    }

    /// Nothing, but for a mutant: the records of a torn frame that came through, from its first on.
    fn whole_records(&self, header: &mut FrameHeader) -> Option<Vec<u8>> {
        if !mutant(Mutant::TornFrameAppliedInPart) {
            return None;
        }
        let start = self.geometry.within(header.lsn) + FRAME_HEADER_BYTES as u64;
        let body = self.segment.from(start).get(..header.body_bytes as usize)?;
        let (mut at, mut records) = (0, 0);
        while let Ok((record, bytes)) = record::parse(0, &body[at..])
            && let lsn = header.lsn + (FRAME_HEADER_BYTES + at) as u64
            && record::verify(&self.id, lsn, &body[at..at + bytes]).is_ok()
            && record.sequence > 0
        {
            at += bytes;
            records += 1;
        }
        header.records = records;
        (records > 0).then(|| body[..at].to_vec())
    }

    pub(crate) fn check_chain(&self, header: &FrameHeader) -> Result<(), Mismatch> {
        if mutant(Mutant::RecycledSegmentReplays) {
            return Ok(());
        }
        if self.is_untied() {
            return self.check_epoch(header.lsn, header.epoch);
        }
        self.check_epoch(header.lsn, header.epoch)?;
        Mismatch::check(
            "checksum of the frame before",
            self.tail.previous_checksum,
            header.previous_checksum,
        )
    }

    /// Never, but for mutants that take a frame whatever was before it.
    fn is_untied(&self) -> bool {
        mutant(Mutant::TailNotFenced)
            || mutant(Mutant::BadFrameSkipped)
            || mutant(Mutant::ZeroesPassAsFrame)
    }

    /// The frame is the next of the chain.
    async fn accept(&mut self, header: FrameHeader, body: Vec<u8>) -> Result<(), Error> {
        let offset = self
            .damage_at(
                header.lsn,
                Mismatch {
                    what: "",
                    expected: 0,
                    found: 0,
                },
            )
            .offset;
        let end = header.lsn + self.geometry.block_up(header.total_bytes());
        let physical = self.tail.current;
        let before = self.unentered.take().unwrap_or(self.tail);
        if self.is_untied() {
            self.tail.next_sequence = header.first_sequence;
        }
        Mismatch::check(
            "first sequence number",
            self.tail.next_sequence,
            header.first_sequence,
        )
        .map_err(|mismatch| mismatch.at(offset))?;
        let mut commits = 0;
        let mut records = 0;
        for record in Records::new(header.lsn + FRAME_HEADER_BYTES as u64, &body) {
            let record = record.map_err(|mismatch| mismatch.at(offset))?;
            records += 1;
            if record.kind.is_commit() {
                let expected = header.first_sequence + commits;
                if !mutant(Mutant::RecycledSegmentReplays) {
                    Mismatch::check("sequence number", expected, record.sequence)
                        .map_err(|mismatch| mismatch.at(offset))?;
                }
                commits += 1;
            }
        }
        Mismatch::check("records of the frame", header.records.into(), records)
            .map_err(|mismatch| mismatch.at(offset))?;
        self.epoch = header.epoch;
        self.durable = self.durable.max(header.durable);
        self.tail.lsn = end;
        self.tail.previous_end = end;
        self.tail.previous_checksum = header.header_checksum;
        self.tail.next_sequence += commits;
        let held = Held {
            header,
            end,
            body,
            commits,
            tail: before,
            physical,
        };
        self.held.push_back(held);
        while let Some(proven) = self.held.pop_front_if(|held| held.end <= self.durable) {
            self.apply(&proven, true)?;
        }
        Ok(())
    }
}
