//! Syncs: what one covers, what it costs, and what a failed one leaves behind.

use std::sync::Arc;

use kvsim_crash::LatencyConfig;
use kvsim_crash::Nanos;
use kvsim_crash::rng::{Purpose, draw, scale};

use crate::config::{FailedContent, FailedMetadata, FailedPages, Reach, Reported, SyncCommits};
use crate::file_system::Call;
use crate::notes::{CallKind, StepNote};
use crate::pending::close;
use crate::step::{PendingStep, StepKind};
use crate::tree::node::{Ino, PAGE_BYTES, ROOT};
use crate::{Errno, Fd, FileFault, FileSystem};

/// What is asked of a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SyncKind {
    /// Data and metadata: `fsync`.
    Full,
    /// Data, and the metadata that reading them needs: `fdatasync`.
    Data,
    /// What is pending of the file comes before all later steps, and may itself still be lost: `F_BARRIERFSYNC`.
    Barrier,
}

/// Which steps of a file a sync covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cover {
    /// All.
    All,
    /// All but set times.
    Data,
}

/// What the draws of a sync's timing are for.
#[derive(Debug, Clone, Copy)]
enum Part {
    Data = 1,
    Journal = 2,
    Flush = 3,
    Read = 4,
}

impl FileSystem {
    /// Makes the steps of a file durable, or of a directory: the changes of its names.
    ///
    /// # Errors
    /// `BadDescriptor`; `Io` and `NoSpace` by a fault, with what the profile says of a failed sync.
    pub fn sync(&mut self, fd: Fd, kind: SyncKind) -> Result<(), Errno> {
        self.call(Call::on(CallKind::Sync, fd), |files, op| {
            let ino = files.descriptors.get(fd)?.ino;
            files.sync_inode(op, fd, ino, kind)
        })
    }

    fn sync_inode(&mut self, op: u64, fd: Fd, ino: Ino, kind: SyncKind) -> Result<(), Errno> {
        let sync = self.syncs;
        self.syncs += 1;
        match self.live.node(ino).directory() {
            Some(_) => self.stats.directory_syncs += 1,
            None => self.stats.file_syncs += 1,
        }
        self.syncing = true;
        self.moment(StepNote::SyncBegins { op, sync, ino });
        let cover = match kind {
            SyncKind::Data => Cover::Data,
            SyncKind::Full | SyncKind::Barrier => Cover::All,
        };
        let set = self.covered(ino, cover);
        self.price_sync(op, &set, kind);
        let late = self.descriptors.get(fd)?.error;
        if late.is_some() {
            self.descriptors.get_mut(fd)?.error = None;
        }
        let pending = self.pending.len() as u64;
        // Where an error comes late, the sync that reports it does nothing else.
        let nothing =
            late.is_some() && self.rules.after_failed_fsync.reported == Reported::NextSync;
        let result = match nothing {
            true => Ok(()),
            false => self.sync_steps(op, fd, ino, kind, &set),
        };
        self.syncing = false;
        let left = self.pending.iter().filter(|step| !step.dropped).count() as u64;
        let dropped = self.pending.len() as u64 - left;
        self.moment(StepNote::Synced {
            op,
            durable: pending - self.pending.len() as u64,
            dropped,
        });
        let result = late.map_or(result, Err);
        self.stats.failed_syncs += u64::from(result.is_err());
        result
    }

    fn sync_steps(
        &mut self,
        op: u64,
        fd: Fd,
        ino: Ino,
        kind: SyncKind,
        set: &[bool],
    ) -> Result<(), Errno> {
        if self.leaves_out(op, ino, set) {
            return Ok(());
        }
        let any = set.contains(&true);
        if any && self.inject.fires(FileFault::SyncLie, op) {
            return Ok(());
        }
        if any {
            for (fault, error) in [
                (FileFault::SyncError, Errno::Io),
                (FileFault::NoSpaceSync, Errno::NoSpace),
            ] {
                if self.inject.fires(fault, op) {
                    return self.fail_sync(op, fd, ino, set, error);
                }
            }
        }
        match (kind, self.rules.fsync_reaches) {
            (SyncKind::Barrier, _) => self.put_barrier(set),
            (_, Reach::Medium) => {
                self.make_durable(set);
            }
            (_, Reach::Drive) => self.bring_to_drive(set),
        }
        self.rot(op);
        Ok(())
    }

    /// All that is covered comes before all later steps.
    fn put_barrier(&mut self, set: &[bool]) {
        let number = self.barriers;
        self.barriers += 1;
        let steps = Arc::make_mut(&mut self.pending).iter_mut().zip(set);
        for (step, _) in steps.filter(|(step, covered)| **covered && step.covered_by.is_none()) {
            Arc::make_mut(step).covered_by = Some(number);
        }
    }

    fn bring_to_drive(&mut self, set: &[bool]) {
        let to_bring = self.pending.iter().zip(set);
        if !to_bring
            .clone()
            .any(|(step, covered)| *covered && !step.in_drive)
        {
            return;
        }
        let steps = Arc::make_mut(&mut self.pending).iter_mut().zip(set);
        for (step, _) in steps.filter(|(step, covered)| **covered && !step.in_drive) {
            Arc::make_mut(step).in_drive = true;
        }
    }

