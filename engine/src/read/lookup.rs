//! Looking up entries of the index that are not in memory: which keys memory knows of, and reads of runs for those that it does not.
//!
//! A lookup reads, of each run of the key's partition that may have the key, the one leaf that does, the newest run first. What it finds goes into memory, and then those who
//! wait for it are answered. A get waits for its own lookup only. A write mostly does not wait (`blind.rs`). Where it does, it waits until all its keys are known, and whatever was
//! handed in behind it waits too.
//!
//! Invariants:
//! - memory knows of a key if its partition is whole, if it has an entry or was removed since the last checkpoint, if the filters deny it, or if a lookup has just
//!   found that no run has it;
//! - whenever a key becomes known, the gets that wait for it are answered before anything else happens to the key. So each takes effect in the order in which it was handed in;
//! - what was read from a run counts only if no checkpoint was published since the lookup began. Until then whatever has changed is in memory, and may not be forgotten;
//! - a key that somebody waits for stays in memory until they have seen it;
//! - as long as the index is being loaded, nothing leaves memory: what memory knows of counts, and is not counted again.

use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::api::port::{DiskOp, IoResult, Request, RequestId};
use crate::core::{Core, live_bytes};
use crate::format::damage::Mismatch;
use crate::format::frame;
use crate::format::page::{Page, PageRef, Tree};
use crate::index::entry::decode;
use crate::index::key::Key;
use crate::index::place::{Place, Version};
use crate::index::table::Slot;
use crate::mutant::{Mutant, mutant};
use crate::read::blind::Of;
use crate::read::waiting::{Found, Lookup};
use crate::runtime::flight::Owner;
use crate::runtime::handle::Handle;
use crate::runtime::request::Verdict;

/// Lookups on behalf of writes and tasks. Each has a page in memory.
const LOOKUPS_MAX: usize = 64;
/// Entries that one call looks at to find some that can be forgotten.
const FORGET_LOOKS: usize = 512;
/// The same where there are far too many, as after a scan.
const FORGET_LOOKS_MAX: usize = 4096;
/// Entries that are looked at for each that is to be forgotten.
const KEPT_LOOKS: u64 = 4;
/// Of the bound of entries, what makes no room for values and leaves.
const LEFT_SHARE: u64 = 8;

/// Whether memory knows of all that a request asks for.
#[derive(Debug)]
pub(crate) enum Known {
    All,
    /// Lookups are under way.
    NotYet,
    Failed(Error),
}

impl Core {
    /// Whether entries may leave memory.
    pub(crate) fn forgets(&self) -> bool {
        self.settings.options.index_bytes > 0
    }

    /// What entries may take of memory: of what the index may, where filters, the first keys of leaves and kept leaves take the rest, and at least the half.
    pub(crate) fn entries_bytes(&self) -> u64 {
        let all = self.settings.options.index_bytes;
        all - self.beside_entries_bytes().min(all / 2)
    }

    /// What the index takes of memory beside its entries.
    pub(super) fn beside_entries_bytes(&self) -> u64 {
        self.runs.memory_bytes()
            + self.lookups.kept_leaves_bytes()
            + self.lookups.blind.memory_bytes()
    }

    /// Whether memory knows what there is of a key.
    pub(crate) fn knows(&self, key: &[u8]) -> bool {
        if self.runs.are_whole() || self.index.is_known(key) {
            return true;
        }
        let key = Key::new(key);
        let Some(number) = self.runs.number_of(&key) else {
            return true;
        };
        let partition = &self.runs.partitions[number];
        partition.whole || partition.leaves_of(&key).next().is_none() || {
            let pin = self.lookups.pinned.get(&key);
            matches!(pin.and_then(|pin| pin.found.as_ref()),
                Some(Found::Absent { generation }) if *generation == self.lookups.generation)
        }
    }

    /// Looks up a key for a get.
    pub(crate) fn look_up_for(&mut self, id: RequestId, at: u64, key: &[u8]) {
        self.look_up(&Key::new(key), Some((id, at)));
    }

    /// Looks up a key that memory does not know of.
    pub(super) fn look_up(&mut self, key: &Key, get: Option<(RequestId, u64)>) {
        if let Some(lookup) = self.lookups.under_way.get_mut(key) {
            lookup.gets.extend(get);
            return;
        }
        if get.is_none() && self.lookups.under_way.len() >= LOOKUPS_MAX {
            return;
        }
        let lookup = Lookup {
            number: 0,
            generation: self.lookups.generation,
            leaves: self.leaves_of(key),
            leaf: PageRef::NONE,
            retried: false,
            gets: get.into_iter().collect(),
        };
        self.lookups.under_way.insert(key.clone(), lookup);
        self.read_next_leaf(key);
    }

