//! Operations under way, by the time of their completion; ties go by number.
//!
//! Every operation of every recovery comes by here, so what moves when one is put in or taken out is its time and its number, and not the bytes that it
//! reads.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use slab::Slab;

use super::effect::InFlight;
use crate::Nanos;
use crate::op::OpId;

#[derive(Debug, Clone, Default)]
pub(super) struct UnderWay {
    /// When each completes, its number, and where it is.
    order: BinaryHeap<Reverse<(Nanos, OpId, usize)>>,
    ops: Slab<InFlight>,
}

impl UnderWay {
    pub(super) fn len(&self) -> usize {
        self.ops.len()
    }

    /// When the first of them completes.
    pub(super) fn next_at(&self) -> Option<Nanos> {
        self.order.peek().map(|Reverse((at, ..))| *at)
    }

    /// All of them, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = &InFlight> {
        self.ops.iter().map(|(_, op)| op)
    }

    pub(super) fn insert(&mut self, at: Nanos, id: OpId, op: InFlight) {
        let place = self.ops.insert(op);
        self.order.push(Reverse((at, id, place)));
    }

    /// Takes out the one that completes first.
    pub(super) fn pop(&mut self) -> Option<(Nanos, OpId, InFlight)> {
        let Reverse((at, id, place)) = self.order.pop()?;
        Some((at, id, self.ops.remove(place)))
    }

    fn place(&self, id: OpId) -> Option<usize> {
        let mut all = self.order.iter();
        let found = all.find(|Reverse((_, other, _))| *other == id)?;
        Some(found.0.2)
    }

    pub(super) fn get_mut(&mut self, id: OpId) -> Option<&mut InFlight> {
        let place = self.place(id)?;
        self.ops.get_mut(place)
    }

    /// Takes out this one, whatever its time.
    pub(super) fn take(&mut self, id: OpId) -> Option<InFlight> {
        let place = self.place(id)?;
        self.order.retain(|Reverse((_, other, _))| *other != id);
        Some(self.ops.remove(place))
    }

    pub(super) fn clear(&mut self) {
        self.order.clear();
        self.ops.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Effect;
    use crate::rng::{Purpose, Rng};

    /// Goal: what completes first comes out first, ties go by number, and any can be taken out before. Method: random times, of which many
    /// are equal, against a sorted list.
    #[test]
    fn the_earliest_comes_first() {
        let op = |tag| InFlight {
            tag,
            submitted_at: 0,
            effect: Effect::Nothing,
            result: Ok(None),
        };
        let mut rng = Rng::new(1, Purpose::Test);
        let (mut all, mut expected) = (UnderWay::default(), Vec::new());
        for id in 0..2_000 {
            let at = rng.below(50);
            all.insert(at, id, op(id));
            expected.push((at, id));
            expected.sort_unstable();
            assert_eq!(all.get_mut(id).map(|op| op.tag), Some(id));
            if rng.chance(0.3) {
                let (_, id) = expected.remove(expected.len() / 2);
                assert_eq!(all.take(id).map(|op| op.tag), Some(id));
                assert!(all.take(id).is_none(), "it is not under way any more");
            }
            if rng.chance(0.6) && !expected.is_empty() {
                assert_eq!(all.next_at(), Some(expected[0].0));
                let popped = all.pop().map(|(at, id, op)| (at, id, op.tag));
                let (at, id) = expected.remove(0);
                assert_eq!(popped, Some((at, id, id)));
            }
            assert_eq!(
                (all.len(), all.all().count()),
                (expected.len(), expected.len())
            );
        }
        all.clear();
        assert_eq!((all.next_at(), all.len()), (None, 0));
    }
}
