//! Scans of the ordered cache, both ways.
//!
//! Invariant: a scan is answered in whole or not at all, and as the engine would: the same entries under the same
//! limits, and the same answer to whether there are more.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kvsim_engine::{Direction, Key, ScanRange};

use super::{Ranges, Span};
use crate::cache::entries::{Entries, Piece};

/// What a scan may take.
struct Allowance {
    rows: usize,
    bytes: usize,
    taken: usize,
    taken_bytes: usize,
}

impl Allowance {
    fn of(range: &ScanRange<'_>) -> Allowance {
        Allowance {
            rows: range.limit.max(1) as usize,
            bytes: range.max_bytes as usize,
            taken: 0,
            taken_bytes: 0,
        }
    }

    /// Takes one entry, if it may be taken.
    fn take(&mut self, bytes: usize) -> bool {
        self.taken_bytes += bytes;
        if self.taken == self.rows || (self.taken > 0 && self.taken_bytes > self.bytes) {
            return false;
        }
        self.taken += 1;
        true
    }
}

impl Span {
    /// Whether there is no key between its end and this bound.
    fn reaches(&self, end: Option<&Key>) -> bool {
        match (end, &self.until) {
            (_, None) => true,
            (Some(end), Some(until)) => end <= until,
            (None, Some(_)) => false,
        }
    }

    /// A share of some of its rows.
    fn piece_of(&self, from: usize, to: usize) -> Piece {
        if !self.referenced.load(Ordering::Relaxed) {
            self.referenced.store(true, Ordering::Relaxed);
        }
        Piece::new(Arc::clone(&self.leaf), from, to)
    }
}

impl Ranges {
    /// What a scan returns, if all its keys are here.
    pub(crate) fn scan(&self, range: &ScanRange<'_>) -> Option<Entries> {
        let start = range.start.unwrap_or_default();
        let mut pieces = Vec::with_capacity(4);
        let more = match range.direction {
            _ if range.end.is_some_and(|end| start >= end) => false,
            Direction::Forward => self.scan_forward(start, range, &mut pieces)?,
            Direction::Reverse => self.scan_reverse(start, range, &mut pieces)?,
        };
        Some(Entries::borrowed(pieces, more, range.direction))
    }

    fn scan_forward(
        &self,
        start: &[u8],
        range: &ScanRange<'_>,
        pieces: &mut Vec<Piece>,
    ) -> Option<bool> {
        let mut allowed = Allowance::of(range);
        let first = Key::new(start);
        let end = range.end.map(Key::new);
        let (_, mut span) = self.spans.range(..=&first).next_back()?;
        if !span.holds(&first) {
            return None;
        }
        let mut from = span.leaf.before(start);
        let mut others = None;
        loop {
            let to = range
                .end
                .map_or(span.leaf.len(), |end| span.leaf.before(end));
            for at in from..to {
                if !allowed.take(span.leaf.entry_bytes(at)) {
                    pieces.push(span.piece_of(from, at));
                    return Some(true);
                }
            }
            pieces.push(span.piece_of(from, to));
            if span.reaches(end.as_ref()) {
                return Some(false);
            }
            let others = others.get_or_insert_with(|| {
                let behind = (Bound::Excluded(&first), Bound::Unbounded);
                self.spans.range::<Key, _>(behind)
            });
            let (next_from, next) = others.next()?;
            if span.until.as_ref() != Some(next_from) {
                return None;
            }
            (span, from) = (next, 0);
        }
    }

    fn scan_reverse(
        &self,
        start: &[u8],
        range: &ScanRange<'_>,
        pieces: &mut Vec<Piece>,
    ) -> Option<bool> {
        let mut allowed = Allowance::of(range);
        let first = Key::new(start);
        let end = range.end.map(Key::new);
        let before = end.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut spans = self.spans.range::<Key, _>((Bound::Unbounded, before));
        let mut until = end.as_ref();
        loop {
            let (span_from, span) = spans.next_back()?;
            if !span.reaches(until) {
                return None;
            }
            let last = *span_from <= first;
            let from = if last { span.leaf.before(start) } else { 0 };
            let to = range
                .end
                .map_or(span.leaf.len(), |end| span.leaf.before(end));
            for at in (from..to).rev() {
                if !allowed.take(span.leaf.entry_bytes(at)) {
                    pieces.push(span.piece_of(at + 1, to));
                    return Some(true);
                }
            }
            pieces.push(span.piece_of(from, to));
            if last {
                return Some(false);
            }
            until = Some(span_from);
        }
    }
}
