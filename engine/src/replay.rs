//! Replay: follows the log from the checkpoint to its tail, and decides what the end of the chain means.
//!
//! A frame belongs to the chain if it is whole, is at its place, names its predecessor's checksum, and has the right epoch: from
//! the superblock's epoch start on exactly the superblock's epoch, before that none newer, never going back. Where the chain
//! ends, one of two things holds, and they are never guessed:
//!
//! - **torn tail**: nothing says that anything from there on was ever durable. It is cut off.
//! - **damage**: the superblock, a frame of the chain, or any whole frame or segment header of the current epoch further on
//!   states a durable position beyond the end of the chain. The database is refused.
//!
//! Frames that point to extents and are not known to be durable are held back until their extents were verified, so that a
//! cut never has to be undone.

use std::collections::VecDeque;

use crate::buffer::IoBuf;
use crate::checksum::{Identity, Kind};
use crate::core::Core;
use crate::error::{Corruption, Error, Mismatch};
use crate::executor::Handle;
use crate::format::frame::{FRAME_HEADER_BYTES, FrameHeader};
use crate::format::pointer::Pointer;
use crate::format::record::{Record, RecordKind, Records, tag};
use crate::format::segment::SegmentHeader;
use crate::format::superblock::Superblock;
use crate::format::{Geometry, round_up, to_usize};
use crate::index::{Place, Version};
use crate::log::Tail;
use crate::recovery::claim_extents;
use crate::segments::Use;

/// First read of a segment; each further one is twice as long.
const READ_BYTES_MIN: u64 = 64 << 10;
const READ_BYTES_MAX: u64 = 1 << 20;

/// What replay found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recovered {
    pub(crate) tail: Tail,
    /// Whether something was cut off.
    pub(crate) cut: bool,
}

/// A segment of the log as far as it has been read.
struct Loaded {
    physical: u32,
    bytes: IoBuf,
}

impl Loaded {
    fn new(physical: u32) -> Loaded {
        Loaded {
            physical,
            bytes: IoBuf::zeroed(0),
        }
    }

    /// Makes sure that everything before `end` is loaded (from the segment's start).
    async fn load(&mut self, handle: &Handle, geometry: &Geometry, end: u64) -> Result<(), Error> {
        let mut have = self.bytes.len() as u64;
        while have < end {
            let len = have
                .clamp(READ_BYTES_MIN, READ_BYTES_MAX)
                .max(end - have)
                .min(geometry.segment_bytes - have);
            let len = round_up(len, geometry.block_bytes).min(geometry.segment_bytes - have);
            let piece = handle
                .read_retry(geometry.segment_offset(self.physical) + have, len)
                .await?;
            if have == 0 {
                self.bytes = piece;
            } else {
                self.bytes.grow(to_usize(have + len));
                self.bytes[to_usize(have)..].copy_from_slice(&piece);
            }
            have += len;
        }
        Ok(())
    }

    fn from(&self, within: u64) -> &[u8] {
        &self.bytes[to_usize(within)..]
    }
}

/// A frame whose extents have to be verified before it may count, and those behind it.
struct Held {
    header: FrameHeader,
    end: u64,
    body: Vec<u8>,
    tail: Tail,
    physical: u32,
}

struct Replay<'a> {
    handle: &'a Handle,
    superblock: &'a Superblock,
    geometry: Geometry,
    id: Identity,
    /// Where the next frame is expected.
    tail: Tail,
    epoch: u64,
    durable: u64,
    held: VecDeque<Held>,
    segment: Loaded,
}

/// Replays the log; what it says is applied to the core's index and segments.
pub(crate) async fn replay(handle: &Handle, superblock: &Superblock) -> Result<Recovered, Error> {
    let (geometry, id) = handle.with(|core| (core.geometry, core.id));
    let start = &superblock.replay;
    let tail = Tail {
        lsn: start.lsn,
        current: start.physical,
        next: start.physical,
        previous_checksum: start.previous_checksum,
        previous_end: start.previous_end,
        next_sequence: start.sequence,
    };
    let segment = Loaded::new(start.physical);
    let durable = superblock.durable.max(superblock.log_minimum);
    let mut replay = Replay {
        handle,
        superblock,
        geometry,
        id,
        tail,
        epoch: 0,
        durable,
        held: VecDeque::new(),
        segment,
    };
    replay.run().await
}

