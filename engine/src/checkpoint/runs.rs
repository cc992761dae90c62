//! The index on disk as memory knows it: partitions of the keys, each with its runs.
//!
//! A partition is the range of keys from its lower bound up to the next partition's. Its runs are trees of pages, oldest
//! first. The first is the base: it stands for the whole partition as it was when that was written. Each of the others has what changed
//! since the one before, deletions included. So the newest run that has a key decides.
//!
//! Where entries may leave memory, a partition is *whole* as long as all of its entries are in memory. Of any other, what has changed since the last checkpoint is
//! in memory, and as many of the others as there is room for.
//!
//! Invariants: the first partition begins before all keys. Lower bounds ascend. A partition has at least one run.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::checkpoint::leaves::{Leaves, hash_of};
use crate::format::damage::Mismatch;
use crate::format::page::{PAGE_REF_BYTES, PageRef, RUN_ROOTS_BYTES};
use crate::index::key::Key;
use crate::index::key_range::KeyRange;
use crate::index::weight::Weight;
use crate::mutant::{Mutant, mutant};

/// A partition with more runs is written anew.
pub(crate) const RUNS_MAX: usize = 24;
/// No key is smaller.
pub(crate) const FIRST_KEY: &[u8] = &[0];

/// What the list of partitions has of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Roots {
    pub(crate) run: PageRef,
    /// `NONE`: it has none on the device.
    pub(crate) filter: PageRef,
}

/// Bytes of a run in one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) physical: u32,
    pub(crate) bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) root: PageRef,
    /// Its filter on the device; `NONE`: it has none there.
    pub(crate) filter: PageRef,
    /// Those of the run and of its filter.
    pub(crate) pieces: Vec<Piece>,
    /// Where entries may leave memory, or are not loaded yet.
    pub(crate) leaves: Option<Arc<Leaves>>,
    /// Its last key, if this process has written it or loaded it.
    pub(crate) last: Option<Key>,
    /// What its entries weigh, where that is known: of all runs, once the index is loaded, where entries may leave memory.
    pub(crate) weight: Option<Weight>,
}

impl Run {
    pub(crate) fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Partition {
    /// The lower bound of its keys.
    pub(crate) from: Key,
    pub(crate) runs: Vec<Run>,
    /// Whether all of its entries are in memory.
    pub(crate) whole: bool,
}

impl Partition {
    /// How many keys its runs have at most.
    pub(crate) fn keys_max(&self) -> u64 {
        self.known_leaves().map(|leaves| leaves.keys()).sum()
    }

    /// The same without its runs from this number on, and with nothing but these.
    pub(crate) fn split_runs(&self, first: usize) -> (Partition, Partition) {
        let (older, newest) = self.runs.split_at(first);
        let with = |runs: &[Run]| Partition {
            from: self.from.clone(),
            runs: runs.to_vec(),
            whole: self.whole,
        };
        (with(older), with(newest))
    }

    /// What memory knows of the leaves of its runs, the oldest first.
    pub(crate) fn known_leaves(&self) -> impl DoubleEndedIterator<Item = &Arc<Leaves>> {
        self.runs.iter().filter_map(|run| run.leaves.as_ref())
    }

    /// The leaves that may have a key, those of the newest run first.
    pub(crate) fn leaves_of(&self, key: &Key) -> impl DoubleEndedIterator<Item = PageRef> {
        let hash = hash_of(key.bytes());
        let leaves = self.known_leaves().rev();
        leaves.filter_map(move |leaves| leaves.leaf_of(key, hash))
    }

    /// The leaves that may have keys from `from` on and before `end`, those of the oldest run first.
    pub(crate) fn leaves_between(&self, from: &Key, end: Option<&Key>) -> Vec<PageRef> {
        let leaves = self.known_leaves();
        let leaves = leaves.flat_map(|leaves| leaves.between(from, end));
        leaves.map(|(_, leaf)| *leaf).collect()
    }

