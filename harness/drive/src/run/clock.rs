//! When the plug is pulled and how: all of it drawn from the crash stream of the seed.

use kvsim_simdisk::CrashKind;
use kvsim_simdisk::rng::{Purpose, Rng};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use kvsim_scenario::{CrashClock, RunConfig};

/// Keeps the driver's draws apart from those of the device, which has the same seed.
const LABEL: &[u8] = b"when the plug is pulled";

/// Keeps the draws of work before a reading back apart from all others.
const WORK_LABEL: &[u8] = b"work before a recovery is read back";

/// Keeps what crashes in recoveries wait for apart from all others.
const RECOVERY_LABEL: &[u8] = b"what a crash in a recovery waits for";

/// A crash that waits for something pending lets so many events pass at most at which there is: past the write, into the flush.
const PENDING_EVENTS_MAX: u64 = 10;

/// When an opening is crashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CrashInOpening {
    /// Not before so many events.
    pub(super) after_events: u64,
    /// After so many events more at which something is pending; 0: it does not wait for any.
    pub(super) seek_pending: u64,
}

/// Draws moments and kinds of crashes.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    rng: Rng,
    work: Rng,
    recovery: Rng,
    config: RunConfig,
}

impl Clock {
    pub(super) fn new(seed: u64, config: &RunConfig) -> Clock {
        Clock {
            rng: Rng::new(xxh3_64_with_seed(LABEL, seed), Purpose::Crash),
            work: Rng::new(xxh3_64_with_seed(WORK_LABEL, seed), Purpose::Crash),
            recovery: Rng::new(xxh3_64_with_seed(RECOVERY_LABEL, seed), Purpose::Crash),
            config: config.clone(),
        }
    }

    /// World events until the next crash, at least 1.
    pub(super) fn events_until_crash(&mut self) -> u64 {
        let mean = self.config.events_per_crash;
        match self.config.crash_clock {
            CrashClock::Fixed => mean,
            CrashClock::Uniform => self.rng.range(1, (2 * mean).saturating_sub(1).max(1)),
            CrashClock::Geometric => geometric(&mut self.rng, mean),
        }
    }

    /// When a recovery is crashed, if it is to be; `usual` is how many events the last one took.
    pub(super) fn crash_in_recovery(&mut self, depth: u32, usual: u64) -> Option<CrashInOpening> {
        let wanted = self.rng.chance(self.config.crash_in_recovery);
        // The same draws in any case, so that the depth does not move what comes later.
        let crash = CrashInOpening {
            after_events: 1 + self.rng.below(usual.max(1) + usual / 4),
            seek_pending: seek_pending(&mut self.recovery, self.config.seek_pending),
        };
        (wanted && depth < self.config.recovery_crash_depth).then_some(crash)
    }

    /// Whether a crash is to wait for something pending, and if so through how many events with something pending: 0 for no.
    pub(super) fn seek_pending(&mut self) -> u64 {
        seek_pending(&mut self.rng, self.config.seek_pending)
    }

    /// The same of a creation. It is drawn apart, and not at all where none is to be crashed, so that nothing else moves.
    pub(super) fn crash_in_creation(&mut self, depth: u32, usual: u64) -> Option<CrashInOpening> {
        if self.config.crash_in_creation <= 0.0 {
            return None;
        }
        let wanted = self.work.chance(self.config.crash_in_creation);
        let crash = CrashInOpening {
            after_events: 1 + self.work.below(usual.max(1)),
            seek_pending: 1,
        };
        (wanted && depth < self.config.recovery_crash_depth).then_some(crash)
    }

    /// Power or process.
    pub(super) fn kind(&mut self) -> CrashKind {
        let (power, process) = (
            u64::from(self.config.power_weight),
            u64::from(self.config.process_weight),
        );
        match power + process {
            0 => CrashKind::Process,
            sum if self.rng.below(sum) < power => CrashKind::Power,
            _ => CrashKind::Process,
        }
    }

    pub(super) fn close_instead(&mut self) -> bool {
        self.rng.chance(self.config.clean_close)
    }

    /// World events for which clients work before a recovery is read back, if they do.
    pub(super) fn work_before_reading(&mut self) -> Option<u64> {
        let wanted = self.work.chance(self.config.work_before_reading);
        let events = self.work.range(1, self.config.events_per_crash.max(1));
        wanted.then_some(events)
    }

    pub(super) fn recover_twice(&mut self) -> bool {
        self.rng.chance(self.config.recover_twice)
    }
}

fn seek_pending(rng: &mut Rng, probability: f64) -> u64 {
    let wanted = rng.chance(probability);
    let events = rng.range(1, PENDING_EVENTS_MAX);
    if wanted { events } else { 0 }
}

