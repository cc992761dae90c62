//! What is counted of the index: its live keys, and what they take of a checkpoint's pages.
//!
//! Both are exact where every write knows what it replaces, or that is looked up behind it. A write may also leave it counted (`read/blind.rs`). Then both are upper bounds, and
//! each checkpoint bounds them by what stands in the runs: a key that is there stands in a run, or it was put since the checkpoint began.
//!
//! Invariant: neither is ever less than what there is.

use crate::index::memory::Index;
use crate::index::weight::Weight;

impl Index {
    /// A write leaves counted what it replaces of so many keys.
    pub(crate) fn note_surplus(&mut self, keys: usize) {
        *self.surplus.get_or_insert(0) += keys as u64;
    }

    /// What is counted is what a superblock says, and what the log adds to that. Of so many keys of the log, about, the runs have an older entry, which counts too.
    pub(crate) fn take_as_bounds(&mut self, replaced: u64) {
        *self.surplus.get_or_insert(0) += replaced;
    }

    /// So much less does.
    pub(crate) fn uncount(&mut self, less: Weight) {
        if self.surplus.is_none() {
            self.counted -= less;
            return;
        }
        // Bounds that a device was tampered with to say need not be any.
        let counted = &mut self.counted;
        counted.keys = counted.keys.saturating_sub(less.keys);
        counted.pages_bytes = counted.pages_bytes.saturating_sub(less.pages_bytes);
    }

    /// Whether more may be counted than there is.
    pub(crate) fn has_surplus(&self) -> bool {
        self.surplus.is_some()
    }

    /// How many keys there are, about: where a write did not know whether there was an entry, there mostly was.
    pub(crate) fn len_about(&self) -> u64 {
        self.len().saturating_sub(self.surplus.unwrap_or(0))
    }

    /// The checkpoint under way was published: so much stands in all runs, older versions included. Whether less is counted now.
    pub(crate) fn bound_counts(&mut self, standing: Weight) -> bool {
        let before = self.counted;
        self.counted = Weight {
            keys: before.keys.min(standing.keys.saturating_add(self.put.keys)),
            pages_bytes: before
                .pages_bytes
                .min(standing.pages_bytes.saturating_add(self.put.pages_bytes)),
        };
        if let Some(surplus) = &mut self.surplus {
            *surplus = surplus.saturating_sub(before.keys - self.counted.keys);
        }
        before != self.counted
    }

    /// Every key was written anew, and none was put meanwhile: what is counted is exact.
    pub(crate) fn end_surplus(&mut self) {
        self.surplus = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::entry::{encode, pages_of};
    use crate::index::place::{Place, Version};

    fn put(index: &mut Index, key: u8, sequence: u64, value: usize) {
        let place = Place::Inline(vec![7; value].into());
        index.set(&[key], Version { sequence, place });
    }

    /// What the entry of a run weighs.
    fn entry(key: u8, value: usize) -> Weight {
        let place = Place::Inline(vec![7; value].into());
        let version = Version { sequence: 1, place };
        let mut payload = Vec::new();
        encode(&version, &mut payload);
        let weight = Weight::of_entry(&[key], &payload);
        assert_eq!(weight.pages_bytes, pages_of(&[key], &version));
        weight
    }

    /// Goal: a checkpoint brings down what is counted to what can be there, and never below what is there. Method: a key of a run is written again and again without its entry, before
    /// a checkpoint begins, and another one while that is being written.
    #[test]
    fn a_checkpoint_bounds_what_is_counted() {
        let mut index = Index::default();
        put(&mut index, 1, 1, 10);
        index.forget_changes();
        let slot = index.newest.find(&[1]).expect("it was put");
        for sequence in 2..5 {
            // It is not in memory any more, and nothing is subtracted.
            index.forget_changes();
            index.forget(slot);
            put(&mut index, 1, sequence, 20);
            index.note_surplus(1);
        }
        assert_eq!((index.len(), index.len_about()), (4, 1));
        index.begin_writing();
        put(&mut index, 2, 9, 30);
        index.end_writing(true);
        assert!(index.bound_counts(entry(1, 20)));
        let mut expected = entry(1, 20);
        expected += entry(2, 30);
        assert_eq!(index.counted, expected);
        assert_eq!(index.len_about(), 2);
        // Where less is counted than stands in the runs, that stays.
        let twice = [expected, expected].into_iter().sum();
        assert!(!index.bound_counts(twice));
        assert_eq!(index.counted, expected);
    }
}
