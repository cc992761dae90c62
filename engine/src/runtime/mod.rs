//! What all the others run on: tasks, operations under way, and requests that wait.

pub(crate) mod executor;
pub(crate) mod flight;
pub(crate) mod handle;
pub(crate) mod request;
