//! Leaves that only pages lead to which do not belong to the checkpoint, or are damaged themselves. That a leaf has the checksum that a reference says proves both. But
//! nothing says how old the leaf is.

use std::collections::BTreeSet;

use super::layout::Layout;
use super::{Found, Image, Source};
use crate::format::page::{PAGE_REF_BYTES, Page, PageRef, Tree};
use crate::index::entry;
use crate::index::key::Key;

/// The entries of all leaves that these references lead to, but for those of the checkpoint.
pub(super) fn entries(
    image: &mut dyn Image,
    layout: &Layout,
    references: Vec<PageRef>,
    is_read: &BTreeSet<u64>,
) -> Vec<Found> {
    let mut found = Vec::new();
    let mut seen: BTreeSet<(u64, u64)> = BTreeSet::new();
    let mut next = references;
    while let Some(reference) = next.pop() {
        let is_new = seen.insert((reference.offset, reference.checksum));
        if !is_new || reference.offset >= image.len_bytes() {
            continue;
        }
        let mut bytes = vec![0; reference.len as usize];
        image.read(reference.offset, &mut bytes);
        let Ok(page) = Page::decode(&layout.id, Tree::Run, &reference, &bytes) else {
            continue;
        };
        if page.level == 0 && is_read.contains(&reference.offset) {
            continue;
        }
        // What comes before an entry that makes no sense was written so.
        let _ = page.each(|key, payload| {
            if page.level > 0 {
                next.extend((payload.len() == PAGE_REF_BYTES).then(|| PageRef::decode(payload)));
            } else if let Ok(version) = entry::decode(&layout.geometry, u32::MAX, payload) {
                found.push(Found {
                    key: Key::new(key),
                    sequence: version.sequence,
                    place: version.place,
                    source: Source::StrayLeaf,
                });
            }
            Ok(())
        });
        next.retain(|it| it.check(&layout.geometry, u32::MAX).is_ok());
    }
    found
}
