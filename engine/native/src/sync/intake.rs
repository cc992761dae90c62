//! Small relaxed writes, which are accepted before the engine has them. Their rows are in the cache. If another thread
//! is at work in the engine, their clients go on, and the thread that lets the engine's lock go hands the writes in,
//! many at a time. So clients neither wait for the lock nor pass the engine's memory from processor to processor with
//! each write. (Serving many requests by the lock's holder is flat combining: Hendler, Incze, Shavit and Tzafrir, SPAA
//! 2010.)
//!
//! Invariants:
//! - a write is accepted only within the room that the engine has promised, so nothing that was acknowledged is refused
//!   later (see the engine's `promise`);
//! - writes are accepted, enter the cache, and reach the engine in one order. A thread that hands anything else in
//!   first hands in what lies here. A write that goes to the engine directly does so with the intake closed;
//! - every write that lies here is handed in: the thread that accepts a write then tries the engine's lock, and a
//!   thread that has let the lock go looks here. Where somebody combines (see `leader/combining.rs`), that one does.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard};

use kvsim_engine::{Durability, Mutation, Promise, Reply, Request, RequestId, Room};

use crate::cache::accepted::Accepted;
use crate::cache::draft::Draft;
use crate::cache::rows::Rows;
use crate::lock::lock;
use crate::record::Recorder;

/// What is accepted at most before it is handed in.
pub(crate) const ROOM: Room = Room {
    changes: 256,
    bytes: 256 << 10,
};
/// The same where nobody combines (see `leader/combining.rs`): whoever waits for the engine waits behind it.
pub(crate) const CHANGES_APART: usize = 64;
/// The number that recordings know accepted writes by: each is answered as soon as it is noted, so they can share one.
const RECORDED_AS: RequestId = RequestId::MAX;

/// What became of a write.
pub(crate) enum Outcome {
    /// So many in a row were of this thread, this one included.
    Accepted(u32),
    /// There will be room when somebody has handed in what lies here.
    Full,
    /// It has to go to the engine directly.
    Refused,
}

#[derive(Default)]
pub(crate) struct Queue {
    /// Of the engine, for as much as may lie here. Without one nothing is accepted.
    promise: Option<Promise>,
    changes: Vec<Accepted>,
    bytes: usize,
    /// Whose the last write was, and how many in a row.
    writer: Writer,
    streak: u32,
}

/// A thread, by an address that is its own.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Writer(usize);

impl Writer {
    fn mine() -> Writer {
        thread_local! {
            static MINE: u8 = const { 0 };
        }
        Writer(MINE.with(|it| std::ptr::from_ref(it).addr()))
    }
}

#[derive(Default)]
pub(crate) struct Intake {
    waiting: AtomicUsize,
    /// Whether the engine has promised anything: who finds that it has not need not wait for the queue, which somebody at work may hold.
    is_promised: AtomicBool,
    queue: Mutex<Queue>,
}

impl Intake {
    /// Whether something lies here. What the caller did before, everybody sees who accepts a write from now on.
    pub(crate) fn is_waiting(&self) -> bool {
        fence(Ordering::SeqCst);
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// The same at a glance: not all that was accepted before may be seen.
    pub(crate) fn seems_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Nothing is accepted as long as this is held.
    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    /// What the engine promises from now on.
    pub(crate) fn set_promise(&self, queue: &mut Queue, promise: Option<Promise>) {
        self.is_promised.store(promise.is_some(), Ordering::Release);
        queue.promise = promise;
    }

    /// Takes out what lies there, in exchange for memory to go on with.
    pub(crate) fn take(&self, queue: &mut Queue, memory: Vec<Accepted>) -> Vec<Accepted> {
        assert!(memory.is_empty(), "it is memory and nothing else");
        queue.bytes = 0;
        self.waiting.store(0, Ordering::SeqCst);
        std::mem::replace(&mut queue.changes, memory)
    }

    /// Accepts a write, if it may be: then it is in the cache, and acknowledged. No more than so many changes lie here then, unless it alone has more.
    pub(crate) fn accept(
        &self,
        draft: &Draft<'_>,
        changes_max: usize,
        rows: &Rows,
        recorder: Option<&Recorder>,
    ) -> Outcome {
        let batch = draft.batch();
        let bytes: usize = batch.iter().map(Mutation::bytes).sum();
        let fits = batch.len() <= ROOM.changes && bytes <= ROOM.bytes;
        if !fits || !self.is_promised.load(Ordering::Acquire) {
            return Outcome::Refused;
        }
        let mut queue = self.queue();
        if !queue.promise.is_some_and(|it| it.covers(batch)) {
            return Outcome::Refused;
        }
        let is_full = queue.changes.len() + batch.len() > changes_max.max(batch.len());
        if is_full || queue.bytes + bytes > ROOM.bytes {
            return Outcome::Full;
        }
        if let Some(recorder) = recorder {
            let (mutations, durability) = (batch, Durability::Relaxed);
            let request = Request::Write {
                mutations,
                durability,
            };
            recorder.handed_in(RECORDED_AS, &request);
            recorder.answered(RECORDED_AS, &Reply::Done);
        }
        queue.bytes += bytes;
        draft.copy_to(&mut queue.changes);
        self.waiting.store(queue.changes.len(), Ordering::SeqCst);
        rows.apply(draft);
        let writer = Writer::mine();
        queue.streak = match queue.writer == writer {
            true => queue.streak.saturating_add(1),
            false => 1,
        };
        queue.writer = writer;
        let streak = queue.streak;
        drop(queue);
        // Whoever lets the engine's lock go from now on sees that something lies here; who has done so before has left it free.
        fence(Ordering::SeqCst);
        Outcome::Accepted(streak)
    }
}
