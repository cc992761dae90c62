//! What blocks a thread, for tasks that are not to block. (Puts, batches of borrowed writes and gets are in `database.rs`.)

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use kvsim_engine::{Durability, Mutation, Reply, Request, ScanRange};

use super::batch::WriteBatch;
use super::snapshot::Snapshot;
use super::{Database, done, failed, value};
use crate::api::error::Failure;
use crate::cache::borrowed::Value;
use crate::cache::entries::Entries;
use crate::lock::lock;
use crate::sync::leader::Beside;
use crate::sync::waiter::Answer;

impl Database {
    /// Removes a key. When it is handed in: see [`Database::put_async`].
    pub fn delete_async(
        &self,
        key: &[u8],
        durability: Durability,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        self.write_async(&[Mutation::Delete { key }], durability)
    }

    /// Writes all of a batch or nothing. When it is handed in: see [`Database::put_async`].
    pub fn apply_async(
        &self,
        batch: &WriteBatch,
        durability: Durability,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        let writes: Vec<Mutation<'_>> = batch.iter().collect();
        self.write_async(&writes, durability)
    }

    /// Ends once everything that was accepted before this call is durable.
    pub fn sync_async(&self) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        let answer = self.send(Request::Sync, &Beside::default());
        async { done(answer.await) }
    }

    /// Takes a snapshot of everything that was accepted before this call.
    ///
    /// ```
    /// # use kvsim_native::{Database, Durability, OpenOptions};
    /// # let directory = tempfile::tempdir()?;
    /// # let database = OpenOptions::new().size_bytes(16 << 20).open(directory.path().join("a"))?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// database.put_async(b"key", b"old", Durability::Relaxed).await?;
    /// let snapshot = database.snapshot_async().await?;
    /// database.delete_async(b"key", Durability::Durable).await?;
    /// assert_eq!(snapshot.get_async(b"key").await?.as_deref(), Some(&b"old"[..]));
    /// # Ok::<(), kvsim_native::Failure>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot_async(&self) -> impl Future<Output = Result<Snapshot, Failure>> + Send + use<> {
        Taking {
            answer: Some(self.send(Request::Snapshot, &Beside::default())),
            database: self.clone(),
        }
    }

    /// Reads a range.
    pub fn scan_async(
        &self,
        range: &ScanRange<'_>,
    ) -> impl Future<Output = Result<Entries, Failure>> + Send + use<> {
        let found = self.0.shared.scan_rows(range);
        let answer = found.map_err(|unanswered| {
            // It may hold the lock.
            drop(unanswered);
            self.send(Request::Scan(*range), &Beside::default())
        });
        async move {
            let answer = match answer {
                Ok(found) => return Ok(found),
                Err(answer) => answer.await,
            };
            match answer {
                Reply::Entries { entries, more } => Ok(Entries::read(entries, more)),
                other => Err(failed(other)),
            }
        }
    }
}

/// A snapshot that is being taken. Dropped before it is there, it is released when it comes.
struct Taking {
    /// There until it has come.
    answer: Option<Answer>,
    database: Database,
}

impl Future for Taking {
    type Output = Result<Snapshot, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = self
            .answer
            .as_mut()
            .expect("it is polled until it is ready");
        let Poll::Ready(reply) = Pin::new(answer).poll(context) else {
            return Poll::Pending;
        };
        self.answer = None;
        Poll::Ready(match reply {
            Reply::Snapshot(number) => Ok(Snapshot::new(&self.database, number)),
            other => Err(failed(other)),
        })
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            let taking = Taking {
                answer: Some(answer),
                database: self.database.clone(),
            };
            Arc::new(Forgotten(Mutex::new(Some(taking)))).wake();
        }
    }
}

/// Waits for a snapshot in the place of whoever does not want it any more.
struct Forgotten(Mutex<Option<Taking>>);

impl Wake for Forgotten {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(Arc::clone(&self));
        let mut taking = lock(&self.0);
        let polled = taking
            .as_mut()
            .map(|taking| Pin::new(taking).poll(&mut Context::from_waker(&waker)));
        if !matches!(polled, Some(Poll::Pending)) {
            let done = taking.take();
            drop(taking);
            drop((polled, done));
        }
    }
}

impl Snapshot {
    /// Reads a key as it was.
    pub fn get_async(
        &self,
        key: &[u8],
    ) -> impl Future<Output = Result<Option<Value>, Failure>> + Send + use<> {
        let snapshot = self.number();
        let request = Request::Get { snapshot, key };
        let answer = self.database().send(request, &Beside::default());
        async { value(answer.await) }
    }

    /// Reads a range as it was; the snapshot that the range names does not count.
    pub fn scan_async(
        &self,
        range: &ScanRange<'_>,
    ) -> impl Future<Output = Result<Entries, Failure>> + Send + use<> {
        let snapshot = self.number();
        self.database()
            .scan_async(&ScanRange { snapshot, ..*range })
    }
}
