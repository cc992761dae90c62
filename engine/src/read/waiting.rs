//! What is being read of the index, and who waits for it. How it goes on is in `lookup.rs`, for single keys, and in `window.rs`, for ranges.

use std::collections::BTreeMap;

use crate::api::error::Error;
use crate::api::port::{Direction, RequestId, ScanRange};
use crate::checkpoint::runs::FIRST_KEY;
use crate::format::page::PageRef;
use crate::index::key::Key;
use crate::index::key_range::KeyRange;
use crate::log::pool::Pool;
use crate::read::blind::Blind;
use crate::read::cache::Cache;

/// A read of the runs for one key.
#[derive(Debug)]
pub(super) struct Lookup {
    /// The operation that is under way for it, or was last; 0: none yet.
    pub(super) number: u64,
    pub(super) generation: u64,
    /// Leaves that are still to be read, the next one last.
    pub(super) leaves: Vec<PageRef>,
    pub(super) leaf: PageRef,
    pub(super) retried: bool,
    /// Gets that wait for it, and what they read at.
    pub(super) gets: Vec<(RequestId, u64)>,
}

/// A key that somebody waits for.
#[derive(Debug, Default)]
pub(super) struct Pin {
    count: u32,
    pub(super) found: Option<Found>,
}

/// What a lookup has found that leaves no entry in memory.
#[derive(Debug)]
pub(super) enum Found {
    /// No run has the key, as long as the runs are these.
    Absent {
        generation: u64,
    },
    Failed(Error),
}

/// Buffers of pages that are kept to be used again, in bytes.
const PAGES_BYTES_MAX: usize = 256 << 10;

/// One leaf may take all that leaves may.
const KEPT_LEAVES_MIN: u64 = 1;

/// A leaf's place, and its checksum: where another leaf lies by now, that is another one.
pub(super) type LeafKey = (u64, u64);

#[derive(Debug)]
pub(crate) struct Lookups {
    /// Buffers for pages.
    pub(super) pages: Pool,
    /// Grows whenever the runs become others.
    pub(crate) generation: u64,
    pub(super) under_way: BTreeMap<Key, Lookup>,
    /// Keys by the numbers of the operations that read for them.
    pub(super) reading: BTreeMap<u64, Key>,
    pub(super) next: u64,
    pub(super) pinned: BTreeMap<Key, Pin>,
    /// The keys of the request that waits first.
    pub(super) awaited: Vec<Key>,
    /// The range that a request which waits first wants to have known.
    pub(super) window: Option<Window>,
    /// The last range that was wanted so, until another one is.
    pub(super) served: Option<Window>,
    /// Keys that stay in memory until they are written.
    pub(crate) kept: Option<KeyRange>,
    /// What blind writes have replaced and is still counted.
    pub(crate) blind: Blind,
    /// Leaves that scans have read.
    pub(super) kept_leaves: Cache<LeafKey>,
}

impl Default for Lookups {
    fn default() -> Lookups {
        Lookups {
            pages: Pool::new(PAGES_BYTES_MAX),
            generation: 0,
            under_way: BTreeMap::new(),
            reading: BTreeMap::new(),
            next: 1,
            pinned: BTreeMap::new(),
            awaited: Vec::new(),
            window: None,
            served: None,
            kept: None,
            blind: Blind::default(),
            kept_leaves: Cache::new(0, KEPT_LEAVES_MIN),
        }
    }
}

impl Lookups {
    /// Nothing is known any more. What is still being read is of no use.
    pub(crate) fn start_anew(&mut self) {
        *self = Lookups {
            generation: self.generation + 1,
            next: self.next,
            ..Lookups::default()
        };
    }

    /// Bytes of leaves that are kept.
    pub(super) fn kept_leaves_bytes(&self) -> u64 {
        self.kept_leaves.held_bytes()
    }

