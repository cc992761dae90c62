//! `[device.timing]`: how long each kind of operation takes. Profiles fill it.

use serde::{Deserialize, Serialize};

use super::{ConfigError, probability, wrong};

/// Quantiles of a latency, each at least the one before. Between them it is interpolated linearly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyConfig {
    /// The least.
    pub min_ns: u64,
    /// Half are below.
    pub p50_ns: u64,
    /// Nine of ten are below.
    pub p90_ns: u64,
    /// All but one in a hundred are below.
    pub p99_ns: u64,
    /// All but one in a thousand are below.
    pub p999_ns: u64,
    /// The most.
    pub max_ns: u64,
}

impl LatencyConfig {
    /// A latency that never varies.
    #[must_use]
    pub const fn fixed(ns: u64) -> Self {
        LatencyConfig {
            min_ns: ns,
            p50_ns: ns,
            p90_ns: ns,
            p99_ns: ns,
            p999_ns: ns,
            max_ns: ns,
        }
    }

    pub(crate) const fn points(&self) -> [u64; 6] {
        [
            self.min_ns,
            self.p50_ns,
            self.p90_ns,
            self.p99_ns,
            self.p999_ns,
            self.max_ns,
        ]
    }
}

/// The `[device.timing]` table, which profiles fill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TimingConfig {
    /// A read, beside its transfer.
    pub read: LatencyConfig,
    /// A write into the cache, beside its transfer.
    pub write: LatencyConfig,
    /// A write through the cache, beside its transfer.
    pub write_through: LatencyConfig,
    /// A flush.
    pub flush: LatencyConfig,
    /// A discard.
    pub discard: LatencyConfig,
    /// A growth.
    pub grow: LatencyConfig,
    /// Transfer rate that all reads share; 0 for no limit.
    pub read_bytes_per_second: u64,
    /// Transfer rate that all writes share; 0 for no limit.
    pub write_bytes_per_second: u64,
    /// One flush at a time: the next begins when the last has ended.
    pub serial_flush: bool,
    /// Completions come back in the order of submission.
    pub in_order: bool,
    /// Probability, per operation, that the whole device stalls with it.
    pub stall: f64,
    /// How long a stall is.
    pub stall_ns: u64,
}

impl Default for TimingConfig {
    /// A consumer NVMe drive, roughly.
    fn default() -> Self {
        let latency = |p50_ns: u64| LatencyConfig {
            min_ns: p50_ns * 3 / 4,
            p50_ns,
            p90_ns: p50_ns * 3 / 2,
            p99_ns: p50_ns * 4,
            p999_ns: p50_ns * 10,
            max_ns: p50_ns * 40,
        };
        TimingConfig {
            read: latency(70_000),
            write: latency(20_000),
            write_through: latency(400_000),
            flush: latency(600_000),
            discard: latency(50_000),
            grow: latency(100_000),
            read_bytes_per_second: 3_000_000_000,
            write_bytes_per_second: 2_000_000_000,
            serial_flush: true,
            in_order: false,
            stall: 0.0,
            stall_ns: 50_000_000,
        }
    }
}

impl TimingConfig {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let all = [
            ("read", &self.read),
            ("write", &self.write),
            ("write_through", &self.write_through),
            ("flush", &self.flush),
            ("discard", &self.discard),
            ("grow", &self.grow),
        ];
        for (name, latency) in all {
            if !latency.points().is_sorted() || latency.max_ns > 1_000_000_000_000 {
                let message = "must not fall from min_ns to max_ns, nor pass 1000 s";
                return wrong(&format!("device.timing.{name}"), message);
            }
        }
        if self.stall_ns > 1_000_000_000_000 {
            return wrong("device.timing.stall_ns", "is more than 1000 s");
        }
        probability("device.timing.stall", self.stall)
    }
}
