//! Gets of what is not in memory, done outside the engine but for their beginning. A thread that drives the engine reads the leaf that has the key, and the record that has the value,
//! while others use the engine. Of a value that lies in the index the engine learns nothing: the thread keeps it itself.
//!
//! Invariants:
//! - such a get shows the state of its beginning. If memory knew of the key then, that decides; else the newest of the runs of then that has it. What has changed the key since
//!   is newer than the get;
//! - nothing holds what is read. A leaf that was written over meanwhile does not have the checksum of its reference, and a record not the key, the sequence number and the tag of its entry.
//!   Then the engine is asked.

use std::sync::Arc;

use crate::api::buffer::IoBuf;
use crate::api::coverage::CoveragePoint;
use crate::checkpoint::runs::Partition;
use crate::core::{Core, Phase};
use crate::format::checksum::Identity;
use crate::format::page::{Page, PageRef, Tree};
use crate::format::{Geometry, to_usize};
use crate::index::entry::{decode, inline_value, is_deleted};
use crate::index::key::Key;
use crate::index::place::Version;
use crate::read::record::{CannotRead, PlacedRecord};

/// A get that has begun.
#[derive(Debug)]
#[must_use]
pub struct Find {
    key: Key,
    id: Identity,
    at: At,
}

/// Where a get goes on.
#[derive(Debug)]
enum At {
    Leaves(Leaves),
    Record(Record),
}

/// Runs that may have the key.
#[derive(Debug)]
struct Leaves {
    partitions: Arc<Vec<Partition>>,
    /// The partition of the key.
    number: usize,
    /// Of the leaves that may have it, those that are in memory.
    kept: Vec<(PageRef, Arc<[u8]>)>,
    generation: u64,
    geometry: Geometry,
    segments: u32,
}

/// A record that has the value.
#[derive(Debug)]
struct Record {
    placed: PlacedRecord,
    sector_bytes: u64,
}

/// What a get has found.
#[derive(Debug)]
pub enum Found<T> {
    /// There is no such key.
    Nowhere,
    /// What was made of its value.
    Here(T),
    /// Its value lies elsewhere. The engine has to be told: [`Engine::learn`](crate::Engine::learn).
    Elsewhere(Learnt),
}

/// An entry of a run.
#[derive(Debug)]
pub struct Learnt {
    key: Key,
    version: Version,
    generation: u64,
    /// The leaf that it is in, if that was read.
    read: Option<(PageRef, Arc<[u8]>)>,
}

impl Find {
    /// Whether it reads the value itself, and no leaf of the index.
    #[must_use]
    pub fn is_of_value(&self) -> bool {
        matches!(self.at, At::Record(_))
    }

