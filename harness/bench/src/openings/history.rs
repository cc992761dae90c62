//! Which write a key must show after a crash.
//!
//! Writes are those of [`kvsim_store::sequence`]. A write is durable, or it may be there, as are those that came after the last sync before a kill. A key
//! must show its last durable write, or a later one that may be there.

use std::ops::Range;

use kvsim_store::script::Values;
use kvsim_store::sequence;

/// All writes so far.
#[derive(Debug)]
pub(super) struct History {
    keys: u64,
    /// The first write that was not asked for.
    next: u64,
    /// All before this one that are not in `uncertain` are durable.
    durable: u64,
    /// Writes that may be there, in order.
    uncertain: Vec<Range<u64>>,
}

impl History {
    /// No write yet.
    pub(super) fn new(keys: u64) -> History {
        History {
            keys,
            next: 0,
            durable: 0,
            uncertain: Vec::new(),
        }
    }

    /// The first write that was not asked for.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The first write after the last sync.
    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    /// The number of the key that a write sets.
    pub(super) fn key_of(&self, write: u64) -> u64 {
        sequence::key_of(write, self.keys)
    }

    /// All writes from the next one up to `end` were made and are durable.
    pub(super) fn is_durable(&mut self, end: u64) {
        (self.next, self.durable) = (end, end);
    }

    /// The writes from the next one up to `end` may have been made.
    pub(super) fn may_be_there(&mut self, end: u64) {
        self.uncertain.push(self.next..end);
        self.next = end;
    }

    /// The last write that may be there is durable.
    pub(super) fn was_acknowledged(&mut self, write: u64) {
        let last = self.uncertain.pop();
        assert_eq!(last, Some(write..write + 1), "another write was the last");
    }

    /// What is wrong with the value of the key that `write` sets, if anything is.
    pub(super) fn wrong(
        &self,
        write: u64,
        value: Option<&[u8]>,
        values: &Values,
    ) -> Option<String> {
        let place = write % self.keys;
        let passes = (self.next - place).div_ceil(self.keys);
        for pass in (0..passes).rev() {
            let write = place + pass * self.keys;
            if value == Some(values.nth(write)) {
                return None;
            }
            if !self.uncertain.iter().any(|range| range.contains(&write)) {
                let key = self.key_of(write);
                let found = value.map_or_else(
                    || "is not there".to_owned(),
                    |value| format!("has another value, of {} bytes", value.len()),
                );
                return Some(format!(
                    "key number {key} {found}; write {write} of it was durable"
                ));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Values {
        let pool = (0..9_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3]);
        Values::cut(pool.collect(), vec![40])
    }

    /// Goal: a lost write, an old value and a foreign value are found, and a write that was under way may be there or not. Method: a history of three passes over
    /// ten keys with a crash in it, and each value that a key could have.
    #[test]
    fn a_key_shows_its_last_durable_write_or_a_later_one() {
        let values = values();
        let mut history = History::new(10);
        history.is_durable(10);
        history.is_durable(13);
        history.may_be_there(25);
        let wrong = |history: &History, place: u64, write: u64| {
            let value = values.nth(write);
            history.wrong(place, Some(value), &values).is_some()
        };
        // Key of write 2: 2 and 12 are durable, 22 may be there. Key of write 7: 7 is durable, 17 may be there.
        let of = |place, writes: [u64; 4]| writes.map(|write| wrong(&history, place, write));
        assert_eq!(of(2, [2, 12, 22, 32]), [true, false, false, true]);
        assert_eq!(of(7, [7, 17, 27, 8]), [false, false, true, true]);
        let missing = history.wrong(7, None, &values).expect("7 is durable");
        assert!(missing.contains("is not there"), "{missing}");
        // A put that was acknowledged is the only value from then on.
        let put = history.next();
        history.may_be_there(put + 1);
        assert!(!wrong(&history, put, 15) && !wrong(&history, put, put));
        history.was_acknowledged(put);
        assert!(wrong(&history, put, 15) && !wrong(&history, put, put));
        assert_eq!(history.durable(), 13);
    }
}
