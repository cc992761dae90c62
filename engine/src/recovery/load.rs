//! Loading a checkpoint: the table of log segments, the list of partitions, and all runs, into the index in memory.
//!
//! Invariants:
//! - of a key the newest run that has it decides. Only then is its place looked at, for what an older run has of it may lie where something else is by now;
//! - every key of a run lies in its partition;
//! - where entries may leave memory, those of a partition leave it together, as soon as all of its runs are read and there are too many;
//! - afterwards no key counts as changed: the index is what the checkpoint has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::checkpoint::leaves::LeavesDraft;
use crate::checkpoint::read::{Claimed, read_trees};
use crate::checkpoint::runs::{FIRST_KEY, Partition, Run, Runs};
use crate::core::Core;
use crate::format::damage::Mismatch;
use crate::format::get_u32;
use crate::format::page::{PageRef, Tree};
use crate::format::superblock::Superblock;
use crate::index::entry::decode;
use crate::index::key::Key;
use crate::index::place::Place;
use crate::runtime::handle::Handle;
use crate::segments::extent::claim_extents;
use crate::segments::usage::Use;

/// The lower bound of a partition, and the roots of its runs.
type Listed = (Box<[u8]>, Vec<PageRef>);

/// Loads what the superblock refers to.
pub(crate) async fn load_checkpoint(handle: &Handle, superblock: &Superblock) -> Result<(), Error> {
    let mut claimed = Claimed::default();
    load_table(handle, &mut claimed, superblock).await?;
    let listed = load_list(handle, &mut claimed, superblock.partitions_root).await?;
    let roots: Vec<PageRef> = listed.iter().flat_map(|(_, roots)| roots.clone()).collect();
    let loaded = load_runs(handle, &mut claimed, &listed, &roots).await?;
    handle
        .with(|core| {
            if !listed.is_empty() {
                core.reached(CoveragePoint::CheckpointRead);
            }
            if listed.iter().any(|(_, roots)| roots.len() > 1) {
                core.reached(CoveragePoint::CheckpointChangesRead);
            }
            core.index.forget_changes();
            claim_all_extents(core)?;
            let partitions = loaded.partitions(core, listed);
            core.runs = Runs::new(partitions, claimed.most_room(&core.geometry));
            Ok(())
        })
        .map_err(|mismatch: Mismatch| mismatch.at(superblock.partitions_root.offset).into())
}

async fn load_table(
    handle: &Handle,
    claimed: &mut Claimed,
    superblock: &Superblock,
) -> Result<(), Error> {
    let first = handle.with(|core| core.geometry.logical(superblock.replay.lsn));
    let root = superblock.table_root;
    let roots = Some(root).filter(|root| *root != PageRef::NONE);
    let entry = |core: &mut Core, _: (usize, &PageRef), key: &[u8], payload: &[u8]| {
        Mismatch::check("table entry length", 16, (key.len() + payload.len()) as u64)?;
        let logical = u64::from_be_bytes(key.try_into().map_err(|_| bad_table(key.len() as u64))?);
        let (physical, end) = (get_u32(payload, 0), get_u32(payload, 4));
        if physical >= core.segments.count()
            || !(1..first).contains(&logical)
            || u64::from(end) > core.geometry.segment_bytes
        {
            return Err(bad_table(physical.into()));
        }
        if !core.segments.claim(physical, Use::Log) || core.segments.get(physical).logical != 0 {
            return Err(bad_table(physical.into()));
        }
        core.segments.enter_log(logical, physical);
        core.segments.get_mut(physical).end = end;
        Ok(())
    };
    read_trees(handle, claimed, Tree::Table, roots.as_slice(), entry).await?;
    Ok(())
}

/// Reads the list of partitions.
async fn load_list(
    handle: &Handle,
    claimed: &mut Claimed,
    root: PageRef,
) -> Result<Vec<Listed>, Error> {
    let mut listed: Vec<Listed> = Vec::new();
    let roots = Some(root).filter(|root| *root != PageRef::NONE);
    let entry = |_: &mut Core, _: (usize, &PageRef), key: &[u8], payload: &[u8]| {
        if listed.is_empty() && key != FIRST_KEY {
            return Err(outside(key));
        }
        listed.push((key.into(), Partition::decode(payload)?));
        Ok(())
    };
    read_trees(handle, claimed, Tree::Partitions, roots.as_slice(), entry).await?;
    Ok(listed)
}

