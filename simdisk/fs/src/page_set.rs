//! A set of page numbers as ranges: files are mostly of one piece.
//!
//! Invariant: the ranges ascend, are not empty, and do not touch each other.

use std::sync::Arc;

/// Page numbers. A clone shares the ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PageSet(Arc<Vec<(u64, u64)>>);

impl PageSet {
    /// Whether a page is in it.
    pub(crate) fn contains(&self, page: u64) -> bool {
        let at = self.0.partition_point(|&(_, end)| end <= page);
        self.0.get(at).is_some_and(|&(start, _)| start <= page)
    }

    /// How many pages it has.
    pub(crate) fn len(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    /// How many pages of a range it lacks.
    pub(crate) fn missing(&self, start: u64, end: u64) -> u64 {
        let first = self.0.partition_point(|&(_, before)| before <= start);
        let within = self.0[first..].iter().take_while(|(from, _)| *from < end);
        let present: u64 = within
            .map(|&(from, to)| to.min(end) - from.max(start))
            .sum();
        end.saturating_sub(start) - present
    }

    /// Adds a range.
    pub(crate) fn insert(&mut self, start: u64, end: u64) {
        if start >= end || self.missing(start, end) == 0 {
            return;
        }
        let ranges = Arc::make_mut(&mut self.0);
        let first = ranges.partition_point(|&(_, before)| before < start);
        let mut last = first;
        let (mut from, mut to) = (start, end);
        while let Some(&(other, other_end)) = ranges.get(last)
            && other <= end
        {
            (from, to) = (from.min(other), to.max(other_end));
            last += 1;
        }
        ranges.splice(first..last, [(from, to)]);
    }

    /// Removes all pages from this one on.
    pub(crate) fn truncate(&mut self, page: u64) {
        if self.0.last().is_none_or(|&(_, end)| end <= page) {
            return;
        }
        let ranges = Arc::make_mut(&mut self.0);
        ranges.retain(|&(start, _)| start < page);
        if let Some((_, end)) = ranges.last_mut() {
            *end = page.min(*end);
        }
    }

    /// The ranges, ascending.
    pub(crate) fn ranges(&self) -> &[(u64, u64)] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use quickcheck::quickcheck;

    use super::*;

    quickcheck! {
        /// Goal: it is a set. Method: insertions and cuts beside a set of numbers.
        fn it_is_a_set(steps: Vec<(u8, u8, bool)>) -> bool {
            let (mut pages, mut expected) = (PageSet::default(), BTreeSet::new());
            steps.into_iter().all(|(start, len, cut)| {
                let (start, end) = (u64::from(start), u64::from(start) + u64::from(len % 9));
                if cut {
                    pages.truncate(start);
                    expected.retain(|&page| page < start);
                } else {
                    let missing = (start..end).filter(|page| !expected.contains(page)).count() as u64;
                    assert_eq!(pages.missing(start, end), missing);
                    pages.insert(start, end);
                    expected.extend(start..end);
                }
                let apart = pages.0.windows(2).all(|two| two[0].1 < two[1].0);
                apart && pages.len() == expected.len() as u64
                    && (0..270).all(|page| pages.contains(page) == expected.contains(&page))
            })
        }
    }
}
