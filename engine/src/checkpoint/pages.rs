//! Where a checkpoint places its pages, and their way to the device.
//!
//! Invariants:
//! - pages lie one behind the other in segments of their own; the first ones may lie behind those of the checkpoint before, in a segment that stays;
//! - no page is placed where a page is that any superblock refers to.

use crate::api::buffer::IoBuf;
use crate::checkpoint::runs::Piece;
use crate::core::Core;
use crate::runtime::handle::{Handle, Io};
use crate::segments::usage::Use;

/// Finished pages are written when so many bytes have come together: a share of the write buffer, within bounds.
const BATCH_SHARE: u64 = 16;
const BATCH_BYTES_MIN: u64 = 64 << 10;
const BATCH_BYTES_MAX: u64 = 512 << 10;

/// Where pages are placed: one segment after the other.
#[derive(Debug)]
pub(crate) struct PageSink {
    /// Segments that were free before.
    pub(crate) segments: Vec<u32>,
    /// How many of them there may be.
    segments_max: u64,
    /// The segment being filled, and how far it is.
    end: Option<(u32, u64)>,
    takes_filters: bool,
    /// What the run being written has where.
    pieces: Vec<Piece>,
    /// Pages not handed to the device yet, and the offset of the first.
    batch: Vec<u8>,
    batch_offset: u64,
    full: Vec<(u64, Vec<u8>)>,
    batch_bytes: usize,
    pub(crate) written_bytes: u64,
}

impl PageSink {
    /// Places pages from `end` on, and then in at most so many free segments. Filters are placed where that says so.
    pub(crate) fn new(
        handle: &Handle,
        end: Option<(u32, u64)>,
        segments_max: u64,
        takes_filters: bool,
    ) -> PageSink {
        let buffer = handle.with(|core| core.settings.options.write_buffer_bytes);
        let batch = (buffer / BATCH_SHARE).clamp(BATCH_BYTES_MIN, BATCH_BYTES_MAX);
        PageSink {
            segments: Vec::new(),
            segments_max,
            end,
            takes_filters,
            pieces: Vec::new(),
            batch: Vec::new(),
            batch_offset: 0,
            full: Vec::new(),
            batch_bytes: crate::format::to_usize(batch),
            written_bytes: 0,
        }
    }

    /// A place for so many bytes; `None` if no segment is free.
    pub(super) fn place(&mut self, core: &mut Core, bytes: u64) -> Option<u64> {
        let segment_bytes = core.geometry.segment_bytes;
        let fits = self.end.filter(|(_, used)| used + bytes <= segment_bytes);
        let (physical, used) = match fits {
            Some(end) => end,
            None => {
                self.close_batch();
                if self.segments.len() as u64 >= self.segments_max {
                    return None;
                }
                let physical = core.segments.allocate(Use::Page)?;
                self.segments.push(physical);
                (physical, 0)
            }
        };
        self.end = Some((physical, used + bytes));
        match self.pieces.last_mut() {
            Some(piece) if piece.physical == physical => piece.bytes += bytes,
            _ => self.pieces.push(Piece { physical, bytes }),
        }
        let offset = core.geometry.segment_offset(physical) + used;
        if self.batch.is_empty() {
            self.batch_offset = offset;
        }
        Some(offset)
    }

    pub(super) fn put(&mut self, page: &[u8]) {
        self.batch.extend_from_slice(page);
        self.written_bytes += page.len() as u64;
        if self.batch.len() >= self.batch_bytes {
            self.close_batch();
        }
    }

    /// A tree is complete: all that was placed since the one before is its.
    pub(super) fn end_tree(&mut self) -> Vec<Piece> {
        std::mem::take(&mut self.pieces)
    }

    /// Whether runs get their filters.
    pub(super) fn takes_filters(&self) -> bool {
        self.takes_filters
    }

    /// Bytes of the run being written, as far as pages are finished.
    pub(super) fn run_bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }

    /// Where the next page would be placed.
    pub(super) fn end(&self) -> Option<(u32, u64)> {
        self.end
    }

    pub(super) fn close_batch(&mut self) {
        if !self.batch.is_empty() {
            self.full
                .push((self.batch_offset, std::mem::take(&mut self.batch)));
        }
    }

    /// Whether a batch waits to be written.
    pub(super) fn has_full(&self) -> bool {
        !self.full.is_empty()
    }

    /// Starts writing the finished batches.
    pub(super) fn write_out(&mut self, handle: &Handle) -> Vec<Io> {
        let write = |(offset, bytes): (u64, Vec<u8>)| {
            let mut data = IoBuf::zeroed(bytes.len());
            data.copy_from_slice(&bytes);
            handle.write(offset, data, false)
        };
        self.full.drain(..).map(write).collect()
    }
}
