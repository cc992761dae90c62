//! When an operation completes: a few parallel slots, a sampled latency, a transfer, and one flush at a time if so asked.
//!
//! Invariant: all arithmetic is on integers, so a completion time is the same on every machine.

use crate::rng::{Purpose, draw, happens, scale};
use crate::{LatencyConfig, Nanos, TimingConfig};

const LATENCY: u64 = 0;
const STALL: u64 = 1;

/// What kind of operation is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    WriteThrough,
    Flush,
    Discard,
    Grow,
}

/// The device's own schedule.
#[derive(Debug, Clone)]
pub(crate) struct Timing {
    config: TimingConfig,
    seed: u64,
    /// When each slot is free again.
    slots: Vec<Nanos>,
    flush_free_at: Nanos,
    last_completion_at: Nanos,
}

impl Timing {
    pub(crate) fn new(config: &TimingConfig, queue_depth: u32, seed: u64) -> Self {
        let slots = vec![0; queue_depth as usize];
        Timing {
            config: config.clone(),
            seed,
            slots,
            flush_free_at: 0,
            last_completion_at: 0,
        }
    }

    /// After a power cut nothing is under way any more.
    pub(crate) fn reset(&mut self, now: Nanos) {
        self.slots.fill(now);
        self.flush_free_at = now;
        self.last_completion_at = now;
    }

    /// When operation number `op`, submitted `now`, completes; and whether it stalled.
    pub(crate) fn schedule(
        &mut self,
        now: Nanos,
        op: u64,
        kind: Kind,
        len_bytes: u64,
    ) -> (Nanos, bool) {
        let timing = &self.config;
        let (latency, rate) = match kind {
            Kind::Read => (&timing.read, timing.read_bytes_per_second),
            Kind::Write => (&timing.write, timing.write_bytes_per_second),
            Kind::WriteThrough => (&timing.write_through, timing.write_bytes_per_second),
            Kind::Flush => (&timing.flush, 0),
            Kind::Discard => (&timing.discard, 0),
            Kind::Grow => (&timing.grow, 0),
        };
        let mut duration = sample(latency, draw(self.seed, Purpose::Latency, LATENCY, op, 0))
            + transfer(len_bytes, rate);
        let stalled = happens(
            draw(self.seed, Purpose::Latency, STALL, op, 0),
            timing.stall,
        );
        if stalled {
            duration += timing.stall_ns;
        }
        let slot = self
            .slots
            .iter_mut()
            .min()
            .expect("a queue has at least one slot");
        let mut start = now.max(*slot);
        if kind == Kind::Flush && timing.serial_flush {
            start = start.max(self.flush_free_at);
            self.flush_free_at = start + duration;
        }
        let mut end = start + duration;
        if timing.in_order {
            end = end.max(self.last_completion_at);
        }
        *slot = end;
        self.last_completion_at = self.last_completion_at.max(end);
        (end, stalled)
    }
}

fn transfer(len_bytes: u64, bytes_per_second: u64) -> Nanos {
    if bytes_per_second == 0 {
        return 0;
    }
    let ns = u128::from(len_bytes) * 1_000_000_000 / u128::from(bytes_per_second);
    u64::try_from(ns).unwrap_or(u64::MAX / 4)
}

/// The latency at a uniformly drawn rank.
fn sample(latency: &LatencyConfig, number: u64) -> Nanos {
    const SCALE: u64 = 1_000_000;
    const RANKS: [u64; 6] = [0, 500_000, 900_000, 990_000, 999_000, SCALE];
    let rank = scale(number, SCALE);
    let points = latency.points();
    let upper = RANKS
        .iter()
        .position(|&edge| rank < edge)
        .expect("a rank is below the scale");
    let (low, high) = (points[upper - 1], points[upper]);
    let (from, to) = (RANKS[upper - 1], RANKS[upper]);
    let part = u128::from(high - low) * u128::from(rank - from) / u128::from(to - from);
    low + u64::try_from(part).expect("a part of a u64")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_follow_the_quantiles() {
        let latency = LatencyConfig {
            min_ns: 10,
            p50_ns: 20,
            p90_ns: 40,
            p99_ns: 100,
            p999_ns: 1000,
            max_ns: 5000,
        };
        let mut drawn: Vec<_> = (0..100_000)
            .map(|op| sample(&latency, draw(3, Purpose::Latency, 0, op, 0)))
            .collect();
        drawn.sort_unstable();
        let at = |rank: usize| drawn[rank];
        assert!(
            (19..=21).contains(&at(50_000)) && (38..=42).contains(&at(90_000)),
            "{} {}",
            at(50_000),
            at(90_000)
        );
        assert!(
            (95..=110).contains(&at(99_000)) && (850..=1400).contains(&at(99_900)),
            "{} {}",
            at(99_000),
            at(99_900)
        );
        assert!(drawn[0] >= 10 && drawn[99_999] <= 5000);
    }

    #[test]
    fn a_full_queue_waits_and_serial_flushes_follow_each_other() {
        let fixed = LatencyConfig::fixed(100);
        let config = TimingConfig {
            write: fixed,
            flush: fixed,
            write_bytes_per_second: 0,
            serial_flush: true,
            ..TimingConfig::default()
        };
        let mut timing = Timing::new(&config, 2, 1);
        let mut write = |op| timing.schedule(0, op, Kind::Write, 0).0;
        assert_eq!(
            [write(0), write(1), write(2), write(3), write(4)],
            [100, 100, 200, 200, 300]
        );
        let mut timing = Timing::new(&config, 8, 1);
        let mut flush = |op| timing.schedule(0, op, Kind::Flush, 0).0;
        assert_eq!([flush(0), flush(1), flush(2)], [100, 200, 300]);
    }

    #[test]
    fn transfers_and_stalls_add_up() {
        let config = TimingConfig {
            read: LatencyConfig::fixed(100),
            read_bytes_per_second: 1_000_000_000,
            stall: 1.0,
            stall_ns: 7,
            ..TimingConfig::default()
        };
        assert_eq!(
            Timing::new(&config, 1, 1).schedule(10, 0, Kind::Read, 4096),
            (10 + 100 + 4096 + 7, true)
        );
    }
}
