//! The ordered cache: ranges of keys of which *every* key is here, so that a scan within them asks nobody else.
//!
//! A range is cut into spans, each with one leaf of rows. A scan finds the span of its first key, and takes a reference
//! to this leaf and to those that follow without a gap. It reads the rows afterwards. So all of a scan is of one
//! moment.
//!
//! Invariants:
//! - of the keys of a span, exactly those that the database holds are in its leaf, with their newest values;
//! - spans do not overlap; neighbours without a gap share a bound;
//! - everything that changes is changed with the engine's lock held, so there is one writer at a time.

#[cfg(test)]
mod tests;
mod walk;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kvsim_engine::Key;

use crate::cache::borrowed::split;
use crate::cache::leaf::Leaf;

/// A leaf with more rows is cut in two.
const LEAF_ROWS_MAX: usize = 64;
/// Rows of a leaf that is filled at once: there is room for some more.
const LEAF_ROWS_FILLED: usize = 48;
/// With no more rows a leaf may become part of the one before it.
const LEAF_ROWS_FEW: usize = 16;
/// A span that is written so often while no scan comes by is not worth its upkeep.
const WRITES_UNSCANNED_MAX: u32 = 256;
/// What a span costs beside its bounds and rows.
const SPAN_OVERHEAD_BYTES: usize = 256;

/// All keys from one on (by which it is found) to another.
#[derive(Debug)]
struct Span {
    /// Exclusive; none: all keys that follow.
    until: Option<Key>,
    leaf: Arc<Leaf>,
    /// A scan has been here since eviction last came by.
    referenced: AtomicBool,
    /// Writes since one last saw that a scan had been here.
    writes: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Ranges {
    spans: BTreeMap<Key, Span>,
    bytes: usize,
    /// Eviction goes on behind this key.
    hand: Option<Key>,
    /// Writes that will take effect at some time from now on: until they have, nothing is put here.
    fences: u32,
}

impl Span {
    fn new(until: Option<Key>, leaf: Leaf) -> Span {
        Span {
            until,
            leaf: Arc::new(leaf),
            referenced: AtomicBool::new(false),
            writes: 0,
        }
    }

    /// Another write; says whether there were too many.
    fn is_worn(&mut self) -> bool {
        if std::mem::take(self.referenced.get_mut()) {
            self.writes = 0;
        }
        self.writes += 1;
        self.writes > WRITES_UNSCANNED_MAX
    }

    /// Whether it reaches beyond this key.
    fn holds(&self, key: &Key) -> bool {
        self.until.as_ref().is_none_or(|until| key < until)
    }

    fn cost(&self, from: &Key) -> usize {
        let bounds = from.bytes().len() + self.until.as_ref().map_or(0, |key| key.bytes().len());
        SPAN_OVERHEAD_BYTES + bounds + self.leaf.bytes()
    }
}

/// What became of a row that was to be set.
pub(crate) enum Put {
    /// It is here; and what was there before.
    Here { old: Option<Arc<[u8]>> },
    /// It is in no range that is kept.
    Nowhere,
}

impl Ranges {
    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    #[cfg(test)]
    pub(crate) fn leaves(&self) -> impl Iterator<Item = &Leaf> {
        self.spans.values().map(|span| &*span.leaf)
    }

    fn span_of(&mut self, key: &[u8]) -> Option<(&Key, &mut Span)> {
        let key = Key::new(key);
        let (from, span) = self.spans.range_mut(..=&key).next_back()?;
        span.holds(&key).then_some((from, span))
    }

    /// Sets a row, if its key lies in a span that is worth it; if it is not, the span leaves.
    pub(crate) fn put(&mut self, key: &[u8], row: &Arc<[u8]>, left: &mut Vec<Arc<Leaf>>) -> Put {
        let Some((from, span)) = self.span_of(key) else {
            return Put::Nowhere;
        };
        if span.is_worn() {
            let from = from.clone();
            left.push(self.take_out(&from).leaf);
            return Put::Nowhere;
        }
        let leaf = Arc::make_mut(&mut span.leaf);
        let before = leaf.bytes();
        let (last, old) = leaf.put(Arc::clone(row));
        let after = leaf.bytes();
        if leaf.len() > LEAF_ROWS_MAX {
            // Keys often come in order: then the leaf stays full, and the next one is filled.
            let at = if last { leaf.len() - 1 } else { leaf.len() / 2 };
            let right = leaf.split_off(at);
            let middle = Key::new(right.key(0));
            let mut right = Span::new(span.until.replace(middle.clone()), right);
            right.writes = span.writes;
            self.bytes += SPAN_OVERHEAD_BYTES + 2 * middle.bytes().len();
            self.spans.insert(middle, right);
        }
        self.bytes = self.bytes + after - before;
        Put::Here { old }
    }

