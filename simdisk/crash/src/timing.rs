//! `[device.timing]`: how long each kind of operation takes. Profiles fill it.

use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, probability, wrong};

/// A KiB a second.
const NS_PER_KIB_MAX: u64 = 1_000_000_000;
/// No operation takes longer than this.
const LATENCY_NS_MAX: u64 = 1_000_000_000_000;

/// Where the groups of [`LatencyConfig::means_ns`] end, in millionths of all operations.
const GROUP_ENDS: [u64; GROUPS] = [
    100_000, 200_000, 300_000, 400_000, 500_000, 600_000, 700_000, 800_000, 900_000, 950_000,
    980_000, 990_000, 995_000, 998_000, 999_000, 999_500, 999_900, ALL,
];
const GROUPS: usize = 18;
const ALL: u64 = 1_000_000;
/// Where the named quantiles lie.
const NAMED_RANKS: [u64; 6] = [0, 500_000, 900_000, 990_000, 999_000, ALL];

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
    /// A latency that was measured, group by group: the means of the quickest tenth, of the next eight tenths, and of what is
    /// below 95, 98, 99, 99.5, 99.8, 99.9, 99.95, 99.99 and 100 in a hundred. Where it is given it is what is drawn from, and the
    /// quantiles above only describe it: a straight line through a few of them does not keep the mean of a latency with a tail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub means_ns: Option<[u64; GROUPS]>,
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
            means_ns: None,
        }
    }

    /// Takes so much longer each time.
    pub fn delay(&mut self, by_ns: u64) {
        let LatencyConfig {
            min_ns,
            p50_ns,
            p90_ns,
            p99_ns,
            p999_ns,
            max_ns,
            means_ns,
        } = self;
        let named = [min_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns];
        for ns in named.into_iter().chain(means_ns.iter_mut().flatten()) {
            *ns += by_ns;
        }
    }

    /// The latency of these samples, which are sorted here.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn measured(samples: &mut [u64]) -> Self {
        assert!(!samples.is_empty(), "a latency of nothing");
        samples.sort_unstable();
        let count = samples.len() as u64;
        let place = |rank: u64, of: u64| {
            let place = u128::from(of) * u128::from(rank) / u128::from(ALL);
            usize::try_from(place).expect("a place among them")
        };
        let [min_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns] =
            NAMED_RANKS.map(|rank| samples[place(rank, count - 1)]);
        let mut from = 0;
        let means_ns = GROUP_ENDS.map(|rank| {
            let to = place(rank, count);
            // With few samples a group may be empty: then it is as the next one that came.
            let first = from.min(samples.len() - 1);
            let group = &samples[first..to.max(first + 1)];
            from = to;
            let sum: u128 = group.iter().map(|ns| u128::from(*ns)).sum();
            u64::try_from(sum / group.len() as u128).expect("a mean of u64s")
        });
        LatencyConfig {
            min_ns,
            p50_ns,
            p90_ns,
            p99_ns,
            p999_ns,
            max_ns,
            means_ns: Some(means_ns),
        }
    }

    /// The latency at `rank` millionths: that many are below.
    ///
    /// # Panics
    /// If the rank is a million or more.
    #[must_use]
    pub fn at(&self, rank: u64) -> u64 {
        assert!(rank < ALL, "no operation is above all");
        if let Some(means_ns) = &self.means_ns {
            return means_ns[GROUP_ENDS.partition_point(|&end| end <= rank)];
        }
        let points = self.points();
        let upper = NAMED_RANKS.partition_point(|&edge| edge <= rank);
        let (low, high) = (points[upper - 1], points[upper]);
        let (from, to) = (NAMED_RANKS[upper - 1], NAMED_RANKS[upper]);
        let (rise, run) = (high - low, to - from);
        let part = match rise.checked_mul(rank - from) {
            Some(product) => product / run,
            None => u64::try_from(u128::from(rise) * u128::from(rank - from) / u128::from(run))
                .expect("a part of a u64"),
        };
        low + part
    }

    const fn points(&self) -> [u64; 6] {
        [
            self.min_ns,
            self.p50_ns,
            self.p90_ns,
            self.p99_ns,
            self.p999_ns,
            self.max_ns,
        ]
    }

    /// Whether each point is at least the one before, and none is absurd.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let means_rise = self.means_ns.is_none_or(|means| {
            means.is_sorted() && means[0] >= self.min_ns && means[GROUPS - 1] <= self.max_ns
        });
        self.points().is_sorted() && self.max_ns <= LATENCY_NS_MAX && means_rise
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
    /// Reads that the device can begin in a second, whatever their size; 0 for no limit.
    pub reads_per_second: u64,
    /// Writes into the cache that it can begin in a second; 0 for no limit.
    pub writes_per_second: u64,
    /// Writes through the cache that it can begin in a second; 0 for no limit.
    pub write_throughs_per_second: u64,
    /// What each KiB adds to the latency of a read, beside the transfer that all reads share.
    pub read_ns_per_kib: u64,
    /// The same of a write into the cache.
    pub write_ns_per_kib: u64,
    /// The same of a write through the cache.
    pub write_through_ns_per_kib: u64,
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
            means_ns: None,
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
            reads_per_second: 0,
            writes_per_second: 0,
            write_throughs_per_second: 0,
            read_ns_per_kib: 0,
            write_ns_per_kib: 0,
            write_through_ns_per_kib: 0,
            serial_flush: true,
            in_order: false,
            stall: 0.0,
            stall_ns: 50_000_000,
        }
    }
}

impl TimingConfig {
    /// Checks ranges. `table` is the dotted path of the table, for errors.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn validate(&self, table: &str) -> Result<(), ConfigError> {
        let all = [
            ("read", &self.read),
            ("write", &self.write),
            ("write_through", &self.write_through),
            ("flush", &self.flush),
            ("discard", &self.discard),
            ("grow", &self.grow),
        ];
        for (name, latency) in all {
            if !latency.is_sound() {
                let message = "must not fall from min_ns to max_ns, with means_ns in between, nor pass 1000 s";
                return wrong(&format!("{table}.{name}"), message);
            }
        }
        for (name, ns_per_kib) in [
            ("read_ns_per_kib", self.read_ns_per_kib),
            ("write_ns_per_kib", self.write_ns_per_kib),
            ("write_through_ns_per_kib", self.write_through_ns_per_kib),
        ] {
            if ns_per_kib > NS_PER_KIB_MAX {
                return wrong(&format!("{table}.{name}"), "is more than 1 s");
            }
        }
        if self.stall_ns > LATENCY_NS_MAX {
            return wrong(&format!("{table}.stall_ns"), "is more than 1000 s");
        }
        probability(&format!("{table}.stall"), self.stall)
    }
}
