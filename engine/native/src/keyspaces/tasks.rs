//! What blocks a thread, for tasks that are not to block.
//!
//! A write that has to wait for room is handed in by a later poll. So each poll that could do that holds off drops, and looks whether the keyspaces are still there.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use kvsim_engine::{Durability, Mutation, ScanRange};

use super::Keyspaces;
use super::batch::KeyspaceBatch;
use super::error::check_key;
use super::keyspace::Keyspace;
use super::snapshot::KeyspacesSnapshot;
use crate::api::error::Failure;
use crate::cache::borrowed::Value;
use crate::cache::entries::Entries;
use crate::database::writing::Writing;

/// A write of a task to some keyspaces of one database.
struct KeyspaceWriting<K> {
    keyspaces: K,
    writing: Writing,
}

impl<K: AsRef<[Keyspace]> + Unpin> Future for KeyspaceWriting<K> {
    type Output = Result<(), Failure>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let keyspaces = this.keyspaces.as_ref();
        let first = keyspaces.first().filter(|_| this.writing.is_waiting());
        let _held = first.map(|keyspace| keyspace.divided().hold());
        if this.writing.is_waiting()
            && let Err(dropped) = keyspaces.iter().try_for_each(|it| it.state().check())
        {
            // It was never handed in, and leaves its place to the next one.
            this.writing = Writing::Refused(Some(dropped));
        }
        Pin::new(&mut this.writing).poll(context)
    }
}

impl Keyspace {
    fn refused(&self, failure: Failure) -> KeyspaceWriting<[Keyspace; 1]> {
        KeyspaceWriting {
            keyspaces: [self.clone()],
            writing: Writing::Refused(Some(failure)),
        }
    }

    fn write_async(
        &self,
        key: &[u8],
        mutation: impl FnOnce(&[u8]) -> Writing,
    ) -> KeyspaceWriting<[Keyspace; 1]> {
        let _held = self.divided().hold();
        let checked = check_key(key).and_then(|()| self.state().check());
        match checked {
            Ok(()) => KeyspaceWriting {
                keyspaces: [self.clone()],
                writing: self.prefix().with(key, mutation),
            },
            Err(failure) => self.refused(failure),
        }
    }

    /// Sets a key, for a task that is not to block. When it is handed in: see [`Database::put_async`](crate::Database::put_async). A write that waits for room when the
    /// keyspace is dropped is refused, and is never made.
    pub fn put_async(
        &self,
        key: &[u8],
        value: &[u8],
        durability: Durability,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        self.write_async(key, |key| {
            let put = [Mutation::Put { key, value }];
            Writing::new(self.database(), &put, durability)
        })
    }

    /// Removes a key. When it is handed in: see [`Keyspace::put_async`].
    pub fn delete_async(
        &self,
        key: &[u8],
        durability: Durability,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        self.write_async(key, |key| {
            let delete = [Mutation::Delete { key }];
            Writing::new(self.database(), &delete, durability)
        })
    }

    /// Reads a key, for a task that is not to block.
    pub fn get_async(
        &self,
        key: &[u8],
    ) -> impl Future<Output = Result<Option<Value>, Failure>> + Send + use<> {
        let get = |key: &[u8]| self.database().get_async(key);
        let answer = self.prefix().with(key, get);
        let state = Arc::clone(self.state());
        async move {
            let found = answer.await;
            state.check()?;
            found
        }
    }

    /// Reads a range; the snapshot that the range names does not count.
    pub fn scan_async(
        &self,
        range: &ScanRange<'_>,
    ) -> impl Future<Output = Result<Entries, Failure>> + Send + use<> {
        let bounds = self.scan_bounds(range);
        let range = bounds.scan(0, range.direction, range.limit, range.max_bytes);
        let answer = self.database().scan_async(&range);
        let state = Arc::clone(self.state());
        async move {
            let found = answer.await;
            state.check()?;
            Ok(found?.without(state.prefix.len()))
        }
    }
}

impl Keyspaces {
    /// Writes all of a batch or nothing. When it is handed in: see [`Keyspace::put_async`].
    pub fn apply_async(
        &self,
        batch: &KeyspaceBatch,
        durability: Durability,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        let _held = self.0.hold();
        let writing = match batch.named().check(&self.0) {
            Ok(()) => {
                let writes: Vec<Mutation<'_>> = batch.raw().iter().collect();
                Writing::new(&self.0.database, &writes, durability)
            }
            Err(failure) => Writing::Refused(Some(failure)),
        };
        let keyspaces: Vec<Keyspace> = batch.named().keyspaces().cloned().collect();
        KeyspaceWriting { keyspaces, writing }
    }