    /// Where the first run ends that so many leaves of it are read, from the one that may have `from` on. So no more is read of any run: a base may have next to nothing
    /// yet, and then the others have it all.
    pub(crate) fn end_of_leaves(&self, from: &Key, leaves: usize) -> Option<Key> {
        let ends = self.known_leaves();
        let ends = ends.filter_map(|it| it.between(from, None).get(leaves));
        ends.map(|(first, _)| first.clone()).min()
    }

    /// Where the first run begins that so many leaves of it are read, backwards from the one that ends before `end`, and none before `from`.
    pub(crate) fn start_of_leaves(
        &self,
        from: &Key,
        end: Option<&Key>,
        leaves: usize,
    ) -> Option<Key> {
        let starts = self.known_leaves().filter_map(|it| {
            let before = it.between(from, end);
            let at = before.len().checked_sub(leaves).filter(|at| *at > 0)?;
            Some(before[at].0.clone())
        });
        starts.max()
    }

    /// How many keys a leaf of its largest run has, about.
    pub(crate) fn keys_per_leaf(&self) -> u64 {
        let largest = self.known_leaves().max_by_key(|it| it.keys());
        largest.map_or(1, |it| it.keys() / (it.all().len() as u64).max(1))
    }

    /// The last key of all runs; `None` where it is not known of each.
    fn last_key(&self) -> Option<&Key> {
        let mut lasts = self.runs.iter().map(|run| run.last.as_ref());
        let first = lasts.next()??;
        if mutant(Mutant::AppendedBehindBase) {
            return Some(first);
        }
        lasts.try_fold(first, |last, it| it.map(|it| last.max(it)))
    }

    /// Bytes of all runs.
    pub(crate) fn bytes(&self) -> u64 {
        self.base_bytes() + self.changes_bytes()
    }

    pub(crate) fn base_bytes(&self) -> u64 {
        self.runs.first().map_or(0, Run::bytes)
    }

    /// Bytes of all runs behind the base.
    pub(crate) fn changes_bytes(&self) -> u64 {
        self.runs.iter().skip(1).map(Run::bytes).sum()
    }

    /// What stands beside its lower bound in the list of partitions.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut payload = vec![0; self.runs.len() * RUN_ROOTS_BYTES];
        let places = payload.chunks_exact_mut(RUN_ROOTS_BYTES);
        for (at, (run, place)) in self.runs.iter().zip(places).enumerate() {
            run.root.encode(place);
            let filtered = match mutant(Mutant::FilterOfNextNamed) {
                true => &self.runs[(at + 1) % self.runs.len()],
                false => run,
            };
            filtered.filter.encode(&mut place[PAGE_REF_BYTES..]);
        }
        payload
    }

    /// The roots of its runs. Takes any bytes.
    pub(crate) fn decode(payload: &[u8]) -> Result<Vec<Roots>, Mismatch> {
        let (roots, rest) = payload.as_chunks::<RUN_ROOTS_BYTES>();
        if roots.is_empty() || roots.len() > RUNS_MAX || !rest.is_empty() {
            return Err(Mismatch {
                what: "length of a partition's references",
                expected: RUN_ROOTS_BYTES as u64,
                found: payload.len() as u64,
            });
        }
        let roots = roots.iter().map(|it| Roots {
            run: PageRef::decode(it),
            filter: PageRef::decode(&it[PAGE_REF_BYTES..]),
        });
        Ok(roots.collect())
    }
}

/// What the superblock refers to, but for the table of segments.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// Scans read those of their arrival.
    pub(crate) partitions: Arc<Vec<Partition>>,
    /// A segment of pages that has room behind its last page, and where that page ends.
    pub(crate) end: Option<(u32, u64)>,
    /// Partitions that are not whole.
    partial: usize,
    memory_bytes: u64,
    bytes: u64,
    weight: Option<Weight>,
}

impl Runs {
    pub(crate) fn new(partitions: Vec<Partition>, end: Option<(u32, u64)>) -> Runs {
        let partial = partitions.iter().filter(|it| !it.whole).count();
        let mut runs = Runs {
            partitions: Arc::new(partitions),
            end,
            partial,
            memory_bytes: 0,
            bytes: 0,
            weight: None,
        };
        runs.count_memory();
        runs
    }

