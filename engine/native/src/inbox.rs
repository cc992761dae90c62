//! Requests that threads leave to whoever holds the engine's lock.
//!
//! A thread that finds the lock held puts its request here and looks for the outcome; the holder hands it in before it lets the lock go.
//! So under contention one processor serves many requests with the engine's memory in its cache, where else each request would bring
//! that memory to another one. (Known as flat combining: Hendler, Incze, Shavit and Tzafrir, SPAA 2010.)
//!
//! Invariants:
//! - a parcel lies on the stack of the thread that made it, which does not leave before the parcel is open; whoever takes a parcel opens
//!   it, once, and then does not look at it again;
//! - a parcel that nobody takes is taken by its own thread, which gets the lock in the end;
//! - if its taker panics, its seat is told, as those of all others that wait are (see `leader/held.rs`).

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use kvsim_engine::Request;

use crate::leader::Beside;
use crate::lock::lock;
use crate::waiter::Seat;

const CLOSED: u32 = 0;
const ANSWERED: u32 = 1;
const SEATED: u32 = 2;

/// A request, what happens beside it, and who waits for its reply.
pub(crate) struct Parcel<'a> {
    pub(crate) request: Request<'a>,
    pub(crate) beside: &'a Beside<'a>,
    pub(crate) seat: Arc<Seat>,
    state: AtomicU32,
}

impl<'a> Parcel<'a> {
    pub(crate) fn new(request: Request<'a>, beside: &'a Beside<'a>, seat: Arc<Seat>) -> Parcel<'a> {
        Parcel {
            request,
            beside,
            seat,
            state: AtomicU32::new(CLOSED),
        }
    }

    /// Whether it was handed in.
    pub(crate) fn is_open(&self) -> bool {
        self.state.load(Ordering::Acquire) != CLOSED
    }

    /// Whether the reply is there; else the seat will be told.
    pub(crate) fn is_answered(&self) -> bool {
        self.state.load(Ordering::Acquire) == ANSWERED
    }
}

/// A parcel that was taken by the holder of the lock.
pub(crate) struct Taken(*const Parcel<'static>);

impl Deref for Taken {
    type Target = Parcel<'static>;

    #[expect(unsafe_code, reason = "the parcel is another thread's")]
    fn deref(&self) -> &Parcel<'static> {
        // SAFETY: its thread is in `leave_to_others` until the parcel is open, and what opens it consumes this.
        unsafe { &*self.0 }
    }
}

impl Taken {
    /// Its reply is at its seat.
    pub(crate) fn answered(self) {
        self.open(ANSWERED);
    }

    /// Its seat is among those that wait.
    pub(crate) fn seated(self) {
        self.open(SEATED);
    }

    fn open(self, state: u32) {
        self.state.store(state, Ordering::Release);
        std::mem::forget(self);
    }
}

impl Drop for Taken {
    /// Not opened: its taker panicked, and tells all who wait.
    fn drop(&mut self) {
        self.state.store(SEATED, Ordering::Release);
    }
}

/// Parcels in the order in which they came.
#[derive(Default)]
pub(crate) struct Inbox {
    waiting: AtomicUsize,
    parcels: Mutex<VecDeque<Address>>,
}

/// Where a parcel lies.
struct Address(*const Parcel<'static>);

#[expect(unsafe_code, reason = "addresses of parcels go to other threads")]
// SAFETY: all that a parcel refers to is shared with its taker only while its own thread waits, and may be: requests are bytes, seats and
// rows are made for it.
unsafe impl Send for Address {}

impl Inbox {
    fn parcels(&self) -> MutexGuard<'_, VecDeque<Address>> {
        lock(&self.parcels)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0
    }

    /// Leaves a parcel, whose thread has to stay until it is open.
    pub(crate) fn put(&self, parcel: &Parcel<'_>) {
        let address = Address(std::ptr::from_ref(parcel).cast());
        let mut parcels = self.parcels();
        parcels.push_back(address);
        self.waiting.store(parcels.len(), Ordering::Release);
    }

    /// Takes the one that has waited longest.
    pub(crate) fn take(&self) -> Option<Taken> {
        let mut parcels = self.parcels();
        let taken = parcels.pop_front();
        self.waiting.store(parcels.len(), Ordering::Release);
        taken.map(|address| Taken(address.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: parcels are taken in their order, and one whose taker panicked waits to be told. Method: one that is answered, one that is
    /// seated, and one whose taker goes without opening it.
    #[test]
    fn parcels_are_opened() {
        let (inbox, beside) = (Inbox::default(), Beside::default());
        let parcel = || Parcel::new(Request::Sync, &beside, Seat::mine());
        let (first, second, third) = (parcel(), parcel(), parcel());
        for parcel in [&first, &second, &third] {
            inbox.put(parcel);
            assert!(!parcel.is_open());
        }
        assert!(!inbox.is_empty());
        let take = || inbox.take().expect("three were put");
        take().answered();
        assert!(first.is_open() && first.is_answered() && !second.is_open());
        take().seated();
        assert!(second.is_open() && !second.is_answered() && !third.is_open());
        drop(take());
        assert!(inbox.is_empty() && inbox.take().is_none());
        assert!(third.is_open() && !third.is_answered());
    }
}
