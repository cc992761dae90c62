//! Choosing the entries of a scan whose part of the index is not all in memory: what memory knew of them is joined with what the runs have. There is no reading here and no
//! engine: whoever does the scan brings the leaves, which is a task of the engine, or a thread that asked for the scan.
//!
//! Invariants:
//! - a scan shows the state of one moment, that of its arrival, or a later one if it is done outside the engine and began anew: of a key that memory knew of then, what it knew; of any other, what the
//!   newest of the runs of then has. What has changed such a key since is newer than the scan;
//! - of what memory knows, no more is taken down than the scan can return.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::api::buffer::Shared;
use crate::api::error::Error;
use crate::api::port::Direction;
use crate::checkpoint::merge::{Merge, Newest};
use crate::checkpoint::runs::{Partition, number_before, number_of};
use crate::format::checksum::Identity;
use crate::format::damage::Mismatch;
use crate::format::page::{Page, PageRef, Tree};
use crate::format::{Geometry, to_usize};
use crate::index::entry::{decode, inline_value, is_deleted};
use crate::index::key::Key;
use crate::index::key_range::KeyRange;
use crate::index::place::{Place, Version};
use crate::mutant::{Mutant, mutant};
use crate::read::chosen::{Chosen, Elsewhere};
use crate::read::state::Room;
use crate::segments::passes::Pass;

/// Leaves of each run that are read in one go.
const LEAVES_AT_ONCE_MAX: u64 = 64;

/// What memory knew of a key: the version to show, and its value if that is in memory and not in the index; `None` if there is nothing to show.
#[derive(Debug)]
pub(super) struct Noted {
    pub(super) key: Key,
    pub(super) shown: Option<(Version, Option<Shared>)>,
}

/// What a scan asks for.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) keys: KeyRange,
    pub(super) direction: Direction,
    pub(super) room: Room,
    /// The sequence that it reads at.
    pub(super) at: u64,
}

/// A scan whose entries are still being chosen.
#[derive(Debug)]
pub(crate) struct RunsScan {
    asked: Asked,
    /// The keys that were not looked at yet; `None`: there are none.
    left: Option<KeyRange>,
    room: Room,
    /// In the scan's direction.
    noted: VecDeque<Noted>,
    /// The first part, if no more than that was taken down.
    first: Option<Part>,
    noted_first: bool,
    partitions: Arc<Vec<Partition>>,
    /// The keys of the leaves that are being brought, and what these have.
    part: Option<(KeyRange, Merge)>,
    chosen: Chosen,
    /// What runs refer to, for checking it.
    id: Identity,
    geometry: Geometry,
    segments: u32,
    /// Whatever the runs refer to stays on the device until this ends.
    pass: Pass,
}

/// Keys that are looked at together.
#[derive(Debug)]
struct Part {
    /// The partition that they lie in.
    number: usize,
    keys: KeyRange,
    /// Those that the scan has then still to look at.
    left: Option<KeyRange>,
}

/// How a scan goes on.
#[derive(Debug)]
pub(super) enum Next {
    /// With these leaves, those of the oldest run first.
    Leaves(Vec<PageRef>),
    /// From its beginning, as of now: what memory knew of the next keys was not taken down.
    Again,
    /// The range has ended.
    End,
}

impl RunsScan {
    /// A scan of what these partitions refer to, on so many segments.
    pub(super) fn new(
        asked: Asked,
        partitions: Arc<Vec<Partition>>,
        id: Identity,
        geometry: Geometry,
        segments: u32,
        pass: Pass,
    ) -> RunsScan {
        RunsScan {
            left: (!asked.keys.is_empty()).then(|| asked.keys.clone()),
            room: asked.room,
            noted: VecDeque::new(),
            first: None,
            noted_first: false,
            partitions,
            part: None,
            chosen: Chosen::default(),
            id,
            geometry,
            segments,
            pass,
            asked,
        }
    }

    pub(super) fn asked(&self) -> &Asked {
        &self.asked
    }

    pub(super) fn id(&self) -> &Identity {
        &self.id
    }

    pub(super) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The keys of which has to be taken down what memory knows, if there are any: all, or `few` of them.
    pub(super) fn keys_to_note(&mut self, few: bool) -> Option<&KeyRange> {
        // What a snapshot reads may go with the snapshot, so it cannot begin anew.
        if few && self.asked.at == u64::MAX {
            self.first = self.first_part();
            self.noted_first = self.first.is_some();
        }
        let keys = self.first.as_ref().map(|part| &part.keys);
        keys.or(self.left.as_ref())
    }

    /// What memory knows of them, in the scan's direction.
    pub(super) fn note(&mut self, noted: VecDeque<Noted>) {
        self.noted = noted;
    }

    /// Goes on to the next keys: the leaves that have to be brought for them.
    pub(super) fn begin_part(&mut self) -> Next {
        let first = self.first.take();
        if first.is_none() && self.noted_first && self.left.is_some() {
            return Next::Again;
        }
        let next = first.or_else(|| self.next_part());
        let Some(Part { number, keys, left }) = next else {
            return Next::End;
        };
        self.left = left;
        let partition = &self.partitions[number];
        let leaves = match partition.whole {
            true => Vec::new(),
            false => partition.leaves_between(&keys.from, keys.end.as_ref()),
        };
        let bytes = leaves.iter().map(|leaf| leaf.len as usize).sum();
        self.part = Some((keys, Merge::with_room(bytes)));
        Next::Leaves(leaves)
    }

