//! Whoever waits for a reply: a thread that sleeps, or a task that is woken.
//!
//! Invariants: a reply is delivered before its waiter is told. A waiter is told once. A thread spins only while its own
//! request is under way, and only for a few turns of the scheduler.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::Thread;
use std::time::Duration;

use kvsim_engine::{Reply, Request};

use crate::lock::lock;
use crate::sync::gate::Gate;

/// How often a thread gives way to others before it goes to sleep. On a machine with few processors the others are those that
/// it waits for, and a turn costs a fraction of a sleep.
const TURNS: u32 = 50;
/// The same where it waits for what is read. Reads end one by one, and who gives way takes turns from those that are at work; the commits of a group all end at once.
const TURNS_OF_READ: u32 = 15;

/// Bits of a waiter's state.
const WAITING: u32 = 0;
const ASLEEP: u32 = 1;
const READY: u32 = 2;
const LEAD: u32 = 4;

/// Why a thread stopped waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// Its reply is there, or there is work for it.
    Ready,
    /// It is to lead: to wait for the disk on behalf of all.
    Lead,
}

/// Where a thread waits for a reply.
pub(crate) struct ThreadWaiter {
    state: AtomicU32,
    /// How often the thread gives way before it sleeps.
    turns: AtomicU32,
    thread: Thread,
    reply: Mutex<Option<Reply>>,
}

thread_local! {
    static WAITER: RefCell<Arc<ThreadWaiter>> = RefCell::new(Arc::new(ThreadWaiter::new()));
}

impl ThreadWaiter {
    pub(crate) fn new() -> ThreadWaiter {
        ThreadWaiter {
            state: AtomicU32::new(WAITING),
            turns: AtomicU32::new(TURNS),
            thread: std::thread::current(),
            reply: Mutex::new(None),
        }
    }

    /// The waiter of this thread, which waits for one reply at a time.
    pub(crate) fn mine() -> Arc<ThreadWaiter> {
        WAITER.with_borrow(Arc::clone)
    }

    /// Gives this thread a new waiter. A reply that is still put into the old one is dropped.
    pub(crate) fn change() {
        WAITER.set(Arc::new(ThreadWaiter::new()));
    }

    pub(crate) fn is_of_this_thread(&self) -> bool {
        self.thread.id() == std::thread::current().id()
    }

    /// Makes the waiter ready for a request.
    pub(crate) fn reset_for(&self, request: &Request<'_>) {
        let turns = match request {
            Request::Get { .. } | Request::Scan(_) => TURNS_OF_READ,
            _ => TURNS,
        };
        self.turns.store(turns, Ordering::Relaxed);
        self.reset();
    }

    /// Makes the waiter ready for something else.
    pub(crate) fn reset(&self) {
        self.state.store(WAITING, Ordering::Relaxed);
    }

    pub(crate) fn put(&self, reply: Reply) {
        *lock(&self.reply) = Some(reply);
    }

    pub(crate) fn take(&self) -> Option<Reply> {
        lock(&self.reply).take()
    }

    pub(crate) fn is_answered(&self) -> bool {
        lock(&self.reply).is_some()
    }

    /// Tells the thread; true if it had to be woken from sleep.
    pub(crate) fn tell(&self, call: Call) -> bool {
        let bit = match call {
            Call::Ready => READY,
            Call::Lead => LEAD,
        };
        let was = self.state.fetch_or(bit, Ordering::AcqRel);
        let woken = was == ASLEEP;
        if woken {
            self.thread.unpark();
        }
        woken
    }

    /// What the thread was told, if anything. The lead counts more: it has to be passed on, whatever else there is.
    fn told(&self) -> Option<Call> {
        let state = self.state.load(Ordering::Acquire);
        if state & LEAD != 0 {
            Some(Call::Lead)
        } else if state & READY != 0 {
            Some(Call::Ready)
        } else {
            None
        }
    }

    /// Waits to be told.
    pub(crate) fn wait(&self) -> Call {
        for _ in 0..self.turns.load(Ordering::Relaxed) {
            if let Some(call) = self.told() {
                return call;
            }
            std::thread::yield_now();
        }
        self.sleep(None).expect("without a timeout it waits")
    }

    /// Sleeps until it is told something, or the time is over.
    pub(crate) fn sleep(&self, timeout: Option<Duration>) -> Option<Call> {
        let was = self.state.fetch_or(ASLEEP, Ordering::AcqRel);
        while was == WAITING && self.told().is_none() {
            match timeout {
                None => std::thread::park(),
                Some(timeout) => {
                    std::thread::park_timeout(timeout);
                    break;
                }
            }
        }
        self.state.fetch_and(!ASLEEP, Ordering::AcqRel);
        self.told()
    }
}

/// A task's place to wait.
#[derive(Default)]
pub(crate) struct TaskCompletion {
    inside: Mutex<(Option<Reply>, Option<Waker>)>,
    /// Of a write: the gate that it leaves with its reply, and its bytes.
    write: Option<(Arc<Gate>, usize)>,
}

impl TaskCompletion {
    /// Whether the reply was put down, and not taken yet.
    pub(crate) fn is_answered(&self) -> bool {
        lock(&self.inside).0.is_some()
    }

    /// That of a write that this gate has let in.
    pub(crate) fn of_write(gate: &Arc<Gate>, bytes: usize) -> TaskCompletion {
        TaskCompletion {
            write: Some((Arc::clone(gate), bytes)),
            ..TaskCompletion::default()
        }
    }

    /// Puts the reply down, once. Gives the task, and a write that may go in now: wake both.
    pub(crate) fn put(&self, reply: Reply) -> impl Iterator<Item = Waker> + use<> {
        let next = self
            .write
            .as_ref()
            .and_then(|(gate, bytes)| gate.leave(*bytes));
        let mut inside = lock(&self.inside);
        inside.0 = Some(reply);
        [inside.1.take(), next].into_iter().flatten()
    }
}

/// The future of a reply.
pub(crate) struct Answer(pub(crate) Arc<TaskCompletion>);

impl Future for Answer {
    type Output = Reply;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Reply> {
        let mut inside = lock(&self.0.inside);
        match inside.0.take() {
            Some(reply) => Poll::Ready(reply),
            None => {
                inside.1 = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Who gets the reply to a request.
pub(crate) enum Receiver {
    Thread(Arc<ThreadWaiter>),
    Task(Arc<TaskCompletion>),
}
