//! Scans that need leaves of the index. The thread that asks for one reads these itself, joins them, and reads the values, without the engine's lock: it holds that as the scan begins, to take
//! down what memory knows of the range, between the two, and as it ends.
//!
//! Invariant: a scan that was begun so is given back to the engine, if there is still one.

use std::sync::Arc;

use kvsim_engine::{Join, Reply, Request, ScanRange};

use super::state::{Beside, Inside, Movable, Shared};
use super::taking_in::CaughtUp;
use crate::sync::waiter::{Receiver, ThreadWaiter};

impl CaughtUp<'_> {
    /// Makes a scan while still nothing else was accepted, and waits for its reply.
    pub(crate) fn scan(mut self, range: &ScanRange<'_>) -> Reply {
        match self.begin_join(range) {
            Some(join) => {
                let shared = self.shared();
                drop(self);
                shared.join(range, join)
            }
            None => self.call(Request::Scan(*range), &Beside::default()),
        }
    }
}

impl Shared {
    /// Goes on with a scan until it is answered.
    fn join(&self, range: &ScanRange<'_>, mut join: Join) -> Reply {
        let _outside = self.outside();
        loop {
            let (mut reads, mut read_bytes) = (0, 0);
            let went_on = join.go_on(|places| {
                reads += places.len() as u64;
                read_bytes += places.iter().map(|(_, len)| *len as u64).sum::<u64>();
                self.driver.read_all_here(places)
            });
            let found = join.take_entries();
            let mut inside = self.lock();
            let Inside {
                engine,
                effects,
                wake_at,
                ..
            } = &mut *inside;
            effects.counts.reads += reads;
            effects.counts.read_bytes += read_bytes;
            let Some(Movable(engine)) = engine else {
                drop(inside);
                return self.call(Request::Scan(*range), &Beside::default());
            };
            if found.is_some() || went_on.is_err() {
                *wake_at = engine.drop_join(self.now(), join, effects);
                self.leave(inside);
                return match found {
                    Some((entries, more)) => Reply::Entries { entries, more },
                    // The engine reads again, and says what is wrong.
                    None => self.call(Request::Scan(*range), &Beside::default()),
                };
            }
            if !engine.show_next(&mut join) {
                let waiter = ThreadWaiter::mine();
                waiter.reset_for(&Request::Scan(*range));
                let id = effects.expect(Receiver::Thread(Arc::clone(&waiter)));
                *wake_at = engine.end_join(self.now(), id, join, effects);
                return self.await_reply(inside, &waiter);
            }
            self.leave(inside);
        }
    }
}