    /// The next of these leaves.
    pub(super) fn take_leaf(&mut self, leaf: &PageRef, bytes: &[u8]) -> Result<(), Mismatch> {
        let (keys, merge) = self.part.as_mut().expect("a part was begun");
        let page = Page::decode(&self.id, Tree::Run, leaf, bytes)?;
        merge.make_room(page.entries_max());
        page.each(|key, payload| {
            if keys.has(key) {
                merge.push(leaf.offset, key, payload);
            }
            Ok(())
        })
    }

    /// All of them are there. Whether there was no room for an entry.
    pub(super) fn end_part(&mut self) -> Result<bool, Error> {
        let (keys, mut merge) = self.part.take().expect("a part was begun");
        self.take_part(&mut merge, &keys)
    }

    /// The entries that were chosen, once.
    pub(super) fn take_chosen(&mut self) -> Chosen {
        std::mem::take(&mut self.chosen)
    }

    /// The same if every value is at hand.
    pub(super) fn take_complete(&mut self) -> Option<Chosen> {
        self.chosen.is_complete().then(|| self.take_chosen())
    }

    /// The entries that were chosen, and the pass that they may be read in.
    pub(super) fn into_chosen(self) -> (Chosen, Pass) {
        (self.chosen, self.pass)
    }

    /// The first part, if as many leaves are read for it as have what the scan can return.
    fn first_part(&self) -> Option<Part> {
        let part = self.next_part().filter(|part| part.left.is_some())?;
        let partition = &self.partitions[part.number];
        let is_cut_by_leaves = match self.asked.direction {
            Direction::Forward => {
                let next = self.partitions.get(part.number + 1);
                let end = part.keys.end.as_ref();
                next.is_none_or(|next| end.is_some_and(|end| *end < next.from))
            }
            Direction::Reverse => part.keys.from > partition.from,
        };
        let enough = self.leaves_wanted(part.number) <= LEAVES_AT_ONCE_MAX;
        (is_cut_by_leaves && enough).then_some(part)
    }

    /// The keys to look at next: those that lie in one partition, and not too many.
    fn next_part(&self) -> Option<Part> {
        let KeyRange { from, end } = self.left.clone()?;
        match self.asked.direction {
            Direction::Forward => {
                let number = number_of(&self.partitions, &from)?;
                let last = self.partitions.get(number + 1);
                let last = last.map(|next| next.from.clone());
                let few = self.partitions[number].end_of_leaves(&from, self.leaves_at_once(number));
                let until = few.into_iter().chain(last).chain(end.clone()).min();
                let left = match until == end {
                    true => None,
                    false => until.clone().map(|until| KeyRange::new(until, end)),
                };
                let keys = KeyRange::new(from, until);
                Some(Part { number, keys, left })
            }
            Direction::Reverse => {
                let number = number_before(&self.partitions, end.as_ref())?;
                let partition = &self.partitions[number];
                let first = partition.from.clone().max(from.clone());
                let leaves = self.leaves_at_once(number);
                let since = partition.start_of_leaves(&first, end.as_ref(), leaves);
                let since = since.unwrap_or(first);
                let left = (since > from).then(|| KeyRange::new(from, Some(since.clone())));
                let keys = KeyRange::new(since, end);
                Some(Part { number, keys, left })
            }
        }
    }

    /// About as many leaves as have what the scan may still return, wherever in the first of them it begins.
    fn leaves_wanted(&self, number: usize) -> u64 {
        let in_one = self.partitions[number].keys_per_leaf().max(1);
        1 + (self.room.entries as u64).div_ceil(in_one)
    }

    fn leaves_at_once(&self, number: usize) -> usize {
        to_usize(self.leaves_wanted(number).min(LEAVES_AT_ONCE_MAX))
    }

    /// Takes the entries of a part. Whether there was no room for one.
    fn take_part(&mut self, merge: &mut Merge, part: &KeyRange) -> Result<bool, Error> {
        let mut runs: Vec<Newest<'_>> = merge.newest().collect();
        if self.asked.direction == Direction::Reverse {
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
                    match self.asked.direction {
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
                (Some(noted), None) => self.take_noted(noted),
                (Some(noted), Some(_)) if !mutant(Mutant::ScanPrefersRuns) => {
                    self.take_noted(noted)
                }
                (_, Some(run)) => self
                    .take_run(&run)
                    .map_err(|mismatch| mismatch.at(run.offset))?,
                (None, None) => unreachable!("one of them was there"),
            };
            if !took {
                return Ok(true);
            }
        }
    }

    /// Takes what memory knew of a key, if it is to be shown. Whether there was room.
    fn take_noted(&mut self, noted: Noted) -> bool {
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
        self.chosen
            .push_elsewhere(key, Elsewhere::Noted(version, value));
        true
    }

    /// The same for what a run has of a key that memory did not know of.
    fn take_run(&mut self, run: &Newest<'_>) -> Result<bool, Mismatch> {
        if is_deleted(run.payload) {
            return Ok(true);
        }
        if let Some((sequence, value)) = inline_value(run.payload) {
            if sequence > self.asked.at {
                return Ok(true);
            }
            if !self.room.take(run.key, value.len()) {
                return Ok(false);
            }
            self.chosen.push(run.key, value);
            return Ok(true);
        }
        let version = decode(&self.geometry, self.segments, run.payload)?;
        if version.sequence > self.asked.at {
            return Ok(true);
        }
        if !self.room.take(run.key, version.place.value_bytes()) {
            return Ok(false);
        }
        let value = Elsewhere::Run(version, run.offset);
        self.chosen.push_elsewhere(run.key, value);
        Ok(true)
    }
}
