//! A leaf entry of a checkpoint's index: what stands beside a key there, and how much of the pages it takes.
//!
//! | bytes | field |
//! | --- | --- |
//! | 1 | place: 1 inline, 2 log, 3 extents, 4 deleted |
//! | varint | sequence number |
//! | | inline: the value; log: LSN varint, value bytes varint, low half of the record's checksum 4; extents: the pointer; deleted: nothing |
//!
//! Invariant: no entry takes more of the pages than is said here, since so much is kept free for the next checkpoint. What it shares with its neighbours'
//! keys is not counted: neighbours come and go.

use crate::format::damage::Mismatch;
use crate::format::page::{
    PAGE_ENTRY_HEADER_BYTES_MAX, entry_bytes, pages_bytes_max, pages_bytes_max_of_several,
};
use crate::format::pointer::Pointer;
use crate::format::varint::{VARINT_BYTES_MAX, put_varint, take_varint, varint_bytes};
use crate::format::{Geometry, INLINE_BYTES_MAX, get_u32};
use crate::index::place::{Place, Version};

const INLINE: u8 = 1;
const LOG: u8 = 2;
const EXTENT: u8 = 3;
const DELETED: u8 = 4;

/// A value of this size takes no more of an entry than any place in the log.
pub(crate) const INLINE_BYTES_ALWAYS: u64 = 12;
const _: () = assert!(INLINE_BYTES_ALWAYS == (LSN_BYTES_USUAL + 1 + TAG_BYTES) as u64);

const TAG_BYTES: usize = 4;

/// Numbers count at the length that they have in a database that was written to for years. So the space that live data
/// takes does not grow with time.
const SEQUENCE_BYTES_USUAL: usize = 6;
const LSN_BYTES_USUAL: usize = 7;

/// What an entry takes at most beside its key and a value that lies in it.
const ENTRY_BYTES_MAX: usize = PAGE_ENTRY_HEADER_BYTES_MAX + 1 + 3 * VARINT_BYTES_MAX + TAG_BYTES;

/// Bytes that a key with this version takes at most of a checkpoint's pages that stand for all keys; none if it is deleted.
pub(crate) fn pages_of(key: &[u8], version: &Version) -> u64 {
    let place = match &version.place {
        Place::Tombstone => return 0,
        Place::Inline(value) => value.len(),
        Place::Log {
            lsn, value_bytes, ..
        } => place_in_log_bytes(*lsn, (*value_bytes).into()),
        Place::Extent(pointer) => pointer.encoded_bytes(),
    };
    pages_of_new(key.len(), version.sequence, place)
}

/// The same for a key of so many bytes that is yet to be written, with so many bytes in its entry: the value, the
/// pointer to it, or its place in the log. An overwrite counts the entry that it replaces, so an overwrite of equal
/// size is never refused for want of space.
pub(crate) fn pages_of_new(key_bytes: usize, sequence: u64, place_bytes: usize) -> u64 {
    let sequence_bytes = varint_bytes(sequence).max(SEQUENCE_BYTES_USUAL);
    pages_bytes_max(entry_bytes(0, key_bytes, 1 + sequence_bytes + place_bytes)) as u64
}

/// Bytes of a place in the log.
pub(crate) fn place_in_log_bytes(lsn: u64, value_bytes: u64) -> usize {
    varint_bytes(lsn).max(LSN_BYTES_USUAL) + varint_bytes(value_bytes) + TAG_BYTES
}

/// The same of an entry as it is in a run: no less, whatever the bytes are.
pub(crate) fn pages_of_payload(key: &[u8], payload: &[u8]) -> u64 {
    let Some((kind, mut rest)) = payload.split_first().filter(|_| !is_deleted(payload)) else {
        return 0;
    };
    let sequence = take_varint(&mut rest).unwrap_or(u64::MAX);
    let place = match *kind {
        LOG => {
            let at = rest.len();
            let lsn = take_varint(&mut rest).unwrap_or(u64::MAX);
            at.max(rest.len() + varint_bytes(lsn).max(LSN_BYTES_USUAL))
        }
        _ => rest.len(),
    };
    pages_of_new(key.len(), sequence, place)
}

/// The same for several, with so many bytes of keys and values together, whichever of the values lie in their entries.
pub(crate) fn pages_of_several(keys: usize, bytes: usize) -> u64 {
    pages_bytes_max_of_several(keys * ENTRY_BYTES_MAX + bytes) as u64
}

/// What stands beside the key.
pub(crate) fn encode(version: &Version, out: &mut Vec<u8>) {
    let place = match &version.place {
        Place::Tombstone => DELETED,
        Place::Inline(_) => INLINE,
        Place::Log { .. } => LOG,
        Place::Extent(_) => EXTENT,
    };
    out.push(place);
    put_varint(out, version.sequence);
    match &version.place {
        Place::Tombstone => {}
        Place::Inline(value) => out.extend_from_slice(value),
        Place::Log {
            lsn,
            value_bytes,
            tag,
        } => {
            put_varint(out, *lsn);
            put_varint(out, (*value_bytes).into());
            out.extend_from_slice(&tag.to_le_bytes());
        }
        Place::Extent(pointer) => out.extend_from_slice(&pointer.encode()),
    }
}

/// Whether it says that the key was deleted.
pub(crate) fn is_deleted(payload: &[u8]) -> bool {
    payload.first() == Some(&DELETED)
}

