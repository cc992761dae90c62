//! Whether a read that a client made shows a state that it may show.
//!
//! Under the strict contract a read sees exactly the writes handed in before it. A write that failed with a device error may be seen or
//! not, and one that is not answered may still fail. The policies of the guest allow more: see [`Oracle::replaces`] and [`Oracle::must_show`].
//!
//! Whatever the policies are, reads do not contradict each other:
//! - once a read has shown a write, a read that is handed in later shows it too, or a newer one;
//! - a read shows all of a batch or nothing of it;
//! - two reads of one snapshot show the same.

use crate::history::{NEVER, Pos, Version, WriteStatus};
use crate::keys::{Content, KeyId};
use crate::oracle::Oracle;
use crate::property::Property;
use crate::recoveries::verify::entry_bytes;
use crate::state::views::{Place, Provisional, ReadVerdict};
use crate::violation::{Facts, Symptom, Violation};
use kvsim_api::key::printable;
use kvsim_sim::api::{Direction, Scan, SnapshotId};
use kvsim_sim::{CommitOrder, ReadsSee};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

impl Oracle {
    /// Whether the guest states that its reads see, or its commits come, in another way than the strict contract says.
    fn is_lax(&self) -> bool {
        let policies = &self.config.policies;
        policies.commit_order != CommitOrder::Arrival || policies.reads == ReadsSee::Committed
    }

    pub(crate) fn read_verdict(&self, read: &Provisional) -> ReadVerdict {
        if self.is_lax() {
            return self.lax_verdict(read);
        }
        let state = self.history.state(read.key);
        let mut hangs = false;
        for version in state.back_from(read.place.pos) {
            let pending = self.history.is_pending(version);
            if version.content == read.content {
                return if hangs || pending {
                    ReadVerdict::Provisional
                } else {
                    ReadVerdict::Right
                };
            }
            let may_be_missing = version.optional && version.seen_at >= read.place.began;
            if !may_be_missing && !pending {
                return ReadVerdict::Wrong;
            }
            hangs |= pending;
        }
        match state.base() == read.content {
            false => ReadVerdict::Wrong,
            true if hangs => ReadVerdict::Provisional,
            true => ReadVerdict::Right,
        }
    }

    fn lax_verdict(&self, read: &Provisional) -> ReadVerdict {
        let candidates = self.candidates(read.key, read.content, read.place);
        let pending = |pos: &Pos| {
            self.history
                .write(*pos)
                .is_some_and(|write| write.status == WriteStatus::Pending)
        };
        match candidates.as_slice() {
            [] => ReadVerdict::Wrong,
            all if all.iter().all(pending) => ReadVerdict::Provisional,
            _ => ReadVerdict::Right,
        }
    }

    /// The writes that a read at this place may show, if it shows this content; 0 stands for what the key held before all of them.
    fn candidates(&self, key: KeyId, content: Content, place: Place) -> Vec<Pos> {
        let state = self.history.state(key);
        let lax = self.is_lax();
        let until = place.until.min(self.ops);
        let all = state.versions();
        let base = self.history.base_pos;
        let certain = |version: &Version| version.pos <= base && !version.optional;
        let recent = &all[all.iter().rposition(certain).unwrap_or(0)..];
        let hidden = |pos: Pos| {
            recent.iter().any(|other| {
                other.pos != pos && self.must_show(other, place) && self.replaces(other.pos, pos)
            })
        };
        let is_candidate = |version: &&Version| {
            let handed_in = if lax {
                self.op_of_write(version.pos) <= until
            } else {
                version.pos <= place.pos
            };
            version.content == content
                && handed_in
                && version.replaced_at >= place.began
                && !hidden(version.pos)
        };
        let mut found: Vec<Pos> = recent
            .iter()
            .filter(is_candidate)
            .map(|version| version.pos)
            .collect();
        if state.base() == content && !hidden(0) {
            found.push(0);
        }
        found
    }

    /// Whether a read at this place must show this write, or one that replaces it.
    fn must_show(&self, version: &Version, place: Place) -> bool {
        if version.seen_at < place.began {
            return true;
        }
        let write = self.history.write(version.pos);
        let Some(write) = write.filter(|_| version.pos > self.history.base_pos) else {
            // A recovery has shown it.
            return !version.optional;
        };
        let answered = !version.optional && write.status != WriteStatus::Pending;
        if !self.is_lax() {
            return answered && version.pos <= place.pos;
        }
        answered
            && match self.config.policies.reads {
                ReadsSee::Accepted => write.origin.op <= place.began,
                ReadsSee::Committed => write.ended_op < place.began,
            }
    }

