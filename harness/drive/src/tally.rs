//! What is counted while a seed runs, and how the counts of many seeds become one.
//!
//! Everything here follows from the seeds alone: no real time, nothing that depends on how many ran side by side.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use kvsim_api::coverage::CoverageCounts;

/// Counts of one seed, or of many added up.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Power cuts, those during recovery included.
    pub power_cuts: u64,
    /// Killed processes, those during recovery included.
    pub process_kills: u64,
    /// Of both, those that fell into a recovery.
    pub crashes_in_recovery: u64,
    /// The most crashes that one device went through.
    #[serde(default)]
    pub crashes_in_a_row: u64,
    /// Process runs closed cleanly.
    pub clean_closes: u64,
    /// Openings that ended well, the first of each device included.
    pub recoveries: u64,
    /// Virtual time from the start of an opening to its answer, in ns, of openings after a crash or a close.
    pub recovery_ns: Times,
    /// Crashed devices that were recovered twice, side by side.
    pub recovered_twice: u64,
    /// Openings refused with a report of damage.
    pub damage_reported: u64,
    /// Openings that met a device error and were tried again.
    pub open_retries: u64,
    /// Openings given up because the device failed each time.
    pub open_failures: u64,
    /// Reports of damage and of device errors, by openings, reads and writes, that a fault explains.
    pub reports_accepted: u64,
    /// Acknowledged durable writes whose loss a lie of the device excuses.
    pub excused_losses: u64,
    /// Recoveries whose search for an explanation was given up: neither legal nor a violation.
    pub undecided: u64,
    /// Recoveries after which clients worked before anything was read back.
    pub read_late: u64,
    /// Devices that had to be given up after damage, a new one taking their place.
    pub devices_replaced: u64,
    /// Operations of clients that were answered, however they ended.
    pub operations: u64,
    /// Operations by how they ended.
    pub by_status: BTreeMap<Cow<'static, str>, u64>,
    /// Writes that were acknowledged, those of the preload included.
    #[serde(default)]
    pub writes_acknowledged: u64,
    /// Crashes that met something to lose: writes that a power cut can take away, or requests without an answer when a process was killed.
    #[serde(default)]
    pub crashes_with_pending: u64,
    /// Acknowledged durable writes that a recovery was checked against.
    pub durable_writes_checked: u64,
    /// Acknowledged relaxed writes that a recovery was checked against.
    pub relaxed_writes_checked: u64,
    /// Gets and scans whose answers were checked.
    pub reads_checked: u64,
    /// World events.
    pub events: u64,
    /// Virtual time of the worlds, in ns.
    pub virtual_ns: u64,
    /// Virtual time in which clients were at work, in ns.
    pub working_ns: u64,
    /// Operations that ended well in that time.
    pub working_operations: u64,
    /// Latency by kind of operation, in virtual ns.
    pub latency: BTreeMap<String, Times>,
    /// Faults by kind: how often there was occasion, how often it happened.
    pub faults: BTreeMap<String, Fired>,
    /// Bytes that clients asked to write, keys and values.
    pub user_bytes_written: u64,
    /// Bytes that the guest wrote to the device.
    pub device_bytes_written: u64,
    /// Flushes that the guest asked of the device.
    pub device_flushes: u64,
    /// How often each coverage point of the guest was reached.
    pub coverage_points: CoverageCounts,
}

/// How often a fault could have happened and how often it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Fired {
    /// The scenario asks for it.
    pub asked: bool,
    /// Occasions.
    pub possible: u64,
    /// Of these, taken.
    pub fired: u64,
}

impl Tally {
    /// Crashes of every kind.
    #[must_use]
    pub fn crashes(&self) -> u64 {
        self.power_cuts + self.process_kills
    }

    /// Acknowledged writes of both kinds that a recovery was checked against.
    #[must_use]
    pub fn writes_checked(&self) -> u64 {
        self.durable_writes_checked + self.relaxed_writes_checked
    }

    /// Why this proves nothing of the guest, if it does not.
    #[must_use]
    pub fn proves_nothing(&self) -> Option<String> {
        if self.writes_acknowledged == 0 {
            return Some("no write was acknowledged, so nothing could be lost".to_owned());
        }
        (self.crashes_with_pending == 0).then(|| {
            format!(
                "none of the {} crashes met a write that it could lose, or a request without an answer",
                self.crashes()
            )
        })
    }

    /// Operations that ended well per second of virtual working time.
    #[must_use]
    pub fn operations_per_second(&self) -> f64 {
        if self.working_ns == 0 {
            0.0
        } else {
            as_f64(self.working_operations) * 1e9 / as_f64(self.working_ns)
        }
    }

