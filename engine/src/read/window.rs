//! Reading parts of the index into memory: what a driver will ask for, and what is written anew.
//!
//! A driver that needs to know which keys a range has, and nothing else to happen meanwhile, has them read first ([`Request::Know`](crate::Request::Know)), and then
//! asks for them ([`Engine::scan_keys`](crate::Engine::scan_keys)).
//!
//! Invariant: what was read stays in memory until another such range is, or until it was written.

use std::collections::BTreeMap;

use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::api::port::{Direction, Reply, RequestId, ScanRange};
use crate::checkpoint::leaf_reader::LeafReader;
use crate::checkpoint::runs::number_before;
use crate::core::Core;
use crate::index::entry::decode;
use crate::index::key::Key;
use crate::index::key_range::KeyRange;
use crate::index::resident::memory_of_entries;
use crate::read::lookup::{Known, unread};
use crate::read::waiting::{Edge, Window, start_of};
use crate::runtime::executor::Executor;
use crate::runtime::handle::Handle;
use crate::runtime::request::Verdict;

/// Leaves of one run that are read in one go, with what the others have of their keys.
const LEAVES_AT_ONCE: usize = 8;
/// Leaves of one run that are read in one go for a request.
const LEAVES_PER_SCAN_MAX: usize = 64;

impl Core {
    /// Has memory know of the keys of a range.
    pub(crate) fn know(&mut self, id: RequestId, range: &ScanRange<'_>) -> Verdict {
        let at = match self.sequence_of(range.snapshot) {
            Ok(at) => at,
            Err(refused) => return refused,
        };
        match self.know_range(range, at) {
            Known::All => self.reply(id, Reply::Done),
            Known::NotYet => return Verdict::Awaits,
            Known::Failed(error) => return unread(&error),
        }
        Verdict::Taken
    }

    /// Whether memory knows of all that a scan returns. Else it is read.
    fn know_range(&mut self, range: &ScanRange<'_>, at: u64) -> Known {
        if self.runs.are_whole() {
            self.forget_request();
            return Known::All;
        }
        let window = self.lookups.window.take();
        let mut window = window.unwrap_or_else(|| Window::new(range));
        if let Some(error) = window.failed.take() {
            return Known::Failed(error);
        }
        if window.reading.is_none() {
            let number = self.go_to_unknown(&mut window, range);
            let Some(number) = number.filter(|_| !self.returns_known_only(&window, range, at))
            else {
                self.lookups.served = Some(window);
                return Known::All;
            };
            window.reading = Some(self.next_part(&window, range, number));
            window.begun = false;
            self.activity += 1;
        }
        // What it had of this range is in the window by now.
        self.lookups.served = None;
        self.lookups.window = Some(window);
        Known::NotYet
    }

    /// Whether memory knows of all that a scan would return now.
    pub(crate) fn knows_range(&self, range: &ScanRange<'_>) -> bool {
        self.runs.are_whole() || {
            let mut window = Window::new(range);
            let unknown = self.go_to_unknown(&mut window, range).is_some();
            !unknown || self.returns_known_only(&window, range, u64::MAX)
        }
    }

    /// Goes on to the first partition of the range that is not whole, and returns its number.
    fn go_to_unknown(&self, window: &mut Window, range: &ScanRange<'_>) -> Option<usize> {
        let (start, partitions) = (start_of(range), &self.runs.partitions);
        loop {
            let number = match (window.direction, &window.edge) {
                (_, Edge::Beyond) => return None,
                (Direction::Forward, Edge::Top) => unreachable!("it begins with a key"),
                (Direction::Forward, Edge::At(edge)) => {
                    if range.end.is_some_and(|end| end <= edge.bytes()) {
                        return None;
                    }
                    self.runs.number_of(edge)?
                }
                (Direction::Reverse, Edge::Top) => number_before(partitions, None)?,
                (Direction::Reverse, Edge::At(edge)) => {
                    if *edge <= start {
                        return None;
                    }
                    number_before(partitions, Some(edge))?
                }
            };
            let served = self.lookups.served.as_ref();
            let part = match served.and_then(|served| served.beyond(window)) {
                Some(part) => part,
                None if partitions[number].whole => self.part_beside(window, number),
                None => return Some(number),
            };
            // It has to stay so.
            window.add(part);
        }
    }

    /// The keys of a partition that lie beyond the edge.
    fn part_beside(&self, window: &Window, number: usize) -> KeyRange {
        let from = self.runs.partitions[number].from.clone();
        let end = self.runs.end_of(number).cloned();
        match (window.direction, &window.edge) {
            (Direction::Forward, Edge::At(edge)) => KeyRange::new(edge.clone(), end),
            (Direction::Reverse, Edge::At(edge)) => KeyRange::new(from, Some(edge.clone())),
            _ => KeyRange::new(from, end),
        }
    }

    /// Whether the scan returns nothing beyond its edge.
    fn returns_known_only(&self, window: &Window, range: &ScanRange<'_>, at: u64) -> bool {
        let Edge::At(edge) = &window.edge else {
            return false;
        };
        let mut known = *range;
        match window.direction {
            Direction::Forward => known.end = Some(edge.bytes()),
            Direction::Reverse => known.start = Some(edge.bytes()),
        }
        self.walk(&known, at, |_, _| {})
    }

