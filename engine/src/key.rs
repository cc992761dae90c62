//! A key as the index keeps it: its first bytes lie in the tree's node, so that comparing two keys rarely leaves the node.
//!
//! Invariant: keys are ordered as their bytes are.

use std::cmp::Ordering;
use std::sync::Arc;

const PREFIX_BYTES: usize = 16;

/// A key, or the bound of a range, for ordered maps: two are compared by their first bytes, which lie in place.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    /// The first bytes, and zeroes where the key is shorter.
    prefix: [u8; PREFIX_BYTES],
    len: u16,
    /// The whole key, if it is longer than the prefix. Clones share it.
    long: Option<Arc<[u8]>>,
}

impl Key {
    /// The key of these bytes; short ones are kept in place.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Key {
        let mut prefix = [0; PREFIX_BYTES];
        let taken = bytes.len().min(PREFIX_BYTES);
        prefix[..taken].copy_from_slice(&bytes[..taken]);
        Key {
            prefix,
            // Beyond the prefix it is not looked at.
            len: u16::try_from(bytes.len()).unwrap_or(u16::MAX),
            long: (bytes.len() > PREFIX_BYTES).then(|| bytes.into()),
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.long {
            Some(bytes) => bytes,
            None => &self.prefix[..usize::from(self.len)],
        }
    }
}

/// Whether two keys are the same, compared by words: for sixteen bytes a call costs more than that, and a sandbox compares byte by byte.
pub(crate) fn is_same(one: &[u8], other: &[u8]) -> bool {
    let ((words, rest), (other_words, other_rest)) = (one.as_chunks::<8>(), other.as_chunks::<8>());
    let number = |word: &[u8; 8]| u64::from_ne_bytes(*word);
    one.len() == other.len()
        && words.iter().map(number).eq(other_words.iter().map(number))
        && rest.iter().eq(other_rest)
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        let number = |key: &Key| u128::from_be_bytes(key.prefix);
        // Where one of two equal prefixes ends within, zeroes fill it up: then the shorter key is the smaller one.
        number(self)
            .cmp(&number(other))
            .then_with(|| match (&self.long, &other.long) {
                (Some(one), Some(other)) => one[PREFIX_BYTES..].cmp(&other[PREFIX_BYTES..]),
                _ => self.len.cmp(&other.len),
            })
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: keys are ordered and told apart as their bytes are. Method: all pairs of keys around the prefix's end, with zeroes in them.
    #[test]
    fn keys_are_ordered_as_their_bytes() {
        let mut all: Vec<Vec<u8>> = vec![b"a".to_vec(), vec![0], vec![255; 40]];
        for len in 14..20 {
            for last in [0, 1, 255] {
                let mut bytes = vec![7; len];
                bytes[len - 1] = last;
                all.push(bytes);
                all.push(vec![last; len]);
            }
        }
        for one in &all {
            assert_eq!(Key::new(one).bytes(), &one[..]);
            for other in &all {
                let (a, b) = (Key::new(one), Key::new(other));
                assert_eq!(a.cmp(&b), one.cmp(other), "{a:?} {b:?}");
                assert_eq!(a == b, one == other);
                assert_eq!(is_same(one, other), one == other);
            }
        }
    }
}
