//! Searches for failures among all that crashes can leave, makes them small, and finds what is missing in the guest.
//!
//! - [`mod@blame`]: what is missing in the guest, if it is a flush
//! - [`minimise`]: a failure made small
//! - [`exploration`]: one run, and every state that a crash at any moment of it can leave
//!
//! The states of a crash and their judgement are those of [`kvsim_explore`].
//!
//! What holds here:
//! - **Work is counted.** A minimisation or a search for blame is bounded by the guest's fuel, events and states
//!   (`kvsim_explore::cost`), in an order that threads do not change. Real time may end either (`Control::end_after`). What
//!   was found by then counts, and the order of the search does not depend on the time.
//! - **A smaller case is explored and not replayed.** A candidate is a prefix of process runs and an open one (`kvsim_explore::open`). Its cuts are found again by their meaning
//!   (`kvsim_explore::meaning`): the phase, and the kind, place and length of what was pending. Nothing is known of the guest.

pub mod blame;
pub mod exploration;
mod fewer;
pub mod minimise;

pub use fewer::fewer;
use kvsim_explore as explore;
