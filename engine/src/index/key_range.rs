//! A range of keys.

use crate::index::key::Key;

/// Keys from the first on, and before the second; without that, all behind the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) from: Key,
    pub(crate) end: Option<Key>,
}

impl KeyRange {
    pub(crate) fn new(from: Key, end: Option<Key>) -> KeyRange {
        KeyRange { from, end }
    }

    /// Whether it has the key of these bytes.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        self.from.bytes() <= key && self.end.as_ref().is_none_or(|end| key < end.bytes())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.from)
    }
}
