//! Many threads and one engine: who holds its lock, who waits for the disk, and who is told.

pub(crate) mod combining;
pub(crate) mod effects;
pub(crate) mod events;
pub(crate) mod gate;
pub(crate) mod intake;
pub(crate) mod leader;
pub(crate) mod waiter;
