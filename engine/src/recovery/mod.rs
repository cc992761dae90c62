//! Opening a database: creating it, or replaying its log and deciding what its end means.

pub(crate) mod create;
pub(crate) mod evacuate;
pub(crate) mod evidence;
pub(crate) mod held;
pub(crate) mod loaded;
pub(crate) mod open;
pub(crate) mod replay;
pub(crate) mod salvage;
pub(crate) mod settle;
