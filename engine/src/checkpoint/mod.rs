//! Checkpoints: the index written as trees of pages, and the superblocks that refer to them.

pub(crate) mod superblocks;
pub(crate) mod tree;
pub(crate) mod write;
