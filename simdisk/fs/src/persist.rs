//! From calls to steps, and from pending to durable.

use std::sync::Arc;

use kvsim_crash::rng::{Purpose, draw, scale};
use kvsim_crash::{Excerpt, Sectors};

use crate::FileSystem;
use crate::config::{CallOrder, DurableAt, StaleBlocks, StaleContents, SyncCommits};
use crate::notes::StepNote;
use crate::pending::{close, completes_page, last_size};
use crate::step::{EntryChange, PendingStep, StepKind};
use crate::tree::Tree;
use crate::tree::node::{ALL_SECTORS, Ino, Node, PAGE_BYTES, ROOT, Times};

/// How many given-up blocks are remembered.
const STALE_MAX: usize = 8;

/// Does to a tree what a step does, as far as its sectors persist. `whole` says that all earlier versions of its page are there too, so that the
/// page becomes what it was after the step.
pub(crate) fn apply(tree: &mut Tree, step: &PendingStep, sectors: &Sectors, whole: bool) {
    match &step.kind {
        StepKind::Entry(change) => tree.set_entry(change.directory, &change.name, change.to),
        StepKind::Renamed { old, new } => {
            tree.set_entry(old.directory, &old.name, old.to);
            tree.set_entry(new.directory, &new.name, new.to);
        }
        StepKind::Attributes {
            accessed_ns,
            modified_ns,
        } => {
            if let Some(node) = tree.nodes.get_mut(step.ino) {
                node.times = Times::set(*accessed_ns, *modified_ns);
            }
        }
        kind => {
            let Some(content) = tree.nodes.get_mut(step.ino).and_then(Node::file_mut) else {
                return;
            };
            match *kind {
                StepKind::Data { page, .. } => {
                    let bytes = step.bytes.as_ref().expect("data have bytes");
                    let kept = if whole {
                        ALL_SECTORS
                    } else {
                        step.kept(sectors)
                    };
                    content.put(page, bytes, kept);
                    if let Some((sector, byte)) = step.torn_at(sectors) {
                        content.put_beginning(page, bytes, sector, byte);
                    }
                }
                StepKind::Mapped { page } => {
                    let bytes = step.bytes.as_ref().expect("a block has bytes");
                    content.put(page, bytes, ALL_SECTORS);
                }
                StepKind::Size { to, .. } => content.size = to,
                StepKind::Truncate { to, .. } => {
                    content.size = to;
                    content.drop_pages(to.div_ceil(PAGE_BYTES));
                }
                StepKind::Allocated { start, end } => content.allocated.insert(start, end),
                StepKind::Entry(_) | StepKind::Renamed { .. } | StepKind::Attributes { .. } => {}
            }
        }
    }
}

impl FileSystem {
    /// Whether a crash can bring an inode back: only then has it steps.
    pub(crate) fn is_tracked(&self, ino: Ino) -> bool {
        self.durable.nodes.get(ino).is_some()
    }

    /// Whether a step becomes durable in the order of calls, and if not, whether it enters the journal at some later time.
    fn order_of(&self, kind: &StepKind, by_write: bool) -> (bool, bool) {
        match self.rules.call_order {
            CallOrder::None => (false, false),
            CallOrder::Everything => (true, false),
            CallOrder::Metadata => match kind {
                // Only a block that held no data before changes metadata.
                StepKind::Data { first, .. } => (false, *first),
                StepKind::Mapped { .. } => (false, true),
                StepKind::Size { .. } if by_write && self.rules.delayed_allocation => (false, true),
                _ => (true, false),
            },
        }
    }