/// Brings all runs into the index, those of a partition in the order of their age.
async fn load_runs(
    handle: &Handle,
    claimed: &mut Claimed,
    listed: &[Listed],
    roots: &[PageRef],
) -> Result<LoadedRuns, Error> {
    let partition_of_each: Vec<usize> = (0..)
        .zip(listed)
        .flat_map(|(number, (_, roots))| vec![number; roots.len()])
        .collect();
    let mut loaded = LoadedRuns::default();
    let entry = |core: &mut Core, (run, leaf): (usize, &PageRef), key: &[u8], payload: &[u8]| {
        let number = partition_of_each[run];
        let (from, end) = range_of(listed, number);
        if key < from || end.is_some_and(|end| key >= end) {
            return Err(outside(key));
        }
        loaded.finish_before(core, listed, number);
        if core.forgets() {
            loaded.note(run, leaf, key);
        }
        let version = decode(&core.geometry, core.segments.count(), payload)?;
        core.index.set(key, version);
        Ok(())
    };
    let pieces = read_trees(handle, claimed, Tree::Run, roots, entry).await?;
    let runs = roots.iter().zip(pieces);
    let runs = runs.map(|(root, pieces)| Run {
        root: *root,
        pieces,
        leaves: None,
    });
    loaded.runs = runs.collect();
    Ok(loaded)
}

/// The keys of a partition: from the first on, and before the second.
fn range_of(listed: &[Listed], number: usize) -> (&[u8], Option<&[u8]>) {
    let end = listed.get(number + 1).map(|(from, _)| &from[..]);
    (&listed[number].0, end)
}

/// Runs that were read.
#[derive(Default)]
struct LoadedRuns {
    runs: Vec<Run>,
    /// Of each run, where entries may leave memory.
    leaves: BTreeMap<usize, LeavesDraft>,
    /// The last leaf that was met.
    leaf: Option<PageRef>,
    /// Partitions that were read as a whole.
    finished: usize,
    /// Those of them whose entries have left memory.
    forgotten: BTreeSet<usize>,
}

impl LoadedRuns {
    fn note(&mut self, run: usize, leaf: &PageRef, key: &[u8]) {
        let leaves = self.leaves.entry(run).or_default();
        if self.leaf.replace(*leaf) != Some(*leaf) {
            leaves.note_leaf(key, *leaf);
        }
        leaves.note_key(key);
    }

    /// All partitions before this one were read. Their entries leave memory if there are too many.
    fn finish_before(&mut self, core: &mut Core, listed: &[Listed], number: usize) {
        while self.finished < number {
            let (from, end) = range_of(listed, self.finished);
            if core.forget_partition(&Key::new(from), end.map(Key::new).as_ref()) {
                self.forgotten.insert(self.finished);
            }
            self.finished += 1;
        }
    }

    /// The partitions with these runs.
    fn partitions(mut self, core: &mut Core, listed: Vec<Listed>) -> Vec<Partition> {
        self.finish_before(core, &listed, listed.len());
        let mut leaves = self.leaves;
        let runs = self.runs.into_iter().enumerate().map(|(number, run)| Run {
            leaves: leaves.remove(&number).map(|it| Arc::new(it.finish())),
            ..run
        });
        let mut runs = runs.collect::<Vec<Run>>().into_iter();
        let partitions = listed.into_iter().enumerate();
        let partitions = partitions.map(|(number, (from, roots))| Partition {
            from,
            runs: runs.by_ref().take(roots.len()).collect(),
            whole: !self.forgotten.contains(&number),
        });
        partitions.collect()
    }
}

impl Core {
    /// All entries of these keys leave memory if entries take more than half of what they may: the rest is for what replay brings. Returns whether they did.
    fn forget_partition(&mut self, from: &Key, end: Option<&Key>) -> bool {
        let bound = self.settings.options.index_bytes;
        if bound == 0 || self.index.memory_bytes() <= bound / 2 {
            return false;
        }
        self.reached(CoveragePoint::EntriesForgotten);
        for slot in self.index.slots_between(from, end) {
            self.count_forgotten(slot);
            self.index.forget(slot);
        }
        true
    }
}

/// The segments that extents lie in are in use.
fn claim_all_extents(core: &mut Core) -> Result<(), Mismatch> {
    let places = core.index.everything().map(|(_, version)| &version.place);
    let pointers = places.filter_map(|place| match place {
        Place::Extent(pointer) => Some(pointer.clone()),
        _ => None,
    });
    for pointer in pointers.collect::<Vec<_>>() {
        claim_extents(core, &pointer)?;
    }
    Ok(())
}

fn outside(key: &[u8]) -> Mismatch {
    Mismatch {
        what: "key outside of its partition",
        expected: 0,
        found: key.len() as u64,
    }
}

fn bad_table(found: u64) -> Mismatch {
    Mismatch {
        what: "table entry",
        expected: 0,
        found,
    }
}
