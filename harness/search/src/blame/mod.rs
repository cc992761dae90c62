//! Looks for what is to blame for a failing case; [`kvsim_findings::blame`] says what can come of that.

mod around;
mod conditions;
mod faults;
mod files;
mod replay;
mod search;
mod timeline;
mod together;

pub use files::own_functions;
pub use replay::{blame, replay};
