//! After a crash: what the guest must show, what it shows, and whether a prefix of the history explains that.

mod any_order;
mod barrier;
mod classify;
mod excuses;
mod fingerprint;
mod misfit;
mod must_survive;
pub(crate) mod observation;
pub(crate) mod opening;
pub(crate) mod recovery;
pub(crate) mod shown;
pub(crate) mod verify;
