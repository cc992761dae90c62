//! Gets of keys that memory does not know of, done outside the engine but for their beginning. A thread that drives the engine reads the leaf that has the key while others use
//! the engine. The engine learns nothing of what it finds: the thread keeps the value itself.
//!
//! Invariants:
//! - such a get shows the state of its beginning. Memory did not know of the key then, so the newest of the runs of then that has it decides; what has changed the key since
//!   is newer than the get;
//! - nothing holds the leaves that are read. One that was written over meanwhile does not have the checksum of its reference, and then the engine is asked.

use std::sync::Arc;

use crate::api::buffer::IoBuf;
use crate::checkpoint::runs::Partition;
use crate::core::{Core, Phase};
use crate::format::Geometry;
use crate::format::checksum::Identity;
use crate::format::page::{Page, Tree};
use crate::index::entry::{decode, inline_value, is_deleted};
use crate::index::key::Key;
use crate::index::place::Version;
use crate::read::outside::CannotRead;

/// A get that has begun.
#[derive(Debug)]
#[must_use]
pub struct Find {
    key: Key,
    partitions: Arc<Vec<Partition>>,
    /// The partition of the key.
    number: usize,
    generation: u64,
    id: Identity,
    geometry: Geometry,
    segments: u32,
}

/// What a get has found.
#[derive(Debug)]
pub enum Found<T> {
    /// There is no such key.
    Nowhere,
    /// What was made of its value.
    Here(T),
    /// Its value lies elsewhere. The engine has to be told, and then asked: [`Engine::learn`](crate::Engine::learn).
    Elsewhere(Learnt),
}

/// An entry of a run.
#[derive(Debug)]
pub struct Learnt {
    key: Key,
    version: Version,
    generation: u64,
}

impl Find {
    /// Finds the key. `read` reads so many bytes at an offset of the device, or says that it cannot. `take` gets the value if that lies beside the key.
    ///
    /// # Errors
    /// [`CannotRead`]: the engine has to be asked by a request.
    pub fn finish<T>(
        self,
        mut read: impl FnMut(u64, usize) -> Option<IoBuf>,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Result<Found<T>, CannotRead> {
        let leaves = self.partitions[self.number].leaves_of(&self.key);
        for leaf in leaves {
            let bytes = read(leaf.offset, leaf.len as usize).ok_or(CannotRead)?;
            let page = Page::decode(&self.id, Tree::Run, &leaf, &bytes).map_err(|_| CannotRead)?;
            let payload = page.find(self.key.bytes()).map_err(|_| CannotRead)?;
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
                key: self.key.clone(),
                version,
                generation: self.generation,
            }));
        }
        Ok(Found::Nowhere)
    }
}

impl Core {
    /// Begins a get of the newest value, if it can be done outside.
    pub(crate) fn begin_find(&mut self, key: &[u8]) -> Option<Find> {
        let now = self.phase == Phase::Running && self.queue.is_empty() && self.loading.is_none();
        if !now || self.runs.are_whole() || self.index.is_known(key) {
            return None;
        }
        let number = self.runs.number_of(key)?;
        if self.runs.partitions[number].whole {
            return None;
        }
        Some(Find {
            key: Key::new(key),
            partitions: self.runs.partitions.clone(),
            number,
            generation: self.lookups.generation,
            id: self.id,
            geometry: self.geometry,
            segments: self.segments.count(),
        })
    }

    /// Takes what a get has found into memory, if it counts still.
    pub(crate) fn learn_found(&mut self, learnt: Learnt) {
        let Learnt {
            key,
            version,
            generation,
        } = learnt;
        let counts = generation == self.lookups.generation && self.loading.is_none();
        if counts && !self.knows(key.bytes()) {
            // What is wrong with it, the request that follows will say.
            let _ = self.learn(&key, version);
        }
    }

    /// What entries may take of memory and do not take now.
    pub(crate) fn spare_bytes(&self) -> u64 {
        if !self.forgets() {
            return 0;
        }
        self.entries_bytes().saturating_sub(self.index.held_bytes())
    }
}
