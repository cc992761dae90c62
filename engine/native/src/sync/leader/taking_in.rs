//! Accepted writes on their way into the engine: who accepts one, and who hands it in. See `intake` for what holds of them.

use std::sync::{Arc, MutexGuard};

use kvsim_engine::{Durability, Join, Mutation, Promise, Reply, Request, ScanRange};

use super::combining::STREAK;
use super::held::Held;
use super::state::{Beside, Inside, Movable, Shared};
use crate::cache::accepted::Accepted;
use crate::cache::draft::Draft;
use crate::lock::TURNS;
use crate::sync::intake::{CHANGES_APART, Outcome, Queue, ROOM};
use crate::sync::waiter::{Call, Receiver, ThreadWaiter};

/// Writes that the engine takes in one call. Beside each call it goes on with garbage collection.
const WRITES_PER_CALL: usize = 8;
/// How often somebody who comes by takes in what others accept meanwhile, before the database's own thread does.
const ROUNDS_MAX: usize = 4;

/// The engine's lock, with nothing accepted meanwhile.
pub(crate) struct CaughtUp<'a> {
    shared: &'a Shared,
    /// Both are there until it is dropped.
    queue: Option<MutexGuard<'a, Queue>>,
    inside: Option<Held<'a>>,
}

impl<'a> CaughtUp<'a> {
    pub(super) fn shared(&self) -> &'a Shared {
        self.shared
    }

    /// Begins a scan that this thread does itself, if that can be.
    pub(super) fn begin_join(&mut self, range: &ScanRange<'_>) -> Option<Join> {
        if self.shared.recorder.is_some() || !self.shared.driver.reads_here() {
            return None;
        }
        let Movable(engine) = self.inside.as_mut()?.engine.as_mut()?;
        engine.begin_join(range)
    }

    /// See [`kvsim_engine::Engine::scan_keys`].
    pub(crate) fn scan_keys(&self, range: &ScanRange<'_>, take: impl FnMut(&[u8])) -> Option<bool> {
        self.inside.as_ref()?.scan_keys(range, take)
    }

    /// Makes a request while still nothing else was accepted, and waits for its reply.
    pub(crate) fn call(mut self, request: Request<'_>, beside: &Beside<'_>) -> Reply {
        let shared = self.shared;
        let _outside = shared.outside();
        let waiter = ThreadWaiter::mine();
        waiter.reset_for(&request);
        let held = "both are there until it is dropped";
        let (queue, inside) = (self.queue.take(), self.inside.take());
        let (mut queue, mut inside) = (queue.expect(held), inside.expect(held));
        let receiver = Receiver::Thread(Arc::clone(&waiter));
        shared.hand_in_next(&mut inside, request, beside, receiver);
        shared.renew_promise(&mut inside, &mut queue);
        drop(queue);
        shared.await_reply(inside, &waiter)
    }
}

/// A request that was handed in may have begun operations or set a wake-up, so a leader may be needed.
impl Drop for CaughtUp<'_> {
    fn drop(&mut self) {
        self.queue = None;
        let Some(inside) = self.inside.take() else {
            return;
        };
        if std::thread::panicking() {
            return drop(inside);
        }
        self.shared.leave(inside);
    }
}

impl Shared {
    /// Accepts a write if it can be acknowledged before the engine has it: then it is in the cache, and will be handed in.
    pub(super) fn accept(&self, request: &Request<'_>, draft: &Draft<'_>) -> bool {
        if !matches!(
            request,
            Request::Write {
                durability: Durability::Relaxed,
                ..
            }
        ) {
            return false;
        }
        let mut turns = 0;
        loop {
            let changes_max = match self.combining.is_on() {
                true => ROOM.changes,
                false => CHANGES_APART,
            };
            let recorder = self.recorder.as_ref();
            match self.intake.accept(draft, changes_max, &self.rows, recorder) {
                Outcome::Accepted(streak) => {
                    if streak == 1 {
                        self.combining.want_no_more();
                    }
                    self.come_by();
                    if streak.is_multiple_of(STREAK) {
                        self.combine_from_here();
                    }
                    return true;
                }
                Outcome::Refused => return false,
                Outcome::Full => {}
            }
            if self.is_combined_for() {
                self.await_room();
                continue;
            }
            // Whoever is at work hands in what lies there, or this thread does.
            match self.try_lock() {
                Some(inside) => self.leave(inside),
                None if turns < TURNS => std::thread::yield_now(),
                None => self.leave(self.lock()),
            }
            turns += 1;
        }
    }

