//! Limits of a guest, as far as they are known before it is asked.

/// Limits of the guest that are known: what is longer is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KnownLimits {
    /// Bytes of a key.
    pub key_bytes_max: Option<u64>,
    /// Bytes of a value.
    pub value_bytes_max: Option<u64>,
}