    /// The steps that a sync of a file or directory covers, with all that they bring.
    pub(crate) fn covered(&self, ino: Ino, cover: Cover) -> Vec<bool> {
        let is_directory = self.live.node(ino).directory().is_some();
        let names_too = !is_directory && self.rules.fsync_file_persists_entry;
        // The directories whose own names count: the log of a file holds the way to it.
        let mut above: Vec<Ino> = Vec::new();
        if self.rules.sync_commits == SyncCommits::OwnNames {
            let mut at = self.live.node(ino).place.0;
            if is_directory && ino != ROOT {
                above.push(ino);
            }
            while at != ROOT && above.len() < 4096 {
                above.push(at);
                let Some(node) = self.live.nodes.get(at) else {
                    break;
                };
                at = node.place.0;
            }
        }
        let covers = |step: &Arc<PendingStep>| {
            if step.kind.is_of_names() {
                let all = self.rules.sync_commits == SyncCommits::AllNames;
                let mut entries = step.kind.entries();
                return all
                    || entries.any(|change| {
                        let of_it = change.to == Some(ino) || change.from == Some(ino);
                        let way = change.to.is_some_and(|to| above.contains(&to));
                        (is_directory && change.directory == ino) || (names_too && of_it) || way
                    });
            }
            let is_times = matches!(step.kind, StepKind::Attributes { .. });
            step.ino == ino && (cover == Cover::All || !is_times)
        };
        let mut set: Vec<bool> = self.pending.iter().map(covers).collect();
        // What is written back by the sync itself enters the journal now: all that is in it is committed.
        let mut pairs = self.pending.iter().zip(&set);
        if self.sync_follows_order() && pairs.any(|(step, covered)| *covered && step.late) {
            for (step, covered) in self.pending.iter().zip(&mut set) {
                *covered |= step.ordered;
            }
        }
        close(&self.pending, &mut set, self.sync_follows_order());
        set
    }

    /// A sync has failed: what then becomes of its steps is the profile's.
    fn fail_sync(
        &mut self,
        op: u64,
        fd: Fd,
        ino: Ino,
        set: &[bool],
        error: Errno,
    ) -> Result<(), Errno> {
        let after = self.rules.after_failed_fsync;
        if after.pages == FailedPages::Clean {
            match after.content {
                FailedContent::Kept => self.give_up(op, ino, set, after.metadata),
                FailedContent::PutBack => self.put_back(ino),
            }
            self.changes += 1;
        }
        match after.reported {
            Reported::AtOnce => {
                // Each other description learns of it once.
                self.descriptors.report(ino, error, Some(fd));
                Err(error)
            }
            Reported::NextSync => {
                self.descriptors.report(ino, error, None);
                Ok(())
            }
        }
    }

    /// Some of the pages were not written, and no later sync will write them. Reads go on seeing them.
    fn give_up(&mut self, op: u64, ino: Ino, set: &[bool], metadata: FailedMetadata) {
        let page_of = |step: &PendingStep| match step.kind {
            StepKind::Data { page, .. } if step.ino == ino && !step.dropped => Some(page),
            _ => None,
        };
        let covered = self
            .pending
            .iter()
            .zip(set)
            .filter(|(_, covered)| **covered);
        let mut pages: Vec<u64> = covered.filter_map(|(step, _)| page_of(step)).collect();
        pages.sort_unstable();
        pages.dedup();
        if pages.is_empty() {
            // The journal has failed, and not a block of data: all stays pending.
            return;
        }
        // One page at least, and each other one as likely as not: an error of one block keeps no other one from being written.
        let number = |index| draw(self.seed, Purpose::Faults, 90, op, index);
        let one = scale(number(0), pages.len() as u64);
        let is_lost = |rank: u64, page: u64| rank == one || number(1 + page) % 2 == 0;
        let ranked = (0..).zip(&pages);
        let lost: Vec<u64> = ranked
            .filter(|(rank, page)| is_lost(*rank, **page))
            .map(|(_, page)| *page)
            .collect();
        for (at, step) in Arc::make_mut(&mut self.pending).iter_mut().enumerate() {
            if set[at] && page_of(step).is_some_and(|page| lost.contains(&page)) {
                Arc::make_mut(step).dropped = true;
            }
        }
        if metadata == FailedMetadata::Persisted {
            let rest = self.pending.iter().zip(set);
            let rest: Vec<bool> = rest
                .map(|(step, covered)| *covered && !step.dropped)
                .collect();
            self.make_durable(&rest);
        }
    }

