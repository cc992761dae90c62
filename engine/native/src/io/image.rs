//! Reading a file of which some parts may be unreadable.
//!
//! Invariants: what cannot be read is zeroes, block by block, and is noted. Every read is of whole blocks into aligned memory, as direct I/O asks for.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::FileExt;

use kvsim_engine::{Image, IoBuf};

use crate::io::file::DataFile;

const BLOCK_BYTES: u64 = 4096;
/// No read is larger.
const PIECE_BYTES: u64 = 1 << 20;
/// How often a block is read before it counts as unreadable.
const TRIES: u32 = 4;

/// A file as something to repair.
pub(crate) struct FileImage<R> {
    len_bytes: u64,
    /// Fills the buffer with what lies at the offset.
    read: R,
    buffer: IoBuf,
    /// Offsets of the blocks that could not be read.
    unreadable: BTreeSet<u64>,
}

/// The image of an open file.
pub(crate) fn image_of(
    file: &DataFile,
) -> FileImage<impl FnMut(&mut [u8], u64) -> io::Result<()> + '_> {
    let read = |bytes: &mut [u8], offset| file.file.read_exact_at(bytes, offset);
    FileImage::new(file.len_bytes(), read)
}

impl<R: FnMut(&mut [u8], u64) -> io::Result<()>> FileImage<R> {
    fn new(len_bytes: u64, read: R) -> FileImage<R> {
        FileImage {
            len_bytes,
            read,
            buffer: IoBuf::zeroed(len(PIECE_BYTES)),
            unreadable: BTreeSet::new(),
        }
    }

    /// The parts of the file that could not be read: offset and length in bytes, ascending.
    pub(crate) fn unreadable(&self) -> Vec<(u64, u64)> {
        let mut parts: Vec<(u64, u64)> = Vec::new();
        for offset in &self.unreadable {
            match parts.last_mut() {
                Some((from, len)) if *from + *len == *offset => *len += BLOCK_BYTES,
                _ => parts.push((*offset, BLOCK_BYTES)),
            }
        }
        parts
    }

    /// Reads whole blocks into the buffer.
    fn fill(&mut self, offset: u64, bytes: u64) {
        let buffer = &mut self.buffer[..len(bytes)];
        if (self.read)(buffer, offset).is_ok() {
            return;
        }
        let offsets = (offset..).step_by(len(BLOCK_BYTES));
        for (block, at) in buffer.chunks_mut(len(BLOCK_BYTES)).zip(offsets) {
            if !(0..TRIES).any(|_| (self.read)(block, at).is_ok()) {
                block.fill(0);
                self.unreadable.insert(at);
            }
        }
    }
}

impl<R: FnMut(&mut [u8], u64) -> io::Result<()>> Image for FileImage<R> {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read(&mut self, offset: u64, bytes: &mut [u8]) {
        bytes.fill(0);
        let end = offset.saturating_add(bytes.len() as u64);
        let end = end.min(self.len_bytes);
        let mut at = offset;
        while at < end {
            let from = at / BLOCK_BYTES * BLOCK_BYTES;
            let to = (from + PIECE_BYTES).min(end.next_multiple_of(BLOCK_BYTES));
            let to = to.min(self.len_bytes);
            self.fill(from, to - from);
            let until = to.min(end);
            let read = &self.buffer[len(at - from)..len(until - from)];
            bytes[len(at - offset)..len(until - offset)].copy_from_slice(read);
            at = until;
        }
    }
}

/// A length of something in memory.
fn len(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a piece is small")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what can be read is read, and what cannot is zeroes and noted. Method: a file of which two blocks fail always and one fails at first, read in parts of many sizes.
    #[test]
    fn blocks_that_fail_are_zeroes() {
        let blocks = 3 * PIECE_BYTES / BLOCK_BYTES / 2;
        let all: Vec<u8> = (0..blocks * BLOCK_BYTES)
            .map(|at| u8::try_from(at % 251 + 1).expect("small"))
            .collect();
        let bad = [5 * BLOCK_BYTES, 6 * BLOCK_BYTES, 300 * BLOCK_BYTES];
        let slow = 9 * BLOCK_BYTES;
        let mut expected = all.clone();
        for offset in bad {
            expected[len(offset)..len(offset + BLOCK_BYTES)].fill(0);
        }
        let mut tries = 0;
        let read = |bytes: &mut [u8], offset: u64| {
            let end = offset + bytes.len() as u64;
            let meets = |block: u64| offset < block + BLOCK_BYTES && block < end;
            tries += u32::from(meets(slow));
            if bad.into_iter().any(meets) || (meets(slow) && tries < 3) {
                return Err(io::ErrorKind::Other.into());
            }
            bytes.copy_from_slice(&all[len(offset)..len(end)]);
            Ok(())
        };
        let mut image = FileImage::new(all.len() as u64, read);
        for (offset, size) in [
            (0, all.len()),
            (0, all.len() + 9000),
            (4095, 2),
            (5 * 4096 - 3, 4102),
            (all.len() - 10, 20),
            (all.len() + 10, 20),
            (77, 1 << 20),
        ] {
            let mut bytes = vec![9; size];
            image.read(offset as u64, &mut bytes);
            let have = expected.len().saturating_sub(offset).min(size);
            let from = offset.min(expected.len());
            assert!(bytes[..have] == expected[from..from + have], "{offset}");
            assert!(bytes[have..].iter().all(|byte| *byte == 0), "{offset}");
        }
        let unreadable = [
            (5 * BLOCK_BYTES, 2 * BLOCK_BYTES),
            (300 * BLOCK_BYTES, BLOCK_BYTES),
        ];
        assert_eq!(image.unreadable(), unreadable);
    }
}
