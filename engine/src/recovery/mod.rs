//! Opening a database: creating it, or replaying its log and deciding what its end means.

pub(crate) mod create;
pub(crate) mod durability_record;
pub(crate) mod held;
pub(crate) mod load;
mod load_filters;
pub(crate) mod load_index;
pub(crate) mod loaded;
pub(crate) mod loading;
pub(crate) mod open;
pub(crate) mod replay;
pub(crate) mod resolve_tail;
pub(crate) mod rewrite_tail;
pub(crate) mod salvage;
