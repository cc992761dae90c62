//! The index on disk as memory knows it: partitions of the keys, each with its runs.
//!
//! A partition is the range of keys from its lower bound up to the next partition's. Its runs are trees of pages, oldest
//! first. The first is the base: it stands for the whole partition as it was when that was written. Each of the others has what changed
//! since the one before, deletions included. So the newest run that has a key decides.
//!
//! Invariants: the first partition begins before all keys. Lower bounds ascend. A partition has at least one run.

use std::collections::BTreeMap;

use crate::format::damage::Mismatch;
use crate::format::page::{PAGE_REF_BYTES, PageRef};

/// A partition with more runs is written anew.
pub(crate) const RUNS_MAX: usize = 24;
/// No key is smaller.
pub(crate) const FIRST_KEY: &[u8] = &[0];

/// Bytes of a run in one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) physical: u32,
    pub(crate) bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) root: PageRef,
    pub(crate) pieces: Vec<Piece>,
}

impl Run {
    pub(crate) fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Partition {
    /// The lower bound of its keys.
    pub(crate) from: Box<[u8]>,
    pub(crate) runs: Vec<Run>,
}

impl Partition {
    pub(crate) fn base_bytes(&self) -> u64 {
        self.runs.first().map_or(0, Run::bytes)
    }

    /// Bytes of all runs behind the base.
    pub(crate) fn changes_bytes(&self) -> u64 {
        self.runs.iter().skip(1).map(Run::bytes).sum()
    }

    /// What stands beside its lower bound in the list of partitions.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut payload = vec![0; self.runs.len() * PAGE_REF_BYTES];
        let places = payload.chunks_exact_mut(PAGE_REF_BYTES);
        for (run, place) in self.runs.iter().zip(places) {
            run.root.encode(place);
        }
        payload
    }

    /// The roots of its runs. Takes any bytes.
    pub(crate) fn decode(payload: &[u8]) -> Result<Vec<PageRef>, Mismatch> {
        let (roots, rest) = payload.as_chunks::<PAGE_REF_BYTES>();
        if roots.is_empty() || roots.len() > RUNS_MAX || !rest.is_empty() {
            return Err(Mismatch {
                what: "length of a partition's references",
                expected: PAGE_REF_BYTES as u64,
                found: payload.len() as u64,
            });
        }
        Ok(roots.iter().map(|root| PageRef::decode(root)).collect())
    }
}

/// What the superblock refers to, but for the table of log segments.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    pub(crate) partitions: Vec<Partition>,
    /// A segment of pages that has room behind its last page, and where that page ends.
    pub(crate) end: Option<(u32, u64)>,
}

impl Runs {
    /// Bytes of the bases: what all of it would take if it was written anew.
    pub(crate) fn base_bytes(&self) -> u64 {
        self.partitions.iter().map(Partition::base_bytes).sum()
    }
}

/// Segments that hold pages of these partitions, and how many bytes of pages.
pub(super) fn segments_of<'a>(
    partitions: impl Iterator<Item = &'a Partition>,
) -> BTreeMap<u32, u64> {
    let mut segments = BTreeMap::new();
    for piece in partitions
        .flat_map(|it| &it.runs)
        .flat_map(|run| &run.pieces)
    {
        *segments.entry(piece.physical).or_insert(0) += piece.bytes;
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: references come back, and anything else is refused. Method: partitions of few and many runs, and every other length.
    #[test]
    fn references_of_a_partition_come_back() {
        for runs in 1..=RUNS_MAX {
            let run = |n: usize| Run {
                root: PageRef {
                    offset: n as u64 * 4096,
                    len: 4096,
                    checksum: u64::MAX - n as u64,
                },
                pieces: Vec::new(),
            };
            let partition = Partition {
                from: FIRST_KEY.into(),
                runs: (0..runs).map(run).collect(),
            };
            let roots: Vec<PageRef> = partition.runs.iter().map(|run| run.root).collect();
            let payload = partition.encode();
            assert_eq!(Partition::decode(&payload), Ok(roots));
            for cut in (0..payload.len()).filter(|cut| cut % PAGE_REF_BYTES != 0 || *cut == 0) {
                assert!(Partition::decode(&payload[..cut]).is_err());
            }
        }
        let beyond = [7; (RUNS_MAX + 1) * PAGE_REF_BYTES];
        assert!(Partition::decode(&beyond).is_err());
    }
}
