//! How locks are taken here. Most are held by a running thread, for a moment only. A thread that wants the engine's
//! lock spins first, since to sleep and be woken takes longer than the lock is usually held.
//!
//! A lock whose holder panicked is taken by the next all the same. All but the engine's guard what no panic leaves half done; what becomes of the
//! engine then is said in `leader/held.rs`.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// How often a thread looks again for the engine before it gives way: whoever holds it and runs is done within a microsecond or two.
const LOOKS: u32 = 100;
/// How often a thread then gives way, to a holder that does not run, before it sleeps.
pub(crate) const TURNS: u32 = 100;

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
pub(crate) fn lock_spinning<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for look in 0..LOOKS + TURNS {
        if let Some(inside) = try_lock(mutex) {
            return inside;
        }
        if look < LOOKS {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
    lock(mutex)
}
