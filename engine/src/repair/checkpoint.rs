//! What the superblock leads to: the table of segments, and the entries of all runs, with the ranges of keys of which something is missing.

use super::layout::Layout;
use super::tree::{KeySpan, PageEntry, Pages};
use super::{Found, Source};
use crate::checkpoint::runs::{FIRST_KEY, Partition, Roots};
use crate::checkpoint::table::decode_table_entry;
use crate::format::page::{PageRef, Tree};
use crate::format::superblock::Superblock;
use crate::index::entry;
use crate::index::key::Key;

/// A range of keys of which some run is not known.
#[derive(Debug, Clone)]
pub(super) struct Unknown {
    pub(super) span: KeySpan,
    /// The run; entries of newer ones count all the same. Greater than any: the whole partition is not known.
    pub(super) run: usize,
}

impl Unknown {
    /// No key is known for certain.
    pub(super) fn everything() -> Unknown {
        Unknown {
            span: all_keys(),
            run: usize::MAX,
        }
    }
}

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Checkpoint {
    pub(super) found: Vec<Found>,
    pub(super) unknown: Vec<Unknown>,
    /// Parts of the log, and the segments that they are in.
    pub(super) parts: Vec<(u64, u32)>,
}

pub(super) fn all_keys() -> KeySpan {
    KeySpan {
        from: FIRST_KEY.into(),
        to: None,
    }
}

/// Reads the checkpoint as far as it is whole.
pub(super) fn read(pages: &mut Pages<'_>, layout: &Layout, superblock: &Superblock) -> Checkpoint {
    let mut checkpoint = Checkpoint::default();
    if superblock.table_root != PageRef::NONE {
        // Keys of the table are numbers.
        let numbers = KeySpan {
            from: [].into(),
            to: None,
        };
        let table = pages.tree(Tree::Table, superblock.table_root, numbers);
        checkpoint.parts = table.entries.iter().filter_map(part_of).collect();
    }
    if superblock.partitions_root == PageRef::NONE {
        return checkpoint;
    }
    let list = pages.tree(Tree::Partitions, superblock.partitions_root, all_keys());
    let mut bounds: Vec<Box<[u8]>> = list.entries.iter().map(|(from, _)| from.clone()).collect();
    for span in list.damaged {
        bounds.push(span.from.clone());
        checkpoint.missing(span, usize::MAX);
    }
    bounds.sort();
    for (from, payload) in list.entries {
        let next = bounds.partition_point(|bound| *bound <= from);
        let span = KeySpan {
            from,
            to: bounds.get(next).cloned(),
        };
        match Partition::decode(&payload) {
            Ok(roots) => checkpoint.partition(pages, layout, &span, &roots),
            Err(_) => checkpoint.missing(span, usize::MAX),
        }
    }
    checkpoint
}

impl Checkpoint {
    fn missing(&mut self, span: KeySpan, run: usize) {
        self.unknown.push(Unknown { span, run });
    }

    fn partition(
        &mut self,
        pages: &mut Pages<'_>,
        layout: &Layout,
        span: &KeySpan,
        roots: &[Roots],
    ) {
        for (run, root) in roots.iter().enumerate() {
            let read = pages.tree(Tree::Run, root.run, span.clone());
            for damaged in read.damaged {
                self.missing(damaged, run);
            }
            for (key, payload) in read.entries {
                match entry::decode(&layout.geometry, u32::MAX, &payload) {
                    Ok(version) => self.found.push(Found {
                        key: Key::new(&key),
                        sequence: version.sequence,
                        place: version.place,
                        source: Source::Run(run),
                    }),
                    Err(_) => self.missing(only(key), run),
                }
            }
        }
    }
}

/// The span of one key.
fn only(key: Box<[u8]>) -> KeySpan {
    let mut to = key.to_vec();
    to.push(0);
    KeySpan {
        from: key,
        to: Some(to.into()),
    }
}

/// What an entry of the table says of the log.
fn part_of((key, payload): &PageEntry) -> Option<(u64, u32)> {
    let listed = decode_table_entry(key, payload).ok()?;
    listed.logical.map(|logical| (logical, listed.physical))
}
