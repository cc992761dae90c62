//! What a recovery would have to save: commits that are in the log but lie beyond every durable position that something
//! durable states. See `recovery/rewrite_tail.rs` for why it must be saved, and `space.rs` for the space that is kept back for it.

use std::collections::VecDeque;

/// Bytes of values that a recovery would write anew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RecoveryReserve {
    /// Records that hold a value.
    pub(crate) log_bytes: u64,
    /// Whole blocks of chunks.
    pub(crate) extent_bytes: u64,
}

impl RecoveryReserve {
    pub(crate) fn plus(self, other: RecoveryReserve) -> RecoveryReserve {
        RecoveryReserve {
            log_bytes: self.log_bytes + other.log_bytes,
            extent_bytes: self.extent_bytes + other.extent_bytes,
        }
    }

    fn minus(self, other: RecoveryReserve) -> RecoveryReserve {
        RecoveryReserve {
            log_bytes: self.log_bytes - other.log_bytes,
            extent_bytes: self.extent_bytes - other.extent_bytes,
        }
    }
}

/// The reserve by frames, until each is proven. Records that garbage collection moves need none: their old copies are still there.
#[derive(Debug, Default)]
pub(crate) struct Unproven {
    total: RecoveryReserve,
    /// Of the frame that takes records.
    open: RecoveryReserve,
    /// Ends of sealed frames, ascending.
    sealed: VecDeque<(u64, RecoveryReserve)>,
}

impl Unproven {
    pub(crate) fn total(&self) -> RecoveryReserve {
        self.total
    }

    pub(crate) fn add(&mut self, reserve: RecoveryReserve) {
        self.total = self.total.plus(reserve);
        self.open = self.open.plus(reserve);
    }

    /// The open frame was sealed and ends here.
    pub(crate) fn seal(&mut self, end: u64) {
        let reserve = std::mem::take(&mut self.open);
        if reserve != RecoveryReserve::default() {
            self.sealed.push_back((end, reserve));
        }
    }

    /// Something durable states that everything before this is durable.
    pub(crate) fn prove(&mut self, durable: u64) {
        while let Some((_, reserve)) = self.sealed.pop_front_if(|(end, _)| *end <= durable) {
            self.total = self.total.minus(reserve);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a reserve counts from the append until its frame is proven. Method: three frames, one of them empty.
    #[test]
    fn a_frame_weighs_until_it_is_proven() {
        let reserve = |log_bytes| RecoveryReserve {
            log_bytes,
            extent_bytes: 2 * log_bytes,
        };
        let mut unproven = Unproven::default();
        unproven.add(reserve(10));
        unproven.seal(100);
        unproven.seal(200);
        unproven.add(reserve(5));
        unproven.prove(99);
        assert_eq!(unproven.total(), reserve(15));
        unproven.prove(200);
        assert_eq!(
            unproven.total(),
            reserve(5),
            "the open frame is never proven"
        );
        unproven.seal(300);
        unproven.prove(300);
        assert_eq!(unproven.total(), RecoveryReserve::default());
    }
}
