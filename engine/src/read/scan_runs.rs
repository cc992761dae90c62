//! Scans of keys that are not all in memory. What memory knows of them is taken down as the scan arrives; then a task joins it with what the runs of that moment have, a
//! few leaves at a time. Nothing of it comes into memory for others, and nobody waits for it.
//!
//! Invariants:
//! - a scan shows the state of its arrival: of a key that memory knew of then, what it knew; of any other, what the newest of the runs of then has. What has changed such a
//!   key since is newer than the scan;
//! - whatever the runs of its arrival refer to stays on the device until the scan is answered: it holds a pass;
//! - of what memory knows, no more is taken down than the scan can return.

use std::cmp::Ordering;

use crate::api::buffer::Shared;
use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::api::port::{Direction, RequestId, ScanRange};
use crate::checkpoint::leaf_reader::LeafReader;
use crate::checkpoint::merge::{Merge, Newest};
use crate::checkpoint::runs::{number_before, number_of};
use crate::core::Core;
use crate::format::damage::Mismatch;
use crate::format::to_usize;
use crate::index::entry::{decode, inline_value, is_deleted};
use crate::index::key::Key;
use crate::index::key_range::KeyRange;
use crate::index::place::{Place, Version};
use crate::mutant::{Mutant, mutant};
use crate::read::chosen::{Chosen, Elsewhere};
use crate::read::lookup::message_of;
use crate::read::state::{Held, Noted, Room, RunsScan};
use crate::read::waiting::start_of;
use crate::runtime::executor::Executor;
use crate::runtime::handle::Handle;

/// Leaves of each run that are read in one go.
const LEAVES_AT_ONCE_MAX: u64 = 64;

