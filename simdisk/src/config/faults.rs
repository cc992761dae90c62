//! `[faults]`: which liberties the device takes, by chance and by script.

use serde::{Deserialize, Serialize};

use super::{Cache, ConfigError, DeviceConfig, probability, wrong};
use crate::{FaultKind, OpId};
use kvsim_crash::{CrashBias, ranges};

/// One fault at one operation, beside those by chance: an entry of `[[faults.script]]`. A place or bit that is left out is drawn
/// from the seed; `persistent` and `written` left out are false.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedFault {
    /// The number of the device operation, from 0, counted over all process runs.
    pub op: u64,
    /// What affects it.
    pub kind: FaultKind,
    /// Where: the place a misdirection goes to, the byte that rots, the sector that becomes unreadable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_bytes: Option<u64>,
    /// Which bit of the byte rots, 0 to 7.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bit: Option<u8>,
    /// An error that stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent: Option<bool>,
    /// A failed write whose data reached the cache all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<bool>,
    /// The sectors of a failed write that reached the cache, as ascending indices within it; if empty, all or none as `written` says. In a
    /// file: pairs `[first, end)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "ranges")]
    pub sectors: Vec<u64>,
    /// The operations that a failed flush dropped; absent: drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<Vec<OpId>>,
}

impl ScriptedFault {
    /// A fault of which no more is said than its kind.
    #[must_use]
    pub const fn new(op: u64, kind: FaultKind) -> Self {
        ScriptedFault {
            op,
            kind,
            at_bytes: None,
            bit: None,
            persistent: None,
            written: None,
            sectors: Vec::new(),
            dropped: None,
        }
    }

    fn validate(&self, index: usize, device: &DeviceConfig) -> Result<(), ConfigError> {
        let field = |name: &str| format!("faults.script[{index}].{name}");
        if self.kind.is_of_a_cut() {
            let message = format!(
                "is `{}`, which belongs to power cuts and not to one operation",
                self.kind.name()
            );
            return wrong(&field("kind"), message);
        }
        if self.at_bytes.is_some_and(|at| at >= device.limit_bytes()) {
            return wrong(&field("at_bytes"), "lies beyond the end of the device");
        }
        let misdirects = matches!(
            self.kind,
            FaultKind::MisdirectedWrite | FaultKind::MisdirectedRead
        );
        let sector = u64::from(device.sector_bytes);
        if misdirects && self.at_bytes.is_some_and(|at| !at.is_multiple_of(sector)) {
            let message = format!("must be a multiple of the sector ({sector})");
            return wrong(&field("at_bytes"), message);
        }
        if self.bit.is_some_and(|bit| bit > 7) {
            return wrong(&field("bit"), "is from 0 to 7");
        }
        if !self.sectors.is_empty() && self.kind != FaultKind::WriteError {
            return wrong(&field("sectors"), "is for a fault of kind `write_error`");
        }
        if self.dropped.is_some() && self.kind != FaultKind::DirtyDropped {
            return wrong(&field("dropped"), "is for a fault of kind `dirty_dropped`");
        }
        Ok(())
    }
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
    /// Probability that a power cut tears: one persisted write or, as often, each of them by chance, where the device allows it.
    pub torn: f64,
    /// Probability that a torn write leaves garbage in one sector.
    pub garbage: f64,
    /// Probability that a torn write holds new bytes up to some point in one sector, and old ones after it.
    pub byte_tear: f64,
    /// Probability that a torn write leaves one sector that cannot be read until it is rewritten.
    pub torn_unreadable: f64,
    /// A read fails.
    pub read_error: f64,
    /// A write fails.
    pub write_error: f64,
    /// A flush fails.
    pub flush_error: f64,
    /// Probability that an error is persistent: the sector of a read fails until rewritten, that of a write for ever, a flush
    /// until the power is cycled.
    pub persistent: f64,
    /// Probability that a failed flush drops some or all of what it should have made durable, although later flushes succeed.
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
    /// The flush or write-through of this number is acknowledged and makes nothing durable, before the first power cut. It is no fault, so
    /// it excuses no loss: it asks whether anybody would notice if the guest had left it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<u64>,
    /// Faults at named operations, beside those by chance.
    pub script: Vec<ScriptedFault>,
}

