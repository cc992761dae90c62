//! What a write has to know of its keys: nothing, mostly, where it may be made blindly (`blind.rs`); else what it replaces, or what is counted exactly.

use crate::api::coverage::CoveragePoint;
use crate::api::port::Mutation;
use crate::core::Core;
use crate::index::key::Key;
use crate::mutant::{Mutant, mutant};
use crate::read::blind::{Blind, Unseen};
use crate::read::lookup::Known;

impl Core {
    /// Whether a write can be taken now: memory knows of all its keys, but for some that may be written blindly, which `unseen` says. Else they are looked up.
    pub(crate) fn know_for_write(
        &mut self,
        mutations: &[Mutation<'_>],
        unseen: &mut Unseen,
    ) -> Known {
        if !self.forgets() && self.runs.are_whole() {
            return Known::All;
        }
        if self.refuses_writes().is_some() {
            return self.know_nothing_for_write(mutations);
        }
        // A checkpoint that ends makes room for more. None begins before the index is loaded.
        let bound = self.entries_bytes();
        let makes_room = self.maintenance.checkpointing || self.loading.is_some();
        if makes_room && self.is_crowded(bound) {
            return Known::NotYet;
        }
        let unknown = self.unknown_of(mutations);
        if unknown.is_empty() {
            return Known::All;
        }
        if !self.may_be_blind(&unknown) {
            return self.look_up_for_write(mutations, &unknown);
        }
        // What the runs have of the others does not count yet, and never will.
        let counted = unknown.into_iter();
        let counted: Vec<Key> = counted
            .filter(|key| !self.is_unloaded(key.bytes()))
            .collect();
        if self.leaves_replaced_counted() {
            unseen.left_counted = counted.len();
            return Known::All;
        }
        if !counted.is_empty() {
            let gathered = self.batch_of_blind();
            if !self.lookups.blind.has_room(counted.len(), gathered) {
                self.lookups.blind.hurry();
                return Known::NotYet;
            }
        }
        unseen.keys = counted;
        Known::All
    }

    /// The same once no new write is taken: this one was promised. No checkpoint comes any more, so nothing makes room and nothing counts, and what the write replaces may not be readable. But a get that came before it
    /// waits for that.
    fn know_nothing_for_write(&self, mutations: &[Mutation<'_>]) -> Known {
        let mut keys = mutations.iter().map(|it| Key::new(it.key()));
        match keys.any(|key| self.is_awaited_by_gets(&key)) {
            true => Known::NotYet,
            false => Known::All,
        }
    }

    /// Keys that memory does not know of.
    fn unknown_of(&self, mutations: &[Mutation<'_>]) -> Vec<Key> {
        let keys = mutations.iter().map(Mutation::key);
        keys.filter(|key| !self.knows(key)).map(Key::new).collect()
    }

    /// Whether everything is counted exactly, and a write knows what it replaces. Else that is looked up, or all keys are counted anew.
    pub(crate) fn know_exactly_for_write(&mut self, mutations: &[Mutation<'_>]) -> Known {
        if self.loading.is_some() {
            return Known::NotYet;
        }
        let unknown = self.unknown_of(mutations);
        let is_put = |it: &Mutation<'_>| matches!(it, Mutation::Put { .. });
        match self.look_up_for_write(mutations, &unknown) {
            Known::All if !self.lookups.blind.is_empty() => {
                self.lookups.blind.hurry();
                Known::NotYet
            }
            // A delete adds nothing, whatever is counted.
            Known::All if mutations.iter().any(is_put) => self.know_counts_exactly(),
            known => known,
        }
    }

    /// Looks up the keys of a write that memory does not know of.
    fn look_up_for_write(&mut self, mutations: &[Mutation<'_>], unknown: &[Key]) -> Known {
        if !unknown.is_empty() && self.lookups.awaited.is_empty() {
            self.reached(CoveragePoint::WriteAwaitedEntry);
            for key in mutations.iter().map(|it| Key::new(it.key())) {
                self.lookups.pin(&key);
                self.lookups.awaited.push(key);
            }
        }
        for key in unknown {
            if let Some(error) = self.lookups.failure_of(key) {
                return Known::Failed(error);
            }
            self.look_up(key, None);
        }
        match unknown.iter().all(|key| self.knows(key.bytes())) {
            true => Known::All,
            false => Known::NotYet,
        }
    }

    /// Whether nobody has to see what a write of these keys replaces.
    fn may_be_blind(&self, keys: &[Key]) -> bool {
        let is_read = self.index.has_snapshots() && !mutant(Mutant::BlindUnderSnapshot);
        let is_awaited =
            |key: &Key| self.is_awaited_by_gets(key) && !mutant(Mutant::BlindBesideGets);
        !is_read && Blind::takes(keys.len()) && !keys.iter().any(is_awaited)
    }

    /// Whether a get waits for what the runs have of a key.
    fn is_awaited_by_gets(&self, key: &Key) -> bool {
        let lookup = self.lookups.under_way.get(key);
        lookup.is_some_and(|it| !it.gets.is_empty())
    }
}
