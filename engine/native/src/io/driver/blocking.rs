//! Operations that block the thread that calls: what a pool of threads does, and how a file grows.

use std::io;
use std::os::unix::fs::FileExt;

use kvsim_engine::{DiskError, DiskOp, IoBuf};

use crate::api::options::Kind;
use crate::io::failure::DiskOperation;
use crate::io::file::DataFile;
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
            file.note_write(through);
            let written = if through {
                write_through(file, &data, offset)
            } else {
                file.write_all(&data, offset)
            };
            written.map(|()| None).map_err(|error| {
                let len_bytes = data.len() as u64;
                let operation = DiskOperation::Write { offset, len_bytes };
                file.failure.note(operation, error.raw_os_error());
                write_error(&error)
            })
        }
        DiskOp::Flush => flush(file)
            .map(|()| None)
            .map_err(|error| flush_error(file, &error)),
        // Nothing is promised of what a discard leaves; a hole would have to be allocated anew.
        DiskOp::Discard { .. } => Ok(None),
        DiskOp::Grow { new_bytes } => {
            let grown = file.grow_unsynced(new_bytes, file.next_growth());
            let synced = grown.map_err(|error| write_error(&error))?;
            synced
                .map(|()| None)
                .map_err(|error| flush_error(file, &error))
        }
    }
}

/// Reads so many bytes at an offset; `None` if that fails.
pub(crate) fn read(file: &DataFile, offset: u64, len: usize) -> Option<IoBuf> {
    let buffer = IoBuf::zeroed(len);
    execute(file, DiskOp::Read { offset, buffer }).ok()?
}

fn flush_error(file: &DataFile, error: &io::Error) -> DiskError {
    file.failure
        .note(DiskOperation::Flush, error.raw_os_error());
    DiskError::Flush
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
use write_then_flush as write_through;

#[cfg(any(not(target_os = "linux"), all(test, feature = "record")))]
fn write_then_flush(file: &DataFile, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all(bytes, offset)?;
    flush(file)
}

/// Makes durable what has been written, by the kind of durability that was asked for.
pub(crate) fn flush(file: &DataFile) -> io::Result<()> {
    noted(
        file.recorder.as_ref(),
        || Call::Flush,
        || match file.kind {
            Kind::Full => full_flush(&file.file),
            Kind::Os => Ok(rustix::fs::fsync(&file.file)?),
        },
    )
}

#[cfg(target_vendor = "apple")]
use crate::io::apple::full_flush;

/// Data, and of the metadata what it takes to find them, through the drive's own cache.
#[cfg(not(target_vendor = "apple"))]
fn full_flush(file: &std::fs::File) -> io::Result<()> {
    file.sync_data()
}

#[cfg(all(test, feature = "record"))]
mod tests {
    use super::*;
    use crate::OpenOptions;
    use crate::record::{Recorder, What};

    /// Goal: where a system has no write-through, a write and a flush stand in for it, in this order, for both kinds of durability.
    /// Method: the write as such systems do it, on a file whose calls are recorded; what was called, and what is in the file.
    #[test]
    fn a_write_and_a_flush_stand_in_for_a_write_through() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        for kind in [Kind::Full, Kind::Os] {
            let recorder = Recorder::default();
            let options = OpenOptions {
                kind,
                size_bytes: 1 << 20,
                recorder: Some(recorder.clone()),
                ..OpenOptions::default()
            };
            let file = DataFile::open(&directory.path().join(kind.to_string()), &options)
                .expect("it opens");
            drop(recorder.take());
            let mut bytes = IoBuf::zeroed(4096);
            bytes.fill(9);
            write_then_flush(&file, &bytes, 8192).expect("a disk does that");
            let calls: Vec<Call> = recorder
                .take()
                .into_iter()
                .filter_map(|event| match event.what {
                    What::Begun(_, call) => Some(call),
                    _ => None,
                })
                .collect();
            assert!(
                matches!(
                    &calls[..],
                    [
                        Call::Write {
                            offset: 8192,
                            through: false,
                            ..
                        },
                        Call::Flush
                    ]
                ),
                "{calls:?}"
            );
            let mut read = IoBuf::zeroed(4096);
            file.file
                .read_exact_at(&mut read, 8192)
                .expect("it is there");
            assert_eq!(read[..], bytes[..]);
        }
    }
}
