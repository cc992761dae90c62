//! Which segment of the device is used for what, and how many live bytes it holds.
//!
//! Invariants:
//! - a segment is handed out only while it is free, and becomes free only by `free`. The checkpoint calls `free` after
//!   every superblock copy that could refer to the segment has been replaced; `gc/log_free.rs` calls it when the log is
//!   proven to say so;
//! - a segment with readers is not handed out: it waits until the last of them is done, and until the passes have ended that were open when it was freed (`passes.rs`);
//! - live bytes are exact: of the log, the records the index points to; of extents, the whole blocks of their chunks;
//! - residents are a superset of the entries whose newest version lies in a segment of the log, but for entries that were not in memory meanwhile, and for old segments where there
//!   would be too many in all. Code that goes through them has to ask the index whether they still do.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::Geometry;
use crate::index::table::Slot;
use crate::mutant::{Mutant, mutant};
use crate::segments::passes::{Pass, Passes};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Free,
    /// Not referred to any more, but still being read.
    Draining,
    /// Part of the log, or reserved to be its next.
    Log,
    Extent,
    Page,
}

#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) used_as: Use,
    /// For a log segment that was entered: its number; else 0.
    pub(crate) logical: u64,
    pub(crate) live_bytes: u64,
    /// Bytes written so far, header included.
    pub(crate) end: u32,
    /// Reads in flight.
    pub(crate) readers: u32,
    /// It was freed during a pass.
    awaits_pass: bool,
    /// Damage was met in it: it is never collected, and freed only when nothing in it is live.
    pub(crate) damaged: bool,
    /// The checkpoint under way will free it.
    pub(crate) free_pending: bool,
    /// A record of the log says that it is free.
    pub(crate) leaving: bool,
    /// Where the record is that gave it back when it was used before; 0 if none did.
    log_freed_at: u64,
    /// Numbers of the index entries whose newest versions were put here, in the order of their positions.
    residents: Vec<Slot>,
}

