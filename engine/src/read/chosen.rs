//! The entries that a scan shows, as they are chosen. Keys, and values that are at hand, lie one behind the other in one piece of memory.

use std::sync::Arc;

use crate::api::buffer::Shared;
use crate::index::place::Version;
use crate::read::state::{Held, Slot};

/// Where the value of an entry comes from.
#[derive(Debug)]
pub(super) enum Source<'a> {
    /// It is copied from here.
    Bytes(&'a [u8]),
    Memory(Shared),
    /// It has still to be read.
    Device(Version, Held),
}

#[derive(Debug, Default)]
pub(super) struct Chosen {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    key_bytes: usize,
    value: Value,
}

#[derive(Debug)]
enum Value {
    /// It follows the key.
    Bytes(usize),
    Memory(Shared),
    Device(Version, Held),
}

impl Chosen {
    /// Makes room for so many entries more, whose keys and values have so many bytes.
    pub(super) fn make_room(&mut self, entries: usize, bytes: usize) {
        self.entries.reserve(entries);
        self.bytes.reserve(bytes);
    }

    pub(super) fn push(&mut self, key: &[u8], value: Source<'_>) {
        self.bytes.extend_from_slice(key);
        let value = match value {
            Source::Bytes(value) => {
                self.bytes.extend_from_slice(value);
                Value::Bytes(value.len())
            }
            Source::Memory(value) => Value::Memory(value),
            Source::Device(version, held) => Value::Device(version, held),
        };
        self.entries.push(Entry {
            key_bytes: key.len(),
            value,
        });
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
                Value::Bytes(len) => (Some(next(len)), None),
                Value::Memory(value) => (Some(value), None),
                Value::Device(version, held) => (None, Some((version, held))),
            };
            Slot { key, value, unread }
        });
        slots.collect()
    }
}
