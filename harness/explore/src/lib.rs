//! The states that cuts can leave, and what a guest makes of each: what explorations, minimisation and blame are made of.
//!
//! A run is recorded once ([`record`]); at each moment after which a cut is a case of its own a copy of the device is kept, which
//! shares its contents, with what must survive at that moment ([`point`]). The states of a moment are listed within the bounds of
//! `[explore]` (`states`, `tears`); those whose bytes and obligations were seen before are passed over ([`level`]); each other is
//! recovered in a fresh instance and judged ([`judge`]). A violation becomes a case that says each of its steps
//! ([`kvsim_scenario::case`]), and is run as such before it is reported, so what is reported is what the file replays.
//!
//! What holds here: **one recovery serves for another state only where the guest cannot tell them apart** (`known`): the same bytes in every
//! block that it read, the same size and number of operations, and no faults. What must survive is judged for each state by itself.

pub mod alike;
pub mod cost;
mod errors;
pub mod found;
pub mod judge;
mod known;
pub mod level;
pub mod meaning;
pub mod open;
pub mod parallel;
pub mod point;
pub mod record;
pub mod relocate;
mod states;
mod tears;
mod torn;
