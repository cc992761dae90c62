//! Subtracting what many blind writes have replaced, all at once: their entries are read from the runs in the order of the keys, and leaves that lie near each other in one go. That
//! takes far fewer reads than to look up one key after the other.
//!
//! Invariants: as those of `blind.rs`.

use std::sync::Arc;

use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::api::port::Nanos;
use crate::checkpoint::leaf_reader::LeafReader;
use crate::checkpoint::leaves::hash_of;
use crate::checkpoint::runs::{Partition, number_of};
use crate::core::{Core, Phase};
use crate::format::damage::{Corruption, Mismatch};
use crate::format::page::{Page, PageRef, Tree};
use crate::index::entry::decode;
use crate::index::key::Key;
use crate::index::place::{Place, Version};
use crate::mutant::{Mutant, mutant};
use crate::read::blind::Of;
use crate::runtime::executor::Executor;
use crate::runtime::handle::Handle;

/// Fewer keys are looked up one by one.
const KEYS_MIN: usize = 8;
/// More keys than that gain little by being read together.
const KEYS_MAX: u64 = 64 << 10;
/// The keys of a batch take about so much of the memory that the index may take.
const MEMORY_SHARE: u64 = 2048;
/// What is still to be subtracted takes about so much of the device, so that garbage collection is not misled.
const SPACE_SHARE: u64 = 64;
/// What was written blindly is subtracted after this time at the latest.
const AFTER_NS: Nanos = 1_000_000_000;
/// The leaves of so much of a batch are read at once, and of no more keys than that.
const AT_ONCE_SHARE: usize = 4;
const AT_ONCE_KEYS_MAX: usize = 256;
/// So many leaves are read in vain where two reads would be needed without them.
const GAP_MAX: usize = 3;

/// A leaf that is read.
struct Wanted {
    leaf: PageRef,
    /// Which of the keys it may have. None of one that is read because it lies between others.
    keys: Vec<usize>,
}

/// What a run has of a key.
struct Found {
    version: Version,
    /// Device offset of the leaf that it is in.
    leaf: u64,
}

impl Core {
    /// How many blind writes are gathered before what they replaced is subtracted.
    pub(super) fn batch_of_blind(&self) -> usize {
        let of_memory = self.settings.options.index_bytes / MEMORY_SHARE;
        let capacity = u64::from(self.segments.count()) * self.geometry.segment_bytes;
        let mean = self.live_bytes() / self.index.len().max(1);
        let of_space = capacity / SPACE_SHARE / mean.max(1);
        let keys = of_memory.min(of_space).clamp(KEYS_MIN as u64, KEYS_MAX);
        crate::format::to_usize(keys)
    }

    /// Of how many keys of such a batch the leaves are read at once.
    fn read_at_once(&self) -> usize {
        (self.batch_of_blind() / AT_ONCE_SHARE).clamp(KEYS_MIN, AT_ONCE_KEYS_MAX)
    }

    /// Begins to subtract what blind writes have replaced, if there are many or somebody waits for it.
    pub(crate) fn subtract_if_due(&mut self, executor: &mut Executor, handle: &Handle) {
        let blind = &self.lookups.blind;
        if blind.is_subtracting() {
            return;
        }
        if blind.gathered() == 0 && !blind.has_left() {
            self.lookups.blind.hurry_no_longer();
            return;
        }
        let at = blind.since() + AFTER_NS;
        let due = self.phase != Phase::Running
            || self.maintenance.stalled
            || blind.is_awaited()
            || blind.has_left()
            || self.now >= at
            || blind.gathered() >= self.batch_of_blind();
        if !due {
            self.resume_at = Some(self.resume_at.map_or(at, |other| other.min(at)));
            return;
        }
        if self.lookups.blind.gathered() < KEYS_MIN && !self.lookups.blind.has_left() {
            self.lookups.blind.look_up_gathered();
            return;
        }
        self.lookups.blind.begin_subtracting();
        self.activity += 1;
        executor.spawn(subtract_behind(handle.clone()));
    }

    /// What was found of a key that was written blindly is subtracted, unless it was meanwhile.
    fn subtract_found(
        &mut self,
        key: &Key,
        found: Option<&Found>,
        of: Of,
    ) -> Result<(), Corruption> {
        if !self.lookups.blind.counts_of(key, of) {
            return Ok(());
        }
        match found.filter(|found| found.version.place != Place::Tombstone) {
            Some(found) => self
                .subtract_of(key, &found.version, of)
                .map_err(|mismatch| mismatch.at(found.leaf))?,
            None => {
                self.lookups.blind.take(key, of);
            }
        }
        self.activity += 1;
        if of == Of::Now {
            self.answer_lookup(key);
        }
        Ok(())
    }
}

/// The leaves that may have these keys, those of older runs first and ascending within a run, and those that lie between.
fn leaves_with(partitions: &[Partition], keys: &[Key]) -> Vec<Wanted> {
    let mut places = Vec::with_capacity(keys.len());
    for (at, key) in keys.iter().enumerate() {
        let Some(number) = number_of(partitions, key) else {
            continue;
        };
        let hash = hash_of(key.bytes());
        for (run, it) in partitions[number].runs.iter().enumerate() {
            let leaves = it.leaves.as_ref();
            let leaf = leaves.and_then(|leaves| leaves.position_of(key, hash));
            places.extend(leaf.map(|leaf| (number, run, leaf, at)));
        }
    }
    places.sort_unstable();
    let mut wanted: Vec<Wanted> = Vec::new();
    let mut last = None;
    for (number, run, leaf, key) in places {
        let leaves = partitions[number].runs[run].leaves.as_ref();
        let all = leaves.expect("it was just found there").all();
        match last {
            Some(before) if before == (number, run, leaf) => {}
            Some((other, of, before))
                if (other, of) == (number, run)
                    && leaf - before <= GAP_MAX + 1
                    && are_neighbours(&all[before..=leaf]) =>
            {
                let between = all[before + 1..=leaf].iter();
                wanted.extend(between.map(|(_, leaf)| Wanted::new(*leaf)));
            }
            _ => wanted.push(Wanted::new(all[leaf].1)),
        }
        let it = wanted.last_mut().expect("it was just added");
        it.keys.push(key);
        last = Some((number, run, leaf));
    }
    wanted
}

