//! An inode: a file's content, a directory's entries, or a symbolic link's target.
//!
//! Invariant of a file that callers see, and of one that a crash has left: no byte beyond its size is anything but zero. While a crash state is
//! put together, pages may come before the size that covers them.

use std::sync::Arc;

use kvsim_crash::{Excerpt, Image, Nanos};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::tree::directory::{Directory, Name};
use crate::tree::page_set::PageSet;

/// Bytes of a page: the unit in which a file's data becomes durable.
pub const PAGE_BYTES: u64 = 4096;
/// Bytes of a sector: the unit that is never torn.
pub const SECTOR_BYTES: u32 = 512;
/// All sectors of a page, as bits.
pub(crate) const ALL_SECTORS: u8 = u8::MAX;

const SECTOR: usize = SECTOR_BYTES as usize;

/// The number of an inode: unique in the history of a file system, never given again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ino(pub u32);

/// The root directory.
pub(crate) const ROOT: Ino = Ino(0);

/// What an inode is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A file with bytes.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
}

/// When something last happened to an inode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) accessed_ns: Nanos,
    pub(crate) modified_ns: Nanos,
    pub(crate) changed_ns: Nanos,
    /// The times that a call has set; only these outlive a power cut.
    pub(crate) set: Option<(Nanos, Nanos)>,
}

impl Times {
    /// Those of an inode whose times a call has set and that nothing has changed since.
    pub(crate) fn set(accessed_ns: Nanos, modified_ns: Nanos) -> Self {
        Times {
            accessed_ns,
            modified_ns,
            changed_ns: modified_ns,
            set: Some((accessed_ns, modified_ns)),
        }
    }
}

/// An inode.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) body: Body,
    /// Names that refer to it.
    pub(crate) links: u32,
    /// The directory and the name that it was last given. For a directory always its place.
    pub(crate) place: (Ino, Name),
    pub(crate) times: Times,
}

/// What an inode holds.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    File(Content),
    Directory(Directory),
    Symlink(Arc<[u8]>),
}

impl Node {
    pub(crate) fn new(body: Body, place: (Ino, Name), now: Nanos) -> Self {
        let times = Times {
            accessed_ns: now,
            modified_ns: now,
            changed_ns: now,
            set: None,
        };
        Node {
            body,
            links: 0,
            place,
            times,
        }
    }

    pub(crate) fn kind(&self) -> FileKind {
        match self.body {
            Body::File(_) => FileKind::File,
            Body::Directory(_) => FileKind::Directory,
            Body::Symlink(_) => FileKind::Symlink,
        }
    }

    pub(crate) fn file(&self) -> Option<&Content> {
        match &self.body {
            Body::File(content) => Some(content),
            _ => None,
        }
    }

    pub(crate) fn file_mut(&mut self) -> Option<&mut Content> {
        match &mut self.body {
            Body::File(content) => Some(content),
            _ => None,
        }
    }

    pub(crate) fn directory(&self) -> Option<&Directory> {
        match &self.body {
            Body::Directory(directory) => Some(directory),
            _ => None,
        }
    }

    pub(crate) fn directory_mut(&mut self) -> Option<&mut Directory> {
        match &mut self.body {
            Body::Directory(directory) => Some(directory),
            _ => None,
        }
    }
}

/// The bytes of a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    /// The bytes up to the last page that was written; the rest are zeros.
    image: Image,
    pub(crate) size: u64,
    /// Pages that take space.
    pub(crate) allocated: PageSet,
    /// Pages whose blocks hold data; the other pages read as zeros.
    pub(crate) written: PageSet,
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).expect("offsets fit the address space of the host")
}

