//! Memory that goes to the disk and comes from it: aligned for direct I/O, shared without copying.
//!
//! Invariant: the address of an [`IoBuf`]'s first byte is a multiple of [`ALIGN_BYTES`]. The address stays the same
//! when the `IoBuf` is moved, and changes only in [`IoBuf::grow`].

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// What direct I/O asks for on a host; a sandbox copies anyway and saves the memory.
pub const ALIGN_BYTES: usize = if cfg!(target_family = "wasm") {
    16
} else {
    4096
};

/// An owned, zeroed, aligned buffer.
#[derive(Default)]
pub struct IoBuf {
    storage: Vec<u8>,
    start: usize,
    len: usize,
}

impl IoBuf {
    /// A buffer of `len` zeroes.
    #[must_use]
    pub fn zeroed(len: usize) -> IoBuf {
        let storage = vec![0; len + ALIGN_BYTES];
        let start = storage.as_ptr().align_offset(ALIGN_BYTES);
        assert!(start <= ALIGN_BYTES, "a byte pointer can always be aligned");
        IoBuf {
            storage,
            start,
            len,
        }
    }

    /// How long it can be without other memory.
    pub(crate) fn capacity(&self) -> usize {
        self.storage.len() - self.start
    }

    /// Makes it `len` bytes long, which is within its capacity; bytes that are new hold anything.
    pub(crate) fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "the length is within the capacity");
        self.len = len;
    }

    /// Makes it at least `len` bytes long, keeping what it holds; new bytes are zero.
    pub fn grow(&mut self, len: usize) {
        if len > self.len {
            let mut larger = IoBuf::zeroed(len);
            larger[..self.len].copy_from_slice(self);
            *self = larger;
        }
    }

    /// Cuts it to `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl fmt::Debug for IoBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IoBuf({} bytes)", self.len)
    }
}

impl Deref for IoBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.storage[self.start..self.start + self.len]
    }
}

impl DerefMut for IoBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..self.start + self.len]
    }
}

/// Bytes borrowed from a buffer that several may hold: what a read returns.
#[derive(Clone)]
pub struct Shared(Repr);

#[derive(Clone)]
enum Repr {
    Whole(Arc<[u8]>),
    Slice {
        bytes: Arc<Vec<u8>>,
        start: usize,
        end: usize,
    },
    Part {
        buffer: Arc<IoBuf>,
        start: usize,
        end: usize,
    },
}

impl Shared {
    /// A copy of `bytes`.
    #[must_use]
    pub fn copy(bytes: &[u8]) -> Shared {
        Shared(Repr::Whole(bytes.into()))
    }

    /// All of `bytes`.
    #[must_use]
    pub fn whole(bytes: Arc<[u8]>) -> Shared {
        Shared(Repr::Whole(bytes))
    }

    /// `bytes[start..end]`, without copying.
    #[must_use]
    pub fn slice(bytes: Arc<Vec<u8>>, start: usize, end: usize) -> Shared {
        assert!(
            start <= end && end <= bytes.len(),
            "a slice lies within its bytes"
        );
        Shared(Repr::Slice { bytes, start, end })
    }

    /// The same bytes for somebody who may keep them longer than those beside them: a copy of a slice, and anything else as it is.
    #[must_use]
    pub fn detached(self) -> Shared {
        match self.0 {
            Repr::Slice { .. } => Shared::copy(&self),
            _ => self,
        }
    }

    /// `buffer[start..end]`, without copying.
    #[must_use]
    pub fn part(buffer: Arc<IoBuf>, start: usize, end: usize) -> Shared {
        assert!(
            start <= end && end <= buffer.len(),
            "a part lies within its buffer"
        );
        Shared(Repr::Part { buffer, start, end })
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared({} bytes)", self.len())
    }
}

impl Deref for Shared {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Whole(bytes) => bytes,
            Repr::Slice { bytes, start, end } => &bytes[*start..*end],
            Repr::Part { buffer, start, end } => &buffer[*start..*end],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: direct I/O accepts every buffer. Method: the address of the first byte, before and after growing and moving.
    #[test]
    fn a_buffer_is_aligned_wherever_it_goes() {
        for len in [0, 1, 511, 4096, 70_000] {
            let mut buf = IoBuf::zeroed(len);
            assert_eq!(buf.as_ptr().align_offset(ALIGN_BYTES), 0);
            buf.grow(len * 2 + 1);
            let moved = buf;
            assert_eq!(moved.as_ptr().align_offset(ALIGN_BYTES), 0);
            assert_eq!(moved.len(), len * 2 + 1);
        }
    }

    /// Goal: growing loses nothing. Method: fill, grow, compare.
    #[test]
    fn growing_keeps_the_contents_and_zeroes_the_rest() {
        let mut buf = IoBuf::zeroed(3);
        buf.copy_from_slice(b"abc");
        buf.grow(5);
        assert_eq!(&buf[..], b"abc\0\0");
    }

    /// Goal: who keeps one value of many keeps no other. Method: the memory of a slice, counted before and after it is detached.
    #[test]
    fn a_detached_slice_holds_nothing_else() {
        let bytes = Arc::new(b"key and value".to_vec());
        let slice = Shared::slice(Arc::clone(&bytes), 8, 13);
        assert_eq!((&*slice, Arc::strong_count(&bytes)), (&b"value"[..], 2));
        let alone = slice.detached();
        assert_eq!((&*alone, Arc::strong_count(&bytes)), (&b"value"[..], 1));
    }
}
