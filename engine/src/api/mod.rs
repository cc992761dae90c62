//! What a driver and the engine say to each other: requests and replies through the port, memory, options, errors, counters, events.

pub(crate) mod buffer;
pub(crate) mod cached_values;
pub(crate) mod config;
pub(crate) mod coverage;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod option_help;
pub(crate) mod port;
pub(crate) mod promise;
pub(crate) mod stats;
