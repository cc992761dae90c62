//! The page: a node of a checkpoint's trees. Bulk-loaded bottom up, never changed, checked by the reference to it.
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 4 | magic `KVPG` |
//! | 4 | 2 | format version |
//! | 6 | 1 | level: 0 leaf |
//! | 7 | 1 | tree: 1 a run of the index, 2 table of segments, 3 list of partitions |
//! | 8 | 16 | database id |
//! | 24 | 8 | device offset of this page |
//! | 32 | 4 | entries |
//! | 36 | 4 | bytes used, header included |
//! | 40 | | entries, ascending by key; then zeroes up to the page's length |
//!
//! | bytes | field of an entry |
//! | --- | --- |
//! | varint | how many bytes the key shares with the one before it in this page; 0 for the first |
//! | varint | how many bytes of the key follow |
//! | varint | payload bytes |
//! | | the rest of the key, payload |
//!
//! The payload of an inner entry is a reference: device offset 8, length 4 (a multiple of the block), checksum 8 of the
//! whole page, seeded by the offset. A reference with offset 0 is no page. The payload of a leaf of a run is in `entry.rs`.
//! The key of a leaf of the table is the logical number (8 bytes, big-endian), its payload the physical index 4 and the
//! bytes used 4. The key of a leaf of the list of partitions is the lower bound of the partition's keys, its payload two
//! references for each of the partition's runs, oldest first: to the root of the run, and to its filter (`filter.rs`), of which
//! there may be none.

use super::varint::{put_varint, take_varint, varint_bytes};
use super::{
    Geometry, HEADER_AREA_BYTES, KEY_BYTES_MAX, VERSION, get_u16, get_u32, get_u64, put_u16,
    put_u32, put_u64,
};
use crate::format::checksum::{Identity, Kind};
use crate::format::damage::Mismatch;

const MAGIC: usize = 0;
const FORMAT_VERSION: usize = MAGIC + 4;
const LEVEL: usize = FORMAT_VERSION + 2;
const TREE: usize = LEVEL + 1;
const DB_ID: usize = TREE + 1;
const OFFSET: usize = DB_ID + 16;
const ENTRIES: usize = OFFSET + 8;
const USED_BYTES: usize = ENTRIES + 4;
pub(crate) const PAGE_HEADER_BYTES: usize = USED_BYTES + 4;
/// Lengths of keys take two bytes at most, those of payloads three.
pub(crate) const PAGE_ENTRY_HEADER_BYTES_MAX: usize = 7;
const PAGE_ENTRY_HEADER_BYTES_MIN: usize = 3;
const _: () = assert!(PAGE_HEADER_BYTES == 40);

const MAGIC_VALUE: u32 = u32::from_le_bytes(*b"KVPG");
/// A page is closed when the next entry would take it beyond this, or beyond a block if that is more.
const PAGE_BYTES_TARGET: u64 = 16 << 10;
/// A leaf that single entries are read from is closed where a multiple of this ends, if little of it is unused then: to read so little takes hardly more than the device
/// takes to find it.
const LEAF_BYTES: u64 = 4 << 10;
/// A page lies in one segment. No entry makes one larger than the target: keys, inline values and pointers are bounded, by the segment too.
pub(crate) const SEGMENT_BYTES_MIN: u64 = PAGE_BYTES_TARGET;
pub(crate) const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// No page is longer: one entry with the largest pointer fits.
pub(crate) const PAGE_BYTES_MAX: usize = 128 << 10;
pub(crate) const LEVELS_MAX: u8 = 16;

pub(crate) const PAGE_REF_BYTES: usize = 20;
/// What the list of partitions has of a run.
pub(crate) const RUN_ROOTS_BYTES: usize = 2 * PAGE_REF_BYTES;
const INNER_ENTRY_BYTES_MAX: usize = PAGE_ENTRY_HEADER_BYTES_MAX + KEY_BYTES_MAX + PAGE_REF_BYTES;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Tree {
    /// A run of the index.
    Run = 1,
    Table = 2,
    Partitions = 3,
}

