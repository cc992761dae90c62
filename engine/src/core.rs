//! The state of one process run, and what leaves the engine.
//!
//! It holds the state of every folder. What works on it is above, as further `impl Core` in those folders. What leaves the engine is
//! collected in order and handed to the port at the end of the call.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::api::buffer::IoBuf;
use crate::api::cached_values::CachedValues;
use crate::api::config::Settings;
use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::api::event::{Event, StallReason};
use crate::api::port::{
    DiskError, DiskOp, Level, Nanos, PROMISED, Port, Reply, RequestId, SnapshotId, Status,
};
use crate::api::promise::Room;
use crate::api::stats::Stats;
use crate::checkpoint::copies::Order;
use crate::checkpoint::runs::Runs;
use crate::commit::state::{Group, Waiter};
use crate::format::Geometry;
use crate::format::checksum::Identity;
use crate::format::superblock::{Counts, Superblock};
use crate::gc::state::Maintenance;
use crate::index::memory::{Index, Moved};
use crate::index::place::{Place, Version};
use crate::index::table::Slot;
use crate::log::append::Log;
use crate::log::tail::first_tail;
use crate::mutant::{Mutant, mutant};
use crate::read::cache::Cache;
use crate::read::state::Reads;
use crate::read::waiting::Lookups;
use crate::recovery::loading::Loading;
use crate::runtime::flight::{InFlight, Owner};
use crate::runtime::request::OwnedRequest;
use crate::segments::extent_state::Extents;
use crate::segments::usage::Segments;

/// No value takes more than one of so many parts of the cache.
const CACHED_VALUES_MIN: u64 = 8;

/// What leaves the engine, in order.
#[derive(Debug)]
enum Out {
    Submit(u64, DiskOp),
    Reply(RequestId, Reply),
    Log(Level, String),
    CoveragePoint(CoveragePoint),
    Event(Event),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Opening,
    Running,
    Closing,
    Closed,
}

pub(crate) struct Core {
    pub(crate) now: Nanos,
    pub(crate) phase: Phase,
    pub(crate) poisoned: Option<DiskError>,
    /// What had been promised, and can no longer be written, is in memory only.
    pub(crate) has_memory_only: bool,
    pub(crate) settings: Settings,
    pub(crate) id: Identity,
    pub(crate) geometry: Geometry,
    pub(crate) superblock: Option<Superblock>,
    /// In which order the next publication writes the superblock's copies.
    pub(crate) copies_order: Order,
    pub(crate) index: Index,
    /// What of the index the superblock refers to.
    pub(crate) runs: Runs,
    pub(crate) segments: Segments,
    pub(crate) log: Log,
    pub(crate) extents: Extents,
    /// Chunks that are not durable yet, by device offset.
    pub(crate) volatile_chunks: BTreeMap<u64, Arc<IoBuf>>,
    pub(crate) cache: Cache<u64>,
    /// Where values are that the driver keeps.
    pub(crate) values: Option<Arc<dyn CachedValues>>,
    /// Values of this size are put into the index as the log is replayed.
    pub(crate) replays_inline_bytes: u64,
    /// Memory for a record that is looked at and not kept.
    pub(crate) scratch: Vec<u8>,
    pub(crate) group: Group,
    pub(crate) waiters: VecDeque<Waiter>,
    pub(crate) reads: Reads,
    /// Entries of the index that are being read.
    pub(crate) lookups: Lookups,
    /// As long as a part of the index is not loaded.
    pub(crate) loading: Option<Loading>,
    /// What was written before this sequence number has its value in the index; 0: that is not known.
    pub(crate) none_outside_before: u64,
    pub(crate) snapshots: BTreeMap<SnapshotId, u64>,
    pub(crate) next_snapshot: SnapshotId,
    /// Requests that wait for space or buffer, and all that came after them.
    pub(crate) queue: VecDeque<(RequestId, OwnedRequest)>,
    /// Since when there are some.
    pub(crate) stalled_since: Nanos,
    /// Whether an event has said so.
    pub(crate) stall_told: bool,
    /// What the driver wants promised. A device grows ahead of it.
    pub(crate) wanted_room: Room,
    pub(crate) maintenance: Maintenance,
    /// The request that closes, until its task is started.
    pub(crate) closing: Option<RequestId>,
    pub(crate) through_is_faster: bool,
    pub(crate) through_measured_faster: bool,
    pub(crate) stats: Stats,
    /// Calls into the engine so far.
    pub(crate) calls: u64,
    /// When work that gave way to the clients goes on if none of them calls.
    pub(crate) resume_at: Option<Nanos>,
    /// Grows whenever something happened that a task or the commit path may wait for.
    pub(crate) activity: u64,
    pub(crate) in_flight: InFlight,
    out: Vec<Out>,
}

