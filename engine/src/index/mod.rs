//! The index: every key's versions, where their values are, and how an entry looks in a checkpoint.

pub(crate) mod changes;
pub(crate) mod counting;
pub(crate) mod entry;
pub(crate) mod key;
pub(crate) mod key_range;
pub(crate) mod memory;
pub(crate) mod order;
pub(crate) mod place;
mod references;
pub(crate) mod resident;
pub(crate) mod table;
mod vacant;
pub(crate) mod weight;
pub(crate) mod writing;
