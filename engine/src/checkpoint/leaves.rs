//! What memory keeps of a run whose entries it does not keep: where each leaf begins, and a filter that says for most keys that the run does not have them. So a
//! key is looked up with one read, and a key that is not there mostly with none.
//!
//! Both are made as the run is written, and only where entries may leave memory. The filter mostly stands on the device too (`filters.rs`). An opening reads where the leaves begin from the
//! pages above them, and reads the filter, or makes it, as it loads the index. Until then nothing is denied.
//!
//! Invariant: a key that the run has is never denied.

use xxhash_rust::xxh3::xxh3_64;

use crate::format::filter::{BLOCK_WORDS, words_of};
use crate::format::page::PageRef;
use crate::format::to_usize;
use crate::index::key::Key;

/// Bits that are set for a key.
const PROBES: u64 = 7;

/// The leaves of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Leaves {
    /// The first key of each, ascending.
    first_keys: Box<[(Key, PageRef)]>,
    /// How many keys the run has; an estimate as long as there is no filter.
    keys: u64,
    /// Empty until it is made.
    filter: Box<[u64]>,
}

/// An entry of a leaf takes more than so many bytes.
const ENTRY_BYTES_MIN: u64 = 16;

impl Leaves {
    /// Leaves of which only the first keys are known.
    pub(crate) fn outline(first_keys: Vec<(Key, PageRef)>) -> Leaves {
        let bytes = first_keys.iter().map(|(_, leaf)| u64::from(leaf.len));
        Leaves {
            keys: bytes.sum::<u64>() / ENTRY_BYTES_MIN,
            first_keys: first_keys.into(),
            filter: Box::default(),
        }
    }

    /// The same leaves, with a filter for the keys of these hashes.
    pub(crate) fn with_filter(&self, hashes: Vec<u64>) -> Leaves {
        LeavesDraft {
            first_keys: self.first_keys.to_vec(),
            hashes,
        }
        .finish()
    }

    /// The same leaves, with a filter that was read: of a run of so many keys.
    pub(crate) fn with_known_filter(&self, keys: u64, filter: Box<[u64]>) -> Leaves {
        Leaves {
            first_keys: self.first_keys.clone(),
            keys,
            filter,
        }
    }

    /// The filter; empty until it is made.
    pub(crate) fn filter(&self) -> &[u64] {
        &self.filter
    }

    /// What they take of memory, in bytes, long keys left out.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (size_of_val(&self.first_keys[..]) + size_of_val(&self.filter[..])) as u64
    }

    /// All leaves, with the first key of each.
    pub(crate) fn all(&self) -> &[(Key, PageRef)] {
        &self.first_keys
    }

    /// How many keys the run has.
    pub(crate) fn keys(&self) -> u64 {
        self.keys
    }

    /// The leaf that has the key, whose hash that is, if the run may have it.
    pub(crate) fn leaf_of(&self, key: &Key, hash: u64) -> Option<PageRef> {
        let at = self.position_of(key, hash)?;
        Some(self.first_keys[at].1)
    }

    /// Which of the leaves that is.
    pub(crate) fn position_of(&self, key: &Key, hash: u64) -> Option<usize> {
        if !self.may_have(hash) {
            return None;
        }
        let behind = self.first_keys.partition_point(|(first, _)| first <= key);
        behind.checked_sub(1)
    }

    /// Whether the run may have a key of this hash.
    fn may_have(&self, hash: u64) -> bool {
        if self.filter.is_empty() {
            return true;
        }
        let block = block_of(hash, &self.filter);
        probes(hash).all(|(word, bit)| self.filter[block + word] & bit != 0)
    }

    /// Leaves that may have keys from `from` on and before `end`.
    pub(crate) fn between(&self, from: &Key, end: Option<&Key>) -> &[(Key, PageRef)] {
        let start = self.first_keys.partition_point(|(first, _)| first <= from);
        let start = start.saturating_sub(1);
        let beyond = end.map_or(self.first_keys.len(), |end| {
            self.first_keys.partition_point(|(first, _)| first < end)
        });
        &self.first_keys[start..beyond.max(start)]
    }
}

