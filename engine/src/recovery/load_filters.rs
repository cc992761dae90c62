//! The filters of runs that stand on the device. Where entries may leave memory they are read before anything else of the index, so that a get reads few leaves while that is loaded.
//!
//! An index whose entries do not fit into memory, and of which all values lie in it, is loaded by its filters alone, which say what the entries weigh too. No leaf is read but of a run
//! that has no filter on the device.
//!
//! There are no live bytes to be counted then, and no chunk that belongs to a key. The number of keys and the room that the index takes stay what the superblock says and the log adds, which are
//! upper bounds, and checkpoints bring them down (`index/counting.rs`). A write that they would have refused waits for a checkpoint that counts exactly.
//!
//! Invariant: no entry that was written before the opening has its value anywhere but in the index. Leaves that say so lie; they are met when they are read (`Core::check_learnt`).

use std::ops::Bound;
use std::sync::Arc;

use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::api::event::Event;
use crate::api::port::{DiskError, Level};
use crate::checkpoint::leaf_reader::LeafReader;
use crate::checkpoint::leaves::{Leaves, hash_of};
use crate::checkpoint::read::Ascending;
use crate::checkpoint::runs::Run;
use crate::core::Core;
use crate::format::damage::Mismatch;
use crate::format::filter::Filter;
use crate::format::page::PageRef;
use crate::index::key::Key;
use crate::index::key_range::KeyRange;
use crate::index::resident::ENTRY_BYTES;
use crate::index::weight::Weight;
use crate::mutant::{Mutant, mutant};
use crate::runtime::handle::Handle;

/// Leaves of a run that are read before others get on.
const LEAVES_AT_ONCE: usize = 16;
/// The same of keys that the log has.
const KEYS_AT_ONCE: usize = 512;

/// Reads the filters that stand on the device, as long as the database is open: so that gets read few leaves from now on.
pub(super) async fn read_filters(handle: &Handle) -> Result<(), Error> {
    for (partition, number, run) in runs_without_filter(handle) {
        if run.filter == PageRef::NONE {
            continue;
        }
        handle.give_way_to_all().await;
        if !handle.with(|core| core.is_loading()) {
            return Ok(());
        }
        match read_filter(handle, &run).await {
            Ok(read) => handle.with(|core| {
                core.reached(CoveragePoint::FilterRead);
                let weight = Weight {
                    keys: read.keys,
                    pages_bytes: read.pages_bytes,
                };
                let leaves = outline_of(&run).with_known_filter(read.entries, read.words);
                core.set_filter(partition, number, leaves, weight);
            }),
            Err(error) => handle.with(|core| {
                core.do_without_filter(error)?;
                core.runs.partition_mut(partition).runs[number].filter = PageRef::NONE;
                Ok::<(), Error>(())
            })?,
        }
    }
    handle.with(|core| core.runs.count_memory());
    Ok(())
}

/// Loads the index by its filters, of which those on the device were read, as long as the database is open.
pub(super) async fn load_by_filters(handle: &Handle) -> Result<(), Error> {
    for (partition, number, run) in runs_without_filter(handle) {
        handle.give_way_to_all().await;
        if !handle.with(|core| core.is_loading()) {
            return Ok(());
        }
        let (hashes, weight) = read_leaves(handle, partition, outline_of(&run)).await?;
        let leaves = outline_of(&run).with_filter(hashes);
        handle.with(|core| core.set_filter(partition, number, leaves, weight));
    }
    handle.with(|core| core.runs.count_memory());
    load_last_keys(handle).await?;
    let replaced = count_replaced(handle).await;
    handle.with(|core| core.end_loading_by_filters(replaced));
    Ok(())
}

/// Runs whose filters are wanted and not known, with the numbers of their partitions and their own.
fn runs_without_filter(handle: &Handle) -> Vec<(usize, usize, Run)> {
    handle.with(|core| {
        let partitions = core.runs.partitions.iter().enumerate();
        let partitions = partitions.filter(|_| core.forgets());
        let runs = partitions.flat_map(|(at, partition)| {
            let runs = partition.runs.iter().enumerate();
            let runs = runs.filter(|(_, run)| run.weight.is_none());
            runs.map(move |(number, run)| (at, number, run.clone()))
        });
        runs.collect()
    })
}

fn outline_of(run: &Run) -> &Leaves {
    run.leaves
        .as_ref()
        .expect("a run that is not loaded has them")
}

async fn read_filter(handle: &Handle, run: &Run) -> Result<Filter<Box<[u64]>>, Error> {
    let (id, filter) = (handle.with(|core| core.id), run.filter);
    let bytes = handle.read_retry(filter.offset, filter.len.into()).await?;
    let read = Filter::decode(&id, &filter, run.bytes(), &bytes);
    handle.give(bytes);
    read.map_err(|mismatch| mismatch.at(filter.offset).into())
}

