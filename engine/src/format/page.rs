//! The page: a node of a checkpoint's trees. Bulk-loaded bottom up, never changed, checked by the reference to it.
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 4 | magic `KVPG` |
//! | 4 | 2 | format version |
//! | 6 | 1 | level: 0 leaf |
//! | 7 | 1 | tree: 1 index, 2 table of log segments |
//! | 8 | 16 | database id |
//! | 24 | 8 | device offset of this page |
//! | 32 | 4 | entries |
//! | 36 | 4 | bytes used, header included |
//! | 40 | | entries: key bytes 2, payload bytes 2, key, payload; ascending by key; then zeroes up to the page's length |
//!
//! The payload of an inner entry is a reference: device offset 8, length 4 (a multiple of the block), checksum 8 of the
//! whole page, seeded by the offset. A reference with offset 0 is no page. The payload of a leaf of the index:
//!
//! | bytes | field |
//! | ---: | --- |
//! | 8 | sequence number |
//! | 1 | place: 1 inline, 2 log, 3 extents |
//! | | inline: the value; log: LSN 8, value bytes 4, low half of the record's checksum 4; extents: the pointer |
//!
//! The key of a leaf of the table is the logical number (8 bytes, big-endian), its payload the physical index 4 and the
//! bytes used 4.

use super::{
    Geometry, HEADER_AREA_BYTES, VERSION, get_u16, get_u32, get_u64, put_u16, put_u32, put_u64,
};
use crate::checksum::{Identity, Kind};
use crate::error::Mismatch;

const MAGIC: usize = 0;
const FORMAT_VERSION: usize = MAGIC + 4;
const LEVEL: usize = FORMAT_VERSION + 2;
const TREE: usize = LEVEL + 1;
const DB_ID: usize = TREE + 1;
const OFFSET: usize = DB_ID + 16;
const ENTRIES: usize = OFFSET + 8;
const USED_BYTES: usize = ENTRIES + 4;
pub(crate) const PAGE_HEADER_BYTES: usize = USED_BYTES + 4;
pub(crate) const PAGE_ENTRY_HEADER_BYTES: usize = 4;
const _: () = assert!(PAGE_HEADER_BYTES == 40);

const MAGIC_VALUE: u32 = u32::from_le_bytes(*b"KVPG");
/// A page is closed when the next entry would take it beyond this.
pub(crate) const PAGE_BYTES_TARGET: usize = 16 << 10;
/// No page is longer: one entry with the largest pointer fits.
pub(crate) const PAGE_BYTES_MAX: usize = 128 << 10;
pub(crate) const LEVELS_MAX: u8 = 16;

pub(crate) const PAGE_REF_BYTES: usize = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Tree {
    Index = 1,
    Table = 2,
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
        if len == 0 || len > PAGE_BYTES_MAX as u64 || within + len > geometry.segment_bytes {
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

pub(crate) fn entry_bytes(key: &[u8], payload: &[u8]) -> usize {
    PAGE_ENTRY_HEADER_BYTES + key.len() + payload.len()
}

pub(crate) fn push(page: &mut Vec<u8>, key: &[u8], payload: &[u8]) {
    page.extend_from_slice(
        &u16::try_from(key.len())
            .expect("keys are short")
            .to_le_bytes(),
    );
    page.extend_from_slice(
        &u16::try_from(payload.len())
            .expect("payloads are short")
            .to_le_bytes(),
    );
    page.extend_from_slice(key);
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

/// A key and what stands beside it.
pub(crate) type Entry<'a> = (&'a [u8], &'a [u8]);

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

    /// All entries, key and payload.
    pub(crate) fn entries(&self) -> Result<Vec<Entry<'a>>, Mismatch> {
        let mut entries = Vec::with_capacity(
            (self.entries as usize).min(self.body.len() / PAGE_ENTRY_HEADER_BYTES),
        );
        let mut rest = self.body;
        while !rest.is_empty() {
            let short = Mismatch {
                what: "page entry length",
                expected: PAGE_ENTRY_HEADER_BYTES as u64,
                found: rest.len() as u64,
            };
            if rest.len() < PAGE_ENTRY_HEADER_BYTES {
                return Err(short);
            }
            let key_end = PAGE_ENTRY_HEADER_BYTES + usize::from(get_u16(rest, 0));
            let end = key_end + usize::from(get_u16(rest, 2));
            if end > rest.len() {
                return Err(short);
            }
            entries.push((&rest[PAGE_ENTRY_HEADER_BYTES..key_end], &rest[key_end..end]));
            rest = &rest[end..];
        }
        Mismatch::check(
            "page entries",
            u64::from(self.entries),
            entries.len() as u64,
        )?;
        Ok(entries)
    }
}