    /// To change something of one. Scans under way keep what there was.
    pub(crate) fn partition_mut(&mut self, number: usize) -> &mut Partition {
        &mut Arc::make_mut(&mut self.partitions)[number]
    }

    /// What memory keeps of all runs, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// What they take of the device.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The leaves of some runs are others, or have filters now, or what they weigh is known.
    pub(crate) fn count_memory(&mut self) {
        let runs = self.partitions.iter().flat_map(|it| &it.runs);
        self.weight = runs.map(|run| run.weight).sum();
        self.bytes = self.partitions.iter().map(Partition::bytes).sum();
        let leaves = self.partitions.iter().flat_map(Partition::known_leaves);
        self.memory_bytes = leaves.map(|leaves| leaves.memory_bytes()).sum();
    }

    /// What the entries of all runs weigh, those that do not count any more included; `None` where it is not known.
    pub(crate) fn weight(&self) -> Option<Weight> {
        self.weight
    }

    /// Whether all entries are in memory.
    pub(crate) fn are_whole(&self) -> bool {
        self.partial == 0
    }

    /// The number of the partition that a key belongs to; `None` if there is no partition.
    pub(crate) fn number_of(&self, key: &Key) -> Option<usize> {
        number_of(&self.partitions, key)
    }

    /// The upper bound of a partition's keys.
    pub(crate) fn end_of(&self, number: usize) -> Option<&Key> {
        self.partitions.get(number + 1).map(|it| &it.from)
    }

    /// The last key of all; `None` where it is not known.
    pub(crate) fn last_key(&self) -> Option<&Key> {
        self.partitions.last()?.last_key()
    }

    /// All entries of the partition are in memory, or they are not any more.
    pub(crate) fn set_whole(&mut self, number: usize, whole: bool) {
        if self.partitions[number].whole != whole {
            self.partition_mut(number).whole = whole;
            match whole {
                true => self.partial -= 1,
                false => self.partial += 1,
            }
        }
    }

    /// The keys from `from` on and before `end`, cut where partitions end.
    pub(crate) fn parts_between(&self, from: &Key, end: Option<&Key>) -> Vec<KeyRange> {
        let is_within = |it: &&Partition| it.from > *from && end.is_none_or(|end| it.from < *end);
        let cuts = self.partitions.iter().filter(is_within).map(|it| &it.from);
        let starts = std::iter::once(from).chain(cuts.clone());
        let ends = cuts.map(Some).chain([end]);
        let parts = starts.zip(ends);
        parts
            .map(|(from, end)| KeyRange::new(from.clone(), end.cloned()))
            .collect()
    }

    /// The leaves that may have keys from `from` on and before `end`: one partition behind the other, and of each those of the oldest run first.
    pub(crate) fn leaves_between(&self, from: &Key, end: Option<&Key>) -> Vec<PageRef> {
        let first = self.number_of(from).unwrap_or(0);
        let some = self.partitions[first..].iter();
        let some = some.take_while(|it| end.is_none_or(|end| it.from < *end));
        some.flat_map(|it| it.leaves_between(from, end)).collect()
    }

    /// Whether all entries of the keys from `from` on and before `end` are in memory.
    pub(crate) fn are_whole_between(&self, from: &Key, end: Option<&Key>) -> bool {
        let first = self.number_of(from).unwrap_or(0);
        let some = self.partitions[first..].iter();
        let mut some = some.take_while(|it| end.is_none_or(|end| it.from < *end));
        self.are_whole() || some.all(|it| it.whole)
    }

    /// Bytes of the bases: what all of it would take if it was written anew.
    pub(crate) fn base_bytes(&self) -> u64 {
        self.partitions.iter().map(Partition::base_bytes).sum()
    }
}

/// The number of the partition that a key belongs to; `None` if there is none.
pub(crate) fn number_of(partitions: &[Partition], key: &Key) -> Option<usize> {
    let behind = partitions.partition_point(|it| it.from <= *key);
    behind.checked_sub(1)
}

