//! The checkpoint: writes what has changed in the index, as runs of pages, while the index goes on changing. Then it publishes a
//! superblock, so that the next recovery begins there.
//!
//! Which keys it writes, all of a partition or only what has changed there, is chosen in `choose/mod.rs`. Both are *fuzzy*: an entry is as new as the moment its page was
//! filled. Replay starts where the checkpoint began, and brings every key to its last state, whatever the pages hold. The log only has to reach
//! at least as far as the pages do.
//!
//! Recovery writes one too where it had to rewrite the unproven tail (`recovery/rewrite_tail.rs`): then nothing changes meanwhile, and the log is empty.
//!
//! Invariants, in the order in which they are made true:
//! 1. replay starts before the first record whose effect the pages may lack;
//! 2. every key that has changed since the checkpoint before began is written. So what older runs have of a key, and no newer one, is what the key was when this
//!    checkpoint began;
//! 3. the segments to be freed were dead before the first page was filled, and lie before the replay start. No record
//!    from there on refers to them, and no entry that counts;
//! 4. before a superblock says so, the pages are durable, and so is the log: beyond the newest state in any page, and
//!    up to the replay start;
//! 5. nothing is freed before all four copies of the superblock are durable.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::api::event::Event;
use crate::api::port::Level;
use crate::checkpoint::anew::Merged;
use crate::checkpoint::append::first_appended;
use crate::checkpoint::bases::Bases;
use crate::checkpoint::choose::{Choice, Part};
use crate::checkpoint::pages::PageSink;
use crate::checkpoint::runs::{FIRST_KEY, Partition, Runs};
use crate::checkpoint::step::{CHANGES_PER_STEP, Step};
use crate::checkpoint::superblocks::publish;
use crate::checkpoint::table::Table;
use crate::checkpoint::tree::TreeWriter;
use crate::commit::group::log_durable;
use crate::core::Core;
use crate::format::page::{PageRef, Tree};
use crate::format::superblock::{Counts, ReplayStart, Superblock};
use crate::gc::state::{Counting, Free, Pace};
use crate::index::entry::is_deleted;
use crate::index::key::Key;
use crate::index::key_range::KeyRange;
use crate::mutant::{Mutant, mutant};
use crate::read::window::keep_in_memory;
use crate::runtime::handle::{Handle, Io};
use crate::segments::usage::Use;

/// Batches of pages on their way to the device.
const WRITES_IN_FLIGHT_MAX: usize = 4;

/// What a checkpoint decides when it begins.
struct Plan {
    replay: ReplayStart,
    /// Dead segments.
    to_free: Vec<u32>,
    /// The same of pages that nothing refers to any more.
    old_pages: Vec<u32>,
    /// Segments that stay.
    table: Table,
    counts: Counts,
    began_at: u64,
    /// What is put from then on has this sequence number or a later one.
    next_sequence: u64,
    choice: Choice,
}

impl Plan {
    /// Decides what to write. What is freed of the pages follows from it.
    fn choose(&mut self, core: &mut Core, choice: Choice) {
        let kept = |it: &u32| choice.kept.contains(it) && !mutant(Mutant::OlderRunsFreed);
        let pages = core.segments.iter();
        let pages = pages
            .filter(|(_, it)| it.used_as == Use::Page)
            .map(|(physical, _)| physical);
        self.old_pages = pages.filter(|physical| !kept(physical)).collect();
        core.maintenance.pace = Pace {
            to_write: choice.bytes,
            written: 0,
            changed_bytes: core.index.changed_bytes(),
        };
        self.choice = choice;
    }

    /// Nothing durable refers to these segments any more.
    fn free(&mut self, core: &mut Core) {
        for physical in self.to_free.drain(..).chain(self.old_pages.drain(..)) {
            core.segments.free(physical);
        }
    }
}

/// What was written.
struct Written {
    runs: Runs,
    partitions_root: PageRef,
    table_root: PageRef,
    bytes: u64,
}

