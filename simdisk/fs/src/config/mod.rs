//! What a file system is and how it misbehaves: the `[files]` table of a scenario.
//!
//! Units are in the names; probabilities are from 0 to 1. Every field has a default.

mod faults;
mod profile;
mod rules;

pub use faults::{FileFaults, ScriptedFileFault};
pub use profile::Profile;
pub use rules::{
    AfterFailedSync, CallOrder, DurableAt, FailedContent, FailedMetadata, FailedPages, Reach,
    Reported, Rules, StaleContents, SyncCommits,
};

use kvsim_crash::config::wrong;
use kvsim_crash::{ConfigError, Nanos, TimingConfig};
use serde::{Deserialize, Serialize};

use crate::tree::node::PAGE_BYTES;

/// The most that a file may be allowed to have: 1 TiB.
const FILE_BYTES_LIMIT: u64 = 1 << 40;

/// What an allocated block shows before its data are there, where the profile allows that it shows anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StaleBlocks {
    /// What one of the blocks held that files have given up since the last power cut; noise if there are none.
    GivenUp,
    /// Noise.
    Noise,
}

/// Syncs that do nothing and say that they have worked, by the place in the engine's code that makes them. This is no fault, so it excuses no loss:
/// it asks whether anybody notices if the engine leaves them out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOutSyncs {
    /// The place, in 16 hexadecimal digits, as the host of the engine counts places and `kvsim syncs` prints them.
    pub place: String,
    /// Of the syncs of this place only the n-th, counted from 0 over all process runs; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nth: Option<u64>,
}

impl LeftOutSyncs {
    /// The number of the place; nothing if these are not 16 hexadecimal digits.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        let is_digits =
            self.place.len() == 16 && self.place.bytes().all(|it| it.is_ascii_hexdigit());
        is_digits.then(|| u64::from_str_radix(&self.place, 16).ok())?
    }
}

/// The `[files]` table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FileConfig {
    /// The persistence profile: a name, or a table of rules.
    pub profile: Profile,
    /// Space for the data of all files, in whole pages of 4,096 bytes. 0 for no limit but that of memory, 1 GiB; what is free is then no part of a state.
    pub capacity_bytes: u64,
    /// The largest size of a file.
    pub file_bytes_max: u64,
    /// How many files may be open at once, the root directory aside.
    pub open_files_max: u32,
    /// Background write-back: when more steps are pending, the oldest become durable, with what they need.
    pub pending_steps_max: u32,
    /// What an allocated block shows before its data are there, where the profile allows that it shows anything; as the profile says if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_blocks: Option<StaleBlocks>,
    /// What each call takes, beside the device.
    pub call_ns: Nanos,
    /// Syncs that the host leaves out; none if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOutSyncs>,
    /// The faults.
    pub faults: FileFaults,
    /// The device's timing, which prices reads, writes and syncs.
    pub timing: TimingConfig,
}

impl Default for FileConfig {
    fn default() -> Self {
        FileConfig {
            profile: Profile::default(),
            capacity_bytes: 0,
            file_bytes_max: 1 << 36,
            open_files_max: 1024,
            pending_steps_max: 1 << 12,
            stale_blocks: None,
            call_ns: 1_000,
            left_out: None,
            faults: FileFaults::default(),
            timing: TimingConfig::default(),
        }
    }
}

impl FileConfig {
    /// Defaults, with this profile.
    #[must_use]
    pub fn with_profile(name: &str) -> Self {
        FileConfig {
            profile: Profile::Named(name.to_owned()),
            ..FileConfig::default()
        }
    }

    /// Checks ranges and names, and gives the rules of the profile.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn validate(&self) -> Result<Rules, ConfigError> {
        let rules = self.profile.rules()?;
        if !self.capacity_bytes.is_multiple_of(PAGE_BYTES) {
            let message = format!("must be a multiple of the page ({PAGE_BYTES})");
            return wrong("files.capacity_bytes", message);
        }
        if self.file_bytes_max > FILE_BYTES_LIMIT {
            return wrong("files.file_bytes_max", "is more than 1 TiB");
        }
        if self.open_files_max == 0 {
            return wrong("files.open_files_max", "is 0; an engine needs at least one");
        }
        if self.pending_steps_max < 16 {
            return wrong("files.pending_steps_max", "is less than 16");
        }
        let left_out = self.left_out.as_ref();
        if left_out.is_some_and(|it| it.number().is_none()) {
            let message = "must be 16 hexadecimal digits, as `kvsim syncs` prints them";
            return wrong("files.left_out.place", message);
        }
        self.faults.validate()?;
        self.timing.validate("files.timing")?;
        Ok(rules)
    }
}