    /// Whether a write takes the place of an earlier one: in the order of arrival, or in real time if commits come in any order.
    pub(crate) fn replaces(&self, later: Pos, earlier: Pos) -> bool {
        match self.config.policies.commit_order {
            _ if earlier <= self.history.base_pos => later > earlier,
            CommitOrder::Arrival => later > earlier,
            CommitOrder::Any | CommitOrder::Each => {
                self.ended_op(earlier) < self.op_of_write(later)
            }
        }
    }

    pub(crate) fn op_of_write(&self, pos: Pos) -> u64 {
        self.history.write(pos).map_or(0, |write| write.origin.op)
    }

    pub(crate) fn ended_op(&self, pos: Pos) -> u64 {
        self.history.write(pos).map_or(0, |write| write.ended_op)
    }

    /// Takes in what one answer has shown, each key of it by itself right: together it must be one state.
    pub(crate) fn take_shown(
        &mut self,
        op: u64,
        snapshot: SnapshotId,
        place: Place,
        page: &[(KeyId, Content)],
        what: &str,
    ) -> Result<(), Box<Violation>> {
        if let Some(known) = self.snapshots.get(&snapshot) {
            let mut shown = known.shown.clone();
            for &(key, content) in page {
                if let Some(before) = shown.insert(key, content)
                    && before != content
                {
                    return Err(self.snapshot_moved(op, key, before, content, what));
                }
            }
            self.whole_batches(op, place, &shown, what)?;
            if let Some(known) = self.snapshots.get_mut(&snapshot) {
                known.shown = shown;
            }
        } else if page.len() > 1 {
            let shown = page.iter().copied().collect();
            self.whole_batches(op, place, &shown, what)?;
        }
        let ops = self.ops;
        for &(key, content) in page {
            if !self.may_change(key) && !self.is_lax() {
                continue;
            }
            if let [pos] = self.candidates(key, content, place)[..] {
                self.history.see(key, content, pos, ops);
                if self.is_lax() && snapshot == 0 {
                    self.history.replace(key, pos, place.began, ops);
                }
            }
        }
        Ok(())
    }

    /// The writes of a key that a read at this place may show or not.
    fn in_doubt(&self, key: KeyId, place: Place) -> impl Iterator<Item = Pos> {
        let lax = self.is_lax();
        let versions = self.history.state(key).versions().iter().rev();
        versions
            .take_while(|version| version.pos > self.history.base_pos)
            .filter(move |version| {
                version.optional
                    || self.history.is_pending(version)
                    || (lax && self.ended_op(version.pos) >= place.began)
            })
            .map(|version| version.pos)
    }

    /// Whether reads of a key may differ although nothing is written to it.
    fn may_change(&self, key: KeyId) -> bool {
        let base = self.history.base_pos;
        let versions = self.history.state(key).versions().iter().rev();
        let mut recent = versions.take_while(|version| version.pos >= base);
        recent.any(|version| version.optional || self.history.is_pending(version))
    }

    /// No batch is shown in part.
    fn whole_batches(
        &self,
        op: u64,
        place: Place,
        shown: &BTreeMap<KeyId, Content>,
        what: &str,
    ) -> Result<(), Box<Violation>> {
        let of_several = |pos: &Pos| self.history.keys_of(*pos).len() > 1;
        let batches: BTreeSet<Pos> = shown
            .keys()
            .flat_map(|&key| self.in_doubt(key, place))
            .filter(of_several)
            .collect();
        for batch in batches {
            let (mut there, mut missing) = (None, None);
            for &key in self.history.keys_of(batch) {
                let Some(&content) = shown.get(&key) else {
                    continue;
                };
                let candidates = self.candidates(key, content, place);
                if candidates.iter().all(|&pos| pos == batch) {
                    there = Some(key);
                } else if candidates
                    .iter()
                    .all(|&pos| pos != batch && self.replaces(batch, pos))
                {
                    missing = Some(key);
                }
            }
            if let (Some(there), Some(missing)) = (there, missing) {
                return Err(self.half_batch(op, batch, there, missing, what));
            }
        }
        Ok(())
    }

