//! A bounded cache of values by the position of their record, with the CLOCK policy.
//!
//! Invariants: the bytes held never exceed the bound. A position names one record for ever, and an overwrite in the
//! open frame removes the old value here. So nothing in the cache is stale.

use std::collections::BTreeMap;
use std::sync::Arc;

/// What an entry costs beside its value.
const OVERHEAD_BYTES: u64 = 64;

#[derive(Debug)]
struct Slot {
    lsn: u64,
    value: Arc<[u8]>,
    referenced: bool,
}

#[derive(Debug)]
pub(crate) struct Cache {
    bound_bytes: u64,
    held_bytes: u64,
    slots: Vec<Slot>,
    by_lsn: BTreeMap<u64, usize>,
    hand: usize,
}

impl Cache {
    pub(crate) fn new(bound_bytes: u64) -> Cache {
        Cache {
            bound_bytes,
            held_bytes: 0,
            slots: Vec::new(),
            by_lsn: BTreeMap::new(),
            hand: 0,
        }
    }

    /// Whether a value of this size is taken at all.
    pub(crate) fn takes(&self, value_bytes: usize) -> bool {
        (value_bytes as u64 + OVERHEAD_BYTES) * 8 <= self.bound_bytes
    }

    pub(crate) fn get(&mut self, lsn: u64) -> Option<Arc<[u8]>> {
        let slot = &mut self.slots[*self.by_lsn.get(&lsn)?];
        slot.referenced = true;
        Some(slot.value.clone())
    }

    /// The value, which does not count as used.
    pub(crate) fn peek(&self, lsn: u64) -> Option<Arc<[u8]>> {
        let slot = &self.slots[*self.by_lsn.get(&lsn)?];
        Some(slot.value.clone())
    }

    pub(crate) fn insert(&mut self, lsn: u64, value: Arc<[u8]>) {
        let bytes = value.len() as u64 + OVERHEAD_BYTES;
        if !self.takes(value.len()) || self.by_lsn.contains_key(&lsn) {
            return;
        }
        while self.held_bytes + bytes > self.bound_bytes {
            self.evict();
        }
        self.held_bytes += bytes;
        self.by_lsn.insert(lsn, self.slots.len());
        self.slots.push(Slot {
            lsn,
            value,
            referenced: false,
        });
    }

    /// The value is dead: makes room at once.
    pub(crate) fn remove(&mut self, lsn: u64) {
        if let Some(at) = self.by_lsn.get(&lsn) {
            self.take_out(*at);
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
        self.by_lsn.remove(&slot.lsn);
        self.held_bytes -= slot.value.len() as u64 + OVERHEAD_BYTES;
        if let Some(moved) = self.slots.get(at) {
            self.by_lsn.insert(moved.lsn, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the bound holds and what is used stays. Method: insert far more than fits while touching one entry.
    #[test]
    fn the_bound_holds_and_a_used_entry_survives() {
        let mut cache = Cache::new(4096);
        for lsn in 0..100_u64 {
            cache.insert(lsn, vec![1; 100].into());
            assert!(cache.held_bytes <= 4096);
            assert!(lsn < 1 || cache.get(1).is_some(), "after {lsn}");
        }
        assert!(cache.get(50).is_none());
        cache.remove(1);
        assert!(cache.get(1).is_none());
        assert_eq!(cache.by_lsn.len(), cache.slots.len());
    }
}
