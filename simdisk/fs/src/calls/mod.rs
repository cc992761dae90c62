//! The calls, as POSIX has them. Where POSIX leaves a choice, they do what Linux does.

mod attributes;
mod io;
mod names;
mod open;

pub use attributes::Stat;
pub use open::DirectoryEntry;
