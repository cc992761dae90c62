//! The entries that a scan shows, as they are chosen. Keys, and values that lie in the index, stand one behind the other in one piece of memory.

use std::sync::Arc;

use crate::api::buffer::Shared;
use crate::index::place::Version;
use crate::read::state::{Held, Slot};

/// Where a value is that does not lie in the index.
#[derive(Debug)]
pub(super) enum Elsewhere {
    Memory(Shared),
    /// It has still to be read.
    Device(Version, Held),
    /// As a range was joined: memory knew of this version, and maybe had its value.
    Noted(Version, Option<Shared>),
    /// The same, as a leaf at this device offset has it.
    Run(Version, u64),
}

#[derive(Debug, Default)]
pub(super) struct Chosen {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    key_bytes: usize,
    /// How many bytes behind the key it has, or where it is.
    value: Result<usize, Elsewhere>,
}

impl Chosen {
    /// Makes room for so many entries more, whose keys and values have so many bytes.
    pub(super) fn make_room(&mut self, entries: usize, bytes: usize) {
        self.entries.reserve(entries);
        self.bytes.reserve(bytes);
    }

    /// Adds a key and its value.
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.add(key, Ok(value.len()));
        self.bytes.extend_from_slice(value);
    }

    /// The same where the value is not at hand.
    pub(super) fn push_elsewhere(&mut self, key: &[u8], value: Elsewhere) {
        self.add(key, Err(value));
    }

    fn add(&mut self, key: &[u8], value: Result<usize, Elsewhere>) {
        self.bytes.extend_from_slice(key);
        let key_bytes = key.len();
        self.entries.push(Entry { key_bytes, value });
    }

    /// Whether every value is at hand.
    pub(super) fn is_complete(&self) -> bool {
        self.entries.iter().all(|it| it.value.is_ok())
    }

    /// Says of each value that is not at hand, by its key, where it comes from.
    pub(super) fn place_each<E>(
        &mut self,
        mut place: impl FnMut(&[u8], Elsewhere) -> Result<Elsewhere, E>,
    ) -> Result<(), E> {
        let mut at = 0;
        for entry in &mut self.entries {
            let key = &self.bytes[at..at + entry.key_bytes];
            at += entry.key_bytes;
            match std::mem::replace(&mut entry.value, Ok(0)) {
                Ok(len) => {
                    at += len;
                    entry.value = Ok(len);
                }
                Err(value) => entry.value = Err(place(key, value)?),
            }
        }
        Ok(())
    }

    /// All of them, in the order in which they came.
    pub(super) fn into_slots(self) -> Vec<Slot> {
        let bytes = Arc::new(self.bytes);
        let mut at = 0;
        let mut next = |len| {
            let start = at;
            at += len;
            Shared::slice(Arc::clone(&bytes), start, at)
        };
        let slots = self.entries.into_iter().map(|entry| {
            let key = next(entry.key_bytes);
            let (value, unread) = match entry.value {
                Ok(len) => (Some(next(len)), None),
                Err(Elsewhere::Memory(value)) => (Some(value), None),
                Err(Elsewhere::Device(version, held)) => (None, Some((version, held))),
                Err(Elsewhere::Noted(..) | Elsewhere::Run(..)) => {
                    unreachable!("each was placed")
                }
            };
            Slot { key, value, unread }
        });
        slots.collect()
    }
}