impl Replay<'_> {
    async fn run(&mut self) -> Result<Recovered, Error> {
        let (at, mismatch) = match self.enter_first().await? {
            Some(mismatch) => (self.tail.lsn, mismatch),
            None => self.follow().await?,
        };
        let damage = self.damage_at(at, mismatch);
        if self.durable > self.tail.previous_end {
            return Err(damage.into());
        }
        let evidence = self.evidence_beyond(at).await?;
        if evidence.is_some_and(|durable| durable > self.tail.previous_end) {
            return Err(damage.into());
        }
        self.durable = self.durable.max(evidence.unwrap_or(0));
        let cut_extents = self.settle_held().await?;
        let from = self.geometry.logical(self.tail.lsn.saturating_sub(1)) + 1;
        self.handle.with(|core| core.segments.cut_log(from));
        let torn = mismatch.found != 0 && mismatch.what != "segment number";
        Ok(Recovered {
            tail: self.tail,
            cut: cut_extents || torn,
        })
    }

    /// Follows the chain to its end; returns why it ends there. Where the segment had no room for another frame, that is why
    /// the next segment does not follow.
    async fn follow(&mut self) -> Result<(u64, Mismatch), Error> {
        loop {
            let at = self.tail.lsn;
            if let Some(mismatch) = self.frame().await?
                && let Some(unlinked) = self.link().await?
            {
                let full = self.geometry.within(at) == 0;
                return Ok(if full { (at, unlinked) } else { (at, mismatch) });
            }
        }
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
            .map_err(|m| m.at(offset))?;
        if header.epoch > self.superblock.epoch {
            return Err(Mismatch {
                what: "epoch",
                expected: self.superblock.epoch,
                found: header.epoch,
            }
            .at(offset)
            .into());
        }
        self.tail.next = header.next;
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
        }
        Ok(missing)
    }

    /// Enters the segment at the tail, which is at its start.
    async fn enter(&mut self, physical: u32) -> Result<Option<Mismatch>, Error> {
        let lsn = self.tail.lsn;
        let logical = self.geometry.logical(lsn);
        let mut segment = Loaded::new(physical);
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
            Err(mismatch) => return Ok(Some(mismatch)),
        };
        if header.next >= self.handle.with(|core| core.segments.count()) {
            let mismatch = Mismatch {
                what: "next segment",
                expected: 0,
                found: header.next.into(),
            };
            return Err(mismatch.at(self.geometry.segment_offset(physical)).into());
        }
        self.claim(logical, physical)?;
        let end = u32::try_from(self.geometry.block_bytes).expect("blocks are small");
        self.handle
            .with(|core| core.segments.get_mut(physical).end = end);
        self.epoch = header.epoch;
        self.durable = self.durable.max(header.durable);
        self.segment = segment;
        self.tail.current = physical;
        self.tail.next = header.next;
        self.tail.lsn = lsn + self.geometry.block_bytes;
        Ok(None)
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
        let header =
            match FrameHeader::decode(&self.id, self.tail.lsn, room, self.segment.from(within)) {
                Ok(header) => header,
                Err(mismatch) => return Ok(Some(mismatch)),
            };
        if let Err(mismatch) = self.check_chain(&header) {
            return Ok(Some(mismatch));
        }
        self.segment
            .load(self.handle, &self.geometry, within + header.total_bytes())
            .await?;
        let body = match header.check_body(&self.id, self.segment.from(within)) {
            Ok(body) => body.to_vec(),
            Err(mismatch) => return Ok(Some(mismatch)),
        };
        self.accept(header, body)?;
        Ok(None)
    }

    fn check_chain(&self, header: &FrameHeader) -> Result<(), Mismatch> {
        self.check_epoch(header.lsn, header.epoch)?;
        Mismatch::check(
            "checksum of the frame before",
            self.tail.previous_checksum,
            header.previous_checksum,
        )
    }

    /// The frame is the next of the chain.
    fn accept(&mut self, header: FrameHeader, body: Vec<u8>) -> Result<(), Error> {
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
        let before = self.tail;
        let mut commits = 0;
        let mut records = 0;
        for record in Records::new(header.lsn + FRAME_HEADER_BYTES as u64, &body) {
            let record = record.map_err(|mismatch| mismatch.at(offset))?;
            records += 1;
            if record.kind.is_commit() {
                let expected = header.first_sequence + commits;
                Mismatch::check("sequence number", expected, record.sequence)
                    .map_err(|mismatch| mismatch.at(offset))?;
                commits += 1;
            }
        }
        Mismatch::check("records of the frame", header.records.into(), records)
            .map_err(|mismatch| mismatch.at(offset))?;
        Mismatch::check(
            "first sequence number",
            self.tail.next_sequence,
            header.first_sequence,
        )
        .map_err(|mismatch| mismatch.at(offset))?;
        self.epoch = header.epoch;
        self.durable = self.durable.max(header.durable);
        self.tail.lsn = end;
        self.tail.previous_end = end;
        self.tail.previous_checksum = header.header_checksum;
        self.tail.next_sequence += commits;
        while self
            .held
            .front()
            .is_some_and(|held| held.end <= self.durable)
        {
            let held = self.held.pop_front().expect("it is there");
            self.apply(&held.header, &held.body, held.physical, held.end)?;
        }
        let must_verify = header.has_extents && end > self.durable;
        if must_verify || !self.held.is_empty() {
            self.held.push_back(Held {
                header,
                end,
                body,
                tail: before,
                physical: before.current,
            });
            return Ok(());
        }
        self.apply(&header, &body, before.current, end)
    }

    /// Brings the frame's effects into the index.
    fn apply(
        &self,
        header: &FrameHeader,
        body: &[u8],
        physical: u32,
        end: u64,
    ) -> Result<(), Error> {
        let offset = self.geometry.segment_offset(physical);
        let within = match self.geometry.within(end) {
            0 => self.geometry.segment_bytes,
            within => within,
        };
        self.handle.with(|core| {
            core.stats.replayed_frames += 1;
            core.segments.get_mut(physical).end =
                u32::try_from(within).expect("a segment is below 4 GiB");
            for record in Records::new(header.lsn + FRAME_HEADER_BYTES as u64, body) {
                let record = record.map_err(|mismatch| mismatch.at(offset))?;
                apply_record(core, &record)
                    .map_err(|mismatch| mismatch.at(offset + self.geometry.within(record.lsn)))?;
            }
            Ok(())
        })
    }

    /// The chain has ended; what is held back counts if its extents are there. True if something was cut.
    async fn settle_held(&mut self) -> Result<bool, Error> {
        while let Some(held) = self.held.pop_front() {
            if held.end > self.durable
                && let Some(corruption) = self.check_extents(&held).await?
            {
                if self.durable > held.header.lsn {
                    return Err(corruption.into());
                }
                self.tail = held.tail;
                self.held.clear();
                return Ok(true);
            }
            self.apply(&held.header, &held.body, held.physical, held.end)?;
        }
        Ok(false)
    }

    /// The first chunk that a record of the frame points to and that is not there.
    async fn check_extents(&self, held: &Held) -> Result<Option<Corruption>, Error> {
        let segments = self.handle.with(|core| core.segments.count());
        for record in Records::new(held.header.lsn + FRAME_HEADER_BYTES as u64, &held.body) {
            let offset = self.geometry.segment_offset(held.physical);
            let record = record.map_err(|mismatch| mismatch.at(offset))?;
            if !matches!(record.kind, RecordKind::PutExtent | RecordKind::MoveExtent) {
                continue;
            }
            let pointer = Pointer::decode(&self.geometry, segments, record.value)
                .map_err(|mismatch| mismatch.at(offset))?;
            for chunk in &pointer.chunks {
                let sector = self.handle.with(|core| core.geometry.sector_bytes);
                let bytes = self
                    .handle
                    .read_retry(chunk.offset, round_up(chunk.len.into(), sector))
                    .await?;
                let found =
                    self.id
                        .checksum(Kind::Chunk, 0, chunk.offset, &bytes[..chunk.len as usize]);
                if let Err(mismatch) = Mismatch::check("chunk checksum", chunk.checksum, found) {
                    return Ok(Some(mismatch.at(chunk.offset)));
                }
            }
        }
        Ok(None)
    }

    /// The highest durable position that any whole structure of the current epoch from `lsn` on states. Looks at the rest
    /// of the segment and at those that follow, as far as their headers lead, and one beyond.
    async fn evidence_beyond(&mut self, lsn: u64) -> Result<Option<u64>, Error> {
        let mut highest = None;
        let mut logical = self.geometry.logical(lsn);
        let mut within = self.geometry.within(lsn);
        let mut next = self.tail.next;
        let count = self.handle.with(|core| core.segments.count());
        let mut segment = std::mem::replace(&mut self.segment, Loaded::new(0));
        if within == 0 {
            segment = Loaded::new(next);
        }
        let last = logical + u64::from(count);
        while logical < last {
            segment
                .load(self.handle, &self.geometry, self.geometry.segment_bytes)
                .await?;
            let base = logical * self.geometry.segment_bytes;
            let mut linked = within != 0;
            if within == 0
                && let Ok(header) =
                    SegmentHeader::decode(&self.id, logical, segment.physical, segment.from(0))
                && header.epoch >= self.superblock.epoch
            {
                self.check_superblock_epoch(header.epoch, segment.physical, 0)?;
                highest = highest.max(Some(header.durable));
                next = header.next;
                linked = true;
            }
            while within < self.geometry.segment_bytes {
                let room = self.geometry.segment_bytes - within;
                if let Ok(header) =
                    FrameHeader::decode(&self.id, base + within, room, segment.from(within))
                    && header.epoch >= self.superblock.epoch
                {
                    self.check_superblock_epoch(header.epoch, segment.physical, within)?;
                    highest = highest.max(Some(header.durable));
                }
                within += self.geometry.block_bytes;
            }
            if !linked || next >= count {
                break;
            }
            segment = Loaded::new(next);
            logical += 1;
            within = 0;
        }
        Ok(highest)
    }

    /// An epoch beyond the superblock's means that every copy of a later superblock is gone.
    fn check_superblock_epoch(&self, epoch: u64, physical: u32, within: u64) -> Result<(), Error> {
        let offset = self.geometry.segment_offset(physical) + within;
        Mismatch::check(
            "epoch, later than every superblock's",
            self.superblock.epoch,
            epoch,
        )
        .map_err(|mismatch| mismatch.at(offset).into())
    }
}

/// Applies one record in log order.
fn apply_record(core: &mut Core, record: &Record<'_>) -> Result<(), Mismatch> {
    let in_log = || Place::Log {
        lsn: record.lsn,
        value_bytes: crate::format::len32(record.value.len()),
        tag: tag(record.checksum),
    };
    let sequence = record.sequence;
    let place = match record.kind {
        RecordKind::Delete => Place::Tombstone,
        RecordKind::Put if record.value.len() as u64 <= core.settings.options.inline_bytes => {
            Place::Inline(record.value.into())
        }
        RecordKind::Put | RecordKind::MoveValue => in_log(),
        RecordKind::PutExtent | RecordKind::MoveExtent => {
            let pointer = Pointer::decode(&core.geometry, core.segments.count(), record.value)?;
            claim_extents(core, &pointer)?;
            Place::Extent(Box::new(pointer))
        }
    };
    if record.kind.is_commit() {
        core.index
            .set(record.key, Version { sequence, place }, &mut Vec::new());
    } else if core
        .index
        .newest(record.key)
        .is_some_and(|newest| newest.sequence == sequence)
    {
        core.index.relocate(record.key, sequence, place);
    }
    Ok(())
}
