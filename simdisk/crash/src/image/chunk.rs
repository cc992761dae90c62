//! Blocks and chunks: what images share, and the hashes of it.

use std::sync::{Arc, OnceLock};

use xxhash_rust::xxh3::xxh3_128_with_seed;

pub(super) const BLOCK_BYTES: usize = 4096;
pub(super) const CHUNK_BLOCKS: usize = 64;
pub(super) const CHUNK_BYTES: usize = BLOCK_BYTES * CHUNK_BLOCKS;

pub(super) const ZEROS: &[u8; BLOCK_BYTES] = &[0; BLOCK_BYTES];

/// Whether a part of a block is all zeros.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    *bytes == ZEROS[..bytes.len()]
}

/// The bytes of a block, and their hash once somebody asked for it.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) bytes: [u8; BLOCK_BYTES],
    /// Hash of the bytes alone; the position is mixed in by the chunk.
    hash: OnceLock<u128>,
}

impl Clone for Block {
    /// A copy is made to be written, so it starts without a hash.
    fn clone(&self) -> Self {
        Block::of(self.bytes)
    }
}

/// Blocks that lie side by side.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) blocks: [Option<Arc<Block>>; CHUNK_BLOCKS],
    /// The hashes of the blocks that have not changed, summed up.
    unchanged: u128,
    /// A bit for each block that may have changed since.
    changed: u64,
    hash: OnceLock<u128>,
}

impl Clone for Chunk {
    /// A copy is made to be written, so its hash is that of what stays.
    fn clone(&self) -> Self {
        let (unchanged, changed) = self.hashed();
        Chunk {
            blocks: self.blocks.clone(),
            unchanged,
            changed,
            hash: OnceLock::new(),
        }
    }
}

impl Block {
    pub(super) fn of(bytes: [u8; BLOCK_BYTES]) -> Block {
        Block {
            bytes,
            hash: OnceLock::new(),
        }
    }

    /// Gives it other bytes.
    pub(super) fn set(&mut self, bytes: &[u8; BLOCK_BYTES]) {
        self.bytes = *bytes;
        self.forget_hash();
    }

    /// Its bytes are about to change.
    pub(super) fn forget_hash(&mut self) {
        self.hash = OnceLock::new();
    }

    /// 0 for a block of zeros, which must hash like one never written.
    pub(super) fn hash(&self) -> u128 {
        *self.hash.get_or_init(|| {
            if is_zero(&self.bytes) {
                0
            } else {
                xxh3_128_with_seed(&self.bytes, 1).max(1)
            }
        })
    }
}

impl Default for Chunk {
    fn default() -> Self {
        Chunk {
            blocks: [const { None }; CHUNK_BLOCKS],
            unchanged: 0,
            changed: 0,
            hash: OnceLock::new(),
        }
    }
}

impl Chunk {
    pub(super) fn hash(&self) -> u128 {
        *self.hash.get_or_init(|| {
            let changed = (0..CHUNK_BLOCKS).filter(|index| self.changed >> index & 1 == 1);
            changed.fold(self.unchanged, |sum, index| {
                sum.wrapping_add(self.share(index))
            })
        })
    }

    /// What a block adds to the hash: its own with its position mixed in, or nothing if it is all zeros.
    fn share(&self, index: usize) -> u128 {
        let hash = self.blocks[index].as_ref().map_or(0, |block| block.hash());
        if hash == 0 {
            return 0;
        }
        xxh3_128_with_seed(&hash.to_le_bytes(), index as u64)
    }

    /// The sum over what has not changed since the hash was last known, and what has.
    fn hashed(&self) -> (u128, u64) {
        match self.hash.get() {
            Some(&hash) => (hash, 0),
            None => (self.unchanged, self.changed),
        }
    }

    /// A place for a block that is about to change.
    pub(super) fn place(&mut self, index: usize) -> &mut Option<Arc<Block>> {
        (self.unchanged, self.changed) = self.hashed();
        if self.changed >> index & 1 == 0 {
            self.unchanged = self.unchanged.wrapping_sub(self.share(index));
            self.changed |= 1 << index;
        }
        self.hash = OnceLock::new();
        &mut self.blocks[index]
    }
}
