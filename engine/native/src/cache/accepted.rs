//! A change that a client was told of before the engine has it.

use std::sync::Arc;

use kvsim_engine::Mutation;

use crate::cache::borrowed::split;

/// A change that was accepted.
pub(crate) struct Accepted {
    /// The key and the value, or the key alone.
    pub(crate) row: Arc<[u8]>,
    pub(crate) is_delete: bool,
    /// The next one is of another write.
    pub(crate) ends: bool,
}

impl Accepted {
    pub(crate) fn borrow(&self) -> Mutation<'_> {
        let (key, value) = split(&self.row);
        match self.is_delete {
            true => Mutation::Delete { key },
            false => Mutation::Put {
                key,
                value: &self.row[value..],
            },
        }
    }
}
