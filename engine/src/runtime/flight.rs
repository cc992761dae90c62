//! Operations under way, by tag, and who waits for each.
//!
//! Invariant: a tag names one operation from its submission until its end was taken. Then the next operation may have
//! the tag, so tags stay small.

use slab::Slab;

use crate::api::port::{IoResult, Nanos};

/// Who waits for an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Owner {
    Task,
    Frame { lsn: u64, submitted_at: Nanos },
    Chunk { lsn: u64 },
    CommitFlush,
    Value { read: u64, part: u32 },
    Values { joined: u64 },
    Leaf { number: u64 },
}

#[derive(Debug)]
enum Stage {
    UnderWay(Owner),
    /// Its task has still to take the result.
    Ended(IoResult),
    /// Under way, and its task does not wait any more.
    Abandoned,
}

#[derive(Debug, Default)]
pub(crate) struct InFlight {
    operations: Slab<Stage>,
}

impl InFlight {
    /// The tag of an operation that begins.
    pub(crate) fn begin(&mut self, owner: Owner) -> u64 {
        self.operations.insert(Stage::UnderWay(owner)) as u64
    }

    /// An operation has ended: gives it to its owner, or keeps it for the task that waits.
    pub(crate) fn end(&mut self, tag: u64, result: IoResult) -> Option<(Owner, IoResult)> {
        let at = slot(tag);
        match self.operations.get_mut(at) {
            Some(stage @ Stage::UnderWay(Owner::Task)) => {
                *stage = Stage::Ended(result);
                None
            }
            Some(Stage::Abandoned) => {
                self.operations.remove(at);
                None
            }
            Some(&mut Stage::UnderWay(owner)) => {
                self.operations.remove(at);
                Some((owner, result))
            }
            Some(Stage::Ended(_)) | None => {
                panic!("a completion of an operation that is not in flight: {tag}")
            }
        }
    }

    /// Its task takes no result: the operation leaves nothing behind when it ends.
    pub(crate) fn abandon(&mut self, tag: u64) {
        let at = slot(tag);
        match self.operations.get_mut(at) {
            Some(stage @ Stage::UnderWay(_)) => *stage = Stage::Abandoned,
            _ => drop(self.operations.remove(at)),
        }
    }

    /// The result of a task's operation, if it has ended.
    pub(crate) fn take(&mut self, tag: u64) -> Option<IoResult> {
        let at = slot(tag);
        if let Some(Stage::UnderWay(_)) = self.operations.get(at) {
            return None;
        }
        match self.operations.try_remove(at) {
            Some(Stage::Ended(result)) => Some(result),
            _ => panic!("a result is taken once: {tag}"),
        }
    }
}

fn slot(tag: u64) -> usize {
    crate::format::to_usize(tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::port::DiskError;

    /// Goal: every end reaches the one who waits, and a tag is not given away before. Method: operations of both kinds that end in
    /// another order than they began in.
    #[test]
    fn ends_reach_their_owners() {
        let mut in_flight = InFlight::default();
        let task = in_flight.begin(Owner::Task);
        let flush = in_flight.begin(Owner::CommitFlush);
        assert!(in_flight.take(task).is_none(), "it is under way");
        assert!(in_flight.end(task, Err(DiskError::Read)).is_none());
        let other = in_flight.begin(Owner::Chunk { lsn: 7 });
        assert!(![task, flush].contains(&other), "both are in use");
        let ended = in_flight.end(flush, Ok(None));
        assert!(matches!(ended, Some((Owner::CommitFlush, Ok(None)))));
        assert!(matches!(in_flight.take(task), Some(Err(DiskError::Read))));
        let ended = in_flight.end(other, Ok(None));
        assert!(matches!(ended, Some((Owner::Chunk { lsn: 7 }, Ok(None)))));
        assert!(in_flight.operations.is_empty(), "nothing stays behind");
    }

    /// Goal: what a task has begun and does not wait for leaves nothing behind. Method: one that is given up under way, and one that is given up when it has ended.
    #[test]
    fn nothing_stays_of_what_was_given_up() {
        let mut in_flight = InFlight::default();
        let [under_way, ended] = [(); 2].map(|()| in_flight.begin(Owner::Task));
        assert!(in_flight.end(ended, Ok(None)).is_none());
        in_flight.abandon(under_way);
        in_flight.abandon(ended);
        let other = in_flight.begin(Owner::Task);
        assert_ne!(other, under_way, "its tag is in use until it ends");
        assert!(in_flight.end(under_way, Err(DiskError::Read)).is_none());
        assert!(in_flight.end(other, Ok(None)).is_none());
        assert!(in_flight.take(other).is_some());
        assert!(in_flight.operations.is_empty(), "nothing stays behind");
    }
}