/// The sequence number and the value of an entry that has its value in it.
pub(crate) fn inline_value(payload: &[u8]) -> Option<(u64, &[u8])> {
    let (kind, mut rest) = payload.split_first()?;
    let sequence = (*kind == INLINE).then(|| take_varint(&mut rest))??;
    (rest.len() <= INLINE_BYTES_MAX).then_some((sequence, rest))
}

/// Takes any bytes.
pub(crate) fn decode(
    geometry: &Geometry,
    segments: u32,
    payload: &[u8],
) -> Result<Version, Mismatch> {
    let odd = |what| Mismatch {
        what,
        expected: LOG.into(),
        found: payload.first().copied().unwrap_or(0).into(),
    };
    let (kind, mut rest) = payload.split_first().ok_or(odd("index entry length"))?;
    let number = |rest: &mut &[u8]| take_varint(rest).ok_or(odd("index entry number"));
    let sequence = number(&mut rest)?;
    let place = match *kind {
        INLINE if rest.len() <= INLINE_BYTES_MAX => Place::Inline(rest.into()),
        LOG => {
            let lsn = number(&mut rest)?;
            let value_bytes = number(&mut rest)?;
            if rest.len() != TAG_BYTES {
                return Err(odd("index entry length"));
            }
            Place::Log {
                lsn,
                value_bytes: u32::try_from(value_bytes)
                    .map_err(|_| odd("index entry value length"))?,
                tag: get_u32(rest, 0),
            }
        }
        EXTENT => Place::Extent(Box::new(Pointer::decode(geometry, segments, rest)?)),
        DELETED if rest.is_empty() => Place::Tombstone,
        _ => return Err(odd("index entry place")),
    };
    Ok(Version { sequence, place })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::HEADER_AREA_BYTES;
    use crate::format::pointer::Chunk;

    const GEOMETRY: Geometry = Geometry {
        sector_bytes: 512,
        block_bytes: 4096,
        segment_bytes: 65_536,
    };

    fn versions() -> Vec<Version> {
        let chunk = Chunk {
            offset: HEADER_AREA_BYTES,
            len: 9,
            checksum: u64::MAX,
        };
        let pointer = Pointer {
            total: 9,
            chunks: Box::new([chunk]),
        };
        let log = |lsn, value_bytes| Place::Log {
            lsn,
            value_bytes,
            tag: 0x0102_0304,
        };
        let places = [
            Place::Inline([].into()),
            Place::Inline([7; 100].into()),
            log(0, 0),
            log(1 << 34, 1024),
            log(u64::MAX, u32::MAX),
            Place::Extent(Box::new(pointer)),
            Place::Tombstone,
        ];
        let sequences = [0, 1, 1 << 40, u64::MAX];
        let of = |sequence| {
            let places = places.iter().cloned();
            places.map(move |place| Version { sequence, place })
        };
        sequences.into_iter().flat_map(of).collect()
    }

    /// Goal: a version comes back from its entry, which is as long as is said at most. Method: every place, with small and the largest numbers.
    #[test]
    fn versions_come_back_from_entries_within_their_bound() {
        for version in versions() {
            let mut payload = Vec::new();
            encode(&version, &mut payload);
            assert_eq!(decode(&GEOMETRY, 1, &payload).as_ref(), Ok(&version));
            let entry = entry_bytes(0, 3, payload.len()) as u64;
            assert_eq!(
                pages_of_payload(b"key", &payload),
                pages_of(b"key", &version)
            );
            if version.place == Place::Tombstone {
                continue;
            }
            assert!(entry <= pages_of(b"key", &version), "{version:?}");
            let several = match &version.place {
                Place::Inline(value) => 3 + value.len(),
                Place::Extent(pointer) => 3 + pointer.encoded_bytes(),
                _ => 3,
            };
            assert!(pages_of(b"key", &version) <= pages_of_several(1, several) + 1);
        }
    }

    /// Goal: on a full database an overwrite of equal size fits. Method: what is to come counts as what is there, later in the log by years.
    #[test]
    fn an_overwrite_counts_what_it_replaces() {
        let years = 1 << 48;
        let old = Version {
            sequence: 1,
            place: Place::Log {
                lsn: 1,
                value_bytes: 1024,
                tag: 9,
            },
        };
        let new = pages_of_new(3, 1 << 41, place_in_log_bytes(years, 1024));
        assert_eq!(new, pages_of(b"key", &old));
        let inline = Place::Inline([7; 100].into());
        let old = Version {
            sequence: 1,
            place: inline,
        };
        assert_eq!(pages_of_new(3, 1 << 41, 100), pages_of(b"key", &old));
    }

    /// Goal: an entry that ends early, or goes on, is refused where its length can be known. Method: every cut of every entry, and a byte more.
    #[test]
    fn entries_of_another_length_are_refused() {
        for version in versions() {
            let inline = matches!(version.place, Place::Inline(_));
            let mut payload = Vec::new();
            encode(&version, &mut payload);
            let numbers = 1 + varint_bytes(version.sequence);
            let cuts = if inline { numbers } else { payload.len() };
            for cut in 0..cuts {
                assert!(
                    decode(&GEOMETRY, 1, &payload[..cut]).is_err(),
                    "{version:?}"
                );
            }
            payload.push(1);
            assert!(inline || decode(&GEOMETRY, 1, &payload).is_err());
        }
    }
}
