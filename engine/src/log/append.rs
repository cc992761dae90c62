//! The tail of the log: the frame being filled and the frames on their way to the medium.
//!
//! Invariants:
//! - positions are assigned when a record is appended and never change. A frame never spans a segment. While a frame is
//!   open, the value of a record may be replaced by one of the same size;
//! - sealed frames form a chain by the checksum of the one before, in the order of their positions;
//! - a frame's bytes stay in memory until it is durable, so that only durable bytes are ever read back from the device;
//! - entering a segment writes its header in the same write as its first frame, and by then the next one is reserved.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::api::buffer::IoBuf;
use crate::api::config::Options;
use crate::format::checksum::Identity;
use crate::format::frame::{FRAME_HEADER_BYTES, FrameHeader};
use crate::format::record::{self, RecordKind, record_bytes};
use crate::format::segment::SegmentHeader;
use crate::format::superblock::ReplayStart;
use crate::format::{Geometry, len32, to_usize};
use crate::log::filter::Filter;
use crate::log::pool::Pool;
use crate::log::tail::Tail;
use crate::mutant::{Mutant, mutant};
use crate::segments::unproven::Unproven;
use crate::segments::usage::{Segments, Use};

/// The frame that takes records.
#[derive(Debug)]
pub(crate) struct OpenFrame {
    /// LSN of the first byte that will be written: the segment's start if this frame enters it.
    start: u64,
    pub(crate) lsn: u64,
    physical: u32,
    buffer: IoBuf,
    len: usize,
    records: u32,
    first_sequence: u64,
    /// Offsets of chunks that records of this frame point to.
    pub(crate) chunks: Vec<u64>,
    /// Chunks that its records refer to, dead ones and old ones too.
    pub(crate) referred: Vec<u64>,
    pub(crate) chunk_writes: u32,
    has_extents: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameState {
    Queued,
    Writing,
    Written,
}

/// A sealed frame that is not known to be durable.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) lsn: u64,
    pub(crate) end: u64,
    /// Device offset of the write, and LSN of its first byte.
    pub(crate) offset: u64,
    pub(crate) start: u64,
    pub(crate) data: Arc<IoBuf>,
    /// The durable position that it states.
    states: u64,
    pub(crate) state: FrameState,
    /// Whether its write is durable on completion, or what else has to come.
    pub(crate) flush: FlushNeed,
    /// It holds nothing but a durable position.
    pub(crate) is_mark: bool,
    pub(crate) chunks: Vec<u64>,
    pub(crate) chunk_writes: u32,
}

/// What a frame of its own needs beside its write to be durable, where frames are written through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlushNeed {
    /// Nothing more.
    No,
    /// A flush that is submitted after its write has completed.
    Yes,
    /// The end of the flush that is under way.
    UnderWay,
}

impl Frame {
    /// Frame and extents have reached the device.
    pub(crate) fn is_written(&self) -> bool {
        let chunks_written = self.chunk_writes == 0 || mutant(Mutant::PointerBeforeValue);
        self.state == FrameState::Written && chunks_written
    }

    /// That, and its own need of a flush is met.
    pub(crate) fn is_complete(&self) -> bool {
        let flushed = self.flush == FlushNeed::No || mutant(Mutant::RelaxedFramesNotFlushed);
        self.is_written() && flushed
    }

    /// A flush has to come for it, or may have to once it is written.
    pub(crate) fn may_need_flush(&self) -> bool {
        self.flush == FlushNeed::Yes || self.state == FrameState::Queued
    }
}