    /// The file becomes what is durable of it: bytes, size and space. Its names stay as they are, and so do the offsets of its descriptions.
    fn put_back(&mut self, ino: Ino) {
        let durable = self.durable.nodes.get(ino);
        let Some(mut durable) = durable.and_then(|node| node.file().cloned()) else {
            return;
        };
        durable.finish();
        let Some(live) = self.live.node_mut(ino).file_mut() else {
            return;
        };
        self.used_pages = self.used_pages + durable.allocated.len() - live.allocated.len();
        *live = durable;
        let is_of_content = |step: &Arc<PendingStep>| {
            let is_times = matches!(step.kind, StepKind::Attributes { .. });
            step.ino == ino && !step.kind.is_of_names() && !is_times
        };
        Arc::make_mut(&mut self.pending).retain(|step| !is_of_content(step));
    }

    /// Flips a bit of the medium, if a fault says so.
    fn rot(&mut self, op: u64) {
        if !self.inject.asks(FileFault::BitRot) {
            return;
        }
        let files = self.durable.nodes.iter();
        let sizes = files.filter_map(|(ino, node)| {
            let content = node.file().filter(|_| node.links > 0)?;
            let pages = content.size.div_ceil(PAGE_BYTES);
            let written = pages - content.written.missing(0, pages);
            (written > 0).then_some((ino, written))
        });
        let sizes: Vec<(Ino, u64)> = sizes.collect();
        let total: u64 = sizes.iter().map(|(_, pages)| pages).sum();
        if total == 0 {
            return;
        }
        let Some(mut strike) = self.inject.strikes(FileFault::BitRot, op) else {
            return;
        };
        let byte = strike.bytes(0, total * PAGE_BYTES - 1);
        let bit = strike.bit();
        let (mut page, within) = (byte / PAGE_BYTES, byte % PAGE_BYTES);
        for (ino, pages) in sizes {
            if page >= pages {
                page -= pages;
                continue;
            }
            let node = self.durable.node_mut(ino);
            let content = node.file_mut().expect("a file");
            let mut left = page;
            let ranges = content.written.ranges();
            let at = ranges.iter().find_map(|&(start, end)| {
                if left < end - start {
                    return Some(start + left);
                }
                left -= end - start;
                None
            });
            let at = at.expect("counted before");
            // Behind the end of the file there is nothing to read.
            let last = (content.size - at * PAGE_BYTES).min(PAGE_BYTES);
            let place = at * PAGE_BYTES + within % last;
            content.flip(place, bit);
            let in_memory = self
                .cached
                .get(&ino)
                .is_some_and(|pages| pages.contains(at));
            let is_pending = self.pending.iter().any(|step| step.is_data_of(ino, at));
            if !in_memory && !is_pending && self.live.nodes.get(ino).is_some() {
                let live = self.live.node_mut(ino).file_mut().expect("a file");
                if place < live.size {
                    live.flip(place, bit);
                }
            }
            self.changes += 1;
            self.inject.record(strike);
            return;
        }
    }

    fn drawn(&self, latency: &LatencyConfig, op: u64, part: Part) -> Nanos {
        let number = draw(self.seed, Purpose::Latency, 64, op, part as u64);
        latency.at(scale(number, 1_000_000))
    }

    /// Adds the time of a sync: its data, the journal's commit where the profile has one and there is something to commit, and a flush.
    fn price_sync(&mut self, op: u64, set: &[bool], kind: SyncKind) {
        let covered = || {
            let both = self.pending.iter().zip(set);
            both.filter(|(step, covered)| **covered && !step.in_drive)
                .map(|(step, _)| step)
        };
        let data = covered().filter(|step| step.kind.is_data()).count() as u64;
        let metadata = covered().count() as u64 - data;
        let timing = &self.config.timing;
        let mut ns = 0;
        let transfer = |pages: u64| {
            let bytes = pages * PAGE_BYTES;
            let rate = timing.write_bytes_per_second;
            let path = (bytes * 1_000_000_000).checked_div(rate).unwrap_or(0);
            path + bytes / 1024 * timing.write_ns_per_kib
        };
        if data > 0 {
            ns += self.drawn(&timing.write, op, Part::Data) + transfer(data);
        }
        if metadata > 0 {
            // A journal's block holds many small changes; one more block is the commit.
            let blocks = metadata.div_ceil(16) + u64::from(self.rules.journal_commit);
            ns += self.drawn(&timing.write, op, Part::Journal) + transfer(blocks);
            if self.rules.journal_commit && kind != SyncKind::Barrier {
                // What the commit relies on is on the medium before the commit is written.
                ns += self.drawn(&timing.flush, op, Part::Journal);
            }
        }
        if kind != SyncKind::Barrier && self.rules.fsync_reaches == Reach::Medium {
            ns += self.drawn(&timing.flush, op, Part::Flush);
        }
        self.elapsed += ns;
    }

    /// Adds the time of reading so many pages that are not in memory.
    pub(crate) fn price_read(&mut self, op: u64, pages: u64) {
        if pages == 0 {
            return;
        }
        let timing = &self.config.timing;
        let bytes = pages * PAGE_BYTES;
        let rate = timing.read_bytes_per_second;
        let path = (bytes * 1_000_000_000).checked_div(rate).unwrap_or(0);
        let by_size = bytes / 1024 * timing.read_ns_per_kib;
        self.elapsed += self.drawn(&timing.read, op, Part::Read) + path + by_size;
    }
}
