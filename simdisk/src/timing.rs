//! When an operation completes: a few parallel slots, a transfer over a shared path, a sampled latency, and one flush at a time
//! if so asked.
//!
//! An operation starts when a slot is free and no stall is on. Its beginning and its bytes then take the path that all reads, or
//! all writes, share, one after the other; after that it takes its latency, of which a part may grow with its size.
//!
//! Invariant: all arithmetic is on integers, so a completion time is the same on every machine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

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
    /// How many slots there are.
    slots: usize,
    /// When each slot that was used since the last power cut is free again.
    used: BinaryHeap<Reverse<Nanos>>,
    /// When all others are free: never after any of those.
    unused_free_at: Nanos,
    flush_free_at: Nanos,
    /// When the path of reads, and that of writes, is free again.
    path_free_at: [Nanos; 2],
    stalled_until: Nanos,
    last_completion_at: Nanos,
}

impl Timing {
    pub(crate) fn new(config: &TimingConfig, queue_depth: u32, seed: u64) -> Self {
        Timing {
            config: config.clone(),
            seed,
            slots: queue_depth as usize,
            used: BinaryHeap::new(),
            unused_free_at: 0,
            flush_free_at: 0,
            path_free_at: [0; 2],
            stalled_until: 0,
            last_completion_at: 0,
        }
    }

    /// After a power cut nothing is under way any more.
    pub(crate) fn reset(&mut self, now: Nanos) {
        self.used.clear();
        self.unused_free_at = now;
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
        let Course {
            latency,
            bytes_per_second,
            per_second,
            ns_per_kib,
            path,
        } = course(timing, kind);
        let drawn = draw(self.seed, Purpose::Latency, LATENCY, op, 0);
        let latency_ns = sample(latency, drawn) + by_size(len_bytes, ns_per_kib);
        let is_full = self.used.len() >= self.slots;
        let taken = is_full.then(|| self.used.pop()).flatten();
        let free_at = taken.map_or(self.unused_free_at, |Reverse(free_at)| free_at);
        let mut start = now.max(free_at).max(self.stalled_until);
        if let Some(stall_ns) = stall_ns {
            start += stall_ns;
            self.stalled_until = start;
        }
        if bytes_per_second != 0 || per_second != 0 {
            let free_at = &mut self.path_free_at[path];
            let beginning = 1_000_000_000_u64.checked_div(per_second).unwrap_or(0);
            start = start.max(*free_at) + beginning + transfer(len_bytes, bytes_per_second);
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
        self.used.push(Reverse(end));
        self.last_completion_at = self.last_completion_at.max(end);
        end
    }
}

/// What the configuration says of one kind of operation.
struct Course<'a> {
    latency: &'a LatencyConfig,
    bytes_per_second: u64,
    per_second: u64,
    ns_per_kib: u64,
    path: usize,
}

fn course(timing: &TimingConfig, kind: Kind) -> Course<'_> {
    let of_write = |latency, per_second, ns_per_kib| Course {
        latency,
        bytes_per_second: timing.write_bytes_per_second,
        per_second,
        ns_per_kib,
        path: 1,
    };
    let without_bytes = |latency| Course {
        latency,
        bytes_per_second: 0,
        per_second: 0,
        ns_per_kib: 0,
        path: 1,
    };
    match kind {
        Kind::Read => Course {
            latency: &timing.read,
            bytes_per_second: timing.read_bytes_per_second,
            per_second: timing.reads_per_second,
            ns_per_kib: timing.read_ns_per_kib,
            path: 0,
        },
        Kind::Write => of_write(
            &timing.write,
            timing.writes_per_second,
            timing.write_ns_per_kib,
        ),
        Kind::WriteThrough => of_write(
            &timing.write_through,
            timing.write_throughs_per_second,
            timing.write_through_ns_per_kib,
        ),
        Kind::Flush => without_bytes(&timing.flush),
        Kind::Discard => without_bytes(&timing.discard),
        Kind::Grow => without_bytes(&timing.grow),
    }
}

fn transfer(len_bytes: u64, bytes_per_second: u64) -> Nanos {
    const NS: u64 = 1_000_000_000;
    // No operation is so long, but a division of 128 bits would cost as much as all the rest here.
    if let Some(product) = len_bytes.checked_mul(NS) {
        return product.checked_div(bytes_per_second).unwrap_or(0);
    }
    let product = u128::from(len_bytes) * u128::from(NS);
    let ns = product.checked_div(u128::from(bytes_per_second));
    u64::try_from(ns.unwrap_or(0)).unwrap_or(u64::MAX / 4)
}

fn by_size(len_bytes: u64, ns_per_kib: u64) -> Nanos {
    let ns = u128::from(len_bytes) * u128::from(ns_per_kib) / 1024;
    u64::try_from(ns).unwrap_or(u64::MAX / 4)
}

/// The latency at a uniformly drawn rank.
fn sample(latency: &LatencyConfig, number: u64) -> Nanos {
    latency.at(scale(number, 1_000_000))
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
            means_ns: None,
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

    /// Goal: a device that begins few operations a second is held to that, and size costs what it is said to cost. Method: constant
    /// latencies, many slots, one limit at a time.
    #[test]
    fn beginnings_are_limited_and_size_takes_time() {
        let config = TimingConfig {
            write_through: LatencyConfig::fixed(100),
            write_bytes_per_second: 0,
            write_throughs_per_second: 1_000_000,
            write_through_ns_per_kib: 10,
            ..TimingConfig::default()
        };
        let mut timing = Timing::new(&config, 8, 1);
        let mut write = |op, kib: u64| timing.schedule(0, op, Kind::WriteThrough, kib << 10, None);
        assert_eq!(
            [write(0, 0), write(1, 4), write(2, 8)],
            [1_100, 2_140, 3_180]
        );
    }

    /// Goal: a measured latency is drawn as it was measured, its mean included, however its tail looks. Method: samples of which
    /// one in fifty is forty times as long as the others, which six points cannot say.
    #[test]
    fn a_measured_latency_keeps_its_mean_and_its_tail() {
        let mut samples: Vec<u64> = (0..10_000)
            .map(|n| if n % 50 == 0 { 4_000_000 } else { 90_000 + n })
            .collect();
        let mean = |all: &[u64]| all.iter().sum::<u64>() / all.len() as u64;
        let latency = LatencyConfig::measured(&mut samples);
        assert!(latency.is_sound());
        let drawn: Vec<u64> = (0..100_000)
            .map(|op| sample(&latency, draw(3, Purpose::Latency, 0, op, 0)))
            .collect();
        let (real, ours) = (mean(&samples), mean(&drawn));
        assert!(ours.abs_diff(real) < real / 20, "{ours} for {real}");
        let long = drawn.iter().filter(|ns| **ns > 3_000_000).count();
        assert!((1_700..2_300).contains(&long), "{long} of 2,000");
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
            means_ns: None,
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
