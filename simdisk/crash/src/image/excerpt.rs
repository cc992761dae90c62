//! What a range of an image held at a moment.

use std::sync::Arc;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::chunk::{BLOCK_BYTES, Block, ZEROS};

/// What a range of an image held at a moment. Whole blocks of it are those of the image, as long as nobody writes to them.
#[derive(Debug, Clone)]
pub struct Excerpt {
    pub(super) blocks: Vec<Option<Arc<Block>>>,
    /// Where it begins in the first of them.
    pub(super) start: usize,
    pub(super) len: usize,
}

impl Excerpt {
    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its bytes, in pieces that follow each other.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let (mut within, mut left) = (self.start, self.len);
        self.blocks.iter().map(move |block| {
            let bytes = block.as_ref().map_or(ZEROS, |block| &block.bytes);
            let part = &bytes[within..BLOCK_BYTES.min(within + left)];
            left -= part.len();
            within = 0;
            part
        })
    }

    /// Bytes of their own.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len);
        self.parts().for_each(|part| bytes.extend_from_slice(part));
        bytes
    }

    /// The hash that its bytes have in one piece.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let mut parts = self.parts();
        match (parts.next(), parts.next()) {
            (Some(whole), None) => xxh3_64(whole),
            _ => {
                let mut hash = Xxh3::new();
                self.parts().for_each(|part| hash.update(part));
                hash.digest()
            }
        }
    }
}

impl From<&[u8]> for Excerpt {
    fn from(bytes: &[u8]) -> Excerpt {
        let blocks = bytes.chunks(BLOCK_BYTES).map(|part| {
            let mut block = Block::of(*ZEROS);
            block.bytes[..part.len()].copy_from_slice(part);
            Some(Arc::new(block))
        });
        Excerpt {
            blocks: blocks.collect(),
            start: 0,
            len: bytes.len(),
        }
    }
}

impl PartialEq for Excerpt {
    fn eq(&self, other: &Excerpt) -> bool {
        self.len == other.len && self.parts().flatten().eq(other.parts().flatten())
    }
}

impl Eq for Excerpt {}
