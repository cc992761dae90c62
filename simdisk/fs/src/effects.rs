//! What is pending in a file system, as crash states are made of it.

use kvsim_crash::{CrashError, CrashState, CrashStates, Effect, Effects, FileRole, Role};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::FileSystem;
use crate::config::DurableAt;
use crate::pending::{explicit_needs, needs};
use crate::plant::Mistake;
use crate::step::{EntryChange, PendingStep, StepKind};
use crate::tree::node::{Ino, PAGE_BYTES, SECTOR_BYTES};

impl CrashStates for FileSystem {
    fn effects(&self) -> Effects {
        let steps = &self.pending;
        let mut places: Vec<Option<usize>> = Vec::with_capacity(steps.len());
        let mut list: Vec<Effect> = Vec::new();
        let mut last_in_order: Option<usize> = None;
        for (at, step) in steps.iter().enumerate() {
            if step.dropped {
                places.push(None);
                continue;
            }
            let mut needed: Vec<usize> = explicit_needs(steps, at)
                .filter_map(|needed| places[needed])
                .collect();
            if step.ordered || step.late {
                needed.extend(last_in_order);
            }
            if step.ordered {
                last_in_order = Some(list.len());
            }
            needed.sort_unstable();
            needed.dedup();
            places.push(Some(list.len()));
            list.push(Effect {
                id: step.id,
                needs: needed,
                tears: self.tears(step),
                lies_over: None,
            });
        }
        Effects {
            list,
            loss: self.config.faults.loss && self.rules.durable_at == DurableAt::Sync,
            reorder: true,
        }
    }

    fn roles(&self, most: usize) -> Vec<(u64, Role)> {
        let first = self.pending.len().saturating_sub(most);
        let latest = &self.pending[first..];
        latest.iter().map(|step| (step.id, role(step))).collect()
    }

    fn is_syncing(&self) -> bool {
        self.syncing
    }

    fn check_crash(&self, state: &CrashState) -> Result<(), CrashError> {
        FileSystem::check_crash(self, state)
    }

    fn image_hash_after(&self, state: &CrashState) -> Result<u128, CrashError> {
        FileSystem::check_crash(self, state)?;
        Ok(FileSystem::image_hash_after(self, state).expect("checked before"))
    }
}

/// What part a step plays.
fn role(step: &PendingStep) -> Role {
    let (kind, offset, len_bytes) = match &step.kind {
        StepKind::Data { page, sectors, .. } => {
            let first = u64::from(sectors.trailing_zeros().min(7));
            let offset = page * PAGE_BYTES + first * u64::from(SECTOR_BYTES);
            (0, offset, step.sectors() * u64::from(SECTOR_BYTES))
        }
        StepKind::Mapped { page } => (1, page * PAGE_BYTES, PAGE_BYTES),
        StepKind::Size { from, to } => (2, *from, to.saturating_sub(*from)),
        StepKind::Truncate { from, to } => (3, *to, from.saturating_sub(*to)),
        StepKind::Allocated { start, end } => (4, start * PAGE_BYTES, (end - start) * PAGE_BYTES),
        StepKind::Entry(EntryChange { from: None, .. }) => (5, 0, 0),
        StepKind::Entry(EntryChange { to: None, .. }) => (6, 0, 0),
        StepKind::Entry(_) => (7, 0, 0),
        StepKind::Renamed { .. } => (8, 0, 0),
        StepKind::Attributes { .. } => (9, 0, 0),
    };
    let series: Vec<u8> = step
        .path
        .bytes()
        .filter(|byte| !byte.is_ascii_digit())
        .collect();
    Role {
        kind,
        file: Some(FileRole {
            name: xxh3_64(step.path.as_bytes()),
            series: xxh3_64(&series),
        }),
        offset,
        len_bytes,
        is_complete: step.in_drive,
    }
}

impl PendingStep {
    /// A hash of what it does, its bytes among that; its number aside.
    #[must_use]
    pub fn content_hash(&self) -> u64 {
        let mut hash = Xxh3::new();
        hash.update(&self.ino.0.to_le_bytes());
        hash.update(self.path.as_bytes());
        hash.update(format!("{:?}", self.kind).as_bytes());
        if let Some(bytes) = &self.bytes {
            hash.update(&bytes.hash().to_le_bytes());
        }
        hash.digest()
    }
}

impl FileSystem {
    /// Whether from now on all that it answers follows from its contents: no fault can affect a call, and none is still to be reported.
    #[must_use]
    pub fn is_faultless(&self) -> bool {
        self.inject.is_idle(self.ops)
            && !self.descriptors.has_errors()
            && !self.mistake.as_ref().is_some_and(Mistake::counts)
    }

    /// A hash of what a power cut may still lose, and in which ways: two file systems of the same names and bytes that agree on it and on what is
    /// durable can leave the same.
    #[must_use]
    pub fn pending_hash(&self) -> u64 {
        let mut hash = Xxh3::new();
        for (at, step) in self.pending.iter().enumerate() {
            let state = u64::from(step.in_part) << 2
                | u64::from(step.dropped) << 1
                | u64::from(step.in_drive);
            hash.update(&step.content_hash().to_le_bytes());
            hash.update(&state.to_le_bytes());
            for needed in needs(&self.pending, at) {
                hash.update(&(needed as u64).to_le_bytes());
            }
        }
        hash.digest()
    }

    /// Whether callers see a directory of this number.
    #[must_use]
    pub fn is_directory(&self, ino: Ino) -> bool {
        let node = self.live.nodes.get(ino);
        node.is_some_and(|node| node.directory().is_some())
    }

    /// The path of an inode from the root, as callers see it; where it has none, its number.
    #[must_use]
    pub fn path_of(&self, ino: Ino) -> String {
        match self.live.nodes.get(ino) {
            Some(_) => self.live.path(ino),
            None => format!("inode {}", ino.0),
        }
    }
}
