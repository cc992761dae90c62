//! Runs that are merged with what memory knows of, a few leaves at a time, and no entry comes into memory for it: all runs of a part of the keys that is written anew though not
//! all of its entries are in memory, or the newest runs of a partition, which become one with what has changed (`choose/joins.rs`).
//!
//! Invariants:
//! - of each key the page gets what memory knows of it at the moment when the page is filled, or else what the newest run has. The runs stay these while a
//!   checkpoint is being written, and whatever changes a key makes memory know of it;
//! - where older runs stay behind those that are merged, that a key was removed is written too, and of the keys that these have not only what has changed.

use std::collections::VecDeque;
use std::ops::Bound;

use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::checkpoint::chunk::Chunk;
use crate::checkpoint::merge::{Merge, Newest};
use crate::checkpoint::runs::Partition;
use crate::checkpoint::step::{ENTRIES_PER_STEP, Step};
use crate::core::Core;
use crate::format::page;
use crate::index::entry::is_deleted;
use crate::index::key::Key;
use crate::index::key_range::KeyRange;
use crate::index::place::{Place, Version};
use crate::mutant::{Mutant, mutant};
use crate::runtime::handle::Handle;

/// Chunks whose first reads are under way: a small one is merged sooner than the next is read.
const CHUNKS_AHEAD: usize = 4;

/// The merged entries of a partition's keys, a few at a time.
pub(super) struct Merged<'a> {
    handle: &'a Handle,
    /// The newest runs of one partition, whose older ones stay; `None`: all runs are merged.
    newest: Option<&'a Partition>,
    end: Option<Key>,
    /// What comes next. Their first reads are under way.
    ahead: VecDeque<Chunk<'a>>,
    /// Where the chunk behind these begins, if there is one.
    from: Option<Key>,
}

impl<'a> Merged<'a> {
    /// The keys from `from` on and before `end`, which lie in one partition.
    pub(super) fn new(handle: &'a Handle, from: &Key, end: Option<&Key>) -> Merged<'a> {
        Merged::begin(handle, None, from, end)
    }

    /// The keys of a partition, which lie before `end`: what has changed, and what these newest runs of it have.
    pub(super) fn joined(
        handle: &'a Handle,
        newest: &'a Partition,
        end: Option<&Key>,
    ) -> Merged<'a> {
        Merged::begin(handle, Some(newest), &newest.from, end)
    }

    fn begin(
        handle: &'a Handle,
        newest: Option<&'a Partition>,
        from: &Key,
        end: Option<&Key>,
    ) -> Merged<'a> {
        let mut merged = Merged {
            handle,
            newest,
            end: end.cloned(),
            ahead: VecDeque::new(),
            from: Some(from.clone()),
        };
        merged.read_ahead();
        merged
    }

    fn read_ahead(&mut self) {
        while self.ahead.len() < CHUNKS_AHEAD
            && let Some(from) = self.from.take()
        {
            let chunk = match self.newest {
                None => Chunk::begin(self.handle, from, self.end.as_ref()),
                Some(runs) => Chunk::begin_of(self.handle, runs, from, self.end.as_ref()),
            };
            if chunk.keys.end != self.end {
                self.from = chunk.keys.end.clone();
            }
            self.ahead.push_back(chunk);
        }
    }

    /// Reads the next chunk, and begins to read some behind it. `None`: there is none.
    pub(super) async fn next(&mut self) -> Result<Option<MergedChunk>, Error> {
        let Some(chunk) = self.ahead.pop_front() else {
            return Ok(None);
        };
        self.read_ahead();
        let keys = chunk.keys.clone();
        // Not all leaves were read by the opening.
        let merge = chunk.merge(|_, key, payload, _| page::check_entry(key, payload));
        let merge = merge.await?;
        let older_stay = self.newest.is_some();
        self.handle.with(|core| {
            core.reached(match older_stay {
                true => CoveragePoint::RunsJoined,
                false => CoveragePoint::PartitionMerged,
            });
        });
        Ok(Some(MergedChunk {
            keys,
            merge,
            older_stay,
        }))
    }
}

/// Entries of the runs, read, and the range that they are of.
pub(super) struct MergedChunk {
    keys: KeyRange,
    merge: Merge,
    older_stay: bool,
}

impl MergedChunk {
    /// The chunk's steps: each takes the next few entries, as they are at that moment.
    pub(super) fn steps(&mut self) -> Steps<'_> {
        Steps {
            start: Bound::Included(self.keys.from.clone()),
            end: self.keys.end.as_ref(),
            older_stay: self.older_stay,
            runs: self.merge.newest().collect::<Vec<_>>().into_iter(),
        }
    }
}

pub(super) struct Steps<'a> {
    /// Behind the last key, or with the first.
    start: Bound<Key>,
    end: Option<&'a Key>,
    older_stay: bool,
    runs: std::vec::IntoIter<Newest<'a>>,
}

impl Steps<'_> {
    /// Whether it is written that a key is not there: an older run may have it.
    fn keeps_deletions(&self) -> bool {
        self.older_stay && !mutant(Mutant::JoinedWithoutDeletes)
    }

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
                if self.keeps_deletions() || !is_deleted(run.payload) {
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
                (None, _) if self.older_stay && !core.index.has_to_be_written(there) => {}
                (_, Some(version)) if self.keeps_deletions() => step.push(there.bytes(), version),
                (_, Some(version)) => step.push_live(there.bytes(), version),
                (_, None) if self.keeps_deletions() => {
                    let sequence = core.index.removed_at(there);
                    let sequence = sequence.expect("memory knows that it was removed");
                    let place = Place::Tombstone;
                    step.push(there.bytes(), &Version { sequence, place });
                }
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