/// Runs one checkpoint.
pub(crate) async fn checkpoint(handle: Handle) {
    let (before, began_at, counts) = handle.with(|core| {
        core.happened(Event::CheckpointBegan);
        let superblock = core.superblock.expect("an open database has a superblock");
        let counts = core.maintenance.counting == Counting::Awaited;
        (superblock, core.now, counts)
    });
    let result = run(&handle, before, Vec::new()).await;
    handle.with(|core| {
        core.maintenance.checkpointing = false;
        core.maintenance.checkpoint_failed = !matches!(result, Ok(true));
        if core.maintenance.checkpoint_failed {
            core.maintenance.failed_in_call = Some(core.calls);
        }
        core.maintenance.freeing = 0;
        if !matches!(result, Ok(true)) {
            core.segments.cancel_pending_frees();
        }
        if counts {
            core.end_counting(&result);
        }
        core.activity += 1;
        let published = matches!(result, Ok(true));
        core.happened(Event::CheckpointEnded {
            published,
            written_bytes: match published {
                true => core.maintenance.checkpoint_size,
                false => 0,
            },
            took_ns: core.now - began_at,
        });
        match result {
            Ok(true) => {
                core.maintenance.unread = None;
                core.stats.checkpoints += 1;
                core.reached(CoveragePoint::CheckpointPublished);
            }
            Ok(false) => {
                core.log_line(
                    Level::Warn,
                    "a checkpoint found no room and was given up".into(),
                );
                core.maintenance
                    .note_round(Free::default(), core.stats.user_bytes);
            }
            Err(error) => {
                let text = format!("a checkpoint failed: {error}");
                core.log_line(Level::Error, text.clone());
                core.maintenance.unread = Some((core.now, text));
                core.maintenance
                    .note_round(Free::default(), core.stats.user_bytes);
            }
        }
    });
}

/// True if it was published, false if there was no room for its pages. The superblock takes identity and epoch from the one
/// before; what it refers to is durable when these writes and the pages are.
pub(crate) async fn run(
    handle: &Handle,
    before: Superblock,
    writes: Vec<Io>,
) -> Result<bool, Error> {
    let appended = first_appended(handle).await;
    let mut plan = handle.with(|core| begin(core, appended));
    let result = write_and_publish(handle, &mut plan, before, writes).await;
    let published = matches!(result, Ok(true));
    handle.with(|core| {
        core.index.end_writing(published);
        core.keep_no_longer();
    });
    result
}

async fn write_and_publish(
    handle: &Handle,
    plan: &mut Plan,
    before: Superblock,
    writes: Vec<Io>,
) -> Result<bool, Error> {
    if mutant(Mutant::LogReusedBeforePagesFlushed) {
        handle.with(|core| plan.free(core));
    }
    sort_changes(handle, plan).await;
    let Some(written) = write_in_room(handle, plan).await? else {
        return Ok(false);
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
        partitions_root: written.partitions_root,
        table_root: written.table_root,
        counts: plan.counts,
        ..before
    });
    publish(handle, superblock).await?;
    handle.with(|core| {
        if !plan.choice.is_everything() {
            core.reached(CoveragePoint::CheckpointChanges);
        }
        if plan.choice.appends() {
            core.reached(CoveragePoint::CheckpointAppended);
        }
        core.leave_blind_writes();
        plan.free(core);
        core.adopt(written.runs);
        let nothing_put = core.log.next_sequence == plan.next_sequence;
        core.bound_counts(plan.choice.is_everything(), nothing_put);
        core.maintenance.freeing = 0;
        core.maintenance.checkpointed_at = plan.began_at;
        core.maintenance.checkpoint_size = written.bytes;
        core.stats.checkpoint_bytes += written.bytes;
        core.maintenance
            .note_round(core.free_now(), core.stats.user_bytes);
    });
    Ok(true)
}

