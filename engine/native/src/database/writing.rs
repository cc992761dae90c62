//! A write of a task: handed in at once where there is room, else when it is polled and its turn has come.
//!
//! Invariant: a write that is dropped while it waits was never handed in, and its place is the next one's.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use kvsim_engine::{Durability, Mutation};

use super::{Database, done};
use crate::api::error::Failure;
use crate::sync::gate::{Entry, Place};
use crate::sync::leader::wake;
use crate::sync::waiter::Answer;

/// A write of a task.
pub(crate) enum Writing {
    /// The engine has it.
    In(Answer),
    /// There was no room for it.
    Waiting(Box<Waiting>),
    /// It is refused.
    Refused(Option<Failure>),
}

/// A key and what it is to hold; nothing for a delete.
type OwnMutation = (Box<[u8]>, Option<Box<[u8]>>);

/// A write that waits for room.
pub(crate) struct Waiting {
    database: Database,
    batch: Vec<OwnMutation>,
    durability: Durability,
    bytes: usize,
    place: Option<Place>,
}

impl Writing {
    pub(crate) fn new(
        database: &Database,
        batch: &[Mutation<'_>],
        durability: Durability,
    ) -> Writing {
        if let Err(failure) = database.refuse_if_read_only() {
            return Writing::Refused(Some(failure));
        }
        let bytes = batch.iter().map(Mutation::bytes).sum();
        if let Entry::In(next) = database.0.shared.gate.enter(bytes, None) {
            next.into_iter().for_each(wake);
            return Writing::In(database.hand_in(batch, durability, bytes));
        }
        let own = |mutation: &Mutation<'_>| match mutation {
            Mutation::Put { key, value } => ((*key).into(), Some((*value).into())),
            Mutation::Delete { key } => ((*key).into(), None),
        };
        Writing::Waiting(Box::new(Waiting {
            database: database.clone(),
            batch: batch.iter().map(own).collect(),
            durability,
            bytes,
            place: None,
        }))
    }

    /// Whether the engine does not have it yet.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self, Writing::Waiting(_))
    }
}

impl Waiting {
    /// Hands the write in if its turn has come.
    fn enter(&mut self) -> Option<Answer> {
        let gate = &self.database.0.shared.gate;
        let Entry::In(next) = gate.enter(self.bytes, self.place) else {
            return None;
        };
        self.place = None;
        let borrowed = self.batch.iter().map(|(key, value)| match value {
            Some(value) => Mutation::Put { key, value },
            None => Mutation::Delete { key },
        });
        let borrowed: Vec<Mutation<'_>> = borrowed.collect();
        let answer = self
            .database
            .hand_in(&borrowed, self.durability, self.bytes);
        next.into_iter().for_each(wake);
        Some(answer)
    }

    fn wait(&mut self, waker: &Waker) {
        self.place = Some(self.database.0.shared.gate.wait(self.place, waker));
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            let next = self.database.0.shared.gate.forget(place);
            next.into_iter().for_each(wake);
        }
    }
}

impl Future for Writing {
    type Output = Result<(), Failure>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Writing::Waiting(waiting) = this {
            // There may be room since it was looked for last, and from now on it is woken.
            let entered = waiting.enter().or_else(|| {
                waiting.wait(context.waker());
                waiting.enter()
            });
            match entered {
                Some(answer) => *this = Writing::In(answer),
                None => return Poll::Pending,
            }
        }
        match this {
            Writing::In(answer) => Pin::new(answer).poll(context).map(done),
            Writing::Waiting(_) => Poll::Pending,
            Writing::Refused(failure) => {
                Poll::Ready(Err(failure.take().expect("it is polled once")))
            }
        }
    }
}
