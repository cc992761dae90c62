//! Ranges of keys: what callers write, and the bounds that the engine takes.
//!
//! Invariant: bounds that are the wrong way round hold no key, and are no error.

use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use kvsim_engine::{Direction, ScanRange};

/// A range of keys, in the order of their bytes: any range of the standard library over anything that is bytes, or a [`Prefix`].
///
/// Bounds that are the wrong way round hold no key.
///
/// ```
/// use std::ops::Bound;
/// use kvsim_native::{KeyRange, Prefix};
///
/// assert!((..).contains_key(b"any"));
/// assert!((.."m").contains_key(b"lemon"));
/// assert!(!("a"..="b").contains_key(b"ba"));
/// assert!(!("b".."a").contains_key(b"a"));
/// assert!((Bound::Excluded("a"), Bound::<&str>::Unbounded).contains_key(b"a\0"));
/// assert!(Prefix("user/").contains_key(b"user/7"));
/// ```
pub trait KeyRange {
    /// The smallest key, included; `None`: from the first.
    fn start(&self) -> Option<Vec<u8>>;

    /// The smallest key that is beyond the range; `None`: up to the last.
    fn end(&self) -> Option<Vec<u8>>;

    /// Whether the range holds this key.
    fn contains_key(&self, key: &[u8]) -> bool {
        self.start().is_none_or(|start| *start <= *key) && self.end().is_none_or(|end| *key < *end)
    }
}

/// The keys that begin with these bytes; without any, all keys.
///
/// ```
/// # use kvsim_native::{Database, Durability, OpenOptions, Prefix};
/// # let directory = tempfile::tempdir()?;
/// # let database = Database::open(&directory.path().join("database"), &OpenOptions::default())?;
/// database.put(b"user/1", b"Ada", Durability::Relaxed)?;
/// database.put(b"visit/1", b"home", Durability::Relaxed)?;
/// assert_eq!(database.range(Prefix("user/"))?.count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix<K>(pub K);

/// The smallest key that is larger than this one.
pub(crate) fn successor(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// The smallest key that is larger than all that begin with these bytes.
pub(crate) fn beyond(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

fn start_of(bound: Bound<&[u8]>) -> Option<Vec<u8>> {
    match bound {
        Bound::Included(key) => Some(key.to_vec()),
        Bound::Excluded(key) => Some(successor(key)),
        Bound::Unbounded => None,
    }
}

fn end_of(bound: Bound<&[u8]>) -> Option<Vec<u8>> {
    match bound {
        Bound::Included(key) => Some(successor(key)),
        Bound::Excluded(key) => Some(key.to_vec()),
        Bound::Unbounded => None,
    }
}

impl<K: AsRef<[u8]>> KeyRange for Prefix<K> {
    fn start(&self) -> Option<Vec<u8>> {
        Some(self.0.as_ref().to_vec())
    }
    fn end(&self) -> Option<Vec<u8>> {
        beyond(self.0.as_ref())
    }
}

impl<K: AsRef<[u8]>> KeyRange for (Bound<K>, Bound<K>) {
    fn start(&self) -> Option<Vec<u8>> {
        start_of(self.0.as_ref().map(AsRef::as_ref))
    }
    fn end(&self) -> Option<Vec<u8>> {
        end_of(self.1.as_ref().map(AsRef::as_ref))
    }
}

/// The ranges of the standard library, each by its own bounds. A trait of ours and not `RangeBounds`: with that one, `b"a"..b"b"` could be a range of two types.
macro_rules! ranges {
    ($($range:ident => $start:expr, $end:expr;)*) => {$(
        impl<K: AsRef<[u8]>> KeyRange for $range<K> {
            fn start(&self) -> Option<Vec<u8>> {
                let bound: fn(&$range<K>) -> Bound<&K> = $start;
                start_of(bound(self).map(AsRef::as_ref))
            }
            fn end(&self) -> Option<Vec<u8>> {
                let bound: fn(&$range<K>) -> Bound<&K> = $end;
                end_of(bound(self).map(AsRef::as_ref))
            }
        }
    )*};
}

ranges! {
    Range => |range| Bound::Included(&range.start), |range| Bound::Excluded(&range.end);
    RangeInclusive => |range| Bound::Included(range.start()), |range| Bound::Included(range.end());
    RangeFrom => |range| Bound::Included(&range.start), |_| Bound::Unbounded;
    RangeTo => |_| Bound::Unbounded, |range| Bound::Excluded(&range.end);
    RangeToInclusive => |_| Bound::Unbounded, |range| Bound::Included(&range.end);
}

impl KeyRange for RangeFull {
    fn start(&self) -> Option<Vec<u8>> {
        None
    }
    fn end(&self) -> Option<Vec<u8>> {
        None
    }
}

/// What of a range is still to be read.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    /// Included.
    pub(crate) start: Option<Vec<u8>>,
    /// Excluded.
    pub(crate) end: Option<Vec<u8>>,
}

impl KeyRange for Bounds {
    fn start(&self) -> Option<Vec<u8>> {
        self.start.clone()
    }
    fn end(&self) -> Option<Vec<u8>> {
        self.end.clone()
    }
}

impl Bounds {
    pub(crate) fn of(range: &(impl KeyRange + ?Sized)) -> Bounds {
        Bounds {
            start: range.start(),
            end: range.end(),
        }
    }

    /// As a scan, within a snapshot or without one.
    pub(crate) fn scan(
        &self,
        snapshot: u64,
        direction: Direction,
        limit: u32,
        max_bytes: u32,
    ) -> ScanRange<'_> {
        ScanRange {
            snapshot,
            direction,
            start: self.start.as_deref(),
            end: self.end.as_deref(),
            limit,
            max_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each kind of range holds the keys that its bounds say. Method: every kind around the keys of one and two bytes near a bound, against the
    /// comparison of the bytes.
    #[test]
    fn ranges_hold_what_their_bounds_say() {
        let keys: Vec<Vec<u8>> = [0, 1, 5, 6, 254, 255]
            .into_iter()
            .flat_map(|first| {
                let longer = [0, 1, 255].map(|second| vec![first, second]);
                [vec![vec![first]], longer.to_vec()].concat()
            })
            .collect();
        let (low, high) = ([1_u8, 1], [5_u8]);
        for key in &keys {
            let key = &key[..];
            assert!((..).contains_key(key));
            let is = |range: &dyn KeyRange| range.contains_key(key);
            assert_eq!(
                is(&(low.as_slice()..&high)),
                low[..] <= *key && *key < high[..]
            );
            assert_eq!(
                is(&(low.as_slice()..=&high)),
                low[..] <= *key && *key <= high[..]
            );
            assert_eq!(is(&(low..)), low[..] <= *key);
            assert_eq!(is(&(..high)), *key < high[..]);
            assert_eq!(is(&(..=high)), *key <= high[..]);
            assert!(!is(&(high.as_slice()..&low)));
            let excluded = (Bound::Excluded(&low[..]), Bound::Excluded(&high[..]));
            assert_eq!(is(&excluded), low[..] < *key && *key < high[..]);
            for prefix in [&[][..], &[5], &[255], &[255, 255], &[5, 255]] {
                assert_eq!(
                    is(&Prefix(prefix)),
                    key.starts_with(prefix),
                    "{key:?} {prefix:?}"
                );
            }
        }
    }
}
