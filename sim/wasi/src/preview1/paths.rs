//! Functions that take a path, and the listing of a directory. A path is resolved below its descriptor and never leads out of `/db`.

use kvsim_fs::{Errno, OpenHow, Stat};

use super::abi::{self, Code, FOLLOW, fdflags, fstflags, oflags, rights};
use super::answer::{Answer, told};
use super::map;
use super::memory::View;
use crate::table::{DESCRIPTORS_MAX, Descriptor, Target};

/// The directory that a path begins at.
fn directory(view: &View<'_>, fd: i32) -> Result<kvsim_fs::Fd, Code> {
    view.host.table.get(fd)?.file().ok_or(Code::NOT_DIRECTORY)
}

/// The answer of a call with a path. Walking out of `/db` is told to people, once.
fn told_of<T>(
    view: &mut View<'_>,
    name: &'static str,
    path: &[u8],
    result: Result<T, Errno>,
) -> Result<T, Code> {
    if matches!(result, Err(Errno::NotCapable)) {
        view.host.note("outside", || {
            let path = String::from_utf8_lossy(path);
            format!("{name}: `{path}` leads out of /db, the only directory there is")
        });
    }
    told(view, name, result)
}

/// Counts that a guest was told times of a file. Times that are all 0 say nothing.
pub(super) fn note_times(view: &mut View<'_>, stat: &Stat) {
    let times = [stat.accessed_ns, stat.modified_ns, stat.changed_ns];
    view.host.told.file_time_reads += u64::from(times != [0; 3]);
}

/// The times that a call is to set; none where the time stays.
pub(super) fn times(
    view: &mut View<'_>,
    accessed: i64,
    modified: i64,
    flags: i32,
) -> Result<(Option<u64>, Option<u64>), Code> {
    let both = |one: i32, other: i32| flags & one != 0 && flags & other != 0;
    let contradicts =
        both(fstflags::ATIM, fstflags::ATIM_NOW) || both(fstflags::MTIM, fstflags::MTIM_NOW);
    if flags & !fstflags::ALL != 0 || contradicts {
        return Err(Code::INVALID);
    }
    let now = view.host.clock.files_now();
    let time = |value: i64, given: i32, is_now: i32| {
        if flags & given != 0 {
            Some(value.cast_unsigned())
        } else {
            (flags & is_now != 0).then_some(now)
        }
    };
    Ok((
        time(accessed, fstflags::ATIM, fstflags::ATIM_NOW),
        time(modified, fstflags::MTIM, fstflags::MTIM_NOW),
    ))
}

pub(super) fn fd_readdir(
    view: &mut View<'_>,
    fd: i32,
    address: i32,
    len: i32,
    cookie: i64,
    result: i32,
) -> Answer {
    view.check(result, 4)?;
    view.check(address, len)?;
    let directory = directory(view, fd)?;
    let room = len.cast_unsigned() as usize;
    // An entry takes a head and at least a byte of a name. One that is cut tells the caller that there is more.
    let most = (room / (ENTRY_BYTES + 1) + 1).min(ENTRIES_MAX);
    let (mut bytes, mut cookie) = (Vec::new(), cookie.cast_unsigned());
    while bytes.len() < room {
        let listed = view.host.files.read_directory(directory, cookie, most);
        let entries = told(view, "fd_readdir", listed)?;
        for entry in &entries {
            let kind = abi::file_type(entry.kind);
            bytes.extend(abi::dirent(entry.next_cookie, entry.ino, kind, &entry.name));
            cookie = entry.next_cookie;
        }
        if entries.len() < most {
            break;
        }
    }
    bytes.truncate(room);
    view.write(address, &bytes)?;
    view.write_u32(result, bytes.len())
}

/// Bytes of an entry without its name.
const ENTRY_BYTES: usize = 24;
/// Entries that are asked for at once.
const ENTRIES_MAX: usize = 1_024;

pub(super) fn path_create_directory(
    view: &mut View<'_>,
    fd: i32,
    path: i32,
    path_len: i32,
) -> Answer {
    let at = directory(view, fd)?;
    let path = view.path(path, path_len)?;
    let made = view.host.files.create_directory(at, &path);
    told_of(view, "path_create_directory", &path, made)
}

pub(super) fn path_filestat_get(
    view: &mut View<'_>,
    fd: i32,
    flags: i32,
    path: i32,
    path_len: i32,
    result: i32,
) -> Answer {
    view.check(result, 64)?;
    let at = directory(view, fd)?;
    let path = view.path(path, path_len)?;
    let found = view.host.files.stat_at(at, &path, flags & FOLLOW != 0);
    let stat = told_of(view, "path_filestat_get", &path, found)?;
    note_times(view, &stat);
    view.write(result, &abi::filestat(&stat))
}

#[expect(clippy::too_many_arguments, reason = "preview 1 says so")]
pub(super) fn path_filestat_set_times(
    view: &mut View<'_>,
    fd: i32,
    flags: i32,
    path: i32,
    path_len: i32,
    accessed: i64,
    modified: i64,
    set: i32,
) -> Answer {
    let at = directory(view, fd)?;
    let path = view.path(path, path_len)?;
    let (accessed, modified) = times(view, accessed, modified, set)?;
    let set = view
        .host
        .files
        .set_times_at(at, &path, flags & FOLLOW != 0, accessed, modified);
    told_of(view, "path_filestat_set_times", &path, set)
}

