//! How many keys there are somewhere, and what they take of a checkpoint's pages at most.

use std::iter::Sum;
use std::ops::AddAssign;

use crate::index::entry::{is_deleted, pages_of_payload};

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) keys: u64,
    pub(crate) pages_bytes: u64,
}

impl Weight {
    /// Of an entry as it is in a run: none of a key that was removed.
    pub(crate) fn of_entry(key: &[u8], payload: &[u8]) -> Weight {
        Weight {
            keys: u64::from(!is_deleted(payload)),
            pages_bytes: pages_of_payload(key, payload),
        }
    }
}

impl AddAssign for Weight {
    fn add_assign(&mut self, other: Weight) {
        self.keys += other.keys;
        self.pages_bytes += other.pages_bytes;
    }
}

impl Sum for Weight {
    fn sum<I: Iterator<Item = Weight>>(all: I) -> Weight {
        let mut sum = Weight::default();
        all.for_each(|it| sum += it);
        sum
    }
}
