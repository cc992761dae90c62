//! The on-disk format, one file per structure. Little-endian, fixed widths but in entries of pages; the book's chapter "The file format" is its
//! prose. Parsers take any bytes and return [`Mismatch`](crate::format::damage::Mismatch), never panic, and check every length
//! before they trust it.

pub(crate) mod checksum;
pub(crate) mod damage;
pub(crate) mod filter;
pub(crate) mod frame;
#[cfg(test)]
mod garbage;
pub(crate) mod page;
pub(crate) mod pointer;
pub(crate) mod record;
pub(crate) mod segment;
pub(crate) mod superblock;
pub(crate) mod varint;

/// The version of the whole format.
pub(crate) const VERSION: u16 = 7;
/// The header area holds the superblocks; segments follow it.
pub(crate) const HEADER_AREA_BYTES: u64 = 256 << 10;
/// No longer value lies in an entry: it would not fit in a page with every key.
pub(crate) const INLINE_BYTES_MAX: usize = 1024;
/// Keys are 1..=this.
pub(crate) const KEY_BYTES_MAX: usize = 1024;

pub(crate) fn get_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

pub(crate) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn get_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

pub(crate) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// A length that is bounded far below 4 GiB by construction.
pub(crate) fn len32(len: usize) -> u32 {
    u32::try_from(len).expect("lengths are bounded by the maximum value and segment sizes")
}

/// A number of bytes that lies in memory.
pub(crate) fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).expect("what is in memory has a length that fits")
}

/// Whether nothing was ever written there. All of it is looked at, many bytes at a time.
pub(crate) fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |all, byte| all | byte) == 0
}

/// Rounds up to a multiple of a power of two.
pub(crate) fn round_up(n: u64, unit: u64) -> u64 {
    n.next_multiple_of(unit)
}

/// Where things are: derived once from the superblock or the settings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Geometry {
    pub(crate) sector_bytes: u64,
    /// The unit of placement: frames, chunks, pages and headers start on it.
    pub(crate) block_bytes: u64,
    pub(crate) segment_bytes: u64,
}

impl Geometry {
    /// Device offset of a segment's first byte.
    pub(crate) fn segment_offset(&self, physical: u32) -> u64 {
        HEADER_AREA_BYTES + u64::from(physical) * self.segment_bytes
    }

    /// How many segments fit on a device of this size.
    pub(crate) fn segments_in(&self, capacity_bytes: u64) -> u32 {
        let count = capacity_bytes.saturating_sub(HEADER_AREA_BYTES) / self.segment_bytes;
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// The segment and the offset in it of a device offset past the header area.
    pub(crate) fn locate(&self, offset: u64) -> (u32, u64) {
        let past = offset - HEADER_AREA_BYTES;
        (
            u32::try_from(past / self.segment_bytes).expect("a device has fewer segments"),
            past % self.segment_bytes,
        )
    }

    /// Logical segment number of a log position.
    pub(crate) fn logical(&self, lsn: u64) -> u64 {
        lsn / self.segment_bytes
    }

    /// Offset of a log position in its segment.
    pub(crate) fn within(&self, lsn: u64) -> u64 {
        lsn % self.segment_bytes
    }

    /// What a log segment holds beside its header.
    pub(crate) fn payload_bytes(&self) -> u64 {
        self.segment_bytes - self.block_bytes
    }

    pub(crate) fn block_up(&self, bytes: u64) -> u64 {
        round_up(bytes, self.block_bytes)
    }
}
