//! Writing and reading a checkpoint's trees of pages.
//!
//! Writing: entries come in ascending order. Pages are filled one after the other and placed as they are finished;
//! their references become the entries of the level above. Only the page being filled on each level is in memory, and a
//! batch of finished pages on its way to the device (`pages.rs`). Reading: level by level from the root, several reads in flight,
//! each page checked against the reference to it.

use std::collections::BTreeMap;

use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::checkpoint::pages::PageSink;
use crate::checkpoint::runs::Piece;
use crate::core::Core;
use crate::format::Geometry;
use crate::format::damage::Mismatch;
use crate::format::page::{
    self, LEVELS_MAX, PAGE_BYTES_MAX, PAGE_HEADER_BYTES, PAGE_REF_BYTES, Page, PageRef, Tree,
};
use crate::runtime::handle::{Handle, Io};
use crate::segments::usage::Use;

const READS_IN_FLIGHT_MAX: usize = 8;

#[derive(Debug, Default)]
struct Level {
    page: Vec<u8>,
    entries: u32,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
}

/// Builds one tree bottom up.
#[derive(Debug)]
pub(crate) struct TreeWriter {
    tree: Tree,
    levels: Vec<Level>,
}

impl TreeWriter {
    pub(crate) fn new(tree: Tree) -> TreeWriter {
        TreeWriter {
            tree,
            levels: Vec::new(),
        }
    }

    /// Adds a leaf entry. `None`: no segment is free.
    pub(crate) fn push(
        &mut self,
        core: &mut Core,
        sink: &mut PageSink,
        key: &[u8],
        payload: &[u8],
    ) -> Option<()> {
        self.push_at(core, sink, 0, key, payload)
    }

    fn push_at(
        &mut self,
        core: &mut Core,
        sink: &mut PageSink,
        level: usize,
        key: &[u8],
        payload: &[u8],
    ) -> Option<()> {
        if self.levels.len() == level {
            self.levels.push(Level::default());
        }
        let alone = page::entry_bytes(0, key.len(), payload.len());
        assert!(
            PAGE_HEADER_BYTES + alone <= PAGE_BYTES_MAX,
            "admission bounds the entries"
        );
        let current = &self.levels[level];
        let mut shared = page::shared_bytes(&current.last_key, key);
        let bytes = page::entry_bytes(shared, key.len(), payload.len());
        let target = page::target_bytes(core.geometry.block_bytes);
        if current.entries > 0 && current.page.len() + bytes > target {
            self.finish_page(core, sink, level)?;
        }
        let current = &mut self.levels[level];
        if current.entries == 0 {
            page::begin(&mut current.page);
            current.first_key = key.to_vec();
            shared = 0;
        }
        page::push(&mut current.page, shared, key, payload);
        current.last_key.clear();
        current.last_key.extend_from_slice(key);
        current.entries += 1;
        Some(())
    }

    /// Places the page of a level and tells the level above.
    fn finish_page(&mut self, core: &mut Core, sink: &mut PageSink, level: usize) -> Option<()> {
        let reference = self.emit(core, sink, level)?;
        let first_key = std::mem::take(&mut self.levels[level].first_key);
        let mut payload = [0; PAGE_REF_BYTES];
        reference.encode(&mut payload);
        self.push_at(core, sink, level + 1, &first_key, &payload)
    }

    fn emit(&mut self, core: &mut Core, sink: &mut PageSink, level: usize) -> Option<PageRef> {
        let current = &mut self.levels[level];
        let offset = sink.place(core, core.geometry.block_up(current.page.len() as u64))?;
        let height = u8::try_from(level).expect("a tree has few levels");
        let reference = page::finish(
            &core.id,
            self.tree,
            height,
            current.entries,
            offset,
            core.geometry.block_bytes,
            &mut current.page,
        );
        sink.put(&current.page);
        current.entries = 0;
        Some(reference)
    }

    /// Finishes all levels and returns the root.
    pub(crate) fn finish(mut self, core: &mut Core, sink: &mut PageSink) -> Option<PageRef> {
        if self.levels.is_empty() {
            return Some(PageRef::NONE);
        }
        let mut level = 0;
        while level + 1 < self.levels.len() {
            if self.levels[level].entries > 0 {
                self.finish_page(core, sink, level)?;
            }
            level += 1;
        }
        self.emit(core, sink, level)
    }
}

/// The pages of a checkpoint that were read.
#[derive(Debug, Default)]
pub(crate) struct Claimed {
    /// Where each ends, by its offset.
    ends: BTreeMap<u64, u64>,
    /// What the tree being read has where.
    pieces: BTreeMap<u32, u64>,
}

