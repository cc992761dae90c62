//! A few leaves of a partition, of all its runs together: what is merged in one go.

use crate::api::error::Error;
use crate::checkpoint::leaf_reader::LeafReader;
use crate::checkpoint::merge::Merge;
use crate::checkpoint::runs::Partition;
use crate::format::damage::Mismatch;
use crate::format::page::PageRef;
use crate::index::key::Key;
use crate::index::key_range::KeyRange;
use crate::runtime::handle::Handle;

/// Leaves of one run, with what the other runs have of their keys. So what is merged in one go holds up nobody for long.
const LEAVES_AT_ONCE: usize = 16;

/// Keys of a partition, and their leaves, whose reads are under way.
pub(crate) struct Chunk<'a> {
    pub(crate) keys: KeyRange,
    leaves: LeafReader<'a>,
}

impl<'a> Chunk<'a> {
    /// Begins to read the one that begins with this key. It ends before `end`, or where its partition does. The runs have to stay these.
    pub(crate) fn begin(handle: &'a Handle, from: Key, end: Option<&Key>) -> Chunk<'a> {
        let (keys, leaves) = handle.with(|core| {
            let Some(number) = core.runs.number_of(&from) else {
                return (KeyRange::new(from, end.cloned()), Vec::new());
            };
            let end = core.runs.end_of(number).into_iter().chain(end).min();
            first_leaves(&core.runs.partitions[number], from, end)
        });
        let leaves = LeafReader::new(handle, leaves);
        Chunk { keys, leaves }
    }

    /// The same of these runs alone, which belong to one partition whose keys end before `end`.
    pub(super) fn begin_of(
        handle: &'a Handle,
        runs: &Partition,
        from: Key,
        end: Option<&Key>,
    ) -> Chunk<'a> {
        let (keys, leaves) = first_leaves(runs, from, end);
        let leaves = LeafReader::new(handle, leaves);
        Chunk { keys, leaves }
    }

    /// What its leaves have of its keys. `note` is told of every entry of theirs before, and whether its key is one of the chunk's.
    pub(crate) async fn merge(
        self,
        mut note: impl FnMut(&PageRef, &[u8], &[u8], bool) -> Result<(), Mismatch>,
    ) -> Result<Merge, Error> {
        let mut merge = Merge::default();
        let read = self.leaves.each(|leaf, key, payload| {
            let is_its = self.keys.has(key);
            note(leaf, key, payload, is_its)?;
            if is_its {
                merge.push(leaf.offset, key, payload);
            }
            Ok(())
        });
        read.await?;
        Ok(merge)
    }
}

/// The keys from `from` on that are read in one go, none behind `end`, and the leaves of these runs that may have them.
fn first_leaves(runs: &Partition, from: Key, end: Option<&Key>) -> (KeyRange, Vec<PageRef>) {
    let behind = runs.end_of_leaves(&from, LEAVES_AT_ONCE);
    let end = behind.into_iter().chain(end.cloned()).min();
    let leaves = runs.leaves_between(&from, end.as_ref());
    (KeyRange::new(from, end), leaves)
}
