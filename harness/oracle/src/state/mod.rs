//! What an oracle remembers, apart from the history. It judges nothing.

pub(crate) mod deferred;
pub(crate) mod medium;
pub(crate) mod outstanding;
pub(crate) mod views;
