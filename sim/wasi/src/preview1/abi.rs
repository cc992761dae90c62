//! The numbers and layouts of WASI preview 1, from its witx files (`wasi_snapshot_preview1.witx`, `typenames.witx`).

use kvsim_fs::{Errno, FileKind, Stat};

/// The module that all functions are imported from.
pub(crate) const MODULE: &str = "wasi_snapshot_preview1";

/// An error number of preview 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) i32);

impl Code {
    pub(crate) const SUCCESS: Code = Code(0);
    pub(crate) const BAD_DESCRIPTOR: Code = Code(8);
    pub(crate) const FAULT: Code = Code(21);
    pub(crate) const ILLEGAL_SEQUENCE: Code = Code(25);
    pub(crate) const INVALID: Code = Code(28);
    pub(crate) const IS_DIRECTORY: Code = Code(31);
    pub(crate) const NAME_TOO_LONG: Code = Code(37);
    pub(crate) const NOT_DIRECTORY: Code = Code(54);
    pub(crate) const NOT_SOCKET: Code = Code(57);
    pub(crate) const NOT_SUPPORTED: Code = Code(58);
    pub(crate) const SEEK_PIPE: Code = Code(70);
    pub(crate) const NOT_CAPABLE: Code = Code(76);
}

impl From<Errno> for Code {
    fn from(error: Errno) -> Code {
        Code(match error {
            Errno::NoEntry => 44,
            Errno::Exists => 20,
            Errno::NotDirectory => 54,
            Errno::IsDirectory => 31,
            Errno::NotEmpty => 55,
            Errno::BadDescriptor => 8,
            Errno::Invalid => 28,
            Errno::NoSpace => 51,
            Errno::TooManyFiles => 33,
            Errno::Io => 29,
            Errno::Loop => 32,
            Errno::NameTooLong => 37,
            Errno::NotPermitted => 63,
            Errno::CrossDevice => 75,
            Errno::FileTooLarge => 22,
            Errno::ReadOnly => 69,
            Errno::NotCapable => 76,
            Errno::NotSupported => 58,
            Errno::Busy => 10,
            Errno::TooManyLinks => 34,
            // An error that is added later is told as one of input and output until it has its number here.
            _ => 29,
        })
    }
}

/// What a file is, as a number.
pub(crate) fn file_type(kind: FileKind) -> u8 {
    match kind {
        FileKind::Directory => DIRECTORY,
        FileKind::File => REGULAR_FILE,
        FileKind::Symlink => SYMBOLIC_LINK,
    }
}

pub(crate) const UNKNOWN: u8 = 0;
pub(crate) const CHARACTER_DEVICE: u8 = 2;
pub(crate) const DIRECTORY: u8 = 3;
pub(crate) const REGULAR_FILE: u8 = 4;
pub(crate) const SYMBOLIC_LINK: u8 = 7;

/// Flags of a descriptor.
pub(crate) mod fdflags {
    pub(crate) const APPEND: u16 = 1;
    pub(crate) const DSYNC: u16 = 2;
    pub(crate) const NONBLOCK: u16 = 4;
    pub(crate) const RSYNC: u16 = 8;
    pub(crate) const SYNC: u16 = 16;
    pub(crate) const ALL: u16 = APPEND | DSYNC | NONBLOCK | RSYNC | SYNC;
}

/// Flags of `path_open`.
pub(crate) mod oflags {
    pub(crate) const CREATE: i32 = 1;
    pub(crate) const DIRECTORY: i32 = 2;
    pub(crate) const EXCLUSIVE: i32 = 4;
    pub(crate) const TRUNCATE: i32 = 8;
    pub(crate) const ALL: i32 = 15;
}

/// The flag of lookups: the last part of a path is followed if it is a symbolic link.
pub(crate) const FOLLOW: i32 = 1;

/// Flags of the calls that set times.
pub(crate) mod fstflags {
    pub(crate) const ATIM: i32 = 1;
    pub(crate) const ATIM_NOW: i32 = 2;
    pub(crate) const MTIM: i32 = 4;
    pub(crate) const MTIM_NOW: i32 = 8;
    pub(crate) const ALL: i32 = 15;
}

