//! What callers choose, and why an opening fails.

pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod key_prefix;
pub(crate) mod key_range;
pub(crate) mod options;