impl Core {
    /// A core that is still to be recovered: its parts are of an empty database.
    pub(crate) fn new(now: Nanos, settings: Settings) -> Core {
        let id = Identity::new(settings.db_id);
        let device = &settings.device;
        let geometry = Geometry {
            sector_bytes: device.sector_bytes.into(),
            block_bytes: device.physical_block_bytes.max(device.sector_bytes).into(),
            segment_bytes: settings.options.segment_bytes,
        };
        let tail = first_tail(&geometry, &id);
        Core {
            now,
            phase: Phase::Opening,
            poisoned: None,
            has_memory_only: false,
            id,
            geometry,
            superblock: None,
            copies_order: Order::halves(0),
            index: Index::default(),
            runs: Runs::default(),
            segments: Segments::new(geometry, 0),
            log: Log::new(geometry, id, &settings.options, 0, &tail),
            extents: Extents::default(),
            volatile_chunks: BTreeMap::new(),
            cache: Cache::new(settings.options.cache_bytes.unwrap_or(0), CACHED_VALUES_MIN),
            values: None,
            replays_inline_bytes: settings.options.inline_bytes,
            scratch: Vec::new(),
            group: Group::default(),
            waiters: VecDeque::new(),
            reads: Reads::default(),
            lookups: Lookups::default(),
            loading: None,
            none_outside_before: 0,
            snapshots: BTreeMap::new(),
            next_snapshot: 1,
            queue: VecDeque::new(),
            stalled_since: now,
            stall_told: false,
            wanted_room: Room::default(),
            maintenance: Maintenance::default(),
            closing: None,
            through_is_faster: false,
            through_measured_faster: false,
            stats: Stats::default(),
            calls: 0,
            resume_at: None,
            activity: 0,
            in_flight: InFlight::default(),
            out: Vec::new(),
            settings,
        }
    }

    /// Live bytes in segments of log and extents, at most. They are exact if the index is loaded and no blind write is still to be subtracted from.
    pub(crate) fn live_bytes(&self) -> u64 {
        let left = self.loading.as_ref().map_or(0, Loading::live_bytes);
        self.segments.live_log_bytes + self.segments.live_extent_bytes + left
    }

