//! Scans of keys that are not all in memory, done by a task of the engine: it reads the leaves that have them, a few at a time, and has them joined with what memory knew
//! as the scan arrived (`join.rs`). Nothing of it comes into memory for others, and nobody waits for it.
//!
//! Invariant: whatever the runs of its arrival refer to stays on the device until the scan is answered: it holds a pass.

use std::collections::VecDeque;

use crate::api::buffer::Shared;
use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::api::port::{RequestId, ScanRange};
use crate::checkpoint::leaf_reader::LeafReader;
use crate::core::{Core, live_bytes};
use crate::format::damage::Mismatch;
use crate::format::frame;
use crate::index::key::Key;
use crate::index::key_range::KeyRange;
use crate::index::place::{Place, Version};
use crate::read::chosen::{Chosen, Elsewhere};
use crate::read::join::{Asked, Next, Noted, RunsScan};
use crate::read::lookup::message_of;
use crate::read::state::{Held, Room, Slot};
use crate::read::waiting::start_of;
use crate::runtime::executor::Executor;
use crate::runtime::handle::Handle;
use crate::segments::passes::Pass;

impl Core {
    /// Takes down what memory knows of the range. `few`: where the leaves that are read first probably have all that the scan can return, no more than what memory knows of these
    /// keys; such a scan may have to begin anew.
    pub(super) fn note_range(&mut self, range: &ScanRange<'_>, at: u64, few: bool) -> RunsScan {
        let asked = Asked {
            keys: KeyRange::new(start_of(range), range.end.map(Key::new)),
            direction: range.direction,
            room: Room::of(range),
            at,
        };
        self.note(asked, few)
    }

    /// Begins a scan anew that had to look further than was taken down: what memory knew of that then nobody can tell any more. Now all is taken down.
    pub(super) fn note_again(&mut self, scan: &mut RunsScan) {
        let whole = self.note(scan.asked().clone(), false);
        self.forget_scan(std::mem::replace(scan, whole));
    }

    fn note(&mut self, asked: Asked, few: bool) -> RunsScan {
        self.reads.joining += 1;
        self.activity += 1;
        let partitions = self.runs.partitions.clone();
        let segments = self.segments.count();
        let pass = self.segments.begin_pass();
        let mut scan = RunsScan::new(asked, partitions, self.id, self.geometry, segments, pass);
        if let Some(keys) = scan.keys_to_note(few).cloned() {
            let noted = self.known_of(scan.asked(), &keys);
            scan.note(noted);
        }
        scan
    }

    /// What memory knows of these keys, but no more than the scan can return.
    fn known_of(&mut self, asked: &Asked, keys: &KeyRange) -> VecDeque<Noted> {
        let Asked {
            direction,
            mut room,
            at,
            ..
        } = *asked;
        let mut known = Vec::new();
        let (from, end) = (&keys.from, keys.end.as_ref());
        for (key, version) in self.index.known_at(from, end, direction, at) {
            known.push((key.clone(), version.cloned()));
            let value_bytes = version.map(|version| version.place.value_bytes());
            if value_bytes.is_some_and(|bytes| !room.take(key.bytes(), bytes)) {
                break;
            }
        }
        let noted = known.into_iter().map(|(key, version)| {
            let shown = version.map(|version| {
                let value = match version.place {
                    Place::Inline(_) => None,
                    // A write may change a record in place that the log still has in memory.
                    _ => self.in_memory(&version.place),
                };
                (version, value)
            });
            Noted { key, shown }
        });
        noted.collect()
    }

    /// A scan has arrived. It shows this moment, however far it has to look.
    pub(super) fn begin_runs_scan(&mut self, id: RequestId, range: &ScanRange<'_>, at: u64) {
        let scan = self.note_range(range, at, false);
        self.reads.starting.push((id, scan));
    }