    /// Adds a step. `by_write` says that a write has made it, and not a call that is about metadata.
    #[expect(clippy::too_many_arguments, reason = "a step has so many parts")]
    pub(crate) fn push(
        &mut self,
        op: u64,
        ino: Ino,
        path: &Arc<str>,
        kind: StepKind,
        bytes: Option<Excerpt>,
        mut needs: Vec<u64>,
        by_write: bool,
    ) -> u64 {
        let id = self.next_step;
        self.next_step += 1;
        let (ordered, late) = self.order_of(&kind, by_write);
        if ordered && !kind.is_data() {
            needs.append(&mut self.gate);
        }
        needs.sort_unstable();
        needs.dedup();
        let tearable = match kind {
            StepKind::Data { sectors, first, .. } => {
                let whole = first && self.rules.unwritten_extents;
                self.rules.torn_page && !whole && sectors != 0
            }
            _ => false,
        };
        let before = match kind {
            StepKind::Data { page, .. } => self.last_version(ino, page),
            _ => None,
        };
        let step = PendingStep {
            id,
            op,
            ino,
            path: Arc::clone(path),
            kind,
            dropped: false,
            in_drive: false,
            bytes,
            before,
            in_part: false,
            tearable,
            ordered,
            late,
            needs,
            covered_by: None,
            barriers: self.barriers,
        };
        Arc::make_mut(&mut self.pending).push(Arc::new(step));
        self.changes += 1;
        self.moment(StepNote::Pending { op, step: id });
        if self.rules.durable_at == DurableAt::Write {
            let all = vec![true; self.pending.len()];
            self.make_durable(&all);
        } else if self.pending.len() > self.config.pending_steps_max as usize {
            self.write_back();
        }
        id
    }

    /// Background write-back: the oldest eighth becomes durable, with what it needs.
    fn write_back(&mut self) {
        let mut set = vec![false; self.pending.len()];
        let some = self.pending.len() / 8;
        set[..some].fill(true);
        close(&self.pending, &mut set, true);
        self.make_durable(&set);
        // What failed syncs have given up takes room too, and no crash brings it back.
        let most = self.config.pending_steps_max as usize;
        if self.pending.len() > most {
            Arc::make_mut(&mut self.pending).retain(|step| !step.dropped);
        }
    }

    /// Adds the steps of a write to a page: its data, the block that is allocated for them, and the size if it grows.
    pub(crate) fn push_page(&mut self, op: u64, ino: Ino, path: &Arc<str>, mut write: PageWrite) {
        if !self.is_tracked(ino) {
            return;
        }
        let page = write.page;
        if write.first && self.rules.stale_contents != StaleContents::None {
            // The first data of a block are a whole page, with zeros around what was written.
            write.sectors = ALL_SECTORS;
            let bytes = self.stale_block(ino, page);
            let needs = self.page_needs(ino, page, ALL_SECTORS);
            let kind = StepKind::Mapped { page };
            self.push(op, ino, path, kind, Some(bytes), needs, true);
        }
        let data = self.push_data(op, ino, path, write);
        if write.size_to > write.size_from {
            self.push_size(op, ino, path, write.size_from, write.size_to, data, true);
        }
    }

    /// Adds the step that brings sectors of a page. It also brings what a failed sync has given up of the page, since the page is written whole.
    pub(crate) fn push_data(
        &mut self,
        op: u64,
        ino: Ino,
        path: &Arc<str>,
        write: PageWrite,
    ) -> Option<u64> {
        if !self.is_tracked(ino) {
            return None;
        }
        let page = write.page;
        let mut sectors = write.sectors;
        let is_given_up = |step: &Arc<PendingStep>| step.dropped && step.is_data_of(ino, page);
        if self.pending.iter().any(is_given_up) {
            Arc::make_mut(&mut self.pending).retain(|step| {
                let given_up = is_given_up(step);
                if given_up && let StepKind::Data { sectors: lost, .. } = step.kind {
                    sectors |= lost;
                }
                !given_up
            });
        }
        let needs = self.page_needs(ino, page, sectors);
        let kind = StepKind::Data {
            page,
            sectors,
            first: write.first,
            tail: write.tail,
        };
        let content = self.live.node_mut(ino).file_mut().expect("a file");
        let bytes = content.page(page);
        Some(self.push(op, ino, path, kind, Some(bytes), needs, true))
    }

