//! A segment of the log in memory, as far as it was needed.

use crate::buffer::IoBuf;
use crate::error::Error;
use crate::executor::Handle;
use crate::format::{Geometry, round_up, to_usize};

/// First read of a segment; each further one is twice as long.
const READ_BYTES_MIN: u64 = 64 << 10;
const READ_BYTES_MAX: u64 = 1 << 20;

/// A segment of the log as far as it has been read.
pub(crate) struct Loaded {
    pub(crate) physical: u32,
    bytes: IoBuf,
}

impl Loaded {
    pub(crate) fn new(physical: u32) -> Loaded {
        Loaded {
            physical,
            bytes: IoBuf::zeroed(0),
        }
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
                handle.give(piece);
            }
            have += len;
        }
        Ok(())
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