#[derive(Debug)]
pub(crate) struct Log {
    geometry: Geometry,
    id: Identity,
    frame_bytes: u64,
    pub(crate) epoch: u64,
    /// Where this epoch starts, until its first frame stands there. A whole frame that recovery cut off may lie there:
    /// its extents were missing, or it held no commit and was not proven. If the epoch's first frame went elsewhere,
    /// that old frame would be valid again.
    fence: Option<u64>,
    /// Where the next frame goes when none is open; at a segment's start, that segment has yet to be entered.
    tail: u64,
    current: u32,
    /// Whether the segment was entered for a client's write.
    is_clients: bool,
    /// Reserved to be the next segment.
    pub(crate) next: u32,
    previous_checksum: u64,
    previous_end: u64,
    pub(crate) next_sequence: u64,
    /// End of the last durable frame.
    pub(crate) durable: u64,
    /// The durable position that the last sealed frame states.
    pub(crate) stated_durable: u64,
    pub(crate) open: Option<OpenFrame>,
    /// The keys put into the open frame.
    puts: Filter,
    /// What the frame sealed last took: the next one begins with as much, since to grow is to copy.
    usual_bytes: u64,
    pub(crate) pool: Pool,
    pub(crate) frames: VecDeque<Frame>,
    /// Bytes of all frames that are not durable, the open one included.
    pub(crate) volatile_bytes: u64,
    /// Bytes of log since the opening.
    pub(crate) written_bytes: u64,
    /// Position of the record appended last; 0 if none was.
    pub(crate) last_record: u64,
    pub(crate) unproven: Unproven,
    /// The highest durable position that something durable states, since the opening.
    pub(crate) proven: u64,
}

impl Log {
    pub(crate) fn new(
        geometry: Geometry,
        id: Identity,
        options: &Options,
        epoch: u64,
        tail: &Tail,
    ) -> Log {
        Log {
            geometry,
            id,
            frame_bytes: options.frame_bytes,
            epoch,
            fence: Some(tail.lsn).filter(|lsn| geometry.within(*lsn) != 0),
            tail: tail.lsn,
            current: tail.current,
            is_clients: false,
            next: tail.next,
            previous_checksum: tail.previous_checksum,
            previous_end: tail.previous_end,
            next_sequence: tail.next_sequence,
            durable: tail.previous_end,
            stated_durable: tail.previous_end,
            open: None,
            puts: Filter::new(),
            usual_bytes: 0,
            pool: Pool::new(to_usize(options.write_buffer_bytes)),
            frames: VecDeque::new(),
            volatile_bytes: 0,
            written_bytes: 0,
            last_record: 0,
            unproven: Unproven::default(),
            proven: 0,
        }
    }

    /// From now on frames are as large as segments have room: what is lost at their ends is kept back by none of the options.
    pub(crate) fn fill_segments(&mut self) {
        self.frame_bytes = u64::MAX;
    }

    /// The largest sum of record bytes that a frame can hold.
    pub(crate) fn body_bytes_max(geometry: &Geometry) -> usize {
        to_usize(geometry.payload_bytes()) - FRAME_HEADER_BYTES
    }

    /// Everything handed in lies before this.
    pub(crate) fn end(&self) -> u64 {
        self.open.as_ref().map_or(self.previous_end, |open| {
            open.start + self.geometry.block_up(open.len as u64)
        })
    }

    /// No record that is appended from now on lies before this.
    pub(crate) fn next_record(&self) -> u64 {
        let open = self.open.as_ref();
        open.map_or(self.previous_end, |open| open.start + open.len as u64)
    }

    /// Whether the frame at this position is on its way no more.
    pub(crate) fn is_retired(&self, lsn: u64) -> bool {
        let open = self.open.as_ref().is_some_and(|open| open.lsn == lsn);
        !open && self.frames.iter().all(|frame| frame.lsn != lsn)
    }

    /// Whether everything handed in is durable. Frames that only state a durable position do not count.
    pub(crate) fn is_durable_to(&self, lsn: u64) -> bool {
        lsn < self.durable
    }

    /// Number of the segment that the next record may go to at the earliest.
    pub(crate) fn segment_now(&self) -> u64 {
        self.geometry
            .logical(self.open.as_ref().map_or(self.tail, |open| open.lsn))
    }

