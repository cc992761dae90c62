//! Checkpoints: what has changed in the index written as runs, which are trees of pages, and the superblocks that refer to them.

pub(crate) mod anew;
pub(crate) mod append;
pub(crate) mod bases;
pub(crate) mod choose;
pub(crate) mod chunk;
pub(crate) mod copies;
pub(crate) mod filters;
pub(crate) mod leaf_reader;
pub(crate) mod leaves;
pub(crate) mod merge;
pub(crate) mod pages;
pub(crate) mod read;
pub(crate) mod runs;
pub(crate) mod step;
pub(crate) mod stretch;
pub(crate) mod superblocks;
pub(crate) mod table;
pub(crate) mod tree;
pub(crate) mod write;