    /// The leaves to read for a key, the first one last.
    fn leaves_of(&self, key: &Key) -> Vec<PageRef> {
        let Some(number) = self.runs.number_of(key) else {
            return Vec::new();
        };
        let leaves = self.runs.partitions[number].leaves_of(key);
        match mutant(Mutant::OldestRunFirst) {
            true => leaves.collect(),
            false => leaves.rev().collect(),
        }
    }

    fn read_next_leaf(&mut self, key: &Key) {
        let lookup = self
            .lookups
            .under_way
            .get_mut(key)
            .expect("it is under way");
        match lookup.leaves.pop() {
            Some(leaf) => {
                lookup.leaf = leaf;
                lookup.retried = false;
                match self.kept_leaf(&leaf) {
                    Some(bytes) => {
                        let found = self.find_in(&leaf, key, &bytes);
                        self.leaf_searched(key, &leaf, found);
                    }
                    None => self.read_leaf(key, leaf),
                }
            }
            None => {
                let generation = lookup.generation;
                if let Some(pin) = self.lookups.pinned.get_mut(key) {
                    pin.found = Some(Found::Absent { generation });
                }
                self.nothing_replaced(key);
                self.answer_lookup(key);
            }
        }
    }

    fn read_leaf(&mut self, key: &Key, leaf: PageRef) {
        let buffer = self.lookups.pages.take(leaf.len as usize);
        let number = self.lookups.next;
        self.lookups.next += 1;
        self.lookups.reading.insert(number, key.clone());
        let lookup = self
            .lookups
            .under_way
            .get_mut(key)
            .expect("it is under way");
        lookup.number = number;
        self.stats.index_reads += 1;
        let op = DiskOp::Read {
            offset: leaf.offset,
            buffer,
        };
        self.submit(Owner::Leaf { number }, op);
    }

    /// A leaf was read, or not.
    pub(crate) fn leaf_read(&mut self, number: u64, result: IoResult) {
        // Else memory knew of the key before the read has ended.
        let Some(key) = self.lookups.reading.remove(&number) else {
            return;
        };
        let (generation, now) = {
            let lookup = &self.lookups.under_way[&key];
            (lookup.generation, self.lookups.generation)
        };
        if generation != now {
            self.reached(CoveragePoint::EntryReadAgain);
            let leaves = self.leaves_of(&key);
            let lookup = self
                .lookups
                .under_way
                .get_mut(&key)
                .expect("it is under way");
            lookup.generation = now;
            lookup.leaves = leaves;
            return self.read_next_leaf(&key);
        }
        let leaf = self.lookups.under_way[&key].leaf;
        let found = match result {
            Ok(bytes) => {
                let bytes = bytes.expect("a read brings its buffer");
                let found = self.find_in(&leaf, &key, &bytes);
                self.lookups.pages.give(bytes);
                found
            }
            Err(error) => Err(error.into()),
        };
        self.leaf_searched(&key, &leaf, found);
    }

    /// Goes on with a lookup after one of its leaves.
    fn leaf_searched(&mut self, key: &Key, leaf: &PageRef, found: Result<Option<Version>, Error>) {
        match found {
            Ok(None) => {
                self.reached(CoveragePoint::EntryNotInRun);
                self.read_next_leaf(key);
            }
            Ok(Some(version)) if version.place == Place::Tombstone => {
                let lookup = self
                    .lookups
                    .under_way
                    .get_mut(key)
                    .expect("it is under way");
                lookup.leaves.clear();
                self.read_next_leaf(key);
            }
            Ok(Some(version)) => {
                self.reached(CoveragePoint::EntryRead);
                if let Err(mismatch) = self.learn(key, version) {
                    self.fail_lookup(key, &mismatch.at(leaf.offset).into());
                }
            }
            Err(error) => {
                let lookup = self
                    .lookups
                    .under_way
                    .get_mut(key)
                    .expect("it is under way");
                if std::mem::replace(&mut lookup.retried, true) {
                    return self.fail_lookup(key, &error);
                }
                self.reached(CoveragePoint::ReadRetried);
                self.read_leaf(key, *leaf);
            }
        }
    }

    /// What the leaf has of a key.
    fn find_in(&self, leaf: &PageRef, key: &Key, bytes: &[u8]) -> Result<Option<Version>, Error> {
        let find = || {
            let page = Page::decode(&self.id, Tree::Run, leaf, bytes)?;
            let payload = page.find(key.bytes())?;
            let decode = |payload| decode(&self.geometry, self.segments.count(), payload);
            payload.map(decode).transpose()
        };
        find().map_err(|mismatch: Mismatch| mismatch.at(leaf.offset).into())
    }

