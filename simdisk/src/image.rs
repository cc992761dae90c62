//! The bytes of a device: shared blocks, copied when written, with a hash that costs what changed.
//!
//! Invariants: cloning copies one pointer; a block that was never written takes no memory and reads as zeros; two images of
//! equal bytes have equal hashes, whatever their histories.
//!
//! A clone shares the table of chunks, the chunks (256 KiB each) and the blocks (4 KiB each); the first write after it copies
//! the table and one chunk of pointers, and one block. Hashes are kept per block and per chunk, so that the hash of an image
//! costs what was written since the last one. Blocks are combined by a sum, with their position mixed in.

use std::sync::{Arc, OnceLock};

use xxhash_rust::xxh3::xxh3_128_with_seed;

const BLOCK_BYTES: usize = 4096;
const CHUNK_BLOCKS: usize = 64;
const CHUNK_BYTES: usize = BLOCK_BYTES * CHUNK_BLOCKS;

#[derive(Debug)]
struct Block {
    bytes: [u8; BLOCK_BYTES],
    /// Hash of the bytes alone; the position is mixed in by the chunk.
    hash: OnceLock<u128>,
}

impl Clone for Block {
    /// A copy is made to be written, so it starts without a hash.
    fn clone(&self) -> Self {
        Block {
            bytes: self.bytes,
            hash: OnceLock::new(),
        }
    }
}

#[derive(Debug)]
struct Chunk {
    blocks: [Option<Arc<Block>>; CHUNK_BLOCKS],
    hash: OnceLock<u128>,
}

impl Clone for Chunk {
    fn clone(&self) -> Self {
        Chunk {
            blocks: self.blocks.clone(),
            hash: OnceLock::new(),
        }
    }
}

/// The content of a device, growable and shrinkable, zero where nothing was written.
#[derive(Debug, Clone, Default)]
pub struct Image {
    chunks: Arc<Vec<Option<Arc<Chunk>>>>,
    len_bytes: u64,
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).expect("offsets fit the address space of the host")
}

impl Image {
    /// An image of zeros.
    #[must_use]
    pub fn new(len_bytes: u64) -> Self {
        let mut image = Image::default();
        image.resize(len_bytes);
        image
    }

    /// How many bytes it has.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Grows with zeros, or forgets what lies beyond.
    pub fn resize(&mut self, len_bytes: u64) {
        if len_bytes < self.len_bytes {
            let end = self
                .len_bytes
                .min(len_bytes.next_multiple_of(CHUNK_BYTES as u64));
            self.zero(len_bytes, end - len_bytes);
        }
        Arc::make_mut(&mut self.chunks).resize(to_usize(len_bytes).div_ceil(CHUNK_BYTES), None);
        self.len_bytes = len_bytes;
    }

    /// Copies bytes out.
    ///
    /// # Panics
    /// If the range is not inside the image.
    pub fn read(&self, offset: u64, out: &mut [u8]) {
        self.check(offset, out.len());
        let mut at = to_usize(offset);
        let mut rest = out;
        while !rest.is_empty() {
            let within = at % BLOCK_BYTES;
            let (part, tail) = rest.split_at_mut((BLOCK_BYTES - within).min(rest.len()));
            match self.block(at / BLOCK_BYTES) {
                Some(block) => part.copy_from_slice(&block.bytes[within..within + part.len()]),
                None => part.fill(0),
            }
            at += part.len();
            rest = tail;
        }
    }

    /// Bytes of their own.
    ///
    /// # Panics
    /// If the range is not inside the image.
    #[must_use]
    pub fn read_vec(&self, offset: u64, len_bytes: u64) -> Vec<u8> {
        let len = to_usize(len_bytes);
        self.check(offset, len);
        let (mut at, end) = (to_usize(offset), to_usize(offset) + len);
        let mut out = Vec::with_capacity(len);
        while at < end {
            let within = at % BLOCK_BYTES;
            let part = (BLOCK_BYTES - within).min(end - at);
            match self.block(at / BLOCK_BYTES) {
                Some(block) => out.extend_from_slice(&block.bytes[within..within + part]),
                None => out.resize(out.len() + part, 0),
            }
            at += part;
        }
        out
    }

