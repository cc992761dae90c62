//! Writing a checkpoint's trees of pages. (Reading: `read.rs`.)
//!
//! Entries come in ascending order. Pages are filled one after the other and placed as they are finished;
//! their references become the entries of the level above. Only the page being filled on each level is in memory, and a
//! batch of finished pages on its way to the device (`pages.rs`).

use std::sync::Arc;

use crate::checkpoint::filters;
use crate::checkpoint::leaves::LeavesDraft;
use crate::checkpoint::pages::PageSink;
use crate::checkpoint::runs::Run;
use crate::core::Core;
use crate::format::page::{self, PAGE_REF_BYTES, PageRef, Tree};
use crate::index::key::Key;
use crate::index::weight::Weight;

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
    /// Of a run whose entries may leave memory.
    leaves: Option<LeavesDraft>,
    /// What the entries of such a run weigh.
    weight: Weight,
}

impl TreeWriter {
    pub(crate) fn new(tree: Tree) -> TreeWriter {
        TreeWriter {
            tree,
            levels: Vec::new(),
            leaves: None,
            weight: Weight::default(),
        }
    }

    /// The tree of a run. Its leaves are noted where entries may leave memory, or are not loaded yet.
    pub(crate) fn of_run(core: &Core) -> TreeWriter {
        TreeWriter {
            leaves: (core.forgets() || core.loading.is_some()).then(LeavesDraft::default),
            ..TreeWriter::new(Tree::Run)
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
        if let Some(leaves) = &mut self.leaves {
            leaves.note_key(key);
            self.weight += Weight::of_entry(key, payload);
        }
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
        let fits = page::check_entry(key, payload).is_ok();
        assert!(fits, "admission bounds the entries");
        let current = &self.levels[level];
        let mut shared = page::shared_bytes(&current.last_key, key);
        let bytes = page::entry_bytes(shared, key.len(), payload.len());
        let (block_bytes, used) = (core.geometry.block_bytes, current.page.len());
        let is_small_leaf = self.leaves.is_some() && level == 0;
        let is_full = || {
            used + bytes > page::target_bytes(block_bytes)
                || (is_small_leaf && page::closes_leaf(block_bytes, used, bytes, key.len()))
        };
        if current.entries > 0 && is_full() {
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
        if let Some(leaves) = self.leaves.as_mut().filter(|_| level == 0) {
            leaves.note_leaf(&current.first_key, reference);
        }
        Some(reference)
    }

    /// Finishes all levels and returns the root.
    pub(crate) fn finish(mut self, core: &mut Core, sink: &mut PageSink) -> Option<PageRef> {
        self.finish_levels(core, sink)
    }

    /// The same for a run, with its leaves where they were noted; `None` in place of one without entries.
    pub(crate) fn finish_run(
        mut self,
        core: &mut Core,
        sink: &mut PageSink,
    ) -> Option<Option<Run>> {
        let root = self.finish_levels(core, sink)?;
        let last = self.levels.first().map(|leaf| Key::new(&leaf.last_key));
        let weight = self.leaves.is_some().then_some(self.weight);
        let leaves = self.leaves.map(LeavesDraft::finish);
        let filter = match &leaves {
            Some(leaves) if core.forgets() => filters::write(core, sink, leaves, self.weight)?,
            _ => PageRef::NONE,
        };
        let leaves = leaves.map(Arc::new);
        let pieces = sink.end_tree();
        let run = Run {
            root,
            filter,
            pieces,
            leaves,
            last,
            weight,
        };
        Some((root != PageRef::NONE).then_some(run))
    }

    fn finish_levels(&mut self, core: &mut Core, sink: &mut PageSink) -> Option<PageRef> {
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::api::config::{Config, DeviceInfo, Settings};
    use crate::format::pointer::{Chunk, Pointer};
    use crate::index::entry::{encode, pages_of};
    use crate::index::place::{Place, Version};
    use crate::runtime::handle::Handle;
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
    /// mixed ones in turn, with keys that begin with nothing in common, with large and with small leaves, on devices of small and large blocks and segments.
    #[test]
    fn a_tree_takes_no_more_segments_than_its_entries_say() {
        let mixtures: [&[(usize, usize)]; 14] = [
            &[(217, 0)],
            &[(45, 0)],
            &[(16, 0), (1, 0), (45, 0), (60, 0)],
            &[(1, 0)],
            &[(16, 0)],
            &[(16, 1)],
            &[(200, 0)],
            &[(1024, 2)],
            &[(16, 400)],
            &[(16, 0), (16, 410), (1024, 2)],
            &[(16, 0), (16, 790)],
            &[(16, 1), (16, 1), (16, 1), (16, 1), (16, 800)],
            &[(16, 0), (16, 0), (16, 0), (217, 0)],
            &[(16, 1), (1, 0), (200, 0), (80, 0)],
        ];
        for (block, segment) in [
            (512, 65_536),
            (4096, 65_536),
            (4096, 1 << 20),
            (32_768, 131_072),
        ] {
            // Small entries leave little unused: it takes many to see it.
            let cases = mixtures.iter().flat_map(|it| {
                let small = it.iter().all(|(key, kind)| key + kind < 256);
                let many = if small { 60_000 } else { 600 };
                [1, 30, many].map(|count| (it, count))
            });
            let cases = cases.flat_map(|(it, count)| [(it, count, false), (it, count, true)]);
            for (mixture, count, small_leaves) in cases {
                let mut core = core(block, segment);
                let handle = Handle::new(Rc::new(RefCell::new(self::core(block, segment))));
                let mut sink = PageSink::new(&handle, None, u64::MAX, false);
                let mut tree = TreeWriter {
                    leaves: small_leaves.then(LeavesDraft::default),
                    ..TreeWriter::new(Tree::Run)
                };
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
                    "{taken} of {kept}: {count} × {mixture:?} in blocks of {block}, segments of {segment}, small leaves: {small_leaves}"
                );
            }
        }
    }
}
