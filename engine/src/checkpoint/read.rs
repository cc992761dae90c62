//! Reading a checkpoint's trees of pages, with or without their leaves, several reads in flight, leaves that lie one behind the other in one go, each page checked against the reference to it.
//!
//! Invariants: the entries of a tree come in ascending order. Of several trees all entries of one come before those of the next.

use std::collections::{BTreeMap, VecDeque};

use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::checkpoint::runs::Piece;
use crate::checkpoint::stretch::Stretch;
use crate::core::Core;
use crate::format::Geometry;
use crate::format::damage::Mismatch;
use crate::format::page::{LEVELS_MAX, PAGE_REF_BYTES, Page, PageRef, Tree};
use crate::index::key::Key;
use crate::runtime::handle::Handle;
use crate::segments::usage::Use;

const READS_IN_FLIGHT_MAX: usize = 8;

/// The pages of a checkpoint that were read: where each ends, by its offset.
#[derive(Debug, Default)]
pub(crate) struct Claimed(BTreeMap<u64, u64>);

impl Claimed {
    /// No two pages overlap: so no page is read twice, and all of them are no more than the device holds.
    fn claim(&mut self, reference: &PageRef) -> Result<(), Mismatch> {
        let end = reference.offset + u64::from(reference.len);
        let last = self.0.range(..end).next_back();
        match last {
            Some((_, until)) if *until > reference.offset => Err(Mismatch {
                what: "page where another page of the checkpoint is",
                expected: *until,
                found: reference.offset,
            }),
            _ => {
                self.0.insert(reference.offset, end);
                Ok(())
            }
        }
    }

    /// The segment with the most room behind its last page, and where that page ends.
    pub(crate) fn most_room(&self, geometry: &Geometry) -> Option<(u32, u64)> {
        let mut used = BTreeMap::new();
        for (offset, end) in &self.0 {
            let (physical, within) = geometry.locate(*offset);
            used.insert(physical, within + (end - offset));
        }
        used.into_iter().min_by_key(|(_, used)| *used)
    }
}

/// Checks that keys ascend.
#[derive(Debug, Default, Clone)]
pub(crate) struct Ascending(Vec<u8>);

impl Ascending {
    pub(crate) fn check(&mut self, key: &[u8]) -> Result<(), Mismatch> {
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

    /// The last one, if there was any.
    pub(crate) fn last(&self) -> Option<Key> {
        (!self.0.is_empty()).then(|| Key::new(&self.0))
    }
}

/// Pages that are still to be read: one, or several leaves.
struct Next {
    pages: Stretch,
    /// Number of the tree that they belong to.
    tree: usize,
    /// The level that they must have, if it is no root.
    level: Option<u8>,
}

impl Next {
    /// Begins to read them. Their segment is in use from now on.
    fn begin(&mut self, handle: &Handle, claimed: &mut Claimed) -> Result<(), Error> {
        if !self.pages.has_begun() {
            for page in self.pages.pages() {
                handle
                    .with(|core| claim_page(core, claimed, page))
                    .map_err(|mismatch| mismatch.at(page.offset))?;
            }
            self.pages.begin(handle);
        }
        Ok(())
    }

    fn check_level(level: Option<u8>, page: &Page<'_>) -> Result<(), Mismatch> {
        let (expected, is_right) = match level {
            Some(level) => (level, page.level == level),
            None => (LEVELS_MAX, page.level < LEVELS_MAX),
        };
        match is_right {
            true => Ok(()),
            false => Err(Mismatch {
                what: "page level",
                expected: expected.into(),
                found: page.level.into(),
            }),
        }
    }
}

/// Reads a whole tree. Its leaf entries go to `entry`. Without a root there are none.
pub(crate) async fn read_tree(
    handle: &Handle,
    claimed: &mut Claimed,
    kind: Tree,
    root: PageRef,
    mut entry: impl FnMut(&mut Core, &[u8], &[u8]) -> Result<(), Mismatch>,
) -> Result<(), Error> {
    let roots = Some(root).filter(|root| *root != PageRef::NONE);
    let mut ascending = Ascending::default();
    let leaf = |core: &mut Core, _: usize, leaf: Leaf<'_>| match leaf {
        Leaf::Read(_, page) => page.each(|key, payload| {
            ascending.check(key)?;
            entry(core, key, payload)
        }),
        Leaf::Below(..) => unreachable!("all leaves are read"),
    };
    read_pages(handle, claimed, kind, roots.as_slice(), true, leaf).await?;
    Ok(())
}

/// A run without what its leaves say.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    pub(crate) pieces: Vec<Piece>,
    /// Its leaves, each with its first key.
    pub(crate) leaves: Vec<(Key, PageRef)>,
}

/// Reads the pages of runs above their leaves. A leaf is read only where it is all of its run.
pub(crate) async fn read_outlines(
    handle: &Handle,
    claimed: &mut Claimed,
    roots: &[PageRef],
) -> Result<Vec<Outline>, Error> {
    let mut leaves: Vec<Vec<(Key, PageRef)>> = vec![Vec::new(); roots.len()];
    let mut ascending = Ascending::default();
    let mut last = 0;
    let leaf = |_: &mut Core, run: usize, leaf: Leaf<'_>| {
        let (first, reference) = match leaf {
            Leaf::Read(reference, page) => (page.first_key()?, *reference),
            Leaf::Below(first, reference) => (first.to_vec(), reference),
        };
        if std::mem::replace(&mut last, run) != run {
            ascending = Ascending::default();
        }
        ascending.check(&first)?;
        leaves[run].push((Key::new(&first), reference));
        Ok(())
    };
    let pieces = read_pages(handle, claimed, Tree::Run, roots, false, leaf).await?;
    let outlines = pieces.into_iter().zip(leaves);
    let outlines = outlines.map(|(pieces, leaves)| Outline { pieces, leaves });
    Ok(outlines.collect())
}

