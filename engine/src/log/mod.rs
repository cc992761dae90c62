//! The log: appending records to frames, and the chain of frames on the device.

pub(crate) mod append;
pub(crate) mod filter;
pub(crate) mod pool;
pub(crate) mod tail;
