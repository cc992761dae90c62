//! `[device]`: geometry, cache, atomicity, queue.

use serde::{Deserialize, Serialize};

use super::{ConfigError, TimingConfig, wrong};

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

/// What a flush is worth on a device with a volatile cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlushKind {
    /// What it covers is durable.
    Durable,
    /// What it covers only reaches the medium before what is submitted after it: it is a barrier.
    Barrier,
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
    /// Whether there is a barrier, an operation that orders and makes nothing durable.
    pub barrier: bool,
    /// What a flush is worth.
    pub flush: FlushKind,
    /// How much a volatile cache holds; what is more is made durable by the device itself, the oldest first. 0 for no limit.
    pub cache_bytes: u64,
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
            barrier: false,
            flush: FlushKind::Durable,
            cache_bytes: 0,
            atomic_write_bytes: 0,
            atomic_boundary_bytes: 0,
            queue_depth: 32,
            timing: TimingConfig::default(),
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
        if self.cache != Cache::Volatile {
            let only = [
                ("barrier", self.barrier),
                ("flush", self.flush == FlushKind::Barrier),
                ("cache_bytes", self.cache_bytes > 0),
            ];
            if let Some((field, _)) = only.into_iter().find(|(_, asked)| *asked) {
                let message =
                    "is of a volatile cache; set device.cache = \"volatile\", or leave it out";
                return wrong(&format!("device.{field}"), message);
            }
        }
        if !(1..=65_536).contains(&self.queue_depth) {
            return wrong(
                "device.queue_depth",
                format!("is {}; from 1 to 65536", self.queue_depth),
            );
        }
        self.timing.validate("device.timing")
    }
}