    /// Ends once everything that was accepted before this call is durable, in all keyspaces.
    pub fn sync_async(&self) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        self.0.database.sync_async()
    }

    /// Takes a snapshot of everything that was accepted before this call, in all keyspaces.
    ///
    /// ```
    /// # use kvsim_native::{Durability, OpenOptions};
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("database");
    /// # let keyspaces = OpenOptions::new().size_bytes(16 << 20).open_keyspaces(&path)?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// let users = keyspaces.create("users")?;
    /// users.put_async(b"1", b"Ada", Durability::Relaxed).await?;
    /// let snapshot = keyspaces.snapshot_async().await?;
    /// users.delete_async(b"1", Durability::Durable).await?;
    /// assert!(snapshot.contains(&users, b"1")? && users.get_async(b"1").await?.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot_async(
        &self,
    ) -> impl Future<Output = Result<KeyspacesSnapshot, Failure>> + Send + use<> {
        let held = self.0.hold();
        let answer = self.0.database.snapshot_async();
        let drops = self.0.drops(&held);
        let divided = Arc::clone(&self.0);
        async move { Ok(KeyspacesSnapshot::new(&divided, answer.await?, drops)) }
    }
}

impl KeyspacesSnapshot {
    /// Reads a key of a keyspace as it was.
    pub fn get_async(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
    ) -> impl Future<Output = Result<Option<Value>, Failure>> + Send + use<> {
        let answer = self.check(keyspace).map(|()| {
            let get = |key: &[u8]| self.raw().get_async(key);
            keyspace.prefix().with(key, get)
        });
        async move { answer?.await }
    }

    /// Reads a range of the keys of a keyspace as they were; the snapshot that the range names does not count.
    pub fn scan_async(
        &self,
        keyspace: &Keyspace,
        range: &ScanRange<'_>,
    ) -> impl Future<Output = Result<Entries, Failure>> + Send + use<> {
        let prefix = keyspace.prefix();
        let bounds = keyspace.scan_bounds(range);
        let range = bounds.scan(0, range.direction, range.limit, range.max_bytes);
        let answer = self.check(keyspace).map(|()| self.raw().scan_async(&range));
        async move { Ok(answer?.await?.without(prefix.len())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::options::OpenOptions;
    use crate::sync::gate::Entry;
    use std::pin::pin;
    use std::task::Waker;

    type Write = Pin<Box<dyn Future<Output = Result<(), Failure>>>>;

    /// Goal: a write that waits for room while its keyspace is dropped is refused and not made, and others that wait are made. Method: a write that there is no room beside is
    /// under way; puts, a delete and a batch come after it, and it ends after the drop.
    #[test]
    fn a_waiting_write_does_not_outlast_the_drop() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        let options = OpenOptions::new().size_bytes(16 << 20);
        let keyspaces = options.open_keyspaces(directory.path().join("database"));
        let keyspaces = keyspaces.expect("it opens");
        let [gone, stays] =
            ["gone", "stays"].map(|name| keyspaces.create(name).expect("there is room"));
        let gate = &gone.database().shared().gate;
        let all = usize::MAX / 2;
        assert!(matches!(gate.enter(all, None), Entry::In(_)));
        let durable = Durability::Durable;
        let mut batch = KeyspaceBatch::new();
        batch.put(&stays, b"batch", b"").put(&gone, b"batch", b"");
        let mut refused: [Write; 3] = [
            Box::pin(gone.put_async(b"put", b"", durable)),
            Box::pin(gone.delete_async(b"put", durable)),
            Box::pin(keyspaces.apply_async(&batch, durable)),
        ];
        let mut made = pin!(stays.put_async(b"put", b"", durable));
        let mut context = Context::from_waker(Waker::noop());
        // One waits in its place already; the others were never polled.
        assert!(refused[0].as_mut().poll(&mut context).is_pending());
        keyspaces.drop_keyspace("gone").expect("it is there");
        gate.leave(all).into_iter().for_each(Waker::wake);
        for write in &mut refused {
            let Poll::Ready(Err(dropped)) = write.as_mut().poll(&mut context) else {
                panic!("it is refused at once");
            };
            assert!(dropped.message.contains("`gone` was dropped"), "{dropped}");
        }
        while made.as_mut().poll(&mut context).is_pending() {
            std::thread::yield_now();
        }
        assert_eq!(stays.approximate_count(..), Ok(1));
        let left = gone.database().approximate_count(gone.prefix().bounds(&..));
        assert_eq!(left, Ok(0), "nothing of it is in the file");
    }
}
