//! A part of the keys that is written anew though not all of its entries are in memory: what its runs have is merged with what memory knows of, a few leaves at a time, and
//! no entry comes into memory for it.
//!
//! Invariant: of each key the page gets what memory knows of it at the moment when the page is filled, or else what the newest run has. The runs stay these while a
//! checkpoint is being written, and whatever changes a key makes memory know of it.

use std::ops::Bound;

use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::checkpoint::leaf_reader::LeafReader;
use crate::checkpoint::merge::{Merge, Newest};
use crate::checkpoint::step::{ENTRIES_PER_STEP, Step};
use crate::core::Core;
use crate::format::page::PageRef;
use crate::index::entry::is_deleted;
use crate::index::key::Key;
use crate::mutant::{Mutant, mutant};
use crate::runtime::handle::Handle;

/// Leaves of a base that are merged in one go, with what newer runs have of their keys.
const LEAVES_AT_ONCE: usize = 64;

/// What is merged in one go: keys from the first on, and before the second.
struct Chunk<'a> {
    from: Key,
    end: Option<Key>,
    leaves: LeafReader<'a>,
}

/// The merged entries of a partition's keys, a few at a time.
pub(super) struct Merged<'a> {
    handle: &'a Handle,
    end: Option<Key>,
    /// What comes next. Its first reads are under way.
    next: Option<Chunk<'a>>,
}

impl<'a> Merged<'a> {
    /// The keys from `from` on and before `end`, which lie in one partition.
    pub(super) fn new(handle: &'a Handle, from: &Key, end: Option<&Key>) -> Merged<'a> {
        let mut merged = Merged {
            handle,
            end: end.cloned(),
            next: None,
        };
        merged.next = Some(merged.chunk_from(from.clone()));
        merged
    }

    fn chunk_from(&self, from: Key) -> Chunk<'a> {
        let (end, leaves) = self.handle.with(|core| core.leaves_of_chunk(&from));
        let end = end.or_else(|| self.end.clone());
        let leaves = LeafReader::new(self.handle, leaves);
        Chunk { from, end, leaves }
    }

    /// Reads the next chunk, and begins to read the one behind it. `None`: there is none.
    pub(super) async fn next(&mut self) -> Result<Option<MergedChunk>, Error> {
        let Some(Chunk { from, end, leaves }) = self.next.take() else {
            return Ok(None);
        };
        let mut merge = Merge::default();
        let read = leaves.each(|leaf, key, payload| {
            if from.bytes() <= key && end.as_ref().is_none_or(|end| key < end.bytes()) {
                merge.push(leaf.offset, key, payload);
            }
            Ok(())
        });
        read.await?;
        if end != self.end
            && let Some(behind) = &end
        {
            self.next = Some(self.chunk_from(behind.clone()));
        }
        self.handle
            .with(|core| core.reached(CoveragePoint::PartitionMerged));
        Ok(Some(MergedChunk { from, end, merge }))
    }
}

/// Entries of the runs, read, and the range that they are of.
pub(super) struct MergedChunk {
    from: Key,
    end: Option<Key>,
    merge: Merge,
}

impl MergedChunk {
    /// The chunk's steps: each takes the next few entries, as they are at that moment.
    pub(super) fn steps(&mut self) -> Steps<'_> {
        Steps {
            start: Bound::Included(self.from.clone()),
            end: self.end.as_ref(),
            runs: self.merge.newest().collect::<Vec<_>>().into_iter(),
        }
    }
}

pub(super) struct Steps<'a> {
    /// Behind the last key, or with the first.
    start: Bound<Key>,
    end: Option<&'a Key>,
    runs: std::vec::IntoIter<Newest<'a>>,
}

impl Steps<'_> {
    /// Adds the next few entries. Says whether there may be more.
    pub(super) fn take(&mut self, core: &Core, step: &mut Step) -> bool {
        let mut known = core.index.known(self.start.clone(), self.end).peekable();
        let mut last: &[u8] = &[];
        for _ in 0..ENTRIES_PER_STEP {
            let run = self.runs.as_slice().first().copied();
            let there = known.peek().map(|(key, _)| *key);
            let Some(there) = there.filter(|there| run.is_none_or(|run| there.bytes() <= run.key))
            else {
                // Memory does not know of the run's key.
                let Some(run) = run else {
                    return false;
                };
                if !is_deleted(run.payload) {
                    step.push_payload(run.key, run.payload);
                }
                last = run.key;
                self.runs.next();
                continue;
            };
            let (_, version) = known.next().expect("it was just seen");
            let run = run.filter(|run| run.key == there.bytes());
            match (run, version) {
                (Some(run), Some(_)) if mutant(Mutant::OlderEntriesMerged) => {
                    step.push_payload(run.key, run.payload);
                }
                (_, Some(version)) => step.push_live(there.bytes(), version),
                (_, None) => {}
            }
            if run.is_some() {
                self.runs.next();
            }
            last = there.bytes();
        }
        self.start = Bound::Excluded(Key::new(last));
        true
    }
}

impl Core {
    /// Where the chunk ends that begins with this key, if the partition goes on behind it, and the leaves that have its keys.
    fn leaves_of_chunk(&self, from: &Key) -> (Option<Key>, Vec<PageRef>) {
        let Some(number) = self.runs.number_of(from.bytes()) else {
            return (None, Vec::new());
        };
        let end = self.leaves_behind(number, from, LEAVES_AT_ONCE);
        let leaves = self.runs.partitions[number].leaves_between(from, end.as_ref());
        (end, leaves)
    }
}
