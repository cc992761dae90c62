//! Functions on open descriptors that move no data.

use std::io::SeekFrom;

use kvsim_fs::{FileKind, SyncKind};

use super::abi::{self, Code, fdflags, rights};
use super::answer::{Answer, told};
use super::map;
use super::memory::View;
use crate::table::Target;

/// The open file behind a descriptor; standard input and outputs have none.
pub(super) fn file(view: &View<'_>, fd: i32) -> Result<kvsim_fs::Fd, Code> {
    view.host.table.get(fd)?.file().ok_or(Code::INVALID)
}

fn unsigned(number: i64) -> Result<u64, Code> {
    u64::try_from(number).map_err(|_| Code::INVALID)
}

pub(super) fn fd_advise(
    view: &mut View<'_>,
    fd: i32,
    offset: i64,
    len: i64,
    advice: i32,
) -> Answer {
    let file = view.host.table.get(fd)?.file().ok_or(Code::SEEK_PIPE)?;
    unsigned(offset)?;
    unsigned(len)?;
    if !(0..=5).contains(&advice) {
        return Err(Code::INVALID);
    }
    // Advice changes nothing here.
    view.host.files.kind(file)?;
    Ok(())
}

pub(super) fn fd_allocate(view: &mut View<'_>, fd: i32, offset: i64, len: i64) -> Answer {
    let file = view.host.table.get(fd)?.file().ok_or(Code::SEEK_PIPE)?;
    let (offset, len) = (unsigned(offset)?, unsigned(len)?);
    let allocated = view.host.files.allocate(file, offset, len);
    told(view, "fd_allocate", allocated)
}

pub(super) fn fd_close(view: &mut View<'_>, fd: i32) -> Answer {
    let closed = view.host.table.remove(fd)?;
    if let Target::Opened(file) = closed.target {
        view.host.files.close(file)?;
    }
    Ok(())
}

/// The flags that a descriptor has set or was opened with make each write durable before it returns.
pub(super) fn sync(view: &mut View<'_>, fd: i32, kind: SyncKind) -> Answer {
    let file = file(view, fd)?;
    view.host.clock.count_sync();
    let synced = view.host.files.sync(file, kind);
    told(view, "fd_sync", synced)
}

pub(super) fn fd_datasync(view: &mut View<'_>, fd: i32) -> Answer {
    sync(view, fd, SyncKind::Data)
}

pub(super) fn fd_sync(view: &mut View<'_>, fd: i32) -> Answer {
    sync(view, fd, SyncKind::Full)
}

pub(super) fn fd_fdstat_get(view: &mut View<'_>, fd: i32, result: i32) -> Answer {
    let descriptor = view.host.table.get(fd)?;
    let (flags, base, inheriting) = (
        descriptor.flags,
        descriptor.rights,
        descriptor.rights_inheriting,
    );
    let (file_type, mask) = match descriptor.file() {
        Some(file) => match view.host.files.kind(file)? {
            FileKind::Directory => (abi::DIRECTORY, rights::DIRECTORY),
            kind => (abi::file_type(kind), rights::FILE),
        },
        // A pipe: preview 1 has no type for it, and none of a terminal is wanted.
        None => (abi::UNKNOWN, rights::FILE),
    };
    let bytes = abi::fdstat(file_type, flags, base & mask, inheriting);
    view.write(result, &bytes)
}

pub(super) fn fd_fdstat_set_flags(view: &mut View<'_>, fd: i32, flags: i32) -> Answer {
    let flags = u16::try_from(flags).map_err(|_| Code::INVALID)?;
    if flags & !fdflags::ALL != 0 {
        return Err(Code::INVALID);
    }
    let descriptor = view.host.table.get(fd)?;
    if let Target::Opened(file) = descriptor.target {
        let appends = flags & fdflags::APPEND != 0;
        if appends != (descriptor.flags & fdflags::APPEND != 0) {
            view.host.files.set_append(file, appends)?;
        }
    }
    view.host.table.get_mut(fd)?.flags = flags;
    Ok(())
}