/// A reference to a page, with the checksum that it must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageRef {
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) checksum: u64,
}

impl PageRef {
    pub(crate) const NONE: PageRef = PageRef {
        offset: 0,
        len: 0,
        checksum: 0,
    };

    pub(crate) fn encode(&self, out: &mut [u8]) {
        put_u64(out, 0, self.offset);
        put_u32(out, 8, self.len);
        put_u64(out, 12, self.checksum);
    }

    pub(crate) fn decode(bytes: &[u8]) -> PageRef {
        PageRef {
            offset: get_u64(bytes, 0),
            len: get_u32(bytes, 8),
            checksum: get_u64(bytes, 12),
        }
    }

    /// Whether it can be a page at all: before its length is trusted.
    pub(crate) fn check(&self, geometry: &Geometry, segments: u32) -> Result<(), Mismatch> {
        self.check_piece(geometry, segments, PAGE_BYTES_MAX as u64)
    }

    /// Whether it can be a piece of one segment of up to so many bytes.
    pub(crate) fn check_piece(
        &self,
        geometry: &Geometry,
        segments: u32,
        bytes_max: u64,
    ) -> Result<(), Mismatch> {
        let odd = Mismatch {
            what: "page reference",
            expected: geometry.segment_offset(segments),
            found: self.offset,
        };
        if self.offset < HEADER_AREA_BYTES || self.offset >= geometry.segment_offset(segments) {
            return Err(odd);
        }
        let (_, within) = geometry.locate(self.offset);
        let len = u64::from(self.len);
        if len == 0 || len > bytes_max || within + len > geometry.segment_bytes {
            return Err(odd);
        }
        if !len.is_multiple_of(geometry.block_bytes) || !within.is_multiple_of(geometry.block_bytes)
        {
            return Err(odd);
        }
        Ok(())
    }
}

/// Starts a page: a header's worth of bytes to which entries are appended.
pub(crate) fn begin(page: &mut Vec<u8>) {
    page.clear();
    page.resize(PAGE_HEADER_BYTES, 0);
}

/// Beyond this no entry goes to a page that has one.
pub(crate) fn target_bytes(block_bytes: u64) -> usize {
    super::to_usize(PAGE_BYTES_TARGET.max(block_bytes))
}

/// Whether a leaf that single entries are read from, with so many bytes of its page used, is closed before an entry of `next` bytes, whose key has `key_bytes`. So it is
/// where the page and what leads to the next one take no more than a sixteenth more than the entries do (see `pages_bytes_max`).
pub(crate) fn closes_leaf(block_bytes: u64, used: usize, next: usize, key_bytes: usize) -> bool {
    let unit = super::to_usize(LEAF_BYTES.max(block_bytes));
    let page = used.next_multiple_of(unit);
    let lead = PAGE_ENTRY_HEADER_BYTES_MAX + key_bytes + PAGE_REF_BYTES;
    // The pages above have headers and unused ends too.
    let takes = page + lead + lead / 8;
    used + next > page && takes * 16 <= (used - PAGE_HEADER_BYTES) * 17
}

/// Bytes of an entry whose key shares so many of its bytes with the one before.
pub(crate) fn entry_bytes(shared: usize, key_bytes: usize, payload_bytes: usize) -> usize {
    let suffix = key_bytes - shared;
    let header = [shared, suffix, payload_bytes].map(|bytes| varint_bytes(bytes as u64));
    header.iter().sum::<usize>() + suffix + payload_bytes
}

/// A page takes the entry, wherever in it that comes.
pub(crate) fn check_entry(key: &[u8], payload: &[u8]) -> Result<(), Mismatch> {
    let bytes = PAGE_HEADER_BYTES + entry_bytes(0, key.len(), payload.len());
    match bytes <= PAGE_BYTES_MAX {
        true => Ok(()),
        false => Err(Mismatch {
            what: "entry of a page",
            expected: PAGE_BYTES_MAX as u64,
            found: bytes as u64,
        }),
    }
}

