//! Mistakes on purpose and interventions: what blame tries.
//!
//! They take no time and tell nobody, so a case meets the same calls with them and without.

use std::sync::Arc;

use crate::FileSystem;
use crate::config::SyncCommits;
use crate::path::{Follow, resolve};
use crate::pending::close;
use crate::sync::Cover;
use crate::tree::node::{Ino, ROOT};

/// What an intervention makes durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The file or directory of this number.
    Inode(Ino),
    /// What this path leads to from the root at that moment; nothing if it leads to nothing.
    Path(Vec<u8>),
}

/// The steps of a file or a directory become durable at a call, as if it were synced there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intervention {
    /// The number of the call.
    pub op: u64,
    /// Before the call, or after it.
    pub before: bool,
    /// Of what.
    pub target: Target,
}

impl FileSystem {
    /// Lets the sync of this number, counted from 0, do nothing and say that it has worked. It is no fault, so it excuses no loss: it asks whether
    /// anybody would notice if the engine had left it out. It ends with the process run.
    pub fn ignore_sync(&mut self, sync: u64) {
        self.ignored_sync = Some(sync);
    }

    /// Makes the steps of a file or a directory durable at a call to come.
    pub fn intervene_at(&mut self, intervention: Intervention) {
        Arc::make_mut(&mut self.interventions).push(intervention);
    }

    /// Makes the pending steps of a file or directory durable now, whatever the profile's sync reaches. Says how many.
    pub fn harden(&mut self, target: &Target) -> u64 {
        let ino = match target {
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
            self.harden(&intervention.target);
        }
    }
}
