//! While the guest runs: what is asked of it, and whether its answers are right.

mod deferred;
pub(crate) mod limits;
mod reading;
mod refusal;
mod running;
pub(crate) mod space;