    /// Adds the counts of another seed.
    pub fn add(&mut self, other: &Tally) {
        let Tally {
            power_cuts,
            process_kills,
            crashes_in_recovery,
            crashes_in_a_row,
            clean_closes,
            recoveries,
            recovery_ns,
            recovered_twice,
            damage_reported,
            open_retries,
            open_failures,
            reports_accepted,
            excused_losses,
            undecided,
            read_late,
            devices_replaced,
            operations,
            by_status,
            writes_acknowledged,
            crashes_with_pending,
            durable_writes_checked,
            relaxed_writes_checked,
            reads_checked,
            events,
            virtual_ns,
            working_ns,
            working_operations,
            latency,
            faults,
            user_bytes_written,
            device_bytes_written,
            device_flushes,
            coverage_points,
        } = other;
        self.power_cuts += power_cuts;
        self.process_kills += process_kills;
        self.crashes_in_recovery += crashes_in_recovery;
        self.crashes_in_a_row = self.crashes_in_a_row.max(*crashes_in_a_row);
        self.clean_closes += clean_closes;
        self.recoveries += recoveries;
        self.recovery_ns.add(recovery_ns);
        self.recovered_twice += recovered_twice;
        self.damage_reported += damage_reported;
        self.open_retries += open_retries;
        self.open_failures += open_failures;
        self.reports_accepted += reports_accepted;
        self.excused_losses += excused_losses;
        self.writes_acknowledged += writes_acknowledged;
        self.crashes_with_pending += crashes_with_pending;
        self.undecided += undecided;
        self.read_late += read_late;
        self.devices_replaced += devices_replaced;
        self.operations += operations;
        for (status, count) in by_status {
            *self.by_status.entry(status.clone()).or_default() += count;
        }
        self.durable_writes_checked += durable_writes_checked;
        self.relaxed_writes_checked += relaxed_writes_checked;
        self.reads_checked += reads_checked;
        self.events += events;
        self.virtual_ns += virtual_ns;
        self.working_ns += working_ns;
        self.working_operations += working_operations;
        for (kind, times) in latency {
            self.latency.entry(kind.clone()).or_default().add(times);
        }
        for (kind, fired) in faults {
            let sum = self.faults.entry(kind.clone()).or_default();
            sum.asked |= fired.asked;
            sum.possible += fired.possible;
            sum.fired += fired.fired;
        }
        self.user_bytes_written += user_bytes_written;
        self.device_bytes_written += device_bytes_written;
        self.device_flushes += device_flushes;
        self.coverage_points.add_all(coverage_points);
    }
}

/// Spans of virtual time, kept to three significant figures.
#[derive(Debug, Clone)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        Times(Histogram::new(3).expect("three significant figures are allowed"))
    }
}

impl Serialize for Times {
    /// As pairs of a time and how often it was seen.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let recorded = self.0.iter_recorded();
        serializer.collect_seq(recorded.map(|it| (it.value_iterated_to(), it.count_at_value())))
    }
}

impl<'de> Deserialize<'de> for Times {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Times, D::Error> {
        let mut times = Times::default();
        for (ns, count) in Vec::<(u64, u64)>::deserialize(deserializer)? {
            let recorded = times.0.record_n(ns, count);
            recorded.map_err(serde::de::Error::custom)?;
        }
        Ok(times)
    }
}

impl Times {
    /// Counts one.
    pub fn record(&mut self, ns: u64) {
        self.0.record(ns).expect("it grows to hold any value");
    }

    /// Adds those of another.
    pub fn add(&mut self, other: &Times) {
        if !other.0.is_empty() {
            self.0.add(&other.0).expect("it grows to hold any value");
        }
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The value that the given share, 0.0 to 1.0, does not exceed.
    #[must_use]
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        self.0.value_at_quantile(quantile).min(self.0.max())
    }

    /// The longest.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.0.max()
    }
}

/// A count as a number to divide by; what is lost beyond 2^53 is never seen in a ratio.
#[must_use]
pub fn as_f64(count: u64) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "a ratio for a person, not a decision"
    )]
    {
        count as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adding is independent of how the counts were split: the sum of two seeds counts each once.
    #[test]
    fn counts_of_seeds_add_up() {
        let mut one = Tally {
            power_cuts: 3,
            working_ns: 1_000_000_000,
            working_operations: 100,
            ..Tally::default()
        };
        one.latency
            .entry("put".to_owned())
            .or_default()
            .record(1_000);
        one.by_status.insert("ok".into(), 100);
        one.faults.insert(
            "torn_write".to_owned(),
            Fired {
                asked: true,
                possible: 9,
                fired: 2,
            },
        );
        let mut sum = Tally::default();
        sum.add(&one);
        sum.add(&one);
        assert_eq!(sum.crashes(), 6);
        assert_eq!(sum.by_status["ok"], 200);
        assert_eq!(sum.latency["put"].count(), 2);
        assert_eq!(
            sum.faults["torn_write"],
            Fired {
                asked: true,
                possible: 18,
                fired: 4
            }
        );
        assert!((sum.operations_per_second() - 100.0).abs() < f64::EPSILON);
    }

    /// Goal: what was counted elsewhere counts as if it had been here. Method: to JSON and back, then every quantile of the sum.
    #[test]
    fn times_survive_being_written_down() {
        let (mut one, mut other) = (Times::default(), Times::default());
        for at in 0..2_000_u64 {
            one.record(at * at * 37);
            other.record(at * 911);
        }
        let text = serde_json::to_string(&other).expect("it can be written");
        let read: Times = serde_json::from_str(&text).expect("it can be read");
        let mut sum = one.clone();
        sum.add(&read);
        one.add(&other);
        for percent in 0..=100_u32 {
            let quantile = f64::from(percent) / 100.0;
            assert_eq!(sum.quantile_ns(quantile), one.quantile_ns(quantile));
        }
        assert_eq!((sum.count(), sum.max_ns()), (one.count(), one.max_ns()));
    }

    #[test]
    fn quantiles_never_exceed_the_longest() {
        let mut times = Times::default();
        for ns in [1_000, 2_000, 3_830_000] {
            times.record(ns);
        }
        assert_eq!(times.quantile_ns(0.99), times.max_ns());
        assert!(times.max_ns().abs_diff(3_830_000) < 4_000);
        assert_eq!(Times::default().max_ns(), 0);
    }
}
