//! How a campaign is watched and stopped from outside. Nothing here reaches a decision of a run: a seed is finished as
//! if it had not been watched, or it is cut short and left out.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Why a campaign ended before its seeds did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The time given with `--for` is over.
    TimeOver,
    /// A person asked for it.
    Interrupted,
}

/// Shared by the one who watches and all workers.
#[derive(Debug)]
pub struct Control {
    began: Instant,
    /// Nanoseconds after the beginning at which the time is over.
    ends_after_ns: AtomicU64,
    time_over: AtomicBool,
    interrupted: AtomicBool,
    last_wanted_seed: AtomicU64,
    crashes: AtomicU64,
    writes_checked: AtomicU64,
    seeds_done: AtomicU64,
}

impl Default for Control {
    fn default() -> Self {
        Control {
            began: now(),
            ends_after_ns: AtomicU64::new(u64::MAX),
            time_over: AtomicBool::new(false),
            interrupted: AtomicBool::new(false),
            last_wanted_seed: AtomicU64::new(u64::MAX),
            crashes: AtomicU64::new(0),
            writes_checked: AtomicU64::new(0),
            seeds_done: AtomicU64::new(0),
        }
    }
}

impl Control {
    /// Asks all workers to end soon.
    pub fn stop(&self, why: Stop) {
        match why {
            Stop::TimeOver => self.time_over.store(true, Ordering::Relaxed),
            Stop::Interrupted => self.interrupted.store(true, Ordering::Relaxed),
        }
    }

    /// Sets the real time after which all workers are asked to end, counted from now. It replaces an earlier limit.
    pub fn end_after(&self, time: Duration) {
        let ends_after = self.began.elapsed().saturating_add(time);
        let ns = u64::try_from(ends_after.as_nanos()).unwrap_or(u64::MAX);
        self.ends_after_ns.store(ns, Ordering::Relaxed);
    }

    /// The real time since this was made.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Takes the limit of [`Control::end_after`] back.
    pub fn never_end(&self) {
        self.ends_after_ns.store(u64::MAX, Ordering::Relaxed);
    }

    /// Whether and why it was stopped; an interruption counts more.
    #[must_use]
    pub fn stopped(&self) -> Option<Stop> {
        if self.interrupted.load(Ordering::Relaxed) {
            Some(Stop::Interrupted)
        } else if self.time_over.load(Ordering::Relaxed) || self.is_late() {
            Some(Stop::TimeOver)
        } else {
            None
        }
    }

    fn is_late(&self) -> bool {
        let ends_after = self.ends_after_ns.load(Ordering::Relaxed);
        ends_after != u64::MAX && self.began.elapsed() >= Duration::from_nanos(ends_after)
    }

    /// Crashes so far.
    #[must_use]
    pub fn crashes(&self) -> u64 {
        self.crashes.load(Ordering::Relaxed)
    }

    /// Acknowledged writes checked so far.
    #[must_use]
    pub fn writes_checked(&self) -> u64 {
        self.writes_checked.load(Ordering::Relaxed)
    }

    /// Seeds done so far.
    #[must_use]
    pub fn seeds_done(&self) -> u64 {
        self.seeds_done.load(Ordering::Relaxed)
    }

    /// Whether a seed should still go on. Asked between crashes and every so many events.
    pub fn wants(&self, seed: u64) -> bool {
        self.stopped().is_none() && seed <= self.last_wanted_seed.load(Ordering::Relaxed)
    }

    /// A seed failed: those after it need not go on, since the first one by number is reported.
    pub fn failed(&self, seed: u64) {
        self.last_wanted_seed.fetch_min(seed, Ordering::Relaxed);
    }

    /// The first seed known to have failed.
    pub fn first_failed(&self) -> Option<u64> {
        Some(self.last_wanted_seed.load(Ordering::Relaxed)).filter(|seed| *seed != u64::MAX)
    }

    /// A crash more.
    pub fn count_crash(&self) {
        self.crashes.fetch_add(1, Ordering::Relaxed);
    }

    /// So many writes more were checked.
    pub fn count_checked(&self, writes: u64) {
        self.writes_checked.fetch_add(writes, Ordering::Relaxed);
    }

    /// A seed more is done.
    pub fn count_seed(&self) {
        self.seeds_done.fetch_add(1, Ordering::Relaxed);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "real time ends a search and decides nothing else"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a limit of real time ends what is under way, and can be taken back. Method: limits of nothing and of an hour.
    #[test]
    fn a_limit_ends_and_can_be_taken_back() {
        let control = Control::default();
        assert_eq!(control.stopped(), None);
        control.end_after(Duration::ZERO);
        assert_eq!(control.stopped(), Some(Stop::TimeOver));
        control.end_after(Duration::from_secs(3_600));
        assert_eq!(control.stopped(), None);
        control.end_after(Duration::ZERO);
        control.never_end();
        assert_eq!(control.stopped(), None);
        control.stop(Stop::Interrupted);
        assert_eq!(control.stopped(), Some(Stop::Interrupted));
    }
}