/// Each event is the last with probability 1/mean; cut off at 32 times the mean, which one run in 10^14 reaches.
fn geometric(rng: &mut Rng, mean: u64) -> u64 {
    // ln of a uniform number in (0, 1], by the one implementation that is the same on every machine.
    let uniform = as_unit(rng.next_u64());
    let events = -libm::log(uniform) * crate::tally::as_f64(mean);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and bounded on the next line"
    )]
    let events = events as u64;
    events.min(mean.saturating_mul(32)) + 1
}

#[expect(clippy::cast_precision_loss, reason = "53 bits fit an f64")]
fn as_unit(number: u64) -> f64 {
    ((number >> 11) + 1) as f64 / 9_007_199_254_740_992.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_of(crash_clock: CrashClock) -> u64 {
        let config = RunConfig {
            crash_clock,
            events_per_crash: 500,
            ..RunConfig::default()
        };
        let mut clock = Clock::new(3, &config);
        (0..10_000).map(|_| clock.events_until_crash()).sum::<u64>() / 10_000
    }

    /// Goal: the mean is the one asked for, whatever the distribution. Method: the average of many draws.
    #[test]
    fn the_mean_is_as_asked() {
        assert_eq!(mean_of(CrashClock::Fixed), 500);
        for clock in [CrashClock::Uniform, CrashClock::Geometric] {
            assert!(
                (485..=515).contains(&mean_of(clock)),
                "{clock:?}: {}",
                mean_of(clock)
            );
        }
    }

    #[test]
    fn the_smallest_mean_crashes_after_one_event() {
        let config = RunConfig {
            events_per_crash: 1,
            ..RunConfig::default()
        };
        assert_eq!(Clock::new(1, &config).events_until_crash(), 1);
    }

    #[test]
    fn kinds_follow_their_weights() {
        let config = RunConfig {
            power_weight: 3,
            process_weight: 1,
            ..RunConfig::default()
        };
        let mut clock = Clock::new(1, &config);
        let power = (0..4_000)
            .filter(|_| clock.kind() == CrashKind::Power)
            .count();
        assert!((2_900..=3_100).contains(&power), "{power}");
    }

    #[test]
    fn recoveries_are_crashed_no_deeper_than_asked() {
        let config = RunConfig {
            crash_in_recovery: 1.0,
            recovery_crash_depth: 2,
            ..RunConfig::default()
        };
        let mut clock = Clock::new(1, &config);
        assert!(
            clock
                .crash_in_recovery(1, 40)
                .is_some_and(|crash| (1..=50).contains(&crash.after_events))
        );
        assert_eq!(clock.crash_in_recovery(2, 40), None);
    }

    /// Goal: a crash in a recovery waits for something pending as often as asked, and what it waits for moves no other crash. Method: never and always, and what is drawn
    /// for the clients afterwards.
    #[test]
    fn crashes_in_recoveries_wait_as_asked() {
        let clock = |seek_pending| {
            let config = RunConfig {
                crash_in_recovery: 1.0,
                recovery_crash_depth: 1,
                seek_pending,
                ..RunConfig::default()
            };
            Clock::new(1, &config)
        };
        let (mut never, mut always) = (clock(0.0), clock(1.0));
        for _ in 0..100 {
            let [one, other] =
                [&mut never, &mut always].map(|it| it.crash_in_recovery(0, 40).expect("wanted"));
            assert_eq!(one.after_events, other.after_events);
            assert_eq!(one.seek_pending, 0);
            assert!((1..=PENDING_EVENTS_MAX).contains(&other.seek_pending));
        }
        assert_eq!(never.events_until_crash(), always.events_until_crash());
    }

    /// Goal: creations are crashed no deeper than asked, and where none is to be crashed nothing else moves. Method: draws at both depths, and what
    /// is drawn from the same stream afterwards.
    #[test]
    fn creations_are_crashed_as_asked() {
        let config = |crash_in_creation| RunConfig {
            crash_in_creation,
            recovery_crash_depth: 2,
            work_before_reading: 1.0,
            ..RunConfig::default()
        };
        let mut clock = Clock::new(1, &config(1.0));
        let crash = clock.crash_in_creation(1, 40);
        assert!(crash.is_some_and(|crash| (1..=40).contains(&crash.after_events)));
        assert_eq!(clock.crash_in_creation(2, 40), None);
        let (mut one, mut other) = (Clock::new(1, &config(0.0)), Clock::new(1, &config(0.0)));
        assert_eq!(one.crash_in_creation(0, 40), None);
        assert_eq!(one.work_before_reading(), other.work_before_reading());
    }
}
