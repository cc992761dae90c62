//! Events on their way to a listener.
//!
//! Invariants:
//! - whoever makes an event never waits for the listener: events lie in a bounded queue, and a thread of their own takes them from there. It ends when everything that makes
//!   events has gone and the queue is empty;
//! - the listener is called without any lock of the database, one event after the other, in the order in which they happened. If it panics, the database goes on, and it is
//!   told of the next event;
//! - what finds no room in the queue is counted, and the count is told.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::api::event::{Event, Listener};
use crate::io::file::DataFile;
use crate::lock::lock;

/// Events that wait for a listener, at most.
const WAITING_MAX: usize = 1024;
/// Stalls may come thousands of times a second. They take no more than this of the queue.
const STALLS_WAITING_MAX: usize = WAITING_MAX / 2;

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<Event>,
    missed: u64,
    /// Nobody makes events any more.
    ended: bool,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

/// Where events go, if anybody listens. When it is dropped, the listener's thread ends after the last event.
#[derive(Debug)]
pub(crate) struct Events {
    queue: Arc<Queue>,
    file: Arc<DataFile>,
}

impl Events {
    /// Starts the thread that tells this listener.
    pub(crate) fn to(listener: Listener, file: &Arc<DataFile>) -> io::Result<Events> {
        let queue = Arc::new(Queue::default());
        let theirs = Arc::clone(&queue);
        std::thread::Builder::new()
            .name("kvsim-events".to_owned())
            .spawn(move || theirs.tell_all(&listener))?;
        let file = Arc::clone(file);
        Ok(Events { queue, file })
    }

    /// Tells it soon.
    pub(crate) fn put(&self, event: Event) {
        let is_stall = matches!(event, Event::StallBegan { .. } | Event::StallEnded { .. });
        let most = match is_stall {
            true => STALLS_WAITING_MAX,
            false => WAITING_MAX,
        };
        let mut waiting = lock(&self.queue.waiting);
        match waiting.events.len() < most {
            true => waiting.events.push_back(event),
            false => waiting.missed += 1,
        }
        drop(waiting);
        self.queue.arrived.notify_one();
    }

    /// The same for what the engine says.
    pub(crate) fn put_engines(&self, event: kvsim_engine::Event) {
        use kvsim_engine::Event as Engines;
        let told = match event {
            Engines::CheckpointBegan => Event::CheckpointBegan,
            Engines::CheckpointEnded {
                published,
                written_bytes,
                took_ns,
            } => Event::CheckpointEnded {
                published,
                written_bytes,
                took: Duration::from_nanos(took_ns),
            },
            Engines::StallBegan { reason } => Event::StallBegan { reason },
            Engines::StallEnded { took_ns } => Event::StallEnded {
                took: Duration::from_nanos(took_ns),
            },
            Engines::Collected {
                segments,
                moved_bytes,
                fell_behind,
            } => Event::Collected {
                segments,
                moved_bytes,
                fell_behind,
            },
            Engines::Grew { len_bytes } => Event::Grew { len_bytes },
            Engines::NotGrown => Event::NotGrown,
            Engines::BecameReadOnly { .. } => Event::BecameReadOnly {
                failure: self.file.failure.get().cloned(),
            },
            Engines::IndexLoaded { keys, took_ns } => Event::IndexLoaded {
                keys,
                took: Duration::from_nanos(took_ns),
            },
            Engines::Damaged { key, damage } => Event::Damaged {
                key,
                offset: damage.offset,
                what: damage.to_string(),
            },
            // One that is not for those who embed a database.
            _ => return,
        };
        self.put(told);
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        lock(&self.queue.waiting).ended = true;
        self.queue.arrived.notify_one();
    }
}

impl Queue {
    /// Tells the listener of everything, until there is nothing more to come.
    fn tell_all(&self, listener: &Listener) {
        loop {
            let (events, missed) = {
                let mut waiting = lock(&self.waiting);
                while waiting.events.is_empty() && waiting.missed == 0 {
                    if waiting.ended {
                        return;
                    }
                    let woken = self.arrived.wait(waiting);
                    waiting = woken.unwrap_or_else(PoisonError::into_inner);
                }
                let events = std::mem::take(&mut waiting.events);
                (events, std::mem::take(&mut waiting.missed))
            };
            for event in events {
                tell(listener, event);
            }
            if missed > 0 {
                tell(listener, Event::Missed { count: missed });
            }
        }
    }
}

/// What a listener does is the caller's business: a panic of it is nobody else's.
fn tell(listener: &Listener, event: Event) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| listener.tell(event))) {
        tracing::error!(target: "kvsim_native", "the listener to events panicked");
        // To drop it could panic once more.
        std::mem::forget(panic);
    }
}
