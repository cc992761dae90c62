//! Requests that are left to whoever holds the engine's lock: who leaves one, and who serves it. See `inbox` for what holds of them.

use std::sync::Arc;

use kvsim_engine::{Durability, Reply, Request};

use super::{Errands, Inside, Leader, Shared};
use crate::inbox::Parcel;
use crate::lock::TURNS;
use crate::waiter::Receiver;

/// How many requests of others a thread serves before it goes on with its own.
const INBOX_SERVED_MAX: usize = 16;

impl Shared {
    /// Somebody is at work in the engine, who has what it needs at hand: it is quicker to be served by them than to wait for the lock.
    pub(super) fn leave_to_others(&self, parcel: &Parcel<'_>) -> Reply {
        self.inbox.put(parcel);
        // Whoever runs on this processor next may leave a request too: so the holder serves many at a time.
        for _ in 0..TURNS {
            if parcel.is_open() {
                return self.fetch(parcel);
            }
            if let Some(inside) = self.try_lock() {
                self.leave(inside);
                break;
            }
            std::thread::yield_now();
        }
        while !parcel.is_open() {
            let inside = self.lock();
            self.leave(inside);
        }
        self.fetch(parcel)
    }

    /// What became of a request that somebody else has handed in.
    fn fetch(&self, parcel: &Parcel<'_>) -> Reply {
        if parcel.is_answered() {
            return parcel.seat.take().expect("it was put down");
        }
        self.await_call(&parcel.seat)
    }

    /// Hands in what others have left.
    pub(super) fn serve_inbox(&self, inside: &mut Inside, errands: &mut Errands) {
        for _ in 0..INBOX_SERVED_MAX {
            let Some(parcel) = self.inbox.take() else {
                return;
            };
            let seat = &parcel.seat;
            self.hand_in(
                inside,
                parcel.request,
                parcel.beside,
                Receiver::Thread(Arc::clone(seat)),
            );
            if seat.is_answered() {
                // It looks for its reply, and is not told.
                inside.effects.told.retain(|told| !Arc::ptr_eq(told, seat));
                parcel.answered();
                continue;
            }
            if matches!(inside.leader, Leader::Nobody) && errands.next.is_none() {
                inside.leader = Leader::Seat(Arc::clone(seat));
                errands.next = Some(Arc::clone(seat));
            } else {
                inside.seated.push(Arc::clone(seat));
            }
            parcel.seated();
        }
    }
}

/// Only what nobody has to wait for at the disk is left to others: whoever waits there may be the one who leads.
pub(super) fn is_answered_at_once(request: &Request<'_>) -> bool {
    matches!(
        request,
        Request::Write {
            durability: Durability::Relaxed,
            ..
        }
    )
}
