//! What recoveries have cut off.
//!
//! A recovery begins a new epoch where the log ends for it. Whatever an older epoch wrote behind that is cut off. Where the end of the log was not proven, the recovery has written the
//! values there anew (`recovery/rewrite_tail.rs`), and the new epoch begins in a segment of its own, whose header names no frame before it. Then the log ended where its chain ends
//! that goes on from the last durable position, and what lies between is cut off, but for what was written anew.

use std::collections::{BTreeMap, BTreeSet};

use super::layout::Layout;
use super::scan::{Frame, Scan};
use crate::format::Geometry;
use crate::format::segment::SegmentHeader;

/// A part of the log that was cut off in front of an epoch.
#[derive(Debug, Clone, Copy)]
struct Cut {
    from: u64,
    to: u64,
    /// The epoch that begins behind it.
    epoch: u64,
}

/// Where the log was cut off.
#[derive(Debug, Default)]
pub(super) struct Fences {
    /// Where each epoch begins at the latest.
    epochs: BTreeMap<u64, u64>,
    cuts: Vec<Cut>,
    /// Where the first segment begins that each epoch has entered. Nothing of an older one is in a segment that begins there or behind.
    entered: BTreeMap<u64, u64>,
    /// The epochs that have entered the segments.
    headers: BTreeMap<u32, u64>,
    /// Segments to which recoveries wrote values anew.
    anew: BTreeSet<u32>,
}

impl Fences {
    /// `has_extents`: see `chain`.
    pub(super) fn of(
        scan: &Scan,
        layout: &Layout,
        has_extents: &mut dyn FnMut(&Frame) -> bool,
    ) -> Fences {
        let mut fences = Fences::default();
        let start_of = |header: &SegmentHeader| header.logical * layout.geometry.segment_bytes;
        for header in scan.headers.values() {
            note(&mut fences.epochs, header.epoch, start_of(header));
            note(&mut fences.entered, header.epoch, start_of(header));
            fences.headers.insert(header.physical, header.epoch);
            // Only what is written anew names no frame before it.
            if header.previous_checksum == 0 {
                fences.anew.extend(linked(scan, header));
            }
        }
        for frame in &scan.frames {
            note(&mut fences.epochs, frame.header.epoch, frame.header.lsn);
            if frame.header.previous_checksum == 0 {
                fences.anew.insert(frame.physical);
            }
        }
        if let Some(superblock) = &layout.superblock {
            note(&mut fences.epochs, superblock.epoch, superblock.epoch_start);
        }
        for header in scan.headers.values() {
            let (to, epoch) = (start_of(header), header.epoch);
            if header.previous_checksum != layout.id.chain_start() || header.logical < 2 {
                continue;
            }
            let is_before = |of: u64, lsn: u64| of < epoch && lsn < to;
            let by_lsn = scan.whole_frames(|it| {
                is_before(it.header.epoch, it.header.lsn) && !fences.anew.contains(&it.physical)
            });
            let headers = scan.headers.values();
            let headers = headers.filter(|it| is_before(it.epoch, start_of(it)));
            let frames = by_lsn.values().flatten();
            let frames = frames.map(|number| scan.frames[*number].header.durable);
            let stated = headers.map(|it| it.durable).chain(frames).max();
            if let Some(stated) = stated {
                let from = end_of_chain(scan, &layout.geometry, &by_lsn, stated, has_extents);
                fences.cuts.push(Cut { from, to, epoch });
            }
        }
        fences
    }

    /// The latest epoch.
    pub(super) fn latest(&self) -> u64 {
        self.epochs.last_key_value().map_or(0, |(epoch, _)| *epoch)
    }

    /// Whether a recovery has cut off what this epoch wrote there. An epoch that is not known may be any from that on which has entered the segment.
    pub(super) fn is_cut(&self, epoch: Option<u64>, lsn: u64, physical: u32) -> bool {
        let is_older = |cut: &Cut| epoch.is_none_or(|epoch| epoch < cut.epoch);
        let mut cuts = self.cuts.iter();
        let is_between = cuts.any(|it| (it.from..it.to).contains(&lsn) && is_older(it));
        let (starts, epoch) = match epoch {
            Some(epoch) => (&self.epochs, Some(epoch)),
            // A later epoch may have gone on in the segment, but not behind where it has entered its own.
            None => (&self.entered, self.headers.get(&physical).copied()),
        };
        let later = epoch.and_then(|epoch| epoch.checked_add(1));
        let is_behind = later.is_some_and(|later| {
            let mut later = starts.range(later..);
            later.any(|(_, from)| *from <= lsn)
        });
        is_behind || (is_between && !self.anew.contains(&physical))
    }
}

