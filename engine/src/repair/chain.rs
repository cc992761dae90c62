//! Which of the log counts, and where it has gaps.
//!
//! With a superblock of the latest epoch this follows the log from the replay start, as an opening does (`recovery/replay.rs`). Where the chain ends and something states a
//! later position as durable, an opening refuses. Here that is a gap: the log goes on behind it with the next frame that is whole. Where nothing does, the tail is cut off.
//!
//! Without such a superblock no replay start is known. Then all of the log counts but what a later epoch or the tail has cut off.

use std::collections::{BTreeMap, BTreeSet};

use super::Source;
use super::fence::Fences;
use super::layout::Layout;
use super::scan::{Frame, Scan, Seen};
use crate::format::segment::SegmentHeader;
use crate::format::superblock::Superblock;
use crate::format::{Geometry, round_up};

/// A part of the log that cannot be read. Of its puts and deletes those are taken that are whole by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogGap {
    /// Where it begins: a position in the log, bytes.
    pub from: u64,
    /// Where the log goes on.
    pub to: u64,
    /// How many puts and deletes are lost with it; `None`: nothing tells how many there were.
    pub lost_commits: Option<u64>,
}

/// What counts of the log.
#[derive(Debug)]
pub(super) struct Chain {
    /// Where replay begins; `None` without a superblock of the latest epoch.
    pub(super) replay: Option<u64>,
    /// Nothing counts from there on.
    end: u64,
    /// Numbers of the frames that replay takes.
    taken: BTreeSet<usize>,
    pub(super) gaps: Vec<LogGap>,
    fences: Fences,
}

/// As what a record counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counts {
    As(Source),
    /// Behind the end of the log. Nothing says that it was durable.
    CutOff,
    /// Not at all.
    Not,
}

impl Counts {
    pub(super) fn is_counted(self) -> bool {
        matches!(self, Counts::As(_))
    }
}

/// Finds out. `has_extents` says whether all large values that a frame refers to are there.
pub(super) fn chain(
    scan: &Scan,
    layout: &Layout,
    has_extents: &mut dyn FnMut(&Frame) -> bool,
) -> Chain {
    let fences = Fences::of(scan, layout, has_extents);
    let latest = fences.latest();
    let by_lsn =
        scan.whole_frames(|it| !fences.is_cut(Some(it.header.epoch), it.header.lsn, it.physical));
    let superblock = layout.superblock.filter(|it| it.epoch == latest);
    let stated = superblock.map_or(0, |it| it.durable.max(it.log_minimum));
    let commits = scan.records.iter().filter(|record| record.is_commit);
    let commits = commits.map(|record| (record.lsn, record.sequence));
    let mut walk = Walk {
        scan,
        geometry: &layout.geometry,
        latest,
        superblock,
        by_lsn,
        commits: commits.collect(),
        durable: stated_durable(scan, latest).max(stated),
        has_extents,
        at: At {
            lsn: 0,
            end: 0,
            checksum: None,
            sequence: None,
            epoch: 0,
        },
        taken: BTreeSet::new(),
        gaps: Vec::new(),
    };
    walk.commits.sort_unstable();
    let replay = superblock.map(|it| it.replay);
    match replay {
        Some(start) => {
            walk.at.lsn = start.lsn;
            walk.at.end = start.previous_end;
            walk.at.checksum = Some(start.previous_checksum);
            walk.at.sequence = Some(start.sequence);
            walk.follow();
        }
        None => {
            walk.begin_at_durable(layout.id.chain_start());
            walk.follow();
            walk.gaps = walk.gaps_in_segments();
        }
    }
    Chain {
        replay: replay.map(|it| it.lsn),
        end: walk.at.end.max(walk.durable),
        taken: walk.taken,
        gaps: walk.gaps,
        fences,
    }
}

/// The highest durable position that a header of this epoch states.
fn stated_durable(scan: &Scan, epoch: u64) -> u64 {
    let headers = scan.headers.values().map(|it| (it.epoch, it.durable));
    let frames = scan.frames.iter();
    let frames = frames.map(|it| (it.header.epoch, it.header.durable));
    let all = headers.chain(frames).chain(scan.misplaced.iter().copied());
    let of_epoch = all.filter(|(of, _)| *of == epoch);
    of_epoch.map(|(_, durable)| durable).max().unwrap_or(0)
}

