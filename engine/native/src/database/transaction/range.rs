//! What a transaction sees of a range: what there is, and its own writes in it.
//!
//! Invariant: what the iterator has passed is what the transaction has read, and no more: from either end up to the last key that it gave, or all of it
//! once it has said that there is nothing more.

use std::collections::VecDeque;
use std::ops::Bound;

use super::super::conditional::RangeCondition;
use super::super::range::{OwnedEntry, Range};
use super::Transaction;
use crate::api::error::Failure;
use crate::api::key_prefix::KeyPrefix;
use crate::api::key_range::{Bounds, KeyRange, successor};
use crate::cache::borrowed::Value;

/// Goes through the entries of a range as a transaction sees them, from both ends. Made by [`Transaction::range`].
#[derive(Debug)]
pub struct TransactionRange<'a> {
    transaction: &'a mut Transaction,
    /// What all keys have, and what is left out of those that it gives.
    prefix: KeyPrefix,
    bounds: Bounds,
    /// When the database's entries were read.
    read_at: Option<u64>,
    entries: Range,
    own: VecDeque<(Box<[u8]>, Option<Value>)>,
    front: End,
    back: End,
    /// It has said that there is nothing more.
    is_done: bool,
    has_failed: bool,
}

/// One end.
#[derive(Debug, Default)]
struct End {
    /// The database's entry that comes next.
    next: Option<OwnedEntry>,
    /// The database's entries that were passed, in the order of this end.
    passed: Vec<OwnedEntry>,
    /// The last key that was passed, whosever it is.
    last: Option<Box<[u8]>>,
}

impl Transaction {
    /// Goes through a range of keys, with what this transaction has written in it. The transaction commits only if what was passed is the same then: no entry has changed
    /// or gone, and none has come. What lies beyond the last entry that was taken may change.
    ///
    /// Where the transaction is one of a snapshot, it is read there, and otherwise as it is now. Each call looks anew.
    ///
    /// # Errors
    /// As for [`Database::range`](crate::Database::range).
    ///
    /// ```
    /// # use kvsim_native::{Checked, Database, Durability, OpenOptions, Prefix};
    /// # let directory = tempfile::tempdir()?;
    /// # let database = Database::open(&directory.path().join("database"), &OpenOptions::default())?;
    /// let mut transaction = database.transaction();
    /// let guests = transaction.range(Prefix("guest/"))?.count();
    /// transaction.put(b"guest/Ada", b"").put(b"guests", &[guests as u8 + 1]);
    /// assert_eq!(transaction.range(Prefix("guest/"))?.count(), 1);
    /// database.put(b"guest/Grace", b"", Durability::Relaxed)?;
    /// let checked = transaction.commit(Durability::Durable)?;
    /// assert_eq!(checked, Checked::Changed { key: b"guest/Grace".as_slice().into() });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn range(&mut self, range: impl KeyRange) -> Result<TransactionRange<'_>, Failure> {
        self.range_within(KeyPrefix::default(), &range)
    }

    /// Goes through a range of the keys that have this prefix, and leaves the prefix out.
    pub(crate) fn range_within(
        &mut self,
        prefix: KeyPrefix,
        range: &impl KeyRange,
    ) -> Result<TransactionRange<'_>, Failure> {
        let bounds = prefix.bounds(range);
        let (snapshot, read_at) = match &self.snapshot {
            Some(snapshot) => (snapshot.clone(), None),
            None => {
                let (snapshot, changes) = self.database.snapshot_and_changes()?;
                (snapshot, Some(changes))
            }
        };
        let own = match (&bounds.start, &bounds.end) {
            // The map would take bounds that are the wrong way round for a mistake.
            (Some(start), Some(end)) if start >= end => VecDeque::new(),
            (start, end) => {
                let start = start.as_deref().map_or(Bound::Unbounded, Bound::Included);
                let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                let own = self.written.range::<[u8], _>((start, end));
                own.map(|(key, value)| (key.clone(), value.clone()))
                    .collect()
            }
        };
        Ok(TransactionRange {
            entries: snapshot.within(bounds.clone()),
            transaction: self,
            prefix,
            bounds,
            read_at,
            own,
            front: End::default(),
            back: End::default(),
            is_done: false,
            has_failed: false,
        })
    }
}