fn begin(core: &mut Core, appended: Option<Key>) -> Plan {
    let replay = core.log.replay_start();
    let first = core.geometry.logical(replay.lsn);
    let mut to_free = Vec::new();
    for (physical, segment) in core.segments.dead(Use::Log) {
        if segment.logical != 0 && segment.logical < first {
            to_free.push(physical);
        }
    }
    for physical in &to_free {
        core.segments.get_mut(*physical).free_pending = true;
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
    let table = Table::new(core, first, &to_free);
    core.maintenance.freeing = to_free.len() as u64;
    core.maintenance.began_at_lsn = core.log.next_record();
    let choice = match core.maintenance.counting {
        Counting::Awaited => Choice::everything(core),
        _ => Choice::new(core, appended),
    };
    core.index.begin_writing();
    let mut plan = Plan {
        replay,
        to_free,
        old_pages: Vec::new(),
        table,
        counts: core.counts(),
        began_at: core.log.written_bytes,
        next_sequence: core.log.next_sequence,
        choice: Choice::everything(core),
    };
    plan.choose(core, choice);
    plan
}

/// Has what has changed in the order of the keys, where few have. Clients go on meanwhile.
async fn sort_changes(handle: &Handle, plan: &Plan) {
    if plan.choice.is_everything() {
        return;
    }
    while handle.with(|core| core.index.sort_changes(CHANGES_PER_STEP)) {
        handle.give_way_to_clients().await;
    }
    handle.with(|core| {
        if core.index.has_sorted() {
            core.reached(CoveragePoint::CheckpointSorted);
        }
    });
}

/// Writes what was chosen, or everything anew where the runs would take more segments than they may. `None`: segments ran out.
async fn write_in_room(handle: &Handle, plan: &mut Plan) -> Result<Option<Written>, Error> {
    loop {
        let choice = &plan.choice;
        let (segments, filters) = (choice.segments_max, choice.takes_filters);
        let mut sink = PageSink::new(handle, choice.end, segments, filters);
        let written = write_pages(handle, &mut sink, plan).await;
        if let Ok(Some(written)) = written {
            return Ok(Some(written));
        }
        // Its pages were never referred to, and nothing is being written any more.
        let taken = std::mem::take(&mut sink.segments);
        handle.with(|core| taken.iter().for_each(|it| core.segments.free(*it)));
        written?;
        if !plan.choice.takes_filters {
            return Ok(None);
        }
        handle.with(|core| plan.choose(core, Choice::everything(core)));
    }
}

/// Writes all trees; `None` if segments ran out.
async fn write_pages(
    handle: &Handle,
    sink: &mut PageSink,
    plan: &Plan,
) -> Result<Option<Written>, Error> {
    let mut pages = Pages {
        handle,
        sink,
        in_flight: Vec::new(),
    };
    let written = pages.write(plan).await;
    if written.is_err() {
        // Whoever frees the segments may not be overtaken by a write.
        handle.await_writes(pages.in_flight).await?;
        return written;
    }
    pages.sink.close_batch();
    pages.in_flight.extend(pages.sink.write_out(handle));
    if mutant(Mutant::SuperblockBeforePages) {
        pages.in_flight.clear();
    }
    handle.await_writes(pages.in_flight).await?;
    written
}

/// Pages on their way to the device.
struct Pages<'a> {
    handle: &'a Handle,
    sink: &'a mut PageSink,
    in_flight: Vec<Io>,
}

