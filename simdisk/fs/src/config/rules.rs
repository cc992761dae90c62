//! The rules of a persistence profile: which sets of steps may have reached the disk. Few, and each for itself.

use serde::{Deserialize, Serialize};

/// Which steps become durable in the order of the calls that made them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOrder {
    /// None: each step stands for itself.
    None,
    /// Changes of names, truncations, allocations and times: one journal of metadata.
    Metadata,
    /// All steps, data too: whole transaction groups, or a journal of data.
    Everything,
}

/// What a sync makes durable beside the steps of its own file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncCommits {
    /// All that is ordered before them: the journal up to there.
    WhatIsBefore,
    /// The names of the file and of the directories above it, and nothing else that is ordered before: a log beside the transaction.
    OwnNames,
    /// All changes of names and other metadata that were made before, but no data of other files: an intent log.
    AllNames,
}

/// How far a sync reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// The medium: what it covers is durable.
    Medium,
    /// The drive's volatile cache: a power cut may lose it, in any order that the other rules allow.
    Drive,
}

/// When a step is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DurableAt {
    /// When something makes it durable.
    Sync,
    /// At once: nothing is ever lost.
    Write,
}

/// What the pages are marked as that a failed sync could not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailedPages {
    /// Clean: no later sync writes them.
    Clean,
    /// Dirty: the next sync tries again.
    Dirty,
}

/// What reads see of the pages that a failed sync could not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailedContent {
    /// What was written.
    Kept,
    /// What was there before.
    PutBack,
}

/// Which sync reports that data could not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reported {
    /// The one that failed, and no other.
    AtOnce,
    /// The next one of the same file. The one that failed says nothing.
    NextSync,
}

/// What becomes of the metadata of a file whose data a sync could not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailedMetadata {
    /// It becomes durable: the file has its new size, and zeros or old bytes where the data should be.
    Persisted,
    /// It stays pending.
    Pending,
}

/// What a block shows that was allocated and whose data are not written yet. The names in a file of rules are `none`, `noise` and `given_up`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StaleContents {
    /// What one of the blocks held that files have given up since the last power cut; noise if there are none.
    GivenUp,
    /// Noise.
    Noise,
    /// Nothing but zeros: it is allocated when its data are written.
    None,
}

/// `after_failed_fsync`: what a failed sync leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AfterFailedSync {
    /// How the pages are marked.
    pub pages: FailedPages,
    /// What reads see.
    pub content: FailedContent,
    /// Which sync reports it.
    pub reported: Reported,
    /// What becomes of sizes and names.
    pub metadata: FailedMetadata,
}

/// A persistence profile's table. Every field must be given: a profile says all that it means.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// When a step is durable.
    pub durable_at: DurableAt,
    /// Which steps become durable in the order of calls.
    pub call_order: CallOrder,
    /// What a sync makes durable beside the steps of its own file or directory.
    pub sync_commits: SyncCommits,
    /// How far a sync reaches.
    pub fsync_reaches: Reach,
    /// A sync of a file makes its names durable too.
    pub fsync_file_persists_entry: bool,
    /// A rename of a file is one step. Without it the end of what is replaced, the new name, and the end of the old name are three. A
    /// directory's rename is always one.
    pub rename_atomic: bool,
    /// A rename over an existing file is durable only after the data of the file that is renamed.
    pub rename_over_flushes: bool,
    /// When a file is closed whose size was set to 0, its data come before any later metadata.
    pub close_after_truncate_flushes: bool,
    /// A write that makes a file longer enters its size into the journal when its pages are written back: after all that was called before, and
    /// before nothing that is called later.
    pub delayed_allocation: bool,
    /// A size that a write has made is durable only after the data up to there.
    pub data_before_size: bool,
    /// What a block shows that was allocated and whose data are not written yet.
    pub stale_contents: StaleContents,
    /// A block shows its first data all at once, or zeros: it is marked as written when all of its data are.
    pub unwritten_extents: bool,
    /// After a truncation, the bytes behind the new end are zeroed before the file grows again.
    pub zero_tail: bool,
    /// A page that is overwritten in place can be torn between sectors.
    pub torn_page: bool,
    /// A sync writes a commit of the journal if there is metadata to write. It prices syncs, and changes no state.
    pub journal_commit: bool,
    /// What a failed sync leaves behind.
    pub after_failed_fsync: AfterFailedSync,
}
