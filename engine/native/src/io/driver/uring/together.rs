//! Several reads at once, by a thread that waits for all of them: one system call begins them and sleeps until they have ended, where each by itself would take one and be
//! waited for alone.
//!
//! Each such thread has a ring for itself meanwhile. Rings are kept for the next; where the kernel gives none, the reads are done one by one.
//!
//! Invariant: the memory that the kernel reads into is there until it has ended each read. If that cannot be known, it is never given back.
#![expect(
    unsafe_code,
    reason = "the kernel is given addresses, and keeps them until completion"
)]

use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use io_uring::types::Fd;
use io_uring::{IoUring, opcode};
use kvsim_engine::IoBuf;

use super::slot::is_passing;
use crate::io::driver::blocking;
use crate::io::file::DataFile;
use crate::lock::lock;

/// Reads that one ring takes at once.
const READS_MAX: u32 = 64;
/// Rings that are kept at most, for as many threads.
const KEPT_MAX: usize = 64;

#[derive(Default)]
pub(super) struct Together {
    rings: Mutex<Vec<IoUring>>,
    /// The kernel gives none, or one has failed.
    refused: AtomicBool,
}

/// Reads that the kernel has been told of, or is about to. It is not dropped before they have ended.
struct UnderWay {
    ring: ManuallyDrop<IoUring>,
    buffers: ManuallyDrop<Vec<IoBuf>>,
    /// How many bytes were read of each; `None`: it has not ended, or has failed.
    read: Vec<Option<usize>>,
}

impl Together {
    /// Reads all of these places; `None` if that fails.
    pub(super) fn read(&self, file: &DataFile, places: &[(u64, usize)]) -> Option<Vec<IoBuf>> {
        let mut all = Vec::with_capacity(places.len());
        for some in places.chunks(READS_MAX as usize) {
            let begun = match some.len() {
                0 | 1 => None,
                _ => self.ring().map(|ring| UnderWay::new(ring, file, some)),
            };
            let Some(under_way) = begun else {
                for (offset, len) in some {
                    all.push(blocking::read(file, *offset, *len)?);
                }
                continue;
            };
            let Some((ring, buffers, read)) = under_way.wait() else {
                // Each time would cost a ring and its memory.
                self.refused.store(true, Ordering::Relaxed);
                return None;
            };
            let mut rings = lock(&self.rings);
            if rings.len() < KEPT_MAX {
                rings.push(ring);
            }
            drop(rings);
            for ((buffer, read), (offset, len)) in buffers.into_iter().zip(read).zip(some) {
                // What has failed, or was read in part, is read again: then it is known why.
                all.push(match read == Some(*len) {
                    true => buffer,
                    false => blocking::read(file, *offset, *len)?,
                });
            }
        }
        Some(all)
    }

    fn ring(&self) -> Option<IoUring> {
        if self.refused.load(Ordering::Relaxed) {
            return None;
        }
        let kept = lock(&self.rings).pop();
        let ring = kept.or_else(|| IoUring::new(READS_MAX).ok());
        if ring.is_none() {
            self.refused.store(true, Ordering::Relaxed);
        }
        ring
    }
}

impl UnderWay {
    /// Puts a read of each place into the ring, which is empty.
    fn new(ring: IoUring, file: &DataFile, places: &[(u64, usize)]) -> UnderWay {
        let buffers = places.iter().map(|(_, len)| IoBuf::zeroed(*len));
        let mut under_way = UnderWay {
            ring: ManuallyDrop::new(ring),
            buffers: ManuallyDrop::new(buffers.collect()),
            read: vec![None; places.len()],
        };
        let fd = Fd(file.file.as_raw_fd());
        let mut queue = under_way.ring.submission();
        let reads = under_way.buffers.iter_mut().zip(places);
        for (index, (buffer, (offset, _))) in (0..).zip(reads) {
            let len = u32::try_from(buffer.len()).expect("a stretch is short");
            let entry = opcode::Read::new(fd, buffer.as_mut_ptr(), len);
            let entry = entry.offset(*offset).build().user_data(index);
            // SAFETY: the buffer lies in `buffers`, whose memory does not move and is given back only when all reads have ended.
            let pushed = unsafe { queue.push(&entry) };
            pushed.expect("the ring has room for so many");
        }
        drop(queue);
        under_way
    }

    /// Waits until all have ended: the ring, the memory, and how many bytes were read of each.
    fn wait(mut self) -> Option<(IoUring, Vec<IoBuf>, Vec<Option<usize>>)> {
        let mut left = self.read.len();
        while left > 0 {
            let waited = self.ring.submit_and_wait(left);
            if waited.is_err_and(|error| !is_passing(&error)) {
                return None;
            }
            for end in self.ring.completion() {
                let index = usize::try_from(end.user_data()).expect("it is an index");
                self.read[index] = usize::try_from(end.result()).ok();
                left -= 1;
            }
        }
        let ring = ManuallyDrop::into_inner(self.ring);
        let buffers = ManuallyDrop::into_inner(self.buffers);
        Some((ring, buffers, self.read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::options::OpenOptions;

    /// Goal: each place is read, whatever becomes of the ring. Method: more reads than one ring takes, in a strange order, and one of them where the file has ended; the same
    /// without rings.
    #[test]
    fn places_are_read_together_or_one_by_one() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        let options = OpenOptions {
            size_bytes: 1 << 20,
            ..OpenOptions::default()
        };
        let file = DataFile::open(&directory.path().join("file"), &options).expect("a file");
        let mut blocks = IoBuf::zeroed(1 << 20);
        for (number, block) in (0..=u8::MAX).zip(blocks.chunks_mut(4096)) {
            block.fill(number);
        }
        file.write_all(&blocks, 0).expect("it is written");
        let places: Vec<(u64, usize)> = (0..150_u64)
            .map(|n| (n * 37 % 255 * 4096, 4096 * (1 + (n % 2) as usize)))
            .collect();
        for refused in [false, true] {
            let together = Together::default();
            together.refused.store(refused, Ordering::Relaxed);
            for some in [&places[..], &places[..1], &[], &places[3..9]] {
                let read = together.read(&file, some).expect("it can be read");
                assert_eq!(read.len(), some.len());
                for (bytes, (offset, len)) in read.iter().zip(some) {
                    let from = usize::try_from(*offset).expect("small");
                    assert!(bytes[..] == blocks[from..from + len], "{offset}");
                }
            }
            let beyond = [places[0], (4 << 20, 4096), places[1]];
            assert!(together.read(&file, &beyond).is_none());
            assert!(together.read(&file, &places).is_some(), "it goes on");
            assert_eq!(lock(&together.rings).is_empty(), refused);
        }
    }
}
