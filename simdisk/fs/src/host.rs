//! What a host may ask without making a call: nothing is counted, timed or noted.

use crate::node::Ino;
use crate::{Errno, Fd, FileKind, FileSystem};

impl FileSystem {
    /// The seed that it was made with.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Which inode a descriptor refers to.
    ///
    /// # Errors
    /// `BadDescriptor`.
    pub fn ino(&self, fd: Fd) -> Result<Ino, Errno> {
        Ok(self.descriptors.get(fd)?.ino)
    }

    /// What a descriptor refers to.
    ///
    /// # Errors
    /// `BadDescriptor`.
    pub fn kind(&self, fd: Fd) -> Result<FileKind, Errno> {
        Ok(self.live.node(self.ino(fd)?).kind())
    }

    /// The bytes of an open file, 0 of a directory.
    ///
    /// # Errors
    /// `BadDescriptor`.
    pub fn size(&self, fd: Fd) -> Result<u64, Errno> {
        let node = self.live.node(self.ino(fd)?);
        Ok(node.file().map_or(0, |content| content.size))
    }
}
