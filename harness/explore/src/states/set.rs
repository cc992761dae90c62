//! A set of places in the list of pending effects, as bits.
//!
//! Invariant: all sets of one moment are made for the same number of places, and hold none beyond.

use std::cmp::Ordering;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Set {
    words: Vec<u64>,
}

impl Set {
    /// None of so many places.
    pub(super) fn none(count: usize) -> Set {
        Set {
            words: vec![0; count.div_ceil(64)],
        }
    }

    /// The places before `end`, of so many.
    pub(super) fn before(end: usize, count: usize) -> Set {
        let mut set = Set::none(count);
        let (whole, rest) = (end / 64, end % 64);
        set.words[..whole].fill(u64::MAX);
        if rest > 0 {
            set.words[whole] = (1 << rest) - 1;
        }
        set
    }

    /// These places, of so many.
    pub(super) fn of(places: &[usize], count: usize) -> Set {
        let mut set = Set::none(count);
        places.iter().for_each(|at| set.add(*at));
        set
    }

    pub(super) fn add(&mut self, at: usize) {
        self.words[at / 64] |= 1 << (at % 64);
    }

    pub(super) fn remove(&mut self, at: usize) {
        self.words[at / 64] &= !(1 << (at % 64));
    }

    pub(super) fn has(&self, at: usize) -> bool {
        self.words[at / 64] >> (at % 64) & 1 == 1
    }

    pub(super) fn add_all(&mut self, others: &Set) {
        for (word, other) in self.words.iter_mut().zip(&others.words) {
            *word |= other;
        }
    }

    pub(super) fn remove_all(&mut self, others: &Set) {
        for (word, other) in self.words.iter_mut().zip(&others.words) {
            *word &= !other;
        }
    }

    pub(super) fn intersects(&self, others: &Set) -> bool {
        let mut pairs = self.words.iter().zip(&others.words);
        pairs.any(|(word, other)| word & other != 0)
    }

    pub(super) fn len(&self) -> usize {
        let ones = self.words.iter().map(|word| word.count_ones() as usize);
        ones.sum()
    }

    /// Its places, ascending.
    pub(super) fn places(&self) -> impl Iterator<Item = usize> + '_ {
        members(self.words.iter().copied())
    }

    /// The places that both have, ascending.
    pub(super) fn places_in<'a>(&'a self, others: &'a Set) -> impl Iterator<Item = usize> + 'a {
        let pairs = self.words.iter().zip(&others.words);
        members(pairs.map(|(word, other)| word & other))
    }
}

fn members(words: impl Iterator<Item = u64>) -> impl Iterator<Item = usize> {
    (0..).step_by(64).zip(words).flat_map(|(first, mut word)| {
        std::iter::from_fn(move || {
            let place = (word != 0).then(|| first + word.trailing_zeros() as usize);
            word &= word.wrapping_sub(1);
            place
        })
    })
}

/// Of two sets of one size: as the lists of their places, ascending, are ordered.
impl Ord for Set {
    fn cmp(&self, other: &Set) -> Ordering {
        let reversed = |set: &'_ Set, at: usize| set.words[at].reverse_bits();
        let differs = (0..self.words.len()).find(|at| self.words[*at] != other.words[*at]);
        differs.map_or(Ordering::Equal, |at| {
            reversed(other, at).cmp(&reversed(self, at))
        })
    }
}

impl PartialOrd for Set {
    fn partial_cmp(&self, other: &Set) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
