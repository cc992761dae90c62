//! What a guest can learn of time and chance: a virtual clock and seeded random numbers, and a record of what it was told.
//!
//! Invariants: both clocks never go back within a process run; the monotonic clock begins at the same value in each process run; every
//! value that the guest was told enters the hash of [`Told`].

use kvsim_crash::rng::{Purpose, Rng};
use kvsim_crash::Nanos;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// What the real-time clock shows at virtual time 0, in nanoseconds: the first second of 2026, UTC.
pub const EPOCH_NS: u64 = 1_767_225_600_000_000_000;

/// How far the clock moves within a call for one unit of fuel, in picoseconds. A loop that waits for time to pass ends by this.
const FUEL_PS: u64 = 250;

/// Which clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClockId {
    RealTime,
    Monotonic,
    ProcessorTime,
}

impl ClockId {
    pub(crate) fn of(number: i32) -> Option<ClockId> {
        match number {
            0 => Some(ClockId::RealTime),
            1 => Some(ClockId::Monotonic),
            2 | 3 => Some(ClockId::ProcessorTime),
            _ => None,
        }
    }
}

/// The clocks of one process run.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    /// What the monotonic clock showed when the process run began: the time that starting takes.
    started_at: Nanos,
    /// Virtual time at the first call.
    opened_at: Option<Nanos>,
    /// Virtual time at the start of the call under way.
    now: Nanos,
    /// What the file system and sleeping have taken of this call.
    elapsed: Nanos,
    /// Fuel of the calls before this one and of this one.
    fuel_before: u64,
    fuel_in_call: u64,
    /// No clock goes back: the offset from virtual time that was shown last.
    last: Nanos,
}

impl Clock {
    pub(crate) fn new(started_at: Nanos) -> Clock {
        Clock {
            started_at,
            opened_at: None,
            now: 0,
            elapsed: 0,
            fuel_before: 0,
            fuel_in_call: 0,
            last: 0,
        }
    }

    pub(crate) fn begin_call(&mut self, now: Nanos) {
        self.opened_at.get_or_insert(now);
        self.now = self.now.max(now);
        self.elapsed = 0;
        self.fuel_before += std::mem::take(&mut self.fuel_in_call);
    }

    /// Lets time pass within the call.
    pub(crate) fn pass(&mut self, ns: Nanos) {
        self.elapsed = self.elapsed.saturating_add(ns);
    }

    /// Says how much fuel the call has used until now.
    pub(crate) fn set_fuel(&mut self, used: u64) {
        self.fuel_in_call = used;
    }

    /// What the call has taken so far without its fuel.
    pub(crate) fn elapsed(&self) -> Nanos {
        self.elapsed
    }

    /// The virtual time of the call under way, as it passes.
    fn virtual_now(&mut self) -> Nanos {
        let worked = self.fuel_in_call.saturating_mul(FUEL_PS) / 1_000;
        let now = self.now.saturating_add(self.elapsed).saturating_add(worked);
        self.last = self.last.max(now);
        self.last
    }

    /// The time that files are stamped with: that of the real-time clock.
    pub(crate) fn files_now(&mut self) -> Nanos {
        self.read(ClockId::RealTime)
    }

    /// What a clock shows.
    pub(crate) fn read(&mut self, clock: ClockId) -> Nanos {
        let now = self.virtual_now();
        match clock {
            ClockId::RealTime => EPOCH_NS.saturating_add(self.started_at).saturating_add(now),
            ClockId::Monotonic => {
                let since = now - self.opened_at.unwrap_or(0).min(now);
                self.started_at.saturating_add(since)
            }
            ClockId::ProcessorTime => {
                let fuel = self.fuel_before.saturating_add(self.fuel_in_call);
                fuel.saturating_mul(FUEL_PS) / 1_000
            }
        }
    }
}

/// What a process run was told of time and chance. Two recoveries that read the same and were told the same do the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Told {
    /// How often it read the real-time clock.
    pub real_time_reads: u64,
    /// How often it read another clock.
    pub clock_reads: u64,
    /// How many random bytes it was given.
    pub random_bytes: u64,
    /// A hash of all these values, in order. 0 if there were none.
    pub hash: u128,
    /// How often it was told times of a file that are not 0. They count apart: hardly an engine that asks for a file's size looks at them.
    pub file_time_reads: u64,
}

impl Told {
    /// Whether it was told a time or a random number, those of files aside.
    #[must_use]
    pub fn is_anything(&self) -> bool {
        self.real_time_reads + self.clock_reads + self.random_bytes > 0
    }

    pub(crate) fn clock(&mut self, clock: ClockId, value: Nanos) {
        if clock == ClockId::RealTime {
            self.real_time_reads += 1;
        } else {
            self.clock_reads += 1;
        }
        self.add(&value.to_le_bytes());
    }

    pub(crate) fn random(&mut self, bytes: &[u8]) {
        self.random_bytes += bytes.len() as u64;
        self.add(bytes);
    }

    fn add(&mut self, bytes: &[u8]) {
        let before = self.hash.to_le_bytes();
        let (low, high) = before.split_at(8);
        let number = |half: &[u8]| u64::from_le_bytes(half.try_into().expect("eight bytes"));
        self.hash = xxh3_128_with_seed(bytes, number(low) ^ number(high).rotate_left(32));
    }
}

/// The random numbers of one process run.
pub(crate) struct Random(Rng);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(Rng::new(seed, Purpose::Guest))
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a guest that waits for time to pass gets out of its loop. Method: fuel alone moves each clock.
    #[test]
    fn work_moves_the_clocks() {
        let mut clock = Clock::new(500);
        clock.begin_call(1_000);
        let (wall, steady) = (clock.read(ClockId::RealTime), clock.read(ClockId::Monotonic));
        assert_eq!((wall, steady), (EPOCH_NS + 1_500, 500));
        clock.set_fuel(4_000);
        assert_eq!(clock.read(ClockId::RealTime), wall + 1_000);
        assert_eq!(clock.read(ClockId::Monotonic), steady + 1_000);
        assert_eq!(clock.read(ClockId::ProcessorTime), 1_000);
    }

    /// Goal: no clock goes back, also where the world counts less time for a call than the clock has shown in it. Method: a second call
    /// at the time of the first.
    #[test]
    fn no_clock_goes_back() {
        let mut clock = Clock::new(0);
        clock.begin_call(10);
        clock.set_fuel(1 << 20);
        clock.pass(77);
        let before = [ClockId::RealTime, ClockId::Monotonic, ClockId::ProcessorTime].map(|id| clock.read(id));
        clock.begin_call(10);
        let after = [ClockId::RealTime, ClockId::Monotonic, ClockId::ProcessorTime].map(|id| clock.read(id));
        assert_eq!(before, after);
    }

    /// Goal: the hash tells apart what was told in another order or in other pieces. Method: two values, swapped.
    #[test]
    fn what_was_told_has_an_order() {
        let told = |values: &[u64]| {
            let mut told = Told::default();
            values.iter().for_each(|&value| told.clock(ClockId::Monotonic, value));
            told.hash
        };
        assert_ne!(told(&[1, 2]), told(&[2, 1]));
        assert_ne!(told(&[1]), told(&[1, 1]));
        assert_eq!(told(&[]), 0);
    }
}
