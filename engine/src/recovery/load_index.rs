//! Loading the index: what the runs have of each key is counted, and taken into memory as far as there is room. A small index is loaded before the opening is answered, a
//! large one behind it, while clients read and write.
//!
//! It goes through the keys in their order. As long as a key was not come to, what the runs have of it does not count, unless memory knows of the key: then memory has it
//! right. So a write of such a key replaces nothing that counts, and waits for no read. A get, and whatever else needs an entry, reads it from the runs and takes it into memory,
//! and then it counts.
//!
//! Invariants:
//! - an entry counts once: when it is loaded, or before when it is looked up. Nothing leaves memory meanwhile;
//! - until everything is loaded, no segment of log or extents is dead, and no checkpoint begins: the runs stay these. (The one of a tail rewrite comes before loading begins.) What an
//!   opening went by, the counts of the superblock, bounds what there may be beside what is counted;
//! - of a key the newest run that has it decides. Only its place is looked at, for what an older run has of it may lie where something else is by now;
//! - every key of a run lies in its partition.

use std::collections::BTreeMap;

use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::api::event::Event;
use crate::api::port::{DiskError, Level};
use crate::checkpoint::chunk::Chunk;
use crate::checkpoint::leaves::hash_of;
use crate::checkpoint::merge::Newest;
use crate::checkpoint::read::Ascending;
use crate::checkpoint::runs::Run;
use crate::core::{Core, Phase, live_bytes};
use crate::format::damage::{Corruption, Mismatch};
use crate::format::frame;
use crate::index::entry::{decode, pages_of};
use crate::index::key::Key;
use crate::index::key_range::KeyRange;
use crate::index::place::{Place, Version};
use crate::index::resident::memory_of;
use crate::index::weight::Weight;
use crate::mutant::{Mutant, mutant};
use crate::recovery::load_filters::{load_by_filters, read_filters};
use crate::runtime::handle::Handle;
use crate::segments::usage::Use;

/// Entries of one step, after which clients go on.
const ENTRIES_PER_STEP: usize = 1024;

/// Loads the index behind an opening.
pub(crate) async fn load_behind(handle: Handle) {
    let began_at = handle.with(|core| core.now);
    let result = load_rest(&handle).await;
    handle.with(|core| {
        core.activity += 1;
        match result {
            // It was closed, or has failed, meanwhile.
            Ok(()) if core.loading.is_some() => {}
            Ok(()) => {
                core.reached(CoveragePoint::LoadedBehind);
                core.happened(Event::IndexLoaded {
                    keys: core.index.len(),
                    took_ns: core.now - began_at,
                });
            }
            Err(error) => core.fail_loading(&error),
        }
    });
}

/// Loads what is not loaded yet, as long as the database is open. Where upper bounds of what there is will do, nothing is counted.
async fn load_rest(handle: &Handle) -> Result<(), Error> {
    read_filters(handle).await?;
    match handle.with(|core| core.loads_by_filters()) {
        true => load_by_filters(handle).await,
        false => load_leaves(handle).await,
    }
}

/// Loads what is not loaded yet, as long as the database is open, and counts it exactly.
pub(crate) async fn load_index(handle: &Handle) -> Result<(), Error> {
    read_filters(handle).await?;
    load_leaves(handle).await
}

/// The same once the filters are read.
async fn load_leaves(handle: &Handle) -> Result<(), Error> {
    let partitions = handle.with(|core| match core.loading {
        Some(_) => core.runs.partitions.len(),
        None => 0,
    });
    for number in 0..partitions {
        if !load_partition(handle, number).await? {
            return Ok(());
        }
    }
    handle.with(Core::end_loading);
    Ok(())
}

/// Loads a partition. False if the database is not open any more.
async fn load_partition(handle: &Handle, number: usize) -> Result<bool, Error> {
    let keys = handle.with(|core| {
        let from = core.runs.partitions[number].from.clone();
        KeyRange::new(from, core.runs.end_of(number).cloned())
    });
    let mut runs = handle.with(|core| RunsRead::new(core, number));
    let end = keys.end.as_ref();
    let mut next = Some(Chunk::begin(handle, keys.from.clone(), end));
    while let Some(chunk) = next.take() {
        let behind = chunk.keys.end.clone();
        runs.between_chunks();
        let merge = chunk.merge(|leaf, key, payload, is_in_chunk| {
            if !keys.has(key) {
                return Err(Mismatch {
                    what: "key outside of its partition",
                    expected: 0,
                    found: key.len() as u64,
                });
            }
            runs.note(leaf.offset, key, payload, is_in_chunk)
        });
        let mut merge = merge.await?;
        if behind != keys.end
            && let Some(behind) = behind
        {
            next = Some(Chunk::begin(handle, behind, end));
        }
        let mut newest = merge.newest().peekable();
        while newest.peek().is_some() {
            handle.give_way_to_all().await;
            let is_open = handle.with(|core| {
                let some = newest.by_ref().take(ENTRIES_PER_STEP);
                match core.is_loading() {
                    true => core.load_some(some, &mut runs.whole).map(|()| true),
                    false => Ok(false),
                }
            })?;
            if !is_open {
                return Ok(false);
            }
        }
    }
    runs.end(handle, number).await;
    Ok(true)
}

