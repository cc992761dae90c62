//! What a scan found, borrowed from the caches or from buffers that were read; nothing is copied.

use std::sync::Arc;

use kvsim_engine::Direction;

use crate::cache::leaf::Leaf;

/// Some rows of a leaf.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    leaf: Arc<Leaf>,
    from: usize,
    to: usize,
}

impl Piece {
    pub(crate) fn new(leaf: Arc<Leaf>, from: usize, to: usize) -> Piece {
        assert!(from <= to && to <= leaf.len(), "rows that are there");
        Piece { leaf, from, to }
    }

    fn len(&self) -> usize {
        self.to - self.from
    }
}

#[derive(Debug, Clone)]
enum Found {
    /// In the scan's direction; the rows of each are in the order of their keys.
    Borrowed(Vec<Piece>),
    /// In the scan's direction.
    Read(Vec<kvsim_engine::Entry>),
}

/// What a scan found. It keeps what it hands out in memory as long as it is live.
#[derive(Debug, Clone)]
pub struct Entries {
    found: Found,
    len: usize,
    more: bool,
    reverse: bool,
    /// Bytes at the beginning of each key that are not shown.
    prefix_bytes: usize,
}

/// One entry of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

impl Entries {
    /// Rows of leaves.
    pub(crate) fn borrowed(pieces: Vec<Piece>, more: bool, direction: Direction) -> Entries {
        Entries {
            len: pieces.iter().map(Piece::len).sum(),
            found: Found::Borrowed(pieces),
            more,
            reverse: direction == Direction::Reverse,
            prefix_bytes: 0,
        }
    }

    /// Rows in the order of their keys.
    pub(crate) fn of_rows(rows: &[Arc<[u8]>], more: bool, direction: Direction) -> Entries {
        let leaf = Leaf::of(rows.iter().cloned());
        let piece = Piece::new(Arc::new(leaf), 0, rows.len());
        Entries::borrowed(vec![piece], more, direction)
    }

    /// What the engine read, in the scan's direction.
    pub(crate) fn read(entries: Vec<kvsim_engine::Entry>, more: bool) -> Entries {
        Entries {
            len: entries.len(),
            found: Found::Read(entries),
            more,
            reverse: false,
            prefix_bytes: 0,
        }
    }

    /// The same entries, of which each key is shown without so many bytes at its beginning.
    pub(crate) fn without(self, prefix_bytes: usize) -> Entries {
        Entries {
            prefix_bytes,
            ..self
        }
    }

    /// How many entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The range holds more.
    #[must_use]
    pub fn more(&self) -> bool {
        self.more
    }

    /// Keys and values in the scan's direction.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter {
            entries: self,
            piece: 0,
            at: 0,
        }
    }
}

impl<'a> IntoIterator for &'a Entries {
    type Item = Entry<'a>;
    type IntoIter = Iter<'a>;
    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Goes through what a scan found.
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    entries: &'a Entries,
    piece: usize,
    /// Rows of that piece, or entries, that were returned.
    at: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Entry<'a>;
    fn next(&mut self) -> Option<Entry<'a>> {
        let pieces = match &self.entries.found {
            Found::Borrowed(pieces) => pieces,
            Found::Read(entries) => {
                let entry = entries.get(self.at)?;
                self.at += 1;
                return Some(Entry {
                    key: &entry.key[self.entries.prefix_bytes..],
                    value: &entry.value,
                });
            }
        };
        loop {
            let piece = pieces.get(self.piece)?;
            if self.at < piece.len() {
                let row = if self.entries.reverse {
                    piece.to - 1 - self.at
                } else {
                    piece.from + self.at
                };
                self.at += 1;
                let (key, value) = piece.leaf.entry(row);
                let key = &key[self.entries.prefix_bytes..];
                return Some(Entry { key, value });
            }
            self.piece += 1;
            self.at = 0;
        }
    }
}
