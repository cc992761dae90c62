//! What the real directory says, in the terms of the model.

use std::os::fd::OwnedFd;

use kvsim_fs::{Errno, FileKind};
use rustix::fs::{self as real, AtFlags, FileType, Mode, OFlags};

pub(crate) fn errno(error: rustix::io::Errno) -> Errno {
    use rustix::io::Errno as Real;
    match error {
        Real::NOENT => Errno::NoEntry,
        Real::EXIST => Errno::Exists,
        Real::NOTDIR => Errno::NotDirectory,
        Real::ISDIR => Errno::IsDirectory,
        Real::NOTEMPTY => Errno::NotEmpty,
        Real::BADF => Errno::BadDescriptor,
        Real::INVAL => Errno::Invalid,
        Real::LOOP => Errno::Loop,
        Real::NAMETOOLONG => Errno::NameTooLong,
        Real::PERM => Errno::NotPermitted,
        Real::XDEV => Errno::NotCapable,
        Real::FBIG => Errno::FileTooLarge,
        Real::BUSY => Errno::Busy,
        other => panic!("the real directory says {other}"),
    }
}

pub(crate) type Found = (Vec<u8>, FileKind, Vec<u8>, u64);

pub(crate) fn kind(of: FileType) -> FileKind {
    match of {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        other => panic!("nobody made a {other:?}"),
    }
}

pub(crate) fn of_real(stat: &real::Stat) -> (FileKind, u64, u64) {
    let kind = kind(FileType::from_raw_mode(stat.st_mode));
    let size = match kind {
        FileKind::Directory => 0,
        _ => u64::try_from(stat.st_size).expect("a size"),
    };
    #[allow(
        clippy::useless_conversion,
        reason = "its type differs between machines"
    )]
    (kind, size, stat.st_nlink.into())
}

pub(crate) fn walk(directory: &OwnedFd, path: &mut Vec<u8>, all: &mut Vec<Found>) {
    let entries = real::Dir::read_from(directory).expect("a directory");
    for entry in entries {
        let entry = entry.expect("an entry");
        let name = entry.file_name();
        if [&b"."[..], b".."].contains(&name.to_bytes()) {
            continue;
        }
        let before = path.len();
        if before > 0 {
            path.push(b'/');
        }
        path.extend_from_slice(name.to_bytes());
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let stat = real::statat(directory, name, flags).expect("it is there");
        let kind = kind(FileType::from_raw_mode(stat.st_mode));
        let bytes = match kind {
            FileKind::Directory => Vec::new(),
            FileKind::Symlink => {
                let target = real::readlinkat(directory, name, Vec::new());
                target.expect("a link").into_bytes()
            }
            FileKind::File => {
                let file = real::openat(directory, name, OFlags::RDONLY, Mode::empty());
                let mut bytes = Vec::new();
                let mut file = std::fs::File::from(file.expect("a file"));
                std::io::Read::read_to_end(&mut file, &mut bytes).expect("a file");
                bytes
            }
        };
        all.push((path.clone(), kind, bytes, stat.st_ino));
        if kind == FileKind::Directory {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let below = real::openat(directory, name, flags, Mode::empty());
            walk(&below.expect("a directory"), path, all);
        }
        path.truncate(before);
    }
}