impl Default for FaultConfig {
    fn default() -> Self {
        FaultConfig {
            loss: true,
            reorder: true,
            bias: CrashBias::default(),
            torn: 0.5,
            garbage: 0.0,
            byte_tear: 0.0,
            torn_unreadable: 0.0,
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
            left_out: None,
            script: Vec::new(),
        }
    }
}

impl FaultConfig {
    /// How likely a fault of this kind is at each opportunity; scripted ones aside, and without those of power cuts.
    #[must_use]
    pub fn probability(&self, kind: FaultKind) -> f64 {
        match kind {
            FaultKind::ReadError => self.read_error,
            FaultKind::WriteError => self.write_error,
            FaultKind::FlushError => self.flush_error,
            FaultKind::DirtyDropped => self.drop_dirty,
            FaultKind::NoSpace => self.no_space,
            FaultKind::FlushLie => self.flush_lie,
            FaultKind::LostWrite => self.lost_write,
            FaultKind::MisdirectedWrite => self.misdirected_write,
            FaultKind::MisdirectedRead => self.misdirected_read,
            FaultKind::StaleRead => self.stale_read,
            FaultKind::BitRot => self.bit_rot,
            FaultKind::LatentSectorError => self.latent_sector_error,
            _ => 0.0,
        }
    }

    /// The same power cuts, and of the rest nothing by chance and exactly this by script: how a recorded run is replayed and
    /// shrunk. Stalls are the timing's and stay as they are.
    #[must_use]
    pub fn scripted(&self, script: Vec<ScriptedFault>) -> FaultConfig {
        FaultConfig {
            loss: self.loss,
            reorder: self.reorder,
            bias: self.bias,
            torn: self.torn,
            garbage: self.garbage,
            byte_tear: self.byte_tear,
            torn_unreadable: self.torn_unreadable,
            drop_dirty: 0.0,
            script,
            ..FaultConfig::default()
        }
    }

    /// The kinds that this configuration asks for.
    #[must_use]
    pub fn asked(&self) -> Vec<FaultKind> {
        let by_chance = [
            (FaultKind::Loss, self.loss),
            (FaultKind::Reorder, self.loss && self.reorder),
            (FaultKind::Torn, self.torn > 0.0),
            (FaultKind::Garbage, self.torn > 0.0 && self.garbage > 0.0),
            (FaultKind::ByteTear, self.torn > 0.0 && self.byte_tear > 0.0),
            (
                FaultKind::TornUnreadable,
                self.torn > 0.0 && self.torn_unreadable > 0.0,
            ),
            // By chance it is the timing's.
            (FaultKind::Stall, false),
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

    /// Whether a read error may stay: what was written to that sector is as good as lost.
    #[must_use]
    pub fn read_errors_stay(&self) -> bool {
        let scripted =
            |it: &ScriptedFault| it.kind == FaultKind::ReadError && it.persistent == Some(true);
        self.persistent > 0.0 || self.script.iter().any(scripted)
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
            ("torn_unreadable", self.torn_unreadable),
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
        for (name, value) in [
            ("garbage", self.garbage),
            ("byte_tear", self.byte_tear),
            ("torn_unreadable", self.torn_unreadable),
        ] {
            if self.torn == 0.0 && value > 0.0 {
                return wrong(
                    &format!("faults.{name}"),
                    "affects torn writes only; give `faults.torn` a probability too",
                );
            }
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
        for (index, fault) in self.script.iter().enumerate() {
            fault.validate(index, device)?;
        }
        Ok(())
    }
}