/// Leaves of a run that is being written or read.
#[derive(Debug, Default)]
pub(crate) struct LeavesDraft {
    first_keys: Vec<(Key, PageRef)>,
    hashes: Vec<u64>,
}

impl LeavesDraft {
    /// The run has this key.
    pub(crate) fn note_key(&mut self, key: &[u8]) {
        self.hashes.push(hash_of(key));
    }

    /// The next leaf of the run begins with this key.
    pub(crate) fn note_leaf(&mut self, first: &[u8], leaf: PageRef) {
        self.first_keys.push((Key::new(first), leaf));
    }

    pub(crate) fn finish(self) -> Leaves {
        let keys = self.hashes.len() as u64;
        let mut filter = vec![0; to_usize(words_of(keys))];
        for hash in self.hashes {
            let block = block_of(hash, &filter);
            for (word, bit) in probes(hash) {
                filter[block + word] |= bit;
            }
        }
        Leaves {
            first_keys: self.first_keys.into(),
            keys,
            filter: filter.into(),
        }
    }
}

/// What the filters know a key by.
pub(crate) fn hash_of(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// The first word of a key's block.
fn block_of(hash: u64, filter: &[u64]) -> usize {
    let blocks = (filter.len() / BLOCK_WORDS) as u64;
    to_usize(((hash >> 32) * blocks) >> 32) * BLOCK_WORDS
}

/// Words within the block, and a bit of each.
fn probes(hash: u64) -> impl Iterator<Item = (usize, u64)> {
    let (first, step) = (hash & 0xffff, (hash >> 16 & 0xffff) | 1);
    (0..PROBES).map(move |n| {
        let bit = (first + n * step) % (BLOCK_WORDS as u64 * 64);
        (to_usize(bit / 64), 1 << (bit % 64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(n: u32) -> PageRef {
        PageRef {
            offset: u64::from(n) * 4096,
            len: 4096,
            checksum: 0,
        }
    }

    /// Goal: a key is found in its leaf, hardly any other key passes, and a range has its leaves. Method: ten thousand keys, a hundred to a leaf.
    #[test]
    fn keys_are_found_in_their_leaves() {
        let key = |n: u32| (2 * n).to_be_bytes();
        let leaf_of = |leaves: &Leaves, key: &[u8]| leaves.leaf_of(&Key::new(key), hash_of(key));
        let mut draft = LeavesDraft::default();
        for n in 1..=10_000 {
            if n % 100 == 1 {
                draft.note_leaf(&key(n), leaf(n / 100));
            }
            draft.note_key(&key(n));
        }
        let leaves = draft.finish();
        for n in 1..=10_000 {
            let found = leaf_of(&leaves, &key(n));
            assert_eq!(found, Some(leaf((n - 1) / 100)));
        }
        let passed = (1..=40_000_u32).filter(|n| {
            let other = (2 * n + 1).to_be_bytes();
            leaf_of(&leaves, &other).is_some()
        });
        assert!((1..400).contains(&passed.count()));
        assert_eq!(leaf_of(&leaves, &[0]), None);
        let between = |from: u32, end: u32| {
            let end = Key::new(&key(end));
            let some = leaves.between(&Key::new(&key(from)), Some(&end));
            some.iter()
                .map(|(_, leaf)| leaf.offset / 4096)
                .collect::<Vec<_>>()
        };
        assert_eq!(between(0, 1), []);
        assert_eq!(between(0, 2), [0]);
        assert_eq!(between(100, 101), [0]);
        assert_eq!(between(100, 102), [0, 1]);
        assert_eq!(between(9_950, 20_000), [99]);
        let all = leaves.between(&Key::new(&[0]), None);
        assert_eq!(all.len(), 100);
    }
}