    /// Takes an entry of a run into memory, if memory does not know of the key.
    pub(crate) fn learn(&mut self, key: &Key, version: Version) -> Result<(), Mismatch> {
        if version.place == Place::Tombstone {
            return Ok(());
        }
        if self.subtract_replaced(key, &version)? {
            self.answer_lookup(key);
            return Ok(());
        }
        if self.index.is_known(key.bytes()) {
            self.answer_lookup(key);
            return Ok(());
        }
        if self.is_unloaded(key.bytes()) {
            self.count_loaded(key.bytes(), &version)?;
        } else {
            self.check_learnt(key, &version)?;
        }
        self.index.learn(key, version);
        self.answer_lookup(key);
        Ok(())
    }

    /// What an entry refers to is there: it was counted as the index was loaded. Where that was not read, because no value lay outside of the index, an entry of that time has its value in it.
    pub(super) fn check_learnt(&self, key: &Key, version: &Version) -> Result<(), Mismatch> {
        let is_outside = !matches!(version.place, Place::Tombstone | Place::Inline(_));
        if is_outside && version.sequence < self.none_outside_before {
            return Err(Mismatch {
                what: "value outside of an index that has all values",
                expected: self.none_outside_before,
                found: version.sequence,
            });
        }
        let next = self.log.next_sequence;
        if self.none_outside_before > 0 && version.sequence >= next {
            return Err(Mismatch {
                what: "version newer than the log",
                expected: next,
                found: version.sequence,
            });
        }
        match &version.place {
            Place::Tombstone | Place::Inline(_) => Ok(()),
            Place::Log {
                lsn, value_bytes, ..
            } => {
                let bytes = live_bytes(key.bytes(), *value_bytes);
                frame::check_record_place(&self.geometry, *lsn, bytes)?;
                match self.segments.of_lsn(*lsn) {
                    Some(_) => Ok(()),
                    None => Err(Mismatch::outside_log(*lsn)),
                }
            }
            Place::Extent(pointer) => {
                let mut chunks = pointer.chunks.iter();
                match chunks.find(|chunk| !self.extents.is_owned(chunk.offset)) {
                    Some(chunk) => Err(Mismatch {
                        what: "chunk of no value",
                        expected: 0,
                        found: chunk.offset,
                    }),
                    None => Ok(()),
                }
            }
        }
    }

    /// Memory knows of the key: answers those who wait.
    pub(crate) fn answer_lookup(&mut self, key: &Key) {
        if let Some(lookup) = self.lookups.under_way.remove(key) {
            self.lookups.reading.remove(&lookup.number);
            self.activity += 1;
            for (id, at) in lookup.gets {
                self.answer_get(id, at, key.bytes());
            }
        }
    }

    fn fail_lookup(&mut self, key: &Key, error: &Error) {
        let lookup = self.lookups.under_way.remove(key).expect("it is under way");
        self.activity += 1;
        self.leave_replaced(key, error, Of::Now);
        if let Some(pin) = self.lookups.pinned.get_mut(key) {
            pin.found = Some(Found::Failed(error.clone()));
        }
        for (id, _) in lookup.gets {
            self.fail(id, error.status(), message_of(error));
        }
    }

    /// The runs are others, or a partition is whole: of some keys memory may know now.
    pub(crate) fn answer_known_lookups(&mut self) {
        let keys = self.lookups.under_way.keys();
        let known = keys.filter(|key| !self.has_to_look_up(key));
        for key in known.cloned().collect::<Vec<_>>() {
            self.answer_lookup(&key);
        }
    }

    /// Begins to look up what blind writes have replaced, as far as few enough lookups are under way.
    pub(crate) fn look_up_replaced(&mut self) {
        while self.lookups.under_way.len() < LOOKUPS_MAX
            && let Some(key) = self.lookups.blind.next()
        {
            if self.lookups.blind.has(&key) {
                self.look_up(&key, None);
            }
        }
    }

    /// Whether memory knows of a key, and of nothing else that still counts.
    fn knows_exactly(&self, key: &Key) -> bool {
        self.knows(key.bytes()) && !self.lookups.blind.counts(key)
    }

    /// Whether a lookup in the runs of now says something that is not known.
    fn has_to_look_up(&self, key: &Key) -> bool {
        !self.knows(key.bytes()) || self.lookups.blind.has(key)
    }

    /// The request that waited first is done: what it has come to know may leave memory.
    pub(crate) fn forget_request(&mut self) {
        for key in std::mem::take(&mut self.lookups.awaited) {
            self.lookups.unpin(&key);
        }
        self.lookups.window = None;
    }

    /// Begins to look up what a request will ask for that waits behind another.
    pub(crate) fn look_ahead(&mut self, request: &Request<'_>) {
        if self.runs.are_whole() {
            return;
        }
        let mut ahead = |key: &[u8]| {
            if !self.knows(key) {
                self.look_up(&Key::new(key), None);
            }
        };
        match request {
            Request::Get { key, .. } => ahead(key),
            Request::Write { mutations, .. } => {
                mutations.iter().for_each(|mutation| ahead(mutation.key()));
            }
            _ => {}
        }
    }