/// Notes where an epoch begins, if that is the least so far.
fn note(starts: &mut BTreeMap<u64, u64>, epoch: u64, lsn: u64) {
    let from = starts.entry(epoch).or_insert(lsn);
    *from = lsn.min(*from);
}

/// The segments that headers of one epoch lead to, from this one on.
fn linked(scan: &Scan, first: &SegmentHeader) -> BTreeSet<u32> {
    let mut segments = BTreeSet::from([first.physical]);
    let mut last = first;
    while let Some(next) = scan.headers.get(&last.next)
        && (next.epoch, next.logical) == (first.epoch, last.logical + 1)
    {
        segments.insert(next.physical);
        last = next;
    }
    segments
}

/// Where the frames end that follow each other from this position on.
fn end_of_chain(
    scan: &Scan,
    geometry: &Geometry,
    by_lsn: &BTreeMap<u64, Vec<usize>>,
    proven: u64,
    has_extents: &mut dyn FnMut(&Frame) -> bool,
) -> u64 {
    let frame = |number: &usize| &scan.frames[*number];
    let before = by_lsn.range(..proven).next_back();
    let before =
        before.and_then(|(_, numbers)| numbers.iter().map(frame).find(|it| it.end == proven));
    let mut checksum = before.map(|it| it.header.header_checksum);
    let mut end = proven;
    loop {
        let next_segment = end.next_multiple_of(geometry.segment_bytes) + geometry.block_bytes;
        let at = |lsn: u64| by_lsn.get(&lsn).into_iter().flatten().map(frame);
        let is_tied = |previous: u64| checksum.is_none_or(|checksum| previous == checksum);
        // A segment is entered by its header.
        let is_entered = |it: &&Frame| {
            let header = scan.headers.get(&it.physical);
            header.is_some_and(|header| {
                header.logical == geometry.logical(it.header.lsn)
                    && is_tied(header.previous_checksum)
            })
        };
        let mut frames = at(end).chain(at(next_segment).filter(is_entered));
        let next = frames.find(|it| is_tied(it.header.previous_checksum));
        match next {
            Some(next) if !next.header.has_extents || has_extents(next) => {
                checksum = Some(next.header.header_checksum);
                end = next.end;
            }
            _ => return end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what lies behind the beginning of a later epoch is cut off, and what lies in a cut, unless it was written anew; the later epoch itself is not. Method: positions around
    /// both, of epochs that are known and of some that are not.
    #[test]
    fn what_is_behind_a_later_epoch_is_cut_off() {
        let cut = Cut {
            from: 300,
            to: 400,
            epoch: 2,
        };
        let fences = Fences {
            epochs: BTreeMap::from([(1, 0), (2, 400), (3, 1000)]),
            cuts: vec![cut],
            entered: BTreeMap::from([(1, 0), (2, 512), (3, 1024)]),
            headers: BTreeMap::from([(5, 1), (6, 2)]),
            anew: BTreeSet::from([7]),
        };
        assert_eq!(fences.latest(), 3);
        for (epoch, lsn, is_cut) in [
            (Some(1), 299, false),
            (Some(1), 300, true),
            (Some(1), 399, true),
            (Some(1), 400, true),
            (Some(2), 350, false),
            (Some(2), 999, false),
            (Some(2), 1000, true),
            (Some(3), 1000, false),
            (Some(u64::MAX), 1000, false),
            (None, 350, true),
            (None, 1000, false),
        ] {
            assert_eq!(fences.is_cut(epoch, lsn, 1), is_cut, "{epoch:?} {lsn}");
        }
        assert!(!fences.is_cut(Some(1), 350, 7) && fences.is_cut(Some(1), 400, 7));
        // Of an epoch that is not known, in segments that the first and the second have entered.
        for (lsn, physical, is_cut) in [
            (299, 5, false),
            (400, 5, false),
            (511, 5, false),
            (512, 5, true),
            (1023, 6, false),
            (1024, 6, true),
        ] {
            assert_eq!(fences.is_cut(None, lsn, physical), is_cut, "{lsn}");
        }
    }
}
