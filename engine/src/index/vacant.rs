//! Numbers without an entry: a bit for each. The lowest is used anew first, so that what is left lies together.

use crate::index::table::Slot;

const BITS: usize = u64::BITS as usize;

/// A set of numbers that hands out its lowest.
#[derive(Debug, Default)]
pub(super) struct Vacant {
    /// A bit for each number.
    words: Vec<u64>,
    /// A bit for each word that has any.
    filled: Vec<u64>,
    /// All below this are empty in `filled`.
    first: usize,
    len: usize,
}

impl Vacant {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a number that is not there.
    pub(super) fn add(&mut self, slot: Slot) {
        let word = slot as usize / BITS;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
            self.filled.resize(word / BITS + 1, 0);
        }
        self.words[word] |= 1 << (slot as usize % BITS);
        self.filled[word / BITS] |= 1 << (word % BITS);
        self.first = self.first.min(word / BITS);
        self.len += 1;
    }

    /// Takes the lowest.
    pub(super) fn take(&mut self) -> Option<Slot> {
        let filled = self.filled.get(self.first..)?;
        let some = filled.iter().position(|word| *word != 0);
        let Some(some) = some else {
            self.first = self.filled.len();
            return None;
        };
        self.first += some;
        let word = self.first * BITS + self.filled[self.first].trailing_zeros() as usize;
        let bits = &mut self.words[word];
        let slot = word * BITS + bits.trailing_zeros() as usize;
        *bits &= *bits - 1;
        if *bits == 0 {
            self.filled[self.first] &= self.filled[self.first] - 1;
        }
        self.len -= 1;
        Some(crate::format::len32(slot))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Goal: each number comes back once, the lowest first. Method: numbers of all sizes come and go as in an ordered set.
    #[test]
    fn the_lowest_comes_first() {
        let (mut vacant, mut model) = (Vacant::default(), BTreeSet::new());
        assert_eq!(vacant.take(), None);
        for step in 0..60_000_u32 {
            let slot = step.wrapping_mul(2_654_435_761) >> (7 + step % 20);
            // First more come than go, then more go.
            if step % 5 < if step < 30_000 { 3 } else { 1 } {
                if model.insert(slot % 300_000) {
                    vacant.add(slot % 300_000);
                }
            } else {
                assert_eq!(vacant.take(), model.pop_first());
            }
            assert_eq!(vacant.len(), model.len());
        }
        assert_eq!((vacant.take(), model.len()), (None, 0));
        vacant.add(64 * 64 - 1);
        vacant.add(64 * 64);
        assert_eq!(vacant.take(), Some(64 * 64 - 1));
        assert_eq!((vacant.take(), vacant.take()), (Some(64 * 64), None));
    }
}
