//! Range scans both ways: the entries are chosen when the scan arrives, and their values are read with several reads in
//! flight.
//!
//! Where a part of the range's index is not in memory, the entries are chosen by a task (`scan_runs.rs`).
//!
//! Invariants: a scan shows one point in the order of commits, that of its arrival (or of its snapshot). Every place it
//! will read is held from the start. The request's own limits bound its memory.

use crate::api::port::{Reply, RequestId, ScanRange};
use crate::core::Core;
use crate::index::key::Key;
use crate::index::place::{Place, Version};
use crate::read::chosen::{Chosen, Elsewhere};
use crate::read::state::{Room, Scan, Sink, Slot, ValueResult};
use crate::runtime::request::Verdict;
use crate::segments::passes::Pass;

/// Values that a scan reads at the same time.
const READS_IN_FLIGHT_MAX: usize = 64;
/// Further ones are begun when no more than so many are left, so that those that lie near each other are read together.
const READS_IN_FLIGHT_FEW: usize = READS_IN_FLIGHT_MAX / 2;

impl Core {
    pub(crate) fn scan(&mut self, id: RequestId, range: &ScanRange<'_>) -> Verdict {
        let at = match self.sequence_of(range.snapshot) {
            Ok(at) => at,
            Err(refused) => return refused,
        };
        if !self.has_all_in_memory(range) {
            self.begin_runs_scan(id, range, at);
            return Verdict::Taken;
        }
        let mut versions: Vec<(Box<[u8]>, Version)> = Vec::new();
        let more = self.walk(range, at, |key, version| {
            versions.push((key.into(), version.clone()));
        });
        let mut chosen = Chosen::default();
        for (key, version) in versions {
            if let Place::Inline(value) = &version.place {
                chosen.push(&key, value);
                continue;
            }
            let value = match self.in_memory(&version.place) {
                Some(value) => Elsewhere::Memory(value),
                None => {
                    let held = self.hold_place(&version.place);
                    Elsewhere::Device(version, held)
                }
            };
            chosen.push_elsewhere(&key, value);
        }
        self.read_slots(id, chosen.into_slots(), more, None);
        Verdict::Taken
    }

    /// Reads the values that are not there, and then answers.
    pub(super) fn read_slots(
        &mut self,
        id: RequestId,
        slots: Vec<Slot>,
        more: bool,
        pass: Option<Pass>,
    ) {
        let scan = self.reads.next_scan;
        self.reads.next_scan += 1;
        self.reads.scans.insert(
            scan,
            Scan {
                id,
                slots,
                next: 0,
                outstanding: 0,
                more,
                failed: None,
                pass,
            },
        );
        self.continue_scan(scan);
    }

    /// Whether memory has every entry of the range.
    pub(super) fn has_all_in_memory(&self, range: &ScanRange<'_>) -> bool {
        self.runs.are_whole() || {
            let start = Key::new(range.start.unwrap_or_default());
            let end = range.end.map(Key::new);
            self.runs.are_whole_between(&start, end.as_ref())
        }
    }

    /// Goes through the entries that a scan returns; true if there are more within the bounds.
    pub(crate) fn walk(
        &self,
        range: &ScanRange<'_>,
        at: u64,
        mut take: impl FnMut(&[u8], &Version),
    ) -> bool {
        let mut room = Room::of(range);
        for (key, version) in self
            .index
            .range(range.start, range.end, range.direction, at)
        {
            if !room.take(key, version.place.value_bytes()) {
                return true;
            }
            take(key, version);
        }
        false
    }

    /// Starts as many reads as may be in flight, and answers when all are done.
    fn continue_scan(&mut self, id: u64) {
        let mut scan = self
            .reads
            .scans
            .remove(&id)
            .expect("a scan stays until it is answered");
        let begins = scan.outstanding <= READS_IN_FLIGHT_FEW;
        while begins && scan.next < scan.slots.len() && scan.outstanding < READS_IN_FLIGHT_MAX {
            let at = scan.next;
            scan.next += 1;
            if let Some((version, held)) = scan.slots[at].unread.take() {
                scan.outstanding += 1;
                self.start_read(
                    Sink::Scan { scan: id, slot: at },
                    &scan.slots[at].key,
                    &version,
                    held,
                );
            }
        }
        self.submit_wanted();
        if scan.outstanding > 0 {
            self.reads.scans.insert(id, scan);
            return;
        }
        if let Some(pass) = scan.pass {
            self.end_pass(pass);
        }
        match scan.failed {
            Some((status, message)) => self.fail(scan.id, status, message),
            None => {
                let entries = scan.slots.into_iter().map(Slot::into_entry).collect();
                self.reply(
                    scan.id,
                    Reply::Entries {
                        entries,
                        more: scan.more,
                    },
                );
            }
        }
    }

    /// A slot's value has come, or not.
    pub(crate) fn scan_value(&mut self, id: u64, slot: usize, result: ValueResult) {
        let scan = self
            .reads
            .scans
            .get_mut(&id)
            .expect("a scan stays until it is answered");
        scan.outstanding -= 1;
        match result {
            Ok(value) => scan.slots[slot].value = Some(value),
            Err(failure) => {
                scan.failed.get_or_insert(failure);
            }
        }
        self.continue_scan(id);
    }
}