/// Where the log goes on.
#[derive(Debug, Clone, Copy)]
struct At {
    lsn: u64,
    /// Where the last frame ends.
    end: u64,
    /// The checksum of the last frame's header, if it is known.
    checksum: Option<u64>,
    /// The sequence number of the next commit, if it is known.
    sequence: Option<u64>,
    epoch: u64,
}

struct Walk<'a> {
    scan: &'a Scan,
    geometry: &'a Geometry,
    latest: u64,
    superblock: Option<Superblock>,
    /// Whole frames that are not cut off, by their positions.
    by_lsn: BTreeMap<u64, Vec<usize>>,
    /// Positions and sequence numbers of all commits, ascending.
    commits: Vec<(u64, u64)>,
    /// The highest position that anything states as durable.
    durable: u64,
    has_extents: &'a mut dyn FnMut(&Frame) -> bool,
    at: At,
    taken: BTreeSet<usize>,
    gaps: Vec<LogGap>,
}

impl<'a> Walk<'a> {
    fn frame(&self, number: usize) -> &'a Frame {
        let scan: &'a Scan = self.scan;
        &scan.frames[number]
    }

    /// Whether a frame there may be of this epoch.
    fn is_of_epoch(&self, lsn: u64, epoch: u64) -> bool {
        match &self.superblock {
            Some(it) if lsn >= it.epoch_start => epoch == it.epoch,
            Some(it) => epoch <= it.epoch && epoch >= self.at.epoch,
            None => epoch >= self.at.epoch,
        }
    }

    /// Goes from frame to frame until the log ends.
    fn follow(&mut self) {
        loop {
            if let Some(number) = self.next().or_else(|| self.next_segment()) {
                let frame = self.frame(number);
                let unproven = frame.end > self.durable && frame.header.has_extents;
                if unproven && !(self.has_extents)(frame) {
                    return;
                }
                self.take(number);
            } else if self.at.end >= self.durable || !self.skip() {
                return;
            }
        }
    }

    /// The frame that follows in the segment.
    fn next(&self) -> Option<usize> {
        let numbers = self.by_lsn.get(&self.at.lsn)?;
        let mut numbers = numbers.iter().copied();
        numbers.find(|number| self.is_tied(self.frame(*number)))
    }

    /// The first frame of the next segment, if its header says that the log goes on there.
    fn next_segment(&self) -> Option<usize> {
        let start = round_up(self.at.lsn, self.geometry.segment_bytes);
        let numbers = self.by_lsn.get(&(start + self.geometry.block_bytes))?;
        let mut numbers = numbers.iter().copied();
        numbers.find(|number| {
            let frame = self.frame(*number);
            let linked = self.header_of(frame).is_some_and(|header| {
                let checksum = self.at.checksum;
                header.previous_end == self.at.end
                    && checksum.is_none_or(|it| it == header.previous_checksum)
            });
            let is_damaged = self.at.checksum.is_some() && self.durable > self.at.end;
            self.is_tied(frame) && (linked || is_damaged)
        })
    }

    fn is_tied(&self, frame: &Frame) -> bool {
        let header = &frame.header;
        let checksum = self.at.checksum;
        checksum.is_none_or(|it| it == header.previous_checksum)
            && self.is_of_epoch(header.lsn, header.epoch)
    }

    /// The header of the segment that a frame is in.
    fn header_of(&self, frame: &Frame) -> Option<&SegmentHeader> {
        let logical = self.geometry.logical(frame.header.lsn);
        let header = self.scan.headers.get(&frame.physical);
        header.filter(|it| it.logical == logical)
    }

    fn take(&mut self, number: usize) {
        let frame = self.frame(number);
        let commits = self.scan.records[frame.records.clone()].iter();
        let commits = commits.filter(|record| record.is_commit).count() as u64;
        self.at = At {
            lsn: frame.end,
            end: frame.end,
            checksum: Some(frame.header.header_checksum),
            sequence: frame.header.first_sequence.checked_add(commits),
            epoch: frame.header.epoch,
        };
        self.durable = self.durable.max(frame.header.durable);
        self.taken.insert(number);
    }

    /// Goes on with the first whole frame behind a gap. False: there is none, and the gap ends the log.
    fn skip(&mut self) -> bool {
        let (from, durable) = (self.at.end, self.durable);
        // Nothing is near that lies further behind.
        let last = durable + 2 * self.geometry.segment_bytes;
        let behind = self
            .by_lsn
            .range(self.at.lsn + 1..last.max(self.at.lsn + 1));
        let mut behind = behind.flat_map(|(_, numbers)| numbers.iter().rev().copied());
        let next = behind.find(|number| {
            let frame = self.frame(*number);
            let header = &frame.header;
            let is_near = || {
                let header = self.header_of(frame);
                header.is_some_and(|it| it.previous_end == durable)
            };
            self.is_of_epoch(header.lsn, header.epoch) && (header.lsn <= durable || is_near())
        });
        let (to, sequence) = match next {
            Some(number) => {
                let header = &self.frame(number).header;
                (header.lsn, Some(header.first_sequence))
            }
            None => (durable, None),
        };
        let lost_commits = self.lost_between(from, to, self.at.sequence, sequence);
        self.gaps.push(LogGap {
            from,
            to,
            lost_commits,
        });
        match next {
            Some(number) => self.take(number),
            None => self.at.end = durable,
        }
        next.is_some()
    }

    /// How many commits a gap has whose records are not whole, where the sequence numbers around it are known.
    fn lost_between(
        &self,
        from: u64,
        to: u64,
        first: Option<u64>,
        next: Option<u64>,
    ) -> Option<u64> {
        let (first, next) = (first?, next?);
        let start = self.commits.partition_point(|(lsn, _)| *lsn < from);
        let inside = self.commits[start..].iter();
        let inside = inside.take_while(|(lsn, _)| *lsn < to);
        let inside = inside.map(|(_, sequence)| *sequence);
        let found: BTreeSet<u64> = inside.filter(|it| (first..next).contains(it)).collect();
        next.checked_sub(first)?.checked_sub(found.len() as u64)
    }

    /// Where no replay start is known, the log is followed from the highest durable position on, to find its end. If the latest epoch begins there in a segment of its own, another
    /// chain does.
    fn begin_at_durable(&mut self, chain_start: u64) {
        self.at.lsn = self.durable;
        self.at.end = self.durable;
        let mut headers = self.scan.headers.values();
        let begins = headers.any(|it| {
            it.epoch == self.latest
                && it.previous_end == self.durable
                && it.previous_checksum == chain_start
        });
        let mut frames = self.by_lsn.values().flatten();
        let last = frames.find(|number| self.frame(**number).end == self.durable);
        let last = last.map(|number| self.frame(*number).header.header_checksum);
        self.at.checksum = if begins { Some(chain_start) } else { last };
        self.at.epoch = self.latest;
    }

    /// Gaps between two frames of one segment, and behind the last one of a segment whose successor's header says where it ends.
    fn gaps_in_segments(&self) -> Vec<LogGap> {
        let mut frames: Vec<&Frame> = self
            .by_lsn
            .values()
            .flatten()
            .map(|it| self.frame(*it))
            .collect();
        frames.sort_by_key(|it| it.header.lsn);
        let mut newest: BTreeMap<u32, u64> = BTreeMap::new();
        for frame in &self.scan.frames {
            let logical = newest.entry(frame.physical).or_default();
            *logical = self.geometry.logical(frame.header.lsn).max(*logical);
        }
        frames.retain(|it| newest[&it.physical] == self.geometry.logical(it.header.lsn));
        let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
        for header in self.scan.headers.values() {
            ends.insert(header.logical.saturating_sub(1), header.previous_end);
        }
        let mut gaps = Vec::new();
        for (number, frame) in frames.iter().enumerate() {
            let logical = self.geometry.logical(frame.header.lsn);
            let commits = self.scan.records[frame.records.clone()].iter();
            let commits = commits.filter(|record| record.is_commit).count() as u64;
            let sequence = frame.header.first_sequence.checked_add(commits);
            let next = frames.get(number + 1);
            let next = next.filter(|it| self.geometry.logical(it.header.lsn) == logical);
            let (to, following) = match next {
                Some(next) => (next.header.lsn, Some(next.header.first_sequence)),
                None => (ends.get(&logical).copied().unwrap_or(frame.end), None),
            };
            if to > frame.end && self.geometry.logical(to - 1) == logical {
                gaps.push(LogGap {
                    from: frame.end,
                    to,
                    lost_commits: self.lost_between(frame.end, to, sequence, following),
                });
            }
        }
        gaps
    }
}

