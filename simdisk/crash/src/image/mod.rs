//! The bytes of a device: shared blocks, copied when written, with a hash that costs what changed.
//!
//! Invariants: cloning copies one pointer; a block that was never written takes no memory and reads as zeros; two images of
//! equal bytes have equal hashes, whatever their histories.
//!
//! A clone shares the table of chunks, the chunks (256 KiB each) and the blocks (4 KiB each); the first write after it copies
//! the table and one chunk of pointers, and one block. Hashes are kept per block and per chunk, so that the hash of an image
//! costs what was written since the last one. Blocks are combined by a sum, with their position mixed in.

mod chunk;
mod excerpt;

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128_with_seed;

use self::chunk::{BLOCK_BYTES, Block, CHUNK_BLOCKS, CHUNK_BYTES, Chunk, ZEROS, is_zero};
pub use self::excerpt::Excerpt;

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

    /// What a range holds now, whatever is written to it later. Nothing is copied.
    ///
    /// # Panics
    /// If the range is not inside the image.
    #[must_use]
    pub fn excerpt(&self, offset: u64, len_bytes: u64) -> Excerpt {
        let len = to_usize(len_bytes);
        self.check(offset, len);
        let start = to_usize(offset);
        let blocks = start / BLOCK_BYTES..(start + len).div_ceil(BLOCK_BYTES);
        Excerpt {
            blocks: blocks.map(|index| self.shared(index).cloned()).collect(),
            start: start % BLOCK_BYTES,
            len,
        }
    }

    /// Takes over what another image holds in a range: whole blocks are shared, and the rest is copied.
    ///
    /// # Panics
    /// If the range is not inside both.
    pub fn take_over(&mut self, from: &Image, offset: u64, len_bytes: u64) {
        let len = to_usize(len_bytes);
        self.check(offset, len);
        from.check(offset, len);
        let (mut at, end) = (to_usize(offset), to_usize(offset) + len);
        while at < end {
            let within = at % BLOCK_BYTES;
            let part = (BLOCK_BYTES - within).min(end - at);
            let index = at / BLOCK_BYTES;
            match from.shared(index) {
                Some(block) if part == BLOCK_BYTES => {
                    *self.place(index) = Some(Arc::clone(block));
                }
                Some(block) => self.write(at as u64, &block.bytes[within..within + part]),
                None => self.zero(at as u64, part as u64),
            }
            at += part;
        }
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
            let index = at / BLOCK_BYTES;
            if self.block(index).is_some() || !is_zero(part) {
                match part.try_into() {
                    Ok(whole) => self.replace(index, whole),
                    Err(_) => self.block_mut(index).bytes[within..within + part.len()]
                        .copy_from_slice(part),
                }
            }
            at += part.len();
            rest = tail;
        }
    }

    /// Puts in what was taken out elsewhere. Where a block of it becomes a whole block here, it is shared.
    ///
    /// # Panics
    /// If the range is not inside the image.
    pub fn put(&mut self, offset: u64, excerpt: &Excerpt) {
        self.check(offset, excerpt.len);
        let mut at = to_usize(offset);
        for (block, part) in excerpt.blocks.iter().zip(excerpt.parts()) {
            let index = at / BLOCK_BYTES;
            let is_whole = at.is_multiple_of(BLOCK_BYTES) && part.len() == BLOCK_BYTES;
            if is_whole && (self.block(index).is_some() || !is_zero(part)) {
                self.place(index).clone_from(block);
            } else if !is_whole {
                self.write(at as u64, part);
            }
            at += part.len();
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
                    *self.place(index) = None;
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
        xxh3_128_with_seed(&self.content_hash().to_le_bytes(), self.len_bytes)
    }

    /// A hash of the content alone: zeros at the end change nothing.
    #[must_use]
    pub fn content_hash(&self) -> u128 {
        let chunks = self.chunks.iter().enumerate();
        chunks.fold(0_u128, |sum, (position, chunk)| {
            let hash = chunk.as_ref().map_or(0, |chunk| chunk.hash());
            // An all-zero chunk adds nothing, allocated or not.
            sum.wrapping_add(if hash == 0 {
                0
            } else {
                xxh3_128_with_seed(&hash.to_le_bytes(), position as u64)
            })
        })
    }

    /// Whether the blocks that a range touches hold the same in both images. Blocks that the images share are not looked at.
    ///
    /// # Panics
    /// If the range is not inside both.
    #[must_use]
    pub fn is_same_in(&self, other: &Image, offset: u64, len_bytes: u64) -> bool {
        let len = to_usize(len_bytes);
        self.check(offset, len);
        other.check(offset, len);
        let blocks = to_usize(offset) / BLOCK_BYTES..(to_usize(offset) + len).div_ceil(BLOCK_BYTES);
        blocks
            .into_iter()
            .all(|index| match (self.block(index), other.block(index)) {
                (None, None) => true,
                (Some(one), Some(two)) => std::ptr::eq(one, two) || one.bytes == two.bytes,
                (Some(block), None) | (None, Some(block)) => is_zero(&block.bytes),
            })
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
        self.shared(index).map(Arc::as_ref)
    }

    fn shared(&self, index: usize) -> Option<&Arc<Block>> {
        self.chunks[index / CHUNK_BLOCKS].as_ref()?.blocks[index % CHUNK_BLOCKS].as_ref()
    }

    /// A place for a block, in a chunk whose hash is not known any more.
    fn place(&mut self, index: usize) -> &mut Option<Arc<Block>> {
        let chunks = Arc::make_mut(&mut self.chunks);
        let chunk = chunks[index / CHUNK_BLOCKS].get_or_insert_with(Arc::default);
        Arc::make_mut(chunk).place(index % CHUNK_BLOCKS)
    }

    /// Gives a whole block other bytes. Of one that others have nothing is copied, since nothing of it stays.
    fn replace(&mut self, index: usize, bytes: &[u8; BLOCK_BYTES]) {
        let place = self.place(index);
        match place.as_mut().and_then(Arc::get_mut) {
            Some(block) => block.set(bytes),
            None => *place = Some(Arc::new(Block::of(*bytes))),
        }
    }

    fn block_mut(&mut self, index: usize) -> &mut Block {
        let place = self.place(index);
        let block = place.get_or_insert_with(|| Arc::new(Block::of(*ZEROS)));
        let block = Arc::make_mut(block);
        block.forget_hash();
        block
    }
}

