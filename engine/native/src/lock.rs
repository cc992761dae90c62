//! Locks as they are taken here. Most are held by whoever runs and for a moment only; the engine's is waited for patiently, since to sleep and be woken takes
//! longer than whoever holds it needs.
//!
//! A lock whose holder panicked is taken by the next all the same. All but the engine's guard what no panic leaves half done; what becomes of the
//! engine then is said in `leader/held.rs`.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// How often a thread looks again for the engine before it gives way: whoever holds it and runs is done within a microsecond or two.
const LOOKS: u32 = 100;
/// How often a thread then gives way, to a holder that does not run, before it sleeps.
const TURNS: u32 = 100;

/// Takes a lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a lock that nobody holds.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(inside) => Some(inside),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Takes a lock, and gives way to whoever holds it before it goes to sleep.
pub(crate) fn lock_patiently<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for look in looks() {
        if let Some(inside) = try_lock(mutex) {
            return inside;
        }
        look.pause();
    }
    lock(mutex)
}

/// The times a thread looks before it sleeps.
pub(crate) fn looks() -> impl Iterator<Item = Look> {
    (0..LOOKS + TURNS).map(|number| Look {
        gives_way: number >= LOOKS,
    })
}

/// One time that a thread looks for what it waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    /// It has looked often enough for a holder that runs.
    pub(crate) gives_way: bool,
}

impl Look {
    /// What lies between this look and the next.
    pub(crate) fn pause(self) {
        if self.gives_way {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}
