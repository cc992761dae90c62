//! The pointer to a large value: the chunks that hold it, in order.
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 4 | bytes of the whole value |
//! | 4 | 20 × n | chunks: device offset 8 (a multiple of the block), bytes 4, checksum 8 seeded by the offset |
//!
//! A chunk takes whole blocks and lies in one segment. Its checksum is here and not beside it, so that a lost or
//! misdirected write of the chunk cannot pass.

use super::frame::FRAME_HEADER_BYTES;
use super::{Geometry, HEADER_AREA_BYTES, get_u32, get_u64, put_u32, put_u64};
use crate::format::damage::Mismatch;
use crate::mutant::{Mutant, mutant};

/// A chunk is read and verified as one.
pub(crate) const CHUNK_BYTES_MAX: u64 = 256 << 10;
/// The longest pointer when it is written.
pub(crate) const POINTER_BYTES_MAX: usize = 8 << 10;

const CHUNK_BYTES: usize = 20;
const HEAD_BYTES: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) checksum: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pointer {
    pub(crate) total: u32,
    pub(crate) chunks: Box<[Chunk]>,
}

impl Pointer {
    pub(crate) fn encoded_bytes(&self) -> usize {
        Pointer::encoded_bytes_of(self.chunks.len())
    }

    pub(crate) fn encoded_bytes_of(chunks: usize) -> usize {
        HEAD_BYTES + CHUNK_BYTES * chunks
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; self.encoded_bytes()];
        put_u32(&mut out, 0, self.total);
        for (chunk, out) in self
            .chunks
            .iter()
            .zip(out[HEAD_BYTES..].chunks_exact_mut(CHUNK_BYTES))
        {
            put_u64(out, 0, chunk.offset);
            put_u32(out, 8, chunk.len);
            put_u64(out, 12, chunk.checksum);
        }
        out
    }

    /// The longest pointer that a write may make: a quarter of a frame. Garbage collection may let it grow to twice that.
    pub(crate) fn bytes_max(geometry: &Geometry) -> usize {
        let body = super::to_usize(geometry.payload_bytes()) - FRAME_HEADER_BYTES;
        POINTER_BYTES_MAX.min(body / 4)
    }

    /// Parses and checks that every chunk lies on the device, in one segment, on a block.
    pub(crate) fn decode(
        geometry: &Geometry,
        segments: u32,
        bytes: &[u8],
    ) -> Result<Pointer, Mismatch> {
        if bytes.len() < HEAD_BYTES + CHUNK_BYTES
            || !(bytes.len() - HEAD_BYTES).is_multiple_of(CHUNK_BYTES)
        {
            return Err(Mismatch {
                what: "pointer length",
                expected: CHUNK_BYTES as u64,
                found: bytes.len() as u64,
            });
        }
        let bytes_max = 2 * Pointer::bytes_max(geometry);
        if bytes.len() > bytes_max {
            return Err(Mismatch {
                what: "pointer length",
                expected: bytes_max as u64,
                found: bytes.len() as u64,
            });
        }
        let total = get_u32(bytes, 0);
        let mut sum = 0_u64;
        let mut chunks = Vec::with_capacity(bytes.len() / CHUNK_BYTES);
        for raw in bytes[HEAD_BYTES..].chunks_exact(CHUNK_BYTES) {
            let chunk = Chunk {
                offset: get_u64(raw, 0),
                len: get_u32(raw, 8),
                checksum: get_u64(raw, 12),
            };
            let end = geometry.segment_offset(segments);
            let odd = Mismatch {
                what: "pointer chunk",
                expected: end,
                found: chunk.offset,
            };
            if mutant(Mutant::PointerBoundsNotChecked) {
                sum += u64::from(chunk.len);
                chunks.push(chunk);
                continue;
            }
            if chunk.len == 0 || chunk.offset < HEADER_AREA_BYTES || chunk.offset >= end {
                return Err(odd);
            }
            let (_, within) = geometry.locate(chunk.offset);
            if within % geometry.block_bytes != 0
                || u64::from(chunk.len) > CHUNK_BYTES_MAX
                || within + u64::from(chunk.len) > geometry.segment_bytes
            {
                return Err(odd);
            }
            if chunks.iter().any(|it: &Chunk| it.offset == chunk.offset) {
                return Err(odd);
            }
            sum += u64::from(chunk.len);
            chunks.push(chunk);
        }
        Mismatch::check("pointer total", u64::from(total), sum)?;
        Ok(Pointer {
            total,
            chunks: chunks.into(),
        })
    }
}