    /// The key is gone; so is its span, if it is not worth the upkeep.
    pub(crate) fn remove(&mut self, key: &[u8], left: &mut Vec<Arc<Leaf>>) -> Option<Arc<[u8]>> {
        let (from, span) = self.span_of(key)?;
        if span.is_worn() {
            let from = from.clone();
            left.push(self.take_out(&from).leaf);
            return None;
        }
        let leaf = Arc::make_mut(&mut span.leaf);
        let before = leaf.bytes();
        let removed = leaf.remove(key)?;
        let after = leaf.bytes();
        let few = (leaf.len() <= LEAF_ROWS_FEW).then(|| from.clone());
        self.bytes = self.bytes + after - before;
        if let Some(from) = few {
            self.merge(&from);
        }
        Some(removed)
    }

    /// Appends a span to the one before it, if both are small.
    fn merge(&mut self, from: &Key) {
        let Some((before, left)) = self.spans.range(..from).next_back() else {
            return;
        };
        let rows = left.leaf.len() + self.spans[from].leaf.len();
        if left.until.as_ref() != Some(from) || rows > LEAF_ROWS_FILLED {
            return;
        }
        let before = before.clone();
        let right = self.take_out(from);
        let mut left = self.take_out(&before);
        Arc::make_mut(&mut left.leaf).append(&right.leaf);
        left.until = right.until;
        self.put_in(before, left);
    }

    fn put_in(&mut self, from: Key, span: Span) {
        self.bytes += span.cost(&from);
        self.spans.insert(from, span);
    }

    fn take_out(&mut self, from: &Key) -> Span {
        let span = self.spans.remove(from).expect("it was found");
        self.bytes -= span.cost(from);
        span
    }

    /// Forgets the span of a key.
    pub(crate) fn forget(&mut self, key: &[u8]) -> Option<Arc<Leaf>> {
        let (from, _) = self.span_of(key)?;
        let from = from.clone();
        Some(self.take_out(&from).leaf)
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) -> Vec<Arc<Leaf>> {
        self.bytes = 0;
        let spans = std::mem::take(&mut self.spans);
        spans.into_values().map(|span| span.leaf).collect()
    }

    /// The least recently used span, more or less, leaves; its leaf is returned.
    pub(crate) fn evict(&mut self) -> Option<Arc<Leaf>> {
        loop {
            let behind = self.hand.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let mut behind = self.spans.range::<Key, _>((behind, Bound::Unbounded));
            let next = behind.next().or_else(|| self.spans.first_key_value());
            let (from, span) = next?;
            let from = from.clone();
            let leaves = !span.referenced.swap(false, Ordering::Relaxed);
            let evicted = leaves.then(|| self.take_out(&from).leaf);
            self.hand = Some(from);
            if evicted.is_some() {
                return evicted;
            }
        }
    }

    /// What was found of all keys between two bounds: fills the gaps between the spans that are there, and returns the rows that it
    /// took.
    pub(crate) fn fill(
        &mut self,
        mut from: Key,
        until: Option<&Key>,
        rows: &[Arc<[u8]>],
    ) -> Vec<Arc<[u8]>> {
        let mut taken = Vec::new();
        while until.is_none_or(|until| from < *until) {
            if let Some((_, span)) = self.spans.range(..=&from).next_back()
                && span.holds(&from)
            {
                match &span.until {
                    Some(end) => from = end.clone(),
                    None => break,
                }
                continue;
            }
            let next = self.spans.range(&from..).next().map(|(next, _)| next);
            let end = match (next, until) {
                (Some(next), Some(until)) => Some(next.min(until)),
                (next, until) => next.or(until),
            };
            let end = end.cloned();
            let place = |key: &Key| rows.partition_point(|row| split(row).0 < key.bytes());
            let gap = &rows[place(&from)..end.as_ref().map_or(rows.len(), place)];
            taken.extend_from_slice(gap);
            self.fill_gap(from, end.clone(), gap);
            match end {
                Some(end) => from = end,
                None => break,
            }
        }
        taken
    }

    fn fill_gap(&mut self, mut from: Key, until: Option<Key>, rows: &[Arc<[u8]>]) {
        let mut rest = rows;
        loop {
            let (rows, others) = rest.split_at(rest.len().min(LEAF_ROWS_FILLED));
            let middle = others.first().map(|row| Key::new(split(row).0));
            let end = middle.clone().or_else(|| until.clone());
            let span = Span::new(end, Leaf::of(rows.iter().cloned()));
            self.put_in(from.clone(), span);
            self.merge(&from);
            let Some(middle) = middle else {
                break;
            };
            (from, rest) = (middle, others);
        }
        // The gap is closed: what follows it may be small too.
        if let Some(until) = &until
            && self.spans.contains_key(until)
        {
            self.merge(until);
        }
    }

    /// A write to this key will take effect at some time from now on.
    pub(crate) fn fence(&mut self, key: &[u8]) -> Option<Arc<Leaf>> {
        self.fences += 1;
        self.forget(key)
    }

    /// That write was answered.
    pub(crate) fn unfence(&mut self) {
        self.fences -= 1;
    }

    /// Whether some write will take effect nobody knows when.
    pub(crate) fn is_fenced(&self) -> bool {
        self.fences > 0
    }
}
