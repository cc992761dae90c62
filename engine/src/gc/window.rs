//! What garbage collection reads of a victim: a window of the segment, which moves on as it is gone through.

use crate::api::buffer::IoBuf;
use crate::api::error::Error;
use crate::format::{round_up, to_usize};
use crate::runtime::handle::Handle;

/// So much is in memory at a time, or a whole frame where that is more.
const WINDOW_BYTES: u64 = 1 << 20;
/// It is read in pieces of this size while clients wait for commits, which wait behind each read at the device.
const PIECE_BYTES: u64 = 64 << 10;

/// A piece of a segment in memory. Positions count from the segment's start.
pub(crate) struct Window {
    /// Where the segment starts on the device.
    pub(crate) device: u64,
    /// How far the segment is written.
    pub(crate) end: u64,
    start: u64,
    bytes: IoBuf,
}

impl Window {
    /// Nothing yet of what `physical` holds.
    pub(crate) fn of(handle: &Handle, physical: u32) -> Window {
        handle.with(|core| Window {
            device: core.geometry.segment_offset(physical),
            end: core.segments.get(physical).end.into(),
            start: 0,
            bytes: IoBuf::zeroed(0),
        })
    }

    /// Makes sure that `len` bytes from `at` are loaded, or all up to the end.
    pub(crate) async fn load(&mut self, handle: &Handle, at: u64, len: u64) -> Result<(), Error> {
        let wanted = (at + len).min(self.end);
        if at < self.start || wanted > self.start + self.bytes.len() as u64 {
            let sector = handle.with(|core| core.geometry.sector_bytes);
            let start = at - at % sector;
            let to = self.end.min(at + len.max(WINDOW_BYTES));
            let len = round_up(to - start, sector);
            let bytes = read_in_pieces(handle, self.device + start, len).await?;
            let before = std::mem::replace(&mut self.bytes, bytes);
            handle.give(before);
            self.start = start;
        }
        Ok(())
    }

    /// What is loaded from there on.
    pub(crate) fn from(&self, at: u64) -> &[u8] {
        &self.bytes[to_usize(at - self.start)..]
    }

    /// So many bytes from there on, if they are loaded.
    pub(crate) fn get(&self, at: u64, len: usize) -> Option<&[u8]> {
        let from = to_usize(at.checked_sub(self.start)?);
        self.bytes.get(from..from + len)
    }

    /// Its memory serves again.
    pub(crate) fn close(self, handle: &Handle) {
        handle.give(self.bytes);
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
