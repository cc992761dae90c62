//! Garbage collection: moving what is live out of the emptiest segments, and giving segments back through the log.

pub(crate) mod collect;
pub(crate) mod live_records;
pub(crate) mod log_free;
pub(crate) mod move_chunks;
pub(crate) mod state;
pub(crate) mod stop;
pub(crate) mod window;