    /// What there is now, at most.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            keys: self.index.len(),
            pages_bytes: self.index.pages_bytes(),
            live_bytes: self.live_bytes(),
        }
    }

    /// Whether what the runs have of a key does not count yet, unless memory knows of the key.
    pub(crate) fn is_unloaded(&self, key: &[u8]) -> bool {
        self.loading.as_ref().is_some_and(|it| it.lacks(key))
    }

    /// Whether commits and reads are served.
    pub(crate) fn is_serving(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Closing)
    }

    pub(crate) fn submit(&mut self, owner: Owner, op: DiskOp) -> u64 {
        let tag = self.in_flight.begin(owner);
        self.out.push(Out::Submit(tag, op));
        tag
    }

    pub(crate) fn submit_for_task(&mut self, op: DiskOp) -> u64 {
        self.submit(Owner::Task, op)
    }

    pub(crate) fn reply(&mut self, id: RequestId, reply: Reply) {
        if id != PROMISED {
            self.out.push(Out::Reply(id, reply));
        }
    }

    pub(crate) fn fail(&mut self, id: RequestId, status: Status, message: impl Into<String>) {
        let message = message.into();
        if id == PROMISED {
            return self.break_promise(&message);
        }
        self.reply(id, Reply::Failed(status, message));
    }

    /// Whether everything before what cannot be written is durable. Else it is made so: nobody else has to be told of a failure.
    pub(crate) fn may_break_promise(&mut self) -> bool {
        let last = self.log.last_record;
        let is_durable = self.poisoned.is_some() || self.log.is_durable_to(last);
        if !is_durable {
            self.want_durable(last);
        }
        is_durable
    }

    /// What was promised cannot be written: that must not go unnoticed. It still takes effect in memory, see [`Core::write`].
    pub(crate) fn break_promise(&mut self, message: &str) {
        let text = format!("a write that was acknowledged cannot be kept: {message}");
        self.log_line(Level::Error, text);
        self.poison(DiskError::NoSpace);
    }

    pub(crate) fn log_line(&mut self, level: Level, text: String) {
        self.out.push(Out::Log(level, text));
    }

    /// Says that a named point was reached.
    pub(crate) fn reached(&mut self, point: CoveragePoint) {
        self.out.push(Out::CoveragePoint(point));
    }

    /// Tells whoever embeds the engine.
    pub(crate) fn happened(&mut self, event: Event) {
        self.out.push(Out::Event(event));
    }

    /// A request waits for room, which is told once until none does.
    pub(crate) fn tell_stall(&mut self) {
        if std::mem::replace(&mut self.stall_told, true) {
            return;
        }
        let reason = match self.maintenance.buffer_awaited > 0 {
            true => StallReason::Buffer,
            false => StallReason::Room,
        };
        self.happened(Event::StallBegan { reason });
    }

    /// No request waits any more.
    pub(crate) fn tell_stall_end(&mut self) {
        if std::mem::take(&mut self.stall_told) {
            let took_ns = self.now - self.stalled_since;
            self.happened(Event::StallEnded { took_ns });
        }
    }

    /// Hands everything collected to the port.
    pub(crate) fn drain(&mut self, port: &mut impl Port) {
        for out in self.out.drain(..) {
            match out {
                Out::Submit(tag, op) => port.submit(tag, op),
                Out::Reply(id, reply) => port.reply(id, reply),
                Out::Log(level, text) => port.log(level, &text),
                Out::CoveragePoint(point) => port.reached(point),
                Out::Event(event) => port.happened(event),
            }
        }
    }

    /// An error once a write or a flush has failed.
    pub(crate) fn unpoisoned(&self) -> Result<(), Error> {
        match self.poisoned {
            None => Ok(()),
            Some(DiskError::NoSpace) if self.has_memory_only => Err(Error::PromiseBroken),
            Some(error) => Err(Error::Poisoned(error)),
        }
    }

    /// Why no new write is taken.
    pub(crate) fn refuses_writes(&self) -> Option<DiskError> {
        let loading = self.loading.as_ref().filter(|it| it.has_failed);
        self.poisoned.or(loading.map(|_| DiskError::Read))
    }

    /// A write or a flush has failed: nothing more is written, and what waits for durability has an unknown outcome.
    pub(crate) fn poison(&mut self, error: DiskError) {
        if self.poisoned.is_some() {
            return;
        }
        self.poisoned = Some(error);
        self.activity += 1;
        self.reached(CoveragePoint::Poisoned);
        self.happened(Event::BecameReadOnly { error });
        self.log_line(Level::Error, format!("read-only from here on: {error}"));
        let status = if mutant(Mutant::FailedCommitReportedUndone) {
            Status::ReadOnly
        } else {
            Status::IoError
        };
        while let Some(waiter) = self.waiters.pop_front() {
            self.fail(
                waiter.id,
                status,
                format!("the commit may or may not survive: {error}"),
            );
        }
    }

    /// Whether a version's bytes can count as live where they lie.
    fn is_live(&self, key: &[u8], place: &Place) -> bool {
        let has = |physical, bytes| self.segments.get(physical).live_bytes >= bytes;
        match place {
            Place::Tombstone | Place::Inline(_) => true,
            Place::Log {
                lsn, value_bytes, ..
            } => {
                let physical = self.segments.of_lsn(*lsn);
                physical.is_some_and(|physical| has(physical, live_bytes(key, *value_bytes)))
            }
            Place::Extent(pointer) => pointer.chunks.iter().all(|chunk| {
                let (physical, _) = self.geometry.locate(chunk.offset);
                let bytes = self.geometry.block_up(chunk.len.into());
                self.extents.is_owned(chunk.offset) && has(physical, bytes)
            }),
        }
    }

    /// The device offset of a position in the log that the index refers to.
    pub(crate) fn offset_of(&self, lsn: u64) -> u64 {
        self.segments
            .offset_of_lsn(lsn)
            .expect("the index refers only to segments of the log")
    }

    /// Counts a version's bytes as live where they lie.
    pub(crate) fn add_live(&mut self, key: &[u8], place: &Place) {
        match place {
            Place::Tombstone | Place::Inline(_) => {}
            Place::Log {
                lsn, value_bytes, ..
            } => {
                let physical = self
                    .segments
                    .of_lsn(*lsn)
                    .expect("the index refers only to segments of the log");
                self.segments
                    .add_live(physical, live_bytes(key, *value_bytes));
            }
            Place::Extent(pointer) => {
                for chunk in &pointer.chunks {
                    let (physical, _) = self.geometry.locate(chunk.offset);
                    self.segments
                        .add_live(physical, self.geometry.block_up(chunk.len.into()));
                    self.extents.own(chunk.offset, key);
                }
            }
        }
    }

    /// The reverse of `add_live`, when a version is not kept any more or has moved away.
    pub(crate) fn remove_live(&mut self, key: &[u8], place: &Place) {
        if self.none_outside_before > 0 && !self.is_live(key, place) {
            // The device was tampered with: an entry of a leaf that no opening has read refers to what is another key's.
            return;
        }
        match place {
            Place::Tombstone | Place::Inline(_) => {}
            Place::Log {
                lsn, value_bytes, ..
            } => {
                let physical = self
                    .segments
                    .of_lsn(*lsn)
                    .expect("the index refers only to segments of the log");
                self.segments
                    .remove_live(physical, live_bytes(key, *value_bytes));
                self.cache.remove(*lsn);
            }
            Place::Extent(pointer) => {
                for chunk in &pointer.chunks {
                    let (physical, _) = self.geometry.locate(chunk.offset);
                    self.segments
                        .remove_live(physical, self.geometry.block_up(chunk.len.into()));
                    self.extents.disown(chunk.offset);
                    if mutant(Mutant::ExtentFreedAtOnce) && self.is_serving() {
                        self.free_if_dead(physical);
                    }
                }
            }
        }
    }

    /// Makes a version the newest of its key and accounts for both sides.
    pub(crate) fn set_newest(&mut self, key: &[u8], version: Version) {
        self.add_live(key, &version.place);
        let lsn = version.place.lsn();
        let set = self.index.set(key, version);
        if let (Some(lsn), Some(slot)) = (lsn, set.slot) {
            self.segments.note_resident(lsn, slot);
        }
        if let Some(before) = set.old {
            self.remove_live(key, &before.place);
        }
    }

    /// Gives a version that is there another place and accounts for both.
    pub(crate) fn relocate(&mut self, key: &[u8], sequence: u64, place: Place) {
        self.relocate_by(key, place, |index, place| {
            let moved = index.relocate(key, sequence, place);
            moved.expect("what is moved was just found")
        });
    }

    /// The same for the newest version of the entry of this number and key.
    pub(crate) fn relocate_newest(&mut self, slot: Slot, key: &[u8], place: Place) {
        self.relocate_by(key, place, |index, place| {
            index.relocate_newest(slot, key, place)
        });
    }

    fn relocate_by(
        &mut self,
        key: &[u8],
        place: Place,
        relocate: impl FnOnce(&mut Index, Place) -> Moved,
    ) {
        self.add_live(key, &place);
        let lsn = place.lsn();
        let moved = relocate(&mut self.index, place);
        if let (Some(lsn), Some(slot)) = (lsn, moved.slot) {
            self.segments.note_resident(lsn, slot);
        }
        self.remove_live(key, &moved.from);
    }
}

/// What a record of the log weighs as long as it is live.
pub(crate) fn live_bytes(key: &[u8], value_bytes: u32) -> u64 {
    crate::format::record::record_bytes(key.len(), value_bytes as usize) as u64
}
