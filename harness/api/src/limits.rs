//! Limits of a guest, as far as they are known before it is asked: those that it states, and what every guest takes by the ABI page.

/// Keys of 1 to so many bytes are taken, unless the guest states a smaller limit.
pub const KEY_BYTES_SURE: u64 = 1_024;
/// Values of so many bytes are taken, unless the guest states a smaller limit.
pub const VALUE_BYTES_SURE: u64 = 64 << 10;
/// Batches of so many bytes are taken.
pub const BATCH_BYTES_SURE: u64 = 8 << 10;
/// What each mutation of a batch counts beside its key and its value.
pub const MUTATION_BYTES: u64 = 64;

/// Limits of the guest that are known: what is longer is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KnownLimits {
    /// Bytes of a key.
    pub key_bytes_max: Option<u64>,
    /// Bytes of a value.
    pub value_bytes_max: Option<u64>,
}
