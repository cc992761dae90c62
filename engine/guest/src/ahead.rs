//! Relaxed writes that are acknowledged before the engine has them, where it has promised that there is room, as the library does with those that come while the engine is at work.
//!
//! Invariant: they are handed in before anything else is asked of the engine, and soon.

use kvsim_engine::{Durability, Mutation, OwnedMutation, Promise, Request, Room};

use crate::call::Call;

/// How long they wait for something else to be asked, in nanoseconds.
const WAIT_NS: u64 = 20_000;

/// What was accepted, and what may be.
#[derive(Default)]
pub(crate) struct Ahead {
    room: Room,
    promise: Option<Promise>,
    writes: Vec<Vec<OwnedMutation>>,
    /// What they take of the room.
    taken: Room,
}

impl Ahead {
    pub(crate) fn new(room: Room) -> Ahead {
        Ahead {
            room,
            ..Ahead::default()
        }
    }

    /// Accepts a request, if it is a relaxed write and the promise is of it.
    pub(crate) fn accept(&mut self, request: &Request<'_>) -> bool {
        let Request::Write {
            mutations,
            durability: Durability::Relaxed,
        } = request
        else {
            return false;
        };
        let changes = self.taken.changes + mutations.len();
        let bytes = self.taken.bytes + mutations.iter().map(Mutation::bytes).sum::<usize>();
        let fits = changes <= self.room.changes && bytes <= self.room.bytes;
        if !fits || !self.promise.is_some_and(|it| it.covers(mutations)) {
            return false;
        }
        self.taken = Room { changes, bytes };
        self.writes
            .push(mutations.iter().map(OwnedMutation::new).collect());
        true
    }

    /// Hands in what was accepted.
    pub(crate) fn hand_in(&mut self, call: &mut Call<'_>) {
        if self.writes.is_empty() {
            return;
        }
        self.taken = Room::default();
        let writes = std::mem::take(&mut self.writes);
        let writes = writes
            .iter()
            .map(|write| write.iter().map(OwnedMutation::borrow));
        let writes: Vec<Vec<Mutation<'_>>> = writes.map(Iterator::collect).collect();
        let writes = writes.iter().map(Vec::as_slice);
        call.engine.keep(call.now, writes, call.port);
    }

    /// Has the engine promise anew, once nothing waits to be handed in.
    pub(crate) fn renew(&mut self, call: &Call<'_>) {
        if self.room != Room::default() {
            self.promise = call.engine.promise(self.room);
        }
    }

    /// When they have to be handed in, if nothing else happens before.
    pub(crate) fn wake_at(&self, now: u64) -> Option<u64> {
        (!self.writes.is_empty()).then_some(now + WAIT_NS)
    }
}
