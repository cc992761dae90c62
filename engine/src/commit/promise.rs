//! Promises: clients may write faster than one call into the engine at a time allows. Then the driver acknowledges
//! small relaxed writes before the engine has them, and hands them in later, many at a time.
//!
//! A promise depends on three things. A write of this form is never refused for its form. It fits beside the live data
//! on the device at its present size. Nothing waits for room, so the write waits behind nothing. Room in the log may be
//! short when the write is handed in. Then it waits like any other, and later requests wait behind it.
//!
//! Invariants:
//! - a promised write takes effect in the order in which it is handed in, before anything that is handed in later;
//! - a promised write is refused only if the device has no space that can be reclaimed, which the promise rules out. If it happens all the same, the database
//!   becomes read-only, as after a failed write, and says so;
//! - after a failure of the device it still takes effect in memory, like what was accepted before, as far as that has room.

use crate::api::port::Mutation;
use crate::core::{Core, Phase};
use crate::format::record::record_bytes;
use crate::format::{KEY_BYTES_MAX, to_usize};
use crate::index::entry::pages_of_several;
use crate::segments::unproven::RecoveryReserve;

/// How much is to be promised: so many changes, of so many bytes of keys and values together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Changes.
    pub changes: usize,
    /// Bytes of their keys and values together.
    pub bytes: usize,
}

/// That small relaxed writes are taken, as far as there is room, if they are handed in to [`Engine::keep`](crate::Engine::keep) before any other request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    value_bytes_max: usize,
    write_bytes_max: usize,
}

impl Promise {
    /// Whether it is of such a write.
    #[must_use]
    pub fn covers(&self, write: &[Mutation<'_>]) -> bool {
        let mut bytes = 0;
        let one = |mutation: &Mutation<'_>| {
            let (key, value) = (mutation.key().len(), mutation.value_bytes());
            bytes += record_bytes(key, value);
            (1..=KEY_BYTES_MAX).contains(&key) && value <= self.value_bytes_max
        };
        write.iter().all(one) && (1..=self.write_bytes_max).contains(&bytes)
    }
}

impl Core {
    /// Promises so much room, if there is so much.
    pub(crate) fn promise(&self, room: Room) -> Option<Promise> {
        if self.phase != Phase::Running || self.refuses_writes().is_some() || !self.queue.is_empty()
        {
            return None;
        }
        let (changes, bytes) = (room.changes as u64, room.bytes as u64);
        let records = changes * record_bytes(0, 0) as u64 + bytes;
        let live = self.live_bytes() + records;
        let pages = self.index.pages_bytes() + pages_of_several(room.changes, room.bytes);
        let reserve = RecoveryReserve {
            log_bytes: records,
            extent_bytes: 0,
        };
        let max = self.live_bytes_now(pages, reserve)?;
        let in_log = self.log_value_bytes_max();
        let value_bytes_max = in_log.min(self.settings.options.max_value_bytes);
        (live <= max).then(|| Promise {
            value_bytes_max: to_usize(value_bytes_max),
            write_bytes_max: to_usize(in_log),
        })
    }
}
