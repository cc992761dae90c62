//! Extents as the engine has them in memory: the segment being filled, and which key owns which chunk. Writing to them is in `extent.rs`.

use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct Extents {
    /// The segment being filled.
    pub(super) current: Option<u32>,
    /// A client's write began it.
    pub(super) is_clients: bool,
    /// Segments that garbage collection writes to; the pointers to there are still to come.
    pub(super) awaited: Vec<u32>,
    /// Grows with every change of these two.
    pub(super) changes: u64,
    /// Keys by the device offset of the chunks they own.
    pub(super) owners: BTreeMap<u64, Box<[u8]>>,
}

impl Extents {
    pub(crate) fn current(&self) -> Option<u32> {
        self.current
    }

    /// Whether the segment being filled was begun for garbage collection, or for a recovery: then it was taken from what is kept back for them.
    pub(crate) fn is_in_reserve(&self) -> bool {
        self.current.is_some() && !self.is_clients
    }

    /// Grows whenever what `needs` says may change.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether more is or will be written to it, so that it is not dead even if nothing is live there.
    pub(super) fn needs(&self, physical: u32) -> bool {
        self.current == Some(physical) || self.awaited.contains(&physical)
    }

    /// A pointer into this segment is still to come: it is in use, although nothing is live there yet.
    pub(crate) fn await_pointer(&mut self, physical: u32) {
        self.changes += 1;
        self.awaited.push(physical);
    }

    /// The pointers have come, or never will.
    pub(crate) fn await_no_more(&mut self) {
        self.changes += u64::from(!self.awaited.is_empty());
        self.awaited.clear();
    }

    /// Whether a live chunk begins there.
    pub(crate) fn is_owned(&self, offset: u64) -> bool {
        self.owners.contains_key(&offset)
    }

    pub(crate) fn own(&mut self, offset: u64, key: &[u8]) {
        let before = self.owners.insert(offset, key.into());
        assert!(before.is_none(), "a chunk has one owner");
    }

    pub(crate) fn disown(&mut self, offset: u64) {
        self.owners
            .remove(&offset)
            .expect("a live chunk has an owner");
    }

    /// The first live chunk at or after `offset` and before `end`.
    pub(crate) fn owner_from(&self, offset: u64, end: u64) -> Option<(u64, &[u8])> {
        self.owners
            .range(offset..end)
            .next()
            .map(|(offset, key)| (*offset, &key[..]))
    }
}