/// Reads all entries of a run: the hashes of its keys, and what they weigh.
async fn read_leaves(
    handle: &Handle,
    partition: usize,
    leaves: &Leaves,
) -> Result<(Vec<u64>, Weight), Error> {
    let keys = handle.with(|core| {
        let from = core.runs.partitions[partition].from.clone();
        KeyRange::new(from, core.runs.end_of(partition).cloned())
    });
    let (mut hashes, mut weight) = (Vec::new(), Weight::default());
    let mut ascending = Ascending::default();
    for some in leaves.all().chunks(LEAVES_AT_ONCE) {
        handle.give_way_to_all().await;
        let some = some.iter().map(|(_, leaf)| *leaf).collect();
        let read = LeafReader::new(handle, some).each(|_, key, payload| {
            ascending.check(key)?;
            if !keys.has(key) {
                return Err(Mismatch {
                    what: "key outside of its partition",
                    expected: 0,
                    found: key.len() as u64,
                });
            }
            hashes.push(hash_of(key));
            weight += Weight::of_entry(key, payload);
            Ok(())
        });
        read.await?;
    }
    Ok((hashes, weight))
}

/// Reads the last key of each run of the last partition: keys behind these come behind all others (`checkpoint/append.rs`).
async fn load_last_keys(handle: &Handle) -> Result<(), Error> {
    let Some(partition) = handle.with(|core| core.runs.partitions.len().checked_sub(1)) else {
        return Ok(());
    };
    let runs = handle.with(|core| core.runs.partitions[partition].runs.clone());
    for (number, run) in runs.into_iter().enumerate() {
        let leaves = run.leaves.filter(|_| run.last.is_none());
        let last = leaves.and_then(|leaves| leaves.all().last().map(|(_, leaf)| *leaf));
        let mut ascending = Ascending::default();
        let read = LeafReader::new(handle, last.into_iter().collect());
        let read = read.each(|_, key, _| ascending.check(key));
        read.await?;
        let last: Option<Key> = ascending.last();
        handle.with(|core| {
            let run = &mut core.runs.partition_mut(partition).runs[number];
            run.last = run.last.take().or(last);
        });
    }
    Ok(())
}

/// Of how many keys that the log has the runs may have an older entry, as the filters say.
async fn count_replaced(handle: &Handle) -> u64 {
    let mut replaced = 0;
    let mut start = Bound::Unbounded;
    loop {
        handle.give_way_to_all().await;
        let last = handle.with(|core| {
            let known = core.index.known(start.clone(), None).take(KEYS_AT_ONCE);
            let keys = known.map(|(key, _)| key);
            let mut last = None;
            for key in keys {
                let number = core.runs.number_of(key);
                let partition = number.map(|number| &core.runs.partitions[number]);
                let is_there = partition.is_some_and(|it| it.leaves_of(key).next().is_some());
                replaced += u64::from(is_there);
                last = Some(key.clone());
            }
            last
        });
        match last {
            Some(last) => start = Bound::Excluded(last),
            None => return replaced,
        }
    }
}

impl Core {
    /// The filter of a run is known, and what its entries weigh.
    pub(super) fn set_filter(
        &mut self,
        partition: usize,
        run: usize,
        leaves: Leaves,
        weight: Weight,
    ) {
        let run = &mut self.runs.partition_mut(partition).runs[run];
        run.leaves = Some(Arc::new(leaves));
        run.weight = Some(weight);
        // Of keys that it denies memory knows from now on, before anything else happens to them.
        self.answer_known_lookups();
    }

    /// Whether the index is loaded by its filters: no value lies outside of it, and by far not all entries fit into memory.
    pub(super) fn loads_by_filters(&self) -> bool {
        let Some(loading) = &self.loading else {
            return false;
        };
        let left = &loading.left;
        let entries = left.keys.saturating_mul(ENTRY_BYTES);
        let all = entries.saturating_add(self.runs.bytes());
        let none_outside = self.live_bytes() == 0 || mutant(Mutant::OutsideLeftUncounted);
        self.forgets() && none_outside && all > self.entries_bytes()
    }

    /// A filter that is damaged or cannot be read is told, and made anew from the leaves of its run. Any other error is one.
    pub(super) fn do_without_filter(&mut self, error: Error) -> Result<(), Error> {
        match &error {
            Error::Corruption(damage) | Error::Unreadable(damage) => {
                let damage = *damage;
                self.happened(Event::Damaged { key: None, damage });
            }
            Error::Disk(DiskError::Read) => {}
            _ => return Err(error),
        }
        let text = format!("the filter of a run is made anew: {error}");
        self.log_line(Level::Warn, text);
        self.reached(CoveragePoint::FilterMadeAnew);
        Ok(())
    }

    /// All filters are known.
    fn end_loading_by_filters(&mut self, replaced: u64) {
        let Some(loading) = self.loading.take() else {
            return;
        };
        self.segments.set_counted(true);
        self.none_outside_before = loading.tail.next_sequence;
        self.index.take_as_bounds(replaced);
        let standing = self.runs.weight();
        self.index
            .bound_counts(standing.expect("it is known of all runs"));
        self.reached(CoveragePoint::LoadedByFilters);
        self.activity += 1;
    }
}
