//! Values in memory that are not the engine's.

/// Values that the engine's driver keeps in memory.
pub trait CachedValues: Send + Sync {
    /// Calls `take` with the value of a key, if it is in memory. An older value of the key will do: the engine checks the checksum in its index.
    fn with_value(&self, key: &[u8], take: &mut dyn FnMut(&[u8]));
}
