//! Writes: admission, promises, and group commit, from the arrival of a write to its acknowledgement.

pub(crate) mod capacity;
pub(crate) mod group;
pub(crate) mod promise;
pub(crate) mod state;
pub(crate) mod write;
