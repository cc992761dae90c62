//! Searches for failures among all that crashes can leave, makes them small, and finds what is missing in the guest.
//!
//! - `explore/`: crash points, the states of each, and their judgement
//! - [`mod@blame`]: what is missing in the guest, if it is a flush
//! - [`minimise`]: a failure made small
//! - [`exploration`]: one run, and every state that a crash at any moment of it can leave
//! - [`parallel`]: work for several threads, whose number changes nothing
//!
//! What holds here:
//! - **Work is counted.** A minimisation or a search for blame is bounded by the guest's fuel, events and states
//!   (`explore::cost`), in an order that threads do not change. Real time may end either (`Control::end_after`). What
//!   was found by then counts, and the order of the search does not depend on the time.
//! - **A smaller case is explored and not replayed.** A candidate is a prefix of process runs and an open one (`explore::open`). Its cuts are found again by their meaning
//!   (`explore::meaning`): the phase, and the kind, place and length of what was pending. Nothing is known of the guest.
//! - **One recovery serves for another state only where the guest cannot tell them apart.** `explore::known`: the same
//!   bytes in every block that it read, the same size and number of operations, and no faults. What must survive is
//!   judged for each state by itself.

pub mod blame;
pub mod exploration;
mod explore;
mod fewer;
pub mod minimise;
pub mod parallel;

pub use fewer::fewer;
