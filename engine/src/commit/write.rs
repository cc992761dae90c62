//! Admission: whether a write is taken now, has to wait, or is refused; and taking it. (What there is room for: `capacity.rs`.)
//!
//! Invariants:
//! - a refused write has changed nothing, neither on the device nor in memory;
//! - a write that is taken has all the space it needs, so nothing fails later for want of space.

use crate::api::coverage::CoveragePoint;
use crate::api::port::{Durability, Mutation, PROMISED, Reply, RequestId, Status};
use crate::core::Core;
use crate::format::KEY_BYTES_MAX;
use crate::format::pointer::Pointer;
use crate::format::record::{RecordKind, record_bytes, tag};
use crate::index::entry::INLINE_BYTES_ALWAYS;
use crate::index::place::{Place, Version};
use crate::log::append::Log;
use crate::mutant::{Mutant, mutant};
use crate::read::blind::Unseen;
use crate::read::lookup::{Known, unread};
use crate::runtime::request::Verdict;
use crate::segments::unproven::RecoveryReserve;

/// Where a mutation's value will go, and what it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Delete,
    Inline,
    Log,
    Extent,
}

impl Core {
    pub(crate) fn sync(&mut self, id: RequestId) {
        let all = self.log.is_durable_to(self.log.last_record) && !self.has_memory_only;
        if all || mutant(Mutant::SyncDoesNotWait) {
            return self.reply(id, Reply::Done);
        }
        match self.unpoisoned() {
            Err(error) => self.fail(
                id,
                error.status(),
                format!("not everything accepted is durable: {error}"),
            ),
            Ok(()) => self.wait_durable(id, self.log.last_record),
        }
    }