    /// The last pending version of a page.
    fn last_version(&self, ino: Ino, page: u64) -> Option<u64> {
        let is_version = |step: &&Arc<PendingStep>| {
            !step.dropped && step.kind.is_data() && step.is_data_of(ino, page)
        };
        self.pending
            .iter()
            .rev()
            .find(is_version)
            .map(|step| step.id)
    }

    /// The earlier versions of sectors of a page, and the truncation that had given the page up.
    fn page_needs(&self, ino: Ino, page: u64, sectors: u8) -> Vec<u64> {
        let each = self.rules.torn_page;
        let mut left = if each { sectors } else { ALL_SECTORS };
        let mut needs = Vec::new();
        for step in self.pending.iter().rev() {
            if step.ino != ino || step.dropped {
                continue;
            }
            match step.kind {
                StepKind::Data {
                    page: of,
                    sectors,
                    first,
                    ..
                } if of == page => {
                    // Before its first data are there as a whole, a block cannot be overwritten in place.
                    let base = first && self.rules.unwritten_extents;
                    if base || sectors & left != 0 {
                        needs.push(step.id);
                        left &= if each && !base { !sectors } else { 0 };
                    }
                }
                StepKind::Mapped { page: of } if of == page => {
                    needs.push(step.id);
                    break;
                }
                StepKind::Truncate { to, .. } if to.div_ceil(PAGE_BYTES) <= page => {
                    needs.push(step.id);
                    break;
                }
                _ => {}
            }
            if left == 0 {
                break;
            }
        }
        needs
    }

    /// Adds the step that makes a file longer.
    #[expect(clippy::too_many_arguments, reason = "a step has so many parts")]
    pub(crate) fn push_size(
        &mut self,
        op: u64,
        ino: Ino,
        path: &Arc<str>,
        from: u64,
        to: u64,
        data: Option<u64>,
        by_write: bool,
    ) {
        if !self.is_tracked(ino) {
            return;
        }
        let before = last_size(&self.pending, ino).map(|step| step.id);
        let mut needs: Vec<u64> = before.into_iter().collect();
        if by_write && self.rules.data_before_size {
            needs.extend(data);
        }
        if self.rules.zero_tail {
            let end = from / PAGE_BYTES;
            let is_tail = |step: &&Arc<PendingStep>| {
                let tail = |kind: &StepKind| matches!(kind, StepKind::Data { page, tail: true, .. } if *page == end);
                step.ino == ino && !step.dropped && tail(&step.kind)
            };
            let tail = self.pending.iter().rev().find(is_tail);
            needs.extend(tail.map(|step| step.id));
        }
        let kind = StepKind::Size { from, to };
        self.push(op, ino, path, kind, None, needs, by_write);
    }

    /// Adds the steps of a truncation that has left zeros in these sectors of the last page.
    pub(crate) fn push_truncate(
        &mut self,
        op: u64,
        ino: Ino,
        from: u64,
        to: u64,
        zeroed: Option<u8>,
    ) {
        let end = to.div_ceil(PAGE_BYTES);
        let is_beyond = |step: &Arc<PendingStep>| match step.kind {
            StepKind::Data { page, .. } => step.ino == ino && page >= end,
            _ => false,
        };
        let any = |step: &Arc<PendingStep>| step.dropped && is_beyond(step);
        if self.pending.iter().any(any) {
            Arc::make_mut(&mut self.pending).retain(|step| !any(step));
        }
        if !self.is_tracked(ino) {
            return;
        }
        let path: Arc<str> = self.live.path(ino).into();
        let before = last_size(&self.pending, ino).map(|step| step.id);
        let needs = before.into_iter().collect();
        let kind = StepKind::Truncate { from, to };
        self.push(op, ino, &path, kind, None, needs, false);
        if let Some(sectors) = zeroed {
            let write = PageWrite {
                page: to / PAGE_BYTES,
                sectors,
                first: false,
                tail: true,
                size_from: to,
                size_to: to,
            };
            self.push_data(op, ino, &path, write);
        }
    }

