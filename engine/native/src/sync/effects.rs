//! Where the engine's effects go: operations to the driver, replies to whoever waits for them, messages to the log.
//!
//! Invariants: replies are delivered in the order in which the engine gave them. With a reply, a row is filled or a
//! fence goes, if the reply allows it, before any thread sees the reply.

use std::sync::Arc;
use std::task::Waker;

use kvsim_engine::{DiskOp, Level, Port, Reply, RequestId, Status};

use crate::api::event::Event;
use crate::cache::rows::{Rows, Stamp};
use crate::io::driver::Driver;
use crate::record::Recorder;
use crate::sync::events::Events;
use crate::sync::waiter::{Receiver, ThreadWaiter};

/// A request under way.
pub(crate) struct Pending {
    receiver: Receiver,
    /// A read whose value may be kept, and when it began.
    pub(crate) fill: Option<(Box<[u8]>, Stamp)>,
    /// Keys that are fenced until the reply.
    pub(crate) fenced: Vec<Box<[u8]>>,
}

/// Where the engine's effects go.
pub(crate) struct Effects {
    driver: Arc<dyn Driver>,
    rows: Arc<Rows>,
    pub(crate) pending: Vec<Option<Pending>>,
    free: Vec<usize>,
    /// Operations under way.
    pub(crate) in_flight: usize,
    /// Some of them were queued and not begun.
    pub(crate) queued: bool,
    pub(crate) told: Vec<Arc<ThreadWaiter>>,
    pub(crate) wakers: Vec<Waker>,
    /// The request that is being handed in, and whether it was refused. Others may fail beside it.
    pub(crate) current: Option<RequestId>,
    pub(crate) is_refused: bool,
    pub(crate) counts: IoCounts,
    pub(crate) recorder: Option<Recorder>,
    /// Where events go, if anybody listens.
    pub(crate) events: Option<Events>,
    /// Those that came before the opening was told.
    early: Vec<kvsim_engine::Event>,
    is_open: bool,
    /// The request that closes the open database.
    closing: Option<RequestId>,
}

/// What was asked of the disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IoCounts {
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes, write-through ones included.
    pub writes: u64,
    /// Writes that were durable when they ended.
    pub through_writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Bytes of zeroes that a new file, or a longer one, was filled with.
    pub grown_bytes: u64,
}

impl Port for Effects {
    fn submit(&mut self, tag: u64, op: DiskOp) {
        match &op {
            DiskOp::Read { buffer, .. } => {
                self.counts.reads += 1;
                self.counts.read_bytes += buffer.len() as u64;
            }
            DiskOp::Write { data, through, .. } => {
                self.counts.writes += 1;
                self.counts.through_writes += u64::from(*through);
                self.counts.written_bytes += data.len() as u64;
            }
            DiskOp::Flush => self.counts.flushes += 1,
            DiskOp::Discard { .. } | DiskOp::Grow { .. } => {}
        }
        self.in_flight += 1;
        self.queued = true;
        self.driver.queue(tag, op);
    }

    fn reply(&mut self, id: RequestId, reply: Reply) {
        if let Some(recorder) = &self.recorder {
            recorder.answered(id, &reply);
        }
        let index = usize::try_from(id).expect("ids are indices");
        let pending = self.pending[index].take().expect("a reply comes once");
        self.free.push(index);
        for key in pending.fenced {
            self.rows.unfence(&key);
        }
        if let (Some((key, stamp)), Reply::Value(value)) = (pending.fill, &reply) {
            self.rows.fill(&key, value, stamp);
        }
        if self.closing == Some(id) {
            let clean = matches!(reply, Reply::Done);
            self.end_with(Event::Closed { clean });
        }
        self.is_refused |= self.current == Some(id) && matches!(reply, Reply::Failed(..));
        match pending.receiver {
            Receiver::Thread(waiter) => {
                waiter.put(reply);
                self.told.push(waiter);
            }
            Receiver::Task(completion) => self.wakers.extend(completion.put(reply)),
        }
    }

