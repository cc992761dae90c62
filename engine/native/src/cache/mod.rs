//! The newest values in memory: rows by key and in order, what a writer makes of them, and what readers borrow.

pub(crate) mod accepted;
pub(crate) mod borrowed;
pub(crate) mod draft;
pub(crate) mod entries;
pub(crate) mod leaf;
pub(crate) mod ranges;
pub(crate) mod rows;
pub(crate) mod shard;
