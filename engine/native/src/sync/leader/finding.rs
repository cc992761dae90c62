//! Gets of what neither the cache nor the engine has in memory. The thread that asks for one reads the leaf of the index itself, and the value, without the engine's lock: it holds that only
//! as the get begins, and between the two.
//!
//! Invariant: such a get has taken effect when it has begun. What is accepted later comes after it.

use std::sync::atomic::{AtomicU64, Ordering};

use kvsim_engine::{Find, Found, Reply, Request, Stats};

use super::held::Held;
use super::state::{Beside, Movable, Shared};
use crate::cache::borrowed::Value;
use crate::cache::rows::Stamp;
use crate::sync::effects::IoCounts;

/// What threads have read outside the engine's lock.
#[derive(Debug, Default)]
pub(super) struct ReadsOutside {
    index_reads: AtomicU64,
    value_reads: AtomicU64,
    bytes: AtomicU64,
    /// Values of the index that became rows, and that the engine was not told of.
    values: AtomicU64,
}

impl ReadsOutside {
    fn note(&self, bytes: usize, of_value: bool) {
        let reads = match of_value {
            true => &self.value_reads,
            false => &self.index_reads,
        };
        reads.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn add_to(&self, engine: &mut Stats, io: &mut IoCounts) {
        let index_reads = self.index_reads.load(Ordering::Relaxed);
        let value_reads = self.value_reads.load(Ordering::Relaxed);
        engine.index_reads += index_reads;
        engine.value_reads += value_reads;
        io.reads += index_reads + value_reads;
        io.read_bytes += self.bytes.load(Ordering::Relaxed);
    }
}

impl Shared {
    /// Gets the newest value of a key that the cache had not when it gave this stamp. Else the engine's reply.
    pub(crate) fn get(&self, key: &[u8], stamp: Stamp) -> Result<Option<Value>, Reply> {
        let _outside = self.outside();
        let (mut inside, mut find) = self.begin_find(key);
        while let Some(some) = find.take() {
            self.leave(inside);
            let of_value = some.is_of_value();
            let found = some.finish(
                |offset, len| {
                    self.reads_outside.note(len, of_value);
                    self.driver.read_here(offset, len)
                },
                |value| self.rows.fill_and_get(key, value, stamp),
            );
            match found {
                Ok(Found::Here(value)) => {
                    if !of_value {
                        self.reads_outside.values.fetch_add(1, Ordering::Relaxed);
                    }
                    return Ok(Some(value));
                }
                Ok(Found::Nowhere) => return Ok(None),
                Ok(Found::Elsewhere(found)) => {
                    inside = self.lock();
                    let engine = inside.engine.as_mut();
                    find = engine.and_then(|Movable(engine)| engine.learn(found));
                }
                // The engine reads again, and says what is wrong.
                Err(_) => inside = self.lock(),
            }
        }
        let beside = Beside {
            fill: Some((key, stamp)),
            ..Beside::default()
        };
        Err(self.ask(inside, Request::Get { snapshot: 0, key }, &beside))
    }

    /// Begins a get that this thread does itself, if that can be.
    fn begin_find(&self, key: &[u8]) -> (Held<'_>, Option<Find>) {
        let mut inside = self.lock();
        if self.recorder.is_some() || !self.rows.keeps_small() || !self.driver.reads_here() {
            return (inside, None);
        }
        // What was accepted so far has to be seen.
        drop(self.take_all_in(&mut inside));
        let engine = inside.engine.as_mut();
        let find = engine.and_then(|Movable(engine)| {
            engine.make_room_for_kept(self.reads_outside.values.swap(0, Ordering::Relaxed));
            engine.begin_find(key)
        });
        (inside, find)
    }
}
