//! What is checked, and how much of it: the scenario's `[check]` table.

use serde::{Deserialize, Serialize};

/// The scenario's `[check]` table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckConfig {
    /// After a recovery the whole key space is read if it has at most so many keys. Beyond, every key written since the last
    /// recovery is read, and a window of so many keys that moves on with every recovery.
    pub scan_keys_max: u64,
    /// Every so many recoveries the scan is repeated in reverse (1: each time, 0: never).
    pub reverse_scan_every: u64,
    /// So many keys are also read one by one, deleted ones included; which ones moves on with every recovery.
    pub gets_max: u64,
    /// Entries asked for in one scan request of the verification.
    pub page_entries: u32,
    /// Bytes asked for in one scan request of the verification.
    pub page_bytes: u32,
    /// Relaxed writes acknowledged longer than this before a crash must survive it. Absent: what the guest states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relaxed_window_ns: Option<u64>,
    /// Slack granted on top of that window, beside four times the longest operation of the device since the write.
    pub relaxed_slack_ns: u64,
}

impl Default for CheckConfig {
    fn default() -> Self {
        CheckConfig {
            scan_keys_max: 4_096,
            reverse_scan_every: 4,
            gets_max: 32,
            page_entries: 1_024,
            page_bytes: 4 << 20,
            relaxed_window_ns: None,
            relaxed_slack_ns: 0,
        }
    }
}

impl CheckConfig {
    /// Whether the fields make sense.
    ///
    /// # Errors
    /// The name of the field that does not, and what is wrong with it.
    pub fn validate(&self) -> Result<(), (&'static str, String)> {
        if self.scan_keys_max == 0 {
            return Err(("scan_keys_max", "must be at least 1".into()));
        }
        if self.page_entries == 0 {
            return Err(("page_entries", "must be at least 1".into()));
        }
        if self.page_bytes == 0 {
            return Err(("page_bytes", "must be at least 1".into()));
        }
        Ok(())
    }
}
