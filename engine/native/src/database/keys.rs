//! What is done with keys alone: their values are not read.

use kvsim_engine::{Direction, Durability, Mutation, Request, ScanRange, Status};

use super::{Database, done};
use crate::api::error::Failure;
use crate::api::key_range::{Bounds, KeyRange, successor};
use crate::scan::Keys;
use crate::sync::leader::{Beside, CaughtUp};

/// Keys that are looked at with the engine's lock held.
const PIECE_KEYS: u32 = 1024;
/// Keys that one frame of the log can have deletes of at most; what it cannot have, the engine refuses.
const ATOMIC_KEYS_MAX: u32 = 1 << 16;

fn too_many() -> Failure {
    Failure {
        status: Status::Invalid,
        message: "the range holds too many keys to be deleted at once: delete it in pieces".into(),
    }
}

impl Database {
    /// Removes all keys of a range, together or not at all. Says how many there were. Nobody sees some of them removed and others not, and keys that are put meanwhile
    /// come before all of it or after.
    ///
    /// All deletes have to fit into one frame of the log: with the options of this crate more than 10,000 keys of 60 bytes do. [`Database::delete_range_in_pieces`] has
    /// no such limit.
    ///
    /// # Errors
    /// As for [`Database::put`]; [`Status::Invalid`] too if there are too many keys. Then nothing was removed.
    ///
    /// ```
    /// # use kvsim_native::{Database, Durability, OpenOptions, Prefix};
    /// # let directory = tempfile::tempdir()?;
    /// # let database = Database::open(&directory.path().join("database"), &OpenOptions::default())?;
    /// for key in ["user/1", "user/2", "visit/1"] {
    ///     database.put(key.as_bytes(), b"", Durability::Relaxed)?;
    /// }
    /// assert_eq!(database.delete_range(Prefix("user/"), Durability::Durable)?, 2);
    /// assert_eq!(database.approximate_count(..)?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delete_range(
        &self,
        range: impl KeyRange,
        durability: Durability,
    ) -> Result<u64, Failure> {
        let bounds = Bounds::of(&range);
        let range = bounds.scan(0, Direction::Forward, ATOMIC_KEYS_MAX, u32::MAX);
        let mut keys = Keys::default();
        let (caught_up, more) = self.keys_now(&range, &mut keys)?;
        if more {
            return Err(too_many());
        }
        let deleted = self.delete_keys(caught_up, &keys, durability);
        // Keys that are there are well-formed: only their number can be refused.
        deleted.map_err(|failure| match failure.status {
            Status::Invalid => too_many(),
            _ => failure,
        })
    }

    /// Removes all keys of a range, a thousand or so at a time. Says how many there were. Each piece is removed whole or not at all; readers and a crash may find some
    /// pieces removed and others not, the smaller keys first. Keys that are put meanwhile may be removed or not.
    ///
    /// # Errors
    /// As for [`Database::put`]; what was removed stays removed.
    pub fn delete_range_in_pieces(
        &self,
        range: impl KeyRange,
        durability: Durability,
    ) -> Result<u64, Failure> {
        let mut deleted = 0;
        self.in_pieces(&range, |caught_up, keys| {
            deleted += self.delete_keys(caught_up, keys, Durability::Relaxed)?;
            Ok(())
        })?;
        if durability == Durability::Durable {
            self.sync()?;
        }
        Ok(deleted)
    }

    /// How many keys there are in a range: all are counted, a thousand or so at a time, without reading a value. With writes meanwhile the number is of no one moment.
    ///
    /// It takes about as long as walking the range in memory. Of all keys, `counts().engine.keys` is the number at once, see there.
    ///
    /// # Errors
    /// [`Failure`]: the database is closed.
    pub fn approximate_count(&self, range: impl KeyRange) -> Result<u64, Failure> {
        let mut count = 0;
        self.in_pieces(&range, |caught_up, keys| {
            drop(caught_up);
            count += keys.len() as u64;
            Ok(())
        })?;
        Ok(count)
    }

    /// The engine's lock with the keys of a range at this moment, and whether there are more.
    fn keys_now(
        &self,
        range: &ScanRange<'_>,
        keys: &mut Keys,
    ) -> Result<(CaughtUp<'_>, bool), Failure> {
        loop {
            keys.clear();
            let caught_up = self.0.shared.lock_caught_up();
            if let Some(more) = caught_up.scan_keys(range, |key| keys.push(key)) {
                return Ok((caught_up, more));
            }
            drop(caught_up);
            // Writes wait for room, or these keys are not in memory. This is answered when neither is so.
            done(self.call(Request::Know(*range)))?;
        }
    }

    /// Goes through the keys of a range in pieces, each with the engine's lock held.
    pub(super) fn in_pieces(
        &self,
        range: &impl KeyRange,
        mut act: impl FnMut(CaughtUp<'_>, &Keys) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut bounds = Bounds::of(range);
        let mut keys = Keys::default();
        loop {
            let range = bounds.scan(0, Direction::Forward, PIECE_KEYS, u32::MAX);
            let (caught_up, more) = self.keys_now(&range, &mut keys)?;
            let last = keys.iter().last().map(successor);
            act(caught_up, &keys)?;
            if !more || last.is_none() {
                return Ok(());
            }
            bounds.start = last;
        }
    }

    /// Removes these keys while nothing else was accepted since they were looked up.
    fn delete_keys(
        &self,
        caught_up: CaughtUp<'_>,
        keys: &Keys,
        durability: Durability,
    ) -> Result<u64, Failure> {
        self.refuse_if_read_only()?;
        if keys.len() == 0 && durability == Durability::Relaxed {
            return Ok(0);
        }
        let batch: Vec<_> = keys.iter().map(|key| Mutation::Delete { key }).collect();
        let draft = self.0.shared.rows.draft(&batch);
        let beside = Beside {
            draft: Some(&draft),
            ..Beside::default()
        };
        let request = Request::Write {
            mutations: &batch,
            durability,
        };
        done(caught_up.call(request, &beside))?;
        Ok(keys.len() as u64)
    }
}
