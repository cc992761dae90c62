//! Pages that lie one behind the other on the device, read in one go. The leaves of a run mostly do.

use std::iter::Peekable;

use crate::api::error::Error;
use crate::format::damage::Mismatch;
use crate::format::page::PageRef;
use crate::runtime::handle::{Handle, Io};

/// One read is of no more than that, unless one page is.
const BYTES_MAX: u64 = 64 << 10;

pub(crate) struct Stretch {
    pages: Vec<PageRef>,
    read: Option<Io>,
}

impl Stretch {
    /// One page alone.
    pub(super) fn of(page: PageRef) -> Stretch {
        Stretch {
            pages: vec![page],
            read: None,
        }
    }

    /// The next pages, as many as can be read in one go.
    pub(crate) fn take(pages: &mut Peekable<impl Iterator<Item = PageRef>>) -> Option<Stretch> {
        let mut stretch = Stretch::of(pages.next()?);
        while let Some(page) = pages.next_if(|page| stretch.goes_on_with(page)) {
            stretch.pages.push(page);
        }
        Some(stretch)
    }

    pub(crate) fn pages(&self) -> &[PageRef] {
        &self.pages
    }

    /// Where it begins on the device, and how many bytes it has.
    pub(crate) fn place(&self) -> (u64, usize) {
        (self.offset(), crate::format::to_usize(self.bytes()))
    }

    fn offset(&self) -> u64 {
        self.pages[0].offset
    }

    fn bytes(&self) -> u64 {
        self.pages.iter().map(|page| u64::from(page.len)).sum()
    }

    /// Takes any reference.
    fn goes_on_with(&self, page: &PageRef) -> bool {
        let end = self.offset().checked_add(self.bytes());
        end == Some(page.offset) && self.bytes() + u64::from(page.len) <= BYTES_MAX
    }

    /// Whether its read is under way.
    pub(super) fn has_begun(&self) -> bool {
        self.read.is_some()
    }

    pub(super) fn begin(&mut self, handle: &Handle) {
        self.read = Some(handle.read(self.offset(), self.bytes()));
    }

    /// Hands out the bytes of each page, one after the other. Its read has begun. Where it fails, each page is read alone: another one may be the damaged one.
    pub(super) async fn each(
        self,
        handle: &Handle,
        mut page: impl FnMut(&PageRef, &[u8]) -> Result<(), Mismatch>,
    ) -> Result<(), Error> {
        let start = self.offset();
        if let Ok(bytes) = self.read.expect("it has begun").await {
            let bytes = bytes.expect("a read brings its buffer");
            for reference in &self.pages {
                let at = crate::format::to_usize(reference.offset - start);
                let it = &bytes[at..at + reference.len as usize];
                page(reference, it).map_err(|mismatch| mismatch.at(reference.offset))?;
            }
            handle.give(bytes);
            return Ok(());
        }
        for reference in &self.pages {
            let len = reference.len.into();
            let bytes = handle.read_retry(reference.offset, len).await?;
            page(reference, &bytes).map_err(|mismatch| mismatch.at(reference.offset))?;
            handle.give(bytes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what lies one behind the other is read in one go, up to the bound, and nothing else. Method: neighbours, a gap, a page before another, and more than may be read.
    #[test]
    fn neighbours_are_read_together() {
        let page = |offset: u64, len: u32| PageRef {
            offset,
            len,
            checksum: 0,
        };
        let stretches = |pages: &[PageRef]| {
            let mut pages = pages.iter().copied().peekable();
            let stretches = std::iter::from_fn(|| Stretch::take(&mut pages));
            stretches.map(|it| it.pages.len()).collect::<Vec<_>>()
        };
        let pages = [
            page(4096, 4096),
            page(8192, 8192),
            page(20_480, 4096),
            page(24_576, 4096),
            page(4096, 4096),
        ];
        assert_eq!(stretches(&pages), [2, 2, 1]);
        let many = (0..40_u64).map(|n| page(n * 4096, 4096));
        assert_eq!(stretches(&many.collect::<Vec<_>>()), [16, 16, 8]);
        assert_eq!(
            stretches(&[page(0, 128 << 10), page(128 << 10, 4096)]),
            [1, 1]
        );
        assert_eq!(
            stretches(&[page(u64::MAX, 4096), page(u64::MAX, 1)]),
            [1, 1]
        );
        assert_eq!(stretches(&[]), []);
    }
}
