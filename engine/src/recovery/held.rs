//! Frames that replay has read and nothing states as durable.

use crate::format::frame::{FRAME_HEADER_BYTES, FrameHeader};
use crate::format::record::Records;
use crate::log::tail::Tail;

/// A frame of the chain that is held back until something states it as durable.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) header: FrameHeader,
    pub(crate) end: u64,
    pub(crate) body: Vec<u8>,
    pub(crate) commits: u64,
    /// Where the log goes on if it is cut off.
    pub(crate) tail: Tail,
    pub(crate) physical: u32,
}

impl Held {
    pub(crate) fn records(&self) -> Records<'_> {
        Records::new(self.header.lsn + FRAME_HEADER_BYTES as u64, &self.body)
    }
}
