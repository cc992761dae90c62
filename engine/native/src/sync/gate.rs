//! How many writes tasks may have under way. A task does not sleep, so without a bound it could hand in writes faster than any disk takes them, and the
//! engine would keep them all.
//!
//! Invariants:
//! - what is under way stays within [`WRITES_MAX`] and [`BYTES_MAX`], but for one write that is larger than all of that, which goes alone;
//! - a write that waits goes before every later one that waits, and a new one does not overtake it;
//! - whenever there is room for the first that waits, it was woken, or the one that went in last wakes it.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::task::Waker;

use crate::lock::lock;

/// Writes of tasks that are under way at most.
pub(crate) const WRITES_MAX: usize = 16 << 10;
/// Bytes of their keys and values at most.
pub(crate) const BYTES_MAX: usize = 64 << 20;

/// Names a write that waits.
pub(crate) type Place = u64;

#[derive(Default)]
pub(crate) struct Gate(Mutex<State>);

#[derive(Default)]
struct State {
    writes: usize,
    bytes: usize,
    waiting: VecDeque<(Place, Option<Waker>)>,
    next: Place,
}

/// What came of an attempt to go in.
#[must_use]
pub(crate) enum Entry {
    /// It is in. If there is a waker, there is room for the next one too.
    In(Option<Waker>),
    /// There is no room, or others wait.
    Full,
}

impl State {
    fn has_room(&self, bytes: usize) -> bool {
        self.writes == 0
            || (self.writes < WRITES_MAX && self.bytes.saturating_add(bytes) <= BYTES_MAX)
    }

    /// Whoever waits first, if there may be room. The wakers of those that were woken are gone.
    fn first(&mut self) -> Option<Waker> {
        if !self.has_room(0) {
            return None;
        }
        self.waiting.front_mut()?.1.take()
    }
}

impl Gate {
    /// A write of so many bytes goes in, if it may; `place` is the one at which it waits.
    pub(crate) fn enter(&self, bytes: usize, place: Option<Place>) -> Entry {
        let mut state = lock(&self.0);
        let first = state.waiting.front().map(|(first, _)| *first);
        if first != place || !state.has_room(bytes) {
            return Entry::Full;
        }
        if place.is_some() {
            state.waiting.pop_front();
        }
        state.writes += 1;
        state.bytes += bytes;
        Entry::In(state.first())
    }

    /// Waits, at the end of the row if it has no place yet, to be woken when it may try again. Gives the place.
    ///
    /// It may be its turn by now: whoever calls this tries once more.
    pub(crate) fn wait(&self, place: Option<Place>, waker: &Waker) -> Place {
        let mut state = lock(&self.0);
        let waker = Some(waker.clone());
        if let Some(place) = place
            && let Some(waiting) = state.waiting.iter_mut().find(|it| it.0 == place)
        {
            waiting.1 = waker;
            return place;
        }
        let place = state.next;
        state.next += 1;
        state.waiting.push_back((place, waker));
        place
    }

    /// A write of so many bytes is answered. Wake whoever is given.
    #[must_use]
    pub(crate) fn leave(&self, bytes: usize) -> Option<Waker> {
        let mut state = lock(&self.0);
        state.writes -= 1;
        state.bytes -= bytes;
        state.first()
    }

    /// Who waited there does not want to any more. Wake whoever is given.
    #[must_use]
    pub(crate) fn forget(&self, place: Place) -> Option<Waker> {
        let mut state = lock(&self.0);
        state.waiting.retain(|(other, _)| *other != place);
        state.first()
    }

    /// Writes that are under way, and that wait.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = lock(&self.0);
        (state.writes, state.waiting.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_in(entry: &Entry) -> bool {
        matches!(entry, Entry::In(_))
    }

    /// Goal: bytes are bounded as writes are, and a write that is larger than the bound goes alone. Method: such a write beside a small one, before and after it.
    #[test]
    fn a_write_that_is_too_large_goes_alone() {
        let gate = Gate::default();
        let large = BYTES_MAX + 1;
        assert!(is_in(&gate.enter(10, None)));
        assert!(!is_in(&gate.enter(large, None)), "not beside another");
        let place = gate.wait(None, Waker::noop());
        assert!(!is_in(&gate.enter(10, None)), "it would overtake");
        assert!(gate.leave(10).is_some(), "whoever waits is woken");
        assert!(is_in(&gate.enter(large, Some(place))));
        assert!(!is_in(&gate.enter(0, None)), "nothing goes beside it");
        assert!(gate.leave(large).is_none());
        assert!(is_in(&gate.enter(BYTES_MAX, None)));
        assert_eq!(gate.counts(), (1, 0));
    }

    /// Goal: those that wait go in their order, and each that goes in wakes the next if there is room. Method: three that wait, the second of which gives up.
    #[test]
    fn each_that_goes_in_wakes_the_next() {
        let gate = Gate::default();
        assert!(is_in(&gate.enter(BYTES_MAX, None)));
        let [first, second, third] = [(); 3].map(|()| gate.wait(None, Waker::noop()));
        assert!(gate.leave(BYTES_MAX).is_some());
        assert!(!is_in(&gate.enter(1, Some(third))), "it is not its turn");
        let Entry::In(next) = gate.enter(1, Some(first)) else {
            panic!("there is room");
        };
        assert!(next.is_some());
        assert!(gate.forget(second).is_some(), "the turn is the third's");
        assert!(is_in(&gate.enter(1, Some(third))));
        assert_eq!(gate.counts(), (2, 0));
    }
}