/// The runs of a partition as they are read.
struct RunsRead {
    /// The number of its run for each leaf, by the leaf's offset.
    run_of: BTreeMap<u64, usize>,
    /// Hashes of the keys of each whose filter has to be made.
    hashes: Vec<Option<Vec<u64>>>,
    /// What its entries weigh, as far as there are hashes.
    weights: Vec<Weight>,
    ascending: Vec<Ascending>,
    /// The last key of each so far.
    lasts: Vec<Option<Key>>,
    /// Whether all entries were taken into memory.
    whole: bool,
}

impl RunsRead {
    fn new(core: &Core, number: usize) -> RunsRead {
        let runs = &core.runs.partitions[number].runs;
        let mut run_of = BTreeMap::new();
        for (at, run) in runs.iter().enumerate() {
            let leaves = run.leaves.iter().flat_map(|leaves| leaves.all());
            run_of.extend(leaves.map(|(_, leaf)| (leaf.offset, at)));
        }
        let lacks_filter = |run: &Run| core.forgets() && run.weight.is_none();
        let hashes = runs.iter().map(|run| lacks_filter(run).then(Vec::new));
        RunsRead {
            run_of,
            hashes: hashes.collect(),
            weights: vec![Weight::default(); runs.len()],
            ascending: vec![Ascending::default(); runs.len()],
            lasts: vec![None; runs.len()],
            whole: true,
        }
    }

    /// A leaf at the bound of two chunks is read for both.
    fn between_chunks(&mut self) {
        for (last, ascending) in self.lasts.iter_mut().zip(&mut self.ascending) {
            *last = ascending.last().or(last.take());
            *ascending = Ascending::default();
        }
    }

    /// The leaf at this offset has an entry.
    fn note(
        &mut self,
        leaf: u64,
        key: &[u8],
        payload: &[u8],
        is_in_chunk: bool,
    ) -> Result<(), Mismatch> {
        let run = self.run_of[&leaf];
        self.ascending[run].check(key)?;
        if let Some(hashes) = self.hashes[run].as_mut().filter(|_| is_in_chunk) {
            hashes.push(hash_of(key));
            self.weights[run] += Weight::of_entry(key, payload);
        }
        Ok(())
    }

    /// All leaves were read: makes the filters.
    async fn end(mut self, handle: &Handle, number: usize) {
        self.between_chunks();
        handle.with(|core| {
            let runs = &mut core.runs.partition_mut(number).runs;
            let lasts = runs.iter_mut().zip(self.lasts);
            lasts.for_each(|(run, last)| run.last = last);
        });
        let weights = self.weights.into_iter();
        for (run, (hashes, weight)) in self.hashes.into_iter().zip(weights).enumerate() {
            let Some(hashes) = hashes else {
                continue;
            };
            handle.give_way_to_all().await;
            handle.with(|core| {
                let known = core.runs.partitions[number].runs[run].leaves.as_ref();
                let known = known.expect("a run that is not loaded has them");
                let leaves = known.with_filter(hashes);
                core.set_filter(number, run, leaves, weight);
            });
        }
        handle.with(|core| {
            core.runs.count_memory();
            if self.whole {
                core.runs.set_whole(number, true);
                core.answer_known_lookups();
            } else {
                core.reached(CoveragePoint::EntriesForgotten);
            }
            if !core.forgets() {
                let runs = &mut core.runs.partition_mut(number).runs;
                runs.iter_mut().for_each(|run| run.leaves = None);
                core.runs.count_memory();
            }
        });
    }
}

impl Core {
    /// Whether the index is to be loaded, and the database is open.
    pub(super) fn is_loading(&self) -> bool {
        let is_open = self.phase == Phase::Opening || self.phase == Phase::Running;
        is_open && self.poisoned.is_none() && self.loading.is_some()
    }