impl Content {
    /// Copies out what lies before the end of the file. Says how many bytes that is.
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) -> usize {
        let count = self.size.saturating_sub(offset).min(out.len() as u64);
        let out = &mut out[..to_usize(count)];
        let held = self.image.len_bytes().saturating_sub(offset).min(count);
        let (from_image, beyond) = out.split_at_mut(to_usize(held));
        if !from_image.is_empty() {
            self.image.read(offset, from_image);
        }
        beyond.fill(0);
        out.len()
    }

    /// Copies bytes in, which must lie in one page, and notes the page as written. Says which sectors they touch.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> u8 {
        let page = offset / PAGE_BYTES;
        self.reach(page);
        self.image.write(offset, bytes);
        self.note_written(page);
        let first = to_usize(offset % PAGE_BYTES) / SECTOR;
        let last = (to_usize(offset % PAGE_BYTES) + bytes.len() - 1) / SECTOR;
        assert!(
            last < 8,
            "a write of {} bytes at {offset} crosses a page",
            bytes.len()
        );
        (ALL_SECTORS << first) & (ALL_SECTORS >> (7 - last))
    }

    /// A page as it is now, whatever is written to it later.
    pub(crate) fn page(&mut self, page: u64) -> Excerpt {
        self.reach(page);
        self.image.excerpt(page * PAGE_BYTES, PAGE_BYTES)
    }

    /// Puts sectors of a page in.
    pub(crate) fn put(&mut self, page: u64, from: &Excerpt, sectors: u8) {
        self.reach(page);
        let start = page * PAGE_BYTES;
        if sectors == ALL_SECTORS {
            self.image.put(start, from);
        } else {
            let bytes = from.parts().next().expect("a page is one part");
            for sector in (0..8).filter(|sector| sectors >> sector & 1 == 1) {
                let at = sector * SECTOR;
                self.image.write(start + at as u64, &bytes[at..at + SECTOR]);
            }
        }
        self.note_written(page);
    }

    /// Puts the first bytes of a sector of a page in.
    pub(crate) fn put_beginning(&mut self, page: u64, from: &Excerpt, sector: u64, len: u64) {
        let bytes = from.parts().next().expect("a page is one part");
        let start = usize::try_from(sector).expect("one of eight") * SECTOR;
        let end = start + usize::try_from(len).expect("less than a sector");
        let at = page * PAGE_BYTES + start as u64;
        self.image.write(at, &bytes[start..end]);
    }

    /// Notes a page as written, whatever its block holds.
    pub(crate) fn note_written(&mut self, page: u64) {
        self.allocated.insert(page, page + 1);
        self.written.insert(page, page + 1);
    }

    /// Gives up all pages from this one on, and with them their space.
    pub(crate) fn drop_pages(&mut self, page: u64) {
        let keep = page * PAGE_BYTES;
        if self.image.len_bytes() > keep {
            self.image.resize(keep);
        }
        self.allocated.truncate(page);
        self.written.truncate(page);
    }

    /// Sets what lies between the end of the file and the end of its last page to zero. Says whether anything else was there.
    pub(crate) fn zero_tail(&mut self) -> bool {
        let page_end = self.size.next_multiple_of(PAGE_BYTES);
        let end = page_end.min(self.image.len_bytes());
        if end <= self.size {
            return false;
        }
        let len = end - self.size;
        let tail = self.image.excerpt(self.size, len);
        let any = tail.parts().flatten().any(|byte| *byte != 0);
        if any {
            self.image.zero(self.size, len);
        }
        any
    }

    /// Whether [`Content::finish`] would change it.
    pub(crate) fn is_unfinished(&self) -> bool {
        let pages = self.size.div_ceil(PAGE_BYTES);
        let end = self.image.len_bytes();
        let written = self.written.ranges().last();
        let tail = self.size..end.min(pages * PAGE_BYTES);
        end > pages * PAGE_BYTES
            || written.is_some_and(|&(_, end)| end > pages)
            || (tail.start < tail.end && {
                let tail = self.image.excerpt(tail.start, tail.end - tail.start);
                tail.parts().flatten().any(|byte| *byte != 0)
            })
    }

    /// Makes the content what a mounted file system shows: nothing beyond the size but the space that was allocated there.
    pub(crate) fn finish(&mut self) {
        let pages = self.size.div_ceil(PAGE_BYTES);
        if self.image.len_bytes() > pages * PAGE_BYTES {
            self.image.resize(pages * PAGE_BYTES);
        }
        self.written.truncate(pages);
        self.zero_tail();
    }

    fn reach(&mut self, page: u64) {
        let end = (page + 1) * PAGE_BYTES;
        if self.image.len_bytes() < end {
            self.image.resize(end);
        }
    }

    /// A hash of size and bytes; of the space too if space is `limited`.
    pub(crate) fn hash(&self, limited: bool) -> u128 {
        let mut hash = xxh3_128_with_seed(&self.image.content_hash().to_le_bytes(), self.size);
        if limited {
            for &(start, end) in self.allocated.ranges() {
                let range = [hash, u128::from(start), u128::from(end)].map(u128::to_le_bytes);
                hash = xxh3_128_with_seed(range.as_flattened(), 2);
            }
        }
        hash
    }

    /// A hash of a range of its pages, whatever their size.
    pub(crate) fn pages_hash(&self, start: u64, end: u64) -> u64 {
        let from = (start * PAGE_BYTES).min(self.image.len_bytes());
        let to = (end * PAGE_BYTES).min(self.image.len_bytes());
        // Zeros at the end must not matter: pages that were never written are not in the image.
        let mut sum = 0_u64;
        let mut at = from;
        while at < to {
            let excerpt = self.image.excerpt(at, PAGE_BYTES.min(to - at));
            if excerpt.parts().flatten().any(|byte| *byte != 0) {
                sum = sum.wrapping_add(xxhash_rust::xxh3::xxh3_64_with_seed(
                    &excerpt.hash().to_le_bytes(),
                    at,
                ));
            }
            at += PAGE_BYTES;
        }
        sum
    }

    /// Flips a bit of a written page.
    pub(crate) fn flip(&mut self, byte: u64, bit: u8) {
        let mut one = [0];
        self.image.read(byte, &mut one);
        one[0] ^= 1 << bit;
        self.image.write(byte, &one);
    }
}
