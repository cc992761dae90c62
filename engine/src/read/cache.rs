//! A bounded cache with the CLOCK policy: of values by the position of their record, and of leaves of the index by their references.
//!
//! Invariants: the bytes held never exceed the bound. A position names one record for ever, and an overwrite in the
//! open frame removes the old value here. A reference has the leaf's checksum. So nothing in the cache is stale.

use std::collections::BTreeMap;
use std::sync::Arc;

/// What an entry costs beside its value.
const OVERHEAD_BYTES: u64 = 64;

#[derive(Debug)]
struct Slot<K> {
    key: K,
    value: Arc<[u8]>,
    referenced: bool,
}

#[derive(Debug)]
pub(crate) struct Cache<K> {
    bound_bytes: u64,
    /// Nothing takes more than one of so many parts.
    parts_min: u64,
    held_bytes: u64,
    slots: Vec<Slot<K>>,
    by_key: BTreeMap<K, usize>,
    hand: usize,
}

impl<K: Ord + Copy> Cache<K> {
    pub(crate) fn new(bound_bytes: u64, parts_min: u64) -> Cache<K> {
        Cache {
            bound_bytes,
            parts_min,
            held_bytes: 0,
            slots: Vec::new(),
            by_key: BTreeMap::new(),
            hand: 0,
        }
    }

    /// Bytes held, with what holding them costs.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// It holds no more from now on.
    pub(crate) fn set_bound(&mut self, bytes: u64) {
        self.bound_bytes = bytes;
        self.make_room(0);
    }

    /// Whether a value of this size is taken at all.
    pub(crate) fn takes(&self, value_bytes: usize) -> bool {
        (value_bytes as u64 + OVERHEAD_BYTES) * self.parts_min <= self.bound_bytes
    }

    pub(crate) fn get(&mut self, key: K) -> Option<Arc<[u8]>> {
        let slot = &mut self.slots[*self.by_key.get(&key)?];
        slot.referenced = true;
        Some(slot.value.clone())
    }

    /// The value, which does not count as used.
    pub(crate) fn peek(&self, key: K) -> Option<Arc<[u8]>> {
        let slot = &self.slots[*self.by_key.get(&key)?];
        Some(slot.value.clone())
    }

    pub(crate) fn insert(&mut self, key: K, value: Arc<[u8]>) {
        let bytes = value.len() as u64 + OVERHEAD_BYTES;
        if !self.takes(value.len()) || self.by_key.contains_key(&key) {
            return;
        }
        self.make_room(bytes);
        self.held_bytes += bytes;
        self.by_key.insert(key, self.slots.len());
        self.slots.push(Slot {
            key,
            value,
            referenced: false,
        });
    }

    /// The value is dead: makes room at once.
    pub(crate) fn remove(&mut self, key: K) {
        if let Some(at) = self.by_key.get(&key) {
            self.take_out(*at);
        }
    }

    fn make_room(&mut self, bytes: u64) {
        while self.held_bytes + bytes > self.bound_bytes {
            self.evict();
        }
    }

    fn evict(&mut self) {
        loop {
            if self.hand >= self.slots.len() {
                self.hand = 0;
            }
            let slot = &mut self.slots[self.hand];
            if !slot.referenced {
                return self.take_out(self.hand);
            }
            slot.referenced = false;
            self.hand += 1;
        }
    }

    fn take_out(&mut self, at: usize) {
        let slot = self.slots.swap_remove(at);
        self.by_key.remove(&slot.key);
        self.held_bytes -= slot.value.len() as u64 + OVERHEAD_BYTES;
        if let Some(moved) = self.slots.get(at) {
            self.by_key.insert(moved.key, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the bound holds and what is used stays. Method: insert far more than fits while touching one entry.
    #[test]
    fn the_bound_holds_and_a_used_entry_survives() {
        let mut cache = Cache::new(4096, 8);
        for lsn in 0..100_u64 {
            cache.insert(lsn, vec![1; 100].into());
            assert!(cache.held_bytes <= 4096);
            assert!(lsn < 1 || cache.get(1).is_some(), "after {lsn}");
        }
        assert!(cache.get(50).is_none());
        cache.remove(1);
        assert!(cache.get(1).is_none());
        assert_eq!(cache.by_key.len(), cache.slots.len());
        assert!(cache.held_bytes() > 1000);
        cache.set_bound(1000);
        assert!(cache.held_bytes() <= 1000);
        assert!(cache.takes(61) && !cache.takes(62));
        cache.set_bound(0);
        assert_eq!((cache.held_bytes(), cache.by_key.len()), (0, 0));
    }
}
