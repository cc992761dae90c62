//! Values in memory that are not the engine's.

/// Values that the engine's driver keeps in memory.
pub trait CachedValues: Send + Sync {
    /// Lends the value of a key, if it is there; nothing is called back otherwise. It may be any that the key has had: the engine knows which it wants.
    fn with_value(&self, key: &[u8], take: &mut dyn FnMut(&[u8]));
}
