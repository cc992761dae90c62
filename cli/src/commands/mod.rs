//! A file for each command: what its arguments come to, and what is printed.

pub(crate) mod bench;
pub(crate) mod board;
pub(crate) mod calibrate;
pub(crate) mod check_guest;
pub(crate) mod crash_disk;
pub(crate) mod explore;
pub(crate) mod merge;
pub(crate) mod mutants;
pub(crate) mod new_guest;
pub(crate) mod pages;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod suite;
pub(crate) mod syncs;
pub(crate) mod timeline;