impl Chain {
    pub(super) fn counts(&self, scan: &Scan, seen: &Seen) -> Counts {
        let frame = seen.frame.map(|number| &scan.frames[number]);
        let epoch = frame.map(|it| it.header.epoch);
        if self.fences.is_cut(epoch, seen.lsn, seen.physical) {
            return Counts::Not;
        }
        if seen.lsn >= self.end {
            return if seen.is_commit {
                Counts::CutOff
            } else {
                Counts::Not
            };
        }
        if self.replay.is_none_or(|from| seen.lsn < from) {
            return Counts::As(Source::Stray);
        }
        let is_taken = seen
            .frame
            .is_some_and(|number| self.taken.contains(&number));
        let is_part = frame.is_none_or(|it| !it.is_whole);
        let behind = self.gaps.partition_point(|gap| gap.from <= seen.lsn);
        let gap = behind.checked_sub(1).map(|number| &self.gaps[number]);
        let in_gap = is_part && gap.is_some_and(|gap| seen.lsn < gap.to);
        match is_taken || in_gap {
            true if seen.is_commit => Counts::As(Source::Log),
            true => Counts::As(Source::Stray),
            false => Counts::Not,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::checksum::Identity;
    use crate::format::frame::FrameHeader;
    use crate::index::key::Key;
    use crate::index::place::Place;

    const SEGMENT: u64 = 65_536;

    fn header(physical: u32, logical: u64, epoch: u64, previous_checksum: u64) -> SegmentHeader {
        SegmentHeader {
            epoch,
            logical,
            physical,
            next: 0,
            previous_end: logical * SEGMENT,
            previous_checksum,
            durable: logical * SEGMENT,
        }
    }

    fn record(physical: u32, lsn: u64, sequence: u64, frame: Option<usize>) -> Seen {
        Seen {
            key: Key::new(b"key"),
            sequence,
            place: Place::Tombstone,
            is_commit: true,
            lsn,
            physical,
            frame,
        }
    }

    /// A whole frame with one record, whose number is that of the frame.
    fn frame(number: usize, physical: u32, at: std::ops::Range<u64>, header: FrameHeader) -> Frame {
        Frame {
            header: FrameHeader {
                lsn: at.start,
                ..header
            },
            end: at.end,
            physical,
            is_whole: true,
            records: number..number + 1,
        }
    }

    /// Goal: without a superblock, what a later epoch wrote to a segment of its own counts, and what it has cut off does not, even where no header of a frame tells the epoch. Method: a
    /// log whose last proven frame fills its segment; behind it the remains of a frame in the next segment, and the same part of the log anew.
    #[test]
    fn an_epoch_begins_in_a_segment_of_its_own() {
        let layout = Layout {
            id: Identity::new([1; 16]),
            geometry: Geometry {
                sector_bytes: 512,
                block_bytes: 4096,
                segment_bytes: SEGMENT,
            },
            segments: 8,
            superblock: None,
            damaged_copies: Vec::new(),
        };
        let (start, chain_start) = (3 * SEGMENT, layout.id.chain_start());
        let headers = [
            header(2, 2, 1, 70),
            header(4, 3, 1, 77),
            header(6, 3, 2, chain_start),
        ];
        let old = FrameHeader {
            epoch: 1,
            lsn: 0,
            body_bytes: 100,
            records: 1,
            first_sequence: 5,
            previous_checksum: 76,
            durable: start - 4096,
            has_extents: false,
            body_checksum: 0,
            header_checksum: 77,
        };
        let new = FrameHeader {
            epoch: 2,
            first_sequence: 6,
            previous_checksum: chain_start,
            durable: start,
            header_checksum: 78,
            ..old
        };
        let scanned = Scan {
            headers: headers.map(|it| (it.physical, it)).into(),
            frames: vec![
                frame(0, 2, start - 4096..start, old),
                frame(1, 6, start + 4096..start + 4 * 4096, new),
            ],
            records: vec![
                record(2, start - 4000, 5, Some(0)),
                record(6, start + 4200, 6, Some(1)),
                record(4, start + 9000, 7, None),
            ],
            ..Scan::default()
        };
        let log = chain(&scanned, &layout, &mut |_| true);
        let counts = scanned.records.iter().map(|it| log.counts(&scanned, it));
        let stray = Counts::As(Source::Stray);
        assert_eq!(counts.collect::<Vec<Counts>>(), [stray, stray, Counts::Not]);
        assert!(log.gaps.is_empty());
    }
}
