//! Creating a database on a blank device.
//!
//! Invariants: only a blank device, or the remains of an interrupted creation, is ever formatted. An opening is
//! acknowledged only when all four superblock copies are durable.
//!
//! An interrupted creation can leave garbage in its copies, and nothing else: no segment is touched before the opening was
//! acknowledged. Garbage is in one half, since a flush separates the halves; but where a flush failed, the next opening has seen the first half in
//! nothing but the cache, and went on with the other, so it may be in both. A database that was ever written to has its first segment,
//! whatever happens to its copies, and that tells it from an interrupted creation. One that was never written to is empty, and nothing of it is lost.

use crate::api::error::Error;
use crate::checkpoint::copies::is_one_half;
use crate::core::Core;
use crate::format::damage::Mismatch;
use crate::format::page::PageRef;
use crate::format::superblock::{COPIES, Counts, ReplayStart, Superblock, copy_offset};
use crate::format::{HEADER_AREA_BYTES, VERSION, is_blank, to_usize};
use crate::log::tail::first_tail;
use crate::runtime::handle::Handle;

/// So many segments are looked at before a device counts as blank.
const SEGMENTS_PROBED: u32 = 16;
const _: () = assert!(HEADER_AREA_BYTES == COPIES as u64 * (64 << 10));

/// Makes sure that the device may be formatted, and returns the superblock that precedes the first opening. `garbage` are the
/// copies that are neither valid nor blank, and `unread` says why one of them could not be read.
pub(crate) async fn create(
    handle: &Handle,
    garbage: &[u16],
    unread: Option<Error>,
) -> Result<Superblock, Error> {
    let (geometry, id, settings) =
        handle.with(|core| (core.geometry, core.id, core.settings.clone()));
    let count = geometry.segments_in(settings.device.capacity_bytes);
    // A database that takes no write is none: it needs room for data beside log, garbage collection and checkpoints.
    let (max, needed) = handle.with(|core: &mut Core| {
        core.segments.extend(count);
        core.segments
            .keep_residents(core.settings.options.residents_max());
        (core.segments_max(), core.segments_min())
    });
    if max < needed || count == 0 {
        return Err(Error::NoSpace(format!(
            "the device has room for {max} segments of {} bytes, and a database with these options takes {needed}",
            geometry.segment_bytes
        )));
    }
    let block = geometry.block_bytes;
    if !is_one_half(garbage) {
        refuse_other_versions(handle, garbage, block).await?;
    }
    if let Some(offset) = find_written(handle, garbage, count).await? {
        return Err(match unread {
            Some(error) => error,
            None if is_one_half(garbage) => not_blank(offset),
            // What is wrong is these.
            None => not_blank(copy_offset(garbage[0])),
        });
    }
    let tail = first_tail(&geometry, &id);
    Ok(Superblock {
        db_id: settings.db_id,
        generation: 0,
        epoch: 0,
        epoch_start: tail.lsn,
        epoch_checksum: tail.previous_checksum,
        sector_bytes: settings.device.sector_bytes,
        block_bytes: u32::try_from(block).expect("blocks are small"),
        segment_bytes: geometry.segment_bytes,
        segment_count: count,
        replay: ReplayStart {
            lsn: tail.lsn,
            physical: 0,
            next: 0,
            previous_checksum: tail.previous_checksum,
            previous_end: tail.previous_end,
            sequence: tail.next_sequence,
        },
        log_minimum: tail.previous_end,
        durable: tail.previous_end,
        partitions_root: PageRef::NONE,
        table_root: PageRef::NONE,
        counts: Counts::default(),
    })
}

/// Where the first sector with anything in it is, in the header area or at the beginning of the first segments, apart from these copies.
async fn find_written(handle: &Handle, garbage: &[u16], count: u32) -> Result<Option<u64>, Error> {
    let geometry = handle.with(|core| core.geometry);
    let block = geometry.block_bytes;
    for copy in 0..COPIES {
        // Garbage is overwritten, readable or not.
        let left_out = if garbage.contains(&copy) { block } else { 0 };
        let start = copy_offset(copy) + left_out;
        let between = handle
            .read_retry(start, copy_offset(copy + 1) - start)
            .await?;
        let sectors = between.chunks(to_usize(geometry.sector_bytes));
        let mut sectors = (start..)
            .step_by(to_usize(geometry.sector_bytes))
            .zip(sectors);
        if let Some((offset, _)) = sectors.find(|(_, bytes)| !is_blank(bytes)) {
            return Ok(Some(offset));
        }
    }
    for physical in 0..count.min(SEGMENTS_PROBED) {
        let offset = geometry.segment_offset(physical);
        let first = handle.read_retry(offset, 2 * block).await?;
        if !is_blank(&first) {
            return Ok(Some(offset));
        }
    }
    Ok(None)
}

/// Refuses what a database of another version of the format may be: no garbage states one.
async fn refuse_other_versions(handle: &Handle, garbage: &[u16], block: u64) -> Result<(), Error> {
    let mut versions = Vec::new();
    for copy in garbage {
        if let Ok(bytes) = handle.read_retry(copy_offset(*copy), block).await {
            versions.push(Superblock::other_version(&bytes));
        }
    }
    let Some(version) = versions.iter().flatten().next() else {
        return Ok(());
    };
    Err(match versions.iter().all(|it| *it == Some(*version)) {
        true => Error::Invalid(format!(
            "the database is of format version {version}, and this engine reads version {VERSION} only: open it with the release that wrote it"
        )),
        false => not_blank(copy_offset(garbage[0])),
    })
}

fn not_blank(offset: u64) -> Error {
    Mismatch {
        what: "no valid superblock, and the device is not blank",
        expected: 0,
        found: 1,
    }
    .at(offset)
    .into()
}