    /// What an allocated block holds before its data are there: what it held for another file, or noise.
    fn stale_block(&self, ino: Ino, page: u64) -> Excerpt {
        let number = |index| {
            draw(
                self.seed,
                Purpose::Crash,
                65,
                u64::from(ino.0) << 32 ^ page,
                index,
            )
        };
        let count = self.stale.len() as u64;
        if count > 0 {
            let at = usize::try_from(scale(number(0), count)).expect("one of a few");
            return self.stale[at].clone();
        }
        let words = (0..PAGE_BYTES / 8).flat_map(|index| number(index + 1).to_le_bytes());
        Excerpt::from(&words.collect::<Vec<u8>>()[..])
    }

    /// Remembers what the first of the pages held that a file gives up.
    pub(crate) fn remember_stale(&mut self, ino: Ino, from_page: u64) {
        let shown = match (self.rules.stale_contents, self.config.stale_blocks) {
            (StaleContents::None, _) => return,
            (_, Some(asked)) => asked,
            (StaleContents::Noise, None) => StaleBlocks::Noise,
            (StaleContents::GivenUp, None) => StaleBlocks::GivenUp,
        };
        if shown == StaleBlocks::Noise {
            return;
        }
        let Some(content) = self.live.node_mut(ino).file_mut() else {
            return;
        };
        let mut ranges = content.written.ranges().iter();
        let Some(page) =
            ranges.find_map(|&(start, end)| (end > from_page).then_some(start.max(from_page)))
        else {
            return;
        };
        let bytes = content.page(page);
        let stale = Arc::make_mut(&mut self.stale);
        if stale.len() == STALE_MAX {
            stale.remove(0);
        }
        stale.push(bytes);
    }

    /// The last step that changes a name.
    pub(crate) fn last_change(&self, change: &EntryChange) -> Option<u64> {
        let same = |step: &&Arc<PendingStep>| {
            let mut entries = step.kind.entries();
            entries.any(|other| other.is_same_name(change.directory, &change.name))
        };
        self.pending.iter().rev().find(same).map(|step| step.id)
    }

    /// Adds the step that changes a name.
    pub(crate) fn push_entry(&mut self, op: u64, change: EntryChange, more: Vec<u64>) {
        if !self.is_tracked(change.directory) {
            return;
        }
        let mut needs = more;
        needs.extend(self.last_change(&change));
        let path = self.entry_path(&change);
        let directory = change.directory;
        let kind = StepKind::Entry(change);
        self.push(op, directory, &path, kind, None, needs, false);
    }

    pub(crate) fn entry_path(&self, change: &EntryChange) -> Arc<str> {
        let name = change.name.escape_ascii();
        match self.live.path(change.directory).as_str() {
            "." => name.to_string().into(),
            directory => format!("{directory}/{name}").into(),
        }
    }

