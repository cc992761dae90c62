//! How far the index is loaded, and what is expected of the rest. What loads it is `load_index.rs`.

use crate::format::superblock::Counts;
use crate::index::key::Key;
use crate::log::tail::Tail;

/// An index of which the opening has read no more than where its leaves are.
#[derive(Debug)]
pub(crate) struct Loading {
    /// Keys up to this one are loaded; `None`: none is.
    pub(super) to: Option<Key>,
    /// What there may be beside what is counted.
    pub(super) left: Counts,
    /// Where the log ended: no entry of the runs refers to anything behind.
    pub(super) tail: Tail,
    /// A part of it cannot be read: what is not loaded never will be.
    pub(crate) has_failed: bool,
}

impl Loading {
    /// Nothing is loaded, and there may be so much.
    pub(super) fn new(left: Counts, tail: Tail) -> Loading {
        Loading {
            to: None,
            left,
            tail,
            has_failed: false,
        }
    }

    /// Whether the runs' entry of a key does not count yet, unless memory knows of the key.
    pub(crate) fn lacks(&self, key: &[u8]) -> bool {
        self.to.as_ref().is_none_or(|to| key > to.bytes())
    }

    /// Bytes that may be live beside those that are counted.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.left.live_bytes
    }
}
