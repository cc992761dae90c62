//! The keys that the log changes behind a checkpoint. An opening that cannot have all entries in memory takes theirs: else replay had to look up each of them, with a
//! read of a page.
//!
//! It is only a hint. A key that is missing here is looked up by replay.

use crate::format::superblock::Superblock;
use crate::index::key::Key;
use crate::recovery::replay::Replay;
use crate::runtime::handle::Handle;

/// Keys, ascending.
#[derive(Debug, Default)]
pub(crate) struct LogKeys {
    keys: Vec<Key>,
    /// Those before this one are smaller than any that is asked for.
    next: usize,
}

impl LogKeys {
    fn new(mut keys: Vec<Key>) -> LogKeys {
        keys.sort();
        keys.dedup();
        LogKeys { keys, next: 0 }
    }

    /// Whether a key is among them. No key that is asked for is smaller than one before.
    pub(crate) fn has(&mut self, key: &Key) -> bool {
        while self.keys.get(self.next).is_some_and(|next| next < key) {
            self.next += 1;
        }
        self.keys.get(self.next) == Some(key)
    }
}

/// Reads the log that the superblock leads to.
pub(crate) async fn keys_of_log(handle: &Handle, superblock: &Superblock) -> LogKeys {
    LogKeys::new(Replay::keys(handle, superblock).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the keys of the log are told from all others. Method: some keys in any order and twice, and all keys around them.
    #[test]
    fn keys_are_found_in_ascending_order() {
        let key = |n: &u8| Key::new(&[*n]);
        let mut keys = LogKeys::new([7, 3, 9, 3].iter().map(key).collect());
        let found = (0..=20).filter(|n| keys.has(&key(n)));
        assert_eq!(found.collect::<Vec<u8>>(), [3, 7, 9]);
    }
}