    /// Makes these of the pending steps durable. Says how many.
    pub(crate) fn make_durable(&mut self, set: &[bool]) -> u64 {
        if !set.contains(&true) {
            return 0;
        }
        let steps = Arc::unwrap_or_clone(std::mem::take(&mut self.pending));
        let mut rest = Vec::with_capacity(steps.len());
        let mut cuts: Vec<(Ino, u64, u64)> = Vec::new();
        let mut whole = vec![false; steps.len()];
        for at in 0..steps.len() {
            whole[at] = set[at] && !steps[at].dropped && completes_page(&steps, at, &whole);
        }
        // Pages of which a version becomes durable and one before it does not.
        let mut parts: Vec<(Ino, u64)> = Vec::new();
        let mut unnamed: Vec<Ino> = Vec::new();
        let mut count = 0;
        for (at, step) in steps.into_iter().enumerate() {
            if !set[at] || step.dropped {
                rest.push(step);
                continue;
            }
            count += 1;
            apply(&mut self.durable, &step, &Sectors::All, whole[at]);
            if let StepKind::Data { page, .. } = step.kind
                && !whole[at]
            {
                parts.push((step.ino, page));
            }
            if let StepKind::Truncate { to, .. } = step.kind {
                cuts.push((step.ino, to.div_ceil(PAGE_BYTES), step.id));
            }
            unnamed.extend(step.kind.entries().filter_map(|change| change.from));
        }
        if !parts.is_empty() {
            for step in &mut rest {
                if parts.iter().any(|&(ino, page)| step.is_data_of(ino, page)) {
                    Arc::make_mut(step).in_part = true;
                }
            }
        }
        // What a durable truncation has given up stays given up, whatever was written there before.
        if !cuts.is_empty() {
            rest.retain(|step| {
                let page = match step.kind {
                    StepKind::Data { page, .. } | StepKind::Mapped { page } => page,
                    StepKind::Allocated { start, .. } => start,
                    _ => return true,
                };
                let is_cut = |&(ino, end, id): &(Ino, u64, u64)| {
                    ino == step.ino && page >= end && step.id < id
                };
                !cuts.iter().any(is_cut)
            });
        }
        self.pending = Arc::new(rest);
        self.changes += 1;
        while let Some(ino) = unnamed.pop() {
            self.forget(ino, &mut unnamed);
        }
        count
    }

    /// Forgets an inode that no durable name and no pending step can bring back.
    fn forget(&mut self, ino: Ino, unnamed: &mut Vec<Ino>) {
        let Some(node) = self.durable.nodes.get(ino) else {
            return;
        };
        let is_added = |step: &Arc<PendingStep>| {
            let mut entries = step.kind.entries();
            entries.any(|change| change.to == Some(ino))
        };
        if ino == ROOT || node.links > 0 || self.pending.iter().any(is_added) {
            return;
        }
        if let Some(entries) = node.directory() {
            let children: Vec<_> = entries.iter().cloned().collect();
            for child in children {
                self.durable.set_entry(ino, &child.name, None);
                unnamed.push(child.ino);
            }
        }
        self.durable.nodes.set(ino, None);
        let is_of = |step: &Arc<PendingStep>| {
            let mut entries = step.kind.entries();
            // A rename between this directory and another one still matters to the other one.
            match entries.next() {
                None => step.ino == ino,
                Some(first) => {
                    first.directory == ino && entries.all(|other| other.directory == ino)
                }
            }
        };
        if self.pending.iter().any(is_of) {
            Arc::make_mut(&mut self.pending).retain(|step| {
                let gone = is_of(step);
                if gone {
                    unnamed.extend(step.kind.entries().filter_map(|change| change.to));
                }
                !gone
            });
        }
    }

    /// Lets a live inode go that has no name and is not open.
    pub(crate) fn release(&mut self, ino: Ino) {
        let Some(node) = self.live.nodes.get(ino) else {
            return;
        };
        if node.links > 0 || ino == ROOT || self.descriptors.is_open(ino) {
            return;
        }
        if let Some(content) = node.file() {
            self.used_pages -= content.allocated.len();
            self.remember_stale(ino, 0);
        }
        self.live.nodes.set(ino, None);
        if self.cached.contains_key(&ino) {
            Arc::make_mut(&mut self.cached).remove(&ino);
        }
    }

    /// Whether the order of calls counts for what a sync makes durable.
    pub(crate) fn sync_follows_order(&self) -> bool {
        self.rules.sync_commits == SyncCommits::WhatIsBefore
    }
}

/// What a write did to a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageWrite {
    pub(crate) page: u64,
    /// The sectors that it touched.
    pub(crate) sectors: u8,
    /// Whether the page's block held no data before.
    pub(crate) first: bool,
    /// Whether it is the zeros behind a new end.
    pub(crate) tail: bool,
    pub(crate) size_from: u64,
    pub(crate) size_to: u64,
}
