//! Reading and writing.

use kvsim_fs::SyncKind;

use super::abi::{Code, fdflags, rights};
use super::answer::{Answer, end, told};
use super::memory::View;
use super::{descriptors, map};
use crate::host::{Ending, Host};
use crate::table::Target;

fn readable(view: &View<'_>, fd: i32) -> Result<kvsim_fs::Fd, Code> {
    let descriptor = view.host.table.get(fd)?;
    let file = descriptor.file().ok_or(Code::BAD_DESCRIPTOR)?;
    let is_preopened = matches!(descriptor.target, Target::Preopen(_));
    if descriptor.rights & rights::FD_READ == 0 && !is_preopened {
        return Err(Code::BAD_DESCRIPTOR);
    }
    Ok(file)
}

fn total(buffers: &[(i32, i32)]) -> usize {
    let lens = buffers.iter().map(|(_, len)| len.cast_unsigned() as usize);
    lens.sum()
}

/// Whether a read of this descriptor has to wait for a message.
pub(super) fn waits_for_input(host: &Host, fd: i32) -> bool {
    let is_stdin = host
        .table
        .get(fd)
        .is_ok_and(|it| it.target == Target::Stdin);
    is_stdin && host.line.as_ref().is_some_and(|it| !it.mailbox.is_ready())
}

pub(super) fn fd_read(
    view: &mut View<'_>,
    fd: i32,
    buffers: i32,
    count: i32,
    result: i32,
) -> Answer {
    view.check(result, 4)?;
    let buffers = view.buffers(buffers, count)?;
    if view.host.table.get(fd)?.target == Target::Stdin {
        let line = view.host.line.clone();
        // Without a mailbox, or at its end, the input is at its end.
        let bytes = line
            .and_then(|it| it.mailbox.read(total(&buffers)))
            .unwrap_or_default();
        view.scatter(&buffers, &bytes)?;
        return view.write_u32(result, bytes.len());
    }
    let file = readable(view, fd)?;
    let mut bytes = vec![0; total(&buffers)];
    let read = view.host.files.read(file, &mut bytes);
    let read = told(view, "fd_read", read)?;
    view.scatter(&buffers, &bytes[..read])?;
    view.write_u32(result, read)
}

pub(super) fn fd_pread(
    view: &mut View<'_>,
    fd: i32,
    buffers: i32,
    count: i32,
    offset: i64,
    result: i32,
) -> Answer {
    view.check(result, 4)?;
    let buffers = view.buffers(buffers, count)?;
    let offset = u64::try_from(offset).map_err(|_| Code::INVALID)?;
    if view.host.table.get(fd)?.file().is_none() {
        return Err(Code::SEEK_PIPE);
    }
    let file = readable(view, fd)?;
    if let [(address, len)] = buffers[..] {
        // The usual case: straight into the guest's memory.
        let start = address.cast_unsigned() as usize;
        let View { bytes, host } = &mut *view;
        let buffer = &mut bytes[start..start + len.cast_unsigned() as usize];
        let read = host.files.read_at(file, offset, buffer);
        let read = told(view, "fd_pread", read)?;
        return view.write_u32(result, read);
    }
    let mut bytes = vec![0; total(&buffers)];
    let read = view.host.files.read_at(file, offset, &mut bytes);
    let read = told(view, "fd_pread", read)?;
    view.scatter(&buffers, &bytes[..read])?;
    view.write_u32(result, read)
}

/// A descriptor that was opened with `O_SYNC` or `O_DSYNC` makes each write durable.
fn sync_if_asked(view: &mut View<'_>, fd: i32) -> Answer {
    let flags = view.host.table.get(fd)?.flags;
    if flags & fdflags::SYNC != 0 {
        return descriptors::sync(view, fd, SyncKind::Full);
    }
    if flags & fdflags::DSYNC != 0 {
        return descriptors::sync(view, fd, SyncKind::Data);
    }
    Ok(())
}

pub(super) fn fd_write(
    view: &mut View<'_>,
    fd: i32,
    buffers: i32,
    count: i32,
    result: i32,
) -> Answer {
    view.check(result, 4)?;
    let target = view.host.table.get(fd)?.target;
    let bytes = view.gather(buffers, count)?;
    match target {
        Target::Stdin => return Err(Code::BAD_DESCRIPTOR),
        Target::Stdout if view.host.line.is_some() => {
            let line = view.host.line.clone();
            if !line.is_some_and(|it| it.mailbox.write(&bytes)) {
                let what = "it writes to standard output without an end".to_owned();
                return end(view, Ending::Verdict(kvsim_sim::GuestError::Abi(what)));
            }
            return view.write_u32(result, bytes.len());
        }
        Target::Stdout | Target::Stderr => {
            let written = view.host.write_output(target == Target::Stderr, &bytes);
            if let Err(ending) = written {
                return end(view, ending);
            }
            return view.write_u32(result, bytes.len());
        }
        Target::Preopen(_) | Target::Opened(_) => {}
    }
    let file = descriptors::writable(view, fd)?;
    let written = view.host.files.write(file, &bytes);
    let written = told(view, "fd_write", written)?;
    if !view.host.mappings.is_empty() {
        let end = view.host.files.tell(file)?;
        map::refresh_written(view, file, end - written as u64, &bytes[..written])?;
    }
    sync_if_asked(view, fd)?;
    view.write_u32(result, written)
}

pub(super) fn fd_pwrite(
    view: &mut View<'_>,
    fd: i32,
    buffers: i32,
    count: i32,
    offset: i64,
    result: i32,
) -> Answer {
    view.check(result, 4)?;
    let offset = u64::try_from(offset).map_err(|_| Code::INVALID)?;
    let bytes = view.gather(buffers, count)?;
    if view.host.table.get(fd)?.file().is_none() {
        return Err(Code::SEEK_PIPE);
    }
    let file = descriptors::writable(view, fd)?;
    let written = view.host.files.write_at(file, offset, &bytes);
    let written = told(view, "fd_pwrite", written)?;
    map::refresh_written(view, file, offset, &bytes[..written])?;
    sync_if_asked(view, fd)?;
    view.write_u32(result, written)
}
