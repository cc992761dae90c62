//! Crash states of a file system: which are possible, what they leave, and how one is drawn.
//!
//! Invariants: [`check_crash`](FileSystem::check_crash) accepts the sets of steps that are closed under [`needs`](FileSystem::needs), with
//! pages torn where the profile allows it; what [`draw_crash`](FileSystem::draw_crash) draws it accepts. Only between versions of one
//! page a torn state is judged sector by sector.

use std::sync::Arc;

use kvsim_crash::draw::{Part, some_sectors, torn_byte};
use kvsim_crash::rng::{self, Purpose, Rng};
use kvsim_crash::{
    CrashError, CrashKind, CrashReport, CrashState, Nanos, Persisted, Sectors, Tears,
};

use crate::config::DurableAt;
use crate::descriptors::Descriptors;
use crate::pending::{close, completes_page, needed_by, needs, open, position, version_needs};
use crate::persist::apply;
use crate::step::{PendingStep, StepKind};
use crate::tree::Tree;
use crate::tree::node::{Ino, SECTOR_BYTES};
use crate::{FileFault, FileSystem};

impl FileSystem {
    /// The steps that a step needs directly: a crash state that keeps it keeps them. Nothing for a step that is not pending.
    pub fn needs(&self, step: u64) -> impl Iterator<Item = u64> + '_ {
        let at = position(&self.pending, step);
        at.into_iter()
            .flat_map(|at| needs(&self.pending, at))
            .map(|at| self.pending[at].id)
    }

    /// How a step can be torn, if it can.
    #[must_use]
    pub fn tears(&self, step: &PendingStep) -> Option<Tears> {
        let within_sector = self.config.faults.byte_tear > 0.0;
        let sectors = step.sectors();
        let can = step.tearable && !step.dropped && (sectors > 1 || within_sector);
        (can && self.config.faults.torn > 0.0).then_some(Tears {
            sectors,
            sector_bytes: SECTOR_BYTES,
            garbage: false,
            within_sector,
            unreadable: false,
        })
    }

    /// Whether a power cut now could leave this.
    ///
    /// # Errors
    /// Why it could not.
    pub fn check_crash(&self, state: &CrashState) -> Result<(), CrashError> {
        let steps = &self.pending;
        // What is kept of each step, as sectors of its page.
        let mut kept: Vec<Option<(bool, u8)>> = vec![None; steps.len()];
        for persisted_write in &state.persisted {
            let id = persisted_write.id;
            let at = position(steps, id).ok_or(CrashError::NotPending(id))?;
            if kept[at].is_some() {
                return Err(CrashError::NotPending(id));
            }
            if steps[at].dropped {
                return Err(CrashError::Dropped(id));
            }
            self.check_sectors(persisted_write, &steps[at])?;
            let whole = persisted_write.sectors == Sectors::All;
            kept[at] = Some((whole, steps[at].kept(&persisted_write.sectors)));
        }
        let all = steps.iter().zip(&kept);
        let lost = all
            .clone()
            .any(|(step, kept)| !step.dropped && kept.is_none());
        let torn = kept.iter().flatten().any(|(whole, _)| !whole);
        if !self.config.faults.loss && (lost || torn) {
            return Err(CrashError::NothingIsLost);
        }
        let mut last_ordered = None;
        // The step that the first barrier covers of those that are not there whole.
        let mut missing: Option<&PendingStep> = None;
        for (at, step) in steps.iter().enumerate() {
            let covered = missing.filter(|missing| step.is_behind(missing));
            let is_whole = step.dropped || kept[at].is_some_and(|(whole, _)| whole);
            if !is_whole && step.covered_by.is_some() {
                let both = missing.into_iter().chain([&**step]);
                missing = both.min_by_key(|step| step.covered_by);
            }
            let before = last_ordered.filter(|_| step.ordered || step.late);
            if step.ordered && !step.dropped {
                last_ordered = Some(at);
            }
            let Some((_, sectors)) = kept[at] else {
                continue;
            };
            if let Some(other) = covered {
                return Err(CrashError::Needs {
                    id: step.id,
                    needs: other.id,
                });
            }
            for needed in version_needs(steps, at).chain(before) {
                let other = &steps[needed];
                let is_version = self.is_version(step, other);
                // The sectors of the earlier version that the later one lies over.
                let shared = sectors & other.kept(&Sectors::All);
                let is_there = match kept[needed] {
                    None if is_version => shared == 0,
                    Some((false, theirs)) if is_version => shared & !theirs == 0,
                    None => false,
                    Some((whole, _)) => whole,
                };
                if !is_there {
                    return Err(CrashError::Needs {
                        id: step.id,
                        needs: other.id,
                    });
                }
            }
        }
        Ok(())
    }

    /// Whether one step is a later version of the page of another, and the two are held against each other sector by sector.
    fn is_version(&self, step: &PendingStep, other: &PendingStep) -> bool {
        let of_page = |step: &PendingStep| match step.kind {
            StepKind::Data { page, .. } => Some((step.ino, page)),
            _ => None,
        };
        let base = match other.kind {
            StepKind::Data { first, .. } => first && self.rules.unwritten_extents,
            _ => false,
        };
        let same = of_page(step).is_some() && of_page(step) == of_page(other);
        same && self.rules.torn_page && !step.ordered && !base
    }

    fn check_sectors(
        &self,
        persisted_write: &Persisted,
        step: &PendingStep,
    ) -> Result<(), CrashError> {
        let Sectors::Torn {
            kept,
            garbage,
            torn_at,
            unreadable,
        } = &persisted_write.sectors
        else {
            return Ok(());
        };
        let id = persisted_write.id;
        let not = |why| Err(CrashError::NotTearable { id, why });
        let Some(tears) = self.tears(step) else {
            return not("the profile writes it whole, or tears are off");
        };
        if garbage.is_some() || unreadable.is_some() {
            return not("a sector of a file system's page holds what it held or what was written");
        }
        let ascends = kept.is_sorted_by(|a, b| a < b);
        if !ascends || kept.last().is_some_and(|&last| last >= tears.sectors) {
            return not("its sectors are not ascending indices inside it");
        }
        if let Some((sector, byte)) = torn_at {
            let inside = *sector < tears.sectors && (1..u64::from(SECTOR_BYTES)).contains(byte);
            if !tears.within_sector || !inside || kept.contains(sector) {
                return not("byte tears are off, or this one is outside it or in a kept sector");
            }
        }
        if kept.is_empty() && torn_at.is_none() {
            return not("nothing of it persists, so it is not to be named");
        }
        if kept.len() as u64 == tears.sectors {
            return not("all of it persists, so it is not torn");
        }
        Ok(())
    }

    /// What a power cut that leaves this would leave: all but what no name reaches.
    fn tree_after(&self, state: &CrashState) -> Tree {
        let mut tree = self.durable.clone();
        let mut persisted: Vec<&Persisted> = state.persisted.iter().collect();
        persisted.sort_unstable_by_key(|persisted_write| persisted_write.id);
        // Which pages are what they were after a step.
        let mut whole = vec![false; self.pending.len()];
        let mut at = 0;
        for persisted_write in persisted {
            while self.pending[at].id != persisted_write.id {
                at += 1;
            }
            let step = &self.pending[at];
            whole[at] = persisted_write.sectors == Sectors::All
                && completes_page(&self.pending, at, &whole);
            apply(&mut tree, step, &persisted_write.sectors, whole[at]);
        }
        let mut changed: Vec<Ino> = self.pending.iter().map(|step| step.ino).collect();
        changed.dedup();
        changed.sort_unstable();
        changed.dedup();
        tree.finish_files(&changed);
        tree
    }

    /// The [`image_hash`](FileSystem::image_hash) that a power cut now would leave with `state`; nothing if it could not leave that.
    #[must_use]
    pub fn image_hash_after(&self, state: &CrashState) -> Option<u128> {
        self.check_crash(state).ok()?;
        Some(self.tree_hash(&self.tree_after(state)))
    }

    /// Ends the process run: nothing is open any more but the root directory. A process crash loses nothing that was written, whatever
    /// `state` says; a power cut leaves what `state` says.
    ///
    /// # Errors
    /// If a power cut could not have left this. Nothing has changed then.
    pub fn crash(
        &mut self,
        now: Nanos,
        kind: CrashKind,
        state: &CrashState,
    ) -> Result<CrashReport, CrashError> {
        let pending = self.pending.len() as u64;
        let in_flush = self.syncing;
        if kind == CrashKind::Process {
            self.end_run(now);
            let unnamed: Vec<Ino> = {
                let nodes = self.live.nodes.iter();
                nodes
                    .filter(|(_, node)| node.links == 0)
                    .map(|(ino, _)| ino)
                    .collect()
            };
            for ino in unnamed {
                self.release(ino);
            }
            self.show_steps();
            return Ok(CrashReport {
                kind,
                pending,
                lost: 0,
                torn: 0,
                in_flush,
                state: CrashState::default(),
            });
        }
        self.check_crash(state)?;
        self.count_crash(state);
        let mut tree = self.tree_after(state);
        tree.finish_names();
        self.durable = tree.clone();
        self.live = tree;
        self.pending = Arc::default();
        self.used_pages = self.live.used_pages();
        self.cached = Arc::default();
        self.numbers = Arc::default();
        self.stale = Arc::default();
        self.gate.clear();
        self.barriers = 0;
        self.power_cuts += 1;
        self.changes += 1;
        self.within_change = false;
        self.end_run(now);
        let is_torn = |persisted_write: &&Persisted| persisted_write.sectors != Sectors::All;
        Ok(CrashReport {
            kind,
            pending,
            lost: pending - state.persisted.len() as u64,
            torn: state.persisted.iter().filter(is_torn).count() as u64,
            in_flush,
            state: state.clone(),
        })
    }

    /// After a kill between two steps of a call: callers see what has become a step, and nothing else. Otherwise they would see what is on no way to the
    /// disk. What a failed sync has given up is seen although no step brings it, so beside that all stays as it is.
    fn show_steps(&mut self) {
        if !std::mem::take(&mut self.within_change) || self.pending.iter().any(|it| it.dropped) {
            return;
        }
        let all = self.pending.iter().map(|step| Persisted::whole(step.id));
        let all = CrashState {
            persisted: all.collect(),
        };
        let mut tree = self.tree_after(&all);
        tree.finish_names();
        if self.tree_hash(&tree) != self.tree_hash(&self.live) {
            self.live = tree;
            self.used_pages = self.live.used_pages();
            self.changes += 1;
        }
    }

    fn end_run(&mut self, now: Nanos) {
        self.set_now(now);
        self.runs_ended += 1;
        self.elapsed = 0;
        self.descriptors = Descriptors::new();
        self.syncing = false;
    }

    fn count_crash(&mut self, state: &CrashState) {
        let keepable = self.pending.iter().filter(|step| !step.dropped);
        let ids: Vec<u64> = keepable.map(|step| step.id).collect();
        self.inject.counts.count(FileFault::CutInSync, self.syncing);
        if ids.is_empty() {
            return;
        }
        let kept = &state.persisted;
        let counts = &mut self.inject.counts;
        if self.config.faults.loss {
            counts.count(FileFault::Loss, kept.len() < ids.len());
            if ids.len() > 1 {
                let last = kept.iter().map(|persisted_write| persisted_write.id).max();
                let until = |last: u64| ids.partition_point(|&id| id <= last);
                let hole = last.is_some_and(|last| until(last) > kept.len());
                counts.count(FileFault::Reorder, hole);
            }
        }
        if self.pending.iter().any(|step| self.tears(step).is_some()) {
            let any = |is: fn(&Sectors) -> bool| kept.iter().any(|it| is(&it.sectors));
            let torn = any(|sectors| *sectors != Sectors::All);
            let in_a_sector = any(Sectors::has_byte_tear);
            self.inject.counts.count(FileFault::Torn, torn);
            if self.config.faults.byte_tear > 0.0 {
                self.inject.counts.count(FileFault::ByteTear, in_a_sector);
            }
        }
    }

    /// Draws what a power cut now would leave. Each aspect of a state is drawn from a stream of its own.
    pub fn draw_crash(&mut self) -> CrashState {
        let number = self.crashes_drawn;
        self.crashes_drawn += 1;
        let stream = |aspect: u64, id: u64| {
            let seed = rng::draw(self.seed, Purpose::Crash, 66 + aspect, number, id);
            Rng::new(seed, Purpose::Crash)
        };
        let steps = &self.pending;
        let mut set: Vec<bool> = steps.iter().map(|step| !step.dropped).collect();
        if self.config.faults.loss && self.rules.durable_at == DurableAt::Sync {
            self.choose(&mut set, &mut stream(0, 0));
        }
        let mut torn: Vec<Option<Sectors>> = vec![None; steps.len()];
        let mut which = stream(1, 0);
        if self.config.faults.loss && which.chance(self.config.faults.torn) {
            let needed = needed_by(steps, &set);
            let able = |at: &usize| set[*at] && !needed[*at] && self.tears(&steps[*at]).is_some();
            let able: Vec<usize> = (0..steps.len()).filter(able).collect();
            let only = which
                .chance(0.5)
                .then(|| which.below(able.len().max(1) as u64));
            for (rank, &at) in able.iter().enumerate() {
                let it = match only {
                    Some(only) => only == rank as u64,
                    None => which.chance(0.5),
                };
                if it {
                    let id = steps[at].id;
                    torn[at] = self.tear(&steps[at], &mut stream(2, id), &mut stream(3, id));
                }
            }
        }
        let kept = steps.iter().enumerate().filter(|(at, _)| set[*at]);
        let persisted = kept.map(|(at, step)| match torn[at].take() {
            Some(sectors) => Persisted {
                id: step.id,
                sectors,
            },
            None => Persisted::whole(step.id),
        });
        CrashState {
            persisted: persisted.collect(),
        }
    }

    /// Draws how a step is torn, from a stream for its sectors and one for what is torn within a sector.
    fn tear(&self, step: &PendingStep, which: &mut Rng, within: &mut Rng) -> Option<Sectors> {
        let sectors = step.sectors();
        let mut kept = match sectors {
            0 | 1 => (0..sectors).collect(),
            _ => some_sectors(sectors, which),
        };
        let torn_at = within
            .chance(self.config.faults.byte_tear)
            .then(|| torn_byte(sectors, u64::from(SECTOR_BYTES), within));
        if let Some((sector, _)) = torn_at {
            kept.retain(|&other| other != sector);
        }
        (kept.len() as u64 != sectors).then_some(Sectors::Torn {
            kept,
            garbage: None,
            torn_at,
            unreadable: None,
        })
    }

    /// Takes out of a set what is lost, and keeps it closed.
    fn choose(&self, set: &mut [bool], rng: &mut Rng) {
        let all: Vec<usize> = (0..set.len()).filter(|&at| set[at]).collect();
        if all.is_empty() {
            return;
        }
        let one = |rng: &mut Rng| {
            let at = rng.below(all.len() as u64);
            all[usize::try_from(at).expect("an index")]
        };
        match self.config.faults.bias.draw(rng) {
            Part::None => set.fill(false),
            Part::All => {}
            Part::AllButOne => {
                set[one(rng)] = false;
                open(&self.pending, set);
            }
            Part::One => {
                let at = one(rng);
                set.fill(false);
                set[at] = true;
                close(&self.pending, set, true);
            }
            Part::Prefix => {
                let at = one(rng);
                set[at..].fill(false);
            }
            Part::Subset => {
                // As likely few with all that they need as many without what lacks something.
                let add = rng.chance(0.5);
                for &at in &all {
                    set[at] = rng.chance(0.5);
                }
                if add {
                    close(&self.pending, set, true);
                } else {
                    open(&self.pending, set);
                }
            }
        }
    }
}
