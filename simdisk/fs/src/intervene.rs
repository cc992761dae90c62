//! Mistakes on purpose and interventions, carried out.

use std::sync::Arc;

use crate::FileSystem;
use crate::config::SyncCommits;
use crate::path::{Follow, resolve};
use crate::pending::close;
use crate::plant::{Intervention, LeftOut, Target};
use crate::sync::Cover;
use crate::tree::node::{Ino, ROOT};

impl FileSystem {
    /// Whether the host has to say from which place in the engine's code syncs are made, by [`at_place`](FileSystem::at_place).
    #[must_use]
    pub fn asks_for_places(&self) -> bool {
        self.mistake.is_some()
    }

    /// Says from which place in the engine's code the next sync is made, if there is one before the next place is said.
    pub fn at_place(&mut self, place: Option<u64>) {
        if let Some(mistake) = &mut self.mistake {
            mistake.next = place == Some(mistake.place);
        }
    }

    /// The syncs that were left out because of their place, over all process runs.
    #[must_use]
    pub fn left_out(&self) -> &[LeftOut] {
        self.mistake.as_ref().map_or(&[], |mistake| &mistake.done)
    }

    /// Whether this sync is left out because of its place. Notes it then.
    pub(crate) fn leaves_out(&mut self, op: u64, ino: Ino, set: &[bool]) -> bool {
        let Some(mistake) = &mut self.mistake else {
            return false;
        };
        if !std::mem::take(&mut mistake.next) {
            return false;
        }
        let number = mistake.seen;
        mistake.seen += 1;
        if mistake.nth.is_some_and(|nth| nth != number) {
            return false;
        }
        let of_it = |step: &crate::PendingStep| step.ino == ino;
        let covered = self.pending.iter().zip(set);
        let mut covers: Vec<u64> = covered
            .filter(|(step, covered)| **covered && of_it(step))
            .map(|(step, _)| step.op)
            .collect();
        covers.dedup();
        let done = Arc::make_mut(&mut mistake.done);
        done.push(LeftOut { op, ino, covers });
        true
    }

    /// Makes the steps of a file or a directory durable at a call to come.
    pub fn intervene_at(&mut self, intervention: Intervention) {
        Arc::make_mut(&mut self.interventions).push(intervention);
    }

    /// Makes the pending steps of a file or directory durable now, whatever the profile's sync reaches. Says how many.
    pub fn harden(&mut self, target: &Target) -> u64 {
        let ino = match target {
            // Which call is meant is known only where it is made.
            Target::Changed => return 0,
            Target::Inode(ino) => *ino,
            Target::Path(path) => {
                let found = resolve(&self.live, ROOT, path, Follow::Always, |_, _| {});
                match found.map(|found| found.ino) {
                    Ok(Some(ino)) => ino,
                    _ => return 0,
                }
            }
        };
        if self.live.nodes.get(ino).is_none() {
            return 0;
        }
        let set = self.covered(ino, Cover::All);
        self.make_durable(&set)
    }

    /// Makes one pending step durable now, with what it needs. Says how many became durable.
    pub fn harden_step(&mut self, step: u64) -> u64 {
        let Some(at) = crate::pending::position(&self.pending, step) else {
            return 0;
        };
        let mut set = vec![false; self.pending.len()];
        set[at] = true;
        let with_order = self.rules.sync_commits == SyncCommits::WhatIsBefore;
        close(&self.pending, &mut set, with_order);
        self.make_durable(&set)
    }

    pub(crate) fn intervene(&mut self, op: u64, before: bool) {
        if self.interventions.is_empty() {
            return;
        }
        let interventions = Arc::clone(&self.interventions);
        let here = |it: &&Intervention| it.op == op && it.before == before;
        for intervention in interventions.iter().filter(here) {
            if intervention.target == Target::Changed {
                self.harden_changed(op);
            } else {
                self.harden(&intervention.target);
            }
        }
    }

    /// Makes all pending steps of those files and directories durable of which this call made one.
    fn harden_changed(&mut self, op: u64) {
        let made = self.pending.iter().filter(|step| step.op == op);
        let mut inodes: Vec<Ino> = made.map(|step| step.ino).collect();
        inodes.sort_unstable();
        inodes.dedup();
        for ino in inodes {
            self.harden(&Target::Inode(ino));
        }
    }
}
