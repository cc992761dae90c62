//! What tasks hold of the engine: operations of their own, and conditions on the core to wait for.
//!
//! Invariant: nobody holds the core across an `await`, so a task and the data plane never meet inside it.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::api::buffer::IoBuf;
use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::api::port::{DiskOp, IoResult};
use crate::core::Core;
use crate::mutant::{Mutant, mutant};

/// What a task holds of the engine.
#[derive(Clone)]
pub(crate) struct Handle(Rc<RefCell<Core>>);

impl Handle {
    pub(crate) fn new(core: Rc<RefCell<Core>>) -> Handle {
        Handle(core)
    }

    /// Looks at the core, or changes it. Not across an `await`, by construction.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Core) -> R) -> R {
        f(&mut self.0.borrow_mut())
    }

    /// Submits at once; the future waits for the end.
    pub(crate) fn io(&self, op: DiskOp) -> Io {
        let tag = self.with(|core| core.submit_for_task(op));
        Io {
            handle: self.clone(),
            tag: Some(tag),
        }
    }

    pub(crate) fn read(&self, offset: u64, len: u64) -> Io {
        let len = crate::format::to_usize(len);
        // Whatever it holds is overwritten.
        let buffer = self.with(|core| core.log.pool.take(len));
        self.io(DiskOp::Read { offset, buffer })
    }

    /// Takes back the buffer of a read.
    pub(crate) fn give(&self, buffer: IoBuf) {
        self.with(|core| core.log.pool.give(buffer));
    }

    /// Reads, and once more if that fails.
    pub(crate) async fn read_retry(&self, offset: u64, len: u64) -> Result<IoBuf, Error> {
        self.retry(self.read(offset, len), offset, len).await
    }

    /// What this read brings, or the same read once more if it fails.
    pub(crate) async fn retry(&self, begun: Io, offset: u64, len: u64) -> Result<IoBuf, Error> {
        let result = match begun.await {
            Err(_) => {
                self.with(|core| core.reached(CoveragePoint::ReadRetried));
                self.read(offset, len).await
            }
            ok => ok,
        };
        Ok(result?.expect("a read brings its buffer"))
    }

    pub(crate) fn write(&self, offset: u64, data: IoBuf, through: bool) -> Io {
        self.io(DiskOp::Write {
            offset,
            data: Arc::new(data),
            through,
        })
    }

    /// A flush if the device has anything to flush, alone (see [`crate::commit::group`]). An error poisons. Nor does it count if another write or flush has failed by its
    /// end: what it should have made durable may have been dropped before. Says how long it took, in ns, waiting for its turn left out.
    pub(crate) async fn flush(&self) -> Result<u64, Error> {
        let mut took_ns = 0;
        if self.with(|core| core.settings.device.volatile_cache) {
            self.until(Core::begin_task_flush).await?;
            let began = self.with(|core| core.now);
            let result = self.io(DiskOp::Flush).await;
            took_ns = self.with(|core| {
                core.end_task_flush();
                core.now - began
            });
            self.poisoning(result)?;
        }
        if !mutant(Mutant::OthersFailureIgnored) {
            self.with(|core| core.unpoisoned())?;
        }
        Ok(took_ns)
    }

    /// A failed write or flush makes the database read-only, whoever issued it.
    pub(crate) fn poisoning(&self, result: IoResult) -> Result<(), Error> {
        result.map(|_| ()).map_err(|error| {
            self.with(|core| core.poison(error));
            Error::Poisoned(error)
        })
    }

    /// Waits for the end of all these writes. An error poisons.
    pub(crate) async fn await_writes(&self, writes: Vec<Io>) -> Result<(), Error> {
        let mut results = Vec::with_capacity(writes.len());
        for write in writes {
            results.push(write.await);
        }
        results
            .into_iter()
            .try_for_each(|result| self.poisoning(result))
    }

    /// Waits until the condition yields something.
    pub(crate) async fn until<T>(&self, mut condition: impl FnMut(&mut Core) -> Option<T>) -> T {
        std::future::poll_fn(|_| match self.with(&mut condition) {
            Some(value) => Poll::Ready(value),
            None => Poll::Pending,
        })
        .await
    }

    /// Lets the call end, so that long work does not delay clients. The work goes on in the next call, whatever that
    /// call is for. Does nothing where a client waits for this very work.
    pub(crate) async fn give_way(&self) {
        let call = self.with(|core| core.calls);
        self.until(|core| core.may_go_on(call).then_some(())).await;
    }

    /// The same for a checkpoint.
    pub(crate) async fn give_way_to_clients(&self) {
        let (call, at) = self.with(|core| (core.calls, core.now));
        self.until(|core| core.checkpoint_may_go_on(call, at).then_some(()))
            .await;
    }

    /// The same for work that no client waits for, unless there is one that does: it gives way to reads as well.
    pub(crate) async fn give_way_to_all(&self) {
        let at = self.with(|core| core.now);
        self.until(|core| core.may_go_on_unhurried(at).then_some(()))
            .await;
    }
}

/// One operation under way. Nobody waits for its end any more when this is dropped.
pub(crate) struct Io {
    handle: Handle,
    /// Until its result was taken.
    tag: Option<u64>,
}

impl Future for Io {
    type Output = IoResult;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<IoResult> {
        let tag = self.tag.expect("a result is taken once");
        match self.handle.with(|core| core.in_flight.take(tag)) {
            Some(result) => {
                self.tag = None;
                Poll::Ready(result)
            }
            None => Poll::Pending,
        }
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        if let Some(tag) = self.tag {
            self.handle.with(|core| core.in_flight.abandon(tag));
        }
    }
}
