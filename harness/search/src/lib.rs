//! Searches for failures among all that crashes can leave, makes them small, and finds what is missing in the guest.
//!
//! - `explore/`: crash points, the states of each, and their judgement
//! - [`mod@blame`]: what is missing in the guest, if it is a flush
//! - [`minimise`]: a failure made small
//! - [`exploration`]: one run, and every state that a crash at any moment of it can leave
//! - [`parallel`]: work for several threads, whose number changes nothing

pub mod blame;
pub mod exploration;
mod explore;
mod fewer;
pub mod minimise;
pub mod parallel;

pub use fewer::fewer;
