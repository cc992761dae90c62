//! What a device is and how it misbehaves: the `[device]` and `[faults]` tables of a scenario.
//!
//! Units are in the names; probabilities are from 0 to 1. Every field has a default; the default device is honest.

use serde::{Deserialize, Serialize};

use crate::FaultKind;

/// A value out of range or an impossible combination.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {message}")]
#[non_exhaustive]
pub struct ConfigError {
    /// Dotted path of the field, e.g. `device.sector_bytes`.
    pub field: String,
    /// What is wrong with it, and what would be right.
    pub message: String,
}

fn wrong<T>(field: &str, message: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError {
        field: field.to_owned(),
        message: message.into(),
    })
}

/// What a completed write is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cache {
    /// It is in a cache that a power cut empties.
    Volatile,
    /// There is no cache: it is durable.
    WriteThrough,
    /// There is a cache with capacitors behind it: it is durable.
    PowerLossProtected,
}

/// The `[device]` table: geometry, cache and timing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeviceConfig {
    /// Logical sector: 512 or 4096. The unit of addressing, and of atomicity unless byte tears are asked for.
    pub sector_bytes: u32,
    /// What the device rewrites internally; told to the guest. A multiple of the sector.
    pub physical_block_bytes: u32,
    /// Size at first power on, a multiple of the physical block.
    pub capacity_bytes: u64,
    /// How far it can grow; 0 for not at all.
    pub max_capacity_bytes: u64,
    /// What a completed write is worth.
    pub cache: Cache,
    /// Whether single writes can be written through a volatile cache (force unit access).
    pub fua: bool,
    /// Whether discard is supported.
    pub discard: bool,
    /// An aligned write up to this size is all or nothing; 0 for one sector (NVMe: AWUPF).
    pub atomic_write_bytes: u64,
    /// A write that crosses a multiple of this is not atomic; 0 for no boundary (NVMe: NABSPF).
    pub atomic_boundary_bytes: u64,
    /// Operations the device works on at once.
    pub queue_depth: u32,
    /// How long things take.
    pub timing: TimingConfig,
}

impl Default for DeviceConfig {
    fn default() -> Self {
        DeviceConfig {
            sector_bytes: 512,
            physical_block_bytes: 4096,
            capacity_bytes: 64 << 20,
            max_capacity_bytes: 0,
            cache: Cache::Volatile,
            fua: false,
            discard: true,
            atomic_write_bytes: 0,
            atomic_boundary_bytes: 0,
            queue_depth: 32,
            timing: TimingConfig::default(),
        }
    }
}

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
    /// Transfer rate of reads; 0 for no limit.
    pub read_bytes_per_second: u64,
    /// Transfer rate of writes; 0 for no limit.
    pub write_bytes_per_second: u64,
    /// One flush at a time: the next begins when the last has ended.
    pub serial_flush: bool,
    /// Completions come back in the order of submission.
    pub in_order: bool,
    /// Probability that an operation stalls.
    pub stall: f64,
    /// How long a stall is, on top.
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

/// How a random power cut chooses what survives: the relative weights of the ways to choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CrashBias {
    /// Nothing that is not durable.
    pub none: u32,
    /// Everything.
    pub all: u32,
    /// Everything but one write.
    pub all_but_one: u32,
    /// One write alone.
    pub one: u32,
    /// The writes up to some point, in order of submission.
    pub prefix: u32,
    /// Each write on the toss of a coin.
    pub subset: u32,
}

impl Default for CrashBias {
    fn default() -> Self {
        CrashBias {
            none: 2,
            all: 2,
            all_but_one: 2,
            one: 2,
            prefix: 2,
            subset: 5,
        }
    }
}

/// One fault at one operation, in place of chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedFault {
    /// The number of the device operation, from 0, counted over all incarnations.
    pub op: u64,
    /// What befalls it.
    pub kind: FaultKind,
}