    /// Loads the next entries, ascending. They are taken into memory as long as all take no more than half of what they may then: the rest is for what changes meanwhile.
    fn load_some<'a>(
        &mut self,
        entries: impl Iterator<Item = Newest<'a>>,
        whole: &mut bool,
    ) -> Result<(), Corruption> {
        let mut last = None;
        for Newest {
            key,
            payload,
            offset,
        } in entries
        {
            last = Some(key);
            self.load_entry(key, payload, whole)
                .map_err(|mismatch| mismatch.at(offset))?;
        }
        if let (Some(last), Some(loading)) = (last, &mut self.loading) {
            loading.to = Some(Key::new(last));
        }
        Ok(())
    }

    fn load_entry(&mut self, key: &[u8], payload: &[u8], whole: &mut bool) -> Result<(), Mismatch> {
        let version = decode(&self.geometry, self.segments.count(), payload)?;
        if version.place == Place::Tombstone {
            return Ok(());
        }
        if self.index.is_known(key) {
            if mutant(Mutant::LoadedOverNewer) && self.index.newest(key).is_some() {
                self.index.relocate(key, version.sequence, version.place);
            }
            return Ok(());
        }
        self.count_loaded(key, &version)?;
        let bound = self.entries_bytes();
        let bytes = self.index.memory_bytes() + memory_of(key, &version);
        if self.forgets() && bytes > bound / 2 {
            *whole = false;
            return Ok(());
        }
        let (key, lsn) = (Key::new(key), version.place.lsn());
        let slot = self.index.learn(&key, version);
        if let Some(lsn) = lsn {
            self.segments.note_resident(lsn, slot);
        }
        self.answer_lookup(&key);
        Ok(())
    }

    /// The newest entry that the runs have of a key, of which memory did not know, counts from now on.
    pub(crate) fn count_loaded(&mut self, key: &[u8], version: &Version) -> Result<(), Mismatch> {
        self.check_loaded(key, version)?;
        let (live, pages) = (self.weight(key, version).0, pages_of(key, version));
        let left = &mut self.loading.as_mut().expect("it is being loaded").left;
        // They are bounds, unless they were tampered with.
        let keys = u64::from(left.keys == 0);
        left.keys -= 1 - keys;
        let beyond = pages.saturating_sub(left.pages_bytes);
        left.pages_bytes -= pages - beyond;
        left.live_bytes = left.live_bytes.saturating_sub(live);
        self.index.count(Weight {
            keys,
            pages_bytes: beyond,
        });
        if mutant(Mutant::ForgottenNotCounted) {
            return Ok(());
        }
        self.add_live(key, &version.place);
        self.check_overlaps(&version.place)
    }

    /// Values that overlap take more of a segment than it has.
    pub(super) fn check_overlaps(&self, place: &Place) -> Result<(), Mismatch> {
        let in_log = place.lsn().and_then(|lsn| self.segments.of_lsn(lsn));
        let chunks = match place {
            Place::Extent(pointer) => &pointer.chunks[..],
            _ => &[],
        };
        let of_extents = chunks.iter().map(|it| self.geometry.locate(it.offset).0);
        let room = self.geometry.segment_bytes;
        let all = of_extents.chain(in_log);
        let mut bytes = all.map(|physical| self.segments.get(physical).live_bytes);
        match bytes.find(|live| *live > room) {
            Some(live) => Err(Mismatch {
                what: "values that overlap",
                expected: room,
                found: live,
            }),
            None => Ok(()),
        }
    }

    /// A version that is newer than the log, or whose value is where none can be, would be damage.
    pub(super) fn check_loaded(&self, key: &[u8], version: &Version) -> Result<(), Mismatch> {
        let tail = &self.loading.as_ref().expect("it is being loaded").tail;
        let odd = |what, expected, found| Mismatch {
            what,
            expected,
            found,
        };
        let next = tail.next_sequence;
        if version.sequence >= next && !mutant(Mutant::SequencesStartAgain) {
            return Err(odd("version newer than the log", next, version.sequence));
        }
        match &version.place {
            Place::Tombstone | Place::Inline(_) => Ok(()),
            Place::Log {
                lsn, value_bytes, ..
            } => {
                if self.segments.of_lsn(*lsn).is_none() {
                    return Err(Mismatch::outside_log(*lsn));
                }
                let bytes = live_bytes(key, *value_bytes);
                frame::check_record_place(&self.geometry, *lsn, bytes)?;
                if lsn + bytes > tail.lsn {
                    return Err(odd("value beyond the log", tail.lsn, *lsn));
                }
                Ok(())
            }
            Place::Extent(pointer) => {
                for chunk in &pointer.chunks {
                    let (physical, _) = self.geometry.locate(chunk.offset);
                    if self.segments.get(physical).used_as != Use::Extent {
                        let found = physical.into();
                        return Err(odd("extent in a segment of another use", 0, found));
                    }
                    if self.extents.is_owned(chunk.offset) {
                        return Err(odd("chunk of two values", 0, chunk.offset));
                    }
                }
                Ok(())
            }
        }
    }

    /// Everything is loaded, and counted exactly.
    fn end_loading(&mut self) {
        let Some(loading) = self.loading.take() else {
            return;
        };
        self.index.uncount(Weight::stated(&loading.left));
        self.segments.set_counted(true);
        self.activity += 1;
    }

    /// A part of the index cannot be read. What memory knows of, and what can be read, is served, and what was written until now becomes durable; but nothing new is written: space
    /// would never come back.
    fn fail_loading(&mut self, error: &Error) {
        if let Error::Corruption(damage) = error {
            self.happened(Event::Damaged {
                key: None,
                damage: *damage,
            });
        }
        let text = format!("read-only from here on: the index cannot be loaded: {error}");
        self.log_line(Level::Error, text);
        // It may be closed, or have failed, meanwhile.
        if let Some(loading) = self.loading.as_mut().filter(|_| self.poisoned.is_none()) {
            loading.has_failed = true;
            self.happened(Event::BecameReadOnly {
                error: DiskError::Read,
            });
        }
    }
}