    /// Nobody waits for a key.
    pub(crate) fn are_answered(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Nothing is being read, and nothing is still to be.
    pub(crate) fn are_idle(&self) -> bool {
        self.under_way.is_empty() && self.blind.is_empty()
    }

    pub(super) fn pin(&mut self, key: &Key) {
        self.pinned.entry(key.clone()).or_default().count += 1;
    }

    pub(super) fn unpin(&mut self, key: &Key) {
        let pin = self.pinned.get_mut(key).expect("it was pinned");
        pin.count -= 1;
        if pin.count == 0 {
            self.pinned.remove(key);
        }
    }

    pub(super) fn failure_of(&self, key: &Key) -> Option<Error> {
        match &self.pinned.get(key)?.found {
            Some(Found::Failed(error)) => Some(error.clone()),
            _ => None,
        }
    }

    /// Whether somebody needs it in memory.
    pub(super) fn needs(&self, key: &Key) -> bool {
        self.pinned.contains_key(key)
            || self.kept.as_ref().is_some_and(|it| it.has(key.bytes()))
            || self.window.as_ref().is_some_and(|window| window.has(key))
            || self.served.as_ref().is_some_and(|window| window.has(key))
    }
}

/// Up to where a range is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Edge {
    /// Backwards: nothing is known yet, and there is no upper bound.
    Top,
    /// Forward: the next key. Backwards: all keys from this one on are known.
    At(Key),
    /// Forward: all keys are known.
    Beyond,
}

/// What is known of a range that somebody waits for, and what is being read of it.
#[derive(Debug)]
pub(crate) struct Window {
    pub(super) direction: Direction,
    pub(super) edge: Edge,
    /// These stay in memory.
    pub(super) known: Vec<KeyRange>,
    pub(super) reading: Option<KeyRange>,
    pub(super) begun: bool,
    pub(super) failed: Option<Error>,
}

impl Window {
    /// Nothing of this range is known yet.
    pub(super) fn new(range: &ScanRange<'_>) -> Window {
        Window {
            direction: range.direction,
            edge: match (range.direction, range.end) {
                (Direction::Forward, _) => Edge::At(start_of(range)),
                (Direction::Reverse, Some(end)) => Edge::At(Key::new(end)),
                (Direction::Reverse, None) => Edge::Top,
            },
            known: Vec::new(),
            reading: None,
            begun: false,
            failed: None,
        }
    }

    /// What is known here of the keys beyond the edge of another.
    pub(super) fn beyond(&self, other: &Window) -> Option<KeyRange> {
        let mut known = self.known.iter();
        match (other.direction, &other.edge) {
            (Direction::Forward, Edge::At(edge)) => {
                let part = known.find(|it| it.has(edge.bytes()))?;
                Some(KeyRange::new(edge.clone(), part.end.clone()))
            }
            (Direction::Reverse, Edge::At(edge)) => {
                let is_beyond = |it: &&KeyRange| {
                    it.from < *edge && it.end.as_ref().is_none_or(|end| edge <= end)
                };
                let part = known.find(is_beyond)?;
                Some(KeyRange::new(part.from.clone(), Some(edge.clone())))
            }
            (Direction::Reverse, Edge::Top) => known.find(|it| it.end.is_none()).cloned(),
            _ => None,
        }
    }

    /// The keys of this part are known, beside what was known before.
    pub(super) fn add(&mut self, part: KeyRange) {
        self.known.push(part.clone());
        self.edge = match self.direction {
            Direction::Forward => part.end.map_or(Edge::Beyond, Edge::At),
            Direction::Reverse => Edge::At(part.from),
        };
    }

    pub(super) fn has(&self, key: &Key) -> bool {
        let mut parts = self.known.iter().chain(&self.reading);
        parts.any(|it| it.has(key.bytes()))
    }

    pub(super) fn end_reading(&mut self, result: Result<(), Error>) {
        let Some(part) = self.reading.take() else {
            return;
        };
        match result {
            Ok(()) => self.add(part),
            Err(error) => self.failed = Some(error),
        }
    }
}

/// The lower bound of a scan. No key is smaller than the first.
pub(super) fn start_of(range: &ScanRange<'_>) -> Key {
    Key::new(range.start.map_or(FIRST_KEY, |start| start.max(FIRST_KEY)))
}
