//! Whether the database's own thread combines: what is said of it between threads, and when it is worth it. Who does it is in `leader/combining.rs`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use kvsim_engine::Nanos;

/// Over so long a time the thread must be at work for most of it.
const ROUND_NS: Nanos = 1_000_000;
/// How long it does not begin again after it has ended: twice as long each time, within these bounds, until it was worth it for a round.
const PAUSE_NS_MIN: Nanos = 20_000_000;
const PAUSE_NS_MAX: Nanos = 32 * PAUSE_NS_MIN;

#[derive(Default)]
pub(crate) struct Combining {
    /// Somebody writes so that it is worth it.
    wanted: AtomicBool,
    /// The database's own thread hands in what is accepted; nobody else need do it.
    on: AtomicBool,
    /// It does not begin before.
    not_before: AtomicU64,
    /// How long it pauses the next time; 0: as shortly as can be. Only the database's own thread changes both.
    pause_ns: AtomicU64,
}

/// How much of a stretch of time who combines has waited.
#[derive(Debug)]
pub(crate) struct Round {
    began_at: Nanos,
    waited_ns: Nanos,
}

impl Round {
    pub(crate) fn waited(&mut self, ns: Nanos) {
        self.waited_ns += ns;
    }

    fn is_over(&self, now: Nanos) -> bool {
        now >= self.began_at + ROUND_NS
    }

    /// Whether it was at work for at least half of the time.
    fn was_worth_it(&self, now: Nanos) -> bool {
        self.waited_ns <= (now - self.began_at) / 2
    }
}

impl Combining {
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::SeqCst)
    }

    /// Whether somebody may want it now.
    pub(crate) fn may_begin(&self, now: Nanos) -> bool {
        !self.is_on() && now >= self.not_before.load(Ordering::Relaxed)
    }

    /// One thread writes on and on.
    pub(crate) fn want(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Others write too, or have to get at the engine.
    pub(crate) fn want_no_more(&self) {
        if self.is_wanted() {
            self.wanted.store(false, Ordering::Relaxed);
        }
    }

    /// Whether the database's own thread combines from here on, where it can. Without a round it has not until now. Where it ends, the caller looks at what was accepted afterwards.
    pub(crate) fn goes_on(&self, can: bool, now: Nanos, round: &mut Option<Round>) -> bool {
        let wanted = can && self.is_wanted();
        match round {
            Some(it) if wanted && !it.is_over(now) => return true,
            Some(it) if !wanted || !it.was_worth_it(now) => {
                *round = None;
                self.want_no_more();
                let pause_ns = self.pause_ns.load(Ordering::Relaxed).max(PAUSE_NS_MIN);
                self.pause_ns
                    .store((2 * pause_ns).min(PAUSE_NS_MAX), Ordering::Relaxed);
                self.not_before.store(now + pause_ns, Ordering::Relaxed);
                self.end();
                return false;
            }
            None if !wanted => return false,
            None => self.on.store(true, Ordering::SeqCst),
            Some(_) => self.pause_ns.store(0, Ordering::Relaxed),
        }
        let (began_at, waited_ns) = (now, 0);
        *round = Some(Round {
            began_at,
            waited_ns,
        });
        true
    }

    /// Ends it. The caller looks at what was accepted afterwards.
    pub(crate) fn end(&self) {
        self.on.store(false, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: it goes on as long as it is wanted and worth it, ends else, and does not begin again at once, and later each time that it was not worth it. Method: rounds in which
    /// the thread waits more and more; somebody who wants it no more, again and again.
    #[test]
    fn it_goes_on_as_long_as_it_is_worth_it() {
        let combining = Combining::default();
        let mut round = None;
        assert!(!combining.goes_on(true, 5, &mut round), "nobody wants it");
        combining.want();
        assert!(!combining.goes_on(false, 5, &mut round), "it cannot be");
        assert!(combining.goes_on(true, 5, &mut round) && combining.is_on());
        let mut now = 5;
        for waited in [0, ROUND_NS / 4, ROUND_NS / 2] {
            round.as_mut().expect("it goes on").waited(waited);
            assert!(combining.goes_on(true, now + ROUND_NS - 1, &mut round));
            now += ROUND_NS;
            assert!(combining.goes_on(true, now, &mut round), "{waited}");
        }
        round.as_mut().expect("it goes on").waited(ROUND_NS / 2 + 1);
        assert!(combining.goes_on(true, now + ROUND_NS - 1, &mut round));
        now += ROUND_NS;
        assert!(!combining.goes_on(true, now, &mut round) && !combining.is_on());
        for pause_ns in [1, 2, 4, 8, 16, 32, 32, 32].map(|times| times * PAUSE_NS_MIN) {
            assert!(!combining.may_begin(now + pause_ns - 1));
            now += pause_ns;
            assert!(combining.may_begin(now));
            combining.want();
            assert!(combining.goes_on(true, now, &mut round));
            assert!(!combining.may_begin(now + PAUSE_NS_MAX), "it is on");
            combining.want_no_more();
            assert!(!combining.goes_on(true, now, &mut round) && !combining.is_on());
        }
        combining.want();
        assert!(combining.goes_on(true, now, &mut round));
        now += ROUND_NS;
        assert!(combining.goes_on(true, now, &mut round), "a whole round");
        combining.want_no_more();
        assert!(!combining.goes_on(true, now, &mut round));
        assert!(combining.may_begin(now + PAUSE_NS_MIN));
    }
}