impl Pages<'_> {
    async fn write(&mut self, plan: &Plan) -> Result<Option<Written>, Error> {
        let (handle, sink) = (self.handle, &mut *self.sink);
        let Some(table_root) = handle.with(|core| plan.table.write(core, sink)) else {
            return Ok(None);
        };
        let mut partitions: Vec<Partition> = Vec::new();
        let parts = &plan.choice.parts;
        for (at, part) in parts.iter().enumerate() {
            let end = parts.get(at + 1).map(Part::from);
            let written = match part {
                Part::Anew { from } => self.write_anew(from, end).await?,
                Part::Changes(partition) => self.write_changes(partition, end).await?,
                Part::Joined(partition, first) => self.write_joined(partition, *first, end).await?,
                Part::Appended { from } => self.write_appended(from).await?,
            };
            match written {
                Some(more) => partitions.extend(more),
                None => return Ok(None),
            }
        }
        // Where no key was left of the first ones, the next begins before all keys.
        if let Some(first) = partitions.first_mut() {
            first.from = Key::new(FIRST_KEY);
        }
        let sink = &mut *self.sink;
        let root = handle.with(|core| write_list(core, sink, &partitions));
        Ok(root.map(|partitions_root| Written {
            runs: Runs::new(partitions, self.sink.end()),
            partitions_root,
            table_root,
            bytes: self.sink.written_bytes,
        }))
    }

    /// Writes all keys from `from` on and before `end`, as bases. `None` if segments ran out.
    async fn write_anew(
        &mut self,
        from: &Key,
        end: Option<&Key>,
    ) -> Result<Option<Vec<Partition>>, Error> {
        let handle = self.handle;
        let mut bases = handle.with(|core| Bases::new(core, from));
        for KeyRange { from, end } in handle.with(|core| core.runs.parts_between(from, end)) {
            let mut push = |core: &mut Core, sink: &mut PageSink, key: &[u8], payload: &[u8]| {
                bases.push(core, sink, key, payload)
            };
            let written = if keep_in_memory(handle, &from, end.as_ref()).await? {
                let written = self.each_entry(&from, end.as_ref(), true, push).await?;
                handle.with(Core::keep_no_longer);
                written
            } else {
                let merged = Merged::new(handle, &from, end.as_ref());
                self.each_merged(merged, &mut push).await?
            };
            if written.is_none() {
                return Ok(None);
            }
        }
        let sink = &mut *self.sink;
        Ok(handle.with(|core| bases.finish(core, sink)))
    }

    /// Writes what has changed of the keys from `from` on, of which no run has any, as bases. `None` if segments ran out.
    async fn write_appended(&mut self, from: &Key) -> Result<Option<Vec<Partition>>, Error> {
        let handle = self.handle;
        let mut bases = handle.with(|core| Bases::new(core, from));
        let push = |core: &mut Core, sink: &mut PageSink, key: &[u8], payload: &[u8]| {
            if is_deleted(payload) {
                return Some(());
            }
            bases.push(core, sink, key, payload)
        };
        if self.each_entry(from, None, false, push).await?.is_none() {
            return Ok(None);
        }
        let sink = &mut *self.sink;
        Ok(handle.with(|core| bases.finish(core, sink)))
    }

    /// Hands out merged entries, as they are when each page is filled. `None` as soon as one finds no room.
    async fn each_merged(
        &mut self,
        mut merged: Merged<'_>,
        push: &mut impl FnMut(&mut Core, &mut PageSink, &[u8], &[u8]) -> Option<()>,
    ) -> Result<Option<()>, Error> {
        let handle = self.handle;
        while let Some(mut chunk) = merged.next().await? {
            let mut steps = chunk.steps();
            let mut more = true;
            while more {
                let sink = &mut *self.sink;
                let pushed = handle.with(|core| {
                    let mut step = Step::default();
                    more = steps.take(core, &mut step);
                    step.each(|key, payload| push(core, sink, key, payload))
                });
                if pushed.is_none() {
                    return Ok(None);
                }
                self.go_on().await?;
            }
        }
        Ok(Some(()))
    }

    /// Writes what has changed of a partition whose keys lie before `end`. `None` if segments ran out.
    async fn write_changes(
        &mut self,
        partition: &Partition,
        end: Option<&Key>,
    ) -> Result<Option<Vec<Partition>>, Error> {
        let handle = self.handle;
        let mut tree = handle.with(|core| TreeWriter::of_run(core));
        let push = |core: &mut Core, sink: &mut PageSink, key: &[u8], payload: &[u8]| {
            tree.push(core, sink, key, payload)
        };
        if self
            .each_entry(&partition.from, end, false, push)
            .await?
            .is_none()
        {
            return Ok(None);
        }
        let sink = &mut *self.sink;
        let mut partition = partition.clone();
        let run = handle.with(|core| tree.finish_run(core, sink));
        Ok(run.map(|run| {
            partition.runs.extend(run);
            vec![partition]
        }))
    }

    /// Writes what has changed of a partition whose keys lie before `end`, and what its runs from `first` on have, as one run in their place. `None` if segments ran out.
    async fn write_joined(
        &mut self,
        partition: &Partition,
        first: usize,
        end: Option<&Key>,
    ) -> Result<Option<Vec<Partition>>, Error> {
        let handle = self.handle;
        let (mut older, newest) = partition.split_runs(first);
        let mut tree = handle.with(|core| TreeWriter::of_run(core));
        let mut push = |core: &mut Core, sink: &mut PageSink, key: &[u8], payload: &[u8]| {
            tree.push(core, sink, key, payload)
        };
        let joined = Merged::joined(handle, &newest, end);
        if self.each_merged(joined, &mut push).await?.is_none() {
            return Ok(None);
        }
        let sink = &mut *self.sink;
        let run = handle.with(|core| tree.finish_run(core, sink));
        Ok(run.map(|run| {
            older.runs.extend(run);
            vec![older]
        }))
    }

    /// Hands out, a few at a time, the entries to be written of the keys from `from` on and before `end`: all of them, or what has changed. `None` as soon as
    /// one finds no room.
    async fn each_entry(
        &mut self,
        from: &Key,
        end: Option<&Key>,
        all: bool,
        mut push: impl FnMut(&mut Core, &mut PageSink, &[u8], &[u8]) -> Option<()>,
    ) -> Result<Option<()>, Error> {
        let handle = self.handle;
        let end = end.map(Key::bytes);
        let mut after: Option<Box<[u8]>> = None;
        loop {
            let sink = &mut *self.sink;
            // Behind the last key, or with the first.
            let start = after
                .as_deref()
                .map_or(Bound::Included(from.bytes()), Bound::Excluded);
            let step = handle.with(|core| {
                let mut step = Step::default();
                let last = step.take(core, start, end, all);
                step.each(|key, payload| push(core, sink, key, payload))?;
                Some(last)
            });
            match step {
                None => return Ok(None),
                Some(None) => return Ok(Some(())),
                Some(last) => after = last,
            }
            self.go_on().await?;
        }
    }

    /// Gives way to clients, and sends what is finished to the device.
    async fn go_on(&mut self) -> Result<(), Error> {
        let written = self.sink.written_bytes;
        self.handle
            .with(|core| core.maintenance.pace.written = written);
        self.handle.give_way_to_clients().await;
        if !self.sink.has_full() {
            return Ok(());
        }
        self.in_flight.extend(self.sink.write_out(self.handle));
        let beyond = self.in_flight.len().saturating_sub(WRITES_IN_FLIGHT_MAX);
        let first = self.in_flight.drain(..beyond).collect();
        self.handle.await_writes(first).await
    }
}

impl Core {
    /// The runs are these from now on. A partition is whole if all those were that its keys belonged to.
    fn adopt(&mut self, mut runs: Runs) {
        for at in 0..runs.partitions.len() {
            let (from, to) = (&runs.partitions[at].from, runs.end_of(at));
            let whole = self.runs.are_whole_between(from, to);
            runs.set_whole(at, whole);
        }
        self.runs = runs;
        self.bound_kept_leaves();
        self.lookups.generation += 1;
        self.answer_known_lookups();
    }
}

fn write_list(core: &mut Core, sink: &mut PageSink, partitions: &[Partition]) -> Option<PageRef> {
    let mut list = TreeWriter::new(Tree::Partitions);
    for partition in partitions {
        list.push(core, sink, partition.from.bytes(), &partition.encode())?;
    }
    let root = list.finish(core, sink)?;
    sink.end_tree();
    Some(root)
}
