//! A mapping of a file into the guest's memory, as a value.

use kvsim_fs::{Fd, Ino};

/// One mapping.
#[derive(Debug, Clone)]
pub(crate) struct Mapping {
    pub(crate) address: u64,
    pub(crate) len: u64,
    pub(crate) offset: u64,
    pub(crate) inode: Ino,
    /// A descriptor of its own: a mapping outlives the close of the guest's.
    pub(crate) file: Fd,
    /// How much of it holds bytes of the file: the rest is zero.
    pub(crate) filled: u64,
}

impl Mapping {
    pub(crate) fn overlaps(&self, address: u64, len: u64) -> bool {
        self.address < address + len && address < self.address + self.len
    }
}
