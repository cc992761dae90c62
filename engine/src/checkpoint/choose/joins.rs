//! Which runs of a partition become one with what has changed.
//!
//! Each checkpoint adds a run to a partition, as large as what has changed there. The newest runs, of which none is larger than all newer ones together and a quarter, are joined with that. So runs become
//! larger from the newest to the oldest, and there are few: a logarithm of what the partition has grown by. A change is written again for each time that the size
//! of its run doubles, which is less than what it costs to write a large base anew for having too many runs. (Merging by size is that of O'Neil et al., "The log-structured merge-tree",
//! 1996; runs of doubling sizes are those of Bentley and Saxe, "Decomposable searching problems", 1980.)

use crate::checkpoint::runs::Partition;

/// A run is joined if it is larger than the newer ones together by one part in so many at most: runs of about the same size are to count as such.
const LARGER_SHARE: u64 = 4;

/// Runs to be joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Join {
    /// The number of the oldest of them. The base is never one.
    pub(super) first: usize,
    /// How many.
    pub(super) runs: usize,
    /// What they have.
    pub(super) bytes: u64,
}

impl Join {
    /// Of a partition that gets a run of about so many bytes, if any of its runs are to be joined with that. Where all of its entries are in memory, nobody reads its
    /// runs, and nothing is joined.
    pub(super) fn of(partition: &Partition, coming: u64) -> Option<Join> {
        if partition.whole {
            return None;
        }
        let mut join = Join {
            first: partition.runs.len(),
            runs: 0,
            bytes: 0,
        };
        for (at, run) in partition.runs.iter().enumerate().skip(1).rev() {
            let newer = coming + join.bytes;
            if run.leaves.is_none() || run.bytes() > newer + newer / LARGER_SHARE {
                break;
            }
            join.first = at;
            join.runs += 1;
            join.bytes += run.bytes();
        }
        (join.runs > 0).then_some(join)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::checkpoint::leaves::LeavesDraft;
    use crate::checkpoint::runs::{FIRST_KEY, Piece, Run};
    use crate::format::page::PageRef;
    use crate::index::key::Key;

    fn run(bytes: u64) -> Run {
        Run {
            root: PageRef::NONE,
            filter: PageRef::NONE,
            pieces: vec![Piece { physical: 1, bytes }],
            leaves: Some(Arc::new(LeavesDraft::default().finish())),
            last: None,
            weight: None,
        }
    }

    /// Goal: a partition has few runs however often it gets one, each is joined rarely, and the base never. Method: a thousand runs of one size, and of sizes that differ.
    #[test]
    fn there_are_few_runs_and_little_is_written_again() {
        for differ in [1, 7] {
            let mut partition = Partition {
                from: Key::new(FIRST_KEY),
                runs: vec![run(1 << 40)],
                whole: false,
            };
            let (mut added, mut written) = (0, 0);
            for n in 0..1000 {
                let coming = 100 + n % differ * 50;
                added += coming;
                let join = Join::of(&partition, coming);
                let (first, joined) =
                    join.map_or((partition.runs.len(), 0), |it| (it.first, it.bytes));
                partition.runs.truncate(first);
                partition.runs.push(run(coming + joined));
                written += coming + joined;
                assert!(partition.runs.len() <= 12, "{} runs", partition.runs.len());
            }
            assert_eq!(partition.changes_bytes(), added);
            assert_eq!(partition.base_bytes(), 1 << 40);
            assert!(written < 12 * added, "{written} of {added}");
        }
    }

    /// Goal: larger runs stay, and so do those that nobody reads, or whose leaves are not known. Method: each.
    #[test]
    fn larger_runs_and_those_in_memory_stay() {
        let mut partition = Partition {
            from: Key::new(FIRST_KEY),
            runs: [1000, 400, 30, 12, 10].map(run).into(),
            whole: false,
        };
        assert_eq!(Join::of(&partition, 7), None);
        let join = Join {
            first: 2,
            runs: 3,
            bytes: 52,
        };
        assert_eq!(Join::of(&partition, 8), Some(join));
        assert_eq!(Join::of(&partition, 300).map(|it| it.first), Some(1));
        partition.whole = true;
        assert_eq!(Join::of(&partition, 8), None);
        partition.whole = false;
        partition.runs[3].leaves = None;
        assert_eq!(Join::of(&partition, 8).map(|it| it.first), Some(4));
    }
}