#[cfg(test)]
mod tests {
    use xxhash_rust::xxh3::xxh3_64;

    use super::*;

    fn bytes_of(image: &Image) -> Vec<u8> {
        let mut bytes = vec![1; to_usize(image.len_bytes())];
        image.read(0, &mut bytes);
        let excerpt = image.excerpt(0, image.len_bytes());
        assert_eq!(excerpt.to_vec(), bytes);
        assert_eq!(excerpt.hash(), xxh3_64(&bytes));
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

    /// Goal: an excerpt is of its moment, wherever it begins and ends. Method: one across written and unwritten blocks, and writes after.
    #[test]
    fn an_excerpt_stays_what_it_was() {
        let mut image = Image::new(1 << 20);
        image.write(5000, &[3; 4000]);
        for (offset, len) in [(0, 0), (4999, 2), (4096, 4096), (100, 20_000), (8999, 9000)] {
            let mut bytes = vec![1; len];
            image.read(offset, &mut bytes);
            let excerpt = image.excerpt(offset, len as u64);
            let mut later = image.clone();
            later.write(4096, &[9; 8192]);
            assert_eq!((excerpt.to_vec(), excerpt.len()), (bytes.clone(), len));
            assert_eq!(excerpt.hash(), xxh3_64(&bytes));
            assert_eq!(excerpt, Excerpt::from(&bytes[..]));
            let differs = later.excerpt(offset, len as u64) != excerpt;
            assert_eq!(differs, len > 0, "{offset}+{len}");
        }
    }

    /// Goal: what is taken over is what the other has, and nothing else changes. Method: ranges that begin and end within blocks, over
    /// blocks that only one of both has, held against bytes; then a write to one that the other must not see.
    #[test]
    fn taking_over_is_copying() {
        let mut from = Image::new(1 << 20);
        from.write(4096, &[3; 20_000]);
        for (offset, len) in [(4096, 4096), (5000, 9000), (0, 1 << 20), (20_000, 300_000)] {
            let mut image = Image::new(1 << 20);
            image.write(0, &[5; 10_000]);
            image.write(300_000, &[6; 9000]);
            let mut expected = bytes_of(&image);
            let (start, end) = (to_usize(offset), to_usize(offset + len));
            expected[start..end].copy_from_slice(&bytes_of(&from)[start..end]);
            image.take_over(&from, offset, len);
            assert_eq!(bytes_of(&image), expected, "{offset}+{len}");
            let before = bytes_of(&from);
            image.write(4096, &[8; 30_000]);
            assert_eq!(bytes_of(&from), before, "{offset}+{len}");
        }
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

    /// Goal: the hash of an image follows from its bytes, whenever hashes were asked for on the way and whatever was shared. Method: random
    /// writes, zeros, blocks put in and taken over, on an image and a clone of it, held against images that were written at once.
    #[test]
    fn a_hash_follows_from_the_bytes_alone() {
        use crate::rng::{Purpose, Rng};
        let block = BLOCK_BYTES as u64;
        let len_bytes = 3 * CHUNK_BYTES as u64 + 2 * block;
        let noise: Vec<u8> = (0..=250).cycle().take(2 * BLOCK_BYTES).collect();
        for seed in 0..20 {
            let mut rng = Rng::new(seed, Purpose::Test);
            let mut images = [Image::new(len_bytes), Image::new(len_bytes)];
            for _ in 0..60 {
                let which = usize::from(rng.chance(0.5));
                let [one, other] = &mut images;
                let (image, other) = if which == 0 {
                    (one, other)
                } else {
                    (other, one)
                };
                let at = rng.below(len_bytes / 512 - 16) * 512;
                let aligned = at - at % block;
                let len = (1 + rng.below(16)) * 512;
                match rng.below(7) {
                    0 => image.write(at, &noise[..to_usize(len)]),
                    1 => image.write(aligned, &noise[..BLOCK_BYTES]),
                    2 => image.zero(at, len),
                    3 => image.take_over(other, at, len),
                    4 => image.put(aligned, &Excerpt::from(&noise[..to_usize(len)])),
                    5 => image.put(at, &other.excerpt(aligned, len)),
                    _ => *other = image.clone(),
                }
                if rng.chance(0.4) {
                    let mut anew = Image::new(len_bytes);
                    anew.write(0, &bytes_of(&images[which]));
                    assert_eq!(images[which].hash(), anew.hash(), "seed {seed}");
                }
            }
        }
    }

    /// Goal: images are told apart where they differ and only there. Method: a clone, one byte changed in it, and a block of zeros
    /// that one of them has written and the other never had.
    #[test]
    fn parts_are_the_same_where_nothing_differs() {
        let mut one = Image::new(1 << 20);
        one.write(0, &[7; 3 * BLOCK_BYTES]);
        let mut two = one.clone();
        two.write(BLOCK_BYTES as u64, &[7; 5]);
        assert!(one.is_same_in(&two, 0, 1 << 20));
        two.write(BLOCK_BYTES as u64 + 9, &[8]);
        two.write(500_000, &[1]);
        two.write(500_000, &[0]);
        let block = BLOCK_BYTES as u64;
        for (offset, len, same) in [
            (0, block, true),
            (0, block + 1, false),
            (2 * block - 1, 1, false),
            (2 * block, (1 << 20) - 2 * block, true),
        ] {
            assert_eq!(one.is_same_in(&two, offset, len), same, "{offset}+{len}");
            assert_eq!(two.is_same_in(&one, offset, len), same, "{offset}+{len}");
        }
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