    fn log(&mut self, level: Level, text: &str) {
        match level {
            Level::Error => tracing::error!(target: "kvsim_engine", "{text}"),
            Level::Warn => tracing::warn!(target: "kvsim_engine", "{text}"),
            Level::Info => tracing::info!(target: "kvsim_engine", "{text}"),
            Level::Debug => tracing::debug!(target: "kvsim_engine", "{text}"),
        }
    }

    fn happened(&mut self, event: kvsim_engine::Event) {
        match &self.events {
            None => {}
            Some(events) if self.is_open => events.put_engines(event),
            Some(_) => self.early.push(event),
        }
    }
}

impl Effects {
    pub(crate) fn new(
        driver: Arc<dyn Driver>,
        rows: Arc<Rows>,
        recorder: Option<Recorder>,
    ) -> Effects {
        Effects {
            driver,
            rows,
            pending: Vec::new(),
            free: Vec::new(),
            in_flight: 0,
            queued: false,
            told: Vec::new(),
            wakers: Vec::new(),
            current: None,
            is_refused: false,
            counts: IoCounts::default(),
            recorder,
            events: None,
            early: Vec::new(),
            is_open: false,
            closing: None,
        }
    }

    /// The database is open: that comes before all other events.
    pub(crate) fn opened(&mut self, opened: Event) {
        self.is_open = true;
        let early = std::mem::take(&mut self.early);
        if let Some(events) = &self.events {
            events.put(opened);
            early
                .into_iter()
                .for_each(|event| events.put_engines(event));
        }
    }

    /// This request closes the database.
    pub(crate) fn closes(&mut self, id: RequestId) {
        if self.is_open && self.closing.is_none() {
            self.closing = Some(id);
        }
    }

    fn end_with(&mut self, last: Event) {
        self.closing = None;
        if std::mem::take(&mut self.is_open)
            && let Some(events) = self.events.take()
        {
            events.put(last);
        }
    }

    /// There is no engine any more, and whoever waits for a reply is told so; but for this thread, which panics.
    pub(crate) fn give_up(&mut self) {
        self.end_with(Event::GaveUp);
        let message = "the engine has panicked: whether this was done is seen when the database is opened anew";
        for index in 0..self.pending.len() {
            if self.pending[index].is_some() {
                let failed = Reply::Failed(Status::IoError, message.to_owned());
                self.reply(index as RequestId, failed);
            }
        }
        let me = ThreadWaiter::mine();
        self.told.retain(|waiter| !Arc::ptr_eq(waiter, &me));
        drop(me.take());
    }

    /// A place for the reply to a new request.
    pub(crate) fn expect(&mut self, receiver: Receiver) -> RequestId {
        let pending = Some(Pending {
            receiver,
            fill: None,
            fenced: Vec::new(),
        });
        let index = match self.free.pop() {
            Some(index) => {
                self.pending[index] = pending;
                index
            }
            None => {
                self.pending.push(pending);
                self.pending.len() - 1
            }
        };
        index as RequestId
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::options::{DriverChoice, OpenOptions};
    use crate::io::driver::{self, Driver};
    use crate::io::file::DataFile;
    use crate::sync::waiter::TaskCompletion;

    /// Goal: whether a write was refused is known whatever else fails in the same call. Method: it fails, and then another request.
    #[test]
    fn a_refusal_is_not_forgotten_for_another() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        let file = DataFile::open(&directory.path().join("file"), &OpenOptions::default());
        let file = Arc::new(file.expect("a file"));
        let (driver, _) = driver::choose(&file, DriverChoice::Threads).expect("a driver");
        let driver: Arc<dyn Driver> = Arc::from(driver);
        let mut effects = Effects::new(driver, Arc::new(Rows::new(1 << 20)), None);
        let mut expect = || effects.expect(Receiver::Task(Arc::new(TaskCompletion::default())));
        let (other, mine) = (expect(), expect());
        (effects.current, effects.is_refused) = (Some(mine), false);
        let failed = |text: &str| Reply::Failed(Status::NoSpace, text.to_owned());
        effects.reply(mine, failed("mine"));
        effects.reply(other, failed("another"));
        assert!(effects.is_refused);
    }
}
