//! Loading a checkpoint as far as an opening needs it: the table of segments, the list of partitions, and of each run where its leaves and its filter are. What the leaves say
//! comes into the index later (`load_index.rs`).
//!
//! Invariant: afterwards every segment that the checkpoint refers to is in use, and all others are free.

use std::sync::Arc;

use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::checkpoint::leaves::Leaves;
use crate::checkpoint::read::{Claimed, claim_filter, read_outlines, read_tree};
use crate::checkpoint::runs::{FIRST_KEY, Partition, Roots, Run, Runs};
use crate::checkpoint::table::decode_table_entry;
use crate::core::Core;
use crate::format::damage::Mismatch;
use crate::format::page::{PageRef, Tree};
use crate::format::superblock::Superblock;
use crate::index::key::Key;
use crate::runtime::handle::Handle;
use crate::segments::usage::Use;

/// The lower bound of a partition, and the roots of its runs.
type Listed = (Box<[u8]>, Vec<Roots>);

/// Loads what the superblock refers to, but for the leaves of the runs. No partition is whole afterwards.
pub(crate) async fn load_checkpoint(handle: &Handle, superblock: &Superblock) -> Result<(), Error> {
    let mut claimed = Claimed::default();
    load_table(handle, &mut claimed, superblock).await?;
    let listed = load_list(handle, &mut claimed, superblock.partitions_root).await?;
    let mut partitions = Vec::new();
    for (from, roots) in listed {
        partitions.push(Partition {
            from: Key::new(&from),
            runs: load_runs(handle, &mut claimed, &roots).await?,
            whole: false,
        });
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

/// Loads where the leaves of these runs are, and takes note of where their filters are. Nothing is lost with a filter that cannot be there.
async fn load_runs(
    handle: &Handle,
    claimed: &mut Claimed,
    roots: &[Roots],
) -> Result<Vec<Run>, Error> {
    let run_roots: Vec<PageRef> = roots.iter().map(|it| it.run).collect();
    let outlines = read_outlines(handle, claimed, &run_roots).await?;
    let mut runs = Vec::new();
    for (roots, outline) in roots.iter().zip(outlines) {
        let mut run = Run {
            root: roots.run,
            filter: roots.filter,
            pieces: outline.pieces,
            leaves: Some(Arc::new(Leaves::outline(outline.leaves))),
            last: None,
            weight: None,
        };
        if run.filter != PageRef::NONE {
            handle.with(|core| match claim_filter(core, claimed, &run.filter) {
                Ok(piece) => {
                    run.pieces.push(piece);
                    Ok(())
                }
                Err(mismatch) => {
                    let error = mismatch.at(run.filter.offset).into();
                    run.filter = PageRef::NONE;
                    core.do_without_filter(error)
                }
            })?;
        }
        runs.push(run);
    }
    Ok(runs)
}

async fn load_table(
    handle: &Handle,
    claimed: &mut Claimed,
    superblock: &Superblock,
) -> Result<(), Error> {
    let first = handle.with(|core| core.geometry.logical(superblock.replay.lsn));
    let entry = |core: &mut Core, key: &[u8], payload: &[u8]| {
        let listed = decode_table_entry(key, payload)?;
        let physical = listed.physical;
        let used_as = match listed.logical {
            Some(_) => Use::Log,
            None => Use::Extent,
        };
        let is_there = physical < core.segments.count()
            && u64::from(listed.end) <= core.geometry.segment_bytes
            && core.segments.get(physical).used_as == Use::Free
            && listed.logical.is_none_or(|it| (1..first).contains(&it));
        if !is_there || !core.segments.claim(physical, used_as) {
            return Err(Mismatch {
                what: "table entry",
                expected: 0,
                found: physical.into(),
            });
        }
        if let Some(logical) = listed.logical {
            core.segments.enter_log(logical, physical);
        }
        core.segments.get_mut(physical).end = listed.end;
        Ok(())
    };
    read_tree(handle, claimed, Tree::Table, superblock.table_root, entry).await
}

/// Reads the list of partitions.
async fn load_list(
    handle: &Handle,
    claimed: &mut Claimed,
    root: PageRef,
) -> Result<Vec<Listed>, Error> {
    let mut listed: Vec<Listed> = Vec::new();
    let entry = |_: &mut Core, key: &[u8], payload: &[u8]| {
        if listed.is_empty() && key != FIRST_KEY {
            return Err(Mismatch {
                what: "key outside of its partition",
                expected: 0,
                found: key.len() as u64,
            });
        }
        listed.push((key.into(), Partition::decode(payload)?));
        Ok(())
    };
    read_tree(handle, claimed, Tree::Partitions, root, entry).await?;
    Ok(listed)
}