pub(super) fn fd_fdstat_set_rights(
    view: &mut View<'_>,
    fd: i32,
    base: i64,
    inheriting: i64,
) -> Answer {
    let descriptor = view.host.table.get_mut(fd)?;
    let (base, inheriting) = (base.cast_unsigned(), inheriting.cast_unsigned());
    // Rights can only be given up.
    if base & !descriptor.rights != 0 || inheriting & !descriptor.rights_inheriting != 0 {
        return Err(Code::NOT_CAPABLE);
    }
    descriptor.rights = base;
    descriptor.rights_inheriting = inheriting;
    Ok(())
}

pub(super) fn fd_filestat_get(view: &mut View<'_>, fd: i32, result: i32) -> Answer {
    let bytes = match view.host.table.get(fd)?.file() {
        Some(file) => {
            let stat = view.host.files.stat(file)?;
            super::paths::note_times(view, &stat);
            abi::filestat(&stat)
        }
        None => abi::filestat_of_stream(fd.cast_unsigned()),
    };
    view.write(result, &bytes)
}

pub(super) fn fd_filestat_set_size(view: &mut View<'_>, fd: i32, size: i64) -> Answer {
    let size = unsigned(size)?;
    let file = file(view, fd)?;
    let set = view.host.files.set_size(file, size);
    let refreshed = map::refresh_resized(view, file);
    told(view, "fd_filestat_set_size", set)?;
    refreshed
}

/// The file, if the descriptor may write to it.
pub(super) fn writable(view: &View<'_>, fd: i32) -> Result<kvsim_fs::Fd, Code> {
    let descriptor = view.host.table.get(fd)?;
    let file = descriptor.file().ok_or(Code::INVALID)?;
    if descriptor.rights & rights::FD_WRITE == 0 {
        return Err(Code::BAD_DESCRIPTOR);
    }
    Ok(file)
}

pub(super) fn fd_filestat_set_times(
    view: &mut View<'_>,
    fd: i32,
    accessed: i64,
    modified: i64,
    flags: i32,
) -> Answer {
    let file = file(view, fd)?;
    let (accessed, modified) = super::paths::times(view, accessed, modified, flags)?;
    view.host.files.set_times(file, accessed, modified)?;
    Ok(())
}

pub(super) fn fd_prestat_get(view: &mut View<'_>, fd: i32, result: i32) -> Answer {
    let Target::Preopen(name) = view.host.table.get(fd)?.target else {
        return Err(Code::BAD_DESCRIPTOR);
    };
    let mut bytes = [0; 8];
    bytes[4..].copy_from_slice(&u32::try_from(name.len()).unwrap_or(0).to_le_bytes());
    view.write(result, &bytes)
}

pub(super) fn fd_prestat_dir_name(view: &mut View<'_>, fd: i32, address: i32, len: i32) -> Answer {
    let Target::Preopen(name) = view.host.table.get(fd)?.target else {
        return Err(Code::BAD_DESCRIPTOR);
    };
    if name.len() > len.cast_unsigned() as usize {
        return Err(Code::NAME_TOO_LONG);
    }
    view.write(address, name.as_bytes())
}

pub(super) fn fd_renumber(view: &mut View<'_>, fd: i32, to: i32) -> Answer {
    let replaced = view.host.table.renumber(fd, to)?;
    if let Some(Target::Opened(file)) = replaced.map(|it| it.target) {
        view.host.files.close(file)?;
    }
    Ok(())
}

pub(super) fn fd_seek(
    view: &mut View<'_>,
    fd: i32,
    offset: i64,
    whence: i32,
    result: i32,
) -> Answer {
    let file = view.host.table.get(fd)?.file().ok_or(Code::SEEK_PIPE)?;
    view.check(result, 8)?;
    let position = match whence {
        0 => SeekFrom::Start(unsigned(offset)?),
        1 => SeekFrom::Current(offset),
        2 => SeekFrom::End(offset),
        _ => return Err(Code::INVALID),
    };
    let now = view.host.files.seek(file, position)?;
    view.write_u64(result, now)
}

pub(super) fn fd_tell(view: &mut View<'_>, fd: i32, result: i32) -> Answer {
    let file = view.host.table.get(fd)?.file().ok_or(Code::SEEK_PIPE)?;
    view.check(result, 8)?;
    let now = view.host.files.tell(file)?;
    view.write_u64(result, now)
}