    /// Hands in what was accepted while somebody else held the lock, who may have looked too early.
    pub(super) fn come_by(&self) {
        for _ in 0..ROUNDS_MAX {
            if !self.intake.is_waiting() || self.combining.is_on() {
                return;
            }
            // Whoever holds it comes by afterwards.
            let Some(inside) = self.try_lock() else {
                return;
            };
            self.end(inside, false);
        }
        if self.intake.is_waiting()
            && let Some(helper) = self.helper.get()
        {
            helper.tell(Call::Lead);
        }
    }

    /// Nothing is accepted any more; what lies there is lost with the engine.
    pub(super) fn close_intake(&self) {
        let mut queue = self.intake.queue();
        self.intake.set_promise(&mut queue, None);
        self.intake.take(&mut queue, Vec::new());
    }

    /// The engine's lock, with all that was accepted handed in and nothing accepted meanwhile.
    pub(crate) fn lock_caught_up(&self) -> CaughtUp<'_> {
        let mut inside = self.lock();
        let queue = self.take_all_in(&mut inside);
        CaughtUp {
            shared: self,
            queue: Some(queue),
            inside: Some(inside),
        }
    }

    /// Hands in what was accepted, and asks the engine for what may be accepted next.
    pub(super) fn take_in(&self, inside: &mut Inside) {
        if self.intake.is_waiting() {
            let memory = std::mem::take(&mut inside.taken);
            let taken = self.intake.take(&mut self.intake.queue(), memory);
            self.hand_in_accepted(inside, taken);
        }
        if inside.promise() != inside.promised {
            self.renew_promise(inside, &mut self.intake.queue());
        }
    }

    /// Hands in what was accepted; nothing more is as long as the queue is held.
    pub(super) fn take_all_in<'a>(&'a self, inside: &mut Inside) -> MutexGuard<'a, Queue> {
        let mut queue = self.intake.queue();
        let memory = std::mem::take(&mut inside.taken);
        let taken = self.intake.take(&mut queue, memory);
        self.hand_in_accepted(inside, taken);
        queue
    }

    pub(super) fn renew_promise(&self, inside: &mut Inside, queue: &mut Queue) {
        inside.promised = inside.promise();
        self.intake.set_promise(queue, inside.promised);
    }

    /// Hands these in, and keeps their memory.
    fn hand_in_accepted(&self, inside: &mut Inside, mut taken: Vec<Accepted>) {
        if let Some(Movable(engine)) = &mut inside.engine {
            let borrowed: Vec<Mutation<'_>> = taken.iter().map(|it| it.borrow()).collect();
            let mut from = 0;
            let ends = (1..=taken.len()).filter(|to| taken[to - 1].ends);
            let writes: Vec<&[Mutation<'_>]> = ends
                .map(|to| &borrowed[std::mem::replace(&mut from, to)..to])
                .collect();
            for some in writes.chunks(WRITES_PER_CALL) {
                let some = some.iter().copied();
                inside.wake_at = engine.keep(self.now(), some, &mut inside.effects);
            }
        }
        taken.clear();
        inside.taken = taken;
    }
}

impl Inside {
    /// What the engine would promise now.
    fn promise(&self) -> Option<Promise> {
        self.engine.as_ref()?.0.promise(ROOM)
    }
}
