//! Groups of writes and a flush after them: what an engine does that has nothing but a file, and what a comparison is made with.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use kvsim_engine::{DiskOp, IoBuf};

use super::{Access, Gauge, GaugeError, TIMEOUT};

/// Direct I/O takes whole blocks only.
const BLOCK_BYTES: usize = 4096;

impl Gauge {
    /// Carries out all writes at once, waits for them, and then flushes if a flush is wanted. Then they are durable, or
    /// as durable as the system makes them. Each is a whole number of blocks at a multiple of a block.
    ///
    /// # Errors
    /// The device was opened to read only; a write does not fit; a write or the flush failed, and then any of them may be there.
    pub fn commit(&self, writes: &[(u64, Vec<u8>)], flush: bool) -> Result<(), GaugeError> {
        self.check_writable(Access::Write)?;
        let end = self.file.len_bytes();
        for (offset, bytes) in writes {
            let is_whole = bytes.len().is_multiple_of(BLOCK_BYTES)
                && offset.is_multiple_of(BLOCK_BYTES as u64);
            if !is_whole || offset.saturating_add(bytes.len() as u64) > end {
                return Err(self.failed(format!("no place for {} bytes at {offset}", bytes.len())));
            }
        }
        let _turn = self.my_turn();
        let operations = writes.iter().map(|(offset, bytes)| {
            let mut data = IoBuf::zeroed(bytes.len());
            data.copy_from_slice(bytes);
            DiskOp::Write {
                offset: *offset,
                data: Arc::new(data),
                through: false,
            }
        });
        self.all(operations.collect())?;
        if flush {
            self.all(vec![DiskOp::Flush])?;
        }
        Ok(())
    }

    /// Begins all of them and waits until all have ended.
    fn all(&self, operations: Vec<DiskOp>) -> Result<(), GaugeError> {
        let mut left = operations.len();
        for (tag, operation) in operations.into_iter().enumerate() {
            self.driver.queue(tag as u64, operation);
        }
        let (mut done, mut failed) = (Vec::new(), None);
        while left > 0 {
            self.driver.wait(Some(TIMEOUT));
            self.driver.reap(&mut done);
            left -= done.len();
            for completion in done.drain(..) {
                failed = completion.result.err().or(failed);
            }
        }
        failed.map_or(Ok(()), |error| Err(self.failed(error.to_string())))
    }

    /// Reads into `bytes`, which is of any length and anywhere.
    ///
    /// # Errors
    /// The read failed, or there is not so much.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), GaugeError> {
        let start = offset / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
        let skip = usize::try_from(offset - start).expect("less than a block");
        let mut buffer = IoBuf::zeroed((skip + bytes.len()).next_multiple_of(BLOCK_BYTES));
        self.file
            .file
            .read_exact_at(&mut buffer, start)
            .map_err(|error| self.failed(error.to_string()))?;
        bytes.copy_from_slice(&buffer[skip..skip + bytes.len()]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenOptions;

    /// Goal: what was committed is there, whichever way it went, and what has no place is refused. Method: blocks written against
    /// their order, direct and buffered, read back; then one beyond the end and half a block.
    #[test]
    fn what_is_committed_is_there() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        let options = OpenOptions {
            size_bytes: 1 << 20,
            ..OpenOptions::default()
        };
        for buffered in [false, true] {
            let path = directory.path().join(format!("{buffered}"));
            let gauge = if buffered {
                Gauge::open_buffered(&path, &options)
            } else {
                Gauge::open(&path, &options)
            };
            let gauge = gauge.expect("it opens");
            assert!(!(buffered && gauge.report().direct));
            let block = |n: u8| (u64::from(n) * 4096, vec![n; 4096]);
            gauge
                .commit(&[block(3), block(1), block(2)], true)
                .expect("a disk does that");
            for n in 1..=3 {
                let mut bytes = [0; 100];
                gauge
                    .read(u64::from(n) * 4096 + 17, &mut bytes)
                    .expect("it is there");
                assert_eq!(bytes, [n; 100]);
            }
            assert!(gauge.commit(&[(1 << 20, vec![0; 4096])], true).is_err());
            assert!(gauge.commit(&[(0, vec![0; 2048])], true).is_err());
        }
    }
}
