//! The pass over all segments: frames and records of the log, parts of frames that are damaged, and pages that lead to others.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::Image;
use super::layout::Layout;
use super::tree::references_in;
use crate::format::checksum::Identity;
use crate::format::frame::{FRAME_HEADER_BYTES, FrameHeader};
use crate::format::page::{PAGE_BYTES_MAX, PageRef, Tree, claimed};
use crate::format::pointer::Pointer;
use crate::format::record::{self, RECORD_HEADER_BYTES, Record, RecordKind, Records, tag};
use crate::format::segment::SegmentHeader;
use crate::format::{Geometry, len32, to_usize};
use crate::index::key::Key;
use crate::index::place::Place;

/// Where records are searched byte by byte, so many times as many bytes are hashed at most.
const HASHED_TIMES_MAX: usize = 32;

/// No database comes near to this position of its log.
const POSITION_MAX: u64 = 1 << 62;

/// A frame whose header is whole, at its place.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) header: FrameHeader,
    pub(super) end: u64,
    pub(super) physical: u32,
    /// Whether its body is.
    pub(super) is_whole: bool,
    /// Its records in `Scan::records`.
    pub(super) records: Range<usize>,
}

/// A put, a delete or a move whose checksum is right.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) key: Key,
    pub(super) sequence: u64,
    pub(super) place: Place,
    pub(super) is_commit: bool,
    pub(super) lsn: u64,
    pub(super) physical: u32,
    /// Number of its frame. `None`: the frame's header is damaged.
    pub(super) frame: Option<usize>,
}

/// What all segments hold.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Headers of segments, by where these are.
    pub(super) headers: BTreeMap<u32, SegmentHeader>,
    pub(super) frames: Vec<Frame>,
    pub(super) records: Vec<Seen>,
    /// The segments that hold something of this part of the log.
    pub(super) segments: BTreeMap<u64, BTreeSet<u32>>,
    /// Epochs and durable positions that headers of frames state which are not at their places.
    pub(super) misplaced: Vec<(u64, u64)>,
    /// References in pages that lead to others. Whether they are right is seen at the pages that they lead to.
    pub(super) references: Vec<PageRef>,
}

/// Bytes of a segment that no whole frame covers.
#[derive(Debug, Clone, Copy)]
struct Uncovered {
    from: usize,
    to: usize,
    /// Position in the log of the segment's first byte.
    base: u64,
    frame: Option<usize>,
}

/// Reads all segments. `progress` is told how many bytes were read.
pub(super) fn scan(image: &mut dyn Image, layout: &Layout, progress: &mut dyn FnMut(u64)) -> Scan {
    let mut scan = Scan::default();
    let mut bytes = vec![0; to_usize(layout.geometry.segment_bytes)];
    for physical in 0..layout.segments {
        let offset = layout.geometry.segment_offset(physical);
        image.read(offset, &mut bytes);
        scan.segment(layout, physical, &bytes);
        let end = offset + layout.geometry.segment_bytes;
        progress(end.min(image.len_bytes()));
    }
    scan
}

impl Scan {
    /// The numbers of whole frames that count, by their positions.
    pub(super) fn whole_frames(
        &self,
        counts: impl Fn(&Frame) -> bool,
    ) -> BTreeMap<u64, Vec<usize>> {
        let mut by_lsn: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (number, frame) in self.frames.iter().enumerate() {
            if frame.is_whole && counts(frame) {
                by_lsn.entry(frame.header.lsn).or_default().push(number);
            }
        }
        by_lsn
    }

    fn segment(&mut self, layout: &Layout, physical: u32, bytes: &[u8]) {
        let (id, geometry) = (&layout.id, &layout.geometry);
        let block = to_usize(geometry.block_bytes);
        let header = SegmentHeader::decode_any(id, physical, bytes);
        let header = header.filter(|it| is_sound(geometry, it));
        if let Some(header) = header {
            self.headers.insert(physical, header);
        }
        let logical = match header {
            Some(header) => Some(header.logical),
            None => newest_part(id, geometry, bytes),
        };
        if let Some(logical) = logical {
            self.note_part(logical, physical);
        }
        let own = logical.map(|logical| logical * geometry.segment_bytes);
        let mut uncovered: Option<Uncovered> = None;
        let mut at = 0;
        while at < bytes.len() {
            let Some(header) = frame_at(id, geometry, bytes, at) else {
                self.block(layout, physical, at, bytes);
                if uncovered.is_some_and(|it| it.to <= at) {
                    self.salvage(id, geometry, physical, bytes, uncovered.take());
                }
                // The first block is the segment's header.
                if at > 0 && uncovered.is_none() {
                    uncovered = own.map(|base| Uncovered {
                        from: at,
                        to: bytes.len(),
                        base,
                        frame: None,
                    });
                }
                at += block;
                continue;
            };
            if let Some(it) = &mut uncovered {
                it.to = it.to.min(at);
            }
            self.salvage(id, geometry, physical, bytes, uncovered.take());
            let number = self.frames.len();
            let first = self.records.len();
            let body = header.check_body(id, &bytes[at..]);
            let is_whole = body.is_ok();
            if let Ok(body) = body {
                for record in Records::new(header.lsn + FRAME_HEADER_BYTES as u64, body).flatten() {
                    self.note_record(geometry, physical, &record, Some(number));
                }
            }
            self.note_part(geometry.logical(header.lsn), physical);
            self.frames.push(Frame {
                header,
                end: header.lsn + geometry.block_up(header.total_bytes()),
                physical,
                is_whole,
                records: first..self.records.len(),
            });
            if is_whole {
                at += to_usize(geometry.block_up(header.total_bytes()));
            } else {
                uncovered = Some(Uncovered {
                    from: at + FRAME_HEADER_BYTES,
                    to: at + to_usize(header.total_bytes()),
                    base: header.lsn - at as u64,
                    frame: Some(number),
                });
                at += block;
            }
        }
        self.salvage(id, geometry, physical, bytes, uncovered);
    }