/// Rights of a descriptor.
pub(crate) mod rights {
    pub(crate) const FD_READ: u64 = 1 << 1;
    pub(crate) const FD_WRITE: u64 = 1 << 6;
    /// All that preview 1 names.
    pub(crate) const ALL: u64 = (1 << 30) - 1;
    const FD_DATASYNC: u64 = 1;
    const FD_SEEK: u64 = 1 << 2;
    const FD_FDSTAT_SET_FLAGS: u64 = 1 << 3;
    const FD_SYNC: u64 = 1 << 4;
    const FD_TELL: u64 = 1 << 5;
    const FD_ADVISE: u64 = 1 << 7;
    const FD_ALLOCATE: u64 = 1 << 8;
    const PATHS: u64 = 0b1_1111 << 9 | 0b11_1111 << 15 | 0b111 << 24;
    const FD_READDIR: u64 = 1 << 14;
    const FD_FILESTAT_GET: u64 = 1 << 21;
    const FD_FILESTAT_SET_SIZE: u64 = 1 << 22;
    const FD_FILESTAT_SET_TIMES: u64 = 1 << 23;
    const POLL_FD_READWRITE: u64 = 1 << 27;
    /// What can be done with a regular file.
    pub(crate) const FILE: u64 = FD_DATASYNC
        | FD_READ
        | FD_SEEK
        | FD_FDSTAT_SET_FLAGS
        | FD_SYNC
        | FD_TELL
        | FD_WRITE
        | FD_ADVISE
        | FD_ALLOCATE
        | FD_FILESTAT_GET
        | FD_FILESTAT_SET_SIZE
        | FD_FILESTAT_SET_TIMES
        | POLL_FD_READWRITE;
    /// What can be done with a directory.
    pub(crate) const DIRECTORY: u64 = (FD_DATASYNC
        | FD_FDSTAT_SET_FLAGS
        | FD_SYNC
        | PATHS
        | FD_READDIR
        | FD_FILESTAT_GET
        | FD_FILESTAT_SET_TIMES)
        & !(FD_FILESTAT_SET_SIZE | POLL_FD_READWRITE);
}

/// The 64 bytes of a `filestat`.
pub(crate) fn filestat(stat: &Stat) -> [u8; 64] {
    let mut bytes = [0; 64];
    let mut put = |at: usize, number: u64| {
        bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
    };
    put(0, DEVICE);
    put(8, stat.ino);
    put(16, u64::from(file_type(stat.kind)));
    put(24, stat.links);
    put(32, stat.size);
    put(40, stat.accessed_ns);
    put(48, stat.modified_ns);
    put(56, stat.changed_ns);
    bytes
}

/// The number of the one device. It is not 0: some programs take 0 for "unknown".
pub(crate) const DEVICE: u64 = 1;

/// The 64 bytes of the `filestat` of standard input and outputs.
pub(crate) fn filestat_of_stream(fd: u32) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[8..16].copy_from_slice(&u64::from(fd).to_le_bytes());
    bytes[16] = CHARACTER_DEVICE;
    bytes[24] = 1;
    bytes
}

/// The 24 bytes of an `fdstat`.
pub(crate) fn fdstat(file_type: u8, flags: u16, base: u64, inheriting: u64) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[0] = file_type;
    bytes[2..4].copy_from_slice(&flags.to_le_bytes());
    bytes[8..16].copy_from_slice(&base.to_le_bytes());
    bytes[16..24].copy_from_slice(&inheriting.to_le_bytes());
    bytes
}

/// One entry of a directory as `fd_readdir` gives it: 24 bytes, then the name.
pub(crate) fn dirent(next: u64, inode: u64, kind: u8, name: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(24 + name.len());
    bytes.extend_from_slice(&next.to_le_bytes());
    bytes.extend_from_slice(&inode.to_le_bytes());
    let name_len = u32::try_from(name.len()).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&name_len.to_le_bytes());
    bytes.extend_from_slice(&[kind, 0, 0, 0]);
    bytes.extend_from_slice(name);
    bytes
}
