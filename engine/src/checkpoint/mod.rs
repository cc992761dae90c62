//! Checkpoints: what has changed in the index written as runs, which are trees of pages, and the superblocks that refer to them.

pub(crate) mod choose;
pub(crate) mod leaves;
pub(crate) mod pages;
pub(crate) mod read;
pub(crate) mod runs;
pub(crate) mod superblocks;
pub(crate) mod tree;
pub(crate) mod write;
