//! Several reads or several writes in one call.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use kvsim_engine::{Direction, Durability, Request};

use super::batch::WriteBatch;
use super::snapshot::Snapshot;
use super::{Database, value};
use crate::api::error::Failure;
use crate::api::key_prefix::KeyPrefix;
use crate::api::key_range::{Bounds, successor};
use crate::cache::borrowed::Value;
use crate::sync::leader::Beside;
use crate::sync::waiter::Answer;

/// Reads of one call that are under way at once.
const READS_MAX: usize = 256;

impl Database {
    /// Whether there is such a key. The value is not read.
    ///
    /// # Errors
    /// [`Failure`]: the database is closed.
    ///
    /// ```
    /// # use kvsim_native::{Database, Durability, OpenOptions};
    /// # let directory = tempfile::tempdir()?;
    /// # let database = Database::open(&directory.path().join("database"), &OpenOptions::default())?;
    /// database.put(b"key", b"value", Durability::Relaxed)?;
    /// assert!(database.contains(b"key")? && !database.contains(b"kex")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn contains(&self, key: &[u8]) -> Result<bool, Failure> {
        if self.0.shared.rows.get_row(key).is_ok() {
            return Ok(true);
        }
        let bounds = Bounds {
            start: Some(key.to_vec()),
            end: Some(successor(key)),
        };
        let range = bounds.scan(0, Direction::Forward, 1, u32::MAX);
        let mut found = false;
        let caught_up = self.0.shared.lock_caught_up();
        match caught_up.scan_keys(&range, |_| found = true) {
            Some(_) => Ok(found),
            None => {
                drop(caught_up);
                Ok(self.get(key)?.is_some())
            }
        }
    }

    /// Reads several keys, in the order in which they are given. What is not in memory is read at the same time.
    ///
    /// Each is its newest value at some moment of the call, and all need not be of the same moment: for that, [`Snapshot::multi_get`]. A value that cannot be read affects
    /// no other.
    ///
    /// ```
    /// # use kvsim_native::{Database, Durability, OpenOptions};
    /// # let directory = tempfile::tempdir()?;
    /// # let database = Database::open(&directory.path().join("database"), &OpenOptions::default())?;
    /// database.put(b"b", b"value", Durability::Relaxed)?;
    /// let values = database.multi_get(&["a", "b"]).into_iter().collect::<Result<Vec<_>, _>>()?;
    /// assert!(values[0].is_none() && values[1].as_deref() == Some(b"value"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn multi_get(&self, keys: &[impl AsRef<[u8]>]) -> Vec<Result<Option<Value>, Failure>> {
        self.multi_get_within(KeyPrefix::default(), keys)
    }

    /// The same of keys that get this prefix.
    pub(crate) fn multi_get_within(
        &self,
        prefix: KeyPrefix,
        keys: &[impl AsRef<[u8]>],
    ) -> Vec<Result<Option<Value>, Failure>> {
        let ask = |key: &[u8]| {
            let stamp = match self.0.shared.rows.get(key) {
                Ok(value) => return Ok(value),
                Err(stamp) => stamp,
            };
            let beside = Beside {
                fill: Some((key, stamp)),
                ..Beside::default()
            };
            Err(self.send(Request::Get { snapshot: 0, key }, &beside))
        };
        self.get_all(keys, |key| prefix.with(key, ask))
    }

    /// Asks for each, and waits for all that have to be waited for.
    pub(super) fn get_all(
        &self,
        keys: &[impl AsRef<[u8]>],
        ask: impl Fn(&[u8]) -> Result<Value, Answer>,
    ) -> Vec<Result<Option<Value>, Failure>> {
        let mut values = Vec::with_capacity(keys.len());
        for some in keys.chunks(READS_MAX) {
            let asked: Vec<_> = some.iter().map(|key| ask(key.as_ref())).collect();
            values.extend(asked.into_iter().map(|asked| match asked {
                Ok(found) => Ok(Some(found)),
                Err(answer) => value(block_on(answer)),
            }));
        }
        values
    }

    /// Makes several writes that do not depend on each other, in their order, with one wait for the disk. Each batch is written whole or not at all, and has a result of
    /// its own; one that is refused affects no other.
    ///
    /// Durable ones are waited for together: if that fails, all that were taken have this failure, and whether they have an effect is seen at the next opening.
    ///
    /// ```
    /// # use kvsim_native::{Database, Durability, OpenOptions, WriteBatch};
    /// # let directory = tempfile::tempdir()?;
    /// # let database = Database::open(&directory.path().join("database"), &OpenOptions::default())?;
    /// let mut batches = vec![WriteBatch::new(); 3];
    /// batches[0].put(b"a", b"1");
    /// batches[1].put(b"", b"a key of no bytes is refused");
    /// batches[2].put(b"c", b"3");
    /// let results = database.apply_all(&batches, Durability::Durable);
    /// assert!(results[0].is_ok() && results[1].is_err() && results[2].is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn apply_all<'a>(
        &self,
        batches: impl IntoIterator<Item = &'a WriteBatch>,
        durability: Durability,
    ) -> Vec<Result<(), Failure>> {
        let taken = batches.into_iter();
        let taken = taken.map(|batch| self.apply(batch, Durability::Relaxed));
        let mut taken: Vec<_> = taken.collect();
        if durability == Durability::Durable
            && taken.iter().any(Result::is_ok)
            && let Err(failure) = self.sync()
        {
            for each in &mut taken {
                if each.is_ok() {
                    *each = Err(failure.clone());
                }
            }
        }
        taken
    }
}

impl Snapshot {
    /// Whether there was such a key. Its value is read.
    ///
    /// # Errors
    /// As for [`Database::get`].
    pub fn contains(&self, key: &[u8]) -> Result<bool, Failure> {
        Ok(self.get(key)?.is_some())
    }

    /// Reads several keys as they were, in the order in which they are given, at the same time. A value that cannot be read affects no other.
    pub fn multi_get(&self, keys: &[impl AsRef<[u8]>]) -> Vec<Result<Option<Value>, Failure>> {
        self.multi_get_within(KeyPrefix::default(), keys)
    }

    /// The same of keys that get this prefix.
    pub(crate) fn multi_get_within(
        &self,
        prefix: KeyPrefix,
        keys: &[impl AsRef<[u8]>],
    ) -> Vec<Result<Option<Value>, Failure>> {
        let snapshot = self.number();
        let ask = |key: &[u8]| {
            let request = Request::Get { snapshot, key };
            Err(self.database().send(request, &Beside::default()))
        };
        self.database().get_all(keys, |key| prefix.with(key, ask))
    }
}

/// Wakes a thread that waits for a task's answer.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for an answer that was asked for as tasks do.
fn block_on<T>(answer: impl Future<Output = T>) -> T {
    let mut answer = pin!(answer);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match answer.as_mut().poll(&mut context) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => std::thread::park(),
        }
    }
}
