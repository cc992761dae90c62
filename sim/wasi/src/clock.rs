//! What a guest can learn of time and chance: a virtual clock and seeded random numbers, and a record of what it was told.
//!
//! Invariants: no clock goes back; the monotonic clock begins at the same value in each process run; every value that the guest was told enters
//! the hash of [`Told`].

use kvsim_crash::Nanos;
use kvsim_crash::rng::{Purpose, Rng};
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

/// Each process run begins a day of the real-time clock after the one before.
const DAY_NS: u64 = 86_400_000_000_000;

/// What a call of the file system and a sync take by the guest's clock.
const CALL_NS: Nanos = 1_000;
pub(crate) const SYNC_NS: Nanos = 500_000;

/// The world's time is shown to a guest once it is so far ahead, beside what idle calls show.
const LAG_NS: Nanos = 1_000_000_000;

/// The clocks of one process run.
///
/// They follow from the number of the process run and from what the guest does in it: its fuel, its calls, its sleeps. What a device takes for
/// an operation, which is drawn at random, does not move them. So two recoveries that read the same are also told the same time, at whatever
/// moment the crash came. The world's time catches up in idle calls, and when it is a second ahead; from then on the clocks depend on the world.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    /// The number of the process run, from 0.
    run: u64,
    /// What the monotonic clock showed when the process run began: the time that starting takes.
    started_at: Nanos,
    /// The world's time at the first call.
    opened_at: Option<Nanos>,
    /// What calls and sleeps have taken in this process run, by the guest's clock.
    passed: Nanos,
    /// What the world's time has added.
    caught_up: Nanos,
    /// Fuel of the calls before this one and of this one.
    fuel_before: u64,
    fuel_in_call: u64,
    /// What the file system and sleeping have taken of this call, by the world's time.
    elapsed: Nanos,
}

impl Clock {
    pub(crate) fn new(run: u64, started_at: Nanos) -> Clock {
        Clock {
            run,
            started_at,
            opened_at: None,
            passed: 0,
            caught_up: 0,
            fuel_before: 0,
            fuel_in_call: 0,
            elapsed: 0,
        }
    }

    /// A call begins, at this time of the world.
    pub(crate) fn begin_call(&mut self, now: Nanos, is_idle: bool) {
        let opened_at = *self.opened_at.get_or_insert(now);
        self.elapsed = 0;
        self.fuel_before += std::mem::take(&mut self.fuel_in_call);
        let ahead = now.saturating_sub(opened_at).saturating_sub(self.since());
        if is_idle || ahead >= LAG_NS {
            self.caught_up = self.caught_up.saturating_add(ahead);
        }
    }

    /// The file system has taken this time of the world.
    pub(crate) fn pass(&mut self, ns: Nanos) {
        self.elapsed = self.elapsed.saturating_add(ns);
    }

    /// The guest sleeps.
    pub(crate) fn sleep(&mut self, ns: Nanos) {
        self.elapsed = self.elapsed.saturating_add(ns);
        self.passed = self.passed.saturating_add(ns);
    }

    /// The guest calls the file system.
    pub(crate) fn count_call(&mut self) {
        self.passed = self.passed.saturating_add(CALL_NS);
    }

    /// The guest syncs something.
    pub(crate) fn count_sync(&mut self) {
        self.passed = self.passed.saturating_add(SYNC_NS);
    }

    /// Says how much fuel the call has used until now.
    pub(crate) fn set_fuel(&mut self, used: u64) {
        self.fuel_in_call = used;
    }

    /// What the call has taken so far of the world's time, without its fuel.
    pub(crate) fn elapsed(&self) -> Nanos {
        self.elapsed
    }

    /// Whether the clocks depend on the world's time.
    pub(crate) fn follows_world(&self) -> bool {
        self.caught_up > 0
    }

    fn processor_time(&self) -> Nanos {
        self.fuel_before
            .saturating_add(self.fuel_in_call)
            .saturating_mul(FUEL_PS)
            / 1_000
    }

    /// Time since the process run began.
    fn since(&self) -> Nanos {
        let waited = self.passed.saturating_add(self.caught_up);
        waited.saturating_add(self.processor_time())
    }

    /// The time that files are stamped with: that of the real-time clock.
    pub(crate) fn files_now(&self) -> Nanos {
        self.read(ClockId::RealTime)
    }