impl Core {
    /// Takes down what memory knows of the range.
    pub(super) fn begin_runs_scan(&mut self, id: RequestId, range: &ScanRange<'_>, at: u64) {
        let keys = KeyRange::new(start_of(range), range.end.map(Key::new));
        let left = (!keys.is_empty()).then_some(keys);
        let mut chosen = Vec::new();
        if let Some(KeyRange { from, end }) = &left {
            let mut room = Room::of(range);
            for (key, version) in self.index.known_at(from, end.as_ref(), range.direction, at) {
                chosen.push((key.clone(), version.cloned()));
                let value_bytes = version.map(|version| version.place.value_bytes());
                if value_bytes.is_some_and(|bytes| !room.take(key.bytes(), bytes)) {
                    break;
                }
            }
        }
        let noted = chosen.into_iter().map(|(key, version)| {
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
        let noted = noted.collect();
        let scan = RunsScan {
            id,
            at,
            direction: range.direction,
            left,
            room: Room::of(range),
            noted,
            partitions: self.runs.partitions.clone(),
            chosen: Chosen::default(),
            pass: self.segments.begin_pass(),
        };
        self.reads.joining += 1;
        self.reads.starting.push(scan);
        self.activity += 1;
    }

    /// Starts the tasks of scans that have arrived.
    pub(crate) fn start_runs_scans(&mut self, executor: &mut Executor, handle: &Handle) {
        for scan in self.reads.starting.drain(..) {
            self.activity += 1;
            executor.spawn(choose_entries(handle.clone(), scan));
        }
    }

    /// Where a value comes from that may have been replaced since.
    fn elsewhere_in_pass(
        &self,
        version: Version,
        value: Option<Shared>,
    ) -> Result<Elsewhere, Mismatch> {
        if let Some(value) = value {
            return Ok(Elsewhere::Memory(value));
        }
        let offsets = match &version.place {
            Place::Tombstone | Place::Inline(_) => Vec::new(),
            Place::Extent(pointer) => pointer.chunks.iter().map(|chunk| chunk.offset).collect(),
            Place::Log { lsn, .. } => match self.segments.offset_of_lsn_in_pass(*lsn) {
                Some(offset) => vec![offset],
                None => return Err(Mismatch::outside_log(*lsn)),
            },
        };
        let segments = Vec::new();
        Ok(Elsewhere::Device(version, Held { segments, offsets }))
    }
}

async fn choose_entries(handle: Handle, mut scan: RunsScan) {
    let result = scan.choose(&handle).await;
    handle.with(|core| {
        core.reached(CoveragePoint::ScanJoined);
        core.reads.joining -= 1;
        core.activity += 1;
        match result {
            Ok(more) => {
                core.read_slots(scan.id, scan.chosen.into_slots(), more, Some(scan.pass));
            }
            Err(error) => {
                core.end_pass(scan.pass);
                core.fail(scan.id, error.status(), message_of(&error));
            }
        }
    });
}

impl RunsScan {
    /// Chooses the entries. Whether there are more.
    async fn choose(&mut self, handle: &Handle) -> Result<bool, Error> {
        while let Some((number, part)) = self.next_part() {
            let partition = &self.partitions[number];
            let mut merge = Merge::default();
            if !partition.whole {
                let leaves = partition.leaves_between(&part.from, part.end.as_ref());
                let bytes = leaves.iter().map(|leaf| leaf.len as usize).sum();
                merge = Merge::with_room(bytes);
                let read = LeafReader::keeping(handle, leaves).each(|leaf, key, payload| {
                    if part.has(key) {
                        merge.push(leaf.offset, key, payload);
                    }
                    Ok(())
                });
                read.await?;
            }
            if handle.with(|core| self.take_part(core, &mut merge, &part))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The keys to look at next, and the partition that they lie in.
    fn next_part(&mut self) -> Option<(usize, KeyRange)> {
        let KeyRange { from, end } = self.left.take()?;
        match self.direction {
            Direction::Forward => {
                let number = number_of(&self.partitions, from.bytes())?;
                let last = self.partitions.get(number + 1);
                let last = last.map(|next| Key::new(&next.from));
                let few = self.partitions[number].end_of_leaves(&from, self.leaves_at_once(number));
                let until = few.into_iter().chain(last).chain(end.clone()).min();
                if until != end {
                    self.left = until.clone().map(|until| KeyRange::new(until, end));
                }
                Some((number, KeyRange::new(from, until)))
            }
            Direction::Reverse => {
                let number = number_before(&self.partitions, end.as_ref())?;
                let partition = &self.partitions[number];
                let first = Key::new(&partition.from).max(from.clone());
                let leaves = self.leaves_at_once(number);
                let since = partition.start_of_leaves(&first, end.as_ref(), leaves);
                let since = since.unwrap_or(first);
                if since > from {
                    self.left = Some(KeyRange::new(from, Some(since.clone())));
                }
                Some((number, KeyRange::new(since, end)))
            }
        }
    }

    /// About as many leaves as have what the scan may still return.
    fn leaves_at_once(&self, number: usize) -> usize {
        let in_one = self.partitions[number].keys_per_leaf().max(1);
        let all = 1 + self.room.entries as u64 / in_one;
        to_usize(all.min(LEAVES_AT_ONCE_MAX))
    }

    /// Takes the entries of a part. Whether there was no room for one.
    fn take_part(
        &mut self,
        core: &mut Core,
        merge: &mut Merge,
        part: &KeyRange,
    ) -> Result<bool, Error> {
        let mut runs: Vec<Newest<'_>> = merge.newest().collect();
        if self.direction == Direction::Reverse {
            runs.reverse();
        }
        let bytes = |it: &Newest<'_>| it.key.len() + it.payload.len();
        let few = runs.iter().take(self.room.entries);
        self.chosen.make_room(few.len(), few.map(bytes).sum());
        let mut runs = runs.into_iter().peekable();
        loop {
            let noted = self.noted.front().map(|it| &it.key);
            let noted = noted.filter(|key| part.has(key.bytes()));
            let order = match (noted, runs.peek()) {
                (None, None) => return Ok(false),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(noted), Some(run)) => {
                    let order = noted.bytes().cmp(run.key);
                    match self.direction {
                        Direction::Forward => order,
                        Direction::Reverse => order.reverse(),
                    }
                }
            };
            let run = match order {
                Ordering::Less => None,
                Ordering::Equal | Ordering::Greater => runs.next(),
            };
            let noted = match order {
                Ordering::Less | Ordering::Equal => self.noted.pop_front(),
                Ordering::Greater => None,
            };
            let took = match (noted, run) {
                (Some(noted), None) => self.take_noted(core, noted),
                (Some(noted), Some(_)) if !mutant(Mutant::ScanPrefersRuns) => {
                    self.take_noted(core, noted)
                }
                (_, Some(run)) => self
                    .take_run(core, &run)
                    .map_err(|mismatch| mismatch.at(run.offset))?,
                (None, None) => unreachable!("one of them was there"),
            };
            if !took {
                return Ok(true);
            }
        }
    }

    /// Takes what memory knew of a key, if it is to be shown. Whether there was room.
    fn take_noted(&mut self, core: &mut Core, noted: Noted) -> bool {
        let Some((version, value)) = noted.shown else {
            return true;
        };
        let key = noted.key.bytes();
        if !self.room.take(key, version.place.value_bytes()) {
            return false;
        }
        if let Place::Inline(value) = &version.place {
            self.chosen.push(key, value);
            return true;
        }
        let value = core.elsewhere_in_pass(version, value);
        let value = value.expect("what memory knew of stays during the pass");
        self.chosen.push_elsewhere(key, value);
        true
    }

    /// The same for what a run has of a key that memory did not know of.
    fn take_run(&mut self, core: &mut Core, run: &Newest<'_>) -> Result<bool, Mismatch> {
        if is_deleted(run.payload) {
            return Ok(true);
        }
        if let Some((sequence, value)) = inline_value(run.payload) {
            if sequence > self.at {
                return Ok(true);
            }
            if !self.room.take(run.key, value.len()) {
                return Ok(false);
            }
            self.chosen.push(run.key, value);
            return Ok(true);
        }
        let version = decode(&core.geometry, core.segments.count(), run.payload)?;
        if version.sequence > self.at {
            return Ok(true);
        }
        if !self.room.take(run.key, version.place.value_bytes()) {
            return Ok(false);
        }
        let value = core.in_memory(&version.place);
        let value = core.elsewhere_in_pass(version, value)?;
        self.chosen.push_elsewhere(run.key, value);
        Ok(true)
    }
}