    pub(crate) fn write(
        &mut self,
        id: RequestId,
        mutations: &[Mutation<'_>],
        durability: Durability,
    ) -> Verdict {
        let mut verdict = self.try_write(id, mutations, durability);
        if let Verdict::Refused(_, message) = &verdict
            && id == PROMISED
        {
            if !self.may_break_promise() {
                return Verdict::Awaits;
            }
            self.break_promise(message);
            self.apply_in_memory(mutations);
            verdict = Verdict::Taken;
        }
        // A write that waits may ask once more. What it let go before, it would look up again, without an end.
        if !matches!(verdict, Verdict::Stall | Verdict::Awaits) {
            self.forget_request();
        }
        verdict
    }

    fn try_write(
        &mut self,
        id: RequestId,
        mutations: &[Mutation<'_>],
        durability: Durability,
    ) -> Verdict {
        if let Some(error) = self.refuses_writes()
            && id != PROMISED
        {
            return Verdict::Refused(
                Status::ReadOnly,
                format!("read-only until opened anew: {error}"),
            );
        }
        for mutation in mutations {
            if let Err(message) = self.check(mutation) {
                return Verdict::Refused(Status::Invalid, message);
            }
        }
        if mutations.is_empty() {
            self.sync_empty_batch(id, durability);
            return Verdict::Taken;
        }
        let mut unseen = Unseen::default();
        match self.know_for_write(mutations, &mut unseen) {
            Known::All => {}
            Known::NotYet => return Verdict::Awaits,
            Known::Failed(error) => return unread(&error),
        }
        if self.poisoned.is_some() {
            // It was promised.
            self.apply_in_memory(mutations);
            return Verdict::Taken;
        }
        if let [mutation] = mutations
            && self.absorb(mutation)
        {
            self.stats.user_bytes += mutation.bytes() as u64;
            self.acknowledge_at(id, durability);
            return Verdict::Taken;
        }
        let Some((forms, bytes)) = self.plan(mutations) else {
            return Verdict::Refused(
                Status::Invalid,
                "the batch does not fit in one frame".into(),
            );
        };
        let reserve = self.reserve(mutations, &forms);
        if id != PROMISED && !self.fits_beside(mutations, &forms, reserve) {
            match self.know_exactly_for_write(mutations) {
                Known::NotYet => return Verdict::Awaits,
                Known::Failed(error) => return unread(&error),
                Known::All => unseen = Unseen::default(),
            }
            if let Some(message) = self.exceeds_capacity(mutations, &forms, reserve) {
                return Verdict::Refused(Status::NoSpace, message);
            }
        }
        let volatile = self.log.volatile_bytes;
        let payload = mutations.iter().map(Mutation::bytes).sum::<usize>() as u64;
        if volatile > 0 && volatile + payload > self.settings.options.write_buffer_bytes {
            self.group.force = true;
            self.maintenance.buffer_awaited = payload;
            return Verdict::Stall;
        }
        let extents = forms
            .iter()
            .zip(mutations)
            .filter(|(form, _)| **form == Form::Extent);
        let wanted = self.extent_segments(extents.map(|(_, mutation)| value_bytes(mutation)))
            + u64::from(self.log.needs_segment(bytes));
        let tail_rewrite = self.tail_rewrite_of(reserve);
        // A delete makes room. Where nothing else does, it may use what is kept back, though a small durable one takes a block of it.
        let at_last =
            self.maintenance.reclaim_exhausted() && forms.iter().all(|form| *form == Form::Delete);
        let in_reserve = self.log.is_in_reserve()
            || (self.extents.is_in_reserve() && forms.contains(&Form::Extent));
        let waits_for_reserve = in_reserve && !at_last;
        let floor = match wanted {
            0 if waits_for_reserve => self.shared_floor(),
            0 => self.gc_floor(),
            _ if at_last => self.shared_floor(),
            _ => self.user_floor(),
        };
        let free = self.segments.free_above(floor + tail_rewrite);
        let asks = wanted + tail_rewrite > 0 || waits_for_reserve;
        if asks && free.is_none_or(|free| free < wanted) {
            // It was promised too, and syncs still count.
            if let Some(error) = self.refuses_writes() {
                let message = format!("no space can be reclaimed any more: {error}");
                return Verdict::Refused(Status::NoSpace, message);
            }
            self.note_stall(wanted, tail_rewrite);
            return Verdict::Stall;
        }
        self.note_blind(unseen);
        self.apply(mutations, &forms, bytes);
        self.log.unproven.add(reserve);
        self.stats.user_bytes += payload;
        self.acknowledge_at(id, durability);
        Verdict::Taken
    }

    /// Answers a write that was taken: now, or when the log is durable up to here.
    fn acknowledge_at(&mut self, id: RequestId, durability: Durability) {
        match durability {
            Durability::Durable if !mutant(Mutant::FlushOnATimer) => {
                self.wait_durable(id, self.log.last_record);
            }
            _ => {
                self.note_relaxed();
                self.reply(id, Reply::Done);
            }
        }
    }

    /// Overwrites the record of the key's newest version in place, if it is in the open frame, has the same size, and
    /// no snapshot reads it. A frame survives as a whole or not at all, so no reader can tell that the older of the two
    /// writes is missing. What is overwritten often then costs neither log nor garbage collection.
    fn absorb(&mut self, mutation: &Mutation<'_>) -> bool {
        let Mutation::Put { key, value } = mutation else {
            return false;
        };
        if mutant(Mutant::AbsorbedIntoSealedFrame) && self.absorb_late(key, value) {
            return true;
        }
        let Some((since, from)) = self.log.may_absorb(key) else {
            return false;
        };
        let Some(Version { sequence, place }) = self.index.newest_unheld(key, since) else {
            return false;
        };
        match place {
            Place::Log {
                lsn,
                value_bytes,
                tag: old,
            } if *lsn >= from && *value_bytes as usize == value.len() => {
                *old = tag(self.log.overwrite(*lsn, *sequence, key, value));
                if !mutant(Mutant::AbsorbedValueCached) {
                    self.cache.remove(*lsn);
                    if self.cache.takes(value.len()) {
                        self.cache.insert(*lsn, (*value).into());
                    }
                }
                self.stats.absorbed_bytes += mutation.bytes() as u64;
                true
            }
            _ => false,
        }
    }

    /// Puts the value of a record that is on its way to the device into the cache, and nowhere else.
    fn absorb_late(&mut self, key: &[u8], value: &[u8]) -> bool {
        let (from, to) = match (self.log.frames.front(), self.log.frames.back()) {
            (Some(first), Some(last)) => (first.lsn, last.end),
            _ => return false,
        };
        match self.index.newest(key).map(|version| &version.place) {
            Some(Place::Log {
                lsn, value_bytes, ..
            }) if (from..to).contains(lsn) && *value_bytes as usize == value.len() => {
                self.cache.remove(*lsn);
                self.cache.insert(*lsn, value.into());
                true
            }
            _ => false,
        }
    }

    /// A batch without mutations promises what a sync promises, or nothing.
    fn sync_empty_batch(&mut self, id: RequestId, durability: Durability) {
        match durability {
            Durability::Durable if !mutant(Mutant::EmptyBatchDoesNotWait) => self.sync(id),
            _ => self.reply(id, Reply::Done),
        }
    }

    fn check(&self, mutation: &Mutation<'_>) -> Result<(), String> {
        let key_bytes = mutation.key().len();
        if key_bytes == 0 || key_bytes > KEY_BYTES_MAX {
            return Err(format!(
                "a key of {key_bytes} bytes: keys are 1..={KEY_BYTES_MAX} bytes"
            ));
        }
        let max = self.settings.options.max_value_bytes;
        if value_bytes(mutation) > max {
            return Err(format!(
                "a value of {} bytes: values are at most {max} bytes",
                value_bytes(mutation)
            ));
        }
        if Pointer::encoded_bytes_of(self.chunks_max(value_bytes(mutation)))
            > self.pointer_bytes_max()
        {
            return Err(format!(
                "a value of {} bytes has too many chunks for this segment size",
                value_bytes(mutation)
            ));
        }
        Ok(())
    }

    /// The largest value that lies in the log or the index: larger records would leave too much of a segment unused at its end.
    pub(crate) fn log_value_bytes_max(&self) -> u64 {
        let large = self.settings.options.large_value_bytes;
        large.min(self.geometry.payload_bytes() / 8)
    }

    /// Where each value goes so that all records fit in one frame; `None` if there is no way.
    fn plan(&self, mutations: &[Mutation<'_>]) -> Option<(Vec<Form>, usize)> {
        let options = &self.settings.options;
        let usual = self.log_value_bytes_max();
        let smallest = self.geometry.block_bytes.min(usual);
        for large in [usual, smallest] {
            let mut bytes = 0;
            let form = |mutation: &Mutation<'_>| match mutation {
                Mutation::Delete { .. } => Form::Delete,
                Mutation::Put { value, .. } if value.len() as u64 <= options.inline_bytes => {
                    Form::Inline
                }
                Mutation::Put { value, .. } if value.len() as u64 <= large => Form::Log,
                Mutation::Put { .. } => Form::Extent,
            };
            let forms: Vec<Form> = mutations.iter().map(form).collect();
            for (mutation, form) in mutations.iter().zip(&forms) {
                let value = crate::format::to_usize(value_bytes(mutation));
                let in_log = match form {
                    Form::Extent => Pointer::encoded_bytes_of(self.chunks_max(value as u64)),
                    _ => value,
                };
                bytes += record_bytes(mutation.key().len(), in_log);
            }
            if bytes <= Log::body_bytes_max(&self.geometry) {
                return Some((forms, bytes));
            }
        }
        None
    }

    /// What a recovery would have to write anew if these were not proven.
    fn reserve(&self, mutations: &[Mutation<'_>], forms: &[Form]) -> RecoveryReserve {
        let mut reserve = RecoveryReserve::default();
        for (mutation, form) in mutations.iter().zip(forms) {
            let value = value_bytes(mutation);
            match form {
                Form::Delete => {}
                // The next opening may have other options.
                Form::Inline if value <= INLINE_BYTES_ALWAYS => {}
                Form::Inline | Form::Log => {
                    let value = crate::format::to_usize(value);
                    reserve.log_bytes += record_bytes(mutation.key().len(), value) as u64;
                }
                Form::Extent => reserve.extent_bytes += self.geometry.block_up(value),
            }
        }
        reserve
    }

    /// Whether memory has no entry of a deleted key and the runs may have one.
    fn leaves_key_to_runs(&self, key: &[u8]) -> bool {
        let lost = match self.is_unloaded(key) {
            true => mutant(Mutant::UnloadedDeleteLost),
            false => mutant(Mutant::BlindDeleteLost),
        };
        self.index.newest(key).is_none() && !self.knows(key) && !lost
    }

    /// Takes the write: positions, log records, extents, index.
    fn apply(&mut self, mutations: &[Mutation<'_>], forms: &[Form], bytes: usize) {
        self.log.make_room_for_client(&mut self.segments, bytes);
        for (at, (mutation, form)) in mutations.iter().zip(forms).enumerate() {
            if mutant(Mutant::BatchSplitOverFrames) && at == 1 {
                self.log.seal(&mut self.segments);
                self.log.make_room(&mut self.segments, bytes);
            }
            let sequence = self.log.next_sequence;
            self.log.next_sequence += 1;
            let key = mutation.key();
            let place = match (mutation, form) {
                (Mutation::Delete { .. }, _) => {
                    self.log.append(RecordKind::Delete, sequence, key, &[]);
                    Place::Tombstone
                }
                (Mutation::Put { value, .. }, Form::Extent) => {
                    let pointer = self.write_extents(value);
                    self.log
                        .append(RecordKind::PutExtent, sequence, key, &pointer.encode());
                    Place::Extent(Box::new(pointer))
                }
                (Mutation::Put { value, .. }, form) => {
                    let (lsn, checksum) = self.log.append(RecordKind::Put, sequence, key, value);
                    if *form == Form::Inline {
                        Place::Inline((*value).into())
                    } else {
                        if self.cache.takes(value.len()) {
                            self.cache.insert(lsn, (*value).into());
                        }
                        Place::Log {
                            lsn,
                            value_bytes: crate::format::len32(value.len()),
                            tag: tag(checksum),
                        }
                    }
                }
            };
            self.set_newest_or_deleted(key, Version { sequence, place });
        }
    }

    /// Takes a write that can no longer come to the device: nobody may read what it replaces.
    fn apply_in_memory(&mut self, mutations: &[Mutation<'_>]) {
        self.reached(CoveragePoint::PromiseKeptInMemory);
        self.has_memory_only = !mutant(Mutant::BrokenPromiseUnnoticed);
        if mutant(Mutant::PromisedWriteForgotten) {
            return;
        }
        for mutation in mutations {
            let sequence = self.log.next_sequence;
            self.log.next_sequence += 1;
            let place = match mutation {
                Mutation::Delete { .. } => Place::Tombstone,
                Mutation::Put { value, .. } => Place::Inline((*value).into()),
            };
            self.set_newest_or_deleted(mutation.key(), Version { sequence, place });
        }
    }

    fn set_newest_or_deleted(&mut self, key: &[u8], version: Version) {
        let (sequence, deleted) = (version.sequence, version.place == Place::Tombstone);
        self.set_newest(key, version);
        if deleted && self.leaves_key_to_runs(key) {
            self.index.note_deleted(key, sequence);
        }
    }
}

pub(crate) fn value_bytes(mutation: &Mutation<'_>) -> u64 {
    mutation.value_bytes() as u64
}