    fn half_batch(
        &self,
        op: u64,
        batch: Pos,
        there: KeyId,
        missing: KeyId,
        what: &str,
    ) -> Box<Violation> {
        let sentence = format!(
            "{what} of op {op} shows a part of the batch of op {}: key {} as the batch wrote it, and key {} as it was before",
            self.op_of_write(batch),
            self.key_name(there),
            self.key_name(missing)
        );
        let origin = self.history.write(batch).map(|write| write.origin);
        let facts = Facts {
            read_op: Some(op),
            ..self.facts_of(missing, origin)
        };
        Violation::new(Property::ReadsAgree, Symptom::PartialBatch, sentence, facts)
    }

    fn snapshot_moved(
        &self,
        op: u64,
        key: KeyId,
        before: Content,
        now: Content,
        what: &str,
    ) -> Box<Violation> {
        let (before, now) = (self.describe(key, before), self.describe(key, now));
        let sentence = format!(
            "{what} of op {op} shows {now} for key {} where an earlier read of the same snapshot showed {before}",
            self.key_name(key)
        );
        let facts = Facts {
            expected: Some(before),
            found: Some(now),
            read_op: Some(op),
            ..self.facts_of(key, None)
        };
        Violation::new(Property::ReadsAgree, Symptom::ReadsDiffer, sentence, facts)
    }

    /// What is wrong with the end of a page that says that the range holds more: there is nothing more, or the page has no reason to end.
    pub(crate) fn wrong_end(
        &self,
        scan: &Scan,
        place: Place,
        entries: &[(Vec<u8>, Vec<u8>)],
    ) -> Option<String> {
        if let Some(short) = self.ends_without_reason(scan, entries) {
            return Some(short);
        }
        let (last, _) = entries.last()?;
        let (low, high) = match scan.direction {
            Direction::Forward => (
                Bound::Excluded(&last[..]),
                scan.end
                    .as_deref()
                    .map_or(Bound::Unbounded, Bound::Excluded),
            ),
            Direction::Reverse => (
                scan.start
                    .as_deref()
                    .map_or(Bound::Unbounded, Bound::Included),
                Bound::Excluded(&last[..]),
            ),
        };
        let mut rest = self.history.keys.range(low, high);
        if rest.any(|(_, key)| self.may_be_present(key, place)) {
            return None;
        }
        Some(format!(
            "says that there is more after key {}, and nothing is",
            printable(last)
        ))
    }

    /// A page that says that there is more ends at its limit, or where the next entry might not fit.
    pub(crate) fn ends_without_reason(
        &self,
        scan: &Scan,
        entries: &[(Vec<u8>, Vec<u8>)],
    ) -> Option<String> {
        let bytes = entry_bytes(entries);
        let is_full = entries.len() >= scan.limit as usize
            || bytes + self.largest_entry_bytes > scan.max_bytes as usize;
        (!is_full).then(|| {
            format!(
                "ends after {} entries and {bytes} bytes and says that there is more, although {} entries and {} bytes were asked for",
                entries.len(),
                scan.limit,
                scan.max_bytes
            )
        })
    }

    /// Whether a read at this place may show the key at all.
    fn may_be_present(&self, key: KeyId, place: Place) -> bool {
        let state = self.history.state(key);
        let until = if self.is_lax() { Pos::MAX } else { place.pos };
        for version in state.back_from(until) {
            if !version.content.is_absent() {
                return true;
            }
            let is_certain = !version.optional && !self.history.is_pending(version);
            if is_certain && !self.is_lax() {
                return false;
            }
        }
        !state.base().is_absent()
    }

    /// A snapshot with a number that another one has had in this process run.
    pub(crate) fn snapshot_again(&self, op: u64, id: SnapshotId) -> Box<Violation> {
        let sentence = format!(
            "the snapshot of op {op} has number {id}, which another snapshot has had since the guest was opened"
        );
        let facts = Facts {
            op: Some(op),
            ..self.facts()
        };
        Violation::new(
            Property::ReadsAgree,
            Symptom::SnapshotReused,
            sentence,
            facts,
        )
    }

    /// A place for a read that is handed in now.
    pub(crate) fn place_now(&self, op: u64) -> Place {
        Place {
            pos: self.history.last_pos(),
            began: op,
            until: NEVER,
        }
    }
}
