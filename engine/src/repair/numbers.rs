//! Whose each sequence number is.
//!
//! A recovery that cuts off the end of the log gives its sequence numbers to other commits. What was cut off may have come into pages of a checkpoint that was never published, and pages name
//! no epoch. But a number has one owner: if a commit of the latest epoch that has the number is of another key, the entry was cut off.

use super::chain::Counts;
use super::scan::{Scan, Seen};
use crate::index::key::Key;

/// Sequence numbers of commits in the log, each with its epoch (`None` if it is not known) and its key.
pub(super) struct Numbers<'a>(Vec<(u64, Option<u64>, &'a Key)>);

impl<'a> Numbers<'a> {
    /// Of the records that count, in their order.
    pub(super) fn of(scan: &'a Scan, counts: &[Counts]) -> Numbers<'a> {
        let records = scan.records.iter().zip(counts);
        let commits = records.filter(|(it, counts)| it.is_commit && counts.is_counted());
        let commits = commits.map(|(it, _)| it);
        let epoch = |it: &Seen| it.frame.map(|number| scan.frames[number].header.epoch);
        let numbers = commits.map(|it| (it.sequence, epoch(it), &it.key));
        let mut numbers: Vec<_> = numbers.collect();
        numbers.sort_unstable();
        Numbers(numbers)
    }

    /// Whether a version of this key can have this number.
    pub(super) fn allow(&self, sequence: u64, key: &Key) -> bool {
        let behind = self.0.partition_point(|(number, ..)| *number <= sequence);
        let latest = behind.checked_sub(1).map(|at| self.0[at]);
        latest.is_none_or(|(number, _, owner)| number != sequence || owner == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the commit of the latest epoch owns a number. Method: two commits with one number, and numbers that nobody has.
    #[test]
    fn the_latest_epoch_owns_a_number() {
        let key = |text: &str| Key::new(text.as_bytes());
        let (a, b) = (key("a"), key("b"));
        let mut numbers = Numbers(vec![(5, None, &b), (5, Some(1), &a), (5, Some(2), &b)]);
        assert!(!numbers.allow(5, &a) && numbers.allow(5, &b));
        assert!(numbers.allow(4, &a) && numbers.allow(6, &a));
        numbers.0.pop();
        assert!(numbers.allow(5, &a) && !numbers.allow(5, &b));
    }
}