    /// What a clock shows.
    pub(crate) fn read(&self, clock: ClockId) -> Nanos {
        let monotonic = self.started_at.saturating_add(self.since());
        match clock {
            ClockId::RealTime => EPOCH_NS
                .saturating_add(self.run.saturating_mul(DAY_NS))
                .saturating_add(monotonic),
            ClockId::Monotonic => monotonic,
            ClockId::ProcessorTime => self.processor_time(),
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
    /// How many of these reads depended on the world's time. The others follow from the number of the process run and what it had done.
    pub world_time_reads: u64,
    /// How many random bytes it was given. They follow from the seed and the number of the process run.
    pub random_bytes: u64,
    /// A hash of all these values, in order. 0 if there were none.
    pub hash: u128,
    /// How often it was told times of a file that are not 0. They count apart: hardly an engine that asks for a file's size looks at them.
    pub file_time_reads: u64,
}

impl Told {
    pub(crate) fn clock(&mut self, clock: ClockId, value: Nanos, follows_world: bool) {
        if clock == ClockId::RealTime {
            self.real_time_reads += 1;
        } else {
            self.clock_reads += 1;
        }
        self.world_time_reads += u64::from(follows_world);
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

    const ALL: [ClockId; 3] = [
        ClockId::RealTime,
        ClockId::Monotonic,
        ClockId::ProcessorTime,
    ];

    /// Goal: a guest that waits for time to pass gets out of its loop. Method: fuel alone moves each clock.
    #[test]
    fn work_moves_the_clocks() {
        let mut clock = Clock::new(0, 500);
        clock.begin_call(1_000, false);
        let (wall, steady) = (
            clock.read(ClockId::RealTime),
            clock.read(ClockId::Monotonic),
        );
        assert_eq!((wall, steady), (EPOCH_NS + 500, 500));
        clock.set_fuel(4_000);
        assert_eq!(clock.read(ClockId::RealTime), wall + 1_000);
        assert_eq!(clock.read(ClockId::Monotonic), steady + 1_000);
        assert_eq!(clock.read(ClockId::ProcessorTime), 1_000);
    }

    /// Goal: the clocks do not tell when a process run began, nor what a device took, until the world is far ahead; and then they follow it.
    /// Method: two process runs at different times with different delays; then an idle call; then a long pause.
    #[test]
    fn clocks_follow_the_work_and_catch_up_with_the_world() {
        let shown = |opened: Nanos, device: Nanos| {
            let mut clock = Clock::new(1, 0);
            clock.begin_call(opened, false);
            clock.set_fuel(1 << 20);
            clock.pass(device);
            clock.count_sync();
            clock.begin_call(opened + device + 50, false);
            (ALL.map(|id| clock.read(id)), clock.follows_world(), clock)
        };
        let (one, other) = (shown(10, 3_000_000), shown(999_999, 77));
        assert_eq!((one.0, one.1), (other.0, other.1));
        assert!(!one.1);
        let mut clock = one.2;
        clock.begin_call(10 + 9_000_000, true);
        assert_eq!(clock.read(ClockId::Monotonic), 9_000_000);
        assert!(clock.follows_world());
        clock.begin_call(10 + 19_000_000, false);
        assert_eq!(clock.read(ClockId::Monotonic), 9_000_000);
        clock.begin_call(10 + 5_000_000_000, false);
        assert_eq!(clock.read(ClockId::Monotonic), 5_000_000_000);
    }

    /// Goal: each process run begins later by the real-time clock than any before. Method: the last moment of one and the first of the next.
    #[test]
    fn the_next_process_run_begins_later() {
        let mut clock = Clock::new(3, 0);
        clock.begin_call(0, false);
        clock.begin_call(3_600_000_000_000, true);
        assert!(clock.read(ClockId::RealTime) < Clock::new(4, 0).read(ClockId::RealTime));
    }

    /// Goal: the hash tells apart what was told in another order or in other pieces. Method: two values, swapped.
    #[test]
    fn what_was_told_has_an_order() {
        let told = |values: &[u64]| {
            let mut told = Told::default();
            values
                .iter()
                .for_each(|&value| told.clock(ClockId::Monotonic, value, false));
            told.hash
        };
        assert_ne!(told(&[1, 2]), told(&[2, 1]));
        assert_ne!(told(&[1]), told(&[1, 1]));
        assert_eq!(told(&[]), 0);
    }
}