impl Segment {
    fn new(used_as: Use) -> Segment {
        Segment {
            used_as,
            logical: 0,
            live_bytes: 0,
            end: 0,
            readers: 0,
            awaits_pass: false,
            damaged: false,
            free_pending: false,
            leaving: false,
            log_freed_at: 0,
            residents: Vec::new(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Segments {
    pub(crate) geometry: Geometry,
    list: Vec<Segment>,
    free: BTreeSet<u32>,
    /// Free as well, but only the log says so.
    log_freed: BTreeSet<u32>,
    /// The durable position that the superblock states.
    stated: u64,
    /// Whether segments freed through the log may be used, which an opening must not: what proves its view of the log may vanish with it.
    uses_log_freed: bool,
    /// Whether everything that is live was counted, which an opening may leave for later. Until then nothing is dead.
    counted: bool,
    /// Log segments by their number.
    pub(crate) log: BTreeMap<u64, u32>,
    /// The one entered last and its number: most questions are about that.
    entered: Option<(u64, u32)>,
    passes: Passes,
    /// Those that are being read and free otherwise.
    draining: u64,
    /// Residents of all segments.
    residents: usize,
    /// No more of them are kept: those of the oldest segments leave first.
    residents_max: usize,
    pub(crate) live_log_bytes: u64,
    pub(crate) live_extent_bytes: u64,
    /// Grows whenever a segment changes its use, or comes to hold something live or nothing any more.
    pub(crate) changes: u64,
}

impl Segments {
    pub(crate) fn new(geometry: Geometry, count: u32) -> Segments {
        let mut segments = Segments {
            geometry,
            list: Vec::new(),
            free: BTreeSet::new(),
            log_freed: BTreeSet::new(),
            stated: 0,
            uses_log_freed: false,
            counted: true,
            log: BTreeMap::new(),
            entered: None,
            passes: Passes::default(),
            draining: 0,
            residents: 0,
            residents_max: usize::MAX,
            live_log_bytes: 0,
            live_extent_bytes: 0,
            changes: 0,
        };
        segments.extend(count);
        segments
    }

    /// The device has grown.
    pub(crate) fn extend(&mut self, count: u32) {
        let new = self.count()..count;
        self.list
            .resize_with(self.list.len() + new.len(), || Segment::new(Use::Free));
        // Built at once, which is quicker than one by one.
        self.free.append(&mut new.collect());
    }

    pub(crate) fn count(&self) -> u32 {
        crate::format::len32(self.list.len())
    }

    pub(crate) fn free_count(&self) -> u64 {
        (self.free.len() + self.log_freed.len()) as u64
    }

    /// How many will be free when those are done who read them.
    pub(crate) fn draining_count(&self) -> u64 {
        self.draining
    }

    /// How many can be taken now: an opening cannot use those that only the log says are free.
    pub(crate) fn allocatable_count(&self) -> u64 {
        match self.uses_log_freed {
            true => self.free_count(),
            false => self.lasting_count(),
        }
    }

    /// How many may be taken so that so many are left for an opening after a crash; `None`: there are fewer now.
    pub(crate) fn free_above(&self, floor: u64) -> Option<u64> {
        let lasting = self.lasting_count().checked_sub(floor)?;
        Some(lasting + self.log_freed.len() as u64)
    }

    /// How many are free for an opening after a crash too.
    pub(crate) fn lasting_count(&self) -> u64 {
        self.free.len() as u64
    }

    /// How many are free that an opening could not use yet.
    pub(crate) fn log_freed_count(&self) -> u64 {
        self.log_freed.len() as u64
    }

    /// A superblock that states this durable position is durable: an opening can rely on all that the log says before it.
    pub(crate) fn state(&mut self, durable: u64) {
        self.stated = self.stated.max(durable);
        let (list, stated) = (&self.list, self.stated);
        let lasting = |it: &u32| list[*it as usize].log_freed_at < stated;
        self.free.extend(self.log_freed.extract_if(.., lasting));
        self.changes += 1;
    }

    /// Whether everything that is live is counted, or that is still to come.
    pub(crate) fn set_counted(&mut self, counted: bool) {
        self.counted = counted;
        self.changes += 1;
    }

    /// The opening is over.
    pub(crate) fn use_log_freed(&mut self) {
        self.uses_log_freed = true;
    }

    fn put_back(&mut self, physical: u32) {
        let segment = &mut self.list[physical as usize];
        segment.used_as = Use::Free;
        if segment.log_freed_at == 0 || segment.log_freed_at < self.stated {
            self.free.insert(physical);
        } else {
            self.log_freed.insert(physical);
        }
    }

    fn take(&mut self, physical: u32, used_as: Use) {
        self.changes += 1;
        let segment = &mut self.list[physical as usize];
        let log_freed_at = segment.log_freed_at;
        // Its memory serves again.
        let mut residents = std::mem::take(&mut segment.residents);
        self.residents -= residents.len();
        residents.clear();
        *segment = Segment {
            log_freed_at,
            residents,
            ..Segment::new(used_as)
        };
    }

    pub(crate) fn get(&self, physical: u32) -> &Segment {
        &self.list[physical as usize]
    }

    pub(crate) fn get_mut(&mut self, physical: u32) -> &mut Segment {
        self.changes += 1;
        &mut self.list[physical as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Segment)> {
        (0..).zip(self.list.iter())
    }

    /// The lowest free segment: a device that is used little stays small. Released ones come first: an opening may need the others.
    pub(crate) fn allocate(&mut self, used_as: Use) -> Option<u32> {
        let log_freed = self.log_freed.first().filter(|_| self.uses_log_freed);
        let physical = *log_freed.or_else(|| self.free.first())?;
        self.claim(physical, used_as);
        Some(physical)
    }

    /// Those that nothing uses, from one on.
    pub(crate) fn free_from(&self, physical: u32) -> impl Iterator<Item = u32> {
        let all = self.iter().skip(physical as usize);
        all.filter_map(|(at, segment)| (segment.used_as == Use::Free).then_some(at))
    }

    /// Those of them that only the log says are free, which are used first.
    pub(crate) fn log_freed(&self) -> impl Iterator<Item = u32> {
        self.log_freed.iter().copied()
    }

    /// Marks a particular segment as used. False if it is used as something else.
    pub(crate) fn claim(&mut self, physical: u32, used_as: Use) -> bool {
        if self.free.remove(&physical) || self.log_freed.remove(&physical) {
            self.take(physical, used_as);
        }
        self.list[physical as usize].used_as == used_as
    }

    /// Gives a reserved segment its number in the log.
    pub(crate) fn enter_log(&mut self, logical: u64, physical: u32) {
        let segment = self.get_mut(physical);
        assert_eq!(
            segment.used_as,
            Use::Log,
            "only a reserved segment is entered"
        );
        segment.logical = logical;
        self.log.insert(logical, physical);
        self.entered = Some((logical, physical));
    }

    /// Nothing durable refers to it any more.
    pub(crate) fn free(&mut self, physical: u32) {
        self.changes += 1;
        let segment = &mut self.list[physical as usize];
        assert_eq!(
            segment.live_bytes, 0,
            "segment {physical} is freed with live bytes"
        );
        assert!(
            !matches!(segment.used_as, Use::Free | Use::Draining),
            "segment {physical} is freed twice"
        );
        let logical =
            (segment.used_as == Use::Log && segment.logical != 0).then_some(segment.logical);
        if let Some(logical) = logical {
            self.log.remove(&logical);
            self.entered = self.entered.filter(|(_, it)| *it != physical);
        }
        segment.awaits_pass =
            !mutant(Mutant::ScanHoldsNothing) && self.passes.hold(physical, logical);
        if segment.readers > 0 || segment.awaits_pass {
            segment.used_as = Use::Draining;
            segment.leaving = false;
            self.draining += 1;
        } else {
            self.put_back(physical);
        }
    }

    /// From now on whatever is freed stays as it is until the pass has ended.
    pub(crate) fn begin_pass(&mut self) -> Pass {
        self.passes.begin()
    }

    pub(crate) fn end_pass(&mut self, pass: Pass) {
        for physical in self.passes.end(pass) {
            let segment = &mut self.list[physical as usize];
            segment.awaits_pass = false;
            self.passes.let_go(segment.logical);
            self.end_draining(physical);
        }
    }

    /// It is free if nobody reads it any more.
    fn end_draining(&mut self, physical: u32) {
        let segment = &self.list[physical as usize];
        let is_read = segment.readers > 0 || segment.awaits_pass;
        if segment.used_as == Use::Draining && !is_read && !mutant(Mutant::DrainedSegmentKept) {
            self.changes += 1;
            self.draining -= 1;
            self.put_back(physical);
        }
    }

    /// No checkpoint will free what it was to free.
    pub(crate) fn cancel_pending_frees(&mut self) {
        self.list.iter_mut().for_each(|it| it.free_pending = false);
        self.changes += 1;
    }

    /// Frees all pages, without asking what still refers to them.
    pub(crate) fn free_pages(&mut self) {
        let pages = self.dead(Use::Page).map(|(physical, _)| physical);
        for physical in pages.collect::<Vec<u32>>() {
            self.free(physical);
        }
    }

    /// A read changes nothing that anybody counts segments by.
    pub(crate) fn add_reader(&mut self, physical: u32) {
        self.list[physical as usize].readers += 1;
    }

    /// The segment is written up to there, which changes nothing that anybody counts segments by either.
    pub(crate) fn set_end(&mut self, physical: u32, end: u32) {
        self.list[physical as usize].end = end;
    }

    pub(crate) fn remove_reader(&mut self, physical: u32) {
        let segment = &mut self.list[physical as usize];
        segment.readers = segment
            .readers
            .checked_sub(1)
            .expect("a reader leaves once");
        self.end_draining(physical);
    }

    pub(crate) fn add_live(&mut self, physical: u32, bytes: u64) {
        let segment = &mut self.list[physical as usize];
        self.changes += u64::from(segment.live_bytes == 0);
        segment.live_bytes += bytes;
        match segment.used_as {
            Use::Log => self.live_log_bytes += bytes,
            Use::Extent => self.live_extent_bytes += bytes,
            other => panic!("live bytes in a segment used as {other:?}"),
        }
    }

    pub(crate) fn remove_live(&mut self, physical: u32, bytes: u64) {
        let segment = &mut self.list[physical as usize];
        segment.live_bytes = segment
            .live_bytes
            .checked_sub(bytes)
            .expect("what dies was alive");
        self.changes += u64::from(segment.live_bytes == 0);
        match segment.used_as {
            Use::Log => self.live_log_bytes -= bytes,
            Use::Extent => self.live_extent_bytes -= bytes,
            other => panic!("live bytes in a segment used as {other:?}"),
        }
    }

    /// The newest version of this entry of the index was put at this position of the log.
    pub(crate) fn note_resident(&mut self, lsn: u64, slot: Slot) {
        let physical = self.of_lsn(lsn).expect("the log reaches there");
        self.list[physical as usize].residents.push(slot);
        self.residents += 1;
        if self.residents > self.residents_max {
            self.drop_residents();
        }
    }

    /// Keeps no more residents than that.
    pub(crate) fn keep_residents(&mut self, residents_max: usize) {
        self.residents_max = residents_max;
    }

    /// Forgets the residents of the oldest segment of the log that has some. Collecting it will walk through its records.
    fn drop_residents(&mut self) {
        for physical in self.log.values() {
            let residents = std::mem::take(&mut self.list[*physical as usize].residents);
            self.residents -= residents.len();
            if !residents.is_empty() {
                return;
            }
        }
    }

    /// See the invariants.
    pub(crate) fn residents(&self, physical: u32) -> &[Slot] {
        &self.list[physical as usize].residents
    }

    /// The physical segment of a position in the log.
    pub(crate) fn of_lsn(&self, lsn: u64) -> Option<u32> {
        let logical = self.geometry.logical(lsn);
        match self.entered {
            Some((entered, physical)) if entered == logical => Some(physical),
            _ => self.log.get(&logical).copied(),
        }
    }

    /// The device offset of a position in the log.
    pub(crate) fn offset_of_lsn(&self, lsn: u64) -> Option<u64> {
        Some(self.geometry.segment_offset(self.of_lsn(lsn)?) + self.geometry.within(lsn))
    }

    /// The same for a reader that began before its segment was freed.
    pub(crate) fn offset_of_lsn_in_pass(&self, lsn: u64) -> Option<u64> {
        let freed = || self.passes.of_log(self.geometry.logical(lsn));
        let physical = self.of_lsn(lsn).or_else(freed)?;
        Some(self.geometry.segment_offset(physical) + self.geometry.within(lsn))
    }

    /// Forgets log segments from a number on, at a cut.
    pub(crate) fn cut_log(&mut self, from_logical: u64) {
        self.entered = None;
        let cut: Vec<u32> = self.log.split_off(&from_logical).into_values().collect();
        for physical in cut {
            self.get_mut(physical).logical = 0;
            self.free(physical);
        }
    }

    /// Gives a log segment back that the record at `lsn` releases.
    pub(crate) fn free_logged(&mut self, physical: u32, lsn: u64) {
        self.list[physical as usize].log_freed_at = lsn;
        self.free(physical);
    }

    /// Segments of a kind that hold nothing live and are not on their way to be free.
    pub(crate) fn dead(&self, used_as: Use) -> impl Iterator<Item = (u32, &Segment)> {
        let known = self.counted || used_as == Use::Page || mutant(Mutant::FreedBeforeCounted);
        let dead =
            move |it: &Segment| known && it.used_as == used_as && it.live_bytes == 0 && !it.leaving;
        self.iter().filter(move |(_, segment)| dead(segment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry = Geometry {
        sector_bytes: 512,
        block_bytes: 4096,
        segment_bytes: 65_536,
    };

    /// Goal: the lists of residents take no more memory than they may; the oldest segment's leaves first. Method: three segments of the log, a bound of four, and one more.
    #[test]
    fn residents_of_the_oldest_segment_leave() {
        let mut segments = Segments::new(GEOMETRY, 3);
        for physical in 0..3 {
            assert!(segments.claim(physical, Use::Log));
            segments.enter_log(u64::from(physical) + 1, physical);
        }
        segments.keep_residents(4);
        for (number, slot) in [(1, 7), (1, 8), (2, 9), (3, 10)] {
            segments.note_resident(number * 65_536, slot);
        }
        assert_eq!(segments.residents(0), [7, 8]);
        segments.note_resident(3 * 65_536, 11);
        let residents = [0, 1, 2].map(|physical| segments.residents(physical).len());
        assert_eq!(residents, [0, 1, 2]);
        segments.note_resident(3 * 65_536, 12);
        segments.note_resident(3 * 65_536, 13);
        let residents = [0, 1, 2].map(|physical| segments.residents(physical).len());
        assert_eq!(residents, [0, 0, 4]);
    }

    /// Goal: what an opening may not use yet does not count as what it can take. Method: a segment that a record of the log gave back behind what the
    /// superblock states, before and after the opening.
    #[test]
    fn what_only_the_log_gave_back_cannot_be_taken_by_an_opening() {
        let mut segments = Segments::new(GEOMETRY, 1);
        assert!(segments.claim(0, Use::Log));
        segments.enter_log(1, 0);
        segments.state(65_536);
        segments.free_logged(0, 70_000);
        assert_eq!(
            (segments.free_count(), segments.allocatable_count()),
            (1, 0)
        );
        assert_eq!(segments.allocate(Use::Log), None);
        segments.use_log_freed();
        assert_eq!(segments.allocatable_count(), 1);
        assert_eq!(segments.allocate(Use::Log), Some(0));
    }

    /// Goal: a read, or a frame behind others, does not make anybody go through all segments again. Method: what tells that something changed, and a
    /// segment that becomes free as its last reader leaves.
    #[test]
    fn a_read_changes_no_count() {
        let mut segments = Segments::new(GEOMETRY, 2);
        assert!(segments.claim(0, Use::Extent));
        let before = segments.changes;
        segments.add_reader(0);
        segments.set_end(0, 4096);
        segments.remove_reader(0);
        assert_eq!(segments.changes, before);
        segments.add_reader(0);
        segments.free(0);
        assert_eq!(segments.free_count(), 1);
        let before = segments.changes;
        segments.remove_reader(0);
        assert_eq!(segments.free_count(), 2);
        assert!(segments.changes > before, "one more is free");
    }
}
