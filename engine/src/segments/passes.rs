//! Passes: readers that may read any segment. What is freed during a pass is not handed out anew before the pass has ended, and neither before any has that began earlier.
//!
//! Invariants: a segment waits for the passes that were open when it was freed, and for no later one. As long as it waits, positions of the log in it are still found.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The right to read whatever was there when it was given.
#[derive(Debug)]
#[must_use]
pub(crate) struct Pass(u64);

#[derive(Debug, Default)]
pub(super) struct Passes {
    next: u64,
    open: BTreeSet<u64>,
    /// Segments that were freed, each with the last pass that was open then, in that order.
    awaiting: VecDeque<(u64, u32)>,
    /// Those of the log, by their numbers.
    log: BTreeMap<u64, u32>,
}

impl Passes {
    pub(super) fn begin(&mut self) -> Pass {
        let pass = self.next;
        self.next += 1;
        self.open.insert(pass);
        Pass(pass)
    }

    /// Returns the segments that no pass waits for any more.
    pub(super) fn end(&mut self, Pass(pass): Pass) -> Vec<u32> {
        self.open.remove(&pass);
        let first_open = self.open.first().copied().unwrap_or(self.next);
        let still = self
            .awaiting
            .partition_point(|(last, _)| *last < first_open);
        let ended = self.awaiting.drain(..still);
        ended.map(|(_, physical)| physical).collect()
    }

    /// A segment is freed, with its number if it is of the log. Whether it has to wait.
    pub(super) fn hold(&mut self, physical: u32, logical: Option<u64>) -> bool {
        let Some(last) = self.open.last() else {
            return false;
        };
        self.awaiting.push_back((*last, physical));
        self.log.extend(logical.map(|logical| (logical, physical)));
        true
    }

    /// A segment does not wait any more.
    pub(super) fn let_go(&mut self, logical: u64) {
        self.log.remove(&logical);
    }

    /// The segment of this number in the log that was freed and waits.
    pub(super) fn of_log(&self, logical: u64) -> Option<u32> {
        self.log.get(&logical).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a segment waits for the passes that were open when it was freed, whatever the order in which they end, and for no other. Method: three passes and three segments.
    #[test]
    fn segments_wait_for_the_passes_of_their_time() {
        let mut passes = Passes::default();
        assert!(!passes.hold(9, None), "nobody reads");
        let first = passes.begin();
        assert!(passes.hold(1, Some(101)));
        let second = passes.begin();
        assert!(passes.hold(2, None));
        assert_eq!(passes.end(second), [], "the first may read it too");
        let third = passes.begin();
        assert!(passes.hold(3, Some(103)));
        assert_eq!(passes.of_log(101), Some(1));
        assert_eq!(passes.end(first), [1, 2]);
        passes.let_go(101);
        assert_eq!((passes.of_log(101), passes.of_log(103)), (None, Some(3)));
        assert_eq!(passes.end(third), [3]);
        assert!(!passes.hold(4, None));
    }
}
