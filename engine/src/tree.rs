//! Writing and reading a checkpoint's trees of pages.
//!
//! Writing: entries come in ascending order, pages are filled one after the other and placed as they are finished, their
//! references become the entries of the level above. Only the page being filled on each level is in memory, and a
//! batch of finished pages on its way to the device.
//! Reading: level by level from the root, several reads in flight, each page checked against the reference to it.

use crate::buffer::IoBuf;
use crate::core::Core;
use crate::error::{Error, Mismatch};
use crate::executor::{Handle, Io};
use crate::format::page::{
    self, LEVELS_MAX, PAGE_BYTES_MAX, PAGE_BYTES_TARGET, PAGE_HEADER_BYTES, PAGE_REF_BYTES, Page,
    PageRef, Tree,
};
use crate::marks::Mark;
use crate::segments::Use;

/// Finished pages are written when so many bytes have come together: a share of the write buffer, within bounds.
const BATCH_SHARE: u64 = 16;
const BATCH_BYTES_MIN: u64 = 64 << 10;
const BATCH_BYTES_MAX: u64 = 512 << 10;
const READS_IN_FLIGHT_MAX: usize = 8;

/// Where pages are placed: one segment after the other.
#[derive(Debug)]
pub(crate) struct PageSink {
    pub(crate) segments: Vec<u32>,
    used: u64,
    /// Pages not handed to the device yet, and the offset of the first.
    batch: Vec<u8>,
    batch_offset: u64,
    full: Vec<(u64, Vec<u8>)>,
    batch_bytes: usize,
    pub(crate) written_bytes: u64,
}

impl PageSink {
    pub(crate) fn new(handle: &Handle) -> PageSink {
        let buffer = handle.with(|core| core.settings.options.write_buffer_bytes);
        let batch = (buffer / BATCH_SHARE).clamp(BATCH_BYTES_MIN, BATCH_BYTES_MAX);
        PageSink {
            segments: Vec::new(),
            used: 0,
            batch: Vec::new(),
            batch_offset: 0,
            full: Vec::new(),
            batch_bytes: crate::format::to_usize(batch),
            written_bytes: 0,
        }
    }

    /// A place for so many bytes; `None` if no segment is free.
    fn place(&mut self, core: &mut Core, bytes: u64) -> Option<u64> {
        if self.segments.is_empty() || self.used + bytes > core.geometry.segment_bytes {
            self.close_batch();
            self.segments.push(core.segments.allocate(Use::Page)?);
            self.used = 0;
        }
        let physical = *self.segments.last().expect("one was just pushed");
        let offset = core.geometry.segment_offset(physical) + self.used;
        self.used += bytes;
        if self.batch.is_empty() {
            self.batch_offset = offset;
        }
        Some(offset)
    }

    fn put(&mut self, page: &[u8]) {
        self.batch.extend_from_slice(page);
        self.written_bytes += page.len() as u64;
        if self.batch.len() >= self.batch_bytes {
            self.close_batch();
        }
    }

    pub(crate) fn close_batch(&mut self) {
        if !self.batch.is_empty() {
            self.full
                .push((self.batch_offset, std::mem::take(&mut self.batch)));
        }
    }

    /// Whether a batch waits to be written.
    pub(crate) fn has_full(&self) -> bool {
        !self.full.is_empty()
    }

    /// Starts writing the finished batches.
    pub(crate) fn write_out(&mut self, handle: &Handle) -> Vec<Io> {
        let write = |(offset, bytes): (u64, Vec<u8>)| {
            let mut data = IoBuf::zeroed(bytes.len());
            data.copy_from_slice(&bytes);
            handle.write(offset, data, false)
        };
        self.full.drain(..).map(write).collect()
    }
}

#[derive(Debug, Default)]
struct Level {
    page: Vec<u8>,
    entries: u32,
    first_key: Vec<u8>,
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
        let bytes = page::entry_bytes(key, payload);
        assert!(
            PAGE_HEADER_BYTES + bytes <= PAGE_BYTES_MAX,
            "admission bounds the entries"
        );
        if self.levels[level].entries > 0
            && self.levels[level].page.len() + bytes > PAGE_BYTES_TARGET
        {
            self.finish_page(core, sink, level)?;
        }
        let current = &mut self.levels[level];
        if current.entries == 0 {
            page::begin(&mut current.page);
            current.first_key = key.to_vec();
        }
        page::push(&mut current.page, key, payload);
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

/// Reads a whole tree; leaf entries go to `entry` in ascending order. Every page's segment is claimed.
pub(crate) async fn read_tree(
    handle: &Handle,
    tree: Tree,
    root: PageRef,
    mut entry: impl FnMut(&mut Core, &[u8], &[u8]) -> Result<(), Mismatch>,
) -> Result<(), Error> {
    if root == PageRef::NONE {
        return Ok(());
    }
    let mut references = vec![root];
    let mut expected_level = None;
    while !references.is_empty() {
        let mut below = Vec::new();
        for references in references.chunks(READS_IN_FLIGHT_MAX) {
            for reference in references {
                handle
                    .with(|core| claim_page(core, reference))
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
                        core.mark(Mark::CheckpointInnerPage);
                    }
                    for (key, payload) in page.entries()? {
                        if level == 0 {
                            entry(core, key, payload)?;
                        } else {
                            Mismatch::check(
                                "page reference length",
                                PAGE_REF_BYTES as u64,
                                payload.len() as u64,
                            )?;
                            below.push(PageRef::decode(payload));
                        }
                    }
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

fn claim_page(core: &mut Core, reference: &PageRef) -> Result<(), Mismatch> {
    reference.check(&core.geometry, core.segments.count())?;
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