/// A leaf of a tree.
enum Leaf<'a> {
    Read(&'a PageRef, Page<'a>),
    /// Only known by the entry of the page above: its first key, and where it is.
    Below(&'a [u8], PageRef),
}

/// Reads trees of a kind, with their leaves or without. Each leaf goes to `take`, with the number of its tree. Returns the pages' bytes by segment, for each tree.
async fn read_pages(
    handle: &Handle,
    claimed: &mut Claimed,
    kind: Tree,
    roots: &[PageRef],
    with_leaves: bool,
    mut take: impl FnMut(&mut Core, usize, Leaf<'_>) -> Result<(), Mismatch>,
) -> Result<Vec<Vec<Piece>>, Error> {
    let mut queue: VecDeque<Next> = roots
        .iter()
        .enumerate()
        .map(|(tree, root)| Next {
            pages: Stretch::of(*root),
            tree,
            level: None,
        })
        .collect();
    let mut bytes_in = vec![BTreeMap::new(); roots.len()];
    loop {
        // Those behind the first are read ahead of their turn.
        for next in queue.iter_mut().take(READS_IN_FLIGHT_MAX) {
            next.begin(handle, claimed)?;
        }
        let Some(Next { pages, tree, level }) = queue.pop_front() else {
            break;
        };
        let mut below = Vec::new();
        let read = pages.each(handle, |reference, bytes| {
            handle.with(|core| {
                let mut count = |core: &Core, page: &PageRef| {
                    let (physical, _) = core.geometry.locate(page.offset);
                    *bytes_in[tree].entry(physical).or_insert(0) += u64::from(page.len);
                };
                count(core, reference);
                let id = core.id;
                let page = Page::decode(&id, kind, reference, bytes)?;
                Next::check_level(level, &page)?;
                if page.level == 0 {
                    return take(core, tree, Leaf::Read(reference, page));
                }
                core.reached(CoveragePoint::CheckpointInnerPage);
                if page.level > 1 || with_leaves {
                    below = references(&page, tree)?;
                    return Ok(());
                }
                page.each(|key, payload| {
                    let leaf = reference_of(payload)?;
                    claim_page(core, claimed, &leaf)?;
                    count(core, &leaf);
                    take(core, tree, Leaf::Below(key, leaf))
                })
            })
        });
        read.await?;
        for next in below.into_iter().rev() {
            queue.push_front(next);
        }
    }
    let pieces = |bytes_in: BTreeMap<u32, u64>| {
        let pieces = bytes_in.into_iter();
        pieces
            .map(|(physical, bytes)| Piece { physical, bytes })
            .collect()
    };
    Ok(bytes_in.into_iter().map(pieces).collect())
}

/// What stands beside a key in an inner page.
fn reference_of(payload: &[u8]) -> Result<PageRef, Mismatch> {
    let (expected, found) = (PAGE_REF_BYTES as u64, payload.len() as u64);
    Mismatch::check("page reference length", expected, found)?;
    Ok(PageRef::decode(payload))
}

/// What an inner page leads to. Of the pages below each leads to others of its own, unless they are leaves.
fn references(page: &Page<'_>, tree: usize) -> Result<Vec<Next>, Mismatch> {
    let mut below = Vec::new();
    page.each(|_, payload| {
        below.push(reference_of(payload)?);
        Ok(())
    })?;
    let level = page.level - 1;
    let mut below = below.into_iter().peekable();
    let stretches = std::iter::from_fn(|| match level {
        0 => Stretch::take(&mut below),
        _ => below.next().map(Stretch::of),
    });
    let next = |pages| Next {
        pages,
        tree,
        level: Some(level),
    };
    Ok(stretches.map(next).collect())
}

fn claim_page(core: &mut Core, claimed: &mut Claimed, reference: &PageRef) -> Result<(), Mismatch> {
    reference.check(&core.geometry, core.segments.count())?;
    claim_piece(core, claimed, reference)?;
    Ok(())
}

/// Takes note of where a filter lies. It is not read.
pub(crate) fn claim_filter(
    core: &mut Core,
    claimed: &mut Claimed,
    filter: &PageRef,
) -> Result<Piece, Mismatch> {
    let (geometry, segments) = (core.geometry, core.segments.count());
    filter.check_piece(&geometry, segments, geometry.segment_bytes)?;
    claim_piece(core, claimed, filter)
}

fn claim_piece(
    core: &mut Core,
    claimed: &mut Claimed,
    reference: &PageRef,
) -> Result<Piece, Mismatch> {
    claimed.claim(reference)?;
    let (physical, within) = core.geometry.locate(reference.offset);
    if !core.segments.claim(physical, Use::Page) {
        return Err(Mismatch {
            what: "page in a segment of another use",
            expected: Use::Page as u64,
            found: physical.into(),
        });
    }
    let bytes = u64::from(reference.len);
    let end = u32::try_from(within + bytes).expect("checked to lie in its segment");
    let segment = core.segments.get_mut(physical);
    segment.end = segment.end.max(end);
    Ok(Piece { physical, bytes })
}
