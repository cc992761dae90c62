//! Operations that block the thread that calls: what a pool of threads does, and how a file grows.

use std::io;
use std::os::unix::fs::FileExt;

use kvsim_engine::{DiskError, DiskOp, IoBuf};

use crate::file::DataFile;
use crate::options::Kind;
use crate::record::{Call, noted};

/// Does it, to its end.
pub(crate) fn execute(file: &DataFile, op: DiskOp) -> Result<Option<IoBuf>, DiskError> {
    match op {
        DiskOp::Read { offset, mut buffer } => {
            let len_bytes = buffer.len() as u64;
            let call = || Call::Read { offset, len_bytes };
            let read = noted(file.recorder.as_ref(), call, || {
                file.file.read_exact_at(&mut buffer, offset)
            });
            read.map(|()| Some(buffer)).map_err(|_| DiskError::Read)
        }
        DiskOp::Write {
            offset,
            data,
            through,
        } => {
            let written = if through {
                write_through(file, &data, offset)
            } else {
                write_all(file, &data, offset)
            };
            written.map(|()| None).map_err(|error| write_error(&error))
        }
        DiskOp::Flush => flush(file).map(|()| None).map_err(|_| DiskError::Flush),
        // Nothing is promised of what a discard leaves; a hole would have to be allocated anew.
        DiskOp::Discard { .. } => Ok(None),
        DiskOp::Grow { new_bytes } => file
            .grow(new_bytes)
            .map(|()| None)
            .map_err(|error| write_error(&error)),
    }
}

/// Only a lack of space is told apart: everything else may have left anything.
fn write_error(error: &io::Error) -> DiskError {
    let no_space = [rustix::io::Errno::NOSPC, rustix::io::Errno::DQUOT];
    if no_space
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
    {
        DiskError::NoSpace
    } else {
        DiskError::Write
    }
}

/// Writes everything. An interruption is no error; whatever else is, is.
pub(crate) fn write_all(file: &DataFile, bytes: &[u8], offset: u64) -> io::Result<()> {
    let call = || Call::Write {
        offset,
        data: bytes.into(),
        through: false,
    };
    noted(file.recorder.as_ref(), call, || {
        file.file.write_all_at(bytes, offset)
    })
}

/// Writes everything, durable at the end.
#[cfg(target_os = "linux")]
fn write_through(file: &DataFile, bytes: &[u8], offset: u64) -> io::Result<()> {
    let call = || Call::Write {
        offset,
        data: bytes.into(),
        through: true,
    };
    noted(file.recorder.as_ref(), call, || {
        write_synchronously(file, bytes, offset)
    })
}

#[cfg(target_os = "linux")]
fn write_synchronously(file: &DataFile, bytes: &[u8], offset: u64) -> io::Result<()> {
    use rustix::io::{Errno, ReadWriteFlags, pwritev2};
    let mut done = 0;
    while done < bytes.len() {
        let slice = io::IoSlice::new(&bytes[done..]);
        match pwritev2(
            &file.file,
            &[slice],
            offset + done as u64,
            ReadWriteFlags::DSYNC,
        ) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => done += written,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Where there is no write-through, a flush of everything does it too.
#[cfg(not(target_os = "linux"))]
fn write_through(file: &DataFile, bytes: &[u8], offset: u64) -> io::Result<()> {
    write_all(file, bytes, offset)?;
    flush(file)
}

/// Makes durable what has been written, by the kind of durability that was asked for.
pub(crate) fn flush(file: &DataFile) -> io::Result<()> {
    noted(
        file.recorder.as_ref(),
        || Call::Flush,
        || match file.kind {
            // On Apple's systems this is `F_FULLFSYNC`.
            Kind::Full => file.file.sync_data(),
            Kind::Os => Ok(rustix::fs::fsync(&file.file)?),
        },
    )
}