    /// Copies bytes in.
    ///
    /// # Panics
    /// If the range is not inside the image.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.check(offset, bytes.len());
        let mut at = to_usize(offset);
        let mut rest = bytes;
        while !rest.is_empty() {
            let within = at % BLOCK_BYTES;
            let (part, tail) = rest.split_at((BLOCK_BYTES - within).min(rest.len()));
            if self.block(at / BLOCK_BYTES).is_some() || part.iter().any(|&byte| byte != 0) {
                self.block_mut(at / BLOCK_BYTES).bytes[within..within + part.len()]
                    .copy_from_slice(part);
            }
            at += part.len();
            rest = tail;
        }
    }

    /// Sets a range to zero, giving whole blocks back.
    pub fn zero(&mut self, offset: u64, len_bytes: u64) {
        self.check(offset, to_usize(len_bytes));
        let (mut at, end) = (to_usize(offset), to_usize(offset + len_bytes));
        while at < end {
            let within = at % BLOCK_BYTES;
            let part = (BLOCK_BYTES - within).min(end - at);
            let index = at / BLOCK_BYTES;
            if self.block(index).is_some() {
                let to_the_end = within == 0 && (at + part) as u64 == self.len_bytes;
                if part == BLOCK_BYTES || to_the_end {
                    let chunk = Arc::make_mut(&mut self.chunks)[index / CHUNK_BLOCKS]
                        .as_mut()
                        .expect("it holds this block");
                    let chunk = Arc::make_mut(chunk);
                    chunk.hash = OnceLock::new();
                    chunk.blocks[index % CHUNK_BLOCKS] = None;
                } else {
                    self.block_mut(index).bytes[within..within + part].fill(0);
                }
            }
            at += part;
        }
    }

    /// A hash of length and content.
    #[must_use]
    pub fn hash(&self) -> u128 {
        let sum = self
            .chunks
            .iter()
            .enumerate()
            .fold(0_u128, |sum, (position, chunk)| {
                let hash = chunk.as_ref().map_or(0, |chunk| chunk.hash());
                // An all-zero chunk adds nothing, allocated or not.
                sum.wrapping_add(if hash == 0 {
                    0
                } else {
                    xxh3_128_with_seed(&hash.to_le_bytes(), position as u64)
                })
            });
        xxh3_128_with_seed(&sum.to_le_bytes(), self.len_bytes)
    }

    /// How many bytes the blocks take that were ever written and not given back.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        let blocks: usize = self
            .chunks
            .iter()
            .flatten()
            .map(|chunk| chunk.blocks.iter().flatten().count())
            .sum();
        (blocks * BLOCK_BYTES) as u64
    }

    /// Where byte number `rank` of the [`written_bytes`](Image::written_bytes) lies; bytes beyond the end of the image are not
    /// written ones.
    #[must_use]
    pub fn nth_written(&self, rank: u64) -> Option<u64> {
        let mut left = to_usize(rank) / BLOCK_BYTES;
        for (position, chunk) in self.chunks.iter().enumerate() {
            let Some(chunk) = chunk else { continue };
            let mut written = (0..CHUNK_BLOCKS).filter(|&index| chunk.blocks[index].is_some());
            let count = written.clone().count();
            if left < count {
                let index = written.nth(left).expect("counted before");
                let block = ((position * CHUNK_BLOCKS + index) * BLOCK_BYTES) as u64;
                let byte = block + rank % BLOCK_BYTES as u64;
                return (byte < self.len_bytes).then_some(byte);
            }
            left -= count;
        }
        None
    }

    /// Whether nothing was ever written.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.chunks.iter().all(Option::is_none)
    }

    fn check(&self, offset: u64, len: usize) {
        let end = offset
            .checked_add(len as u64)
            .expect("an offset on the device");
        assert!(
            end <= self.len_bytes,
            "{offset}+{len} is outside an image of {} bytes",
            self.len_bytes
        );
    }

    fn block(&self, index: usize) -> Option<&Block> {
        self.chunks[index / CHUNK_BLOCKS].as_ref()?.blocks[index % CHUNK_BLOCKS].as_deref()
    }

    fn block_mut(&mut self, index: usize) -> &mut Block {
        let chunks = Arc::make_mut(&mut self.chunks);
        let chunk = chunks[index / CHUNK_BLOCKS].get_or_insert_with(|| {
            Arc::new(Chunk {
                blocks: [const { None }; CHUNK_BLOCKS],
                hash: OnceLock::new(),
            })
        });
        let chunk = Arc::make_mut(chunk);
        chunk.hash = OnceLock::new();
        let block = chunk.blocks[index % CHUNK_BLOCKS].get_or_insert_with(|| {
            Arc::new(Block {
                bytes: [0; BLOCK_BYTES],
                hash: OnceLock::new(),
            })
        });
        let block = Arc::make_mut(block);
        block.hash = OnceLock::new();
        block
    }
}