    /// Finds the key. `read` reads so many bytes at an offset of the device, or says that it cannot. `take` gets the value, unless that is still to be read.
    ///
    /// # Errors
    /// [`CannotRead`]: the engine has to be asked by a request, or this is called again once `read` has what it had not.
    pub fn finish<T>(
        &self,
        read: impl FnMut(u64, usize) -> Option<IoBuf>,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Result<Found<T>, CannotRead> {
        match &self.at {
            At::Leaves(leaves) => leaves.find(&self.key, &self.id, read, take),
            At::Record(record) => record.get(&self.key, &self.id, read, take),
        }
    }
}

impl Leaves {
    fn find<T>(
        &self,
        key: &Key,
        id: &Identity,
        mut read: impl FnMut(u64, usize) -> Option<IoBuf>,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Result<Found<T>, CannotRead> {
        for leaf in self.partitions[self.number].leaves_of(key) {
            let mut kept = self.kept.iter();
            let kept = kept.find(|(it, _)| *it == leaf).map(|(_, bytes)| bytes);
            let from_device = match kept {
                Some(_) => None,
                None => Some(read(leaf.offset, leaf.len as usize).ok_or(CannotRead)?),
            };
            let bytes = from_device.as_deref().or(kept.map(|it| &**it));
            let bytes = bytes.expect("it is one of both");
            let page = Page::decode(id, Tree::Run, &leaf, bytes).map_err(|_| CannotRead)?;
            let payload = page.find(key.bytes()).map_err(|_| CannotRead)?;
            let Some(payload) = payload else {
                continue;
            };
            if is_deleted(payload) {
                break;
            }
            if let Some((_, value)) = inline_value(payload) {
                return Ok(Found::Here(take(value)));
            }
            let version = decode(&self.geometry, self.segments, payload);
            let version = version.map_err(|_| CannotRead)?;
            return Ok(Found::Elsewhere(Learnt {
                version,
                generation: self.generation,
                key: key.clone(),
                read: from_device.map(|bytes| (leaf, bytes[..].into())),
            }));
        }
        Ok(Found::Nowhere)
    }
}

impl Record {
    fn get<T>(
        &self,
        key: &Key,
        id: &Identity,
        mut read: impl FnMut(u64, usize) -> Option<IoBuf>,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Result<Found<T>, CannotRead> {
        let sectors = self.placed.sectors(key.bytes(), self.sector_bytes);
        let bytes = to_usize(sectors.end - sectors.start);
        let read = read(sectors.start, bytes).ok_or(CannotRead)?;
        let value = self
            .placed
            .find_value(id, key.bytes(), sectors.start, &read)?;
        Ok(Found::Here(take(&read[value])))
    }
}

impl Core {
    /// Begins a get of the newest value, if it can be done outside.
    pub(crate) fn begin_find(&mut self, key: &[u8]) -> Option<Find> {
        let now = self.phase == Phase::Running && self.queue.is_empty() && self.loading.is_none();
        if !now {
            return None;
        }
        let key = Key::new(key);
        let at = match self.index.newest(key.bytes()) {
            Some(version) => At::Record(self.record_of(version)?),
            None if self.runs.are_whole() || self.index.is_removed(key.bytes()) => return None,
            None => At::Leaves(self.leaves_to_find(&key)?),
        };
        Some(Find {
            key,
            id: self.id,
            at,
        })
    }

    fn leaves_to_find(&mut self, key: &Key) -> Option<Leaves> {
        let number = self.runs.number_of(key)?;
        if self.runs.partitions[number].whole {
            return None;
        }
        Some(Leaves {
            kept: self.kept_leaves_of(number, key),
            partitions: self.runs.partitions.clone(),
            number,
            generation: self.lookups.generation,
            geometry: self.geometry,
            segments: self.segments.count(),
        })
    }

    /// The record that has a value which is nowhere in memory.
    fn record_of(&self, version: &Version) -> Option<Record> {
        let lsn = version.place.lsn()?;
        if self.cache.peek(lsn).is_some() || self.log.in_memory(lsn).is_some() {
            return None;
        }
        let offset = self.segments.offset_of_lsn(lsn)?;
        Some(Record {
            placed: PlacedRecord::new(version, offset)?,
            sector_bytes: self.geometry.sector_bytes,
        })
    }

    /// Takes what a get has found into memory, if it counts still, and as far as it is not found there again. The get goes on with what is returned.
    pub(crate) fn learn_found(&mut self, learnt: Learnt) -> Option<Find> {
        let Learnt {
            key,
            version,
            generation,
            read,
        } = learnt;
        let counts = generation == self.lookups.generation && self.loading.is_none();
        if !counts || self.index.is_known(key.bytes()) {
            return None;
        }
        self.reached(CoveragePoint::EntryFoundOutside);
        if let Some((leaf, bytes)) = read {
            self.keep_leaf_of_get(&leaf, bytes);
        }
        let record = self.record_of(&version);
        if record.is_none() || !self.keeps_leaves_rather() {
            // What is wrong with it, the request that follows will say.
            let _ = self.learn(&key, version);
            // One more than came: no request may come to look for what is too much.
            self.forget_down_to(self.entries_bytes(), 2);
        }
        Some(Find {
            key,
            id: self.id,
            at: At::Record(record?),
        })
    }

    /// What the index may take of memory and does not take now.
    pub(crate) fn spare_bytes(&self) -> u64 {
        let taken = self.index.held_bytes() + self.beside_entries_bytes();
        self.settings.options.index_bytes.saturating_sub(taken)
    }
}
