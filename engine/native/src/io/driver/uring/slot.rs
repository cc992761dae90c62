//! What the kernel is told of one operation, and what it says of its end.
#![expect(
    unsafe_code,
    reason = "an entry is looked at as the kernel's structure"
)]

use std::io;
use std::sync::Arc;

use io_uring::types::{Fixed, FsyncFlags};
use io_uring::{opcode, squeue};
use kvsim_engine::{DiskError, IoBuf};

use crate::record::{Call, CallId};

/// The registered file.
const FILE: Fixed = Fixed(0);
/// `RWF_DSYNC` of `linux/fs.h`: the write is durable when it completes.
const RWF_DSYNC: i32 = 0x2;

/// What the kernel works on.
pub(super) struct Slot {
    pub(super) tag: u64,
    pub(super) work: Work,
    /// Bytes of it that are done.
    pub(super) done: usize,
    /// What the recording calls it, if there is one.
    pub(super) recorded: Option<CallId>,
}

pub(super) enum Work {
    Read {
        offset: u64,
        buffer: IoBuf,
    },
    Write {
        offset: u64,
        data: Arc<IoBuf>,
        through: bool,
    },
    Flush,
}

impl Slot {
    /// What is left to do of it, as the kernel wants to be told.
    pub(super) fn entry(&mut self, index: usize) -> squeue::Entry {
        let done = self.done;
        let entry = match &mut self.work {
            Work::Read { offset, buffer } => {
                let rest = &mut buffer[done..];
                opcode::Read::new(FILE, rest.as_mut_ptr(), len32(rest.len()))
                    .offset(*offset + done as u64)
                    .build()
            }
            Work::Write {
                offset,
                data,
                through,
            } => {
                let rest = &data[done..];
                opcode::Write::new(FILE, rest.as_ptr(), len32(rest.len()))
                    .offset(*offset + done as u64)
                    .rw_flags(if *through { RWF_DSYNC } else { 0 })
                    .build()
            }
            Work::Flush => opcode::Fsync::new(FILE).flags(FsyncFlags::DATASYNC).build(),
        };
        entry.user_data(index as u64)
    }

    /// What the entry tells the kernel, in a recording's words; nothing of what this driver thinks that it told.
    pub(super) fn call(&self, entry: &squeue::Entry) -> Call {
        let told = Told::of(entry);
        match &self.work {
            Work::Read { .. } if told.opcode == opcode::Read::CODE => Call::Read {
                offset: told.offset,
                len_bytes: told.len as u64,
            },
            Work::Write { data, .. } if told.opcode == opcode::Write::CODE => {
                let start = told.address - data.as_ptr().addr();
                Call::Write {
                    offset: told.offset,
                    data: data[start..start + told.len].into(),
                    through: told.rw_flags & RWF_DSYNC != 0,
                }
            }
            Work::Flush if told.opcode == opcode::Fsync::CODE => Call::Flush,
            _ => panic!("an entry of another kind: {entry:?}"),
        }
    }

    pub(super) fn error(&self, errno: i32) -> DiskError {
        match self.work {
            Work::Read { .. } => DiskError::Read,
            Work::Flush => DiskError::Flush,
            Work::Write { .. } if errno == rustix::io::Errno::NOSPC.raw_os_error() => {
                DiskError::NoSpace
            }
            Work::Write { .. } => DiskError::Write,
        }
    }

    pub(super) fn len(&self) -> usize {
        match &self.work {
            Work::Read { buffer, .. } => buffer.len(),
            Work::Write { data, .. } => data.len(),
            Work::Flush => 0,
        }
    }
}

/// Whether a call may be made again: its time is over, a signal came, there are completions to take first, or the kernel is short of something for now.
pub(super) fn is_passing(error: &io::Error) -> bool {
    let passing = [
        rustix::io::Errno::TIME,
        rustix::io::Errno::INTR,
        rustix::io::Errno::BUSY,
        rustix::io::Errno::AGAIN,
    ];
    let code = error.raw_os_error();
    passing
        .iter()
        .any(|errno| code == Some(errno.raw_os_error()))
}

/// The fields of an entry, as the kernel reads them: `struct io_uring_sqe` of `linux/io_uring.h`.
struct Told {
    opcode: u8,
    offset: u64,
    address: usize,
    len: usize,
    rw_flags: i32,
}

impl Told {
    fn of(entry: &squeue::Entry) -> Told {
        // SAFETY: an entry is the kernel's structure of 64 bytes and nothing else, and it was zeroed before its fields were set.
        let bytes: [u8; 64] = unsafe { std::mem::transmute(entry.clone()) };
        let field =
            |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let size = |number: u64| usize::try_from(number).expect("an address or a length in memory");
        let word =
            |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        Told {
            opcode: bytes[0],
            offset: field(8),
            address: size(field(16)),
            len: size(u64::from(word(24))),
            rw_flags: word(28).cast_signed(),
        }
    }
}

fn len32(len: usize) -> u32 {
    u32::try_from(len).expect("an operation is below 4 GiB")
}

pub(super) enum Progress {
    More,
    Ended(Result<(), DiskError>),
}

impl Slot {
    pub(super) fn progress(&mut self, result: i32) -> Progress {
        // `CANCELED`: the thread that submitted it has ended before the kernel began with it.
        let again = [
            rustix::io::Errno::INTR,
            rustix::io::Errno::AGAIN,
            rustix::io::Errno::CANCELED,
        ];
        match usize::try_from(result) {
            Err(_) if again.iter().any(|errno| errno.raw_os_error() == -result) => Progress::More,
            Err(_) => Progress::Ended(Err(self.error(-result))),
            Ok(0) if self.len() > self.done => Progress::Ended(Err(self.error(0))),
            Ok(bytes) => {
                self.done += bytes;
                if self.done < self.len() {
                    Progress::More
                } else {
                    Progress::Ended(Ok(()))
                }
            }
        }
    }
}