    /// Starts the tasks of scans that have arrived.
    pub(crate) fn start_runs_scans(&mut self, executor: &mut Executor, handle: &Handle) {
        for (id, scan) in self.reads.starting.drain(..) {
            self.activity += 1;
            executor.spawn(choose_entries(handle.clone(), id, scan));
        }
    }

    /// The entries are chosen, and there are more or not; or it has failed. Reads the values that are still to be read, and then answers.
    fn end_runs_scan(&mut self, id: RequestId, scan: RunsScan, result: Result<bool, Error>) {
        let (mut chosen, pass) = scan.into_chosen();
        let slots = result.and_then(|more| {
            self.place_chosen(&mut chosen)?;
            Ok((chosen.into_slots(), more))
        });
        self.answer_scan(id, pass, slots);
    }

    /// The same once it is known where the values are.
    pub(super) fn answer_scan(
        &mut self,
        id: RequestId,
        pass: Pass,
        slots: Result<(Vec<Slot>, bool), Error>,
    ) {
        self.reached(CoveragePoint::ScanJoined);
        self.reads.joining -= 1;
        self.activity += 1;
        match slots {
            Ok((slots, more)) => self.read_slots(id, slots, more, Some(pass)),
            Err(error) => {
                self.end_pass(pass);
                self.fail(id, error.status(), message_of(&error));
            }
        }
    }

    /// Nobody waits for it any more.
    pub(super) fn forget_scan(&mut self, scan: RunsScan) {
        self.reads.joining -= 1;
        let (_, pass) = scan.into_chosen();
        self.end_pass(pass);
    }

    /// Says of each value that is not in the index where it comes from.
    pub(super) fn place_chosen(&mut self, chosen: &mut Chosen) -> Result<(), Error> {
        chosen.place_each(|key, value| match value {
            Elsewhere::Noted(version, value) => {
                let place = self.elsewhere_in_pass(key, version, value);
                Ok(place.expect("what memory knew of stays during the pass"))
            }
            Elsewhere::Run(version, offset) => {
                let value = self.in_memory(&version.place);
                let place = self.elsewhere_in_pass(key, version, value);
                Ok(place.map_err(|mismatch| mismatch.at(offset))?)
            }
            placed => Ok(placed),
        })
    }

    /// Where a value comes from that may have been replaced since.
    fn elsewhere_in_pass(
        &self,
        key: &[u8],
        version: Version,
        value: Option<Shared>,
    ) -> Result<Elsewhere, Mismatch> {
        if let Some(value) = value {
            return Ok(Elsewhere::Memory(value));
        }
        let offsets = match &version.place {
            Place::Tombstone | Place::Inline(_) => Vec::new(),
            Place::Extent(pointer) => pointer.chunks.iter().map(|chunk| chunk.offset).collect(),
            Place::Log {
                lsn, value_bytes, ..
            } => {
                // It may be of a leaf that was not read as the index was loaded.
                let bytes = live_bytes(key, *value_bytes);
                frame::check_record_place(&self.geometry, *lsn, bytes)?;
                let offset = self.segments.offset_of_lsn_in_pass(*lsn);
                vec![offset.ok_or(Mismatch::outside_log(*lsn))?]
            }
        };
        let segments = Vec::new();
        Ok(Elsewhere::Device(version, Held { segments, offsets }))
    }
}

async fn choose_entries(handle: Handle, id: RequestId, mut scan: RunsScan) {
    let result = choose(&handle, &mut scan).await;
    handle.with(|core| core.end_runs_scan(id, scan, result));
}

/// Chooses the entries. Whether there are more.
async fn choose(handle: &Handle, scan: &mut RunsScan) -> Result<bool, Error> {
    loop {
        let leaves = match scan.begin_part() {
            Next::Leaves(leaves) => leaves,
            Next::Again => unreachable!("all that memory knew was taken down"),
            Next::End => return Ok(false),
        };
        let read = LeafReader::keeping(handle, leaves)
            .each_leaf(|leaf, bytes| scan.take_leaf(leaf, bytes));
        read.await?;
        if scan.end_part()? {
            return Ok(true);
        }
    }
}
