//! Reads under way: which parts of which values are asked for, and the scans that wait for some. How they go on is in `value.rs` and `scan.rs`.

use std::collections::BTreeMap;

use crate::api::buffer::Shared;
use crate::api::port::{Entry, RequestId, ScanRange, Status};
use crate::format::pointer::Pointer;
use crate::index::place::Version;
use crate::read::join::RunsScan;
use crate::read::pieces::Wanted;
use crate::segments::passes::Pass;

/// Where a value goes once it is read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sink {
    Get(RequestId),
    Scan { scan: u64, slot: usize },
}

/// How a read of a value ended.
pub(crate) type ValueResult = Result<Shared, (Status, String)>;

#[derive(Debug)]
pub(super) enum Source {
    Record {
        lsn: u64,
        value_bytes: u32,
        tag: u32,
    },
    /// The value is assembled from its chunks.
    Chunks {
        pointer: Box<Pointer>,
        value: Vec<u8>,
    },
}

/// A place that is kept readable: its segments, and where on the device its parts begin.
#[derive(Debug)]
pub(crate) struct Held {
    pub(super) segments: Vec<u32>,
    pub(super) offsets: Vec<u64>,
}

#[derive(Debug)]
pub(super) struct ValueRead {
    pub(super) sink: Sink,
    pub(super) key: Box<[u8]>,
    pub(super) sequence: u64,
    pub(super) source: Source,
    /// Device offset of each part: the record, or the chunks.
    pub(super) offsets: Vec<u64>,
    pub(super) retried: Vec<bool>,
    /// Operations under way.
    pub(super) outstanding: u32,
    /// Segments that must not be handed out anew.
    pub(super) held: Vec<u32>,
    pub(super) failed: Option<(Status, String)>,
}

/// Parts that one operation reads.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(super) start: u64,
    pub(super) is_dense: bool,
    pub(super) parts: Vec<(u64, u32)>,
}

#[derive(Debug, Default)]
pub(crate) struct Reads {
    pub(super) next: u64,
    pub(super) values: BTreeMap<u64, ValueRead>,
    /// Parts that are asked for when all are known that are wanted at once.
    pub(super) wanted: Vec<Wanted>,
    pub(super) joined: BTreeMap<u64, Joined>,
    pub(super) next_joined: u64,
    pub(crate) scans: BTreeMap<u64, Scan>,
    pub(crate) next_scan: u64,
    /// Scans that have still to read a part of the index, until their tasks are started.
    pub(super) starting: Vec<(RequestId, RunsScan)>,
    /// The same, until they have; those that are done outside the engine too.
    pub(super) joining: u64,
}

impl Reads {
    pub(crate) fn is_idle(&self) -> bool {
        self.values.is_empty() && self.scans.is_empty() && self.joining == 0
    }
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) key: Shared,
    pub(super) value: Option<Shared>,
    /// Where to read it, held, until the read is started.
    pub(super) unread: Option<(Version, Held)>,
}

impl Slot {
    pub(super) fn into_entry(self) -> Entry {
        Entry {
            key: self.key,
            value: self.value.expect("every slot was filled"),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Scan {
    pub(super) id: RequestId,
    pub(super) slots: Vec<Slot>,
    /// Slots before this need no read, or have one.
    pub(super) next: usize,
    pub(super) outstanding: usize,
    pub(super) more: bool,
    pub(super) failed: Option<(Status, String)>,
    /// Until it is answered, if its places are not held one by one.
    pub(super) pass: Option<Pass>,
}

/// How much a scan may return.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) entries: usize,
    bytes: usize,
    has_some: bool,
}

impl Room {
    pub(super) fn of(range: &ScanRange<'_>) -> Room {
        Room {
            entries: range.limit.max(1) as usize,
            bytes: range.max_bytes as usize,
            has_some: false,
        }
    }

    /// Takes room for an entry. Whether there was any.
    pub(super) fn take(&mut self, key: &[u8], value_bytes: usize) -> bool {
        let bytes = key.len() + value_bytes;
        if self.entries == 0 || (self.has_some && bytes > self.bytes) {
            return false;
        }
        self.entries -= 1;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.has_some = true;
        true
    }
}