impl Claimed {
    /// No two pages overlap: so no page is read twice, and all of them are no more than the device holds.
    fn claim(&mut self, geometry: &Geometry, reference: &PageRef) -> Result<(), Mismatch> {
        let end = reference.offset + u64::from(reference.len);
        let last = self.ends.range(..end).next_back();
        match last {
            Some((_, until)) if *until > reference.offset => Err(Mismatch {
                what: "page where another page of the checkpoint is",
                expected: *until,
                found: reference.offset,
            }),
            _ => {
                self.ends.insert(reference.offset, end);
                let (physical, _) = geometry.locate(reference.offset);
                *self.pieces.entry(physical).or_insert(0) += u64::from(reference.len);
                Ok(())
            }
        }
    }

    /// What was read since the last call lies there.
    pub(crate) fn take_pieces(&mut self) -> Vec<Piece> {
        let pieces = std::mem::take(&mut self.pieces).into_iter();
        let pieces = pieces.map(|(physical, bytes)| Piece { physical, bytes });
        pieces.collect()
    }

    /// The segment with the most room behind its last page, and where that page ends.
    pub(crate) fn most_room(&self, geometry: &Geometry) -> Option<(u32, u64)> {
        let mut used = BTreeMap::new();
        for (offset, end) in &self.ends {
            let (physical, within) = geometry.locate(*offset);
            used.insert(physical, within + (end - offset));
        }
        used.into_iter().min_by_key(|(_, used)| *used)
    }
}

/// Checks that the keys of a tree's leaves ascend.
#[derive(Debug, Default)]
struct Ascending(Vec<u8>);

impl Ascending {
    fn check(&mut self, key: &[u8]) -> Result<(), Mismatch> {
        // No key is empty.
        if key <= &self.0[..] {
            return Err(Mismatch {
                what: "order of keys in a page",
                expected: self.0.len() as u64,
                found: key.len() as u64,
            });
        }
        self.0.clear();
        self.0.extend_from_slice(key);
        Ok(())
    }
}

/// Reads a whole tree; leaf entries go to `entry` in ascending order. Every page's segment is claimed.
pub(crate) async fn read_tree(
    handle: &Handle,
    claimed: &mut Claimed,
    tree: Tree,
    root: PageRef,
    mut entry: impl FnMut(&mut Core, &[u8], &[u8]) -> Result<(), Mismatch>,
) -> Result<(), Error> {
    if root == PageRef::NONE {
        return Ok(());
    }
    let mut references = vec![root];
    let mut expected_level = None;
    let mut ascending = Ascending::default();
    while !references.is_empty() {
        let mut below = Vec::new();
        for references in references.chunks(READS_IN_FLIGHT_MAX) {
            for reference in references {
                handle
                    .with(|core| claim_page(core, claimed, reference))
                    .map_err(|mismatch| mismatch.at(reference.offset))?;
            }
            let reads: Vec<Io> = references
                .iter()
                .map(|r| handle.read(r.offset, r.len.into()))
                .collect();
            for (reference, read) in references.iter().zip(reads) {
                let bytes = match read.await {
                    Ok(bytes) => bytes.expect("a read brings its buffer"),
                    Err(_) => {
                        handle
                            .read_retry(reference.offset, reference.len.into())
                            .await?
                    }
                };
                let result = handle.with(|core| -> Result<u8, Mismatch> {
                    let id = core.id;
                    let page = Page::decode(&id, tree, reference, &bytes)?;
                    let level = page.level;
                    if let Some(expected) = expected_level {
                        Mismatch::check("page level", expected, level.into())?;
                    } else if level >= LEVELS_MAX {
                        return Err(Mismatch {
                            what: "page level",
                            expected: LEVELS_MAX.into(),
                            found: level.into(),
                        });
                    }
                    if level > 0 {
                        core.reached(CoveragePoint::CheckpointInnerPage);
                    }
                    page.each(|key, payload| {
                        if level == 0 {
                            ascending.check(key)?;
                            return entry(core, key, payload);
                        }
                        Mismatch::check(
                            "page reference length",
                            PAGE_REF_BYTES as u64,
                            payload.len() as u64,
                        )?;
                        below.push(PageRef::decode(payload));
                        Ok(())
                    })?;
                    Ok(level)
                });
                handle.give(bytes);
                let level = result.map_err(|mismatch| mismatch.at(reference.offset))?;
                expected_level.get_or_insert(u64::from(level));
            }
        }
        expected_level = expected_level.and_then(|level| level.checked_sub(1));
        references = below;
    }
    Ok(())
}