/// At most how many bytes of all pages a leaf entry of so many bytes takes, with the unused ends of pages and the
/// entries of inner pages.
///
/// Entries of up to 256 bytes use at least 16,088 of a page's 16,384, and 280 more lead to the page: 4 %. Entries of up
/// to 2,100 bytes (a key and a value of 1 KiB each) use at least 14,244, and 1,048 more lead to the page: 23 %. A
/// larger entry may take a page to itself, of which little more than half is used, and leave as much unused in the page
/// before.
pub(crate) fn pages_bytes_max(entry: usize) -> usize {
    match entry {
        0..=256 => entry + entry / 16 + 1,
        257..=2_100 => pages_bytes_max_of_several(entry),
        _ => 2 * (entry + PAGE_HEADER_BYTES + INNER_ENTRY_BYTES_MAX),
    }
}

/// The same for several entries of up to 2,100 bytes each, and so many together.
pub(crate) fn pages_bytes_max_of_several(entries: usize) -> usize {
    entries + entries / 4
}

/// How many bytes two keys begin with in common.
pub(crate) fn shared_bytes(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Appends an entry whose key shares so many of its bytes with the one before.
pub(crate) fn push(page: &mut Vec<u8>, shared: usize, key: &[u8], payload: &[u8]) {
    let suffix = &key[shared..];
    for bytes in [shared, suffix.len(), payload.len()] {
        put_varint(page, bytes as u64);
    }
    page.extend_from_slice(suffix);
    page.extend_from_slice(payload);
}

/// Finishes the page for its place, pads it to whole blocks, and returns the reference to it.
pub(crate) fn finish(
    id: &Identity,
    tree: Tree,
    level: u8,
    entries: u32,
    offset: u64,
    block_bytes: u64,
    page: &mut Vec<u8>,
) -> PageRef {
    let used = super::len32(page.len());
    page.resize(
        super::to_usize(super::round_up(page.len() as u64, block_bytes)),
        0,
    );
    put_u32(page, MAGIC, MAGIC_VALUE);
    put_u16(page, FORMAT_VERSION, VERSION);
    page[LEVEL] = level;
    page[TREE] = tree as u8;
    page[DB_ID..DB_ID + 16].copy_from_slice(&id.db_id);
    put_u64(page, OFFSET, offset);
    put_u32(page, ENTRIES, entries);
    put_u32(page, USED_BYTES, used);
    PageRef {
        offset,
        len: super::len32(page.len()),
        checksum: id.checksum(Kind::Page, 0, offset, page),
    }
}

/// A page that was checked against the reference to it.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    pub(crate) level: u8,
    entries: u32,
    body: &'a [u8],
}