/// The `[faults]` table: which liberties the device takes. Probabilities are per operation unless stated otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultConfig {
    /// A power cut may lose what is not durable.
    pub loss: bool,
    /// A power cut may keep a later write and lose an earlier one, and apply overlapping ones in any order.
    pub reorder: bool,
    /// How a power cut chooses what survives.
    pub bias: CrashBias,
    /// Probability that a surviving write that is not durable is torn, where the device allows it.
    pub torn: f64,
    /// Probability that a torn write leaves garbage in one sector.
    pub garbage: f64,
    /// Probability that a torn write tears one sector in the middle.
    pub byte_tear: f64,
    /// A read fails.
    pub read_error: f64,
    /// A write fails.
    pub write_error: f64,
    /// A flush fails.
    pub flush_error: f64,
    /// Probability that a read or write error is persistent: the sectors stay bad (for reads: until rewritten).
    pub persistent: f64,
    /// Probability that a failed flush drops what it should have made durable, although later flushes succeed.
    pub drop_dirty: f64,
    /// A write or growth finds no space.
    pub no_space: f64,
    /// A flush is acknowledged and does nothing.
    pub flush_lie: f64,
    /// A write is acknowledged and never happens.
    pub lost_write: f64,
    /// A write lands elsewhere.
    pub misdirected_write: f64,
    /// A read returns another place.
    pub misdirected_read: f64,
    /// A read returns what was there before the last overwrite.
    pub stale_read: f64,
    /// A bit of some written sector flips on the medium. Per write.
    pub bit_rot: f64,
    /// Some written sector becomes unreadable until it is rewritten. Per write.
    pub latent_sector_error: f64,
    /// Errors and lies begin with this operation, so that a database can be made first.
    pub after_op: u64,
    /// Errors and lies end after so many have fired; 0 for never.
    pub max_fired: u64,
    /// Faults at named operations, beside those by chance.
    pub script: Vec<ScriptedFault>,
}

impl Default for FaultConfig {
    fn default() -> Self {
        FaultConfig {
            loss: true,
            reorder: true,
            bias: CrashBias::default(),
            torn: 0.3,
            garbage: 0.0,
            byte_tear: 0.0,
            read_error: 0.0,
            write_error: 0.0,
            flush_error: 0.0,
            persistent: 0.0,
            drop_dirty: 0.5,
            no_space: 0.0,
            flush_lie: 0.0,
            lost_write: 0.0,
            misdirected_write: 0.0,
            misdirected_read: 0.0,
            stale_read: 0.0,
            bit_rot: 0.0,
            latent_sector_error: 0.0,
            after_op: 0,
            max_fired: 0,
            script: Vec::new(),
        }
    }
}

impl DeviceConfig {
    /// How far the device can grow, at least its capacity.
    #[must_use]
    pub fn limit_bytes(&self) -> u64 {
        self.max_capacity_bytes.max(self.capacity_bytes)
    }

    /// Checks ranges and combinations.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let sector = u64::from(self.sector_bytes);
        if sector != 512 && sector != 4096 {
            return wrong(
                "device.sector_bytes",
                format!("is {sector}; a sector has 512 or 4096 bytes"),
            );
        }
        let block = u64::from(self.physical_block_bytes);
        if !block.is_power_of_two() || block < sector || block > 65_536 {
            let message = format!("is {block}; a power of two from the sector ({sector}) to 65536");
            return wrong("device.physical_block_bytes", message);
        }
        if self.capacity_bytes == 0
            || !self.capacity_bytes.is_multiple_of(block)
            || self.capacity_bytes > 1 << 40
        {
            let message = format!(
                "is {}; a multiple of the physical block ({block}) up to 1 TiB",
                self.capacity_bytes
            );
            return wrong("device.capacity_bytes", message);
        }
        let max = self.max_capacity_bytes;
        if max != 0 && (max < self.capacity_bytes || !max.is_multiple_of(block) || max > 1 << 40) {
            let message = format!(
                "is {max}; 0, or a multiple of {block} from the capacity ({}) to 1 TiB",
                self.capacity_bytes
            );
            return wrong("device.max_capacity_bytes", message);
        }
        for (field, value) in [
            ("atomic_write_bytes", self.atomic_write_bytes),
            ("atomic_boundary_bytes", self.atomic_boundary_bytes),
        ] {
            if !value.is_multiple_of(sector) {
                return wrong(
                    &format!("device.{field}"),
                    format!("is {value}; a multiple of the sector ({sector})"),
                );
            }
        }
        if !(1..=65_536).contains(&self.queue_depth) {
            return wrong(
                "device.queue_depth",
                format!("is {}; from 1 to 65536", self.queue_depth),
            );
        }
        self.timing.validate()
    }
}

