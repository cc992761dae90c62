//! Loading a checkpoint: the table of log segments, the list of partitions, and all runs, into the index in memory.
//!
//! Invariants:
//! - of a key the newest run that has it decides. Only then is its place looked at, for what an older run has of it may lie where something else is by now;
//! - every key of a run lies in its partition;
//! - afterwards no key counts as changed: the index is what the checkpoint has.

use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::checkpoint::read::{Claimed, read_trees};
use crate::checkpoint::runs::{FIRST_KEY, Partition, Piece, Run};
use crate::core::Core;
use crate::format::damage::Mismatch;
use crate::format::get_u32;
use crate::format::page::{PageRef, Tree};
use crate::format::superblock::Superblock;
use crate::index::entry::decode;
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
    let pieces = load_runs(handle, &mut claimed, &listed, &roots).await?;
    let runs = roots.into_iter().zip(pieces);
    let mut runs = runs.map(|(root, pieces)| Run { root, pieces });
    let partitions = listed.into_iter().map(|(from, roots)| Partition {
        from,
        runs: runs.by_ref().take(roots.len()).collect(),
    });
    let partitions: Vec<Partition> = partitions.collect();
    handle
        .with(|core| {
            if !partitions.is_empty() {
                core.reached(CoveragePoint::CheckpointRead);
            }
            if partitions.iter().any(|partition| partition.runs.len() > 1) {
                core.reached(CoveragePoint::CheckpointChangesRead);
            }
            core.runs.partitions = partitions;
            core.runs.end = claimed.most_room(&core.geometry);
            core.index.forget_changes();
            claim_all_extents(core)
        })
        .map_err(|mismatch| mismatch.at(superblock.partitions_root.offset).into())
}

async fn load_table(
    handle: &Handle,
    claimed: &mut Claimed,
    superblock: &Superblock,
) -> Result<(), Error> {
    let first = handle.with(|core| core.geometry.logical(superblock.replay.lsn));
    let root = superblock.table_root;
    let roots = Some(root).filter(|root| *root != PageRef::NONE);
    let entry = |core: &mut Core, _, key: &[u8], payload: &[u8]| {
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
    let entry = |_: &mut Core, _, key: &[u8], payload: &[u8]| {
        if listed.is_empty() && key != FIRST_KEY {
            return Err(outside(key));
        }
        listed.push((key.into(), Partition::decode(payload)?));
        Ok(())
    };
    read_trees(handle, claimed, Tree::Partitions, roots.as_slice(), entry).await?;
    Ok(listed)
}

/// Brings all runs into the index, those of a partition in the order of their age. Returns what each has where.
async fn load_runs(
    handle: &Handle,
    claimed: &mut Claimed,
    listed: &[Listed],
    roots: &[PageRef],
) -> Result<Vec<Vec<Piece>>, Error> {
    let ends = listed.iter().skip(1).map(|(from, _)| Some(&from[..]));
    let ranges = listed.iter().zip(ends.chain([None]));
    let range_of_each: Vec<(&[u8], Option<&[u8]>)> = ranges
        .flat_map(|((from, roots), end)| vec![(&from[..], end); roots.len()])
        .collect();
    let entry = |core: &mut Core, run: usize, key: &[u8], payload: &[u8]| {
        let (from, end) = range_of_each[run];
        if key < from || end.is_some_and(|end| key >= end) {
            return Err(outside(key));
        }
        let version = decode(&core.geometry, core.segments.count(), payload)?;
        core.index.set(key, version);
        Ok(())
    };
    read_trees(handle, claimed, Tree::Run, roots, entry).await
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
