//! The errors of file-system calls, as POSIX names them.

/// Why a call failed. Nothing has changed then, unless the call says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Errno {
    /// A name does not exist.
    #[error("ENOENT: no such file or directory")]
    NoEntry,
    /// A name exists already.
    #[error("EEXIST: the name exists already")]
    Exists,
    /// A directory is needed, and this is none.
    #[error("ENOTDIR: not a directory")]
    NotDirectory,
    /// A directory where none may be.
    #[error("EISDIR: is a directory")]
    IsDirectory,
    /// A directory that still has entries.
    #[error("ENOTEMPTY: the directory is not empty")]
    NotEmpty,
    /// No such open file, or it is not open for this.
    #[error("EBADF: bad file descriptor")]
    BadDescriptor,
    /// An argument has no meaning here.
    #[error("EINVAL: invalid argument")]
    Invalid,
    /// No space is left.
    #[error("ENOSPC: no space left on the device")]
    NoSpace,
    /// Too many open files.
    #[error("EMFILE: too many open files")]
    TooManyFiles,
    /// The device failed.
    #[error("EIO: input/output error")]
    Io,
    /// Too many symbolic links on the way, or one where none may be followed.
    #[error("ELOOP: too many symbolic links")]
    Loop,
    /// A name of more than 255 bytes, or a path of more than 4,095.
    #[error("ENAMETOOLONG: file name too long")]
    NameTooLong,
    /// Never allowed for this kind of file.
    #[error("EPERM: operation not permitted")]
    NotPermitted,
    /// The two names are on different file systems.
    #[error("EXDEV: cross-device link")]
    CrossDevice,
    /// Beyond the largest size of a file.
    #[error("EFBIG: file too large")]
    FileTooLarge,
    /// The file system cannot be written.
    #[error("EROFS: read-only file system")]
    ReadOnly,
    /// The path leads out of the root directory.
    #[error("ENOTCAPABLE: the path leads out of the directory")]
    NotCapable,
    /// This kind of file does not know the call.
    #[error("ENOTSUP: operation not supported")]
    NotSupported,
    /// The root directory cannot be removed or renamed.
    #[error("EBUSY: device or resource busy")]
    Busy,
    /// More links than a file may have.
    #[error("EMLINK: too many links")]
    TooManyLinks,
}

impl Errno {
    /// The POSIX name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Errno::NoEntry => "ENOENT",
            Errno::Exists => "EEXIST",
            Errno::NotDirectory => "ENOTDIR",
            Errno::IsDirectory => "EISDIR",
            Errno::NotEmpty => "ENOTEMPTY",
            Errno::BadDescriptor => "EBADF",
            Errno::Invalid => "EINVAL",
            Errno::NoSpace => "ENOSPC",
            Errno::TooManyFiles => "EMFILE",
            Errno::Io => "EIO",
            Errno::Loop => "ELOOP",
            Errno::NameTooLong => "ENAMETOOLONG",
            Errno::NotPermitted => "EPERM",
            Errno::CrossDevice => "EXDEV",
            Errno::FileTooLarge => "EFBIG",
            Errno::ReadOnly => "EROFS",
            Errno::NotCapable => "ENOTCAPABLE",
            Errno::NotSupported => "ENOTSUP",
            Errno::Busy => "EBUSY",
            Errno::TooManyLinks => "EMLINK",
        }
    }
}
