//! The superblock's four copies are two halves; which of them a publication writes first, and what at once.

use crate::format::superblock::Turn;
use crate::mutant::{Mutant, mutant};

pub(super) const HALVES: [[u16; 2]; 2] = [[0, 2], [1, 3]];

/// Which of the halves a copy belongs to.
pub(crate) fn half_of(copy: u16) -> usize {
    usize::from(copy % 2)
}

/// Whether these copies are all of one half.
pub(crate) fn is_one_half(copies: &[u16]) -> bool {
    HALVES
        .iter()
        .any(|half| copies.iter().all(|copy| half.contains(copy)))
}

/// In which order a publication writes the copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    pub(super) first_half: usize,
    /// The copy of that half that is written and flushed before the other one.
    pub(super) ahead: Option<u16>,
}

impl Order {
    /// This half first, both of its copies at once.
    pub(crate) fn halves(first_half: usize) -> Order {
        Order {
            first_half,
            ahead: None,
        }
    }

    /// The copies that are written at once, one step after the other.
    pub(super) fn steps(self) -> Vec<(Turn, Vec<u16>)> {
        let ahead = self
            .ahead
            .filter(|_| !mutant(Mutant::NewestPairOverwritten));
        let rest = |half: usize| HALVES[half].into_iter().filter(|copy| Some(*copy) != ahead);
        let mut steps = Vec::new();
        steps.extend(ahead.map(|copy| (Turn::First, vec![copy])));
        steps.push((Turn::First, rest(self.first_half).collect()));
        steps.push((Turn::Second, rest(1 - self.first_half).collect()));
        steps
    }
}
