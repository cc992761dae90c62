//! What macOS is asked in its own words: allocation ahead of need, the drive's own flush, the name of the device.
//!
//! Sources: `fcntl(2)` and `statfs(2)` of macOS.
#![expect(unsafe_code, reason = "there is no safe name for `F_PREALLOCATE`")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Asks for room behind the end of the file, in one piece if there is one; its length stays as it is.
pub(crate) fn preallocate(file: &File, len: u64) -> io::Result<()> {
    let wanted = |flags| libc::fstore_t {
        fst_flags: flags,
        fst_posmode: libc::F_PEOFPOSMODE,
        fst_offset: 0,
        fst_length: i64::try_from(len).unwrap_or(i64::MAX),
        fst_bytesalloc: 0,
    };
    let mut result = Ok(());
    for flags in [
        libc::F_ALLOCATECONTIG | libc::F_ALLOCATEALL,
        libc::F_ALLOCATEALL,
    ] {
        let mut store = wanted(flags);
        // SAFETY: the descriptor is open as long as `file` is borrowed, and the call reads and writes this one structure.
        let code = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_PREALLOCATE, &raw mut store) };
        if code != -1 {
            return Ok(());
        }
        result = Err(io::Error::last_os_error());
    }
    match result {
        // The file system cannot; the zeroes will allocate.
        Err(error) if error.raw_os_error() == Some(libc::ENOTSUP) => Ok(()),
        other => other,
    }
}

/// Empties the drive's own cache. A file system that cannot do that is not taken for one that can.
pub(crate) fn full_flush(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fcntl_fullfsync(file)?)
}

/// What holds the file: the device as it was mounted, and the kind of file system.
pub(crate) fn device_of(file: &File) -> String {
    let Ok(found) = rustix::fs::fstatfs(file) else {
        return String::new();
    };
    let text = |chars: &[libc::c_char]| -> String {
        let bytes = chars.iter().map(|char| char.to_ne_bytes()[0]);
        let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    format!(
        "{} ({})",
        text(&found.f_mntfromname),
        text(&found.f_fstypename)
    )
}
