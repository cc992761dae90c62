//! The strings by which a campaign is watched and stopped from outside. Nothing here reaches a decision of a run: a seed is
//! either finished, and then as if nobody had looked, or cut short and left out.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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

    /// Whether and why it was stopped; an interruption counts more.
    #[must_use]
    pub fn stopped(&self) -> Option<Stop> {
        if self.interrupted.load(Ordering::Relaxed) {
            Some(Stop::Interrupted)
        } else {
            self.time_over
                .load(Ordering::Relaxed)
                .then_some(Stop::TimeOver)
        }
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
    pub(crate) fn wants(&self, seed: u64) -> bool {
        self.stopped().is_none() && seed <= self.last_wanted_seed.load(Ordering::Relaxed)
    }

    /// A seed failed: those after it need not go on, since the first one by number is reported.
    pub(crate) fn failed(&self, seed: u64) {
        self.last_wanted_seed.fetch_min(seed, Ordering::Relaxed);
    }

    /// The first seed known to have failed.
    pub(crate) fn first_failed(&self) -> Option<u64> {
        Some(self.last_wanted_seed.load(Ordering::Relaxed)).filter(|seed| *seed != u64::MAX)
    }

    pub(crate) fn count_crash(&self) {
        self.crashes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_checked(&self, writes: u64) {
        self.writes_checked.fetch_add(writes, Ordering::Relaxed);
    }

    pub(crate) fn count_seed(&self) {
        self.seeds_done.fetch_add(1, Ordering::Relaxed);
    }
}
