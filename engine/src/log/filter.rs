//! A small Bloom filter with one hash: says for most keys that were never noted that they were not.
//!
//! Invariant: a key that was noted is never denied.

use xxhash_rust::xxh3::xxh3_64;

const WORDS: u64 = 256;

#[derive(Debug)]
pub(crate) struct Filter(Box<[u64]>);

impl Filter {
    pub(crate) fn new() -> Filter {
        Filter(vec![0; crate::format::to_usize(WORDS)].into())
    }

    pub(crate) fn clear(&mut self) {
        self.0.fill(0);
    }

    pub(crate) fn note(&mut self, key: &[u8]) {
        let (word, bit) = place(key);
        self.0[word] |= bit;
    }

    pub(crate) fn may_have(&self, key: &[u8]) -> bool {
        let (word, bit) = place(key);
        self.0[word] & bit != 0
    }
}

fn place(key: &[u8]) -> (usize, u64) {
    let hash = xxh3_64(key);
    let word = crate::format::to_usize((hash >> 6) % WORDS);
    (word, 1 << (hash % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: it denies most of what it was never told, and nothing of what it was. Method: a thousand keys noted, as many not.
    #[test]
    fn what_was_noted_is_never_denied() {
        let mut filter = Filter::new();
        for n in 0_u32..1000 {
            filter.note(&n.to_le_bytes());
        }
        assert!((0_u32..1000).all(|n| filter.may_have(&n.to_le_bytes())));
        let wrong = (1000_u32..2000).filter(|n| filter.may_have(&n.to_le_bytes()));
        assert!(wrong.count() < 150);
        filter.clear();
        assert!(!filter.may_have(&7_u32.to_le_bytes()));
    }
}
