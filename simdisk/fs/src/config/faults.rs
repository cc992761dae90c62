//! `[files.faults]`: which liberties the file system takes, by chance and by script.

use kvsim_crash::config::{probability, wrong};
use kvsim_crash::{ConfigError, CrashBias};
use serde::{Deserialize, Serialize};

use crate::FileFault;

/// One fault at one call: an entry of `[[files.faults.script]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedFileFault {
    /// The number of the call, from 0, counted over all process runs.
    pub op: u64,
    /// What affects it.
    pub kind: FileFault,
    /// For short reads and writes: how many bytes are moved. For bit rot: which byte of all bytes on the medium. Absent: drawn from the seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Which bit of the byte rots, 0 to 7. Absent: drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bit: Option<u8>,
}

impl ScriptedFileFault {
    /// A fault of which no more is said than its kind.
    #[must_use]
    pub const fn new(op: u64, kind: FileFault) -> Self {
        ScriptedFileFault {
            op,
            kind,
            bytes: None,
            bit: None,
        }
    }
}

/// The `[files.faults]` table. Probabilities are per call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FileFaults {
    /// A power cut may lose what is not durable.
    pub loss: bool,
    /// How a random power cut chooses what persists.
    pub bias: CrashBias,
    /// Probability that a power cut tears pages, where the profile allows it.
    pub torn: f64,
    /// Probability that a torn page holds new bytes up to some point in one sector, and old ones after it.
    pub byte_tear: f64,
    /// A sync fails. What that leaves is the profile's.
    pub sync_error: f64,
    /// A sync finds no space. It leaves what a failed sync leaves.
    pub no_space_sync: f64,
    /// A write finds no space.
    pub no_space_write: f64,
    /// An allocation finds no space.
    pub no_space_allocate: f64,
    /// A read fails.
    pub read_error: f64,
    /// A read gives fewer bytes than there are.
    pub short_read: f64,
    /// A write takes fewer bytes than it was given.
    pub short_write: f64,
    /// A bit of the medium flips. Per sync.
    pub bit_rot: f64,
    /// A sync says that it has worked and does nothing.
    pub sync_lie: f64,
    /// Errors and lies begin with this call, so that a database can be made first.
    pub after_op: u64,
    /// Errors and lies end after so many; 0 for never.
    pub max_fired: u64,
    /// Faults at named calls, beside those by chance.
    pub script: Vec<ScriptedFileFault>,
}

impl Default for FileFaults {
    fn default() -> Self {
        FileFaults {
            loss: true,
            bias: CrashBias::default(),
            torn: 0.5,
            byte_tear: 0.0,
            sync_error: 0.0,
            no_space_sync: 0.0,
            no_space_write: 0.0,
            no_space_allocate: 0.0,
            read_error: 0.0,
            short_read: 0.0,
            short_write: 0.0,
            bit_rot: 0.0,
            sync_lie: 0.0,
            after_op: 0,
            max_fired: 0,
            script: Vec::new(),
        }
    }
}

impl FileFaults {
    /// How likely a fault of this kind is at each opportunity; without scripted ones and those of power cuts.
    #[must_use]
    pub fn probability(&self, kind: FileFault) -> f64 {
        match kind {
            FileFault::SyncError => self.sync_error,
            FileFault::NoSpaceSync => self.no_space_sync,
            FileFault::NoSpaceWrite => self.no_space_write,
            FileFault::NoSpaceAllocate => self.no_space_allocate,
            FileFault::ReadError => self.read_error,
            FileFault::ShortRead => self.short_read,
            FileFault::ShortWrite => self.short_write,
            FileFault::BitRot => self.bit_rot,
            FileFault::SyncLie => self.sync_lie,
            FileFault::Loss
            | FileFault::Reorder
            | FileFault::Torn
            | FileFault::ByteTear
            | FileFault::CutInSync => 0.0,
        }
    }

    /// The same power cuts, and of the rest nothing by chance and exactly this by script: how a recorded run is replayed and made smaller.
    #[must_use]
    pub fn scripted(&self, script: Vec<ScriptedFileFault>) -> FileFaults {
        FileFaults {
            loss: self.loss,
            bias: self.bias,
            torn: self.torn,
            byte_tear: self.byte_tear,
            script,
            ..FileFaults::default()
        }
    }

    /// The kinds that this configuration asks for.
    #[must_use]
    pub fn asked(&self) -> Vec<FileFault> {
        let of_a_cut = |kind| match kind {
            FileFault::Loss | FileFault::Reorder => self.loss,
            FileFault::Torn => self.torn > 0.0,
            FileFault::ByteTear => self.byte_tear > 0.0,
            _ => false,
        };
        let scripted = |kind| self.script.iter().any(|fault| fault.kind == kind);
        let asked =
            |kind: &FileFault| of_a_cut(*kind) || self.probability(*kind) > 0.0 || scripted(*kind);
        FileFault::ALL.into_iter().filter(asked).collect()
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        probability("files.faults.torn", self.torn)?;
        probability("files.faults.byte_tear", self.byte_tear)?;
        if self.torn == 0.0 && self.byte_tear > 0.0 {
            let message = "affects torn pages only; give `files.faults.torn` a probability too";
            return wrong("files.faults.byte_tear", message);
        }
        for kind in FileFault::ALL {
            let field = format!("files.faults.{}", kind.name());
            probability(&field, self.probability(kind))?;
        }
        let CrashBias {
            none,
            all,
            all_but_one,
            one,
            prefix,
            subset,
        } = self.bias;
        if self.loss && [none, all, all_but_one, one, prefix, subset] == [0; 6] {
            let message = "has only weights of 0, so a power cut could choose nothing";
            return wrong("files.faults.bias", message);
        }
        for (index, fault) in self.script.iter().enumerate() {
            let field = |name: &str| format!("files.faults.script[{index}].{name}");
            if fault.kind.is_of_a_cut() {
                let kind = fault.kind.name();
                let message =
                    format!("is `{kind}`, which belongs to power cuts and not to one call");
                return wrong(&field("kind"), message);
            }
            if fault.bit.is_some_and(|bit| bit > 7) {
                return wrong(&field("bit"), "is from 0 to 7");
            }
            let is_short = matches!(fault.kind, FileFault::ShortRead | FileFault::ShortWrite);
            if fault.bytes.is_some() && !is_short && fault.kind != FileFault::BitRot {
                let message = "is for faults of kind `short_read`, `short_write` and `bit_rot`";
                return wrong(&field("bytes"), message);
            }
            if is_short && fault.bytes == Some(0) {
                let message = "is 0; a short read or write moves at least one byte";
                return wrong(&field("bytes"), message);
            }
        }
        Ok(())
    }
}
