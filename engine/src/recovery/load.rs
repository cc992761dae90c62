//! Loading a checkpoint: the table of log segments, the list of partitions, and all runs, into the index in memory.
//!
//! Invariants:
//! - of a key the newest run that has it decides. Only its place is looked at, for what an older run has of it may lie where something else is by now;
//! - every key of a run lies in its partition;
//! - where there is a bound for the entries in memory, and those of a partition would go beyond it, none of them is taken but those that the log changes;
//! - afterwards no key counts as changed: the index is what the checkpoint has.

use std::sync::Arc;

use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::checkpoint::leaves::LeavesDraft;
use crate::checkpoint::merge::{Merge, Newest};
use crate::checkpoint::read::{Claimed, read_trees};
use crate::checkpoint::runs::{FIRST_KEY, Partition, Run, Runs};
use crate::core::Core;
use crate::format::damage::{Corruption, Mismatch};
use crate::format::get_u32;
use crate::format::page::{PageRef, Tree};
use crate::format::superblock::Superblock;
use crate::index::entry::decode;
use crate::index::key::Key;
use crate::index::place::Place;
use crate::index::resident::memory_of;
use crate::recovery::log_keys::LogKeys;
use crate::runtime::handle::Handle;
use crate::segments::extent::claim_extents;
use crate::segments::usage::Use;

/// The lower bound of a partition, and the roots of its runs.
type Listed = (Box<[u8]>, Vec<PageRef>);

/// Loads what the superblock refers to. Entries of the wanted keys stay in memory in any case.
pub(crate) async fn load_checkpoint(
    handle: &Handle,
    superblock: &Superblock,
    mut wanted: LogKeys,
) -> Result<(), Error> {
    let mut claimed = Claimed::default();
    load_table(handle, &mut claimed, superblock).await?;
    let listed = load_list(handle, &mut claimed, superblock.partitions_root).await?;
    let mut partitions = Vec::new();
    for (number, partition) in listed.iter().enumerate() {
        let end = listed.get(number + 1).map(|(from, _)| &from[..]);
        let loaded = load_partition(handle, &mut claimed, partition, end, &mut wanted).await?;
        partitions.push(loaded);
    }
    handle.with(|core| {
        if !partitions.is_empty() {
            core.reached(CoveragePoint::CheckpointRead);
        }
        if partitions.iter().any(|it| it.runs.len() > 1) {
            core.reached(CoveragePoint::CheckpointChangesRead);
        }
        core.runs = Runs::new(partitions, claimed.most_room(&core.geometry));
    });
    Ok(())
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

/// Reads the runs of a partition whose keys lie from `from` on and before `end`, and takes what counts of them into the index.
async fn load_partition(
    handle: &Handle,
    claimed: &mut Claimed,
    (from, roots): &Listed,
    end: Option<&[u8]>,
    wanted: &mut LogKeys,
) -> Result<Partition, Error> {
    let mut merge = Merge::default();
    let mut drafts: Vec<LeavesDraft> = Vec::new();
    if handle.with(|core| core.forgets()) {
        drafts.resize_with(roots.len(), LeavesDraft::default);
    }
    let mut last: Option<PageRef> = None;
    let entry = |_: &mut Core, (run, leaf): (usize, &PageRef), key: &[u8], payload: &[u8]| {
        if key < &from[..] || end.is_some_and(|end| key >= end) {
            return Err(outside(key));
        }
        if let Some(draft) = drafts.get_mut(run) {
            if last.replace(*leaf) != Some(*leaf) {
                draft.note_leaf(key, *leaf);
            }
            draft.note_key(key);
        }
        merge.push(leaf.offset, key, payload);
        Ok(())
    };
    let pieces = read_trees(handle, claimed, Tree::Run, roots, entry).await?;
    let whole = handle.with(|core| take_newest(core, &mut merge, wanted))?;
    let mut drafts = drafts.into_iter();
    let runs = roots.iter().zip(pieces).map(|(root, pieces)| Run {
        root: *root,
        pieces,
        leaves: drafts.next().map(|draft| Arc::new(draft.finish())),
    });
    Ok(Partition {
        from: from.clone(),
        runs: runs.collect(),
        whole,
    })
}

/// Takes the entries that count into the index if entries take no more than half of what they may then: the rest is for what replay brings. Else only those that the log
/// changes, and counts the others. Returns whether all were taken.
fn take_newest(
    core: &mut Core,
    merge: &mut Merge,
    wanted: &mut LogKeys,
) -> Result<bool, Corruption> {
    let mut versions = Vec::new();
    let mut memory_bytes = core.index.memory_bytes();
    for Newest {
        key,
        payload,
        offset,
    } in merge.newest()
    {
        let decoded = decode(&core.geometry, core.segments.count(), payload);
        let version = decoded.map_err(|mismatch| mismatch.at(offset))?;
        if let Place::Extent(pointer) = &version.place {
            claim_extents(core, pointer).map_err(|mismatch| mismatch.at(offset))?;
        }
        if version.place != Place::Tombstone {
            memory_bytes += memory_of(key, &version);
            versions.push((Key::new(key), version));
        }
    }
    let bound = core.settings.options.index_bytes;
    let whole = !core.forgets() || memory_bytes <= bound / 2;
    for (key, version) in versions {
        core.index.count_loaded(&key, &version);
        if whole || wanted.has(&key) {
            core.index.learn(&key, version);
        } else {
            core.count_forgotten(key.bytes(), &version);
        }
    }
    if !whole {
        core.reached(CoveragePoint::EntriesForgotten);
    }
    Ok(whole)
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
