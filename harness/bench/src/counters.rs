//! What the process and the device say that was read and written.

pub use kvsim_store::counters::{Counters, Source, space_bytes};
