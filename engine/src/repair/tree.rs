//! Reading trees of pages as far as they are whole.
//!
//! Invariants: no page is read twice, so a tree takes no more memory than its pages. A page counts as a whole or not at all: what its keys are between is known.

use std::collections::BTreeSet;

use super::Image;
use super::layout::Layout;
use crate::format::Geometry;
use crate::format::damage::Mismatch;
use crate::format::page::{LEVELS_MAX, PAGE_REF_BYTES, Page, PageRef, Tree};

/// Keys from the first on, and before the second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySpan {
    /// The first key of the span may be this one.
    pub from: Box<[u8]>,
    /// All keys are smaller than this; `None`: there is no such bound.
    pub to: Option<Box<[u8]>>,
}

impl KeySpan {
    /// Whether a key is in it.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= &self.from[..] && self.to.as_ref().is_none_or(|to| key < &to[..])
    }
}

/// An entry of a page: key and payload.
pub(super) type PageEntry = (Box<[u8]>, Box<[u8]>);

/// What was read of a tree.
#[derive(Debug, Default)]
pub(super) struct TreeRead {
    /// Entries of leaves, ascending.
    pub(super) entries: Vec<PageEntry>,
    /// What the pages that are damaged were to say something of.
    pub(super) damaged: Vec<KeySpan>,
}

/// Reads pages.
pub(super) struct Pages<'a> {
    image: &'a mut dyn Image,
    layout: &'a Layout,
    /// Offsets of the pages that were read.
    read: BTreeSet<u64>,
    /// References in damaged pages.
    pub(super) references: Vec<PageRef>,
}

impl<'a> Pages<'a> {
    pub(super) fn new(image: &'a mut dyn Image, layout: &'a Layout) -> Pages<'a> {
        Pages {
            image,
            layout,
            read: BTreeSet::new(),
            references: Vec::new(),
        }
    }

    /// Reads a tree whose keys are all in `span`.
    pub(super) fn tree(&mut self, kind: Tree, root: PageRef, span: KeySpan) -> TreeRead {
        let mut read = TreeRead::default();
        // The first on top.
        let mut next = vec![(root, None, span)];
        while let Some((reference, level, span)) = next.pop() {
            let Some((level, entries)) = self.page(kind, &reference, level, &span) else {
                read.damaged.push(span);
                continue;
            };
            if level == 0 {
                read.entries.extend(entries);
                continue;
            }
            let mut to = span.to;
            for (number, (key, payload)) in entries.into_iter().enumerate().rev() {
                let from = if number == 0 {
                    span.from.clone()
                } else {
                    key.clone()
                };
                let below = KeySpan { from, to };
                next.push((PageRef::decode(&payload), Some(level - 1), below));
                to = Some(key);
            }
        }
        read
    }

    /// The level and the entries of a page, if it is whole and fits where it was found.
    fn page(
        &mut self,
        kind: Tree,
        reference: &PageRef,
        level: Option<u8>,
        span: &KeySpan,
    ) -> Option<(u8, Vec<PageEntry>)> {
        reference.check(&self.layout.geometry, u32::MAX).ok()?;
        if !self.read.insert(reference.offset) {
            return None;
        }
        let mut bytes = vec![0; reference.len as usize];
        self.image.read(reference.offset, &mut bytes);
        let entries = entries_of(self.layout, kind, reference, level, span, &bytes);
        if entries.is_err() {
            self.references
                .extend(references_in(&self.layout.geometry, &bytes));
        }
        entries.ok()
    }

    /// The offsets of the pages that were read.
    pub(super) fn into_read(self) -> BTreeSet<u64> {
        self.read
    }
}

fn entries_of(
    layout: &Layout,
    kind: Tree,
    reference: &PageRef,
    level: Option<u8>,
    span: &KeySpan,
    bytes: &[u8],
) -> Result<(u8, Vec<PageEntry>), Mismatch> {
    let page = Page::decode(&layout.id, kind, reference, bytes)?;
    let odd = Mismatch {
        what: "page that does not fit where it is",
        expected: 0,
        found: page.level.into(),
    };
    let is_right = match level {
        Some(level) => page.level == level,
        None => page.level < LEVELS_MAX,
    };
    if !is_right {
        return Err(odd);
    }
    let mut entries: Vec<PageEntry> = Vec::new();
    page.each(|key, payload| {
        let ascends = entries.last().is_none_or(|(last, _)| &last[..] < key);
        let is_reference = page.level == 0 || payload.len() == PAGE_REF_BYTES;
        if !ascends || !is_reference || !span.contains(key) {
            return Err(odd);
        }
        entries.push((key.into(), payload.into()));
        Ok(())
    })?;
    if page.level > 0 && entries.is_empty() {
        return Err(odd);
    }
    Ok((page.level, entries))
}

/// Whatever in these bytes can be a reference to a page. It may begin at any of them.
pub(super) fn references_in(geometry: &Geometry, bytes: &[u8]) -> impl Iterator<Item = PageRef> {
    let found = bytes.windows(PAGE_REF_BYTES).map(PageRef::decode);
    found.filter(|reference| reference.check(geometry, u32::MAX).is_ok())
}