#[expect(clippy::too_many_arguments, reason = "preview 1 says so")]
pub(super) fn path_link(
    view: &mut View<'_>,
    fd: i32,
    flags: i32,
    path: i32,
    path_len: i32,
    new_fd: i32,
    new_path: i32,
    new_path_len: i32,
) -> Answer {
    let (at, new_at) = (directory(view, fd)?, directory(view, new_fd)?);
    let (path, new_path) = (
        view.path(path, path_len)?,
        view.path(new_path, new_path_len)?,
    );
    let linked = view
        .host
        .files
        .link(at, &path, flags & FOLLOW != 0, new_at, &new_path);
    told_of(view, "path_link", &new_path, linked)
}

#[expect(clippy::too_many_arguments, reason = "preview 1 says so")]
pub(super) fn path_open(
    view: &mut View<'_>,
    fd: i32,
    lookup: i32,
    path: i32,
    path_len: i32,
    open: i32,
    rights_base: i64,
    rights_inheriting: i64,
    flags: i32,
    result: i32,
) -> Answer {
    view.check(result, 4)?;
    let flags = u16::try_from(flags).map_err(|_| Code::INVALID)?;
    if open & !oflags::ALL != 0 || flags & !fdflags::ALL != 0 {
        return Err(Code::INVALID);
    }
    let at = directory(view, fd)?;
    let path = view.path(path, path_len)?;
    let asked = rights_base.cast_unsigned();
    let is_directory = open & oflags::DIRECTORY != 0;
    if view.host.table.is_full() {
        return told(view, "path_open", Err(Errno::TooManyFiles)).inspect_err(|_| {
            tracing::debug!("all {DESCRIPTORS_MAX} descriptors are in use");
        });
    }
    let writes = asked & rights::FD_WRITE != 0 && !is_directory;
    let how = OpenHow {
        read: asked & rights::FD_READ != 0,
        write: writes,
        append: flags & fdflags::APPEND != 0,
        create: open & oflags::CREATE != 0,
        exclusive: open & oflags::EXCLUSIVE != 0,
        truncate: open & oflags::TRUNCATE != 0,
        directory: is_directory,
        no_follow: lookup & FOLLOW == 0,
    };
    let opened = view.host.files.open(at, &path, &how);
    let file = told_of(view, "path_open", &path, opened)?;
    if how.truncate {
        map::refresh_resized(view, file)?;
    }
    let mut descriptor = Descriptor::new(Target::Opened(file), asked & rights::ALL);
    descriptor.flags = flags;
    descriptor.rights_inheriting = rights_inheriting.cast_unsigned() & rights::ALL;
    let number = view.host.table.insert(descriptor);
    view.write_u32(result, number)
}

pub(super) fn path_readlink(
    view: &mut View<'_>,
    fd: i32,
    path: i32,
    path_len: i32,
    address: i32,
    len: i32,
    result: i32,
) -> Answer {
    view.check(result, 4)?;
    view.check(address, len)?;
    let at = directory(view, fd)?;
    let path = view.path(path, path_len)?;
    let read = view.host.files.read_link(at, &path);
    let target = told_of(view, "path_readlink", &path, read)?;
    // As POSIX says, what does not fit is cut.
    let fits = &target[..target.len().min(len.cast_unsigned() as usize)];
    view.write(address, fits)?;
    view.write_u32(result, fits.len())
}

pub(super) fn path_remove_directory(
    view: &mut View<'_>,
    fd: i32,
    path: i32,
    path_len: i32,
) -> Answer {
    let at = directory(view, fd)?;
    let path = view.path(path, path_len)?;
    let removed = view.host.files.remove_directory(at, &path);
    told_of(view, "path_remove_directory", &path, removed)
}

pub(super) fn path_rename(
    view: &mut View<'_>,
    fd: i32,
    path: i32,
    path_len: i32,
    new_fd: i32,
    new_path: i32,
    new_path_len: i32,
) -> Answer {
    let (at, new_at) = (directory(view, fd)?, directory(view, new_fd)?);
    let (path, new_path) = (
        view.path(path, path_len)?,
        view.path(new_path, new_path_len)?,
    );
    let renamed = view.host.files.rename(at, &path, new_at, &new_path);
    told_of(view, "path_rename", &new_path, renamed)
}

pub(super) fn path_symlink(
    view: &mut View<'_>,
    target: i32,
    target_len: i32,
    fd: i32,
    path: i32,
    path_len: i32,
) -> Answer {
    let at = directory(view, fd)?;
    let (target, path) = (view.path(target, target_len)?, view.path(path, path_len)?);
    let linked = view.host.files.symlink(&target, at, &path);
    told_of(view, "path_symlink", &path, linked)
}

pub(super) fn path_unlink_file(view: &mut View<'_>, fd: i32, path: i32, path_len: i32) -> Answer {
    let at = directory(view, fd)?;
    let path = view.path(path, path_len)?;
    let removed = view.host.files.unlink(at, &path);
    told_of(view, "path_unlink_file", &path, removed)
}
