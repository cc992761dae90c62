//! When an operation completes: a few parallel slots, a transfer over a shared path, a sampled latency, and one flush at a time
//! if so asked.
//!
//! An operation starts when a slot is free and no stall is on. Its bytes then go over the path that all reads, or all writes,
//! share, one after the other; after that it takes its latency.
//!
//! Invariant: all arithmetic is on integers, so a completion time is the same on every machine.

use crate::rng::{Purpose, draw, scale};
use crate::{LatencyConfig, Nanos, TimingConfig};

const LATENCY: u64 = 0;

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
    /// When the path of reads, and that of writes, is free again.
    path_free_at: [Nanos; 2],
    stalled_until: Nanos,
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
            path_free_at: [0; 2],
            stalled_until: 0,
            last_completion_at: 0,
        }
    }

    /// After a power cut nothing is under way any more.
    pub(crate) fn reset(&mut self, now: Nanos) {
        self.slots.fill(now);
        self.flush_free_at = now;
        self.path_free_at = [now; 2];
        self.stalled_until = now;
        self.last_completion_at = now;
    }

    /// When operation number `op`, submitted `now`, completes. `stall_ns`: a stall of the whole device begins with it.
    pub(crate) fn schedule(
        &mut self,
        now: Nanos,
        op: u64,
        kind: Kind,
        len_bytes: u64,
        stall_ns: Option<Nanos>,
    ) -> Nanos {
        let timing = &self.config;
        let (latency, rate, path) = match kind {
            Kind::Read => (&timing.read, timing.read_bytes_per_second, 0),
            Kind::Write => (&timing.write, timing.write_bytes_per_second, 1),
            Kind::WriteThrough => (&timing.write_through, timing.write_bytes_per_second, 1),
            Kind::Flush => (&timing.flush, 0, 1),
            Kind::Discard => (&timing.discard, 0, 1),
            Kind::Grow => (&timing.grow, 0, 1),
        };
        let latency_ns = sample(latency, draw(self.seed, Purpose::Latency, LATENCY, op, 0));
        let slot = self
            .slots
            .iter_mut()
            .min()
            .expect("a queue has at least one slot");
        let mut start = now.max(*slot).max(self.stalled_until);
        if let Some(stall_ns) = stall_ns {
            start += stall_ns;
            self.stalled_until = start;
        }
        if rate != 0 {
            let free_at = &mut self.path_free_at[path];
            start = start.max(*free_at) + transfer(len_bytes, rate);
            *free_at = start;
        }
        if kind == Kind::Flush && timing.serial_flush {
            start = start.max(self.flush_free_at);
            self.flush_free_at = start + latency_ns;
        }
        let mut end = start + latency_ns;
        if timing.in_order {
            end = end.max(self.last_completion_at);
        }
        *slot = end;
        self.last_completion_at = self.last_completion_at.max(end);
        end
    }
}

fn transfer(len_bytes: u64, bytes_per_second: u64) -> Nanos {
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
        let mut write = |op| timing.schedule(0, op, Kind::Write, 0, None);
        assert_eq!(
            [write(0), write(1), write(2), write(3), write(4)],
            [100, 100, 200, 200, 300]
        );
        let mut timing = Timing::new(&config, 8, 1);
        let mut flush = |op| timing.schedule(0, op, Kind::Flush, 0, None);
        assert_eq!([flush(0), flush(1), flush(2)], [100, 200, 300]);
    }

    /// Goal: bandwidth is shared, and a stall holds up everything. Method: constant latencies, many slots.
    #[test]
    fn transfers_follow_each_other_and_a_stall_holds_all_up() {
        let config = TimingConfig {
            read: LatencyConfig::fixed(100),
            read_bytes_per_second: 1_000_000_000,
            ..TimingConfig::default()
        };
        let mut timing = Timing::new(&config, 8, 1);
        assert_eq!(
            timing.schedule(10, 0, Kind::Read, 4096, None),
            10 + 4096 + 100
        );
        assert_eq!(
            timing.schedule(10, 1, Kind::Read, 4096, None),
            10 + 2 * 4096 + 100
        );
        assert_eq!(
            timing.schedule(100_000, 2, Kind::Read, 0, Some(7_000)),
            107_100
        );
        assert_eq!(timing.schedule(100_001, 3, Kind::Read, 0, None), 107_100);
        timing.reset(50);
        assert_eq!(timing.schedule(50, 4, Kind::Read, 1000, None), 1150);
    }

    /// Goal: completions keep the order of submission where asked. Method: latencies that vary by a factor of 500.
    #[test]
    fn completions_overtake_each_other_unless_in_order() {
        let latency = LatencyConfig {
            min_ns: 10,
            p50_ns: 1000,
            p90_ns: 3000,
            p99_ns: 4000,
            p999_ns: 5000,
            max_ns: 5000,
        };
        let ends = |in_order| {
            let config = TimingConfig {
                write: latency,
                in_order,
                ..TimingConfig::default()
            };
            let mut timing = Timing::new(&config, 32, 5);
            let ends: Vec<_> = (0..32)
                .map(|op| timing.schedule(0, op, Kind::Write, 0, None))
                .collect();
            ends
        };
        assert!(ends(true).is_sorted() && !ends(false).is_sorted());
    }
}
