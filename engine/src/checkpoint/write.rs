//! The checkpoint: writes the index as a tree of pages while the index goes on changing. Then it publishes a
//! superblock, so that the next recovery begins there.
//!
//! The checkpoint is fuzzy: an entry is as new as the moment its page was filled. Replay starts where the checkpoint
//! began, and brings every key to its last state, whatever the pages hold. The log only has to reach at least as far as
//! the pages do.
//!
//! Recovery writes one too where it had to rewrite the unproven tail (`recovery/rewrite_tail.rs`): then nothing changes meanwhile, and the log is empty.
//!
//! Invariants, in the order in which they are made true:
//! 1. replay starts before the first record whose effect the pages may lack;
//! 2. the segments to be freed were dead before the first page was filled, and lie before the replay start. No record
//!    from there on refers to them;
//! 3. before a superblock says so, the pages are durable, and so is the log: beyond the newest state in any page, and
//!    up to the replay start;
//! 4. nothing is freed before all four copies of the superblock are durable.

use std::collections::BTreeSet;

use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::api::port::Level;
use crate::checkpoint::superblocks::publish;
use crate::checkpoint::tree::{PageSink, TreeWriter};
use crate::core::Core;
use crate::format::page::{PageRef, Tree};
use crate::format::superblock::{ReplayStart, Superblock};
use crate::index::entry::encode;
use crate::mutant::{Mutant, mutant};
use crate::runtime::handle::{Handle, Io};
use crate::segments::usage::Use;

/// Batches of pages on their way to the device.
const WRITES_IN_FLIGHT_MAX: usize = 4;
/// Entries that one step looks at.
const ENTRIES_PER_STEP: usize = 128;

/// What a checkpoint decides when it begins.
struct Plan {
    replay: ReplayStart,
    /// Dead segments, and the pages of the checkpoint before.
    to_free: Vec<u32>,
    /// Number, physical index and used bytes of the log segments before the replay start that stay.
    table: Vec<(u64, u32, u32)>,
    began_at: u64,
}

impl Plan {
    /// Nothing durable refers to these segments any more.
    fn free(&mut self, core: &mut Core) {
        for physical in self.to_free.drain(..) {
            core.segments.free(physical);
        }
    }
}

/// Runs one checkpoint.
pub(crate) async fn checkpoint(handle: Handle) {
    let mut sink = PageSink::new(&handle);
    let before = handle.with(|core| core.superblock.expect("an open database has a superblock"));
    let result = run(&handle, &mut sink, before, Vec::new()).await;
    handle.with(|core| {
        core.maintenance.checkpointing = false;
        core.maintenance.freeing = 0;
        if !matches!(result, Ok(true)) {
            core.segments.cancel_pending_frees();
        }
        core.activity += 1;
        match result {
            Ok(true) => {
                core.stats.checkpoints += 1;
                core.reached(CoveragePoint::CheckpointPublished);
            }
            // Its pages were never referred to.
            Ok(false) => {
                core.log_line(
                    Level::Warn,
                    "a checkpoint found no room and was given up".into(),
                );
                sink.segments
                    .iter()
                    .for_each(|physical| core.segments.free(*physical));
                core.maintenance.note_round(0, core.stats.user_bytes);
            }
            Err(error) => core.log_line(Level::Error, format!("a checkpoint failed: {error}")),
        }
    });
}

/// True if it was published, false if there was no room for its pages. The superblock takes identity and epoch from the one
/// before; what it refers to is durable when these writes and the pages are.
pub(crate) async fn run(
    handle: &Handle,
    sink: &mut PageSink,
    before: Superblock,
    writes: Vec<Io>,
) -> Result<bool, Error> {
    let mut plan = handle.with(begin);
    if mutant(Mutant::LogReusedBeforePagesFlushed) {
        handle.with(|core| plan.free(core));
    }
    let (index_root, table_root) = match write_pages(handle, sink, &plan).await? {
        Some(roots) => roots,
        None => return Ok(false),
    };
    handle.await_writes(writes).await?;
    let log_minimum = if mutant(Mutant::CheckpointBeforeLogFlush) {
        handle.with(|core| core.log.durable)
    } else {
        log_durable(handle).await?
    };
    let unflushed = mutant(Mutant::CheckpointPagesNotFlushed)
        || mutant(Mutant::SuperblockBeforePages)
        || (mutant(Mutant::TailRewriteNotFlushed) && handle.with(|core| !core.is_serving()));
    if !unflushed {
        handle.flush().await?;
    }
    if mutant(Mutant::ReplayStartsTooLate) {
        plan.replay = handle.with(|core| core.log.replay_start());
    }
    if mutant(Mutant::FreedBeforeSuperblock) {
        handle.with(|core| plan.free(core));
    }
    let superblock = handle.with(|core| Superblock {
        generation: before.generation + 1,
        segment_count: core.segments.count(),
        replay: plan.replay,
        log_minimum,
        durable: core.log.durable,
        index_root,
        table_root,
        ..before
    });
    publish(handle, superblock).await?;
    handle.with(|core| {
        plan.free(core);
        core.maintenance.freeing = 0;
        core.maintenance.checkpointed_at = plan.began_at;
        core.maintenance.checkpoint_size = sink.written_bytes;
        core.stats.checkpoint_bytes += sink.written_bytes;
        core.maintenance
            .note_round(core.segments.free_count(), core.stats.user_bytes);
    });
    Ok(true)
}

