//! Loading a checkpoint: the table of log segments, the list of partitions, and all runs, into the index in memory.
//!
//! Invariants:
//! - of a key the newest run that has it decides. Only then is its place looked at, for what an older run has of it may lie where something else is by now;
//! - every key of a run lies in its partition;
//! - afterwards no key counts as changed: the index is what the checkpoint has.

use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::checkpoint::runs::{FIRST_KEY, Partition, Run};
use crate::checkpoint::tree::{Claimed, read_tree};
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
    let root = superblock.partitions_root;
    let listed = load_list(handle, &mut claimed, root).await?;
    claimed.take_pieces();
    let mut partitions: Vec<Partition> = Vec::with_capacity(listed.len());
    for (at, (from, roots)) in listed.iter().enumerate() {
        let end = listed.get(at + 1).map(|(end, _)| &end[..]);
        let mut runs = Vec::with_capacity(roots.len());
        for root in roots {
            load_run(handle, &mut claimed, *root, (from, end)).await?;
            let (root, pieces) = (*root, claimed.take_pieces());
            runs.push(Run { root, pieces });
        }
        let from = from.clone();
        partitions.push(Partition { from, runs });
    }
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
        .map_err(|mismatch| mismatch.at(root.offset).into())
}

async fn load_table(
    handle: &Handle,
    claimed: &mut Claimed,
    superblock: &Superblock,
) -> Result<(), Error> {
    let first = handle.with(|core| core.geometry.logical(superblock.replay.lsn));
    read_tree(
        handle,
        claimed,
        Tree::Table,
        superblock.table_root,
        |core, key, payload| {
            Mismatch::check("table entry length", 16, (key.len() + payload.len()) as u64)?;
            let logical =
                u64::from_be_bytes(key.try_into().map_err(|_| bad_table(key.len() as u64))?);
            let (physical, end) = (get_u32(payload, 0), get_u32(payload, 4));
            if physical >= core.segments.count()
                || !(1..first).contains(&logical)
                || u64::from(end) > core.geometry.segment_bytes
            {
                return Err(bad_table(physical.into()));
            }
            if !core.segments.claim(physical, Use::Log) || core.segments.get(physical).logical != 0
            {
                return Err(bad_table(physical.into()));
            }
            core.segments.enter_log(logical, physical);
            core.segments.get_mut(physical).end = end;
            Ok(())
        },
    )
    .await
}

/// Reads the list of partitions.
async fn load_list(
    handle: &Handle,
    claimed: &mut Claimed,
    root: PageRef,
) -> Result<Vec<Listed>, Error> {
    let mut listed: Vec<Listed> = Vec::new();
    read_tree(
        handle,
        claimed,
        Tree::Partitions,
        root,
        |_, key, payload| {
            if listed.is_empty() && key != FIRST_KEY {
                return Err(outside(key));
            }
            listed.push((key.into(), Partition::decode(payload)?));
            Ok(())
        },
    )
    .await?;
    Ok(listed)
}

/// Brings a run into the index.
async fn load_run(
    handle: &Handle,
    claimed: &mut Claimed,
    root: PageRef,
    (from, end): (&[u8], Option<&[u8]>),
) -> Result<(), Error> {
    // A run without pages would be none.
    let empty = handle.with(|core| root.check(&core.geometry, core.segments.count()));
    empty.map_err(|mismatch| mismatch.at(root.offset))?;
    read_tree(handle, claimed, Tree::Run, root, |core, key, payload| {
        if key < from || end.is_some_and(|end| key >= end) {
            return Err(outside(key));
        }
        let version = decode(&core.geometry, core.segments.count(), payload)?;
        core.index.set(key, version);
        Ok(())
    })
    .await
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
