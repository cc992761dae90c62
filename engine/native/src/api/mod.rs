//! What callers choose, and why an opening fails.

pub(crate) mod error;
pub(crate) mod options;