impl Wanted {
    fn new(leaf: PageRef) -> Wanted {
        Wanted {
            leaf,
            keys: Vec::new(),
        }
    }
}

/// Whether these leaves lie one behind the other.
fn are_neighbours(leaves: &[(Key, PageRef)]) -> bool {
    let mut pairs = leaves.windows(2);
    pairs.all(|pair| pair[0].1.offset.checked_add(pair[0].1.len.into()) == Some(pair[1].1.offset))
}

async fn subtract_behind(handle: Handle) {
    subtract(&handle).await;
    handle.with(|core| {
        core.lookups.blind.end_subtracting();
        core.activity += 1;
    });
}

/// Subtracts what is left of runs that were replaced, and then what was gathered.
async fn subtract(handle: &Handle) {
    while let Some((keys, partitions)) = handle.with(|core| core.lookups.blind.first_left()) {
        subtract_keys(handle, &keys, partitions, Of::Left).await;
        handle.with(Core::end_left);
    }
    let (keys, partitions) = handle.with(|core| {
        let keys = core.lookups.blind.take_gathered();
        (keys, core.runs.partitions.clone())
    });
    subtract_keys(handle, &keys, partitions, Of::Now).await;
}

/// Subtracts what these runs have of these keys. Where they are those of now, ends if they are replaced: all that is left is read from them later.
async fn subtract_keys(handle: &Handle, keys: &[Key], partitions: Arc<Vec<Partition>>, of: Of) {
    let (generation, at_once) = handle.with(|core| {
        if !keys.is_empty() {
            core.reached(CoveragePoint::BlindWritesSubtracted);
        }
        (core.lookups.generation, core.read_at_once())
    });
    let mut chunks = keys.chunks(at_once);
    let begin = |keys| Chunk::begin(handle, &partitions, keys);
    let mut next = chunks.next().map(begin);
    while let Some(chunk) = next.take() {
        next = chunks.next().map(begin);
        let keys = chunk.keys;
        let found = chunk.read(handle).await;
        if of == Of::Now && handle.with(|core| core.lookups.generation != generation) {
            return;
        }
        let is_subtracted = found.and_then(|found| {
            handle.with(|core| {
                let mut found = keys.iter().zip(&found);
                found.try_for_each(|(key, it)| core.subtract_found(key, it.as_ref(), of))?;
                Ok(())
            })
        });
        if is_subtracted.is_err() {
            subtract_one_by_one(handle, keys, &partitions, of).await;
        }
        handle.give_way_to_all().await;
    }
}

/// The same where something cannot be read: only one leaf may be damaged.
async fn subtract_one_by_one(handle: &Handle, keys: &[Key], partitions: &[Partition], of: Of) {
    let generation = handle.with(|core| core.lookups.generation);
    for key in keys {
        let mut result = Ok(());
        for _ in 0..2 {
            let one = std::slice::from_ref(key);
            let found = Chunk::begin(handle, partitions, one).read(handle).await;
            if of == Of::Now && handle.with(|core| core.lookups.generation != generation) {
                return;
            }
            result = found.and_then(|found| {
                handle.with(|core| core.subtract_found(key, found[0].as_ref(), of))?;
                Ok(())
            });
            if result.is_ok() {
                break;
            }
        }
        if let Err(error) = result {
            handle.with(|core| core.leave_replaced(key, &error, of));
        }
    }
}

/// Keys whose leaves are being read.
struct Chunk<'a> {
    keys: &'a [Key],
    wanted: Vec<Wanted>,
    reader: LeafReader<'a>,
}

impl<'a> Chunk<'a> {
    fn begin(handle: &'a Handle, partitions: &[Partition], keys: &'a [Key]) -> Chunk<'a> {
        let wanted = leaves_with(partitions, keys);
        let leaves = wanted.iter().map(|it| it.leaf).collect();
        Chunk {
            keys,
            wanted,
            reader: LeafReader::new(handle, leaves),
        }
    }

    /// What the newest run that has it has of each key.
    async fn read(self, handle: &Handle) -> Result<Vec<Option<Found>>, Error> {
        let (id, geometry, segments) =
            handle.with(|core| (core.id, core.geometry, core.segments.count()));
        let mut found = Vec::new();
        found.resize_with(self.keys.len(), || None);
        let mut wanted = self.wanted.iter();
        let keys = self.keys;
        let read = self.reader.each_leaf(|leaf, bytes| {
            let it = wanted
                .next()
                .expect("as many leaves are read as are wanted");
            if it.keys.is_empty() {
                return Ok(());
            }
            let page = Page::decode(&id, Tree::Run, leaf, bytes)?;
            for at in &it.keys {
                let Some(payload) = page.find(keys[*at].bytes())? else {
                    continue;
                };
                if found[*at].is_none() || !mutant(Mutant::OldestIsSubtracted) {
                    found[*at] = Some(Found {
                        version: decode(&geometry, segments, payload)?,
                        leaf: leaf.offset,
                    });
                }
            }
            Ok::<(), Mismatch>(())
        });
        read.await?;
        Ok(found)
    }
}