impl TimingConfig {
    fn validate(&self) -> Result<(), ConfigError> {
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

fn probability(field: &str, value: f64) -> Result<(), ConfigError> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    wrong(
        field,
        format!("is {value}; a probability is from 0.0 to 1.0"),
    )
}

impl FaultConfig {
    /// The kinds that this configuration asks for.
    #[must_use]
    pub fn asked(&self) -> Vec<FaultKind> {
        let by_chance = [
            (FaultKind::Loss, self.loss),
            (FaultKind::Reorder, self.loss && self.reorder),
            (FaultKind::Torn, self.torn > 0.0),
            (FaultKind::Garbage, self.torn > 0.0 && self.garbage > 0.0),
            (FaultKind::ByteTear, self.torn > 0.0 && self.byte_tear > 0.0),
            (FaultKind::ReadError, self.read_error > 0.0),
            (FaultKind::WriteError, self.write_error > 0.0),
            (FaultKind::FlushError, self.flush_error > 0.0),
            (
                FaultKind::DirtyDropped,
                self.flush_error > 0.0 && self.drop_dirty > 0.0,
            ),
            (FaultKind::NoSpace, self.no_space > 0.0),
            (FaultKind::FlushLie, self.flush_lie > 0.0),
            (FaultKind::LostWrite, self.lost_write > 0.0),
            (FaultKind::MisdirectedWrite, self.misdirected_write > 0.0),
            (FaultKind::MisdirectedRead, self.misdirected_read > 0.0),
            (FaultKind::StaleRead, self.stale_read > 0.0),
            (FaultKind::BitRot, self.bit_rot > 0.0),
            (FaultKind::LatentSectorError, self.latent_sector_error > 0.0),
        ];
        let scripted = |kind| self.script.iter().any(|fault| fault.kind == kind);
        by_chance
            .into_iter()
            .filter(|&(kind, asked)| asked || scripted(kind))
            .map(|(kind, _)| kind)
            .collect()
    }

    /// Checks ranges and combinations against the device.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn validate(&self, device: &DeviceConfig) -> Result<(), ConfigError> {
        let all = [
            ("torn", self.torn),
            ("garbage", self.garbage),
            ("byte_tear", self.byte_tear),
            ("read_error", self.read_error),
            ("write_error", self.write_error),
            ("flush_error", self.flush_error),
            ("persistent", self.persistent),
            ("drop_dirty", self.drop_dirty),
            ("no_space", self.no_space),
            ("flush_lie", self.flush_lie),
            ("lost_write", self.lost_write),
            ("misdirected_write", self.misdirected_write),
            ("misdirected_read", self.misdirected_read),
            ("stale_read", self.stale_read),
            ("bit_rot", self.bit_rot),
            ("latent_sector_error", self.latent_sector_error),
        ];
        for (name, value) in all {
            probability(&format!("faults.{name}"), value)?;
        }
        if device.cache != Cache::Volatile && self.flush_lie > 0.0 {
            let message = "is asked of a device whose flush has nothing to do; it needs device.cache = \"volatile\"";
            return wrong("faults.flush_lie", message);
        }
        if self.torn == 0.0 && (self.garbage > 0.0 || self.byte_tear > 0.0) {
            let field = if self.garbage > 0.0 {
                "faults.garbage"
            } else {
                "faults.byte_tear"
            };
            return wrong(
                field,
                "befalls torn writes only; give `faults.torn` a probability too",
            );
        }
        let CrashBias {
            none,
            all,
            all_but_one,
            one,
            prefix,
            subset,
        } = self.bias;
        let weights = [none, all, all_but_one, one, prefix, subset];
        if self.loss && weights.iter().map(|&weight| u64::from(weight)).sum::<u64>() == 0 {
            return wrong(
                "faults.bias",
                "has only weights of 0, so a power cut could choose nothing",
            );
        }
        if let Some(fault) = self.script.iter().find(|fault| !scriptable(fault.kind)) {
            let message = format!(
                "names `{}`, which belongs to power cuts and not to one operation",
                fault.kind.name()
            );
            return wrong("faults.script", message);
        }
        Ok(())
    }
}

/// Whether a kind of fault befalls one operation, and so can be scripted.
fn scriptable(kind: FaultKind) -> bool {
    use FaultKind::{ByteTear, CutInFlush, Garbage, Loss, Reorder, Torn};
    !matches!(
        kind,
        Loss | Reorder | Torn | Garbage | ByteTear | CutInFlush
    )
}
