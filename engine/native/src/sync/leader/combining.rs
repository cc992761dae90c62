//! One thread that writes on and on without waiting leaves the engine's work to the database's own thread: it accepts its next writes while those before them are handed in,
//! so that two processors share the work. This is flat combining as in `intake`, with a combiner that stays.
//!
//! It begins when one thread has accepted [`STREAK`] writes with no other thread's between them. It ends as soon as another thread accepts one or waits for the engine's lock,
//! which who combines would take again and again before it; where there is no promise; and where the database's own thread would wait for most of its time: then a processor would
//! be taken for little.
//!
//! Invariants:
//! - what is accepted while somebody combines is handed in: who combines looks once more after it has said that it does not;
//! - the database's own thread waits for nobody who waits for it.

use std::num::NonZero;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kvsim_engine::Nanos;

use super::state::{Inside, Leader, Shared};
use crate::lock::TURNS;
use crate::sync::combining::Round;
use crate::sync::waiter::{Call, ThreadWaiter};

/// So many writes of one thread in a row.
pub(super) const STREAK: u32 = 1024;
/// How long is waited for a write before the driver is looked at.
const LOOK_NS: Nanos = 20_000;
/// Looks before a thread that waits gives way.
const LOOKS: u32 = 50;
const LOOKS_AND_TURNS: u32 = LOOKS + TURNS;
/// How long it then sleeps each time: the engine does something long.
const NAP: Duration = Duration::from_micros(50);

impl Shared {
    /// One thread has accepted many writes in a row.
    pub(super) fn combine_from_here(&self) {
        if !self.combining.may_begin(self.now()) {
            return;
        }
        let Some(helper) = self.helper.get().filter(|_| has_processors()) else {
            return;
        };
        let mut inside = self.lock();
        let sleeps = match &inside.leader {
            Leader::Thread(_) => return,
            Leader::Helper => inside.leader_sleeps.is_some(),
            Leader::Nobody => false,
        };
        self.combining.want();
        let is_new = matches!(inside.leader, Leader::Nobody);
        inside.leader = Leader::Helper;
        drop(inside);
        if sleeps {
            self.driver.wake();
        } else if is_new {
            helper.tell(Call::Lead);
        }
    }

    /// Whether the database's own thread, which leads, combines from here on.
    pub(super) fn combines(&self, inside: &Inside, round: &mut Option<Round>) -> bool {
        let can = !inside.stopping && inside.promised.is_some();
        self.combining.goes_on(can, self.now(), round)
    }

    #[cfg(test)]
    pub(crate) fn combines_now(&self) -> bool {
        self.combining.is_on()
    }

    /// Whether this thread may wait for the one that combines.
    pub(super) fn is_combined_for(&self) -> bool {
        let is_mine = |helper: &Arc<ThreadWaiter>| helper.is_of_this_thread();
        self.combining.is_on() && !self.helper.get().is_some_and(is_mine)
    }

    /// Waits until what was accepted is taken out, or nobody combines any more. To wait for the lock would not do: who combines takes it again at once.
    pub(super) fn await_room(&self) {
        for look in 0.. {
            if !self.intake.seems_waiting() || !self.combining.is_on() {
                return;
            }
            match look {
                0..LOOKS => std::hint::spin_loop(),
                LOOKS..LOOKS_AND_TURNS => std::thread::yield_now(),
                _ => std::thread::sleep(NAP),
            }
        }
    }

    /// Waits for something that is accepted, for a little while.
    pub(super) fn await_accepted(&self, round: &mut Round) {
        self.driver.start();
        if self.intake.is_waiting() {
            return;
        }
        let from = self.now();
        let mut looks = 0;
        loop {
            for _ in 0..LOOKS {
                std::hint::spin_loop();
                if self.intake.seems_waiting() {
                    break;
                }
            }
            looks += 1;
            let now = self.now();
            if self.intake.seems_waiting() || now > from + LOOK_NS {
                round.waited(now - from);
                return;
            }
            if looks > 1 {
                std::thread::yield_now();
            }
        }
    }
}

/// Whether there is a processor for each of the two.
fn has_processors() -> bool {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, NonZero::get)) > 1
}