    /// Has entries leave memory as long as there are too many, and as far as one call goes. Returns whether some left and there are still too many.
    pub(crate) fn forget_some(&mut self) -> bool {
        if self.forgets() {
            self.bound_kept_leaves();
        }
        let bound = self.entries_bytes();
        let mut looks = match self.index.memory_bytes() > bound + bound / 4 {
            true => FORGET_LOOKS_MAX,
            false => FORGET_LOOKS,
        };
        let mut forgot = false;
        while self.forgets()
            && self.loading.is_none()
            && self.index.has_to_forget(bound)
            && looks > 0
        {
            looks -= 1;
            let Some((slot, number)) = self.next_to_forget(bound) else {
                continue;
            };
            self.runs.set_whole(number, false);
            self.index.forget(slot);
            forgot = true;
        }
        if forgot {
            self.reached(CoveragePoint::EntriesForgotten);
            if self.index.memory_bytes() <= bound {
                self.index.look_again();
            }
        }
        forgot && self.index.has_to_forget(bound)
    }

    /// Looks at the next entry. Its number and that of its partition, if it may leave memory.
    fn next_to_forget(&mut self, bound: u64) -> Option<(Slot, usize)> {
        let slot = self.index.next_to_forget(bound)?;
        let (key, _) = self.index.entry(slot).expect("it was just found");
        // Without a partition no run has it.
        let number = self.runs.number_of(key)?;
        (!self.lookups.needs(key)).then_some((slot, number))
    }

    /// Gets have found so many values in runs, and the driver keeps them: as many entries that nobody has changed are worth less than what the driver could keep instead of them.
    pub(crate) fn make_room_for_kept(&mut self, values: u64) {
        self.forget_down_to(self.entries_bytes() / LEFT_SHARE, values);
    }

    /// Has so many entries leave memory, as long as they take more than this. Partitions that are whole stay so, unless there are too many entries at all.
    pub(super) fn forget_down_to(&mut self, left: u64, mut entries: u64) {
        if !self.forgets() || self.loading.is_some() {
            return;
        }
        let bound = self.entries_bytes();
        let mut looks = entries.saturating_mul(KEPT_LOOKS).min(FORGET_LOOKS as u64);
        while entries > 0 && looks > 0 && self.index.has_to_forget(left) {
            looks -= 1;
            let Some((slot, number)) = self.next_to_forget(left) else {
                continue;
            };
            if !self.runs.partitions[number].whole || self.index.memory_bytes() > bound {
                self.runs.set_whole(number, false);
                self.index.forget(slot);
                entries -= 1;
            }
        }
    }

    /// What was to be written is written: its entries may leave memory.
    pub(crate) fn keep_no_longer(&mut self) {
        self.lookups.kept = None;
    }
}

/// A request that needs an entry which cannot be read.
pub(crate) fn unread(error: &Error) -> Verdict {
    Verdict::Refused(error.status(), message_of(error))
}

pub(super) fn message_of(error: &Error) -> String {
    format!("an entry of the index could not be read: {error}")
}

/// Keys that stay in memory for a task until they are let go.
pub(crate) struct Pinned<'a> {
    handle: &'a Handle,
    keys: Vec<Key>,
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        self.handle.with(|core| {
            self.keys.iter().for_each(|key| core.lookups.unpin(key));
        });
    }
}

/// Waits until memory knows of all these keys, and what they have replaced is subtracted. Keeps it so. `waited` is the point that is reached if there is anything to wait for.
pub(crate) async fn know<'a>(
    handle: &'a Handle,
    keys: impl Iterator<Item = &[u8]>,
    waited: CoveragePoint,
) -> Result<Pinned<'a>, Error> {
    let whole = handle.with(|core| core.runs.are_whole());
    let keys: Vec<Key> = keys.filter(|_| !whole).map(Key::new).collect();
    handle.with(|core| keys.iter().for_each(|key| core.lookups.pin(key)));
    let pinned = Pinned { handle, keys };
    for some in pinned.keys.chunks(LOOKUPS_MAX / 2) {
        let mut waits = false;
        let known = handle.until(|core| {
            for key in some {
                if let Some(error) = core.lookups.failure_of(key) {
                    return Some(Err(error));
                }
                if core.has_to_look_up(key) {
                    core.look_up(key, None);
                }
            }
            let all = some.iter().all(|key| core.knows_exactly(key));
            if !all && !std::mem::replace(&mut waits, true) {
                core.reached(waited);
            }
            all.then_some(Ok(()))
        });
        known.await?;
    }
    Ok(pinned)
}
