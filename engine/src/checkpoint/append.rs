//! Keys that come behind all others, as those of a load in order or of a log do. Where they are many, a checkpoint writes them as partitions of their own. Added to the last
//! partition as a run they would be written once more with it, as soon as that has grown by half.
//!
//! Invariant: where such a partition begins, no run has a key from there on.

use crate::core::Core;
use crate::index::key::Key;
use crate::runtime::handle::Handle;

/// Keys that are looked at in one go.
const KEYS_PER_STEP: usize = 1024;
/// They have to be worth so much of a partition: two neighbours are then too large to become one.
const PARTITION_SHARE: u64 = 4;

/// The first key behind all that the runs have, if there are many of them. Clients go on meanwhile.
pub(super) async fn first_appended(handle: &Handle) -> Option<Key> {
    let (mut last, mut wanted) = handle.with(|core| {
        let last = core.runs.last_key()?.clone();
        Some((last, core.keys_worth_a_partition()))
    })?;
    let mut from = None;
    loop {
        let (first, end, keys) = handle.with(|core| {
            let mut some = core.index.behind(&last).take(KEYS_PER_STEP);
            let first = some.next()?;
            let (end, keys) = some.fold((first, 1), |(_, keys), key| (key, keys + 1));
            Some((first.clone(), end.clone(), keys))
        })?;
        let from = from.get_or_insert(first);
        if keys >= wanted {
            return Some(from.clone());
        }
        wanted -= keys;
        last = end;
        handle.give_way_to_clients().await;
    }
}

impl Core {
    /// So many keys of the mean size are worth a partition of their own.
    fn keys_worth_a_partition(&self) -> u64 {
        let pages = self.index.pages_bytes();
        let mean = pages / self.index.len().max(1);
        self.partition_bytes(pages) / PARTITION_SHARE / mean.max(1)
    }
}
