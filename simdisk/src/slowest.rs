//! How long operations took, as far as it is asked later: the longest of those that were under way after a moment.

use crate::Nanos;

/// Operations and how long they took, without those that another one outlasts in both: it ended later and took longer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Slowest {
    /// When each ends, rising, and how long it takes, falling.
    ops: Vec<(Nanos, Nanos)>,
}

impl Slowest {
    /// Notes an operation that was submitted at one time and ends at the other, both in nanoseconds of virtual time.
    pub fn note(&mut self, submitted_at: Nanos, ends_at: Nanos) {
        let took = ends_at.saturating_sub(submitted_at);
        let later = self.ops.partition_point(|(at, _)| *at < ends_at);
        if self.ops.get(later).is_some_and(|(_, other)| *other >= took) {
            return;
        }
        let longer = self.ops[..later].partition_point(|(_, other)| *other > took);
        let same = self.ops[later..]
            .iter()
            .take_while(|(at, _)| *at == ends_at);
        let end = later + same.count();
        self.ops.splice(longer..end, [(ends_at, took)]);
    }

    /// The longest that an operation took, in nanoseconds, of those that ended at this time or later, or have not ended yet; 0 if there was none.
    #[must_use]
    pub fn since(&self, ns: Nanos) -> Nanos {
        let first = self.ops.partition_point(|(at, _)| *at < ns);
        self.ops.get(first).map_or(0, |(_, took)| *took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the answer is that of looking at every operation. Method: operations that follow from their number, and every moment.
    #[test]
    fn the_longest_since_a_moment_is_that_of_all_operations() {
        let mut slowest = Slowest::default();
        assert_eq!(slowest.since(0), 0);
        let mut all = Vec::new();
        for n in 0..200_u64 {
            let (at, took) = (n, n * n * 7 % 31);
            slowest.note(at, at + took);
            all.push((at + took, took));
            for ns in 0..240 {
                let ended_later = all.iter().filter(|(end, _)| *end >= ns);
                let longest = ended_later.map(|(_, took)| *took).max();
                assert_eq!(slowest.since(ns), longest.unwrap_or(0), "{n}, {ns}");
            }
        }
        assert!(slowest.ops.len() <= 31, "what is outlasted is forgotten");
    }
}
