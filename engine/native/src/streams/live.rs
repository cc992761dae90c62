//! What a process knows of the streams of each prefix beside what is stored: ids, readers, and pieces that are to be removed. All handles of a database share it.
//!
//! Invariants:
//! - no id is given out twice, in this process or another. Ids are reserved many at a time: the bound is written before the first of them is used, and a crash leaves a
//!   prefix of the order of writes. So whatever a crash leaves of an id, it leaves the bound too;
//! - the pieces of an id are due only when no header names the id any more, and never will. They are handed out to be removed only while nobody reads them, and to one
//!   thread;
//! - the ids below `first` are those of earlier process runs. None of them is being written, so an entry that says to remove such an id holds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use crate::api::error::Failure;
use crate::lock::lock;

/// Ids that are reserved by one write.
const RESERVED_AT_ONCE: u64 = 1024;

/// The streams of each prefix that was asked for.
#[derive(Debug, Default)]
pub(crate) struct Registry(Mutex<BTreeMap<Box<[u8]>, Arc<Live>>>);

impl Registry {
    /// Those of this prefix; `id_bound` is the stored bound, read before. If they are known already, it does not count.
    pub(super) fn of(&self, prefix: &[u8], id_bound: u64) -> Arc<Live> {
        let mut all = lock(&self.0);
        let live = all
            .entry(prefix.into())
            .or_insert_with(|| Arc::new(Live::new(id_bound)));
        Arc::clone(live)
    }
}

/// The streams of one prefix.
#[derive(Debug)]
pub(super) struct Live {
    first: u64,
    ids: Mutex<Ids>,
    pieces: Mutex<Pieces>,
}

#[derive(Debug)]
struct Ids {
    next: u64,
    /// The stored bound.
    bound: u64,
}

#[derive(Debug, Default)]
struct Pieces {
    /// How many read the pieces of an id.
    readers: BTreeMap<u64, usize>,
    due: BTreeSet<u64>,
}

impl Live {
    fn new(id_bound: u64) -> Live {
        Live {
            first: id_bound,
            ids: Mutex::new(Ids {
                next: id_bound,
                bound: id_bound,
            }),
            pieces: Mutex::default(),
        }
    }

    /// An id that nobody had. `store` makes a new bound the stored one.
    pub(super) fn new_id(
        &self,
        store: impl FnOnce(u64) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let mut ids = lock(&self.ids);
        if ids.next == ids.bound {
            let bound = ids.bound + RESERVED_AT_ONCE;
            store(bound)?;
            ids.bound = bound;
        }
        ids.next += 1;
        Ok(ids.next - 1)
    }

    /// Whether this id is of an earlier process run.
    pub(super) fn is_of_earlier_run(&self, id: u64) -> bool {
        id < self.first
    }

    /// From now on the pieces of this id are read; what is handed out before is gone already.
    pub(super) fn begin_reading(&self, id: u64) {
        *lock(&self.pieces).readers.entry(id).or_default() += 1;
    }

    pub(super) fn end_reading(&self, id: u64) {
        let mut pieces = lock(&self.pieces);
        let readers = pieces.readers.get_mut(&id).expect("somebody reads it");
        *readers -= 1;
        if *readers == 0 {
            pieces.readers.remove(&id);
        }
    }

    /// The pieces of this id are to be removed.
    pub(super) fn make_due(&self, id: u64) {
        lock(&self.pieces).due.insert(id);
    }

    /// Hands out an id whose pieces can be removed now.
    pub(super) fn take_due(&self) -> Option<u64> {
        let mut pieces = lock(&self.pieces);
        let Pieces { readers, due } = &mut *pieces;
        let id = *due.iter().find(|id| !readers.contains_key(id))?;
        due.remove(&id);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvsim_engine::Status;

    /// Goal: ids come once, and only below a stored bound. Method: more than are reserved at once, a bound that cannot be stored, and another process run.
    #[test]
    fn no_id_comes_twice() {
        let live = Live::new(5);
        let mut stored = 5;
        for expected in 5..5 + 3 * RESERVED_AT_ONCE {
            let id = live.new_id(|bound| {
                assert!(bound > stored);
                stored = bound;
                Ok(())
            });
            assert_eq!(id, Ok(expected));
            assert!(expected < stored && !live.is_of_earlier_run(expected));
        }
        let full = Failure {
            status: Status::NoSpace,
            message: String::new(),
        };
        assert_eq!(live.new_id(|_| Err(full.clone())), Err(full));
        assert_eq!(Live::new(stored).new_id(|_| Ok(())), Ok(stored));
    }

    /// Goal: what somebody reads is not removed, and nothing is removed by two. Method: two readers of one of two ids.
    #[test]
    fn what_is_read_stays() {
        let live = Live::new(0);
        live.begin_reading(1);
        live.begin_reading(1);
        live.make_due(1);
        live.make_due(2);
        assert_eq!((live.take_due(), live.take_due()), (Some(2), None));
        live.end_reading(1);
        assert_eq!(live.take_due(), None);
        live.end_reading(1);
        assert_eq!((live.take_due(), live.take_due()), (Some(1), None));
    }
}