    fn note_part(&mut self, logical: u64, physical: u32) {
        self.segments.entry(logical).or_default().insert(physical);
    }

    /// Looks at a block that belongs to no frame.
    fn block(&mut self, layout: &Layout, physical: u32, at: usize, bytes: &[u8]) {
        let from = &bytes[at..];
        if let Some(header) = FrameHeader::decode_misplaced(&layout.id, from)
            && header.lsn <= POSITION_MAX
        {
            self.misplaced.push((header.epoch, header.durable));
        }
        let offset = layout.geometry.segment_offset(physical) + at as u64;
        let Some((tree, level, used)) = claimed(&layout.id, offset, from) else {
            return;
        };
        if tree == Tree::Partitions as u8 || (tree == Tree::Run as u8 && level > 0) {
            let used = (used as usize).min(PAGE_BYTES_MAX).min(from.len());
            self.references
                .extend(references_in(&layout.geometry, &from[..used]));
        }
    }

    /// Takes the records that are whole where no whole frame is.
    fn salvage(
        &mut self,
        id: &Identity,
        geometry: &Geometry,
        physical: u32,
        bytes: &[u8],
        uncovered: Option<Uncovered>,
    ) {
        let Some(Uncovered {
            from,
            to,
            base,
            frame,
        }) = uncovered
        else {
            return;
        };
        let mut hashed = 0;
        let mut at = from;
        while at + RECORD_HEADER_BYTES < to {
            let lsn = base + at as u64;
            let found = record::parse(lsn, &bytes[at..to]).ok();
            let found = found.filter(|(_, len)| {
                let is_within = hashed + len <= HASHED_TIMES_MAX * (to - from);
                hashed += if is_within { *len } else { 0 };
                is_within && record::verify(id, lsn, &bytes[at..at + len]).is_ok()
            });
            at += match found {
                Some((record, len)) => {
                    self.note_part(geometry.logical(lsn), physical);
                    self.note_record(geometry, physical, &record, frame);
                    len
                }
                None => 1,
            };
        }
    }

    fn note_record(
        &mut self,
        geometry: &Geometry,
        physical: u32,
        record: &Record<'_>,
        frame: Option<usize>,
    ) {
        let place = match record.kind {
            RecordKind::Delete => Place::Tombstone,
            RecordKind::Put | RecordKind::MoveValue | RecordKind::MoveOlderValue => Place::Log {
                lsn: record.lsn,
                value_bytes: len32(record.value.len()),
                tag: tag(record.checksum),
            },
            RecordKind::PutExtent | RecordKind::MoveExtent | RecordKind::MoveOlderExtent => {
                match Pointer::decode(geometry, u32::MAX, record.value) {
                    Ok(pointer) => Place::Extent(Box::new(pointer)),
                    Err(_) => return,
                }
            }
            RecordKind::FreeSegment => return,
        };
        self.records.push(Seen {
            key: Key::new(record.key),
            sequence: record.sequence,
            place,
            is_commit: record.kind.is_commit(),
            lsn: record.lsn,
            physical,
            frame,
        });
    }
}

/// The header of a frame that begins here and ends in this segment.
fn frame_at(id: &Identity, geometry: &Geometry, bytes: &[u8], at: usize) -> Option<FrameHeader> {
    let header = FrameHeader::decode_misplaced(id, &bytes[at..])?;
    let is_here = at > 0
        && header.lsn <= POSITION_MAX
        && geometry.within(header.lsn) == at as u64
        && header.total_bytes() <= (bytes.len() - at) as u64;
    is_here.then_some(header)
}

/// Whether its numbers are such that one can reckon with them.
fn is_sound(geometry: &Geometry, header: &SegmentHeader) -> bool {
    let numbers = [header.durable, header.previous_end];
    header.logical <= POSITION_MAX / geometry.segment_bytes
        && numbers.into_iter().all(|it| it <= POSITION_MAX)
}

/// The latest part of the log that has a frame in a segment without a header.
fn newest_part(id: &Identity, geometry: &Geometry, bytes: &[u8]) -> Option<u64> {
    let places = (0..bytes.len()).step_by(to_usize(geometry.block_bytes));
    let headers = places.filter_map(|at| frame_at(id, geometry, bytes, at));
    headers.map(|header| geometry.logical(header.lsn)).max()
}
