//! How many keys there are somewhere, and what they take of a checkpoint's pages at most.

use std::iter::Sum;
use std::ops::{AddAssign, SubAssign};

use crate::format::superblock::Counts;
use crate::index::entry::{is_deleted, pages_of, pages_of_payload};
use crate::index::place::{Place, Version};

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) keys: u64,
    pub(crate) pages_bytes: u64,
}

impl Weight {
    /// Of a key with this newest version: none if it is deleted.
    pub(crate) fn of(key: &[u8], version: &Version) -> Weight {
        Weight {
            keys: u64::from(version.place != Place::Tombstone),
            pages_bytes: pages_of(key, version),
        }
    }

    /// What a superblock says of the index.
    pub(crate) fn stated(counts: &Counts) -> Weight {
        Weight {
            keys: counts.keys,
            pages_bytes: counts.pages_bytes,
        }
    }

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

impl SubAssign for Weight {
    fn sub_assign(&mut self, other: Weight) {
        self.keys -= other.keys;
        self.pages_bytes -= other.pages_bytes;
    }
}

impl Sum for Weight {
    fn sum<I: Iterator<Item = Weight>>(all: I) -> Weight {
        let mut sum = Weight::default();
        // What a device says may be any number.
        all.for_each(|it| {
            sum.keys = sum.keys.saturating_add(it.keys);
            sum.pages_bytes = sum.pages_bytes.saturating_add(it.pages_bytes);
        });
        sum
    }
}
