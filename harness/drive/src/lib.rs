//! Drives the world of a scenario under the eyes of the oracle.
//!
//! - [`run`]: one seed, through many crashes
//! - [`mod@case`]: one failure step by step, and the process run that all explorers use
//! - `pump`: hands requests to a guest and takes the replies, for both
//! - [`tally`]: what is counted meanwhile
//! - [`timeline`]: what happened in one run, in words and in order
//! - [`control`]: how runs are watched and stopped from outside
//!
//! **Notes are for people.** Who asked what, and what a cut did, is noted beside the trace where events are kept. Nothing that a run does or hashes depends
//! on it; [`timeline`] makes lines of it.

pub mod case;
pub mod control;
mod pump;
pub mod run;
mod stop;
pub mod tally;
pub mod timeline;
