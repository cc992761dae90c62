//! Whose image it is, and how it is cut into segments: from a superblock or, where no copy is whole, from headers of the log.

use std::collections::BTreeMap;

use super::Image;
use crate::format::checksum::Identity;
use crate::format::frame::FrameHeader;
use crate::format::page::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
use crate::format::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::format::superblock::{COPIES, SUPERBLOCK_BYTES, Superblock, copy_offset};
use crate::format::{Geometry, HEADER_AREA_BYTES, VERSION, get_u32, to_usize};

const SECTOR_BYTES: u64 = 512;
const BLOCK_BYTES_MAX: u64 = 65_536;
const BLOCK_BYTES_USUAL: u64 = 4096;
/// Where a segment's header has these.
const DB_ID: usize = 8;
const PHYSICAL: usize = 40;

/// Why nothing can be repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoDatabase {
    /// Nothing in it shows that it was a database.
    #[error(
        "no superblock and no header of the log was found: it is no database, or nothing is left of it"
    )]
    Nothing,
    /// It is of another version of the format.
    #[error(
        "the database is of format version {0}, and this version reads only {VERSION}: repair it with the release that wrote it"
    )]
    OtherVersion(u16),
}

/// What identifies an image, and where its parts lie.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) id: Identity,
    pub(super) geometry: Geometry,
    /// How many segments begin within the image.
    pub(super) segments: u32,
    pub(super) superblock: Option<Superblock>,
    /// The copies of the superblock that are not whole.
    pub(super) damaged_copies: Vec<u16>,
}

/// Finds the layout. `segment_bytes` is used if nothing in the image tells.
pub(super) fn find(
    image: &mut dyn Image,
    segment_bytes: Option<u64>,
) -> Result<Layout, NoDatabase> {
    let mut newest: Option<Superblock> = None;
    let mut damaged_copies = Vec::new();
    let mut other = None;
    for copy in 0..COPIES {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        image.read(copy_offset(copy), &mut bytes);
        match Superblock::decode(copy, &bytes) {
            Ok((found, _)) if newest.is_some_and(|it| it.generation >= found.generation) => {}
            Ok((found, _)) => newest = Some(found),
            Err(_) => {
                other = other.or(Superblock::other_version(&bytes));
                damaged_copies.push(copy);
            }
        }
    }
    let (db_id, geometry) = match newest {
        Some(found) => {
            let geometry = Geometry {
                sector_bytes: found.sector_bytes.into(),
                block_bytes: found.block_bytes.into(),
                segment_bytes: found.segment_bytes,
            };
            (found.db_id, geometry)
        }
        None => match guess(image, segment_bytes) {
            Some(guessed) => guessed,
            None => return Err(other.map_or(NoDatabase::Nothing, NoDatabase::OtherVersion)),
        },
    };
    let past = image.len_bytes().saturating_sub(HEADER_AREA_BYTES);
    let segments = past.div_ceil(geometry.segment_bytes);
    Ok(Layout {
        id: Identity::new(db_id),
        geometry,
        segments: u32::try_from(segments).unwrap_or(u32::MAX),
        superblock: newest,
        damaged_copies,
    })
}

/// What headers of the log say of one size of segments.
#[derive(Debug, Default)]
struct Vote {
    headers: u64,
    /// Where the first frame behind a header lies, at the least.
    first_frame: Option<u64>,
}

/// The database and geometry that most headers of the log speak for.
fn guess(image: &mut dyn Image, segment_bytes: Option<u64>) -> Option<([u8; 16], Geometry)> {
    let mut votes: BTreeMap<([u8; 16], u64), Vote> = BTreeMap::new();
    let mut bytes = vec![0; to_usize(BLOCK_BYTES_MAX + SECTOR_BYTES)];
    let places = (HEADER_AREA_BYTES..image.len_bytes()).step_by(to_usize(SEGMENT_BYTES_MIN));
    for offset in places {
        image.read(offset, &mut bytes[..SEGMENT_HEADER_BYTES]);
        let id = bytes[DB_ID..DB_ID + 16].try_into().expect("sixteen bytes");
        let physical = get_u32(&bytes, PHYSICAL);
        let id = Identity::new(id);
        let head = &bytes[..SEGMENT_HEADER_BYTES];
        let Some(header) = SegmentHeader::decode_any(&id, physical, head) else {
            continue;
        };
        image.read(offset, &mut bytes);
        let frame = first_frame(&id, &bytes);
        let by_place = (offset - HEADER_AREA_BYTES).checked_div(physical.into());
        let by_frame = frame.and_then(|(at, lsn)| {
            let start = lsn.checked_sub(at)?;
            start.checked_div(header.logical)
        });
        let said = by_place.or(by_frame).or(segment_bytes);
        let Some(size) = said.filter(|size| fits(*size, offset, physical)) else {
            continue;
        };
        let vote = votes.entry((id.db_id, size)).or_default();
        vote.headers += 1;
        if let Some((at, _)) = frame {
            vote.first_frame = Some(vote.first_frame.map_or(at, |least| least.min(at)));
        }
    }
    let ((db_id, segment_bytes), vote) = votes.into_iter().max_by_key(|(_, vote)| vote.headers)?;
    let block = vote.first_frame.filter(|at| at.is_power_of_two());
    let geometry = Geometry {
        sector_bytes: SECTOR_BYTES,
        block_bytes: block.unwrap_or(BLOCK_BYTES_USUAL).min(segment_bytes / 4),
        segment_bytes,
    };
    Some((db_id, geometry))
}

/// Where the first whole header of a frame lies behind a segment's header, and its position in the log.
fn first_frame(id: &Identity, segment: &[u8]) -> Option<(u64, u64)> {
    let places = (SECTOR_BYTES..=BLOCK_BYTES_MAX).step_by(to_usize(SECTOR_BYTES));
    places.into_iter().find_map(|at| {
        let header = FrameHeader::decode_misplaced(id, &segment[to_usize(at)..])?;
        Some((at, header.lsn))
    })
}

/// Whether segments of this size put this one at this offset.
fn fits(size: u64, offset: u64, physical: u32) -> bool {
    size.is_power_of_two()
        && (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&size)
        && HEADER_AREA_BYTES + u64::from(physical) * size == offset
}