fn claim_page(core: &mut Core, claimed: &mut Claimed, reference: &PageRef) -> Result<(), Mismatch> {
    reference.check(&core.geometry, core.segments.count())?;
    claimed.claim(&core.geometry, reference)?;
    let (physical, within) = core.geometry.locate(reference.offset);
    if !core.segments.claim(physical, Use::Page) {
        return Err(Mismatch {
            what: "page in a segment of another use",
            expected: Use::Page as u64,
            found: physical.into(),
        });
    }
    let end =
        u32::try_from(within + u64::from(reference.len)).expect("checked to lie in its segment");
    let segment = core.segments.get_mut(physical);
    segment.end = segment.end.max(end);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::api::config::{Config, DeviceInfo, Settings};
    use crate::format::pointer::{Chunk, Pointer};
    use crate::index::entry::{encode, pages_of};
    use crate::index::place::{Place, Version};
    use crate::segments::usage::Segments;

    fn core(block_bytes: u32, segment_bytes: u64) -> Core {
        let config = Config {
            device: DeviceInfo {
                sector_bytes: 512,
                physical_block_bytes: block_bytes,
                volatile_cache: true,
                write_through: false,
                capacity_bytes: 1 << 30,
                max_capacity_bytes: 1 << 30,
            },
            memory_bytes_max: 0,
            db_id: [1; 16],
            options: format!("segment_bytes={segment_bytes}"),
        };
        let mut core = Core::new(0, Settings::new(&config).expect("is right"));
        core.segments = Segments::new(core.geometry, 1000);
        core
    }

    fn place(kind: usize) -> Place {
        let chunk = Chunk {
            offset: 1 << 20,
            len: 4096,
            checksum: 5,
        };
        match kind {
            0 => Place::Log {
                lsn: 1 << 40,
                value_bytes: 1024,
                tag: 9,
            },
            1 => Place::Inline([3; 192].into()),
            2 => Place::Inline([3; 1024].into()),
            chunks => Place::Extent(Box::new(Pointer {
                total: 0,
                chunks: vec![chunk; chunks].into(),
            })),
        }
    }

    /// Goal: what is kept free for a checkpoint is enough for it, so that there always can be a next one. Method: trees of few and many entries, small, large and
    /// mixed ones in turn, with keys that begin with nothing in common, on devices of small and large blocks and segments.
    #[test]
    fn a_tree_takes_no_more_segments_than_its_entries_say() {
        let mixtures: [&[(usize, usize)]; 9] = [
            &[(1, 0)],
            &[(16, 0)],
            &[(16, 1)],
            &[(200, 0)],
            &[(1024, 2)],
            &[(16, 400)],
            &[(16, 0), (16, 410), (1024, 2)],
            &[(16, 0), (16, 790)],
            &[(16, 1), (16, 1), (16, 1), (16, 1), (16, 800)],
        ];
        for (block, segment) in [
            (512, 65_536),
            (4096, 65_536),
            (4096, 1 << 20),
            (32_768, 131_072),
        ] {
            // Small entries leave little unused: it takes many to see it.
            let cases = mixtures.iter().flat_map(|it| {
                let small = it.iter().all(|(key, kind)| key + kind < 100);
                [(it, 1), (it, 30), (it, if small { 60_000 } else { 600 })]
            });
            for (mixture, count) in cases {
                let mut core = core(block, segment);
                let handle = Handle::new(Rc::new(RefCell::new(self::core(block, segment))));
                let mut sink = PageSink::new(&handle, None, u64::MAX);
                let mut tree = TreeWriter::new(Tree::Run);
                let mut said = 0;
                let (mut payload, mut key) = (Vec::new(), Vec::new());
                for n in 0..count {
                    let (key_bytes, kind) = mixture[n % mixture.len()];
                    // The order matters to nobody here.
                    key.clear();
                    key.resize(key_bytes, n.to_le_bytes()[0]);
                    let version = Version {
                        sequence: 1 << 40,
                        place: place(kind),
                    };
                    payload.clear();
                    encode(&version, &mut payload);
                    tree.push(&mut core, &mut sink, &key, &payload)
                        .expect("has room");
                    said += pages_of(&key, &version);
                }
                tree.finish(&mut core, &mut sink).expect("has room");
                let (taken, kept) = (sink.segments.len() as u64, core.checkpoint_segments(said));
                assert!(
                    taken <= kept,
                    "{taken} of {kept}: {count} × {mixture:?} in blocks of {block}, segments of {segment}"
                );
            }
        }
    }
}
