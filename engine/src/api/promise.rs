//! What a driver may acknowledge before the engine has it. How that comes to be promised is in `commit/promise.rs`.

use crate::api::port::Mutation;
use crate::format::KEY_BYTES_MAX;
use crate::format::record::record_bytes;

/// How much is to be promised: so many changes, of so many bytes of keys and values together.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Changes.
    pub changes: usize,
    /// Bytes of their keys and values together.
    pub bytes: usize,
}

/// Changes of one write, at most. No more can be made without a look at what they replace.
const CHANGES_MAX: usize = 1_024;

/// That small relaxed writes are taken, as far as there is room, if they are handed in to [`Engine::keep`](crate::Engine::keep) before any other request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    pub(crate) value_bytes_max: usize,
    pub(crate) write_bytes_max: usize,
}

impl Promise {
    /// Whether it is of such a write.
    #[must_use]
    pub fn covers(&self, write: &[Mutation<'_>]) -> bool {
        let mut bytes = 0;
        let one = |mutation: &Mutation<'_>| {
            let (key, value) = (mutation.key().len(), mutation.value_bytes());
            bytes += record_bytes(key, value);
            (1..=KEY_BYTES_MAX).contains(&key) && value <= self.value_bytes_max
        };
        write.len() <= CHANGES_MAX
            && write.iter().all(one)
            && (1..=self.write_bytes_max).contains(&bytes)
    }
}
