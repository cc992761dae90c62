//! A few bytes that stand before every key of a part of a database, and how keys and ranges get them and lose them.
//!
//! Invariant: no prefix is the beginning of another, so what is between a prefix's bounds is that part's alone (`keyspaces/identifier.rs`).

use crate::api::key_range::{Bounds, KeyRange, beyond};

/// Bytes of a prefix at most.
pub(crate) const PREFIX_BYTES_MAX: usize = 4;
/// A key that is no longer than this, with its prefix, is put together in a small place.
const SHORT_BYTES: usize = 64;
/// Any key that can be there, with its prefix, is no longer than this.
const LONG_BYTES: usize = 1024;

/// What stands before every key; nothing in a database that is not divided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KeyPrefix {
    bytes: [u8; PREFIX_BYTES_MAX],
    len: u8,
}

impl KeyPrefix {
    /// The prefix of these bytes, of which there are at most four.
    pub(crate) fn new(prefix: &[u8]) -> KeyPrefix {
        let mut bytes = [0; PREFIX_BYTES_MAX];
        bytes[..prefix.len()].copy_from_slice(prefix);
        let len = u8::try_from(prefix.len()).expect("it was just copied");
        KeyPrefix { bytes, len }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// The key with the prefix, in memory of its own.
    pub(crate) fn joined(&self, key: &[u8]) -> Vec<u8> {
        [self.bytes(), key].concat()
    }

    /// Hands the key on with the prefix, put together on the stack unless it is too long to be there.
    pub(crate) fn with<T>(&self, key: &[u8], act: impl FnOnce(&[u8]) -> T) -> T {
        if self.len == 0 {
            return act(key);
        }
        let len = self.len() + key.len();
        if len <= SHORT_BYTES {
            act(self.fill(&mut [0; SHORT_BYTES], key))
        } else if len <= LONG_BYTES {
            act(self.fill(&mut [0; LONG_BYTES], key))
        } else {
            act(&self.joined(key))
        }
    }

    fn fill<'a>(&self, place: &'a mut [u8], key: &[u8]) -> &'a [u8] {
        let end = self.len() + key.len();
        place[..self.len()].copy_from_slice(self.bytes());
        place[self.len()..end].copy_from_slice(key);
        &place[..end]
    }

    /// A range of keys as bounds of keys with the prefix.
    pub(crate) fn bounds(&self, range: &(impl KeyRange + ?Sized)) -> Bounds {
        self.within(Bounds::of(range))
    }

    /// The same of bounds.
    pub(crate) fn within(&self, bounds: Bounds) -> Bounds {
        if self.len == 0 {
            return bounds;
        }
        Bounds {
            start: Some(self.joined(bounds.start.as_deref().unwrap_or_default())),
            end: match bounds.end {
                Some(end) => Some(self.joined(&end)),
                None => beyond(self.bytes()),
            },
        }
    }

    /// A key that was read, without the prefix.
    pub(crate) fn strip(&self, key: Box<[u8]>) -> Box<[u8]> {
        match self.len() {
            0 => key,
            len => key[len..].into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::key_range::Prefix;

    /// Goal: a key comes back without its prefix, and a range with a prefix holds just the keys of that prefix whose rest is in the range. Method: prefixes that are neighbours,
    /// keys of each length at which the place for a key changes, and of bytes at the ends.
    #[test]
    fn prefixes_divide_the_keys() {
        let prefixes = [&[1][..], &[2], &[0x80, 0x80], &[0x80, 0xff], &[0x81, 0]];
        let prefixes = prefixes.map(KeyPrefix::new);
        let mut keys: Vec<Vec<u8>> = vec![vec![], vec![0], vec![255], vec![255; 9], b"m".to_vec()];
        for len in [59, 60, 63, 64, 1020, 1022, 1023, 1024, 3000] {
            keys.push(vec![7; len]);
        }
        let ranges: [&dyn KeyRange; 5] =
            [&.., &("a".."n"), &Prefix(&[255]), &(&[7][..]..), &(.."m")];
        for own in &prefixes {
            for key in &keys {
                let joined = own.joined(key);
                assert!(own.with(key, |raw| raw == joined));
                assert_eq!(*own.strip(joined.clone().into()), **key);
                for of in &prefixes {
                    for range in ranges {
                        let bounds = of.bounds(range);
                        let start = bounds.start.expect("the prefix is one");
                        let end = bounds.end.expect("no prefix is of 255 alone");
                        assert_eq!(
                            start <= joined && joined < end,
                            own == of && range.contains_key(key),
                            "{of:?} {joined:?}"
                        );
                    }
                }
            }
        }
    }
}
