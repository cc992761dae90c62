//! A driver that writes nothing: what the engine writes is kept in memory, above what is read.
//!
//! An opening may have to write: it rewrites a tail of the log that nothing proves durable, and publishes a superblock. So a database that is opened to be read is recovered
//! in memory, by the very same code, and its file is left as it is.
//!
//! Invariants:
//! - the driver below is handed reads and nothing else;
//! - a read returns what was written last before it was queued, or later, as a disk's does;
//! - what is kept in memory is bounded; beyond that, writes fail.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use kvsim_engine::{DiskError, DiskOp, IoBuf};

use super::{Completion, Driver};
use crate::lock::lock;

/// What is written is kept in pieces of this size. No device has smaller sectors.
const PIECE_BYTES: usize = 512;
/// What is kept at most: far more than what an opening rewrites.
const BYTES_MAX: usize = 256 << 20;

#[derive(Default)]
struct State {
    /// By offset.
    written: BTreeMap<u64, Box<[u8]>>,
    /// Where reads that are under way begin, by tag.
    reads: BTreeMap<u64, u64>,
    ended: Vec<Completion>,
}

pub(crate) struct Overlay {
    below: Box<dyn Driver>,
    state: Mutex<State>,
}

impl Overlay {
    pub(crate) fn new(below: Box<dyn Driver>) -> Overlay {
        let state = Mutex::default();
        Overlay { below, state }
    }
}

impl State {
    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), DiskError> {
        if self.written.len() * PIECE_BYTES + data.len() > BYTES_MAX {
            return Err(DiskError::NoSpace);
        }
        for (at, piece) in (offset..)
            .step_by(PIECE_BYTES)
            .zip(data.chunks(PIECE_BYTES))
        {
            self.written.insert(at, piece.into());
        }
        Ok(())
    }

    /// Puts what was written over what was read from there.
    fn cover(&self, offset: u64, buffer: &mut IoBuf) {
        let end = offset + buffer.len() as u64;
        for (at, piece) in self.written.range(offset..end) {
            let at = usize::try_from(at - offset).expect("it lies in a buffer");
            buffer[at..at + piece.len()].copy_from_slice(piece);
        }
    }
}

impl Driver for Overlay {
    fn name(&self) -> &'static str {
        self.below.name()
    }

    fn queue(&self, tag: u64, op: DiskOp) {
        let mut state = lock(&self.state);
        let result = match op {
            DiskOp::Read { offset, buffer } => {
                state.reads.insert(tag, offset);
                drop(state);
                return self.below.queue(tag, DiskOp::Read { offset, buffer });
            }
            DiskOp::Write { offset, data, .. } => state.write(offset, &data),
            DiskOp::Flush | DiskOp::Discard { .. } => Ok(()),
            DiskOp::Grow { .. } => Err(DiskError::NoSpace),
        };
        let result = result.map(|()| None);
        state.ended.push(Completion { tag, result });
    }

    fn start(&self) {
        self.below.start();
        if !lock(&self.state).ended.is_empty() {
            self.below.wake();
        }
    }

    fn work(&self) -> bool {
        self.below.work()
    }

    fn wait(&self, timeout: Option<Duration>) {
        if lock(&self.state).ended.is_empty() {
            self.below.wait(timeout);
        } else {
            self.below.start();
            self.below.awake();
        }
    }

    fn wake(&self) {
        self.below.wake();
    }

    fn awake(&self) {
        self.below.awake();
    }

    fn has_ended(&self) -> bool {
        !lock(&self.state).ended.is_empty() || self.below.has_ended()
    }

    fn reap(&self, done: &mut Vec<Completion>) {
        let first = done.len();
        self.below.reap(done);
        let mut state = lock(&self.state);
        for completion in &mut done[first..] {
            let offset = state.reads.remove(&completion.tag);
            let offset = offset.expect("below there are reads only");
            if let Ok(Some(buffer)) = &mut completion.result {
                state.cover(offset, buffer);
            }
        }
        done.append(&mut state.ended);
    }
}