impl<'a> Page<'a> {
    pub(crate) fn decode(
        id: &Identity,
        tree: Tree,
        reference: &PageRef,
        bytes: &'a [u8],
    ) -> Result<Page<'a>, Mismatch> {
        Mismatch::check("page length", u64::from(reference.len), bytes.len() as u64)?;
        let found = id.checksum(Kind::Page, 0, reference.offset, bytes);
        Mismatch::check("page checksum", reference.checksum, found)?;
        if bytes.len() < PAGE_HEADER_BYTES {
            return Err(Mismatch {
                what: "page length",
                expected: PAGE_HEADER_BYTES as u64,
                found: bytes.len() as u64,
            });
        }
        Mismatch::check(
            "page magic",
            MAGIC_VALUE.into(),
            get_u32(bytes, MAGIC).into(),
        )?;
        Mismatch::check(
            "page version",
            VERSION.into(),
            get_u16(bytes, FORMAT_VERSION).into(),
        )?;
        Mismatch::check("page tree", tree as u64, bytes[TREE].into())?;
        Mismatch::check(
            "page database",
            get_u64(&id.db_id, 0),
            get_u64(bytes, DB_ID),
        )?;
        Mismatch::check(
            "page database",
            get_u64(&id.db_id, 8),
            get_u64(bytes, DB_ID + 8),
        )?;
        Mismatch::check("page position", reference.offset, get_u64(bytes, OFFSET))?;
        let used = get_u32(bytes, USED_BYTES) as usize;
        let body = bytes.get(PAGE_HEADER_BYTES..used).ok_or(Mismatch {
            what: "page used bytes",
            expected: bytes.len() as u64,
            found: used as u64,
        })?;
        Ok(Page {
            level: bytes[LEVEL],
            entries: get_u32(bytes, ENTRIES),
            body,
        })
    }

    /// How many entries it says that it has, but no more than find room in it.
    pub(crate) fn entries_max(&self) -> usize {
        (self.entries as usize).min(self.body.len() / PAGE_ENTRY_HEADER_BYTES_MIN)
    }

    /// Hands out all entries, key and payload.
    pub(crate) fn each(
        &self,
        mut entry: impl FnMut(&[u8], &[u8]) -> Result<(), Mismatch>,
    ) -> Result<(), Mismatch> {
        let mut all = Entries::new(self.body);
        while let Some(payload) = all.next()? {
            entry(&all.key, payload)?;
        }
        Mismatch::check("page entries", self.entries.into(), all.count)
    }

    /// The key of the first entry.
    pub(crate) fn first_key(&self) -> Result<Vec<u8>, Mismatch> {
        let mut all = Entries::new(self.body);
        match all.next()? {
            Some(_) => Ok(all.key),
            None => Err(Mismatch {
                what: "entries of a page",
                expected: self.entries.into(),
                found: 0,
            }),
        }
    }

    /// The payload of a key, if the page has the key.
    pub(crate) fn find(&self, key: &[u8]) -> Result<Option<&'a [u8]>, Mismatch> {
        let mut all = Entries::new(self.body);
        while let Some(payload) = all.next()? {
            if &all.key[..] >= key {
                return Ok((&all.key[..] == key).then_some(payload));
            }
        }
        Ok(None)
    }
}

/// The entries of a page, one after the other.
struct Entries<'a> {
    body: &'a [u8],
    rest: &'a [u8],
    /// The key of the last one.
    key: Vec<u8>,
    count: u64,
}

impl<'a> Entries<'a> {
    fn new(body: &'a [u8]) -> Entries<'a> {
        Entries {
            body,
            rest: body,
            key: Vec::new(),
            count: 0,
        }
    }

    /// Goes on to the next entry. Returns its payload; `None` behind the last one.
    fn next(&mut self) -> Result<Option<&'a [u8]>, Mismatch> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let odd = Mismatch {
            what: "page entry length",
            expected: self.body.len() as u64,
            found: (self.body.len() - self.rest.len()) as u64,
        };
        let mut length = || {
            let length = take_varint(&mut self.rest)?;
            usize::try_from(length).ok()
        };
        let lengths = (|| Some((length()?, length()?, length()?)))();
        let (shared, suffix, payload) = lengths.ok_or(odd)?;
        if shared > self.key.len() || shared.saturating_add(suffix) > KEY_BYTES_MAX {
            return Err(odd);
        }
        let (suffix, beyond) = self.rest.split_at_checked(suffix).ok_or(odd)?;
        let (payload, beyond) = beyond.split_at_checked(payload).ok_or(odd)?;
        self.key.truncate(shared);
        self.key.extend_from_slice(suffix);
        self.rest = beyond;
        self.count += 1;
        Ok(Some(payload))
    }
}

/// What a page at this place says of itself: its tree, its level, its bytes. Nothing is checked but whose it is and where it lies.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn claimed(id: &Identity, offset: u64, bytes: &[u8]) -> Option<(u8, u8, u32)> {
    let is_page = bytes.len() >= PAGE_HEADER_BYTES
        && get_u32(bytes, MAGIC) == MAGIC_VALUE
        && get_u16(bytes, FORMAT_VERSION) == VERSION
        && bytes[DB_ID..DB_ID + 16] == id.db_id
        && get_u64(bytes, OFFSET) == offset;
    is_page.then(|| (bytes[TREE], bytes[LEVEL], get_u32(bytes, USED_BYTES)))
}
