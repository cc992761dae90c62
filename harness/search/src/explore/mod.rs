//! The states that cuts can leave, and what a guest makes of each: what explorations, minimisation and blame are made of.
//!
//! A run is recorded once ([`record`]); at each moment after which a cut is a case of its own a copy of the device is kept, which
//! shares its contents, with what must survive at that moment ([`point`]). The states of a moment are listed within the bounds of
//! `[explore]` ([`states`], [`tears`]); those whose bytes and obligations were seen before are passed over ([`level`]); each other is
//! recovered in a fresh instance and judged ([`judge`]). A violation becomes a case that says each of its steps
//! ([`kvsim_scenario::case`]), and is run as such before it is reported, so what is reported is what the file replays.

pub(crate) mod cost;
pub(crate) mod errors;
pub(crate) mod found;
pub(crate) mod judge;
pub(crate) mod known;
pub(crate) mod level;
pub(crate) mod meaning;
pub(crate) mod open;
pub(crate) mod point;
pub(crate) mod record;
pub(crate) mod relocate;
pub(crate) mod states;
pub(crate) mod tears;
pub(crate) mod torn;