    /// Bytes of the segment that the log is in which nothing has taken.
    pub(crate) fn room_in_segment(&self) -> u64 {
        match self.geometry.within(self.end()) {
            0 => 0,
            used => self.geometry.segment_bytes - used,
        }
    }

    /// Whether appending so many record bytes as one unit enters a new segment, and so takes a free one to reserve.
    pub(crate) fn needs_segment(&self, bytes: usize) -> bool {
        let at = match &self.open {
            Some(open) if self.open_takes(open, bytes) => return false,
            Some(open) => open.start + self.geometry.block_up(open.len as u64),
            None => self.tail,
        };
        !self.fits_at(at, bytes)
    }

    fn open_takes(&self, open: &OpenFrame, bytes: usize) -> bool {
        let frame_bytes = open.len as u64 - (open.lsn - open.start) + bytes as u64;
        let room = self.geometry.segment_bytes - self.geometry.within(open.lsn);
        frame_bytes <= room && (open.records == 0 || frame_bytes <= self.frame_bytes)
    }

    fn fits_at(&self, at: u64, bytes: usize) -> bool {
        let within = self.geometry.within(at);
        within != 0 && within + (FRAME_HEADER_BYTES + bytes) as u64 <= self.geometry.segment_bytes
    }

    /// Bytes of the open frame, with the segment's header if it enters one.
    pub(crate) fn open_bytes(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.len as u64)
    }

    /// Whether there is an open frame that takes so many record bytes more.
    pub(crate) fn takes_now(&self, bytes: usize) -> bool {
        let open = self.open.as_ref();
        open.is_some_and(|open| self.open_takes(open, bytes))
    }

    /// Makes sure that the open frame takes so many record bytes of a client's write.
    pub(crate) fn make_room_for_client(&mut self, segments: &mut Segments, bytes: usize) {
        let enters = self.needs_segment(bytes);
        self.make_room(segments, bytes);
        self.is_clients |= enters;
    }

    /// Whether the segment was entered for garbage collection, or for what the engine notes for itself: then it was taken from what is kept back for them.
    pub(crate) fn is_in_reserve(&self) -> bool {
        !self.is_clients
    }

    /// Makes sure that the open frame takes so many record bytes. Whether it may enter a segment was asked before.
    pub(crate) fn make_room(&mut self, segments: &mut Segments, bytes: usize) {
        if self
            .open
            .as_ref()
            .is_some_and(|open| !self.open_takes(open, bytes))
        {
            self.seal(segments);
        }
        if self.open.is_some() {
            return;
        }
        if !self.fits_at(self.tail, bytes) && self.geometry.within(self.tail) != 0 {
            if self.fence == Some(self.tail) {
                self.begin_frame(segments, 0);
                self.seal(segments);
            }
            self.tail = self.tail.next_multiple_of(self.geometry.segment_bytes);
        }
        self.begin_frame(segments, bytes);
    }

    /// Opens a frame at the tail, entering the segment if the tail is at its start.
    fn begin_frame(&mut self, segments: &mut Segments, bytes: usize) {
        self.fence = None;
        let start = self.tail;
        let mut lsn = start;
        if self.geometry.within(start) == 0 {
            lsn += self.geometry.block_bytes;
            self.current = self.next;
            self.is_clients = false;
            self.next = segments
                .allocate(Use::Log)
                .expect("admission left a segment to reserve");
            segments.enter_log(self.geometry.logical(start), self.current);
        }
        let lead = to_usize(lsn - start);
        let len = lead + FRAME_HEADER_BYTES;
        let wanted = self.geometry.block_up((len + bytes) as u64);
        let room = self.geometry.segment_bytes - self.geometry.within(start);
        let usual = self.usual_bytes.min(room);
        let mut buffer = self.pool.take(to_usize(wanted.max(usual)));
        buffer[..len].fill(0);
        self.volatile_bytes += len as u64;
        self.puts.clear();
        self.open = Some(OpenFrame {
            start,
            lsn,
            physical: self.current,
            buffer,
            len,
            records: 0,
            first_sequence: self.next_sequence,
            chunks: Vec::new(),
            referred: Vec::new(),
            chunk_writes: 0,
            has_extents: false,
        });
    }

    /// Appends a record to the open frame, which has the room. Returns its position and checksum.
    pub(crate) fn append(
        &mut self,
        kind: RecordKind,
        sequence: u64,
        key: &[u8],
        value: &[u8],
    ) -> (u64, u64) {
        let open = self.open.as_mut().expect("room was made");
        let bytes = record_bytes(key.len(), value.len());
        let end = open.len + bytes;
        if end > open.buffer.len() {
            let room = self.geometry.segment_bytes - self.geometry.within(open.start);
            let wanted = self
                .geometry
                .block_up(end as u64)
                .max(2 * open.buffer.len() as u64)
                .min(room);
            let wanted = to_usize(wanted);
            if open.buffer.capacity() >= wanted {
                open.buffer.set_len(wanted);
            } else {
                let mut larger = self.pool.take(wanted);
                larger[..open.len].copy_from_slice(&open.buffer[..open.len]);
                self.pool.give(std::mem::replace(&mut open.buffer, larger));
            }
        }
        let lsn = open.start + open.len as u64;
        let checksum = record::encode(
            &self.id,
            lsn,
            kind,
            sequence,
            key,
            value,
            &mut open.buffer[open.len..end],
        );
        open.len = end;
        open.records += 1;
        if kind == RecordKind::Put {
            self.puts.note(key);
        }
        open.has_extents |= kind.has_pointer();
        self.volatile_bytes += bytes as u64;
        self.last_record = lsn;
        (lsn, checksum)
    }

    /// The first sequence number and the first position of the open frame, if its puts may have this key among them.
    pub(crate) fn may_absorb(&self, key: &[u8]) -> Option<(u64, u64)> {
        let open = self.open.as_ref().filter(|_| self.puts.may_have(key))?;
        Some((open.first_sequence, open.lsn))
    }

    /// Puts another value of the same size into a put of the open frame. Returns the record's checksum.
    pub(crate) fn overwrite(&mut self, lsn: u64, sequence: u64, key: &[u8], value: &[u8]) -> u64 {
        let open = self.open.as_mut().expect("the record is in the open frame");
        let at = to_usize(lsn - open.start);
        let end = at + record_bytes(key.len(), value.len());
        let out = &mut open.buffer[at..end];
        record::encode(&self.id, lsn, RecordKind::Put, sequence, key, value, out)
    }

    /// Closes the open frame: from here on it is immutable and part of the chain.
    pub(crate) fn seal(&mut self, segments: &mut Segments) {
        let Some(mut open) = self.open.take() else {
            return;
        };
        let lead = to_usize(open.lsn - open.start);
        if lead > 0 && !mutant(Mutant::SegmentHeaderNotRewritten) {
            let header = SegmentHeader {
                epoch: self.epoch,
                logical: self.geometry.logical(open.start),
                physical: open.physical,
                next: self.next,
                previous_end: self.previous_end,
                previous_checksum: self.previous_checksum,
                durable: self.durable,
            };
            header.encode(&self.id, &mut open.buffer[..lead]);
        }
        let header = FrameHeader {
            epoch: self.epoch,
            lsn: open.lsn,
            body_bytes: len32(open.len - lead - FRAME_HEADER_BYTES),
            records: open.records,
            first_sequence: open.first_sequence,
            previous_checksum: self.previous_checksum,
            durable: if mutant(Mutant::DurableStatedTooEarly) {
                self.previous_end
            } else {
                self.durable
            },
            has_extents: open.has_extents,
            body_checksum: 0,
            header_checksum: 0,
        };
        let header = header.seal(&self.id, &mut open.buffer[lead..]);
        let padded = self.geometry.block_up(open.len as u64);
        self.usual_bytes = padded;
        open.buffer.set_len(to_usize(padded));
        open.buffer[open.len..].fill(0);
        let end = open.start + padded;
        self.volatile_bytes += padded - open.len as u64;
        self.written_bytes += padded;
        self.previous_checksum = header.header_checksum;
        self.previous_end = end;
        self.stated_durable = self.durable;
        self.tail = end;
        self.unproven.seal(end);
        let within = self.geometry.within(open.start);
        let written = u32::try_from(within + padded).expect("a segment is below 4 GiB");
        segments.set_end(open.physical, written);
        self.frames.push_back(Frame {
            lsn: open.lsn,
            end,
            offset: self.geometry.segment_offset(open.physical) + within,
            start: open.start,
            data: Arc::new(open.buffer),
            states: self.durable,
            state: FrameState::Queued,
            flush: FlushNeed::No,
            is_mark: open.records == 0,
            chunks: open.chunks,
            chunk_writes: open.chunk_writes,
        });
    }

    /// Whether some record is durable, and nothing that was written says so.
    pub(crate) fn is_unstated(&self) -> bool {
        self.stated_durable < self.durable && self.last_record >= self.stated_durable
    }

    /// An empty frame that records the durable position, if that is news. True if it was sealed. Whether it may enter a segment
    /// was asked before.
    pub(crate) fn mark(&mut self, segments: &mut Segments) -> bool {
        if self.open.is_some() || !self.frames.is_empty() || !self.is_unstated() {
            return false;
        }
        self.make_room(segments, 0);
        self.seal(segments);
        true
    }

    /// The frame at the front is durable.
    pub(crate) fn retire(&mut self) -> Frame {
        let frame = self.frames.pop_front().expect("a frame is retired once");
        assert!(
            frame.is_complete(),
            "only what has reached the device is durable"
        );
        self.durable = frame.end;
        self.prove(frame.states);
        self.volatile_bytes -= frame.data.len() as u64;
        frame
    }

    /// Something durable states this durable position.
    pub(crate) fn prove(&mut self, durable: u64) {
        self.unproven.prove(durable);
        self.proven = self.proven.max(durable);
    }

    /// The bytes of a record that is not durable yet: in a sealed frame without copying, or in the open one.
    pub(crate) fn in_memory(&self, lsn: u64) -> Option<InMemory<'_>> {
        if let Some(open) = &self.open
            && lsn >= open.lsn
        {
            return Some(InMemory::Open(
                &open.buffer[to_usize(lsn - open.start)..open.len],
            ));
        }
        let at = self.frames.partition_point(|frame| frame.end <= lsn);
        let frame = self.frames.get(at).filter(|frame| lsn >= frame.lsn)?;
        Some(InMemory::Sealed(&frame.data, to_usize(lsn - frame.start)))
    }

    /// The next segment to enter: its first position, and the physical segment reserved for it.
    pub(crate) fn next_segment(&self) -> (u64, u32) {
        let lsn = self.tail.next_multiple_of(self.geometry.segment_bytes);
        (lsn, self.next)
    }

    /// Where a replay that starts now has to begin: before the open frame, if there is one.
    pub(crate) fn replay_start(&self) -> ReplayStart {
        let (lsn, physical, sequence) = match &self.open {
            Some(open) => (open.start, open.physical, open.first_sequence),
            None if self.geometry.within(self.tail) == 0 => {
                (self.tail, self.next, self.next_sequence)
            }
            None => (self.tail, self.current, self.next_sequence),
        };
        let next = match self.geometry.within(lsn) {
            0 => 0,
            _ => self.next,
        };
        ReplayStart {
            lsn,
            physical,
            next,
            previous_checksum: self.previous_checksum,
            previous_end: self.previous_end,
            sequence,
        }
    }
}

/// Bytes of the log that are still in memory, from a record on.
pub(crate) enum InMemory<'a> {
    Open(&'a [u8]),
    Sealed(&'a Arc<IoBuf>, usize),
}
