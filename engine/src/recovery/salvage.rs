//! Reading a part of the device of which some sectors may be unreadable.
//!
//! A sector that was being written when the power failed may fail every read until it is rewritten. Such a sector is no worse than one with
//! garbage in it: whoever reads decides what is missing. A device that fails altogether is something else. Its data may all be there, so nothing
//! may be concluded from what it does not show.
//!
//! Invariant: a sector counts as unreadable only after many failed reads of that sector alone, on a device that still reads a superblock.

use crate::api::buffer::IoBuf;
use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::format::superblock::{COPIES, copy_offset};
use crate::format::{round_up, to_usize};
use crate::runtime::handle::Handle;

/// Reads of one sector before it counts as unreadable.
const READS_OF_A_SECTOR: u32 = 8;

/// Bytes of the device, with zeroes for the sectors that cannot be read, and the device offsets of these sectors in ascending order.
pub(crate) struct Salvaged {
    pub(crate) bytes: IoBuf,
    pub(crate) unreadable: Vec<u64>,
}

/// Reads whatever can be read of these whole sectors.
///
/// # Errors
/// The device fails other reads as well.
pub(crate) async fn salvage(handle: &Handle, offset: u64, len: u64) -> Result<Salvaged, Error> {
    let error = match handle.read_retry(offset, len).await {
        Ok(bytes) => {
            let unreadable = Vec::new();
            return Ok(Salvaged { bytes, unreadable });
        }
        Err(error) => error,
    };
    if !still_reads(handle).await {
        return Err(error);
    }
    let sector = handle.with(|core| core.geometry.sector_bytes);
    let mut bytes = IoBuf::zeroed(to_usize(len));
    let mut unreadable = Vec::new();
    // Halves of what failed, the first on top.
    let mut parts = vec![(0, len)];
    while let Some((start, len)) = parts.pop() {
        let tries = if len > sector { 1 } else { READS_OF_A_SECTOR };
        match read_with_retries(handle, offset + start, len, tries).await {
            Some(part) => {
                bytes[to_usize(start)..][..part.len()].copy_from_slice(&part);
                handle.give(part);
            }
            None if len > sector => {
                let half = round_up(len / 2, sector);
                parts.push((start + half, len - half));
                parts.push((start, half));
            }
            None => unreadable.push(offset + start),
        }
    }
    if !unreadable.is_empty() {
        handle.with(|core| core.reached(CoveragePoint::SectorUnreadable));
    }
    Ok(Salvaged { bytes, unreadable })
}

async fn read_with_retries(handle: &Handle, offset: u64, len: u64, tries: u32) -> Option<IoBuf> {
    for _ in 0..tries {
        if let Ok(bytes) = handle.read(offset, len).await {
            return bytes;
        }
    }
    None
}

/// Whether any copy of the superblock can be read.
async fn still_reads(handle: &Handle) -> bool {
    let (sector, size) = handle.with(|core| {
        (
            core.geometry.sector_bytes,
            core.settings.device.capacity_bytes,
        )
    });
    for offset in (0..COPIES).map(copy_offset) {
        if offset + sector <= size
            && let Some(bytes) = read_with_retries(handle, offset, sector, 2).await
        {
            handle.give(bytes);
            return true;
        }
    }
    false
}
