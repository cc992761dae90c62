//! What runs all the others: tasks, operations under way, the order of requests, and when maintenance is due.

pub(crate) mod close;
pub(crate) mod complete;
pub(crate) mod executor;
pub(crate) mod flight;
pub(crate) mod handle;
pub(crate) mod maintenance;
pub(crate) mod request;
pub(crate) mod schedule;
pub(crate) mod serve;
