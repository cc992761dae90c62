//! Promises: clients may write faster than one call into the engine at a time allows. Then the driver acknowledges
//! small relaxed writes before the engine has them, and hands them in later, many at a time.
//!
//! A promise depends on four things. A write of this form is never refused for its form. It fits beside the live data
//! on the device at its present size. Nothing waits for room, so the write waits behind nothing. It never has to know what it replaces, which
//! may turn out not to be readable. Room in the log may be short when the write is handed in. Then it waits like any other, and later requests wait behind it.
//!
//! Invariants:
//! - a promised write takes effect in the order in which it is handed in, before anything that is handed in later;
//! - a promised write is never refused. If it cannot be written, since what could be reclaimed turned out not to be readable, the database becomes read-only, as after a failed write,
//!   and says so;
//! - it takes effect in memory all the same, as it does after any failure of the device: nobody reads what it has replaced.

use crate::api::promise::{Promise, Room};
use crate::core::{Core, Phase};
use crate::format::record::record_bytes;
use crate::format::to_usize;
use crate::index::entry::pages_of_several;
use crate::segments::unproven::RecoveryReserve;

/// What there is behind writes that are still to come, at most.
pub(crate) struct Behind {
    pub(crate) live_bytes: u64,
    pub(crate) pages_bytes: u64,
    /// What they take of a recovery.
    pub(crate) reserve: RecoveryReserve,
}

impl Core {
    /// Promises so much room, if there is so much. A device that can grow is kept so large that there is.
    pub(crate) fn promise(&mut self, room: Room) -> Option<Promise> {
        self.wanted_room = room;
        if self.phase != Phase::Running || self.refuses_writes().is_some() || !self.queue.is_empty()
        {
            return None;
        }
        // A snapshot has to see what such a write replaces.
        if self.forgets() && self.index.has_snapshots() {
            return None;
        }
        let next = self.behind(room);
        let max = self.live_bytes_now(next.pages_bytes, next.reserve)?;
        let in_log = self.log_value_bytes_max();
        let value_bytes_max = in_log.min(self.settings.options.max_value_bytes);
        (next.live_bytes <= max).then(|| Promise {
            value_bytes_max: to_usize(value_bytes_max),
            write_bytes_max: to_usize(in_log),
        })
    }

    /// What there is behind small writes that take so much room.
    pub(crate) fn behind(&self, room: Room) -> Behind {
        let records = room.changes as u64 * record_bytes(0, 0) as u64 + room.bytes as u64;
        Behind {
            live_bytes: self.live_bytes() + records,
            pages_bytes: self.index.pages_bytes() + pages_of_several(room.changes, room.bytes),
            reserve: RecoveryReserve {
                log_bytes: records,
                extent_bytes: 0,
            },
        }
    }
}
