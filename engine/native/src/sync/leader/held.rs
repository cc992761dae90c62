//! The engine's lock while it is held, and what becomes of everybody if its holder panics.
//!
//! A panic in the engine is a bug of it and may leave it half way through a change of what it knows. What it would write then could destroy what was
//! acknowledged before. So the database *fails stop*: the engine is not called again, whoever waits is told, the caches are emptied, and all later
//! requests are refused. What was acknowledged is there at the next opening, as after a crash.
//!
//! Invariants:
//! - once a holder has panicked, nobody calls the engine;
//! - nobody waits for a reply that no engine is left to give;
//! - whoever lets it go looks whether a write was accepted meanwhile, and hands it in.

use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use super::state::{Inside, Leader, PostUnlock, Shared};
use crate::lock::{lock_spinning, try_lock};
use crate::sync::waiter::{Call, ThreadWaiter};

/// The engine's lock, held.
pub(crate) struct Held<'a> {
    shared: &'a Shared,
    /// There until it is let go.
    inside: Option<MutexGuard<'a, Inside>>,
    /// The thread was panicking when it took the lock, for instance because it closes the database while it unwinds.
    /// Then it is not the engine that panics.
    was_panicking: bool,
}

const HELD: &str = "it is held until it is dropped";

impl Deref for Held<'_> {
    type Target = Inside;
    fn deref(&self) -> &Inside {
        self.inside.as_ref().expect(HELD)
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Inside {
        self.inside.as_mut().expect(HELD)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let Some(mut inside) = self.inside.take() else {
            return;
        };
        if !std::thread::panicking() || self.was_panicking {
            drop(inside);
            return self.shared.come_by();
        }
        let post_unlock = self.shared.give_up(&mut inside);
        drop(inside);
        self.shared.run(post_unlock);
    }
}

impl Held<'_> {
    /// Lets it go; the caller then comes by.
    pub(super) fn end(mut self) {
        self.inside = None;
    }
}

/// There while a thread works for the database, with its lock or without.
pub(super) struct Outside<'a> {
    shared: &'a Shared,
    was_panicking: bool,
}

impl Drop for Outside<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.was_panicking {
            self.shared.fail_stop();
        }
    }
}

impl Shared {
    /// From here on a panic of this thread ends the engine, also without the lock held: the thread may be the one that
    /// waits for the disk on behalf of all.
    pub(super) fn outside(&self) -> Outside<'_> {
        Outside {
            shared: self,
            was_panicking: std::thread::panicking(),
        }
    }

    /// This thread panics while others may rely on it.
    fn fail_stop(&self) {
        let mut inside = self.lock();
        let post_unlock = self.give_up(&mut inside);
        drop(inside);
        // A second panic would end the process.
        let told = catch_unwind(AssertUnwindSafe(|| self.run(post_unlock)));
        std::mem::forget(told);
        // What others still put down there is of requests that nobody waits for.
        ThreadWaiter::change();
    }

    fn held<'a>(&'a self, inside: MutexGuard<'a, Inside>) -> Held<'a> {
        Held {
            shared: self,
            inside: Some(inside),
            was_panicking: std::thread::panicking(),
        }
    }

    pub(crate) fn lock(&self) -> Held<'_> {
        if let Some(inside) = self.try_lock() {
            return inside;
        }
        // Who combines would take it again and again before this thread could.
        self.combining.want_no_more();
        self.held(lock_spinning(&self.inside))
    }

    /// Takes the lock if nobody holds it.
    pub(super) fn try_lock(&self) -> Option<Held<'_>> {
        try_lock(&self.inside).map(|inside| self.held(inside))
    }

    /// The engine has panicked, on this thread: nobody uses it again.
    fn give_up(&self, inside: &mut Inside) -> PostUnlock {
        // It is not dropped: whatever is half done in it could panic once more, which would end the process.
        std::mem::forget(inside.engine.take());
        inside.gave_up = true;
        inside.wake_at = None;
        inside.effects.give_up();
        self.close_intake();
        self.combining.end();
        self.rows.forget();
        inside.waiters.clear();
        let me = ThreadWaiter::mine();
        let helper = self.helper.get();
        let leads = match &inside.leader {
            Leader::Nobody => false,
            Leader::Thread(waiter) => Arc::ptr_eq(waiter, &me),
            Leader::Helper => helper.is_some_and(|helper| helper.is_of_this_thread()),
        };
        if leads {
            inside.leader = Leader::Nobody;
            inside.leader_sleeps = None;
        }
        // The waiters are told with the lock still held. A leader finds its reply under the lock; told later, it could
        // be gone, and wait for something else. A thread that was made the leader and does not know it yet passes the
        // lead on.
        for waiter in std::mem::take(&mut inside.effects.told) {
            let is_leader =
                matches!(&inside.leader, Leader::Thread(leader) if Arc::ptr_eq(leader, &waiter));
            waiter.tell(if is_leader { Call::Lead } else { Call::Ready });
        }
        self.nudge.store(true, Ordering::Release);
        // What is under way in the driver ends, and is nobody's.
        PostUnlock {
            wakers: std::mem::take(&mut inside.effects.wakers),
            begin: std::mem::take(&mut inside.effects.queued),
            wake_leader: true,
            call_helper: true,
            ..PostUnlock::default()
        }
    }
}
