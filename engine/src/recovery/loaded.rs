//! A segment of the log in memory, as far as it was needed. What comes next is read ahead, while what is there is looked at. Sectors that cannot be read are zeroes, which no structure passes for.

use crate::api::buffer::IoBuf;
use crate::api::error::Error;
use crate::format::damage::{Mismatch, unreadable_at};
use crate::format::{Geometry, round_up, to_usize};
use crate::recovery::salvage::{Salvaged, salvage};
use crate::runtime::handle::{Handle, Io};

/// First read of a segment; each further one is twice as long.
const READ_BYTES_MIN: u64 = 64 << 10;
const READ_BYTES_MAX: u64 = 1 << 20;

/// A segment of the log as far as it has been read.
pub(crate) struct Loaded {
    pub(crate) physical: u32,
    bytes: IoBuf,
    /// Device offsets of the sectors that could not be read.
    unreadable: Vec<u64>,
    /// A read of what comes next, and of how much.
    ahead: Option<(u64, Io)>,
}

impl Loaded {
    pub(crate) fn new(physical: u32) -> Loaded {
        Loaded {
            physical,
            bytes: IoBuf::zeroed(0),
            unreadable: Vec::new(),
            ahead: None,
        }
    }

    /// A segment of which the first read is under way.
    pub(crate) fn begun(handle: &Handle, geometry: &Geometry, physical: u32) -> Loaded {
        let mut segment = Loaded::new(physical);
        segment.ahead = Some(segment.begin(handle, geometry, 0, 0));
        segment
    }

    /// Makes sure that everything before `end` is loaded (from the segment's start).
    pub(crate) async fn load(
        &mut self,
        handle: &Handle,
        geometry: &Geometry,
        end: u64,
    ) -> Result<(), Error> {
        let mut have = self.bytes.len() as u64;
        while have < end {
            let begun = self.ahead.take();
            let (len, read) = begun.unwrap_or_else(|| self.begin(handle, geometry, have, end));
            let offset = geometry.segment_offset(self.physical) + have;
            if have + len < geometry.segment_bytes {
                self.ahead = Some(self.begin(handle, geometry, have + len, 0));
            }
            let Salvaged {
                bytes: piece,
                unreadable,
            } = match read.await {
                Ok(bytes) => Salvaged {
                    bytes: bytes.expect("a read brings its buffer"),
                    unreadable: Vec::new(),
                },
                Err(_) => salvage(handle, offset, len).await?,
            };
            self.unreadable.extend(unreadable);
            if have == 0 {
                self.bytes = piece;
            } else {
                self.bytes.grow(to_usize(have + len));
                self.bytes[to_usize(have)..].copy_from_slice(&piece);
                handle.give(piece);
            }
            have += len;
        }
        Ok(())
    }

    /// Begins to read what comes behind the first `have` bytes, if possible up to `end`; and how much that is.
    fn begin(&self, handle: &Handle, geometry: &Geometry, have: u64, end: u64) -> (u64, Io) {
        let len = have
            .clamp(READ_BYTES_MIN, READ_BYTES_MAX)
            .max(end.saturating_sub(have));
        let left = geometry.segment_bytes - have;
        let len = round_up(len.min(left), geometry.block_bytes).min(left);
        let offset = geometry.segment_offset(self.physical) + have;
        (len, handle.read(offset, len))
    }

    /// Why these bytes of it are not what they should be: they could not be read, or what a parser says.
    pub(crate) fn explain(
        &self,
        geometry: &Geometry,
        within: u64,
        len: u64,
        mismatch: Mismatch,
    ) -> Mismatch {
        let start = geometry.segment_offset(self.physical) + within;
        let end = start + len;
        let overlaps = |at: &&u64| **at < end && start < **at + geometry.sector_bytes;
        let unreadable = self.unreadable.iter().find(overlaps);
        unreadable.map_or(mismatch, |at| unreadable_at(*at).mismatch)
    }

    /// It is not needed any more: its memory serves the next reads.
    pub(crate) fn done(self, handle: &Handle) {
        handle.give(self.bytes);
    }

    /// How much of it, from its start.
    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(crate) fn from(&self, within: u64) -> &[u8] {
        &self.bytes[to_usize(within)..]
    }
}