    /// The keys of a partition that are read next.
    fn next_part(&self, window: &Window, range: &ScanRange<'_>, number: usize) -> KeyRange {
        let in_one = self.runs.partitions[number].keys_per_leaf().max(1);
        let leaves = crate::format::to_usize(u64::from(range.limit) / in_one);
        let leaves = 1 + leaves.min(LEAVES_PER_SCAN_MAX);
        let KeyRange { from, end } = self.part_beside(window, number);
        match window.direction {
            Direction::Forward => {
                let end = self.leaves_behind(number, &from, leaves);
                KeyRange::new(from, end)
            }
            Direction::Reverse => {
                let from = self.leaves_before(number, end.as_ref(), leaves);
                KeyRange::new(from, end)
            }
        }
    }

    /// Whether there is room for all entries of a partition beside what is in memory.
    fn has_memory_for(&self, number: usize) -> bool {
        let bound = self.entries_bytes();
        let bytes = memory_of_entries(self.runs.partitions[number].keys_max());
        self.index.memory_bytes() + bytes <= bound
    }

    /// The keys from `from` on, up to this one, lie in so many leaves of any run at most; `None`: all that there are.
    pub(crate) fn leaves_behind(&self, number: usize, from: &Key, leaves: usize) -> Option<Key> {
        let end = self.runs.end_of(number).cloned();
        let few = self.runs.partitions[number].end_of_leaves(from, leaves);
        few.into_iter().chain(end).min()
    }

    /// The keys from this one on, and before `end`, lie in so many leaves of any run at most.
    fn leaves_before(&self, number: usize, end: Option<&Key>, leaves: usize) -> Key {
        let partition = &self.runs.partitions[number];
        let from = partition.from.clone();
        let few = partition.start_of_leaves(&from, end, leaves);
        few.unwrap_or(from)
    }

    /// Starts to read what a request waits for.
    pub(crate) fn read_to_know(&mut self, executor: &mut Executor, handle: &Handle) {
        let Some(window) = &mut self.lookups.window else {
            return;
        };
        if let Some(part) = window.reading.clone()
            && !std::mem::replace(&mut window.begun, true)
        {
            self.activity += 1;
            executor.spawn(read_to_know(handle.clone(), part));
        }
    }
}

async fn read_to_know(handle: Handle, part: KeyRange) {
    let result = read_range(&handle, &part).await;
    handle.with(|core| {
        core.activity += 1;
        core.reached(CoveragePoint::RangeRead);
        // The request that waited for it may be gone, and another may wait now.
        let window = core.lookups.window.as_mut();
        let window = window.filter(|window| window.reading.as_ref() == Some(&part));
        if let Some(window) = window {
            window.end_reading(result);
        }
    });
}

/// Keeps the entries of a partition in memory until they are written, from `from` on and before `end`, if there is room for them. Returns whether there is.
pub(crate) async fn keep_in_memory(
    handle: &Handle,
    from: &Key,
    end: Option<&Key>,
) -> Result<bool, Error> {
    let (partial, fits) = handle.with(|core| {
        let number = core.runs.number_of(from);
        let partial = number.filter(|number| !core.runs.partitions[*number].whole);
        let fits = partial.is_none_or(|number| core.has_memory_for(number));
        if fits {
            core.lookups.kept = Some(KeyRange::new(from.clone(), end.cloned()));
        }
        (partial, fits)
    });
    let Some(number) = partial.filter(|_| fits) else {
        return Ok(fits);
    };
    let mut next = Some(from.clone());
    while let Some(at) = next {
        let few_end = handle.with(|core| core.leaves_behind(number, &at, LEAVES_AT_ONCE));
        let few = KeyRange::new(at, few_end);
        read_range(handle, &few).await?;
        handle.give_way().await;
        next = few.end.filter(|few_end| Some(few_end) != end);
    }
    handle.with(|core| {
        core.reached(CoveragePoint::PartitionRead);
        if core.runs.partitions[number].from == *from {
            core.runs.set_whole(number, true);
            core.answer_known_lookups();
        }
    });
    Ok(true)
}

/// Takes into memory what the runs have of these keys.
async fn read_range(handle: &Handle, keys: &KeyRange) -> Result<(), Error> {
    loop {
        let (generation, leaves) = handle.with(|core| {
            // A checkpoint may have cut the partition in two meanwhile.
            let leaves = core.runs.leaves_between(&keys.from, keys.end.as_ref());
            (core.lookups.generation, leaves)
        });
        let mut merged = BTreeMap::new();
        let (geometry, segments) = handle.with(|core| (core.geometry, core.segments.count()));
        let read = LeafReader::new(handle, leaves);
        let read = read.each(|leaf, key, payload| {
            // Of most runs a leaf reaches far beyond the range.
            if keys.has(key) {
                let version = decode(&geometry, segments, payload)?;
                merged.insert(Key::new(key), (version, leaf.offset));
            }
            Ok(())
        });
        let read = read.await;
        let learnt = handle.with(|core| {
            if core.lookups.generation != generation {
                // Where other runs are by now, anything may have been read.
                core.reached(CoveragePoint::EntryReadAgain);
                return Ok(false);
            }
            read?;
            for (key, (version, offset)) in merged {
                core.learn(&key, version).map_err(|it| it.at(offset))?;
            }
            Ok::<bool, Error>(true)
        });
        if learnt? {
            return Ok(());
        }
    }
}
