//! The way of every completion to whoever waits for it.

use crate::api::port::IoResult;
use crate::core::Core;
use crate::mutant::{Mutant, mutant};
use crate::runtime::flight::Owner;

impl Core {
    /// An operation has ended.
    pub(crate) fn complete(&mut self, tag: u64, result: IoResult) {
        self.activity += 1;
        let Some(ended) = self.in_flight.end(tag, result) else {
            return;
        };
        match ended {
            (Owner::Task, _) => unreachable!("its result is kept for it"),
            (Owner::Value { read, part }, result) => self.value_read(read, part, result),
            (Owner::CommitFlush, Err(_)) if mutant(Mutant::FailedFlushRetried) => {
                self.retry_flush();
            }
            (Owner::CommitFlush, Err(_)) if mutant(Mutant::FlushErrorIgnored) => {
                self.commit_flushed();
            }
            (Owner::Leaf { number }, result) => self.leaf_read(number, result),
            (Owner::Values { joined }, result) => self.values_read(joined, result),
            (_, Err(error)) => self.poison(error),
            (Owner::Frame { lsn, submitted_at }, Ok(_)) => self.frame_written(lsn, submitted_at),
            (Owner::Chunk { lsn }, Ok(_)) => self.chunk_written(lsn),
            // After a failure no flush counts: what it covers may have been dropped before.
            (Owner::CommitFlush, Ok(_)) if self.poisoned.is_some() => {}
            (Owner::CommitFlush, Ok(_)) => self.commit_flushed(),
        }
    }
}
