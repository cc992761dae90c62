//! Whether a write would leave more live data than can be collected for ever.
//!
//! Invariant: a write that adds no live data is not refused here, deletes among them. It may still find no room in the end: of a large value the new copy has to lie beside the
//! old one, and so has what a recovery would write anew of it; and where a segment has three blocks or so, what does not fit at its end may be more than `usable_percent` leaves. An
//! overwrite does add live data if options have changed since, so that its value lies in the log and no longer in the index.

use std::collections::BTreeSet;

use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::api::port::Mutation;
use crate::commit::write::{Form, value_bytes};
use crate::core::Core;
use crate::format::pointer::Pointer;
use crate::format::record::record_bytes;
use crate::format::to_usize;
use crate::gc::state::Counting;
use crate::index::entry::{pages_of_new, place_in_log_bytes};
use crate::mutant::{Mutant, mutant};
use crate::read::lookup::Known;
use crate::segments::unproven::RecoveryReserve;

impl Core {
    /// Whether these would even fit beside what they replace, as they mostly do. Then nothing has to be looked up.
    pub(crate) fn fits_beside(
        &self,
        mutations: &[Mutation<'_>],
        forms: &[Form],
        reserve: RecoveryReserve,
    ) -> bool {
        let (mut live, mut pages) = self.weight_of_all();
        let sequence = self.log.next_sequence + mutations.len() as u64;
        for (mutation, form) in mutations.iter().zip(forms) {
            let (added_live, added_pages) = self.weight_to_come(mutation, *form, sequence);
            live += added_live;
            pages += added_pages;
        }
        let max = self.live_bytes_max(pages, reserve);
        max.is_some_and(|max| live <= max)
    }

    /// Whether a write may leave counted what it replaces and memory does not know: then nothing ever looks it up. Where no value lies outside the index, it is the number of keys and
    /// the room for the index alone that are counted too high. There has to be room for that, and what the runs have has to be known, which bounds both at the next checkpoint.
    pub(crate) fn leaves_replaced_counted(&self) -> bool {
        let (live, pages) = self.weight_of_all();
        live == 0
            && self.loading.is_none()
            && self.runs.weight().is_some()
            && self
                .live_bytes_max(pages + pages / 64, RecoveryReserve::default())
                .is_some()
    }

    /// A checkpoint was published: what is counted is bounded by what stands in the runs now. It is exact if all keys were written anew and none was put meanwhile.
    pub(crate) fn bound_counts(&mut self, all_anew: bool, nothing_put: bool) {
        let awaited = self.maintenance.counting == Counting::Awaited;
        if all_anew && awaited {
            self.maintenance.counting = Counting::No;
        }
        // What is still to be subtracted may stand in no run any more.
        if !self.index.has_surplus() || !self.lookups.blind.is_empty() {
            return;
        }
        let Some(standing) = self.runs.weight() else {
            return;
        };
        if self.index.bound_counts(standing) {
            self.reached(CoveragePoint::CountsBounded);
        }
        if all_anew && nothing_put {
            self.index.end_surplus();
            if awaited {
                self.reached(CoveragePoint::CountedAnew);
            }
        }
    }

    /// A checkpoint has ended that began while somebody waited for exact counts. Of one that had begun before, a failure would be no answer.
    pub(crate) fn end_counting(&mut self, result: &Result<bool, Error>) {
        if self.maintenance.counting == Counting::Awaited {
            match result {
                Ok(true) => {}
                Ok(false) => self.maintenance.counting = Counting::FoundNoRoom,
                Err(error) => self.maintenance.counting = Counting::Failed(error.clone()),
            }
        }
    }

    /// Whether there is no surplus. Else a checkpoint writes all keys anew, after which there is none; where it finds no room, what is counted has to do.
    pub(crate) fn know_counts_exactly(&mut self) -> Known {
        match std::mem::take(&mut self.maintenance.counting) {
            _ if !self.index.has_surplus() || mutant(Mutant::SurplusRefuses) => Known::All,
            Counting::No | Counting::Awaited => {
                self.maintenance.counting = Counting::Awaited;
                Known::NotYet
            }
            Counting::FoundNoRoom => Known::All,
            Counting::Failed(error) => Known::Failed(error),
        }
    }

    /// Live bytes and bytes of pages, at most. They are exact if the index is loaded, no blind write is still to be subtracted from, and there is no surplus.
    fn weight_of_all(&self) -> (u64, u64) {
        (self.live_bytes(), self.index.pages_bytes())
    }

    /// Why these would exceed it, if they would. Memory knows of their keys, and what is counted is exact.
    pub(crate) fn exceeds_capacity(
        &self,
        mutations: &[Mutation<'_>],
        forms: &[Form],
        reserve: RecoveryReserve,
    ) -> Option<String> {
        let before = self.weight_of_all();
        let sequence = self.log.next_sequence + mutations.len() as u64;
        let (mut live, mut pages) = before;
        let mut keys = BTreeSet::new();
        for (mutation, form) in mutations.iter().zip(forms).rev() {
            let key = mutation.key();
            // Of several of one key the last is what is live.
            if !keys.insert(key) {
                continue;
            }
            if let Some(old) = self.index.newest(key) {
                let (old_live, old_pages) = self.weight(key, old);
                // Only the index forgets what a snapshot reads.
                if !self.index.is_held(old) {
                    live = live.saturating_sub(old_live);
                }
                pages = pages.saturating_sub(old_pages);
            }
            let (added_live, added_pages) = self.weight_to_come(mutation, *form, sequence);
            live += added_live;
            pages += added_pages;
        }
        if live <= before.0 && pages <= before.1 {
            return None;
        }
        match self.live_bytes_max(pages, reserve) {
            Some(max) if live <= max => None,
            Some(max) => Some(format!("{live} live bytes would exceed the {max} that fit")),
            None => Some("the index would not leave room for data".into()),
        }
    }

    /// What [`Core::weight`] will be of this, with no sequence beyond that one.
    fn weight_to_come(&self, mutation: &Mutation<'_>, form: Form, sequence: u64) -> (u64, u64) {
        let value = value_bytes(mutation);
        let (key, in_memory) = (mutation.key().len(), to_usize(value));
        let (live, place) = match form {
            Form::Delete => return (0, 0),
            Form::Inline => (0, in_memory),
            Form::Log => {
                // It may go on in the next segment.
                let lsn = self.log.end() + 2 * self.geometry.segment_bytes;
                let live = record_bytes(key, in_memory) as u64;
                (live, place_in_log_bytes(lsn, value))
            }
            Form::Extent => (
                self.geometry.block_up(value),
                Pointer::encoded_bytes_of(self.chunks_max(value)),
            ),
        };
        (live, pages_of_new(key, sequence, place))
    }
}