impl Block {
    /// 0 for a block of zeros, which must hash like one never written.
    fn hash(&self) -> u128 {
        *self.hash.get_or_init(|| {
            if self.bytes.iter().all(|&byte| byte == 0) {
                0
            } else {
                xxh3_128_with_seed(&self.bytes, 1).max(1)
            }
        })
    }
}

impl Chunk {
    fn hash(&self) -> u128 {
        *self.hash.get_or_init(|| {
            self.blocks
                .iter()
                .enumerate()
                .fold(0_u128, |sum, (position, block)| {
                    let hash = block.as_ref().map_or(0, |block| block.hash());
                    sum.wrapping_add(if hash == 0 {
                        0
                    } else {
                        xxh3_128_with_seed(&hash.to_le_bytes(), position as u64)
                    })
                })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(image: &Image) -> Vec<u8> {
        let mut bytes = vec![1; to_usize(image.len_bytes())];
        image.read(0, &mut bytes);
        assert_eq!(image.read_vec(0, image.len_bytes()), bytes);
        bytes
    }

    #[test]
    fn a_clone_keeps_what_it_was() {
        let mut image = Image::new(1 << 20);
        image.write(5000, b"before");
        let clone = image.clone();
        image.write(5000, b"after!");
        assert_eq!(&bytes_of(&clone)[5000..5006], b"before");
        assert_eq!(&bytes_of(&image)[5000..5006], b"after!");
        assert_ne!(image.hash(), clone.hash());
    }

    #[test]
    fn equal_bytes_hash_alike_whatever_the_history() {
        let mut one = Image::new(1 << 20);
        one.write(0, &[7; 9000]);
        one.zero(4096, 4904);
        one.write(600_000, &[3; 10]);
        one.write(600_000, &[0; 10]);
        let mut two = Image::new(1 << 20);
        two.write(0, &[7; 4096]);
        assert_eq!(bytes_of(&one), bytes_of(&two));
        assert_eq!(one.hash(), two.hash());
        two.write(4096, &[7; 1]);
        assert_ne!(one.hash(), two.hash());
    }

    #[test]
    fn the_same_bytes_elsewhere_hash_differently() {
        let (mut one, mut two) = (Image::new(1 << 20), Image::new(1 << 20));
        one.write(0, &[7; 4096]);
        two.write(4096, &[7; 4096]);
        assert_ne!(one.hash(), two.hash());
        let (mut one, mut two) = (Image::new(1 << 20), Image::new(1 << 20));
        one.write(0, &[7; 4096]);
        two.write(CHUNK_BYTES as u64, &[7; 4096]);
        assert_ne!(one.hash(), two.hash());
    }

    #[test]
    fn shrinking_forgets_and_growing_gives_zeros() {
        let mut image = Image::new(10_000);
        image.write(0, &[9; 10_000]);
        image.resize(4100);
        image.resize(10_000);
        assert!(bytes_of(&image)[4100..].iter().all(|&byte| byte == 0));
        assert!(bytes_of(&image)[..4100].iter().all(|&byte| byte == 9));
        assert_eq!(image.written_bytes(), 8192);
    }

    /// Goal: a place among the written ones is found whatever lies between. Method: two blocks, far apart.
    #[test]
    fn ranks_of_written_bytes_skip_the_holes() {
        let mut image = Image::new(1 << 20);
        assert!(image.is_blank() && image.nth_written(0).is_none());
        image.write(8192, &[1; 10]);
        image.write(800_000, &[1; 10]);
        assert_eq!(image.nth_written(3), Some(8195));
        assert_eq!(image.nth_written(4096), Some(800_000 / 4096 * 4096));
        assert_eq!(image.nth_written(8192), None);
    }
}