fn begin(core: &mut Core) -> Plan {
    let replay = core.log.replay_start();
    let first = core.geometry.logical(replay.lsn);
    let mut to_free: Vec<u32> = core
        .segments
        .iter()
        .filter(|(_, s)| s.used_as == Use::Page)
        .map(|(p, _)| p)
        .collect();
    let pages = to_free.len();
    let mut table = Vec::new();
    for (physical, segment) in core.segments.dead(Use::Log) {
        if segment.logical != 0 && segment.logical < first {
            to_free.push(physical);
        }
    }
    for physical in &to_free[pages..] {
        core.segments.get_mut(*physical).free_pending = true;
    }
    for (logical, physical) in core.segments.log.range(..first) {
        let segment = core.segments.get(*physical);
        if segment.live_bytes > 0 {
            table.push((*logical, *physical, segment.end));
        }
    }
    if mutant(Mutant::TableIncomplete) {
        table.pop();
    }
    // Replay starts before the open frame. What a record in it refers to is met again, even if a later record in it has overwritten
    // or moved that.
    let referred: BTreeSet<u32> = core
        .log
        .open
        .iter()
        .flat_map(|open| &open.referred)
        .map(|offset| core.geometry.locate(*offset).0)
        .collect();
    to_free.extend(core.dead_extents().filter(|it| !referred.contains(it)));
    core.maintenance.freeing = (to_free.len() - pages) as u64;
    core.maintenance.began_at_lsn = core.log.next_record();
    Plan {
        replay,
        to_free,
        table,
        began_at: core.log.written_bytes,
    }
}

/// Writes both trees; `None` if segments ran out.
async fn write_pages(
    handle: &Handle,
    sink: &mut PageSink,
    plan: &Plan,
) -> Result<Option<(PageRef, PageRef)>, Error> {
    let mut in_flight: Vec<Io> = Vec::new();
    let mut table = TreeWriter::new(Tree::Table);
    let table_root = handle.with(|core| {
        for (logical, physical, end) in &plan.table {
            let mut payload = [0; 8];
            payload[..4].copy_from_slice(&physical.to_le_bytes());
            payload[4..].copy_from_slice(&end.to_le_bytes());
            table.push(core, sink, &logical.to_be_bytes(), &payload)?;
        }
        table.finish(core, sink)
    });
    let mut index = TreeWriter::new(Tree::Index);
    let mut after: Option<Box<[u8]>> = None;
    let mut room = table_root.is_some();
    while room {
        let step = handle.with(|core| push_entries(core, sink, &mut index, after.as_deref()));
        match step {
            None => room = false,
            Some(None) => break,
            Some(next) => after = next,
        }
        handle.give_way().await;
        if sink.has_full() {
            in_flight.extend(sink.write_out(handle));
            let beyond = in_flight.len().saturating_sub(WRITES_IN_FLIGHT_MAX);
            handle
                .await_writes(in_flight.drain(..beyond).collect())
                .await?;
        }
    }
    let index_root = if room {
        handle.with(|core| index.finish(core, sink))
    } else {
        None
    };
    sink.close_batch();
    in_flight.extend(sink.write_out(handle));
    if mutant(Mutant::SuperblockBeforePages) {
        in_flight.clear();
    }
    handle.await_writes(in_flight).await?;
    Ok(index_root.zip(table_root))
}

/// Adds a step's entries and returns the last key: `Some(None)` at the end, `None` if segments ran out.
fn push_entries(
    core: &mut Core,
    sink: &mut PageSink,
    index: &mut TreeWriter,
    after: Option<&[u8]>,
) -> Option<Option<Box<[u8]>>> {
    // One piece of memory for all of them: the index holds many.
    let mut bytes = Vec::new();
    let mut ends = Vec::with_capacity(ENTRIES_PER_STEP);
    let entries = || core.index.newest_after(after).take(ENTRIES_PER_STEP);
    // Entries lie anywhere in memory: to count them first has what each waits for come at the same time.
    std::hint::black_box(entries().count());
    for (key, version) in entries() {
        let start = bytes.len();
        bytes.extend_from_slice(key);
        let payload = bytes.len();
        encode(version, &mut bytes);
        ends.push((start, payload, bytes.len()));
    }
    for (start, payload, end) in &ends {
        let (key, payload) = (&bytes[*start..*payload], &bytes[*payload..*end]);
        index.push(core, sink, key, payload)?;
    }
    let last = ends.last().filter(|_| ends.len() == ENTRIES_PER_STEP);
    Some(last.map(|(start, payload, _)| bytes[*start..*payload].into()))
}

/// Makes everything handed in so far durable; returns the position up to which the log then reaches at least.
pub(crate) async fn log_durable(handle: &Handle) -> Result<u64, Error> {
    // Frames that only state a durable position are awaited too: one of them may have entered the segment that replay starts in.
    let end = handle.with(|core| core.log.end());
    handle
        .until(|core| {
            if let Err(error) = core.unpoisoned() {
                return Some(Err(error));
            }
            if core.log.durable >= end {
                return Some(Ok(core.log.durable));
            }
            core.want_durable(end - 1);
            None
        })
        .await
}