impl End {
    /// Passes the database's entry that comes next.
    fn pass(&mut self) -> Option<OwnedEntry> {
        let entry = self.next.take()?;
        self.passed.push(entry.clone());
        self.last = Some(entry.key.clone());
        Some(entry)
    }

    /// Passes a key of the transaction's own, and the database's entry of that key.
    fn pass_own(&mut self, (key, value): (Box<[u8]>, Option<Value>)) -> Option<OwnedEntry> {
        if self.next.as_ref().is_some_and(|entry| entry.key == key) {
            self.pass();
        }
        self.last = Some(key.clone());
        value.map(|value| OwnedEntry { key, value })
    }
}

impl Iterator for TransactionRange<'_> {
    type Item = Result<OwnedEntry, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.front.next.is_none() {
                self.front.next = match self.entries.next() {
                    Some(Ok(entry)) => Some(entry),
                    Some(Err(failure)) => return Some(Err(self.fail(failure))),
                    None => self.back.next.take(),
                };
            }
            let own_is_next = match (self.own.front(), &self.front.next) {
                (Some((own, _)), Some(entry)) => *own <= entry.key,
                (own, _) => own.is_some(),
            };
            if !own_is_next {
                let entry = self.front.pass();
                self.is_done |= entry.is_none() && !self.has_failed;
                return entry.map(|entry| Ok(self.shown(entry)));
            }
            let own = self.own.pop_front().expect("it is next");
            if let Some(entry) = self.front.pass_own(own) {
                return Some(Ok(self.shown(entry)));
            }
        }
    }
}

impl DoubleEndedIterator for TransactionRange<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            if self.back.next.is_none() {
                self.back.next = match self.entries.next_back() {
                    Some(Ok(entry)) => Some(entry),
                    Some(Err(failure)) => return Some(Err(self.fail(failure))),
                    None => self.front.next.take(),
                };
            }
            let own_is_next = match (self.own.back(), &self.back.next) {
                (Some((own, _)), Some(entry)) => *own >= entry.key,
                (own, _) => own.is_some(),
            };
            if !own_is_next {
                let entry = self.back.pass();
                self.is_done |= entry.is_none() && !self.has_failed;
                return entry.map(|entry| Ok(self.shown(entry)));
            }
            let own = self.own.pop_back().expect("it is next");
            if let Some(entry) = self.back.pass_own(own) {
                return Some(Ok(self.shown(entry)));
            }
        }
    }
}

impl std::iter::FusedIterator for TransactionRange<'_> {}

impl TransactionRange<'_> {
    fn shown(&self, entry: OwnedEntry) -> OwnedEntry {
        OwnedEntry {
            key: self.prefix.strip(entry.key),
            ..entry
        }
    }

    /// After an error there is nothing more, and what lies between the two ends was not read.
    fn fail(&mut self, failure: Failure) -> Failure {
        self.has_failed = true;
        self.own.clear();
        (self.front.next, self.back.next) = (None, None);
        failure
    }
}

/// What was passed has been read.
impl Drop for TransactionRange<'_> {
    fn drop(&mut self) {
        let (front, back) = (&mut self.front, &mut self.back);
        back.passed.reverse();
        let mut note = |start, end, entries| {
            let bounds = Bounds { start, end };
            let range = RangeCondition::new(bounds, entries, self.read_at);
            self.transaction.read_ranges.push(range);
        };
        let Bounds { start, end } = self.bounds.clone();
        if self.is_done {
            front.passed.append(&mut back.passed);
            return note(start, end, std::mem::take(&mut front.passed));
        }
        if let Some(last) = &front.last {
            let passed = std::mem::take(&mut front.passed);
            note(start, Some(successor(last)), passed);
        }
        if let Some(last) = &back.last {
            let passed = std::mem::take(&mut back.passed);
            note(Some(last.to_vec()), end, passed);
        }
    }
}