/// The number of the partition that has the keys right before this one, or the last keys of all.
pub(crate) fn number_before(partitions: &[Partition], end: Option<&Key>) -> Option<usize> {
    let below = |it: &Partition| end.is_none_or(|end| it.from < *end);
    partitions.partition_point(below).checked_sub(1)
}

/// Segments that hold pages of these partitions, and how many bytes of pages.
pub(crate) fn segments_of<'a>(
    partitions: impl Iterator<Item = &'a Partition>,
) -> BTreeMap<u32, u64> {
    segments_of_runs(partitions.flat_map(|it| &it.runs))
}

/// The same of runs.
pub(crate) fn segments_of_runs<'a>(runs: impl Iterator<Item = &'a Run>) -> BTreeMap<u32, u64> {
    let mut segments = BTreeMap::new();
    for piece in runs.flat_map(|run| &run.pieces) {
        *segments.entry(piece.physical).or_insert(0) += piece.bytes;
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::leaves::LeavesDraft;

    /// Goal: references come back, and anything else is refused. Method: partitions of few and many runs, and every other length.
    #[test]
    fn references_of_a_partition_come_back() {
        for runs in 1..=RUNS_MAX {
            let page = |n: usize| PageRef {
                offset: n as u64 * 4096,
                len: 4096,
                checksum: u64::MAX - n as u64,
            };
            let run = |n: usize| Run {
                root: page(n),
                filter: match n % 3 {
                    0 => PageRef::NONE,
                    _ => page(100 + n),
                },
                pieces: Vec::new(),
                leaves: None,
                last: None,
                weight: None,
            };
            let partition = Partition {
                from: Key::new(FIRST_KEY),
                runs: (0..runs).map(run).collect(),
                whole: true,
            };
            let roots = partition.runs.iter().map(|run| Roots {
                run: run.root,
                filter: run.filter,
            });
            let roots: Vec<Roots> = roots.collect();
            let payload = partition.encode();
            assert_eq!(Partition::decode(&payload), Ok(roots));
            for cut in (0..payload.len()).filter(|cut| cut % RUN_ROOTS_BYTES != 0 || *cut == 0) {
                assert!(Partition::decode(&payload[..cut]).is_err());
            }
        }
        let beyond = [7; (RUNS_MAX + 1) * RUN_ROOTS_BYTES];
        assert!(Partition::decode(&beyond).is_err());
    }

    /// Goal: a range has the leaves of all partitions that it meets, and of no other. Method: three partitions with two leaves each, and ranges around their bounds. A
    /// scan read part of its range only, where a checkpoint had cut the partition in two meanwhile.
    #[test]
    fn a_range_has_the_leaves_of_all_its_partitions() {
        let leaf = |first: u8| PageRef {
            offset: u64::from(first) * 4096,
            len: 4096,
            checksum: 0,
        };
        let partition = |from: u8| {
            let mut leaves = LeavesDraft::default();
            for first in [from, from + 5] {
                leaves.note_leaf(&[first], leaf(first));
            }
            let run = Run {
                root: PageRef::NONE,
                filter: PageRef::NONE,
                pieces: Vec::new(),
                leaves: Some(Arc::new(leaves.finish())),
                last: Some(Key::new(&[from + 9])),
                weight: None,
            };
            Partition {
                from: Key::new(&[from]),
                runs: vec![run],
                whole: false,
            }
        };
        let runs = Runs::new([0, 10, 20].map(partition).into(), None);
        let between = |from: u8, end: Option<u8>| {
            let end = end.map(|end| Key::new(&[end]));
            let leaves = runs.leaves_between(&Key::new(&[from]), end.as_ref());
            let firsts = leaves.iter().map(|leaf| leaf.offset / 4096);
            firsts.collect::<Vec<u64>>()
        };
        assert_eq!(between(0, None), [0, 5, 10, 15, 20, 25]);
        assert_eq!(between(7, Some(12)), [5, 10]);
        assert_eq!(between(7, Some(10)), [5]);
        assert_eq!(between(10, Some(21)), [10, 15, 20]);
        assert_eq!(between(26, None), [25]);
        assert_eq!(Runs::default().leaves_between(&Key::new(&[1]), None), []);
    }
}
