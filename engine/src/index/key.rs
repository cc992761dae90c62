//! A key as the index keeps it: its first bytes lie in the tree's node, so that comparing two keys rarely leaves the node.
//!
//! Invariant: keys are ordered as their bytes are.

use std::cmp::Ordering;
use std::sync::Arc;

const PREFIX_BYTES: usize = 16;

/// A key, or the bound of a range, for ordered maps: two are compared by their first bytes, which lie in place.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Repr);

#[derive(Clone, PartialEq, Eq)]
enum Repr {
    /// The whole key, and zeroes behind it.
    Short { bytes: [u8; PREFIX_BYTES], len: u8 },
    /// A key that is longer than its prefix. Clones share the whole of it.
    Long {
        prefix: [u8; PREFIX_BYTES],
        bytes: Arc<[u8]>,
    },
}

// An entry of the index is a key and a version, and is to fit in one cache line.
const _: () = assert!(size_of::<Key>() <= 32);

impl Key {
    /// The key of these bytes; short ones are kept in place.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Key {
        if let Some((prefix, _)) = bytes
            .split_first_chunk()
            .filter(|(_, rest)| !rest.is_empty())
        {
            let (prefix, bytes) = (*prefix, bytes.into());
            return Key(Repr::Long { prefix, bytes });
        }
        let mut short = [0; PREFIX_BYTES];
        short[..bytes.len()].copy_from_slice(bytes);
        let len = u8::try_from(bytes.len()).expect("it is no longer than a prefix");
        Key(Repr::Short { bytes: short, len })
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Short { bytes, len } => &bytes[..usize::from(*len)],
            Repr::Long { bytes, .. } => bytes,
        }
    }

    /// Whether it begins as another key does, which has at least so many bytes. For a few bytes neither key is looked at beyond what lies in place.
    pub(crate) fn begins_as(&self, other: &Key, bytes: usize) -> bool {
        let Some(rest) = PREFIX_BYTES.checked_sub(bytes) else {
            return self.bytes().starts_with(&other.bytes()[..bytes]);
        };
        let is_long_enough = match &self.0 {
            Repr::Short { len, .. } => usize::from(*len) >= bytes,
            Repr::Long { .. } => true,
        };
        let differ = self.prefix() ^ other.prefix();
        is_long_enough && (bytes == 0 || differ >> (8 * rest) == 0)
    }

    fn prefix(&self) -> u128 {
        match &self.0 {
            Repr::Short { bytes, .. } => u128::from_be_bytes(*bytes),
            Repr::Long { prefix, .. } => u128::from_be_bytes(*prefix),
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
        // Where one of two equal prefixes ends within, zeroes fill it up: then the shorter key is the smaller one.
        self.prefix()
            .cmp(&other.prefix())
            .then_with(|| match (&self.0, &other.0) {
                (Repr::Long { bytes: one, .. }, Repr::Long { bytes: other, .. }) => {
                    one[PREFIX_BYTES..].cmp(&other[PREFIX_BYTES..])
                }
                _ => self.bytes().len().cmp(&other.bytes().len()),
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

    /// Goal: a key begins as another one if their bytes do, whether they lie in place or not. Method: keys around the length of what lies in place, zeroes at their ends, all lengths.
    #[test]
    fn keys_begin_as_their_bytes_do() {
        let all: Vec<Vec<u8>> = [0, 1, 2, 15, 16, 17, 20]
            .into_iter()
            .flat_map(|len| {
                let key = vec![0; len];
                let changed = (0..len).map(move |at| {
                    let mut key = vec![0; len];
                    key[at] = 1;
                    key
                });
                changed.chain([key])
            })
            .collect();
        for one in &all {
            for other in &all {
                for bytes in 0..=other.len() {
                    assert_eq!(
                        Key::new(one).begins_as(&Key::new(other), bytes),
                        one.starts_with(&other[..bytes]),
                        "{one:?} {other:?} {bytes}"
                    );
                }
            }
        }
    }

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
